"""MCP transcripts: the JSON-RPC 2.0 messages between a client and a tool server, in order.

Defined by the Model Context Protocol; versions 2024-11-05 to 2026-07-28. A transcript is a file of
messages, one a line or in a list, bare or in envelopes `{"direction", "time", "message"}`; batches
(2025-03-26) are unpacked, and so is a text of server-sent events with messages in `data:`. A first
line `{"type": "session", "task", "agent", "server"}` may tell
what the protocol does not: the goal. A second such line, or a second `initialize`, opens another
episode of the file.

A `tools/call` request is an action; its response is found by id among the requests of the other
side, since both sides count on their own. Calls in flight together share one turn; steps keep the
order of the calls, whatever the order of the answers. A call that was never answered, or cancelled,
has no observation. The observation is what the client got: the text where the content is one text
part, the JSON text of the result otherwise (pictures, sound and binary resources replaced by
`<picture:N>` and listed in `media`), and the JSON text of the error where the protocol itself
refused. `error` names the channel: `is_error` (the tool failed) or `json_rpc_error`.
A call that became a task (2025-11-25) is answered by `tasks/result`, or by the result inside a
`tasks/get`; one that needs input first (`inputRequests`, 2026-07-28) by the answer to its
repetition, which is no action of its own: `meta.input_rounds` has what was asked and given.
Listed tools, over all pages, are the action space. Progress, logs and all other notifications are
no observations; `meta.methods` counts them.

Smallest shape: {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "f",
"arguments": {}}} and {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text":
"..."}]}}
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import orjson

from trajkit.adapters import Adapter
from trajkit.adapters.content import bytes_left_out
from trajkit.adapters.messages import call_text, observation_kind
from trajkit.ledger import Fate, Ledger
from trajkit.model import Origin, Record, Reject, Step, Trajectory, to_json_text

Side = Literal["client", "server"]
_Key = tuple[Side, str, str]
_EVENT_STREAM = re.compile(r"(?:(?:event|id|retry|):[^\n]*\n|\s)*data: ?(\{[^\n]*)")
_SERVER_ASKS = ("sampling/", "elicitation/", "roots/")


def detect(value: Any) -> bool:
    """Return whether a value is a JSON-RPC message, an envelope with one, or several of them."""
    if isinstance(value, str):
        first = _EVENT_STREAM.match(value)
        return first is not None and '"jsonrpc"' in first[1]
    if isinstance(value, list):
        return bool(value) and not isinstance(value[0], list) and detect(value[0])
    return isinstance(value, dict) and _message(value) is not None


def _message(value: dict[str, Any]) -> dict[str, Any] | None:
    message = value.get("message") if "direction" in value else value
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        return None
    return message if message.keys() & {"method", "result", "error"} else None


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the episodes of a file; a file without tool calls is a reject."""
    values = record.value if isinstance(record.value, list) else [record.value]
    if isinstance(record.value, str):
        values = _streamed(record.value)
    sessions = _sessions(values, record.ledger)
    if sum(session.n_messages for session in sessions) == 1:
        yield Reject(
            origin=record.origin,
            reason="single_protocol_message",
            message="one protocol message alone is no episode",
        )
        return
    for number, session in enumerate(sessions):
        origin = record.origin
        if len(sessions) > 1:
            origin = replace(origin, key=f"session[{number}]")
        if session.steps:
            yield session.trajectory(origin)
        else:
            yield Reject(
                origin=origin,
                reason="no_action",
                message="no message of the transcript calls a tool",
            )


def _streamed(text: str) -> list[Any]:
    """Return the messages of server-sent events; data that is no JSON is given as text."""
    values = []
    for event in re.split(r"(?:\r?\n){2,}", text):
        data = [
            line.removeprefix("data:").removeprefix(" ")
            for line in event.split("\n")
            if line.startswith("data:")
        ]
        if not data:
            continue
        try:
            values.append(orjson.loads("\n".join(data)))
        except ValueError:
            values.append("\n".join(data))
    return values


def _sessions(values: Iterable[Any], ledger: Ledger) -> list[_Session]:
    sessions = [_Session(ledger=ledger)]
    for event, value in _unpacked(values):
        ledger.left_out(event, "unknown_event")
        message = _message(value)
        opens = message is None and value.get("type") == "session"
        starts = message is not None and message.get("method") == "initialize"
        current = sessions[-1]
        if (opens and (current.header or current.n_messages)) or (starts and current.initialized):
            sessions.append(_Session(ledger=ledger))
        if opens:
            sessions[-1].header = value
            ledger.became(event, "context")
        elif message is not None:
            sessions[-1].add(message, value, event)
        else:
            current.n_unread += 1
    return sessions


def _unpacked(values: Iterable[Any]) -> Iterator[tuple[Hashable, dict[str, Any]]]:
    """Give the objects of a transcript, each with its place; what is none as an empty object."""
    for index, value in enumerate(values):
        direction = value.get("direction") if isinstance(value, dict) else None
        inner = value.get("message") if direction is not None else value
        for message in inner if isinstance(inner, list) else [inner]:
            if not isinstance(message, dict):
                yield index, {}
            elif direction is None:
                yield index, message
            else:
                enveloped = {"direction": direction, "time": value.get("time"), "message": message}
                yield index, enveloped


@dataclass(slots=True)
class _Session:
    """What one connection has said so far."""

    ledger: Ledger
    header: dict[str, Any] = field(default_factory=dict)
    started: str | None = None
    initialized: bool = False
    server: dict[str, Any] = field(default_factory=dict)
    client_name: str | None = None
    tools: dict[str, Any] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    methods: Counter[str] = field(default_factory=Counter)
    n_messages: int = 0
    n_unread: int = 0
    n_orphans: int = 0
    turn: int = -1
    waiting: dict[_Key, int | str] = field(default_factory=dict)
    tasks: dict[str, int] = field(default_factory=dict)
    needs_input: dict[int, dict[str, Any]] = field(default_factory=dict)
    input_rounds: list[dict[str, Any]] = field(default_factory=list)

    def add(self, message: dict[str, Any], value: dict[str, Any], event: Hashable) -> None:
        self.n_messages += 1
        time = value.get("time") if value is not message else None
        time = time if isinstance(time, str) else None
        self.started = self.started or time
        method = message.get("method")
        side = _side(value, message)
        if isinstance(method, str):
            self.methods[method] += 1
            params = message["params"] if isinstance(message.get("params"), dict) else {}
            if "id" in message:
                known = self._request(side or "client", method, params, message["id"], time)
                if known is None:
                    self.ledger.left_out(event, "other_request")
                else:
                    self.ledger.became(event, known)
            else:
                self.ledger.left_out(event, "notification")
            if "id" not in message and method == "notifications/cancelled":
                self._cancel(side, params.get("requestId"))
        else:
            fate = self._response(side, message, time)
            if fate is None:
                self.ledger.left_out(event, "other_response")
            else:
                self.ledger.became(event, fate)

    def _request(
        self, side: Side, method: str, params: dict[str, Any], id_: Any, time: str | None
    ) -> Fate | None:
        """Take a request; return what it is kept as."""
        key = _key(side, id_)
        self.waiting.pop(key, None)
        if method != "tools/call" or side != "client":
            of_task = self.tasks.get(str(params.get("taskId"))) if "taskId" in params else None
            asks_task = method in ("tasks/result", "tasks/get") and of_task is not None
            self.waiting[key] = of_task if asks_task and of_task is not None else method
            if method == "initialize":
                self.initialized = True
                client = params.get("clientInfo")
                self.client_name = client.get("name") if isinstance(client, dict) else None
                return "context"
            return None
        if (again := self._repeated(params)) is not None:
            self.waiting[key] = again
            return "context"
        if not any(isinstance(waits, int) for waits in self.waiting.values()):
            self.turn += 1
        name = params.get("name")
        name = name if isinstance(name, str) else None
        action, valid = call_text(name, params.get("arguments"))
        self.waiting[key] = len(self.steps)
        self.steps.append(
            Step(
                action=action,
                action_kind="tool_call",
                action_name=name,
                action_valid=valid and name is not None,
                turn=self.turn,
                call_id=str(id_),
                observation_kind="none",
                time=time,
            )
        )
        return "action"

    def _repeated(self, params: dict[str, Any]) -> int | None:
        """Return the step that a call with input repeats."""
        if not params.keys() & {"inputResponses", "requestState"}:
            return None
        for index, asked in self.needs_input.items():
            if asked.get("requestState") == params.get("requestState"):
                del self.needs_input[index]
                given = params.get("inputResponses")
                requests = asked.get("inputRequests")
                self.input_rounds.append({"step": index, "asked": requests, "given": given})
                return index
        return None

    def _cancel(self, side: Side | None, id_: Any) -> None:
        waits = self.waiting.pop(_key(side or "client", id_), None)
        if isinstance(waits, int):
            self.steps[waits] = replace(self.steps[waits], error="cancelled")

    def _response(
        self, side: Side | None, message: dict[str, Any], time: str | None
    ) -> Fate | None:
        """Take a response; return what it is kept as."""
        id_, result = message.get("id"), message.get("result")
        asked_by: Side = "server" if side == "client" else "client"
        if side is None and isinstance(result, dict) and _is_of_client(result):
            asked_by = "server"
        waits = self.waiting.pop(_key(asked_by, id_), None)
        if waits is None:
            self.n_orphans += 1
        elif isinstance(waits, int):
            return self._answer(waits, message, time)
        elif isinstance(result, dict) and self._listed(waits, result):
            return "context"
        return None

    def _answer(self, index: int, message: dict[str, Any], time: str | None) -> Fate | None:
        result = message.get("result")
        if isinstance(result, dict) and "content" not in result:
            task = result["task"] if isinstance(result.get("task"), dict) else result
            if isinstance(result.get("result"), dict):
                message = {"result": result["result"]}
            elif "taskId" in task:
                self.tasks[str(task["taskId"])] = index
                if self.steps[index].observation is not None:
                    return None
            elif isinstance(result.get("inputRequests"), dict):
                self.needs_input[index] = result
        self.steps[index] = _answered(self.steps[index], message, time)
        return "observation"

    def _listed(self, method: str, result: dict[str, Any]) -> bool:
        """Keep what a result tells of the server; return whether it told anything."""
        if method == "initialize":
            self.server = result
        elif method == "tools/list" and isinstance(result.get("tools"), list):
            for tool in result["tools"]:
                name = tool.get("name") if isinstance(tool, dict) else None
                self.tools[name if isinstance(name, str) else to_json_text(tool)] = tool
        else:
            return False
        return True

    def trajectory(self, origin: Origin) -> Trajectory:
        """Return the episode of the connection."""
        server = self.server.get("serverInfo")
        version = self.server.get("protocolVersion")
        meta = {
            "server": self.header.get("server") or server,
            "server_version": server.get("version") if isinstance(server, dict) else None,
            "instructions": self.server.get("instructions"),
            "methods": dict(sorted(self.methods.items())),
            "unanswered": sum(step.observation is None for step in self.steps),
            "orphan_responses": self.n_orphans,
            "other_values": self.n_unread,
            "input_rounds": self.input_rounds or None,
        }
        return Trajectory(
            origin=origin,
            adapter=ADAPTER.name,
            format_version=version if isinstance(version, str) else None,
            domain="mcp",
            agent=_text(self.header.get("agent")) or _text(self.client_name),
            model=_text(self.header.get("model")),
            task=_text(self.header.get("task")),
            action_space=to_json_text(list(self.tools.values())) if self.tools else None,
            started_at=self.started,
            meta=to_json_text({key: item for key, item in meta.items() if item is not None}),
            steps=tuple(self.steps),
        )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _key(side: Side, id_: Any) -> _Key:
    """Return an id within the requests of one side; `1` and `"1"` are two ids."""
    return side, type(id_).__name__, str(id_)


def _side(value: dict[str, Any], message: dict[str, Any]) -> Side | None:
    """Return who sent a message, as far as the envelope or the method tells."""
    direction = value.get("direction") if value is not message else None
    if isinstance(direction, str):
        return "server" if direction.lower().startswith(("server", "in", "recv", "<")) else "client"
    method = message.get("method")
    if isinstance(method, str):
        return "server" if method.startswith(_SERVER_ASKS) else "client"
    return None


def _is_of_client(result: dict[str, Any]) -> bool:
    """Return whether a result answers a server: a sampled message, a form, a list of roots."""
    is_tool = isinstance(result.get("content"), list) or "structuredContent" in result
    return not is_tool and bool({"role", "action", "roots"} & result.keys())


def _answered(step: Step, message: dict[str, Any], time: str | None) -> Step:
    media: list[dict[str, Any]] = []
    error: str | None
    if "error" in message:
        text, error = to_json_text(message["error"]), "json_rpc_error"
    else:
        result = message["result"]
        failed = isinstance(result, dict) and result.get("isError") is True
        text, error = _result_text(result, media), "is_error" if failed else None
    return replace(
        step,
        observation=text,
        observation_kind=observation_kind(text),
        error=error,
        media=to_json_text(media) if media else None,
        time=time or step.time,
    )


def _result_text(result: Any, media: list[dict[str, Any]]) -> str:
    content = result.get("content") if isinstance(result, dict) else None
    if not isinstance(content, list):
        return to_json_text(result)
    if len(content) == 1 and isinstance(content[0], dict) and content[0].get("type") == "text":
        text = content[0].get("text")
        if isinstance(text, str):
            return text
    return to_json_text(result | {"content": [_without_bytes(part, media) for part in content]})


def _without_bytes(part: Any, media: list[dict[str, Any]]) -> Any:
    """Return a part of the content with its base64 data taken out and listed in `media`."""
    if not isinstance(part, dict):
        return part
    if isinstance(part.get("resource"), dict):
        return part | {"resource": _without_bytes(part["resource"], media)}
    key = "blob" if "blob" in part else "data"
    data = part.get(key)
    if not isinstance(data, str):
        return part
    media.append(bytes_left_out(data, part.get("mimeType")))
    return part | {key: f"<picture:{len(media)}>"}


ADAPTER = Adapter(
    name="mcp-jsonrpc",
    title="MCP transcripts (JSON-RPC 2.0, bare or in envelopes)",
    domains=("mcp",),
    detect=detect,
    extract=extract,
    unit="session",
)
