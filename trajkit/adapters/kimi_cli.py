"""Kimi command line sessions: `wire.jsonl`, of `kimi-cli` and of its successor Kimi Code.

Written by Moonshot's command lines; defined by their source. Both begin with a `metadata` line that
has a `protocol_version`. Kimi Code writes records of dotted types: `context.append_message` for
messages, and `context.append_loop_event` for what a step of the agent does (`step.begin`,
`content.part`, `tool.call`, `tool.result`, `step.end`). `kimi-cli` writes envelopes
`{"timestamp", "message": {"type", "payload"}}` with the types `TurnBegin`, `StepBegin`,
`ContentPart`, `ToolCall`, `ToolCallPart`, `ToolResult` and others.

The parts and calls of one step are one turn of the agent, also where a result is logged before the
next call. `turn.prompt` and `turn.steer` repeat a message that follows them and count as
`repeated_message`; they are read where no such message is. A message whose `origin` is not a person
is the program's, but the request that begins a sub-agent is its task. A refused call
(`permission.record_approval_result`) has a person as the source of its result. The wire of a
sub-agent is a file of its own; `kimi-cli` writes it into the parent's (`SubagentEvent`), where it
is a trajectory of its own. A compaction adds its summary and cuts nothing. `context.undo` takes
turns back, which stay here: `meta.undone_turns` counts them. Each retry of a request is a line of
its own and bookkeeping.

Smallest shape: {"type": "metadata", "protocol_version": "1.4"}, then {"type":
"context.append_message", "message": {"role": "user", "content": [{"type": "text", "text":
"..."}], "origin": {"kind": "user"}}, "time": 1} and {"type": "context.append_loop_event", "event":
{"type": "tool.call", "stepUuid": "s", "toolCallId": "c", "name": "Bash", "args": {}}, "time": 2}
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from trajkit.adapters import Adapter
from trajkit.adapters.anthropic_blocks import Place
from trajkit.adapters.content import content_text
from trajkit.adapters.fields import (
    first_text,
    integer,
    mapping,
    mappings,
    meta_text,
    no_action,
    text,
    time_text,
)
from trajkit.adapters.messages import Call, Message, fold, id_text, make_call, tools_text
from trajkit.adapters.talk import heard, injected
from trajkit.model import Record, Reject, Trajectory

_DOTTED = ("context.", "turn.", "config.", "llm.", "tools.", "permission.")
_ENVELOPES = ("TurnBegin", "StepBegin", "ContentPart", "ToolCall", "ToolResult", "StatusUpdate")
_REPLY = ("content.part", "tool.call", "ContentPart", "ToolCall", "ToolCallPart")
_CONTEXT = ("metadata", "config.update", "profile.bind", "llm.tools_snapshot")
_BOOKKEEPING = (
    *("forked", "turn.cancel", "turn.ended", "usage.record", "llm.request", "runtime.set_binding"),
    *("context.clear", "context.undo", "micro_compaction.apply", "mcp.tools_discovered"),
    *("StepBegin", "StepInterrupted", "StatusUpdate", "TurnEnd", "CompactionBegin"),
    *("CompactionEnd", "MCPLoadingBegin", "MCPLoadingEnd", "ApprovalResponse", "Notification"),
    *("ApprovalRequest", "ApprovalRequestResolved", "HookTriggered", "HookResolved", "BtwBegin"),
)
_BOOKKEEPING_PREFIXES = (
    *("permission.", "plan_mode.", "swarm_mode.", "tools.", "full_compaction.", "goal."),
    *("token_counting.", "plugin.", "step."),
)


def detect(value: Any) -> bool:
    """Return whether a value is a line of a wire file that only these programs write."""
    if not isinstance(value, dict):
        return False
    kind = value.get("type")
    if kind == "metadata":
        return isinstance(value.get("protocol_version"), str)
    if isinstance(kind, str) and kind.startswith(_DOTTED):
        return "time" in value
    message = mapping(value.get("message"))
    envelope = message.get("type") in _ENVELOPES and isinstance(message.get("payload"), dict)
    return envelope and "timestamp" in value


@dataclass(frozen=True, slots=True)
class _Line:
    event: int
    kind: str | None
    body: dict[str, Any]
    time: str | None


@dataclass(slots=True)
class _Reply:
    place: Place
    thoughts: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    events: list[tuple[Hashable, str]] = field(default_factory=list)


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the agent of a wire file, then the sub-agents whose events lie in it."""
    lines = [_line(number, mapping(value)) for number, value in enumerate(record.value)]
    record.ledger.expect(range(len(lines)))
    children: dict[str, list[_Line]] = {}
    own: list[_Line] = []
    for line in lines:
        if line.kind == "SubagentEvent":
            parent = line.body.get("parent_tool_call_id", line.body.get("task_tool_call_id"))
            inner = mapping(line.body.get("event"))
            child = _Line(
                line.event, text(inner.get("type")), mapping(inner.get("payload")), line.time
            )
            children.setdefault(id_text(parent) or "subagent", []).append(child)
        else:
            own.append(line)
    found = _trajectory(own, record)
    if found is None:
        yield no_action(record)
    else:
        key = record.origin.key or ("main" if children else None)
        yield replace(found, origin=replace(record.origin, key=key))
        for name, part in children.items():
            child_found = _trajectory(part, record)
            if child_found is not None:
                origin = replace(record.origin, key=name)
                yield replace(child_found, origin=origin, parent_key=key)
    record.ledger.leave_the_rest("no_action")


def _line(number: int, value: dict[str, Any]) -> _Line:
    message = mapping(value.get("message"))
    if "payload" in message:
        body, kind, time = mapping(message["payload"]), message.get("type"), value.get("timestamp")
    elif value.get("type") == "context.append_loop_event":
        body = mapping(value.get("event"))
        kind, time = body.get("type"), value.get("time")
    else:
        body, kind, time = value, value.get("type"), value.get("time", value.get("created_at"))
    return _Line(number, text(kind), body, time_text(time))


def _trajectory(lines: list[_Line], record: Record) -> Trajectory | None:
    messages = list(_messages(lines))
    if not fold(messages).acts:
        return None
    folded = fold(messages, record.ledger)
    bodies = [line.body for line in lines]
    configs = [line.body for line in lines if line.kind in ("config.update", "profile.bind")]
    snapshots = (line.body for line in lines if line.kind == "llm.tools_snapshot")
    tools = next((b["tools"] for b in snapshots if isinstance(b.get("tools"), list)), None)
    undone = [integer(line.body.get("count")) or 0 for line in lines if line.kind == "context.undo"]
    compactions = sum(line.kind in ("context.apply_compaction", "CompactionEnd") for line in lines)
    asked = (line.body for line in lines if line.kind == "llm.request")
    return Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        format_version=first_text(bodies, "protocol_version"),
        agent="kimi-cli",
        model=first_text(asked, "model") or first_text(configs, "modelAlias"),
        task=folded.task,
        agent_system_prompt=first_text(configs, "systemPrompt") or folded.agent_system_prompt,
        action_space=tools_text(tools),
        started_at=next((line.time for line in lines if line.time), None),
        meta=meta_text(
            folded,
            profile=first_text(configs, "profileName"),
            cwd=first_text(configs, "cwd"),
            undone_turns=sum(undone) or None,
            compactions=compactions or None,
        ),
        steps=folded.steps,
    )


def _messages(lines: list[_Line]) -> Iterator[Message]:
    replies = _replies(lines)
    refused = {
        id_text(line.body.get("toolCallId"))
        for line in lines
        if line.kind == "permission.record_approval_result"
        and mapping(line.body.get("result")).get("decision") == "rejected"
    }
    has_messages = any(line.kind == "context.append_message" for line in lines)
    for line in lines:
        place = Place(event=line.event, time=line.time)
        kind, body = line.kind, line.body
        if line.event in replies:
            yield _agent(replies[line.event])
        if kind in _REPLY:
            continue
        if kind in ("tool.result", "ToolResult"):
            yield _result(body, place, refused)
        elif kind == "context.append_message":
            yield from _logged(mapping(body.get("message")), place)
        elif kind in ("turn.prompt", "turn.steer", "TurnBegin", "SteerInput"):
            if has_messages:
                yield _unread(line.event, "repeated_message")
            else:
                asked = {"content": body.get("input", body.get("user_input"))}
                yield from _logged(asked | {"role": "user", "origin": body.get("origin")}, place)
        elif kind == "context.apply_compaction" and text(body.get("summary")):
            yield injected(body["summary"], place)
        elif kind in _CONTEXT:
            yield _unread(line.event, "context")
        elif kind in _BOOKKEEPING or (kind or "").startswith(_BOOKKEEPING_PREFIXES):
            yield _unread(line.event, "bookkeeping")
        else:
            yield _unread(line.event, "unknown_event")


def _unread(event: Hashable, fate: str) -> Message:
    return Message(role="system", also=((event, fate),))


def _replies(lines: list[_Line]) -> dict[int, _Reply]:
    """Return what the agent did in each step, by the first event of the step."""
    replies: dict[int, _Reply] = {}
    by_step: dict[Hashable, _Reply] = {}
    step: Hashable = None
    answered = False
    for line in lines:
        body = line.body
        if line.kind in ("StepBegin", "TurnBegin", "step.begin"):
            step = ("step", line.event)
        answered |= line.kind == "ToolResult"
        if line.kind not in _REPLY:
            continue
        if answered and line.kind == "ContentPart":
            # Words after an answer begin a new reply; a further call may belong to the same one.
            step = ("step", line.event)
        answered = False
        name = id_text(body.get("stepUuid")) or step
        if name not in by_step:
            place = Place(time=line.time)
            by_step[name] = replies[line.event] = _Reply(place)
        reply = by_step[name]
        part = mapping(body.get("part")) if line.kind == "content.part" else body
        fate = "action"
        if line.kind == "ToolCallPart":
            if reply.calls and isinstance(body.get("arguments_part"), str):
                function = mapping(reply.calls[-1].get("function"))
                rest = (text(function.get("arguments")) or "") + body["arguments_part"]
                reply.calls[-1] = reply.calls[-1] | {"function": function | {"arguments": rest}}
        elif line.kind in ("tool.call", "ToolCall"):
            reply.calls.append(body)
        elif part.get("type") == "think":
            reply.thoughts.append(text(part.get("think")) or "")
            fate = "thought"
        else:
            reply.texts.append(content_text([part])[0] or "")
        reply.events.append((line.event, fate))
    return replies


def _agent(reply: _Reply) -> Message:
    calls: list[Call] = []
    for raw in reply.calls:
        function = mapping(raw.get("function")) or {
            "name": raw.get("name"),
            "arguments": raw.get("args"),
        }
        id_ = raw.get("toolCallId", raw.get("id"))
        calls.append(make_call(function.get("name"), function.get("arguments"), id_))
    return Message(
        role="assistant",
        text="".join(reply.texts) or None,
        thought="".join(reply.thoughts) or None,
        calls=tuple(calls),
        time=reply.place.time,
        also=tuple(reply.events),
    )


def _result(body: dict[str, Any], place: Place, refused: set[Any]) -> Message:
    id_ = id_text(body.get("toolCallId", body.get("tool_call_id")))
    result = mapping(body.get("result", body.get("return_value")))
    said, media = content_text(result.get("output"))
    failed = result.get("isError", result.get("is_error")) is True
    rejected = id_ in refused
    return Message(
        role="result",
        text=said or text(result.get("message")) or said,
        call_id=id_,
        error="rejected" if rejected else "is_error" if failed else None,
        source="user" if rejected else None,
        media=media,
        event=place.event,
        time=place.time,
    )


def _logged(message: dict[str, Any], place: Place) -> Iterator[Message]:
    role = message.get("role")
    said, media = content_text(message.get("content"))
    origin = mapping(message.get("origin"))
    if role == "assistant":
        raw = mappings(message.get("toolCalls"))
        reply = _Reply(place, texts=[said or ""], calls=raw, events=[(place.event, "action")])
        yield _agent(reply)
    elif role == "tool":
        body = {"toolCallId": message.get("toolCallId"), "result": {"output": said}}
        yield _result(body, place, set())
    elif origin.get("kind", "user") == "user":
        yield from heard(said, place, media=media)
    elif origin.get("name") == "subagent":
        yield Message(role="user", text=said, media=media, event=place.event, time=place.time)
    else:
        yield injected(said, place)


ADAPTER = Adapter(
    name="kimi-cli",
    title="Kimi command lines: wire files of kimi-cli and of Kimi Code",
    domains=("swe", "terminal", "mcp", "search"),
    detect=detect,
    extract=extract,
    unit="session",
)
