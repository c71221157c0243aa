"""User messages of a coding agent's log: answers to calls, a person's words, the program's part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trajkit.adapters.anthropic_blocks import Place, blocks, is_result, read
from trajkit.adapters.content import content_text
from trajkit.adapters.injected import split_injected
from trajkit.adapters.messages import Message


def injected(said: str | None, place: Place) -> Message:
    """Return a text that a program put into the talk."""
    return Message(
        role="system",
        text=said,
        source="harness",
        event=place.event,
        time=place.time,
        key=place.key,
    )


def heard(
    said: str | None, place: Place, *, media: str | None = None, wrapper: str | None = None
) -> Iterator[Message]:
    """Give a person's words in a user message, then the program's part of it.

    Where a log wraps the person's words in a tag, `wrapper` is its name: what stands outside of it
    is the program's. The words themselves lose the line breaks next to the tags, no more.
    """
    words, around = _unwrap(said or "", wrapper) if wrapper else split_injected(said or "")
    if words or media or not around:
        yield Message(
            role="user",
            text=words,
            media=media,
            event=place.event,
            time=place.time,
            key=place.key,
        )
    if around:
        yield injected(around, place)


def _unwrap(said: str, tag: str) -> tuple[str, str]:
    opening, closing = f"<{tag}>", f"</{tag}>"
    before, opened, rest = said.partition(opening)
    if not opened:
        return split_injected(said)
    words, _, after = rest.partition(closing)
    around = "\n".join(part.strip() for part in (before, after) if part.strip())
    return words.removeprefix("\n").removesuffix("\n"), around


def heard_blocks(content: Any, place: Place, *, wrapper: str | None = None) -> Iterator[Message]:
    """Give the answers among the blocks of a user message, then what was said beside them."""
    parts = blocks(content)
    spoken = [part for part in parts if not is_result(part)]
    if len(spoken) < len(parts):
        yield from read("user", [part for part in parts if is_result(part)], place)
    if spoken or not parts:
        said, media = content_text(spoken)
        yield from heard(said, place, media=media, wrapper=wrapper)
