"""Content blocks of the Anthropic Messages API, read as `Message`s.

Used by every adapter whose log holds such blocks. A client tool answers in the next user message;
a server tool answers inside the agent's own message, which is then cut into one agent message for
each round.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from trajkit.adapters.content import content_text
from trajkit.adapters.messages import Call, Message, id_text, make_call
from trajkit.model import to_json_text

CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
THOUGHTS = ("thinking", "redacted_thinking")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a message stands in its log."""

    event: Hashable = None
    """Its source event, for the ledger."""
    time: str | None = None
    """Its time as logged."""
    key: str | None = None
    """Its global id."""


def messages(raw: list[Any], *, first_event: int = 0) -> Iterator[Message]:
    """Give the messages of a list of `{role, content}`; what is no message is left out."""
    for number, message in enumerate(raw, first_event):
        if isinstance(message, dict):
            yield from read(message.get("role"), message.get("content"), Place(event=number))
        else:
            yield unread(number, "unknown_event")


def read(role: Any, content: Any, place: Place) -> Iterator[Message]:
    """Give what one logged message tells, in the order in which it happened."""
    if role == "assistant":
        yield from said(blocks(content), place)
    else:
        yield from heard(blocks(content), place, is_system=role in ("system", "developer"))


def unread(event: Hashable, reason: str) -> Message:
    """Return a message that says nothing but why an event is left out."""
    return Message(role="system", also=((event, reason),))


def blocks(content: Any) -> list[dict[str, Any]]:
    """Return content as blocks; plain text is one block, null is none.

    >>> blocks("a"), blocks(None)
    ([{'type': 'text', 'text': 'a'}], [])
    """
    parts = content if isinstance(content, list) else [] if content is None else [content]
    return [
        part if isinstance(part, dict) else {"type": "text", "text": content_text(part)[0]}
        for part in parts
    ]


def is_result(block: dict[str, Any]) -> bool:
    """Return whether a block answers a call, of a client's tool or a server's."""
    return str(block.get("type")).endswith("tool_result")


def said(parts: Iterable[dict[str, Any]], place: Place) -> Iterator[Message]:
    """Give an agent's blocks: one agent message, then results and further ones where they come."""
    held: list[dict[str, Any]] = []
    answered = False
    for part in parts:
        if is_result(part):
            if held:
                yield agent(held, place)
            yield result(part, place)
            held, answered = [], True
        else:
            held.append(part)
    if held or not answered:
        yield agent(held, place)


def agent(parts: list[dict[str, Any]], place: Place) -> Message:
    """Return the text, thought and calls of an agent's blocks as one message."""
    shown = [part for part in parts if part.get("type") not in (*CALLS, *THOUGHTS)]
    text, media = content_text(shown)
    thoughts = [thought for part in parts if (thought := part.get("thinking"))]
    calls = tuple(call(part) for part in parts if part.get("type") in CALLS)
    message = Message(
        role="assistant",
        text=text or None,
        thought=content_text(thoughts)[0] or None,
        calls=calls,
        media=media,
        event=place.event,
        time=place.time,
        key=place.key,
    )
    is_silent = not (message.text or message.thought or calls)
    if is_silent and any(part.get("type") in THOUGHTS for part in parts):
        return replace(message, event=None, also=((place.event, "withheld_thinking"),))
    return message


def call(block: dict[str, Any]) -> Call:
    """Return the call of a `tool_use` block of any kind."""
    return make_call(block.get("name"), block.get("input"), block.get("id"))


def result(block: dict[str, Any], place: Place) -> Message:
    """Return the answer of a `tool_result` block of any kind.

    What a server tool answers is an object or a list of objects: it is kept as JSON text.
    """
    content = block.get("content")
    error = "is_error" if block.get("is_error") is True else None
    code = None
    if isinstance(content, dict):
        failure = content.get("error_code")
        error = failure if isinstance(failure, str) else error
        code = content.get("return_code")
    listed = content if isinstance(content, list) else [content]
    if any(str(part.get("type")).startswith("web_") for part in listed if isinstance(part, dict)):
        text: str | None = to_json_text(content)
        media = None
    else:
        text, media = content_text(content)
    return Message(
        role="result",
        text=text,
        call_id=id_text(block.get("tool_use_id")),
        error=error,
        exit_code=code if type(code) is int else None,
        media=media,
        event=place.event,
        time=place.time,
        key=place.key,
    )


def heard(
    parts: Iterable[dict[str, Any]], place: Place, *, is_system: bool = False
) -> Iterator[Message]:
    """Give the blocks of a message to the agent: results first, then what was said beside them."""
    spoken: list[dict[str, Any]] = []
    answered = False
    for part in parts:
        if is_result(part):
            answered = True
            yield result(part, place)
        else:
            spoken.append(part)
    if spoken or not answered:
        text, media = content_text(spoken)
        yield Message(
            role="system" if is_system else "user",
            text=text,
            media=media,
            event=place.event,
            time=place.time,
            key=place.key,
        )
