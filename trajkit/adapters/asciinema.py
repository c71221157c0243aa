"""asciinema recordings (`.cast`): asciicast 1, 2 and 3, one terminal session a file.

Defined by the asciicast documents of the asciinema project. A version 2 file is a header line and
event lines `[seconds since the start, code, data]`; version 3 counts seconds from the event before,
moves the size into `term` and adds `x` (exit status) and comment lines, which are no JSON and are
counted by the reader; version 1 is one document with a list `stdout` of `[delay, data]`.

`i` events are keys (recorded on demand only), `o` events output. Events end anywhere, inside an
escape sequence too, so output is joined before it is looked at; half characters were mended by the
recorder or are mended by the reader. Keys up to the one that submits are one action, with the lines
of a here-document or an open quote; a last command that is still open has `action_valid` false.
The observation is the output up to the next action, as recorded, with the echo of the keys; while
a full-screen program holds the terminal it is the whole screen instead (`screen`). What a terminal
answers by itself is no key. Without `i` events commands are told by the marks a shell sends around
its prompt (bracketed paste, shell integration 133, which gives the exit code); a recording without
those either is the reject `no_action`: its output cannot be cut safely at what looks like a prompt.

Smallest shape: {"version": 2, "width": 80, "height": 24}, then the lines [0.1, "o", "$ "],
[0.9, "i", "ls\\r"] and [1.0, "o", "ls\\r\\na.txt\\r\\n$ "]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trajkit.adapters import Adapter
from trajkit.adapters.casts import Recording, actions, frames, is_header, is_reply, read, steps
from trajkit.model import Record, Reject, Trajectory, to_json_text

_LEFT_OUT = {"r": "resize", "m": "marker", "i": "terminal_reply"}


def detect(value: Any) -> bool:
    """Return whether a value is the header of a recording."""
    return is_header(value)


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the one episode of a recording that tells what was typed."""
    lines = record.value
    if isinstance(lines, dict):
        lines = frames(lines) if lines["version"] == 1 else [lines]
    ledger = record.ledger
    ledger.expect(range(len(lines)))
    recording = read(lines)
    before, first, typed = actions(recording)
    if not typed:
        yield Reject(
            origin=record.origin,
            reason="no_action",
            message="the recording holds no keys, and no marks that tell its commands",
        )
        return
    for index in range(len(lines)):
        ledger.left_out(index, "unknown_event")
    ledger.became(lines.index(recording.header), "context")
    for index in first:
        ledger.became(index, "context")
    for action in typed:
        for index in action.outputs:
            ledger.became(index, "observation")
        for index in action.inputs:
            ledger.became(index, "action")
    for event in recording.events:
        if event.code in _LEFT_OUT:
            ledger.left_out(event.index, _LEFT_OUT[event.code])
        if event.code == "x":
            ledger.became(event.index, "context")
    header = recording.header
    yield Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        format_version=str(header["version"]),
        domain="terminal",
        initial_state=before,
        exit_status=_exit_status(recording),
        started_at=recording.clock(0.0),
        meta=to_json_text(
            {
                "size": recording.size,
                "title": header.get("title"),
                "command": header.get("command"),
                "terminal_replies": sum(map(is_reply, recording.events)),
            }
        ),
        steps=tuple(steps(recording, typed)),
    )


def _exit_status(recording: Recording) -> str | None:
    return next((event.data for event in recording.events if event.code == "x"), None)


ADAPTER = Adapter(
    name="asciinema",
    title="asciinema recordings, asciicast 1 to 3",
    domains=("terminal",),
    detect=detect,
    extract=extract,
    unit="session",
)
