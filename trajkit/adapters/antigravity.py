"""Antigravity trajectories: JSON lines of numbered steps, as its command line exports them.

Written by Google's Antigravity; without a published definition. A step has `step_index`, `source`
(`USER_EXPLICIT`, `MODEL`, `SYSTEM`), `type`, `status` and `content`. A `PLANNER_RESPONSE` is a
reply of the agent: `thinking`, `content` and `tool_calls` without ids. Every other step of the
source `MODEL` is what a tool gave (`LIST_DIRECTORY`, `RUN_COMMAND`, `CODE_ACTION`, `GENERIC`, ...):
it answers the oldest call that waits, and where none waits it stays an observation without an
action, since the log does not say what was asked. Values of `args` are JSON text inside a text and
stay so. `truncated_fields` names what the export cut. An exit code stands in prose at most and is
not read. What a person asked stands in `<USER_REQUEST>`; what is around it, and steps of the source
`SYSTEM`, are the program's: checkpoints of a compaction too, which cuts nothing here.

Smallest shape: {"step_index": 0, "source": "MODEL", "type": "PLANNER_RESPONSE", "status": "DONE",
"created_at": "...", "tool_calls": [{"name": "list_dir", "args": {}}]} and {"step_index": 1,
"source": "MODEL", "type": "LIST_DIRECTORY", "status": "DONE", "content": "..."}
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from trajkit.adapters import Adapter
from trajkit.adapters.anthropic_blocks import Place, unread
from trajkit.adapters.content import content_text
from trajkit.adapters.fields import first_text, mapping, mappings, meta_text, no_action, text
from trajkit.adapters.messages import Message, fold, make_call
from trajkit.adapters.talk import heard, injected
from trajkit.model import Record, Reject, Trajectory

_DONE = ("DONE", None)


def detect(value: Any) -> bool:
    """Return whether a value is a step of a trajectory."""
    return (
        isinstance(value, dict)
        and type(value.get("step_index")) is int
        and all(isinstance(value.get(key), str) for key in ("source", "type", "status"))
    )


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the one trajectory of a file."""
    lines = [mapping(line) for line in record.value]
    record.ledger.expect(range(len(lines)))
    folded = fold(_messages(lines), record.ledger)
    if not folded.acts:
        yield no_action(record)
        return
    yield Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        agent="antigravity",
        task=folded.task,
        started_at=first_text(lines, "created_at"),
        meta=meta_text(
            folded,
            checkpoints=sum(line.get("type") == "CHECKPOINT" for line in lines) or None,
        ),
        steps=folded.steps,
    )


def _messages(lines: list[dict[str, Any]]) -> Iterator[Message]:
    for event, line in enumerate(lines):
        place = Place(event=event, time=text(line.get("created_at")))
        said, media = content_text(line.get("content"))
        cut = (
            isinstance(line.get("truncated_fields"), list) and "content" in line["truncated_fields"]
        )
        source, kind = line.get("source"), line.get("type")
        if kind == "PLANNER_RESPONSE":
            calls = mappings(line.get("tool_calls"))
            yield Message(
                role="assistant",
                text=said or None,
                thought=text(line.get("thinking")),
                calls=tuple(make_call(c.get("name"), c.get("args"), c.get("id")) for c in calls),
                event=event,
                time=place.time,
            )
        elif kind == "USER_INPUT":
            yield from heard(said, place, media=media, wrapper="USER_REQUEST")
        elif source == "MODEL":
            status = line.get("status")
            yield Message(
                role="result",
                text=said,
                error=None if status in _DONE else str(status).lower(),
                truncated=cut,
                media=media,
                event=event,
                time=place.time,
            )
        elif said:
            yield replace(injected(said, place), truncated=cut)
        else:
            yield unread(event, "bookkeeping" if detect(line) else "unknown_event")


ADAPTER = Adapter(
    name="antigravity",
    title="Antigravity trajectories (JSON lines of steps)",
    domains=("swe", "terminal", "mcp", "search"),
    detect=detect,
    extract=extract,
    unit="session",
)
