"""A model behind OpenAI-compatible servers: vLLM, SGLang, or what speaks like them."""

from __future__ import annotations

import asyncio
import queue
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from threading import Thread
from typing import Any, TypeVar

from trajkit.errors import TrajkitError
from trajkit.worldmodel.protocol import Completion, PatternField, Request, Scored, Scoring
from trajkit.worldmodel.reasoning import asks_nothing, failed, judged, opened_by, split_reasoning
from trajkit.worldmodel.scoring import border, scored, spoken, unscored
from trajkit.worldmodel.servers import CallError, Server, Servers

_TAIL_TOKENS = 8
"""More than any chat template takes to open or close the thoughts."""
_A = TypeVar("_A", Request, Scoring)
_S = TypeVar("_S", Completion, Scored)
_T = TypeVar("_T")


class HTTPWorldModel:
    """One or many servers of one model, asked by up to `concurrency` requests at a time.

    Answers are yielded as they come, each request goes to the least busy server. Status 408, 409,
    429, 5xx and lost connections are tried again with growing waits, `max_retries` times, then
    counted as `call_failed`. A server that takes no connection, or fails three times in a row, is
    set aside; its work moves to the others, and it is used again when it is back. When all are
    dead they are waited for as long as all retries of a request would take. A time-out is counted
    at once: the same prompt would take as long again. Any other 4xx is `refused_by_server`, or
    `prompt_too_long` when the server says so.

    Scoring and counting need the token interface of vLLM (`/tokenize`, `prompt_logprobs`);
    elsewhere a score is `refused_by_server` and a count unknown.

    The key is read from TRAJKIT_API_KEY; it is never written anywhere.
    """

    def __init__(
        self,
        urls: Sequence[str],
        model: str,
        *,
        concurrency: int = 32,
        timeout_seconds: float = 600.0,
        max_retries: int = 8,
        max_model_len: int | None = None,
        pattern_field: PatternField = "structured_outputs",
    ) -> None:
        """Remember the servers; the first call looks whether they are there."""
        self.name = f"http:{model}"
        self.engine: str | None = None
        """The fingerprint that a server gives itself, null when it gives none."""
        self._urls = tuple(urls)
        self._model = model
        self._concurrency = concurrency
        self._timeout = timeout_seconds
        self._max_retries = max_retries
        self._max_model_len = max_model_len
        self._pattern_field = pattern_field
        self._tails: dict[tuple[int, ...], bool | None] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        self._servers: Servers | None = None

    @property
    def max_model_len(self) -> int | None:
        """The limit given, else the smallest that a server names."""
        if self._max_model_len is None:
            limits = [server.max_model_len for server in self._start().all]
            self._max_model_len = min((limit for limit in limits if limit), default=None)
        return self._max_model_len

    def count_tokens(self, messages: Iterable[Mapping[str, str]]) -> int | None:
        """Return how many tokens a prompt has; null where servers do not count.

        Raises TrajkitError when they should and do not answer: a prompt must not depend on that.
        """
        self._start()
        try:
            return len(self._submit(self._tokens(messages=_plain(messages))).result())
        except CallError as error:
            if error.failure == "refused_by_server":
                return None
            what = f"cannot count the tokens of a prompt: {error.detail}"
            raise TrajkitError(self.name, what, "see that its servers answer") from None

    def generate(self, requests: Iterable[Request]) -> Iterator[Completion]:
        """Yield one completion for each request, as they finish."""
        return self._each(requests, self._answer)

    def score(self, scorings: Iterable[Scoring]) -> Iterator[Scored]:
        """Yield one log-probability for each text, as they finish."""
        return self._each(scorings, self._score)

    def close(self) -> None:
        """Close the connections and end the thread."""
        if self._loop is None or self._thread is None:
            return
        self._submit(self._end_calls()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._loop = self._thread = None

    def _each(
        self, source: Iterable[_A], ask: Callable[[_A], Coroutine[Any, Any, _S]]
    ) -> Iterator[_S]:
        """Yield what comes of each that is asked, `concurrency` of them under way."""
        self._start()
        waiting = iter(source)
        done: queue.SimpleQueue[Future[_S]] = queue.SimpleQueue()
        flying: set[Future[_S]] = set()
        more = True
        try:
            while more or flying:
                while more and len(flying) < self._concurrency:
                    one = next(waiting, None)
                    if one is None:
                        more = False
                        break
                    future = self._submit(ask(one))
                    flying.add(future)
                    future.add_done_callback(done.put)
                if flying:
                    future = done.get()
                    flying.discard(future)
                    yield future.result()
        finally:
            for future in flying:
                future.cancel()

    async def _end_calls(self) -> None:
        servers, self._servers = self._servers, None
        if servers is not None:
            await servers.close()
        calls = asyncio.all_tasks() - {asyncio.current_task()}
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    def _submit(self, work: Coroutine[Any, Any, _T]) -> Future[_T]:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _start(self) -> Servers:
        if self._servers is not None:
            return self._servers
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="trajkit-http", daemon=True)
        self._thread.start()
        try:
            return self._submit(self._open()).result()
        except BaseException:
            self.close()
            raise

    async def _open(self) -> Servers:
        self._servers = Servers(
            self._urls, self._model, timeout_seconds=self._timeout, max_retries=self._max_retries
        )
        await self._servers.open()
        return self._servers

    async def _answer(self, request: Request) -> Completion:
        if asks_nothing(request):
            return failed(request, "empty_prompt", "the last message says nothing")
        started = time.monotonic()
        try:
            reply = await self._reach().call(lambda server: self._chat(server, request))
        except CallError as error:
            seconds = time.monotonic() - started
            return failed(request, error.failure, error.detail, seconds=seconds)
        return self._read(request, reply, time.monotonic() - started)

    async def _score(self, scoring: Scoring) -> Scored:
        started = time.monotonic()
        try:
            head = await self._tokens(messages=_plain(scoring.messages))
            prefix = spoken(scoring.prefix, opened=await self._opened(head))
            before = await self._tokens(prompt=prefix, add_special_tokens=False)
            behind = await self._tokens(
                prompt=prefix + scoring.continuation, add_special_tokens=False
            )
            first = len(head) + border(before, behind)
            logprobs = await self._logprobs(head + behind, first)
        except CallError as error:
            seconds = time.monotonic() - started
            return unscored(scoring, error.failure, error.detail, seconds=seconds)
        return scored(scoring, logprobs, time.monotonic() - started)

    def _reach(self) -> Servers:
        assert self._servers is not None
        return self._servers

    async def _chat(self, server: Server, request: Request) -> Any:
        sampling = request.sampling
        body: dict[str, Any] = {}
        if request.answer_pattern is not None and self._pattern_field != "none":
            pattern: Any = request.answer_pattern
            if self._pattern_field == "structured_outputs":
                pattern = {"regex": pattern}
            body[self._pattern_field] = pattern
        return await server.client.chat.completions.create(
            model=self._model,
            messages=_plain(request.messages),
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            max_tokens=sampling.max_tokens,
            seed=sampling.seed,
            extra_body=body or None,
        )

    async def _tokens(self, **of: Any) -> list[int]:
        """Return the tokens of a prompt or a text, as a server counts them."""
        reply = await self._post("/tokenize", **of)
        tokens = reply.get("tokens") if isinstance(reply, dict) else None
        if not isinstance(tokens, list):
            raise CallError("refused_by_server", "/tokenize gives no tokens")
        return tokens

    async def _opened(self, head: list[int]) -> bool | None:
        """Return whether the tokens of a prompt end inside thoughts."""
        tail = tuple(head[-_TAIL_TOKENS:])
        if tail not in self._tails:
            reply = await self._post("/detokenize", tokens=list(tail))
            self._tails[tail] = opened_by(str(reply.get("prompt", "")))
        return self._tails[tail]

    async def _post(self, path: str, **body: Any) -> Any:
        body["model"] = self._model
        return await self._reach().call(
            lambda server: server.client.post(server.root + path, cast_to=object, body=body)
        )

    async def _logprobs(self, token_ids: list[int], first: int) -> list[float]:
        """Return the log-probability of each token from `first` on, given those before it."""
        reply = await self._reach().call(
            lambda server: server.client.completions.create(
                model=self._model,
                prompt=token_ids,
                max_tokens=1,
                temperature=0.0,
                extra_body={"prompt_logprobs": 0},
            )
        )
        choice = reply.choices[0] if reply.choices else None
        places = getattr(choice, "prompt_logprobs", None)
        if not places or len(places) != len(token_ids):
            raise CallError("refused_by_server", "its replies hold no prompt_logprobs")
        return [
            place[str(token_id)]["logprob"]
            for token_id, place in zip(token_ids[first:], places[first:], strict=True)
        ]

    def _read(self, request: Request, reply: Any, seconds: float) -> Completion:
        self.engine = getattr(reply, "system_fingerprint", None) or self.engine
        if not reply.choices:
            return failed(request, "call_failed", "the reply holds no choice", seconds=seconds)
        choice = reply.choices[0]
        text = choice.message.content or ""
        # vLLM says `reasoning`; SGLang, and vLLM before 0.12, `reasoning_content`.
        reasoning = (
            getattr(choice.message, "reasoning", None)
            or getattr(choice.message, "reasoning_content", None)
            or None
        )
        if reasoning is None:
            reasoning, text = split_reasoning(text)
        return judged(
            request,
            text=text,
            reasoning=reasoning,
            finish_reason=choice.finish_reason,
            n_prompt_tokens=getattr(reply.usage, "prompt_tokens", None),
            n_completion_tokens=getattr(reply.usage, "completion_tokens", None),
            seconds=seconds,
        )


def _plain(messages: Iterable[Mapping[str, str]]) -> list[dict[str, str]]:
    return [dict(message) for message in messages]
