"""Shingles of texts, their MinHash signatures, and LSH bands, a whole column at a time.

A word is a run of letters, digits and underscores; a character from U+2000 on (dashes, boxes,
ideographs, emoji) is a word of its own, since no blank would ever divide such text. A shingle is
five words in a row, known by a 64-bit hash that depends on nothing but the text, so an index on
disk stays valid.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
from xxhash import xxh3_128_digest

N_PERMUTATIONS = 128
SHINGLE_WORDS = 5
MIN_SHINGLES = 8
"""Texts with fewer shingles are too short for a likeness to mean anything."""

_SEED = 20_260_624
_WEIGHTS = (0.05, 0.95)
"""Of false positives and of misses. Verification removes the former, nothing brings back the
latter: at a threshold of 0.8 equal weights would find 69 % of the pairs at 0.85, these 99 %."""
_MAX_WORD_BYTES = 64
_BATCH_BYTES = 1 << 19

Hashes = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_SEPARATOR, _INSIDE, _BEGIN = 0, 1, 2
_CLASSES = bytes(
    (_INSIDE if byte < 0xE2 else _BEGIN)
    if byte >= 0x80
    else (_INSIDE if chr(byte).isalnum() or byte == ord("_") else _SEPARATOR)
    for byte in range(256)
)
_LOW_BYTES = np.array([(1 << (8 * n)) - 1 for n in range(9)], dtype=np.uint64)
# Odd 64-bit constants of splitmix64 and wyhash: any odd number spreads, these are tried.
_SPREAD = np.array(
    [
        0x9E3779B97F4A7C15,
        0xBF58476D1CE4E5B9,
        0x94D049BB133111EB,
        0xD6E8FEB86659FD93,
        0xA0761D6478BD642F,
    ],
    dtype=np.uint64,
)


@dataclass(frozen=True, slots=True)
class Shingles:
    """Sorted distinct shingle hashes of many texts; text `i` has `offsets[i]:offsets[i+1]`."""

    hashes: Hashes
    offsets: Numbers

    def of(self, index: int) -> Hashes:
        """Return the set of one text."""
        return self.hashes[int(self.offsets[index]) : int(self.offsets[index + 1])]

    def counts(self) -> Numbers:
        """Return the number of shingles of each text."""
        return np.diff(self.offsets)

    def without(self, common: Hashes) -> Shingles:
        """Return the sets without the hashes of a sorted array."""
        if not len(common):
            return self
        # A small table of the top bits settles nearly every hash without a search.
        table = np.zeros(1 << 16, dtype=bool)
        table[common >> np.uint64(48)] = True
        kept = np.ones(len(self.hashes), dtype=bool)
        maybe = np.flatnonzero(table[self.hashes >> np.uint64(48)])
        place = np.minimum(np.searchsorted(common, self.hashes[maybe]), len(common) - 1)
        kept[maybe[common[place] == self.hashes[maybe]]] = False
        return Shingles(self.hashes[kept], _running(kept)[self.offsets])


def shingles(texts: pl.Series, groups: npt.NDArray[np.integer] | None = None) -> Shingles:
    """Return the distinct hashed runs of five words of each text; a null is an empty text.

    With `groups` (not decreasing, from 0, none missing) neighbouring texts of one number are one
    text, in which words of different texts never join. A text of fewer than five words has none.
    Works through half a megabyte at a time, so that what it touches stays in the cache.

    >>> shingles(pl.Series(["a b c d e", "a b c d e f", "a b"])).counts().tolist()
    [1, 2, 0]
    """
    text, offsets = _buffer(texts)
    numbers = np.arange(len(texts)) if groups is None else np.asarray(groups, dtype=np.int64)
    hashes = [np.zeros(0, dtype=np.uint64)]
    counts = [np.zeros(0, dtype=np.int64)]
    for first, last in _batches(offsets, numbers):
        places = offsets[first : last + 1]
        own, n_words = _word_hashes(text[int(places[0]) : int(places[-1])], places - places[0])
        starts = np.flatnonzero(np.diff(numbers[first:last], prepend=-1))
        found = _distinct(*_windows(own, np.add.reduceat(n_words, starts)))
        hashes.append(found.hashes)
        counts.append(found.counts())
    return Shingles(np.concatenate(hashes), _running(np.concatenate(counts)))


def _batches(offsets: Numbers, numbers: Numbers) -> Iterator[tuple[int, int]]:
    """Give ranges of texts of about half a megabyte that cut no group."""
    if not len(numbers):
        return
    ends = np.append(np.flatnonzero(np.diff(numbers)) + 1, len(numbers))
    total = offsets[ends]
    first = done = 0
    while first < len(numbers):
        place = max(int(np.searchsorted(total, done + _BATCH_BYTES, side="right")) - 1, 0)
        if ends[place] <= first:
            place = int(np.searchsorted(ends, first, side="right"))
        yield first, int(ends[place])
        first, done = int(ends[place]), int(total[place])


def _running(counts: npt.NDArray[np.integer] | Flags) -> Numbers:
    total = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=total[1:])
    return total


def word_hashes(texts: pl.Series) -> tuple[Hashes, Numbers]:
    """Return the hashes of all words in order, and the number of words of each text.

    A word of more than 64 bytes counts as several.
    """
    return _word_hashes(*_buffer(texts))


def _word_hashes(text: memoryview, offsets: Numbers) -> tuple[Hashes, Numbers]:
    # One separator before the text and eight after it: no edge needs a thought, and eight bytes
    # can be loaded at every place.
    padded = b"".join((b"\0", text, b"\0" * 9))
    offsets = offsets + 1
    classes = np.frombuffer(bytearray(padded.translate(_CLASSES)), dtype=np.uint8)
    heads = offsets[:-1]
    classes[heads[classes[heads] == _INSIDE]] = _BEGIN
    inside, begins = classes != _SEPARATOR, classes == _BEGIN
    starts = np.flatnonzero(inside[1:] & (~inside[:-1] | begins[1:])) + 1
    ends = np.flatnonzero(inside[:-1] & (~inside[1:] | begins[1:])) + 1
    starts, lengths = _pieces(starts, ends - starts)
    return _hashed(padded, starts, lengths), np.diff(np.searchsorted(starts, offsets))


def text_hashes(texts: pl.Series) -> Hashes:
    """Return 128 bits (XXH3) in two columns for each whole text; null and empty texts are alike."""
    digests = b"".join(map(xxh3_128_digest, texts.fill_null("").cast(pl.Binary)))
    return np.frombuffer(digests, dtype="<u8").reshape(-1, 2)


def _buffer(texts: pl.Series) -> tuple[memoryview, Numbers]:
    """Return the UTF-8 bytes of all texts one after the other, and their offsets."""
    column = texts.fill_null("").rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    _, places, data = column.buffers()
    offsets = np.frombuffer(places, dtype=np.int64)[column.offset : column.offset + len(column) + 1]
    text = memoryview(data or b"")[int(offsets[0]) : int(offsets[-1])]
    return text, offsets - offsets[0]


def _pieces(starts: Numbers, lengths: Numbers) -> tuple[Numbers, Numbers]:
    """Return the words with the long ones cut."""
    if not len(lengths) or lengths.max() <= _MAX_WORD_BYTES:
        return starts, lengths
    n_pieces = -(-lengths // _MAX_WORD_BYTES)
    first = np.repeat(_running(n_pieces)[:-1], n_pieces)
    shift = (np.arange(len(first)) - first) * _MAX_WORD_BYTES
    return (
        np.repeat(starts, n_pieces) + shift,
        np.minimum(np.repeat(lengths, n_pieces) - shift, _MAX_WORD_BYTES),
    )


def _hashed(padded: bytes, starts: Numbers, lengths: Numbers) -> Hashes:
    eight: Hashes = np.ndarray((len(padded) - 7,), dtype="<u8", buffer=padded, strides=(1,))
    found: Hashes = (eight[starts] & _LOW_BYTES[np.minimum(lengths, 8)]) * _SPREAD[0]
    found ^= found >> np.uint64(29)
    found += lengths.astype(np.uint64)
    done = 8
    rest = np.flatnonzero(lengths > done)
    while len(rest):
        part = eight[starts[rest] + done] & _LOW_BYTES[np.minimum(lengths[rest] - done, 8)]
        mixed = (found[rest] ^ part) * _SPREAD[1]
        found[rest] = mixed ^ (mixed >> np.uint64(31))
        done += 8
        rest = rest[lengths[rest] > done]
    found *= _SPREAD[2]
    found ^= found >> np.uint64(32)
    return found


def _windows(words: Hashes, n_words: Numbers) -> tuple[Hashes, Numbers]:
    """Return the hashes of all runs of five words inside each text, and the offsets of texts."""
    offsets = _running(np.maximum(n_words - SHINGLE_WORDS + 1, 0))
    n_runs = max(0, len(words) - SHINGLE_WORDS + 1)
    runs = words[:n_runs] * _SPREAD[0]
    for k in range(1, SHINGLE_WORDS):
        runs += words[k : k + n_runs] * _SPREAD[k]
    runs ^= runs >> np.uint64(32)
    inside = np.ones(n_runs, dtype=bool)
    ends = _running(n_words)
    for k in range(1, SHINGLE_WORDS):
        # A run that begins less than five words before an end would cross it.
        last = np.maximum(ends[1:] - k, ends[:-1])
        inside[last[(last < ends[1:]) & (last < n_runs)]] = False
    return runs[inside], offsets


def _distinct(runs: Hashes, offsets: Numbers) -> Shingles:
    """Return the sorted distinct hashes of each text; sorts in place."""
    bounds = offsets.tolist()
    for first, last in pairwise(bounds):
        runs[first:last].sort()
    kept = np.ones(len(runs), dtype=bool)
    kept[1:] = runs[1:] != runs[:-1]
    kept[offsets[:-1][offsets[:-1] < len(runs)]] = True
    return Shingles(runs[kept], _running(kept)[offsets])


def signatures(sets: Shingles) -> npt.NDArray[np.uint32]:
    """Return one row of 128 minima for each set."""
    from rensa import RMinHash

    rows = np.zeros((len(sets.offsets) - 1, N_PERMUTATIONS), dtype=np.uint32)
    # A thousand at a time: the matrix comes back as Python lists.
    for first in range(0, len(rows), 1_000):
        bounds = sets.offsets[first : first + 1_001]
        matrix = RMinHash.digest_matrix_from_flat_token_hashes(
            sets.hashes[int(bounds[0]) : int(bounds[-1])],
            (bounds - bounds[0]).astype(np.uint64),
            N_PERMUTATIONS,
            _SEED,
        )
        rows[first : first + 1_000] = matrix.to_rows()
    return rows


@cache
def bands_and_rows(threshold: float) -> tuple[int, int]:
    """Return the LSH bands and rows of a threshold; recall first, verification follows.

    The pair with the least weighted sum of the areas of false positives and of misses, as
    `datasketch` chooses it; a test holds the two equal.

    >>> bands_and_rows(0.8)
    (16, 8)
    """
    likeness = np.linspace(0, 1, 2_001)
    below = likeness <= threshold
    best = (np.inf, 1, 1)
    for n_bands in range(1, N_PERMUTATIONS + 1):
        for n_rows in range(1, N_PERMUTATIONS // n_bands + 1):
            found = 1 - (1 - likeness**n_rows) ** n_bands
            false_positives = np.trapezoid(found[below], likeness[below])
            missed = np.trapezoid(1 - found[~below], likeness[~below])
            cost = _WEIGHTS[0] * false_positives + _WEIGHTS[1] * missed
            best = min(best, (float(cost), n_bands, n_rows))
    return best[1], best[2]


def band_keys(rows: npt.NDArray[np.uint32], threshold: float) -> Hashes:
    """Return one 64-bit key for each band (row) and signature (column); bands share no key."""
    n_bands, n_rows = bands_and_rows(threshold)
    first = np.arange(n_bands, dtype=np.uint64) * _SPREAD[3]
    keys: Hashes = np.repeat(first, len(rows)).reshape(n_bands, len(rows))
    columns = np.ascontiguousarray(rows[:, : n_bands * n_rows].T).reshape(n_bands, n_rows, -1)
    for k in range(n_rows):
        keys ^= columns[:, k]
        keys *= _SPREAD[1]
        keys ^= keys >> np.uint64(32)
    return keys
