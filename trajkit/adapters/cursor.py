"""Cursor agent transcripts: JSON lines `{"role", "message": {"content": [...]}}`.

Written into `agent-transcripts/` of a project by the Cursor editor and command line; without a
published definition. Content is blocks of the Anthropic API, but a `tool_use` has no id while its
`tool_result` names one: an answer then belongs to the oldest call that waits. Newer transcripts
hold calls and no answers at all. A line has no time and no id, so copies are not found. What a
person asked stands in `<user_query>`, and what is around it is the program's. A sub-agent has a
file of its own, and nothing in it names its parent.

Smallest shape: {"role": "user", "message": {"content": [{"type": "text", "text": "..."}]}} and
{"role": "assistant", "message": {"content": [{"type": "tool_use", "name": "Shell", "input": {}}]}}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trajkit.adapters import Adapter
from trajkit.adapters.anthropic_blocks import Place, read, unread
from trajkit.adapters.fields import mapping, meta_text, no_action
from trajkit.adapters.messages import Message, fold
from trajkit.adapters.talk import heard_blocks
from trajkit.model import Record, Reject, Trajectory

_ROLES = ("user", "assistant")


def detect(value: Any) -> bool:
    """Return whether a value is a line of a transcript."""
    if not isinstance(value, dict) or value.get("role") not in _ROLES:
        return False
    message = value.get("message")
    bare = not value.keys() & {"type", "content", "uuid", "id", "sessionId"}
    return bare and isinstance(message, dict) and message.keys() == {"content"}


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the one session of a file."""
    record.ledger.expect(range(len(record.value)))
    folded = fold(_messages(record.value), record.ledger)
    if not folded.acts:
        yield no_action(record)
        return
    yield Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        agent="cursor",
        task=folded.task,
        meta=meta_text(folded),
        steps=folded.steps,
    )


def _messages(lines: list[Any]) -> Iterator[Message]:
    for event, line in enumerate(lines):
        if not detect(line):
            known = mapping(line).get("type") in ("turn_ended", "status")
            yield unread(event, "bookkeeping" if known else "unknown_event")
            continue
        place = Place(event=event)
        content = line["message"]["content"]
        if line["role"] == "assistant":
            yield from read("assistant", content, place)
        else:
            yield from heard_blocks(content, place, wrapper="user_query")


ADAPTER = Adapter(
    name="cursor",
    title="Cursor agent transcripts (JSON lines)",
    domains=("swe", "terminal", "mcp", "search"),
    detect=detect,
    extract=extract,
    unit="session",
)
