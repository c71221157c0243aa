"""What Gemini CLI prints with `--output-format stream-json`, read as `Message`s.

Used by the `gemini-cli` adapter. Lines have the types `init`, `message`, `tool_use`, `tool_result`,
`error` and `result`. A reply comes in pieces (`delta`); the calls right after it are of its turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from trajkit.adapters.anthropic_blocks import Place, unread
from trajkit.adapters.fields import mapping, text
from trajkit.adapters.messages import Message, id_text, make_call
from trajkit.adapters.talk import heard, injected


def is_stream_line(line: dict[str, Any]) -> bool:
    """Return whether a line is one that only this program prints."""
    kind = line.get("type")
    if kind == "init":
        return isinstance(line.get("session_id"), str) and isinstance(line.get("model"), str)
    if kind == "tool_use":
        return isinstance(line.get("tool_name"), str) and "tool_id" in line
    return kind == "tool_result" and "tool_id" in line and "status" in line


def messages(lines: list[dict[str, Any]]) -> Iterator[Message]:
    """Give the lines of a printed stream as messages; the number of a line is its event."""
    held: Message | None = None
    for event, line in enumerate(lines):
        kind, time = line.get("type"), text(line.get("timestamp"))
        said = text(line.get("content"))
        if kind == "message" and line.get("role") == "assistant":
            if held is not None and not held.calls and line.get("delta") is True:
                also = (*held.also, (event, "action"))
                held = replace(held, text=(held.text or "") + (said or ""), also=also)
                continue
            if held is not None:
                yield held
            held = Message(role="assistant", text=said, event=event, time=time)
            continue
        if kind == "tool_use":
            call = make_call(line.get("tool_name"), line.get("parameters"), line.get("tool_id"))
            if held is None:
                held = Message(role="assistant", calls=(call,), event=event, time=time)
            else:
                also = (*held.also, (event, "action"))
                held = replace(held, calls=(*held.calls, call), also=also)
            continue
        if held is not None:
            yield held
            held = None
        yield from _other(line, Place(event=event, time=time))
    if held is not None:
        yield held


def _other(line: dict[str, Any], place: Place) -> Iterator[Message]:
    kind = line.get("type")
    if kind == "message":
        yield from heard(text(line.get("content")), place)
    elif kind == "tool_result":
        error = mapping(line.get("error"))
        failed = line.get("status") == "error"
        output = line.get("output")
        yield Message(
            role="result",
            text=output if isinstance(output, str) else text(error.get("message")),
            call_id=id_text(line.get("tool_id")),
            error=text(error.get("type")) or ("error" if failed else None),
            event=place.event,
            time=place.time,
        )
    elif kind == "error":
        yield injected(text(line.get("message")), place)
    else:
        known = kind in ("init", "result")
        yield unread(place.event, "context" if known else "unknown_event")
