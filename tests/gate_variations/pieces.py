"""Screens told as text, cut into pieces, and where the texts for people stand in them.

A piece is a line, or one element where the whole state stands on one line.
"""

from __future__ import annotations

import re
from collections.abc import Callable

WORD = re.compile(r"[^\W_]+")
_SPAN = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"(\s*:)?")


def cut(text: str) -> list[str]:
    """Return the pieces of a state; joined they are the text."""
    start = text.lstrip()[:2]
    if start == "[{":
        pattern = r"(?<=\},)(?=\{)"
    elif start[:1] == "{":
        pattern = r"(?<=[,\[{])(?=\")"
    elif "[SEP]" in text:
        pattern = r"(?<=\[SEP\] )"
    elif start[:1] == "<" and text.count("\n") < 3:
        pattern = r"(?=<)|(?<=>)"
    else:
        return text.splitlines(keepends=True)
    return [piece for piece in re.split(pattern, text) if piece]


def bare(piece: str) -> str:
    """Return a piece without its place in a list or a picture and its joint to the next one."""
    plain = re.sub(r"^\s*\[\d+\] (?=.*bounds=)", "", piece).strip()
    plain = plain.partition(',"bounding_box"')[0]
    return plain.removesuffix("[SEP]").strip().rstrip(",]}")


def spans(piece: str) -> list[tuple[int, int]]:
    """Return where the texts for people stand in a piece."""
    if piece.startswith("tag\t") or bare(piece).endswith(":"):
        return []
    if "\t" in piece.strip("\t"):
        ends = [match.end() for match in re.finditer(r"\t|\Z", piece)]
        return [(ends[0], ends[1] - 1), (ends[1], ends[2] - 1)] if len(ends) > 3 else []
    if " [SEP]" in piece:
        return [(0, piece.index(" [SEP]"))]
    found = [m for m in _SPAN.finditer(piece) if m.group(3) is None]
    if found or piece.lstrip()[:1] in ("<", "[", "{", '"'):
        return [m.span(1) if m.group(1) is not None else m.span(2) for m in found]
    head = re.match(r"(?:URL|Title|Tab \d[^:]*): ", piece)
    return [(head.end() if head else 0, len(piece.rstrip()))]


def told_anew(piece: str, tell: Callable[[str], str]) -> str:
    """Return a piece with each of its texts for people told anew."""
    for start, end in reversed(spans(piece)):
        piece = piece[:start] + tell(piece[start:end]) + piece[end:]
    return piece
