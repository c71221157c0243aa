"""One fact of a recorded world, and log text quoted inside our own sentences."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from string import Formatter

from trajkit.fidelity.content import mask, metadata_kinds

MAX_QUOTE_CHARS = 100
"""Longest piece of a log that an instruction about a fact holds in one row."""
_UNFORESEEABLE = {"timestamp", "hex_id", "process_id", "temporary_name"}


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact and what follows from it."""

    slug: str
    """Which kind of fact."""
    text: str
    """One or two sentences of ours with quoted names and phrases."""


def fact(slug: str, sentence: str, **pieces: str) -> Fact | None:
    """Return a fact whose sentence names pieces of a log; null when one of them cannot be named.

    That is a piece which is empty, longer than `MAX_QUOTE_CHARS`, or holds a time, a process
    number or another value of this run alone: nothing in the world follows from such a value.

    >>> fact("absent", "There is no {path} here.", path="a.txt").text
    'There is no `a.txt` here.'
    """
    names = [name for _, name, _, _ in Formatter().parse(sentence) if name is not None]
    shown: Mapping[str, str] = {name: " ".join(pieces[name].split()) for name in names}
    for text in shown.values():
        if (
            not text
            or len(text) > MAX_QUOTE_CHARS
            or _UNFORESEEABLE & set(metadata_kinds(mask(text)))
        ):
            return None
    return Fact(slug, sentence.format_map({name: quoted(text) for name, text in shown.items()}))


def quoted(text: str) -> str:
    """Return text as one line between backticks that nothing inside it can close.

    >>> quoted("a `b` c")
    '``a `b` c``'
    """
    text = " ".join(text.split())
    longest = max(map(len, re.findall("`+", text)), default=0)
    ticks = "`" * (longest + 1)
    # A backtick at an edge would lengthen the run beside it.
    edge = " " if text[:1] == "`" or text[-1:] == "`" else ""
    return f"{ticks}{edge}{text}{edge}{ticks}"
