"""Text from terminals: what a screen shows of raw output, and the marks left where it was cut.

Raw output holds the orders that move a cursor: escape sequences, lone carriage returns,
backspaces. A store keeps it as logged; `shown` is what a world model is asked for. Text that only
looks like an order (`\\x1b[0m` written out in source code) and CRLF line ends are not raw.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

_RAW = re.compile("[\x1b\b]|\r(?!\r*\n)")
_SEQUENCE = re.compile(
    r"\x1b\[(?P<parameters>[0-?]*)(?P<between>[ -/]*)(?P<final>[@-~])"
    r"|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # titles and links
    r"|\x1b[PX^_][^\x1b]*\x1b\\"  # strings for the device
    r"|\x1b[ -/]+[0-~]"  # character sets
    r"|\x1b(?P<short>[0-~])"
    r"|\x1b"
)
_CUT_OFF = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b\n]*\x1b?|[PX^_][^\x1b]*\x1b?|[ -/]*)\Z")
_REPEAT = re.compile(r"([^\x00-\x1f\x7f])\x1b\[(\d{1,4})b")
# Control characters without a place on a screen; some above U+0080 would open sequences.
_SILENT = re.compile("[\x00-\x07\x0e-\x1a\x1c-\x1f\x7f-\x9f]")
_OF_ONE = frozenset("@ABCDEFGJKLMPSTXade")
_OF_TWO = frozenset("Hfr")
_SHORT = frozenset("78DEMc")
_SAVES = {"s": "\x1b7", "u": "\x1b8"}
_GOES_BACK = re.compile(r"[ -~\r\b]*")
_RUN = re.compile(r"[ -~]+|[\r\b]")
_LEAVES_THE_LINE = re.compile(r"\x1b\[[\d;?]*[^CDGKPXa@\d;?]|\x1b[^\[]|[\v\f]")
_ADDRESS = re.compile(r"\x1b\[(\d*)(?:;(\d*))?[Hfrd]")
_ORDER = re.compile(r"\x1b\[(\d*)([ST])|\x1b\[\?1049([hl])")
_ALTERNATE = frozenset({"47", "1047", "1049"})
_MAX_CELLS = 9_999


def is_raw(text: str) -> bool:
    """Return whether a text holds orders to a terminal.

    >>> is_raw("50%\\r100%"), is_raw("a\\r\\nb"), is_raw(r"printf '\\x1b[0m'")
    (True, False, False)
    """
    return _RAW.search(text) is not None


def shown(text: str) -> str:
    """Return what a terminal shows of a text when it is raw, else the text itself."""
    return screen(text) if is_raw(text) else text


def screen(text: str, *, columns: int | None = None, lines: int | None = None) -> str:
    """Return what a terminal of that size shows after a text, scroll-back first.

    Blanks at the end of a line are not shown, but for those before the cursor. Without a size the
    terminal is as wide as the text needs, so that no line wraps; while the text stays within its
    lines, each line without an order is kept to the character (tabs, blanks at its end).
    Line ends may be LF or CRLF. Where a text has CRLF and addresses the screen, a bare LF only
    moves down.

    >>> screen("  0%\\r 50%\\r100%\\nok\\n")
    '100%\\nok\\n'
    >>> screen("abcdefgh", columns=4)
    'abcd\\nefgh'
    """
    orders = _readable(_CUT_OFF.sub("", text))
    if columns is None and not _LEAVES_THE_LINE.search(orders):
        return "\n".join(
            _one_line(line) if _RAW.search(line) else line
            for line in re.sub("\r+\n", "\n", orders).split("\n")
        )
    rows, places = [24], [80]
    for row, place in _ADDRESS.findall(orders):
        rows.append(min(int(row or 0), _MAX_CELLS))
        places.append(min(int(place or 0), _MAX_CELLS))
    if len(places) == 1:
        places.append(_width(orders))
    terminal = Terminal(columns or max(places), lines or max(rows))
    terminal.feed(text)
    return terminal.text()


def _one_line(line: str) -> str:
    if _GOES_BACK.fullmatch(line):
        return _overwritten(line)
    terminal = Terminal(max(80, _width(line)), 1)
    terminal.feed(line)
    return terminal.text()


def _overwritten(line: str) -> str:
    """Return what stands on a line that only goes back: counting progress, bold by overstrike.

    The same as a whole terminal makes of it, and quicker.
    """
    cells: list[str] = []
    place = 0
    for run in _RUN.findall(line):
        if run == "\r":
            place = 0
        elif run == "\b":
            place = max(0, place - 1)
        else:
            cells[place : place + len(run)] = run
            place += len(run)
    # Blanks at the end are not shown, but for those before the cursor.
    return "".join(cells[:place]) + "".join(cells[place:]).rstrip(" ")


def _width(text: str) -> int:
    """Return enough columns for the longest line, wide characters counted double."""
    return max(len(line) + sum(c > "\u10ff" for c in line) for line in text.split("\n"))


def _readable(text: str) -> str:
    """Return a text with the orders that are carried out here, each in its plainest form."""
    text = _REPEAT.sub(lambda match: match[1] * (int(match[2]) + 1), text)
    return _SILENT.sub("", _SEQUENCE.sub(_plain, text))


def _plain(match: re.Match[str]) -> str:
    final, short = match["final"], match["short"]
    if final is None:
        return match[0] if short in _SHORT else ""
    parameters: str = match["parameters"]
    if match["between"]:
        return ""
    if final in "hl" and parameters[:1] == "?":
        modes = parameters[1:].split(";")
        wraps = f"\x1b[?7{final}" if "7" in modes else ""
        return wraps + (f"\x1b[?1049{final}" if _ALTERNATE & set(modes) else "")
    if parameters.strip("0123456789;"):
        return ""
    numbers = parameters.split(";")
    if final in _OF_ONE:
        return f"\x1b[{numbers[0]}{final}"
    if final in _OF_TWO:
        return f"\x1b[{';'.join(numbers[:2])}{final}"
    if final == "`":
        return f"\x1b[{numbers[0]}G"
    return match[0] if final in "hl" and parameters == "4" else _SAVES.get(final, "")


class Terminal:
    """A terminal that is fed piece by piece; pieces may end inside an escape sequence."""

    def __init__(self, columns: int = 80, lines: int = 24) -> None:
        self._size = (columns, lines)
        self._main = self._now = _paper()(columns, lines)
        self._pending = ""
        self._addressed = False
        self._returns = False

    @property
    def is_full_screen(self) -> bool:
        """Whether a program holds the alternate screen."""
        return self._now is not self._main

    def feed(self, text: str) -> None:
        """Carry out a piece of output."""
        text = self._pending + text
        cut = _CUT_OFF.search(text)
        self._pending = cut[0] if cut else ""
        text = _readable(text[: len(text) - len(self._pending)])
        self._addressed = self._addressed or _ADDRESS.search(text) is not None
        self._returns = self._returns or "\r\n" in text
        if not (self._addressed and self._returns):
            text = re.sub("\r*\n", "\r\n", text)
        done = 0
        for order in _ORDER.finditer(text):
            self._now.stream.feed(text[done : order.start()])
            done = order.end()
            if order[3] is None:
                self._now.scroll(order[2], int(order[1] or 1))
            elif order[3] == "l":
                self._now = self._main
            elif not self.is_full_screen:
                self._now = _paper()(*self._size)
        self._now.stream.feed(text[done:])

    def text(self) -> str:
        """Return the lines scrolled out of the screen and those on it, down to the cursor."""
        return "\n".join([*self._now.scrolled, *self._now.rows()])

    def view(self) -> str:
        """Return the lines on the screen alone."""
        return "\n".join(self._now.rows())


@cache
def _paper() -> type[Any]:
    """Return the screen class; made on demand, since pyte is slow to import."""
    import pyte
    from wcwidth import wcwidth

    class Paper(pyte.Screen):
        """A screen that keeps the lines it scrolls away."""

        def __init__(self, columns: int, lines: int) -> None:
            self.scrolled: list[str] = []
            super().__init__(columns, lines)
            self.stream = pyte.Stream(self)

        def draw(self, data: str) -> None:
            # pyte composes marks with their letter, and drops all that follows a joiner.
            if data.isascii():
                super().draw(data)
                return
            for char in data:
                if wcwidth(char) > 0:
                    super().draw(char)
                elif self.cursor.x:
                    line = self.buffer[self.cursor.y]
                    x = self.cursor.x - 1
                    x -= x > 0 and not line[x].data
                    line[x] = line[x]._replace(data=line[x].data + char)

        def _edges(self) -> tuple[int, int]:
            return (self.margins.top, self.margins.bottom) if self.margins else (0, self.lines - 1)

        def index(self) -> None:
            top, bottom = self._edges()
            if self.cursor.y == bottom and top == 0:
                self.scrolled.append(self._row(0))
            super().index()

        def scroll(self, way: str, count: int) -> None:
            held, edges = self.cursor.y, self._edges()
            self.cursor.y = edges[1] if way == "S" else edges[0]
            for _ in range(min(count, self.lines)):
                (self.index if way == "S" else self.reverse_index)()
            self.cursor.y = held

        def erase_in_display(self, how: int = 0, *args: Any, **options: Any) -> None:
            if how == 3:
                self.scrolled.clear()
            else:
                super().erase_in_display(how, *args, **options)

        def _row(self, y: int) -> str:
            line = self.buffer[y]
            cells = [line[x].data for x in range(max(line, default=-1) + 1)]
            kept = self.cursor.x if y == self.cursor.y else 0
            while len(cells) > kept and cells[-1] == " ":
                cells.pop()
            return "".join(cells)

        def rows(self) -> list[str]:
            rows = [self._row(y) for y in range(self.lines)]
            while len(rows) > self.cursor.y + 1 and not rows[-1]:
                rows.pop()
            return rows

    return Paper


_LINE = r"(?:^|\\n)[ \t]*"
_END = r"[ \t]*(?:$|\r$|\\r|\\n|\")"
_WORD = r"(?:truncated|elided|omitted|clipped)"
_MARKS = tuple(
    re.compile(pattern, re.MULTILINE | re.IGNORECASE)
    for pattern in (
        # [... N lines omitted ...], ... [N characters truncated] ..., <truncated N lines>
        rf"{_LINE}(?:\.\.\.|…)?[ ]?[\[(<](?=[^\n]{{0,120}}(?:\d|\.\.\.|…))[^\n\[\]]{{0,120}}?"
        rf"\b{_WORD}\b[^\n\[\]]{{0,120}}?[\])>][ ]?(?:\.\.\.|…)?{_END}",
        rf"{_LINE}(?:\.\.\.|…)[ ]?[\[(<]?(?:output |content )?{_WORD}[\])>]?"
        rf"[ ]?(?:\.\.\.|…)?{_END}",
        r"(?<![`'\"])<response clipped>(?![`'\"])(?:<NOTE>[^\n]{0,400})?",
        r"…[\d,]+ (?:tokens|chars|characters|bytes|lines) truncated…",
        r"<elided_chars>\s*\d+ characters elided\s*</elided_chars>",
        r"\[truncated because the output is too long\]",
        rf"{_LINE}\[output {_WORD}\]{_END}",
        rf"{_LINE}\(Results are truncated\b[^\n]{{0,200}}",
        # Of the whole text:
        r"\AOld environment output: \(\d+ lines? omitted\)",
        r"\A\s*The output of your call to [^\n]{1,100} was too long to be displayed\.",
        r"\A<persisted-output>\s*Output too large\b",
        r"^Output too large\. (?:Showing|Full output)\b",
    )
)
_LAST_MARKS = tuple(
    re.compile(pattern, re.MULTILINE | re.IGNORECASE)
    for pattern in (
        r"\.\.\.[ ]?\(\d+ (?:characters|chars|bytes|tokens|lines)\)\Z",
        rf"{_LINE}[\[(<](?:output |content )?{_WORD}[\])>]\s*\Z",
    )
)
_MARK_CHARS = 400
"""No mark reaches further from its word than this; the note in a clipped response ends early."""
HINTS = (
    "runcated",
    "mitted",
    "lided",
    "lipped",
    " too l",
    "RUNCATED",
    "MITTED",
    "LIDED",
    "LIPPED",
)
# A viewer that shows part of a file by its own choice cuts nothing.
_WINDOW = re.compile(r"\d+ (?:more )?lines (?:above|below)")
_N_ELIDED = re.compile(
    rf"(\d[\d,]*)(?:[ ]\w+){{0,3}}?[ ]{_WORD}|{_WORD}[ ](\d[\d,]*)|(\d[\d,]*) characters were",
    re.IGNORECASE,
)
ROUND_LENGTHS = frozenset(
    [n * 1000 for n in (2, 4, 5, 8, 10, 12, 15, 16, 20, 25, 30, 32, 40, 50, 60, 64, 100, 150, 200)]
    + [2**n for n in range(11, 19)]
)
"""Numbers of characters at which harnesses cut. A text of just that length and without a mark is
suspect and no more: nothing in it tells a cut from chance, so it is counted and stays a target."""


def may_be_cut(text: str) -> bool:
    """Return whether a text holds a word that all marks of a cut share: a quick first look."""
    return text.endswith("s)") or any(hint in text for hint in HINTS)


def cut_marks(text: str) -> tuple[bool, int | None]:
    """Return whether a harness marked a text as cut, and the size it says it took out.

    The size is in the unit of the mark: characters, bytes, lines or tokens. Known are the marks of
    SWE-agent, mini-swe-agent, OpenHands, Claude Code, Codex, Gemini CLI, Qwen Code, Terminus,
    Inspect, AgentInstruct and those built like them. A mark stands on a line of its own or is one
    that nobody else writes, so prose about cutting is none, nor what a program shortened itself.

    >>> cut_marks("head\\n[... 12 lines omitted ...]\\ntail")
    (True, 12)
    >>> cut_marks("why logs get truncated ... and how")
    (False, None)
    """
    if not may_be_cut(text):
        return False, None
    for start, end in _stretches(text):
        for pattern in _MARKS:
            mark = pattern.search(text, start, end)
            if mark is not None and not _WINDOW.search(mark[0]):
                return True, _n_elided(mark[0])
    for pattern in _LAST_MARKS:
        mark = pattern.search(text, max(0, len(text) - _MARK_CHARS))
        if mark is not None:
            return True, _n_elided(mark[0])
    return False, None


def _stretches(text: str) -> Iterator[tuple[int, int]]:
    """Give the stretches of whole lines around the words that marks share: few of a long text.

    A line longer than any mark is cut where no mark can end.
    """
    done = 0
    for at in sorted(place for hint in HINTS for place in _all(text, hint)):
        if at < done:
            continue
        start = max(text.rfind("\n", 0, max(at - _MARK_CHARS, 0)), at - 2 * _MARK_CHARS, 0)
        done = text.find("\n", at + _MARK_CHARS)
        done = min(len(text) if done < 0 else done, at + 2 * _MARK_CHARS)
        yield start, done


def _all(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + len(part))


def _n_elided(mark: str) -> int | None:
    sizes = _N_ELIDED.search(mark)
    digits = next((size for size in sizes.groups() if size), None) if sizes else None
    return int(digits.replace(",", "")) if digits else None
