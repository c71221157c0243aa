"""Recordings of the AgentNet annotation tool (OpenCUA): a person's work on a desktop.

Written by the tool into a folder: `reduced_events_complete.jsonl` (clicks, drags, scrolls, typing,
each with the accessibility tree of the window before it), `task_name.json`, `metadata.json`,
`events.jsonl` and `event_buffer.jsonl` (every mouse move and half click), `top_window.jsonl`.

The reduced events are an episode. Trees stand before the event and are shifted; a tree is the JSON
text of the tool's nested nodes, and only the window acted on, so what lies behind it is not known.
The action is JSON text: the event without its tree, its mouse trace, its raw halves and the tool's
bookkeeping. With the
file's folder come task and machine. Raw events are rejects (`recording_events`): they repeat what
the reduced ones say, at mouse-move grain and without any state. The other files are
`metadata_only`.

Smallest shape: {"action": "click", "event_start_idx": 70, "start_time": 1.0, "description":
"Single left Click", "coordinate": {"x": 1, "y": 2}, "axtree": {"Name": "Taskbar", "Children": []}}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from trajkit.adapters import Adapter
from trajkit.adapters.fields import mapping, mappings, text
from trajkit.model import Bundle, Record, Reject, Step, Trajectory, to_json_text

_FILES = re.compile(r"(.+)/(?:reduced_events_complete\.jsonl|task_name\.json|metadata\.json)\Z")
_EVENTS = "reduced_events_complete.jsonl"
_STATE = ("axtree", "pre_move", "children", "time_trace", "trace", "past_frame_target")
_NOTES = (
    "event_start_idx",
    "complete",
    "start_time",
    "end_time",
    "vis",
    "exception",
    "depth",
    "id",
)
_MACHINE = ("system", "release", "version", "screen_width", "screen_height", "start_time")


def bundle(path: str) -> str | None:
    """Return the folder of a recording."""
    found = _FILES.match(path)
    return found.group(1) if found else None


def detect(value: Any) -> bool:
    """Return whether a value is of a recording, or a folder with reduced events."""
    if isinstance(value, Bundle):
        return any(map(_is_reduced, mappings(value.files.get(_EVENTS))))
    return isinstance(value, dict) and (_is_reduced(value) or _is_raw(value) or _is_metadata(value))


def _is_reduced(value: dict[str, Any]) -> bool:
    return {"action", "event_start_idx", "start_time", "depth"} <= value.keys()


def _is_raw(value: dict[str, Any]) -> bool:
    return {"action", "event_idx", "time_stamp"} <= value.keys()


def _is_metadata(value: dict[str, Any]) -> bool:
    return (
        value.keys() == {"task_name", "description"}
        or value.keys() == {"time_stamp", "top_window_name"}
        or {"video_start_timestamp", "screen_width"} <= value.keys()
    )


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the episode of the reduced events, or say what else a file is."""
    files = record.value.files if isinstance(record.value, Bundle) else {}
    lines = files[_EVENTS] if files else record.value
    events = lines if isinstance(lines, list) else [lines]
    if not any(map(_is_reduced, mappings(events))):
        is_raw = any(map(_is_raw, mappings(events)))
        yield Reject(
            origin=record.origin,
            reason="recording_events" if is_raw else "metadata_only",
            message="raw events of a recording" if is_raw else "a note beside a recording",
        )
        return
    kept: list[dict[str, Any]] = []
    record.ledger.expect([*range(len(events)), *files])
    for number, event in enumerate(events):
        if isinstance(event, dict) and _is_reduced(event):
            kept.append(event)
            record.ledger.became(number, "action")
        else:
            record.ledger.left_out(number, "unknown_event")
    for name in files:
        record.ledger.became(name, "context")
    named = mapping(files.get("task_name.json"))
    machine = mapping(files.get("metadata.json"))
    yield Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        domain="os",
        agent="human",
        task=text(named.get("task_name")),
        initial_state=_tree(kept[0]),
        started_at=text(machine.get("start_time")),
        meta=to_json_text({key: machine[key] for key in _MACHINE if key in machine}),
        steps=tuple(_steps(kept)),
    )


def _tree(event: dict[str, Any]) -> str | None:
    tree = event.get("axtree")
    return tree if isinstance(tree, str) else to_json_text(tree) if tree else None


def _steps(events: list[dict[str, Any]]) -> Iterator[Step]:
    for number, event in enumerate(events):
        tree = _tree(events[number + 1]) if number + 1 < len(events) else None
        done = {key: item for key, item in event.items() if key not in (*_STATE, *_NOTES)}
        time = event.get("end_time")
        yield Step(
            action=to_json_text(done),
            action_kind="gui",
            action_name=text(event.get("action")),
            turn=number,
            thought=text(event.get("description")),
            observation=tree,
            observation_kind="none" if tree is None else "json",
            time=None if time is None else str(time),
        )


ADAPTER = Adapter(
    name="agentnet-recording",
    title="AgentNet annotation tool recordings (OpenCUA)",
    domains=("os",),
    detect=detect,
    extract=extract,
    unit="session",
    bundle=bundle,
)
