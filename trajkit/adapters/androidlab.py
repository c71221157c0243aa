"""AndroidLab traces: `traces/trace.jsonl` of a task, with the screens in `xml/` beside it.

Written by the recorder of AndroidLab, one line a round: `trace_id`, `index`, `prompt`, `target`
(the instruction), `image`, `xml` and `ac_xml` (paths; `ERROR` when the dump failed, null when it
was not asked for), `current_activity`, `current_response`, `parsed_action`. Two dialects of
`parsed_action`: `{"operation": "do", "action": "Tap", "kwargs": {...}}` with the operation `finish`
at the end, and `{"type": ..., "input": ...}`; both stay as logged. A reply that gave none is an
invalid action.

The screen stands before its action and is shifted. It is the text the agent was given
(`xml/N_compressed_xml.txt`), else the dump (`xml/N.xml`); a trace that came without its folder has
no screens. Where a dump failed, the step before has no observation and the error
`screen_not_dumped`. The reply is the thought. Lines whose index begins again are a second attempt
and another episode of the file.

Smallest shape: {"trace_id": "t", "index": 0, "target": "...", "xml": "xml/0.xml",
"parsed_action": {"operation": "do", "action": "Tap", "kwargs": {"element": [1, 2, 3, 4]}}}
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from trajkit.adapters import Adapter
from trajkit.adapters.phone_steps import Logged, shifted
from trajkit.adapters.screens import named_picture, state_text
from trajkit.model import Bundle, Record, Reject, Trajectory, to_json_text

_TRACE = "traces/trace.jsonl"
_PATH = re.compile(r"(.+?)/(?:traces/trace\.jsonl|xml/(?:ac_)?\d+(?:_compressed_xml\.txt|\.xml))")


def detect(value: Any) -> bool:
    """Return whether a value is a line of a trace, or a bundle with one."""
    if isinstance(value, Bundle):
        lines = value.files.get(_TRACE)
        return any(map(detect, lines if isinstance(lines, list) else [lines]))
    return isinstance(value, dict) and {"trace_id", "index", "xml", "target"} <= value.keys()


def bundle(path: str) -> str | None:
    """Return the task folder that a file belongs to."""
    match = _PATH.fullmatch(path)
    return match[1] if match else None


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the episode of each attempt in a trace."""
    screens: Mapping[str, Any] = {}
    lines = record.value
    if isinstance(record.value, Bundle):
        screens = record.value.files
        lines = screens[_TRACE]
    lines = lines if isinstance(lines, list) else [lines]
    record.ledger.expect(range(len(lines)))
    attempts: list[list[dict[str, Any]]] = []
    for number, line in enumerate(lines):
        if not detect(line):
            record.ledger.left_out(number, "unknown_event")
            continue
        record.ledger.became(number, "action")
        begins = not attempts or _index(line) <= _index(attempts[-1][-1])
        if begins:
            attempts.append([])
        attempts[-1].append(line)
    for name in screens:
        if name != _TRACE and isinstance(screens[name], str):
            record.ledger.became(name, "observation")
    if not attempts:
        yield Reject(origin=record.origin, reason="no_action", message="the trace has no rounds")
    for number, rounds in enumerate(attempts):
        origin = record.origin
        if len(attempts) > 1:
            origin = replace(origin, key=f"attempt[{number}]")
        yield _episode(rounds, screens if number == len(attempts) - 1 else {}, origin)


def _index(line: dict[str, Any]) -> int:
    index = line["index"]
    return index if isinstance(index, int) else 0


def _episode(rounds: list[dict[str, Any]], screens: Mapping[str, Any], origin: Any) -> Trajectory:
    logged = [_logged(line, screens) for line in rounds]
    first = rounds[0]
    finished = isinstance(logged[-1].action, dict) and (
        "finish" in (logged[-1].action.get("operation"), logged[-1].action.get("type"))
    )
    return Trajectory(
        origin=origin,
        adapter=ADAPTER.name,
        domain="android",
        task=first["target"] if isinstance(first["target"], str) else None,
        initial_state=logged[0].state,
        exit_status="finish" if finished else None,
        meta=to_json_text(
            {
                "trace_id": first["trace_id"],
                "window": first.get("window"),
                "initial_media": logged[0].picture,
            }
        ),
        steps=shifted(logged),
    )


def _logged(line: dict[str, Any], screens: Mapping[str, Any]) -> Logged:
    parsed, said = line.get("parsed_action"), line.get("current_response")
    thought = said if isinstance(said, str) and said else None
    state, error = _screen(line, screens)
    is_action = isinstance(parsed, dict) and bool(parsed)
    name = (parsed.get("action") or parsed.get("type")) if isinstance(parsed, dict) else None
    return Logged(
        action=parsed if is_action else thought or "",
        name=name if isinstance(name, str) else None,
        kind="gui" if is_action else "message" if thought else "none",
        valid=is_action,
        thought=thought if is_action else None,
        state=state,
        picture=named_picture(line.get("image")),
        error=error,
        number=line["index"] if isinstance(line["index"], int) else None,
    )


def _screen(line: dict[str, Any], screens: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the screen of a round, and why there is none."""
    named = [path for path in (line["xml"], line.get("ac_xml")) if isinstance(path, str)]
    if named and all(path == "ERROR" for path in named):
        return None, "screen_not_dumped"
    index = line["index"]
    for name in (f"{index}_compressed_xml.txt", f"{index}.xml", f"ac_{index}.xml"):
        path = f"xml/{name}"
        if path in screens and isinstance(screens[path], str):
            return state_text([("Activity", line.get("current_activity"))], screens[path]), None
    return None, None


ADAPTER = Adapter(
    name="androidlab",
    title="AndroidLab traces with their screens",
    domains=("android",),
    detect=detect,
    extract=extract,
    unit="session",
    bundle=bundle,
)
