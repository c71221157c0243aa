"""Cut texts into words and runs of words, for comparison: a whole column at a time.

A word is a run of letters and digits in lower case; each character of a script without blanks
(kana, Han, Hangul) is a word of its own. Punctuation and white space part words and count for
nothing else, so neither a new layout nor another quotation mark hides a copy.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

MAX_CHUNK_BYTES = 16 << 20
_SEED = 20_260_629
# Ranges instead of \p{L}: an automaton of ranges runs many times faster than Unicode classes.
_ALONE = ((0x3041, 0x30FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xF900, 0xFAFF))
_JOINED = (
    (0xAA, 0xAA),
    (0xB5, 0xB5),
    (0xBA, 0xBA),
    (0xC0, 0xD6),
    (0xD8, 0xF6),
    (0xF8, 0x1FFF),
    (0x2C00, 0x2DFF),
    (0x3100, 0x318F),
    (0xA000, 0xABFF),
    (0xFB00, 0xFDFF),
    (0xFE70, 0xFEFC),
    (0xFF10, 0xFF19),
    (0xFF21, 0xFF3A),
    (0xFF41, 0xFF5A),
    (0xFF66, 0xFFDC),
    (0x10000, 0x1EFFF),
)
_ALONE_CLASS = "".join(f"{chr(low)}-{chr(high)}" for low, high in _ALONE)
_JOINED_CLASS = "".join(f"{chr(low)}-{chr(high)}" for low, high in _JOINED)
_WORD = f"[{_ALONE_CLASS}]|[0-9a-z{_JOINED_CLASS}]+"
_PLACED_WORD = re.compile(f"[{_ALONE_CLASS}]|[0-9A-Za-z{_JOINED_CLASS}]+")

Hashes = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Words:
    """Hashed words of many texts in one array; text `i` has `ends[i - 1]:ends[i]`."""

    hashes: Hashes
    ends: Numbers

    @property
    def counts(self) -> Numbers:
        """Return the number of words of each text."""
        return np.diff(self.ends, prepend=0)


@dataclass(frozen=True, slots=True)
class Runs:
    """Hashed runs of words, in the order of the texts."""

    hashes: Hashes
    texts: Numbers
    """Number of the text each run stands in."""
    starts: Numbers
    """Number of its first word, among the words of all texts."""


def word_lists(texts: pl.Series) -> pl.Series:
    """Return the words of each text as a list; null has none.

    >>> word_lists(pl.Series(["Don't  STOP!", None])).to_list()
    [['don', 't', 'stop'], []]
    """
    filled = texts.fill_null("")
    beyond_ascii = filled.str.len_bytes() != filled.str.len_chars()
    if beyond_ascii.any():
        composed = filled.filter(beyond_ascii).str.normalize("NFKC")
        filled = filled.scatter(beyond_ascii.arg_true(), composed)
    return filled.str.to_lowercase().str.extract_all(_WORD)


def words(texts: pl.Series) -> Words:
    """Return the hashed words of a column of texts."""
    return hashed(word_lists(texts))


def hashed(lists: pl.Series) -> Words:
    """Return lists of words with the words hashed."""
    ends = np.cumsum(lists.list.len().to_numpy().astype(np.int64))
    return Words(lists.explode(empty_as_null=False).hash(_SEED).to_numpy(), ends)


def runs(of: Words, n_words: int) -> Runs:
    """Return every run of `n_words` words that lies within one text."""
    counts = of.counts
    texts = np.repeat(np.arange(len(counts)), counts)
    n_starts = max(0, len(of.hashes) - n_words + 1)
    starts = np.flatnonzero(texts[:n_starts] == texts[len(texts) - n_starts :])
    total = np.zeros(n_starts, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for k in range(n_words if n_starts else 0):
            # Horner's scheme with an odd factor: the place of a word counts.
            total *= np.uint64(0x9E3779B97F4A7C15)
            total += of.hashes[k : k + n_starts]
    return Runs(total[starts], texts[starts], starts.astype(np.int64))


class HashSet:
    """A set of hashes to look many others up in."""

    def __init__(self, hashes: Hashes) -> None:
        self.hashes = np.unique(hashes)
        """The members, sorted."""
        # A table of bits tells most hashes apart before the binary search does; of the low bits,
        # since they are the best mixed.
        self._n_bits = int(np.clip(np.log2(len(self.hashes) + 1) + 5, 12, 28))
        self._maybe = np.zeros(1 << self._n_bits, dtype=np.bool_)
        self._maybe[self._slots(self.hashes)] = True

    def _slots(self, hashes: Hashes) -> Numbers:
        return (hashes & np.uint64((1 << self._n_bits) - 1)).astype(np.int64)

    def find(self, hashes: Hashes) -> tuple[Numbers, Numbers]:
        """Return which of some hashes are members, and the places of these among the members."""
        maybe = np.flatnonzero(self._maybe[self._slots(hashes)])
        if not len(maybe):
            return maybe, maybe
        places = np.minimum(np.searchsorted(self.hashes, hashes[maybe]), len(self.hashes) - 1)
        sure = self.hashes[places] == hashes[maybe]
        return maybe[sure], places[sure]


def chunks(frame: pl.DataFrame, column: str = "text") -> Iterator[pl.DataFrame]:
    """Give slices of a frame whose texts add up to 16 MB or so, so that words fit in memory."""
    sizes = frame[column].str.len_bytes().fill_null(0).cum_sum().to_numpy() // MAX_CHUNK_BYTES
    cuts = np.flatnonzero(np.diff(sizes)) + 1
    for start, end in zip([0, *cuts], [*cuts, frame.height], strict=True):
        yield frame.slice(int(start), int(end - start))


def placed_words(text: str) -> list[tuple[str, int, int]]:
    """Return the words of one text with the characters they span.

    >>> placed_words("Stop, now")
    [('stop', 0, 4), ('now', 6, 9)]
    """
    return [
        (_lowered(match.group()), match.start(), match.end())
        for match in _PLACED_WORD.finditer(text)
    ]


class PlacedTexts:
    """The words of several texts, one after the other, and where each stands."""

    def __init__(self, texts: Sequence[tuple[str, str]]) -> None:
        """Take pairs of a name and a text."""
        self.words: list[tuple[str, int, int]] = []
        self._ends: list[int] = []
        self._texts = texts
        for number, (_, text) in enumerate(self._texts):
            self.words += placed_words(text)
            # A word that no other text holds, so that no run goes across.
            self.words.append((f"\x00{id(self)}:{number}", 0, 0))
            self._ends.append(len(self.words))

    def runs(self, n_words: int) -> Runs:
        """Return the hashed runs; those that go across two texts are in no other text."""
        named = pl.Series([word for word, _, _ in self.words], dtype=pl.String)
        return runs(Words(named.hash(_SEED).to_numpy(), np.array([len(named)])), n_words)

    def span(self, start: int, length: int) -> tuple[str, tuple[str, int, int]]:
        """Return the name of a text, the text, and the characters of some words in it."""
        number = int(np.searchsorted(self._ends, start, side="right"))
        where, text = self._texts[number]
        return where, (text, self.words[start][1], self.words[start + length - 1][2])


def _lowered(word: str) -> str:
    return word.lower() if word.isascii() else unicodedata.normalize("NFKC", word).lower()


def longest_shared(
    ours: list[tuple[str, int, int]],
    theirs: list[tuple[str, int, int]],
    n_words: int,
    starts: Iterable[int] | None = None,
) -> tuple[int, int, int]:
    """Return where the longest shared run starts in both, and its length; 0 if under `n_words`.

    It begins at one of `starts` of theirs, when they are given. Of equally long runs the first of
    ours, then the first of theirs.
    """
    places: dict[tuple[str, ...], list[int]] = {}
    named = [word for word, _, _ in theirs]
    own = [word for word, _, _ in ours]
    for start in range(len(named) - n_words + 1) if starts is None else starts:
        found = places.setdefault(tuple(named[start : start + n_words]), [])
        # A run that comes a thousand times is no evidence, and would cost a thousandfold.
        if len(found) < 8:
            found.append(start)
    best = (0, 0, 0)
    covered: dict[int, int] = {}
    for start in range(len(own) - n_words + 1):
        for other in places.get(tuple(own[start : start + n_words]), ()):
            diagonal = start - other
            if covered.get(diagonal, -1) >= start + n_words:
                continue
            length = n_words
            while (
                start + length < len(own)
                and other + length < len(named)
                and own[start + length] == named[other + length]
            ):
                length += 1
            covered[diagonal] = start + length
            if length > best[2]:
                best = (start, other, length)
    return best
