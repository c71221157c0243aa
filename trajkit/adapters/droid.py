"""Factory Droid: what `droid exec --output-format stream-json` prints, and stored sessions.

The printed stream has lines of the types `system`, `message`, `tool_call`, `tool_result` and
`completion`. Its names drifted: `session_id` became `sessionId`, and an answer is found by
`toolCallId` or by `id`. `value` is text, or an object with `stdout`, `stderr` and `exitCode`: the
output is taken out where there is nothing else in it, and any other object is kept as JSON text.
The text of `completion` is the last reply; where a message said it before, it counts as
`repeated_message`.

A stored session begins with `session_start`; its messages hold content blocks of the Anthropic API.
Reminders in a request are the program's.

Smallest shape: {"type": "tool_call", "session_id": "s", "id": "1", "toolCallId": "c", "toolName":
"Execute", "parameters": {}} and {"type": "tool_result", "session_id": "s", "id": "2", "toolCallId":
"c", "value": "..."}
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from trajkit.adapters import Adapter
from trajkit.adapters.anthropic_blocks import Place, read, unread
from trajkit.adapters.fields import (
    first_text,
    integer,
    mapping,
    meta_text,
    no_action,
    text,
    time_text,
)
from trajkit.adapters.messages import Message, fold, id_text, make_call, tools_text
from trajkit.adapters.talk import heard, heard_blocks
from trajkit.model import Record, Reject, Trajectory, to_json_text

_BOOKKEEPING = ("todo_state", "compaction_state", "session_end")


def detect(value: Any) -> bool:
    """Return whether a value is a line that only this program prints or stores."""
    if not isinstance(value, dict):
        return False
    kind = value.get("type")
    if kind == "session_start":
        return isinstance(value.get("id"), str) and ("title" in value or "owner" in value)
    if not isinstance(value.get("session_id", value.get("sessionId")), str):
        return False
    if kind == "message":
        return isinstance(value.get("text"), str) and isinstance(value.get("role"), str)
    if kind in ("tool_call", "tool_result"):
        return (
            "toolName" in value or "toolId" in value or ("toolCallId" in value and "value" in value)
        )
    return kind == "completion" and "finalText" in value


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the one session of a file."""
    lines = [mapping(line) for line in record.value]
    record.ledger.expect(range(len(lines)))
    folded = fold(_messages(lines), record.ledger)
    if not folded.acts:
        yield no_action(record)
        return
    heads = [line for line in lines if line.get("type") in ("system", "session_start")]
    starts = (line for line in lines if line.get("type") == "session_start")
    name = first_text(lines, "session_id", "sessionId") or first_text(starts, "id")
    yield Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        agent="droid",
        model=first_text(heads, "model"),
        task=folded.task,
        action_space=tools_text(next((h["tools"] for h in heads if h.get("tools")), None)),
        names=(name,) if name else (),
        started_at=next(filter(None, (time_text(line.get("timestamp")) for line in lines)), None),
        meta=meta_text(
            folded,
            session_id=name,
            cwd=first_text(heads, "cwd"),
            title=first_text(heads, "title"),
        ),
        steps=folded.steps,
    )


def _messages(lines: list[dict[str, Any]]) -> Iterator[Message]:
    """Give the lines as messages; a reply's text and the calls right after it are one turn."""
    last: str | None = None
    held: Message | None = None
    for event, line in enumerate(lines):
        kind = line.get("type")
        place = Place(event=event, time=time_text(line.get("timestamp")))
        if kind == "tool_call":
            id_ = id_text(line.get("toolCallId", line.get("id")))
            call = make_call(line.get("toolName", line.get("toolId")), line.get("parameters"), id_)
            if held is None:
                held = Message(role="assistant", calls=(call,), event=event, time=place.time)
            else:
                also = (*held.also, (event, "action"))
                held = replace(held, calls=(*held.calls, call), also=also)
            continue
        if held is not None:
            yield held
            held = None
        said = text(line.get("finalText" if kind == "completion" else "text"))
        if kind == "completion" and said == last and said is not None:
            yield unread(event, "repeated_message")
        elif kind == "message" and isinstance(line.get("message"), dict):
            message = line["message"]
            if message.get("role") == "assistant":
                yield from read("assistant", message.get("content"), place)
            else:
                yield from heard_blocks(message.get("content"), place)
        elif kind == "completion" or (kind == "message" and line.get("role") == "assistant"):
            last = said
            held = Message(role="assistant", text=said, event=event, time=place.time)
        elif kind == "message":
            yield from heard(said, place)
        elif kind == "tool_result":
            yield _result(line, place)
        elif kind in ("system", "session_start"):
            yield unread(event, "context")
        else:
            yield unread(event, "bookkeeping" if kind in _BOOKKEEPING else "unknown_event")
    if held is not None:
        yield held


def _result(line: dict[str, Any], place: Place) -> Message:
    value = line.get("value")
    code = integer(mapping(value).get("exitCode"))
    if isinstance(value, dict) and isinstance(value.get("stdout"), str):
        other = {key for key, item in value.items() if item not in ("", None)}
        plain = other <= {"stdout", "exitCode"}
        said = value["stdout"] if plain else to_json_text(value)
    else:
        said = value if isinstance(value, str) or value is None else to_json_text(value)
    return Message(
        role="result",
        text=said,
        call_id=id_text(line.get("toolCallId", line.get("id"))),
        error="is_error" if line.get("isError") is True else None,
        exit_code=code,
        event=place.event,
        time=place.time,
    )


ADAPTER = Adapter(
    name="droid",
    title="Factory Droid: printed stream JSON and stored sessions",
    domains=("swe", "terminal", "mcp", "search"),
    detect=detect,
    extract=extract,
    unit="session",
)
