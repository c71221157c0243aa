"""Put placeholders where secrets stood: the same one for the same secret throughout an episode."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import orjson

from trajkit.secrets import find_all, occurrences
from trajkit.secrets.findings import PLACEHOLDER, Finding
from trajkit.secrets.names import looks_drawn
from trajkit.secrets.nested import Piece, pieces_of
from trajkit.secrets.personal import names_again

_BETWEEN = b"\n\n"
_MIN_ELSEWHERE = 8
_WORDLIKE = re.compile(rb"[A-Za-z]+|[0-9]{1,9}|[\w.-]*(?:\.[a-z]{2,4})")


@dataclass(slots=True)
class Masked:
    """An episode's cells after masking."""

    cells: dict[int, str] = field(default_factory=dict)
    """New text by number of the cell, of those that changed."""
    replaced: Counter[str] = field(default_factory=Counter)
    """How many spans were replaced, by kind."""
    distinct: Counter[str] = field(default_factory=Counter)
    """How many different values that were, by word of the placeholder."""


class _Cut(NamedTuple):
    cell: int
    start: int
    end: int
    kind: str
    group: str
    value: bytes
    bare: bool
    quote: bytes = b'"'


def mask(episodes: Sequence[Sequence[str | bytes | None]]) -> list[Masked]:
    """Return what to change in each episode, given as a list of its texts in a fixed order.

    Texts may be bytes of UTF-8 already, which spares a caller with many of them two conversions.
    Placeholders are numbered by first appearance in that order, each episode for itself, so they
    do not depend on what else is masked. Numbers already taken in an episode are passed over.

    >>> mask([["login jane.roe@uni-ulm.de", None, '{"to": "jane.roe@uni-ulm.de"}']])[0].cells
    {0: 'login <email:1>', 2: '{"to": "<email:1>"}'}
    """
    joined = [_Joined(cells) for cells in episodes]
    found = find_all([one.text for one in joined], [one.in_json for one in joined])
    return [_masked(one, findings) for one, findings in zip(joined, found, strict=True)]


class _Joined:
    """All pieces of an episode as one text, so that a scan sees a key beside its counterpart."""

    def __init__(self, cells: Sequence[str | bytes | None]) -> None:
        self.cells = [cell.encode() if isinstance(cell, str) else cell or b"" for cell in cells]
        # A cell with nothing inside it is its own piece, made when asked for: most never are.
        self._pieces: list[Piece | int] = []
        self._starts: list[int] = []
        views: list[bytes] = []
        position = 0
        for number, raw in enumerate(self.cells):
            if not raw:
                continue
            if b"\\" in raw:
                for piece in pieces_of(number, raw):
                    self._pieces.append(piece)
                    self._starts.append(position)
                    views.append(piece.view)
                    position += len(piece.view) + len(_BETWEEN)
            else:
                self._pieces.append(number)
                self._starts.append(position)
                views.append(raw)
                position += len(raw) + len(_BETWEEN)
        self.text = _BETWEEN.join(views)

    def piece_at(self, position: int) -> tuple[Piece, int]:
        """Return the piece that holds a position, and where it begins."""
        number = bisect_right(self._starts, position) - 1
        piece = self._pieces[number]
        if isinstance(piece, int):
            piece = self._pieces[number] = Piece(piece, self.cells[piece], self.cells[piece])
        return piece, self._starts[number]

    def in_json(self, position: int) -> bool:
        """Return whether a position lies in a piece that is one JSON document."""
        return self.piece_at(position)[0].is_json

    def cuts(self, findings: Sequence[Finding]) -> Iterator[_Cut]:
        """Give the findings as spans of cells; those that no cell holds whole are left out."""
        last: Piece | None = None
        n_quotes = counted_to = 0
        for found in findings:
            if found.end <= found.start:
                continue
            piece, offset = self.piece_at(found.start)
            start, end = found.start - offset, found.end - offset
            if end > len(piece.view):
                continue
            if piece.is_json:
                if piece is not last:
                    last, n_quotes, counted_to = piece, 0, 0
                n_quotes += piece.view.count(b'"', counted_to, start)
                counted_to = start
                inside = n_quotes % 2 == 1 and b'"' not in piece.view[start:end]
                if not inside and not found.bare:
                    continue
                start, end = piece.in_raw(start), piece.in_raw(end)
                value = _decoded(piece.raw[start:end])
            else:
                start, end = piece.in_raw(start), piece.in_raw(end)
                start, end = _off_escapes(piece.raw, start, end)
                value = piece.raw[start:end]
            if value.strip() and not PLACEHOLDER.fullmatch(value):
                span = piece.lift(start, end)
                quote = piece.quote if found.bare else b""
                yield _Cut(piece.cell, *span, found.kind, found.group, value, found.bare, quote)


def _decoded(value: bytes) -> bytes:
    if b"\\" not in value:
        return value
    try:
        text: str = orjson.loads(b'"%s"' % value)
    except ValueError:
        return value
    return text.encode()


def _off_escapes(raw: bytes, start: int, end: int) -> tuple[int, int]:
    """Return the span without halves of escapes: a text may quote JSON."""
    if raw[start : start + 1] in (b"n", b"r", b"t") and raw[:start].endswith(b"\\"):
        start += 1
    while end > start and raw[end - 1 : end] == b"\\":
        end -= 1
    return start, end


def _masked(joined: _Joined, findings: Sequence[Finding]) -> Masked:
    masked = Masked()
    if not findings:
        return masked
    cuts = list(joined.cuts(findings))
    again = sorted(set(_elsewhere(joined.text, cuts)) - set(findings))
    cuts += joined.cuts(again)
    cuts = _without_overlaps(cuts)
    if not cuts:
        return masked
    numbers: dict[tuple[str, bytes], int] = {}
    taken = _taken(joined.text)
    edits: dict[int, list[tuple[int, int, bytes]]] = {}
    for cut in cuts:
        identity = (cut.group, cut.value)
        if identity not in numbers:
            taken[cut.group] += 1
            numbers[identity] = taken[cut.group]
        placeholder = b"<%s:%d>" % (cut.group.encode(), numbers[identity])
        if cut.bare:
            placeholder = cut.quote + placeholder + cut.quote
        edits.setdefault(cut.cell, []).append((cut.start, cut.end, placeholder))
        masked.replaced[cut.kind] += 1
    masked.distinct.update(group for group, _ in numbers)
    for number, changes in edits.items():
        masked.cells[number] = _edited(joined.cells[number], changes).decode()
    return masked


def _elsewhere(text: bytes, cuts: Sequence[_Cut]) -> Iterator[Finding]:
    """Give the places where what was found stands without what gave it away."""
    names = {cut.value for cut in cuts if cut.kind == "user_name"}
    if names:
        yield from names_again(text, names)
    secrets = {cut.value: cut.kind for cut in cuts if cut.group == "secret"}
    for value, kind in secrets.items():
        if len(value) < _MIN_ELSEWHERE or _WORDLIKE.fullmatch(value):
            continue
        if looks_drawn(value) or re.search(rb"[0-9]", value):
            yield from occurrences(text, value, kind)


def _without_overlaps(cuts: list[_Cut]) -> list[_Cut]:
    """Return the cuts in order, joined where they overlap: the longest names the kind."""
    kept: list[_Cut] = []
    for cut in sorted(cuts, key=lambda c: (c.cell, c.start, -c.end, not c.bare, c.kind)):
        last = kept[-1] if kept else None
        if last is None or last.cell != cut.cell or cut.start >= last.end:
            kept.append(cut)
        elif cut.end > last.end:
            tail = cut.value[-(cut.end - last.end) :]
            kept[-1] = last._replace(end=cut.end, value=last.value + tail)
    return kept


def _taken(text: bytes) -> Counter[str]:
    taken: Counter[str] = Counter()
    for match in PLACEHOLDER.finditer(text):
        group = match[1].decode()
        taken[group] = max(taken[group], int(match[2]))
    return taken


def _edited(raw: bytes, changes: Sequence[tuple[int, int, bytes]]) -> bytes:
    out: list[bytes] = []
    position = 0
    for start, end, placeholder in changes:
        out += (raw[position:start], placeholder)
        position = end
    out.append(raw[position:])
    return b"".join(out)
