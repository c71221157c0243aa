"""Find runs of words that episodes share with a benchmark, outside what many of either hold."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from trajkit.decontaminate.task_matches import PROMPTS, flag
from trajkit.decontaminate.word_runs import (
    Hashes,
    HashSet,
    PlacedTexts,
    chunks,
    longest_shared,
    runs,
    words,
)
from trajkit.store import Store

RUN_WORDS = 13
MIN_SHARE = 0.5
MIN_RUNS = 10
MIN_RUNS_OF_OURS = 30
"""Runs needed when they are half of our episode, but less of the benchmark's."""
MIN_DISTINCT_WORDS = 7
MAX_ITEMS = (3, 0.02)
"""A run in more items of a benchmark than this number and this share of them is boilerplate."""
MAX_TASKS = (20, 0.01)
"""A run in more of our own tasks than this number and this share of them is boilerplate."""
_MAX_HELD_HITS = 8_000_000
_HOLDERS = {"hash": pl.UInt64, "item": pl.Int64, "is_statement": pl.Boolean}


def by_benchmark(items: pl.DataFrame) -> list[pl.DataFrame]:
    """Return the items of each benchmark."""
    return items.partition_by("benchmark_number", maintain_order=True) if items.height else []


def limit(n: int, limits: tuple[int, float]) -> int:
    """Return how many of `n` are many: a number, or a share if that is more.

    >>> limit(50, (3, 0.02)), limit(500, (3, 0.02))
    (3, 10)
    """
    number, share = limits
    return max(number, int(share * n))


def texts_of(episodes: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Return `trajectory_id, where, text`: everything an episode was told, did and saw."""
    frames = [
        episodes.select("trajectory_id", where=pl.lit(column), text=column)
        for column in (*PROMPTS, "simulation_instruction")
    ]
    for column in ("action", "observation"):
        place = pl.format("steps[{}]." + column, "step_index")
        frames.append(steps.select("trajectory_id", where=place, text=column))
    return pl.concat(frames).drop_nulls("text")


class SharedRuns:
    """Runs of words that benchmarks and episodes share."""

    def __init__(self, items: pl.DataFrame, n_episodes: int, min_share: float) -> None:
        self._items = items
        self._min_share = min_share
        told = items.filter(~pl.col("is_template")).drop_nulls("text")
        holders = [_telling_runs(own) for own in by_benchmark(told)]
        held = pl.concat(holders) if holders else pl.DataFrame(schema=_HOLDERS)
        self._held = HashSet(held["hash"].to_numpy())
        numbers = np.searchsorted(self._held.hashes, held["hash"].to_numpy())
        self._holders = held.select("item", "is_statement", run=pl.Series(numbers, dtype=pl.Int64))
        self._most_tasks = limit(n_episodes, MAX_TASKS)
        self._hits: list[pl.DataFrame] = []
        self._episodes: list[pl.DataFrame] = []
        self._n_episodes = 0

    def look(self, part: str, episodes: pl.DataFrame, texts: pl.DataFrame) -> None:
        """Note which runs of one part's texts benchmarks hold."""
        if not len(self._held.hashes):
            return
        numbered = episodes.select(
            "trajectory_id",
            episode=pl.int_range(pl.len(), dtype=pl.Int64) + self._n_episodes,
            task_key=pl.coalesce(
                pl.col("task").str.to_lowercase().str.replace_all(r"\s+", " "), "content_hash"
            ).hash(),
        )
        n_runs = np.zeros(episodes.height, dtype=np.int64)
        texts = texts.join(numbered, on="trajectory_id", maintain_order="left")
        for chunk in chunks(texts):
            found = runs(words(chunk["text"]), RUN_WORDS)
            owners = chunk["episode"].to_numpy()[found.texts]
            n_runs += np.bincount(owners - self._n_episodes, minlength=len(n_runs))
            hits, places = self._held.find(found.hashes)
            self._hits.append(
                pl.DataFrame({"episode": owners[hits], "run": places})
                .unique()
                .join(numbered.select("episode", "task_key"), on="episode")
            )
        self._episodes.append(
            numbered.with_columns(part=pl.lit(part), n_runs=pl.Series(n_runs, dtype=pl.Int64))
        )
        self._n_episodes += episodes.height
        if sum(hits.height for hits in self._hits) > _MAX_HELD_HITS:
            self._forget_boilerplate(self._most_tasks)

    def _forget_boilerplate(self, most_tasks: int) -> None:
        """Leave out runs that too many of our tasks hold, from all items and hits."""
        hits = pl.concat(self._hits).unique()
        spread = hits.select("run", "task_key").unique().group_by("run").len()
        common = spread.filter(pl.col("len") > most_tasks).select("run")
        self._holders = self._holders.join(common, on="run", how="anti")
        self._hits = [hits.join(common, on="run", how="anti")]

    def flags(self, source: Store) -> list[dict[str, Any]]:
        """Return the flags of all parts seen, each with the longest run found in both texts."""
        if not self._hits:
            return []
        episodes = pl.concat(self._episodes)
        self._forget_boilerplate(limit(episodes["task_key"].n_unique(), MAX_TASKS))
        sizes = self._holders.group_by("item").agg(
            n_held=pl.len(), is_statement=pl.col("is_statement").all()
        )
        n, held, ours = pl.col("n"), pl.col("n_held"), pl.col("n_runs")
        of_ours = pl.when(~pl.col("is_statement") & (n >= MIN_RUNS_OF_OURS)).then(n / ours)
        pairs = (
            self._hits[0]
            .join(self._holders.select("item", "run"), on="run")
            .group_by("episode", "item")
            .agg(n=pl.len())
            .filter(n >= MIN_RUNS)
            .join(sizes, on="item")
            .join(episodes.select("trajectory_id", "episode", "part", "n_runs"), on="episode")
            .with_columns(similarity=pl.max_horizontal(n / held, of_ours.fill_null(0.0)))
            .filter(pl.col("similarity") >= self._min_share)
            .sort("trajectory_id", "item")
        )
        rows: list[dict[str, Any]] = []
        for (part,), group in pairs.group_by("part", maintain_order=True):
            rows.extend(self._evidence(source, str(part), group))
        return rows

    def _evidence(self, source: Store, part: str, pairs: pl.DataFrame) -> list[dict[str, Any]]:
        """Return the flags of one part's pairs whose texts are the same when read again."""
        texts = texts_of(source.read("trajectories", part), source.read("steps", part))
        texts = texts.join(pairs.select("trajectory_id"), on="trajectory_id", how="semi")
        own_texts: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        for chunk in chunks(texts):
            found = runs(words(chunk["text"]), RUN_WORDS)
            hits, _ = self._held.find(found.hashes)
            telling = chunk[np.unique(found.texts[hits])]
            for id_, where, text in telling.select("trajectory_id", "where", "text").iter_rows():
                own_texts[id_].append((where, text))
        their_texts: defaultdict[int, list[tuple[str, str]]] = defaultdict(list)
        wanted = self._items.drop_nulls("text").join(pairs.select("item"), on="item", how="semi")
        for item, where, text in wanted.select("item", "where", "text").iter_rows():
            their_texts[item].append((where, text))
        held = self._holders.join(pairs.select("item"), on="item", how="semi")
        numbers = dict(held.group_by("item").agg("run").iter_rows())
        rows = []
        for (name,), group in pairs.group_by("item", maintain_order=True):
            item = int(str(name))
            theirs = PlacedTexts(their_texts[item])
            found = theirs.runs(RUN_WORDS)
            hashes = self._held.hashes[np.array(numbers[item], dtype=np.int64)]
            starts = found.starts[np.isin(found.hashes, hashes)].tolist()
            for id_, similarity in group.select("trajectory_id", "similarity").iter_rows():
                own = PlacedTexts(own_texts[id_])
                start, other, length = longest_shared(own.words, theirs.words, RUN_WORDS, starts)
                if length:
                    ours = own.span(start, length)
                    span = theirs.span(other, length)
                    rows.append(flag(id_, item, "ngram", min(1.0, similarity), *ours, *span))
        return rows


def _telling_runs(items: pl.DataFrame) -> pl.DataFrame:
    """Return `hash, item, is_statement`: the runs of one benchmark that tell its items apart."""
    most_items = limit(items["item"].n_unique(), MAX_ITEMS)
    frames = [pl.DataFrame(schema=_HOLDERS)]
    for chunk in chunks(items):
        hashed = words(chunk["text"])
        found = runs(hashed, RUN_WORDS)
        telling = _varied(hashed.hashes, found.starts)
        owners = chunk.select("item", "is_statement")[found.texts[telling]]
        hashes = pl.Series("hash", found.hashes[telling], dtype=pl.UInt64)
        frames.append(owners.with_columns(hashes).select(*_HOLDERS).unique())
    # A run of both a statement and a step counts as one of a step.
    holders = pl.concat(frames).group_by("hash", "item").agg(pl.col("is_statement").min())
    return holders.filter(pl.col("item").n_unique().over("hash") <= most_items)


def _varied(hashes: Hashes, starts: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return for each run whether it has enough different words: tables and rulers have not."""
    varied = np.zeros(len(starts), dtype=np.bool_)
    for begin in range(0, len(starts), 1 << 18):
        own = starts[begin : begin + (1 << 18)]
        ordered = np.sort(hashes[own[:, None] + np.arange(RUN_WORDS)], axis=1)
        n_distinct = 1 + np.count_nonzero(np.diff(ordered, axis=1), axis=1)
        varied[begin : begin + (1 << 18)] = n_distinct >= MIN_DISTINCT_WORDS
    return varied
