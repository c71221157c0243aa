"""Texts inside texts: the strings of JSON at any depth, each with the way back to its bytes.

A cell of a table may be JSON whose strings hold JSON again. Secrets are looked for in decoded
strings, since an escape hides where a word begins; what is found is cut out of the raw bytes, so
that all else stays as it was written: no value is ever serialised again.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from dataclasses import dataclass

import orjson

MAX_DEPTH = 12
_MIN_STRING = 6
# From the first escape of a string to its end, each escape as one.
_TO_QUOTE = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.", re.DOTALL
)


@dataclass(slots=True, eq=False)
class Piece:
    """One text to look through: a cell, a line of a cell that is JSON, or a decoded string."""

    cell: int
    """Which cell it is of."""
    raw: bytes
    """The text itself."""
    view: bytes
    """The same, where two spaces stand for each stretch that is a piece of its own."""
    parent: Piece | None = None
    """The piece it lies in."""
    offset: int = 0
    """Where it begins in its parent."""
    source: bytes | None = None
    """What stands for it in its parent when that is not `raw` itself."""
    _is_json: bool | None = None
    _gaps: tuple[list[int], list[int]] | None = None
    _map: tuple[list[int], list[int]] | None = None

    @property
    def is_json(self) -> bool:
        """Return whether the whole text is one JSON document."""
        if self._is_json is None:
            self._is_json = _opens(self.raw) and _parses(self.raw)
        return self._is_json

    def shorten(self, stretches: list[tuple[int, int]]) -> None:
        """Take the stretches of `raw` out of the view."""
        view: list[bytes] = []
        ends: list[int] = []
        shifts = [0]
        position = length = 0
        for start, end in stretches:
            view += (self.raw[position:start], _BLANK)
            length += start - position + len(_BLANK)
            ends.append(length)
            shifts.append(end - length)
            position = end
        view.append(self.raw[position:])
        self.view = b"".join(view)
        self._gaps = ends, shifts

    def in_raw(self, position: int) -> int:
        """Return where a position of the view lies in `raw`."""
        if self._gaps is None:
            return position
        ends, shifts = self._gaps
        return position + shifts[bisect_right(ends, position)]

    @property
    def quote(self) -> bytes:
        """Return how a quote of this text is written in the cell."""
        n_backslashes = 0
        piece: Piece | None = self
        while piece is not None:
            if piece.source is not None:
                n_backslashes = 2 * n_backslashes + 1
            piece = piece.parent
        return b"\\" * n_backslashes + b'"'

    def lift(self, start: int, end: int) -> tuple[int, int]:
        """Return the same span in the bytes of the cell."""
        piece = self
        while piece.parent is not None:
            if piece.source is not None:
                start, end = piece._raw(start), piece._raw(end)
            start, end = start + piece.offset, end + piece.offset
            piece = piece.parent
        return start, end

    def _raw(self, position: int) -> int:
        if self._map is None:
            self._map = _positions(self.source or b"")
        decoded, raw = self._map
        at = bisect_right(decoded, position) - 1
        return raw[at] + position - decoded[at]


_BLANK = b"  "
_SPACE = b" \t\r\n"


def _opens(raw: bytes) -> bool:
    first = raw[:1]
    return (raw.lstrip()[:1] if first in _SPACE else first) in (b"{", b"[", b'"')


def pieces_of(cell: int, raw: bytes) -> list[Piece]:
    """Return a cell and all texts inside it; the cell itself comes first.

    >>> [piece.raw for piece in pieces_of(0, rb'{"a": "x\\ny and more"}')][1]
    b'x\\ny and more'
    """
    found: list[Piece] = []
    _collect(Piece(cell, raw, raw), found, 0)
    return found


def _collect(piece: Piece, found: list[Piece], depth: int) -> None:
    found.append(piece)
    raw = piece.raw
    if b"\\" not in raw or depth >= MAX_DEPTH:
        return
    if piece.is_json:
        _open_strings(piece, found, depth)
    elif b"\n{" in raw or raw[:1] == b"{":
        _open_lines(piece, found, depth)


def _open_strings(piece: Piece, found: list[Piece], depth: int) -> None:
    """Make pieces of the strings of a JSON document that hold an escape."""
    stretches = []
    raw = piece.raw
    end = 0
    while (escape := raw.find(b"\\", end)) >= 0:
        start = raw.rfind(b'"', end, escape) + 1
        match = _TO_QUOTE.match(raw, escape)
        end = match.end() if match else len(raw)
        stretches.append((start, end))
        if end - start >= _MIN_STRING:
            token = raw[start:end]
            text = _decoded(token)
            _collect(Piece(piece.cell, text, text, piece, start, token), found, depth + 1)
    piece.shorten(stretches)


def _open_lines(piece: Piece, found: list[Piece], depth: int) -> None:
    """Make pieces of the lines of a text that are JSON objects of their own."""
    stretches = []
    raw = piece.raw
    start = 0 if raw[:1] == b"{" else raw.find(b"\n{") + 1
    while True:
        end = raw.find(b"\n", start)
        end = len(raw) if end < 0 else end
        line = raw[start:end]
        if b"\\" in line:
            inner = Piece(piece.cell, line, line, piece, start)
            if inner.is_json:
                _collect(inner, found, depth + 1)
                stretches.append((start, end))
        start = raw.find(b"\n{", end) + 1
        if not start:
            break
    piece.shorten(stretches)


def _parses(raw: bytes) -> bool:
    try:
        orjson.loads(raw)
    except ValueError:
        if b"\\ud" not in raw and b"\\uD" not in raw and b"NaN" not in raw and b"Inf" not in raw:
            return False
        try:
            json.loads(raw)
        except (ValueError, RecursionError):
            return False
    return True


def _decoded(token: bytes) -> bytes:
    quoted = b'"%s"' % token
    try:
        text: str = orjson.loads(quoted)
    except ValueError:
        text = json.loads(quoted)
    return text.encode("utf-8", "replace")


def _positions(token: bytes) -> tuple[list[int], list[int]]:
    """Return offsets in a decoded string and in its token where a run of equal bytes begins.

    >>> _positions(rb"a\\nbc")
    ([0, 1, 2], [0, 1, 3])
    """
    decoded, raw, here = [0], [0], 0
    last = 0
    for match in _ESCAPE.finditer(token):
        here += match.start() - last
        decoded.append(here)
        raw.append(match.start())
        here += _size(match.group())
        last = match.end()
        decoded.append(here)
        raw.append(last)
    if len(decoded) > 2 and decoded[0] == decoded[1]:
        del decoded[0], raw[0]
    return decoded, raw


def _size(escape: bytes) -> int:
    """Return how many bytes of UTF-8 an escape stands for; a lone surrogate became `?`."""
    if escape[1:2] != b"u":
        return 1
    if len(escape) == 12:
        return 4
    number = int(escape[2:6], 16)
    if number < 0x80 or 0xD800 <= number < 0xE000:
        return 1
    return 2 if number < 0x800 else 3
