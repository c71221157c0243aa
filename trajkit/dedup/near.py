"""Near copies: candidates that share an LSH band, each verified on exact shingle sets.

A cluster is a star around its longest member, never a chain: whoever is left out is over the
threshold with the one that stays for it. Episodes are taken in order of precedence, so an episode
that is already left out costs no verification, and the result depends on no order of files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from trajkit.dedup.signatures import (
    N_PERMUTATIONS,
    Flags,
    Hashes,
    Numbers,
    Shingles,
    band_keys,
    bands_and_rows,
    signatures,
)

BUCKET_HEAD = 64
"""In a bucket each member is paired with at most so many members before it. When a fuller bucket
lost members, the pairs are drawn again without them, until nothing more is found."""

_SIGNATURE_BYTES = 4 * N_PERMUTATIONS


class BandFile:
    """Band keys of many episodes on disk, so that memory holds one band at a time."""

    def __init__(self, path: Path, n_episodes: int, threshold: float) -> None:
        self._file = open(path, "w+b")  # noqa: SIM115 - closed by the context manager
        self._n_episodes = n_episodes
        self._threshold = threshold
        self._n_written = 0
        self._n_bands = bands_and_rows(threshold)[0]

    def __enter__(self) -> BandFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, minima: npt.NDArray[np.uint32]) -> None:
        """Add the keys of the next episodes."""
        for band, keys in enumerate(band_keys(minima, self._threshold)):
            self._file.seek(8 * (band * self._n_episodes + self._n_written))
            self._file.write(keys.tobytes())
        self._n_written += len(minima)

    def bands(self) -> Iterator[Hashes]:
        """Give the keys of one band after the other."""
        for band in range(self._n_bands):
            self._file.seek(8 * band * self._n_episodes)
            yield np.frombuffer(self._file.read(8 * self._n_episodes), dtype="<u8")


class SetFiles:
    """Signatures and shingle sets of the episodes that are candidates, on disk.

    Holds 16 bytes for each episode; a set is read when a pair needs it.
    """

    def __init__(self, n_episodes: int) -> None:
        self.offsets = np.full(n_episodes, -1, dtype=np.int64)
        self.sizes = np.zeros(n_episodes, dtype=np.int64)
        self._files = np.zeros(n_episodes, dtype=np.int32)
        self._open: list[int] = []

    def __enter__(self) -> SetFiles:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._open:
            os.close(file)

    def __len__(self) -> int:
        return len(self._open)

    def add(self, path: Path, numbers: Numbers, sizes: Numbers) -> None:
        """Take over a file that `write_sets` wrote for these episodes."""
        length = _SIGNATURE_BYTES + 8 * sizes
        self.offsets[numbers] = np.cumsum(length) - length
        self.sizes[numbers] = sizes
        self._files[numbers] = len(self._open)
        self._open.append(os.open(path, os.O_RDONLY))

    def read(self, number: int) -> Hashes:
        """Return the shingle set of an episode."""
        start = int(self.offsets[number]) + _SIGNATURE_BYTES
        return np.frombuffer(
            os.pread(self._open[self._files[number]], 8 * int(self.sizes[number]), start), "<u8"
        )

    def signature(self, number: int) -> npt.NDArray[np.uint32]:
        """Return the signature of an episode."""
        start = int(self.offsets[number])
        return np.frombuffer(
            os.pread(self._open[self._files[number]], _SIGNATURE_BYTES, start), "<u4"
        )


def write_sets(path: Path, pieces: Iterator[Shingles]) -> Numbers:
    """Return the sizes of the sets after writing each with its signature before it."""
    sizes = [np.zeros(0, dtype=np.int64)]
    with open(path, "wb") as file:
        for sets in pieces:
            minima = signatures(sets)
            sizes.append(sets.counts())
            for index in range(len(minima)):
                file.write(minima[index].tobytes())
                file.write(sets.of(index).tobytes())
    return np.concatenate(sizes)


@dataclass
class Stars:
    """Who is left out, and for whom."""

    threshold: float
    kept: Numbers
    """Number of the episode that stays for this one; its own where none does."""
    fixed: Flags
    """Episodes that must stay: those of an index, and centres of stars."""
    estimated: dict[int, float] = field(default_factory=dict)
    exact: dict[int, float] = field(default_factory=dict)
    n_candidates: int = 0
    n_verified: int = 0
    n_confirmed: int = 0
    """Verified pairs over the threshold."""

    def is_out(self, numbers: Numbers) -> Flags:
        """Return which of the episodes are left out."""
        out: Flags = self.kept[numbers] != numbers
        return out

    def verify(self, centre: int, others: Numbers, sets: SetFiles) -> None:
        """Compare one episode with those after it, and leave out what is over the threshold."""
        if self.kept[centre] != centre:
            return
        others = others[~self.is_out(others) & ~self.fixed[others]]
        sizes, own_size = sets.sizes[others], int(sets.sizes[centre])
        bound = np.minimum(sizes, own_size) / np.maximum(np.maximum(sizes, own_size), 1)
        others, sizes = others[bound >= self.threshold], sizes[bound >= self.threshold]
        if not len(others):
            return
        self.n_verified += len(others)
        exact = similarities(sets.read(centre), [sets.read(int(other)) for other in others])
        mine = sets.signature(centre)
        for place in np.flatnonzero(exact >= self.threshold).tolist():
            other = int(others[place])
            self.n_confirmed += 1
            self.kept[other] = centre
            self.exact[other] = float(exact[place])
            self.estimated[other] = float(np.mean(mine == sets.signature(other)))
            self.fixed[centre] = True


def similarities(own: Hashes, others: list[Hashes]) -> npt.NDArray[np.float64]:
    """Return the exact Jaccard similarity of one sorted set with each of several.

    >>> a, b = np.array([1, 2, 3], dtype=np.uint64), np.array([2, 3, 4], dtype=np.uint64)
    >>> similarities(a, [a, b]).tolist()
    [1.0, 0.5]
    """
    sizes = np.array([len(other) for other in others], dtype=np.int64)
    flat = np.concatenate(others)
    place = np.minimum(np.searchsorted(own, flat), max(len(own) - 1, 0))
    hits = np.concatenate(([0], np.cumsum(own[place] == flat))) if len(own) else np.zeros(1)
    ends = np.cumsum(sizes)
    common = hits[ends] - hits[ends - sizes] if len(own) else np.zeros(len(others))
    union = len(own) + sizes - common
    result: npt.NDArray[np.float64] = common / np.maximum(union, 1)
    return result


def near_stars(
    base: duckdb.DuckDBPyConnection,
    buckets: Iterable[Hashes],
    numbers: Numbers,
    stars: Stars,
    sets: SetFiles,
    load: Callable[[Numbers], None],
) -> None:
    """Find and verify near copies; the lower number has precedence.

    `buckets` gives the keys of one band after the other, a key for each of `numbers`. `load` puts
    the sets of some episodes into `sets`. Repeats while full buckets lose members.
    """
    base.execute("create or replace temp table buckets (key ubigint, number bigint)")
    for keys in buckets:
        ordered = np.sort(keys)
        twice = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
        shared = np.flatnonzero(np.isin(keys, twice)) if len(twice) else np.zeros(0, dtype=np.int64)
        if len(shared):
            frame = pl.DataFrame({"key": keys[shared], "number": numbers[shared]})
            base.register("band", frame.to_arrow())
            base.execute("insert into buckets select * from band")
            base.unregister("band")
    while True:
        fixed = np.flatnonzero(stars.fixed)
        base.register("fixed", pl.DataFrame({"number": fixed}).to_arrow())
        base.execute(_CANDIDATES)
        found = _column(base, "select count(*) from candidates")
        fullest = _column(base, _FULLEST)
        stars.n_candidates += int(found[0])
        involved = _column(
            base, "select left_ as n from candidates union select right_ from candidates order by n"
        )
        load(involved[sets.offsets[involved] < 0])
        n_before = stars.n_confirmed
        for centre, others in _grouped(base):
            stars.verify(centre, others, sets)
        if fullest[0] <= BUCKET_HEAD or stars.n_confirmed == n_before:
            return
        out = np.flatnonzero(stars.kept != np.arange(len(stars.kept)))
        base.register("gone", pl.DataFrame({"number": out}).to_arrow())
        base.execute("delete from buckets where number in (select number from gone)")


_FULLEST = "select coalesce(max(n), 0) from (select count(*) as n from buckets group by key)"
_CANDIDATES = f"""
    create or replace temp table candidates as
    with placed as (
        select key, number, row_number() over (partition by key order by number) as place
        from buckets)
    select distinct a.number as left_, b.number as right_
    from placed a join placed b on a.key = b.key and a.number < b.number
    where a.place <= {BUCKET_HEAD} and b.number not in (select number from fixed)"""


def _column(base: duckdb.DuckDBPyConnection, query: str) -> Numbers:
    numbers: Numbers = pl.DataFrame(base.sql(query).to_arrow_table()).to_series().to_numpy()
    return numbers.astype(np.int64)


def _grouped(base: duckdb.DuckDBPyConnection) -> Iterator[tuple[int, Numbers]]:
    """Give each left number with its right ones, in order; streams."""
    reader: pa.RecordBatchReader = base.sql(
        "select left_, right_ from candidates order by left_, right_"
    ).to_arrow_reader(100_000)
    for batch in reader:
        left, right = (column.to_numpy() for column in pl.DataFrame(batch).get_columns())
        starts = np.flatnonzero(np.diff(left, prepend=-1))
        for first, last in zip(starts, np.append(starts[1:], len(left)), strict=True):
            yield int(left[first]), right[first:last].astype(np.int64)


def near_pairs(sets: Shingles, threshold: float) -> pl.DataFrame:
    """Return `left, right, estimated, exact` of every verified pair of texts, left before right.

    For texts whose shingle sets fit in memory; pairs under the threshold are not in it.

    >>> from trajkit.dedup.signatures import shingles
    >>> text = " ".join(map(str, range(40)))
    >>> near_pairs(shingles(pl.Series([text, text + " 40", "else"])), 0.8)["right"].to_list()
    [1]
    """
    minima = signatures(sets)
    with duckdb.connect() as base:
        base.execute("set enable_progress_bar = false")
        pairs = [
            pl.DataFrame({"left": [], "right": []}, schema={"left": pl.Int64, "right": pl.Int64})
        ]
        for keys in band_keys(minima, threshold):
            frame = pl.DataFrame({"key": keys, "number": np.arange(len(keys))})
            base.register("band", frame.filter(pl.Series(sets.counts() > 0)).to_arrow())
            pairs.append(
                pl.DataFrame(
                    base.sql(
                        'select a.number as "left", b.number as "right" from band a'
                        " join band b on a.key = b.key and a.number < b.number"
                    ).to_arrow_table()
                )
            )
            base.unregister("band")
    found = pl.concat(pairs).unique().sort("left", "right")
    rows = []
    for (left,), group in found.group_by(["left"], maintain_order=True):
        own = int(str(left))
        others = group["right"].to_list()
        exact = similarities(sets.of(own), [sets.of(other) for other in others])
        for other, likeness in zip(others, exact.tolist(), strict=True):
            if likeness >= threshold:
                estimate = float(np.mean(minima[own] == minima[other]))
                rows.append((own, other, estimate, likeness))
    schema = {
        "left": pl.Int64,
        "right": pl.Int64,
        "estimated": pl.Float64,
        "exact": pl.Float64,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")
