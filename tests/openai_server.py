"""An OpenAI-compatible server on 127.0.0.1 whose replies are scripted by the last message.

And how tests put requests to a world model.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from trajkit.worldmodel import Completion, Request, Sampling, WorldModel


@dataclass(frozen=True)
class Reply:
    """What one call gets."""

    content: str | None = "done"
    thoughts: dict[str, str] | None = None
    """The field of the message that holds thoughts, with its text."""
    finish_reason: str = "stop"
    status: int = 200
    error: str = "scripted"
    retry_after: str | None = None
    delay_seconds: float = 0.0
    hang_up: bool = False
    """Whether the connection is closed without a word."""


class OpenAIServer:
    """Serves while the context is open.

    `replies` gives the replies to each prompt in turn, the last one for ever; any other prompt
    gets `echo PROMPT`.
    """

    def __init__(
        self, replies: dict[str, list[Reply]] | None = None, *, key: str = "", port: int = 0
    ) -> None:
        self.model = "my-model"
        self.bodies: list[dict[str, Any]] = []
        self.n_calls: Counter[str] = Counter()
        self.n_at_once = 0
        self.most_at_once = 0
        self.is_silent = False
        """Whether it takes connections and says nothing, as a machine that hangs."""
        self._replies = replies or {}
        self._key = key
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,))

    @property
    def port(self) -> int:
        return self._http.server_port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def spec(self) -> str:
        return f"{self.url}#{self.model}"

    @property
    def prompts(self) -> list[str]:
        """The last message of each call, in the order the calls came."""
        return [body["messages"][-1]["content"] for body in self.bodies]

    def __enter__(self) -> OpenAIServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends as if killed: nothing under way is answered, nor what old connections bring."""
        self._ending.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def _take(self, body: dict[str, Any]) -> Reply:
        with self._lock:
            prompt = body["messages"][-1]["content"]
            number = self.n_calls[prompt]
            self.n_calls[prompt] += 1
            self.bodies.append(body)
            script = self._replies.get(prompt, [Reply(content=f"echo {prompt}")])
            return script[min(number, len(script) - 1)]

    def _count(self, change: int) -> None:
        with self._lock:
            self.n_at_once += change
            self.most_at_once = max(self.most_at_once, self.n_at_once)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle(self) -> None:
                with suppress(ConnectionError):  # A caller that gave up may close at any time.
                    super().handle()

            def do_GET(self) -> None:
                if server.is_silent:
                    server._ending.wait(60)
                if self._allowed():
                    models = [{"id": server.model, "object": "model", "created": 0, "owned_by": ""}]
                    self._send(200, {"object": "list", "data": models})

            def do_POST(self) -> None:
                size = int(self.headers["Content-Length"])
                said = self.rfile.read(size)
                if len(said) < size:
                    return  # the client was killed in the middle of a request
                body = json.loads(said)
                if not self._allowed():
                    return
                if not self.path.endswith("/chat/completions"):
                    self._send(404, {"error": {"message": f"no {self.path} here"}})
                    return
                server._count(1)
                try:
                    reply = server._take(body)
                    server._ending.wait(reply.delay_seconds)
                finally:
                    server._count(-1)
                if reply.hang_up or server._ending.is_set():
                    self.close_connection = True
                elif reply.status != 200:
                    error = {"error": {"message": reply.error, "code": reply.status}}
                    self._send(reply.status, error, retry_after=reply.retry_after)
                else:
                    self._send(200, _completion(body, reply))

            def _allowed(self) -> bool:
                if not server._key or self.headers["Authorization"] == f"Bearer {server._key}":
                    return True
                self._send(401, {"error": {"message": f"not {self.headers['Authorization']}"}})
                return False

            def _send(self, status: int, body: object, *, retry_after: str | None = None) -> None:
                raw = json.dumps(body).encode()
                try:
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(raw)))
                    if retry_after is not None:
                        self.send_header("Retry-After", retry_after)
                    self.end_headers()
                    self.wfile.write(raw)
                except ConnectionError:
                    self.close_connection = True  # The caller gave up waiting.

            def log_message(self, *_: object) -> None:
                """Tests read standard error."""

        return Handler


def _completion(body: dict[str, Any], reply: Reply) -> dict[str, Any]:
    message = {"role": "assistant", "content": reply.content} | (reply.thoughts or {})
    choice = {"index": 0, "message": message, "finish_reason": reply.finish_reason}
    return {
        "id": "x",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": body["model"],
        "system_fingerprint": "loopback-1",
        "choices": [choice],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
    }


def ask(key: str, content: str | None = None, **sampling: float) -> Request:
    messages = (
        {"role": "system", "content": "You are a terminal."},
        {"role": "user", "content": key if content is None else content},
    )
    return Request(key=key, messages=messages, sampling=Sampling(**sampling))  # type: ignore[arg-type]


def by_key(model: WorldModel, *requests: Request) -> dict[str, Completion]:
    """What became of each request; exactly one completion each."""
    completions = list(model.generate(requests))
    joined = {completion.key: completion for completion in completions}
    assert len(joined) == len(completions) == len(requests)
    return joined
