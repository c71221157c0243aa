"""Recorded terminal sessions (asciicast 1, 2 and 3), cut into what was typed and what came back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from trajkit.model import Step, to_json_text
from trajkit.terminal_text import Terminal, shown

# What a terminal answers by itself: its kind, the cursor's place, its colours.
_REPLY = re.compile(
    r"(?:\x1b\[[?>]?[\d;]*[cnRt]|\x1b\[[IO]|\x1b\]\d+;[^\x07\x1b]*(?:\x07|\x1b\\)|\x1bP[^\x1b]*\x1b\\)+"
)
_SUBMITS = re.compile("[\x00-\x07\x0a-\x1f]")
_HEREDOC = re.compile(r"<<(?P<tabs>-?)[ \t]*(?P<quote>['\"\\]?)(?P<word>[A-Za-z_][\w.]*)")
_PROMPT = re.compile(r"\x1b\[\?2004h|\x1b\]133;A[^\x07\x1b]*(?:\x07|\x1b\\)")
_RUNS = re.compile(r"\x1b\[\?2004l\r?|\x1b\]133;C[^\x07\x1b]*(?:\x07|\x1b\\)")
_DONE = re.compile(r"\x1b\]133;D;(\d+)[^\x07\x1b]*(?:\x07|\x1b\\)")


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a recording; `time` in seconds since its start."""

    index: int
    time: float
    code: str
    data: str


@dataclass(slots=True)
class Typed:
    """One action in a recording and the output up to the next one."""

    keys: str = ""
    is_command: bool = False
    """Whether `keys` is a command read off the screen, since no key was recorded."""
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    output: str = ""
    full_screen: str | None = None
    """The screen afterwards, where a program held all of it before or after."""
    start: float = 0.0
    last_key: float = 0.0
    end: float = 0.0
    exit_code: int | None = None


@dataclass(slots=True)
class Recording:
    """A recording as its header and its events; what is neither is named by its index."""

    header: dict[str, Any]
    events: list[Event]
    others: list[int]

    @property
    def size(self) -> tuple[int, int]:
        """Return columns and lines."""
        term = self.header.get("term")
        fields = term if isinstance(term, dict) else self.header
        wide = fields.get("cols", fields.get("width"))
        high = fields.get("rows", fields.get("height"))
        return _size(wide, 80), _size(high, 24)

    def clock(self, seconds: float) -> str | None:
        """Return a moment of the recording as ISO 8601, when its start is known."""
        start = self.header.get("timestamp")
        if not isinstance(start, int | float) or isinstance(start, bool):
            return None
        try:
            moment = datetime.fromtimestamp(start + seconds, UTC)
        except (OverflowError, OSError, ValueError):
            return None
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _size(value: Any, default: int) -> int:
    return value if type(value) is int and 0 < value < 10_000 else default


def is_header(value: Any) -> bool:
    """Return whether a value is the first line of a recording, or one of version 1 as a whole."""
    if not isinstance(value, dict) or type(value.get("version")) is not int:
        return False
    if value["version"] == 1:
        return isinstance(value.get("stdout"), list) and "width" in value
    if value["version"] == 3:
        return isinstance(value.get("term"), dict) and "cols" in value["term"]
    return value["version"] == 2 and "width" in value and "height" in value


def read(lines: Sequence[Any]) -> Recording:
    """Return a recording from its decoded lines.

    Times are counted from the start in version 2, from the event before in the others.
    """
    header: dict[str, Any] = next((line for line in lines if is_header(line)), {})
    events: list[Event] = []
    others: list[int] = []
    now = 0.0
    for index, line in enumerate(lines):
        match line:
            case [int() | float() as time, str() as code, str() as data]:
                now = float(time) if header.get("version") == 2 else now + time
                events.append(Event(index, now, code, data))
            case _ if line is not header:
                others.append(index)
    return Recording(header, events, others)


def frames(document: dict[str, Any]) -> list[Any]:
    """Return a recording of version 1 as the lines of a later one."""
    pairs = [frame for frame in document["stdout"] if isinstance(frame, list) and len(frame) == 2]
    return [document, *([delay, "o", data] for delay, data in pairs)]


def is_reply(event: Event) -> bool:
    """Return whether an input event was sent by the terminal itself."""
    return event.code == "i" and _REPLY.fullmatch(event.data) is not None


def is_open(command: str) -> bool:
    r"""Return whether a shell would wait for more: a here-document, a quote, a last backslash.

    >>> is_open("cat <<'EOF'\n$ ls\n"), is_open("cat <<'EOF'\n$ ls\nEOF\n"), is_open("echo 'a")
    (True, False, True)
    """
    lines = re.split(r"\r\n|\r|\n", command)
    if not lines[-1]:
        lines.pop()
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        while _quote_is_open(line) and number < len(lines):
            line += "\n" + lines[number]
            number += 1
        if _quote_is_open(line):
            return True
        for mark in _HEREDOC.finditer(line):
            word, strip = mark["word"], "\t" if mark["tabs"] else ""
            while number < len(lines) and lines[number].lstrip(strip) != word:
                number += 1
            if number >= len(lines):
                return True
            number += 1
    return False


def _quote_is_open(line: str) -> bool:
    quote = ""
    escaped = False
    for place, char in enumerate(line):
        if escaped:
            escaped = False
        elif char == "\\" and quote != "'":
            escaped = True
        elif quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == "#" and (place == 0 or line[place - 1] in " \t;"):
            return False
    return bool(quote) or escaped


def actions(recording: Recording) -> tuple[str | None, list[int], list[Typed]]:
    """Return the output before the first action, its event indices, and the actions.

    Keys belong to one action until one of them submits (Enter, a control key) and no quote or
    here-document is open; the next key begins another. Nothing is cut at what only looks like a
    prompt. Without recorded keys, commands are told by the marks that a shell sends around its
    prompt (bracketed paste, shell integration); without those there are none.
    """
    if any(event.code == "i" and not is_reply(event) for event in recording.events):
        return _by_keys(recording)
    return _by_marks(recording)


def _by_keys(recording: Recording) -> tuple[str | None, list[int], list[Typed]]:
    terminal = Terminal(*recording.size)
    before, first = "", []
    found: list[Typed] = []
    ready = True
    held = False
    for event in recording.events:
        if event.code == "i" and not is_reply(event):
            if ready:
                _close(found, terminal, held)
                held = terminal.is_full_screen
                found.append(Typed(start=event.time))
            typed = found[-1]
            typed.keys += event.data
            typed.inputs.append(event.index)
            typed.last_key = typed.end = event.time
            ready = _SUBMITS.search(event.data) is not None
            if ready and not terminal.is_full_screen and event.data[-1] in "\r\n":
                ready = not is_open(typed.keys)
        elif event.code == "o":
            terminal.feed(event.data)
            if found:
                found[-1].output += event.data
                found[-1].outputs.append(event.index)
                found[-1].end = event.time
            else:
                before += event.data
                first.append(event.index)
    _close(found, terminal, held)
    return before or None, first, found


def _close(found: list[Typed], terminal: Terminal, held: bool) -> None:
    if found and (held or terminal.is_full_screen):
        found[-1].full_screen = terminal.view()


def _by_marks(recording: Recording) -> tuple[str | None, list[int], list[Typed]]:
    before, first = "", []
    found: list[Typed] = []
    prompt: str | None = None
    line, line_events = "", []
    for event in recording.events:
        if event.code != "o":
            continue
        marks = list(_PROMPT.finditer(event.data))
        runs = _RUNS.search(event.data) if prompt is not None else None
        if prompt is not None and not (marks and not runs):
            # Echo of what is being typed: the next command's, never the one's before.
            line += event.data
            line_events.append(event.index)
            if runs is None:
                continue
            typed = line[: len(line) - len(event.data) + runs.start()]
            command = shown(prompt + typed).removeprefix(prompt).rstrip("\r\n")
            if found and is_open(found[-1].keys + "\n"):
                found[-1].keys += "\n" + command
            elif command.strip():
                found.append(Typed(keys=command, is_command=True, start=event.time))
            held, prompt = line, None
        else:
            held, line_events = event.data, [event.index]
        if marks and (runs is None or marks[-1].start() > runs.start()):
            # The rest of this event is the prompt; what comes after it is typed.
            rest = event.data[marks[-1].end() :]
            prompt, line = None if _RUNS.search(rest) else shown(rest), ""
        if found:
            found[-1].output += held
            found[-1].outputs += line_events
            found[-1].last_key = found[-1].start
            found[-1].end = event.time
            # A file may hold such marks too; the shell's own is the last before the prompt.
            codes = _DONE.findall(event.data)
            found[-1].exit_code = int(codes[-1]) if codes else found[-1].exit_code
        else:
            before += held
            first += line_events
        line_events = []
    return before or None, first, found


def steps(recording: Recording, typed: Sequence[Typed]) -> Iterator[Step]:
    """Give the actions as steps: the output as recorded, or the whole screen of an editor.

    `duration` is the time from the last key to the next action, as it was.
    """
    for turn, action in enumerate(typed):
        following = typed[turn + 1].start if turn + 1 < len(typed) else action.end
        batch = {"keystrokes": action.keys, "duration": round(following - action.last_key, 3)}
        unfinished = turn + 1 == len(typed) and is_open(action.keys.removesuffix("\x04") + "\n")
        screen = action.full_screen
        yield Step(
            action=action.keys if action.is_command else to_json_text([batch]),
            action_kind="code" if action.is_command else "keystrokes",
            action_valid=not unfinished,
            turn=turn,
            observation=action.output if screen is None else screen,
            observation_kind="text" if screen is None else "screen",
            exit_code=action.exit_code,
            time=recording.clock(action.end),
        )
