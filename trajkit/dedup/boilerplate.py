"""Boilerplate, found from the data: what a source's harness says whatever the task.

Reminders, banners and templates that stand in many episodes of a source would make every two of
them alike. A shingle that stands in over a set share of a sample of episodes, one for each task,
is no part of the key. One episode for each task, since rollouts of one task rightly look alike;
chosen by content hash, so that the order of a corpus changes nothing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from trajkit.dedup.episode_keys import Recipe, slices
from trajkit.dedup.signatures import Hashes, Numbers
from trajkit.parallel import Workers
from trajkit.store import Store

SHARE = 0.3
"""Share of a source's tasks over which a shingle is boilerplate."""
MIN_TASKS = 50
"""Sources with fewer tasks have no boilerplate: too few to tell a habit from a coincidence."""
MAX_TASKS = 400
_MAX_CHARS = 200_000


def boilerplate(source: Store, recipe: Recipe, workers: Workers) -> tuple[Hashes, dict[str, int]]:
    """Return the sorted shingle hashes that are boilerplate of any source, and counts by source.

    Reads the beginning (200,000 characters) of at most 400 episodes a source, so memory does not
    grow with the corpus.
    """
    found = [np.zeros(0, dtype=np.uint64)]
    counts: dict[str, int] = {}
    for (name,), group in _sample(source).group_by(["source"], maintain_order=True):
        calls = [
            (str(source.path), str(part), recipe, rows["episode"].to_numpy().astype(np.int64))
            for (part,), rows in group.group_by(["part"], maintain_order=True)
        ]
        hashes = np.concatenate(list(workers.each(_part_hashes, calls)))
        values, n_episodes = np.unique(hashes, return_counts=True)
        common = values[n_episodes > SHARE * group.height]
        if len(common):
            counts[str(name)] = len(common)
            found.append(common)
    return np.unique(np.concatenate(found)), dict(sorted(counts.items()))


def _part_hashes(store: str, part: str, recipe: Recipe, rows: Numbers) -> Hashes:
    """Return the shingle hashes of some episodes of a part, each as often as episodes have it."""
    none = np.zeros(0, dtype=np.uint64)
    pieces = slices(Store(store), part, recipe, rows)
    sets = [replace(piece, steps=_beginning(piece.steps)).sets(none).hashes for piece in pieces]
    return np.concatenate([none, *sets])


def _beginning(steps: pl.DataFrame) -> pl.DataFrame:
    steps = steps.with_columns(pl.col("action", "observation").str.slice(0, _MAX_CHARS))
    size = pl.col("action").str.len_bytes() + pl.col("observation").str.len_bytes().fill_null(0)
    before = size.cast(pl.Int64).cum_sum().over("episode") - size
    return steps.filter(before < _MAX_CHARS)


def _sample(source: Store) -> pl.DataFrame:
    """Return `part, episode, source` of the episodes to look at; empty for small sources."""
    chosen = ["source", "task"]
    found = []
    for part in source.parts():
        rows = pl.read_parquet(
            source.path / "trajectories" / f"{part}.parquet",
            columns=["source", "task", "content_hash"],
        ).with_row_index("episode")
        task = pl.coalesce("task", "content_hash").hash(0)
        found.append(_first_of(rows.with_columns(task=task, part=pl.lit(part)), chosen))
    if not found:
        return pl.DataFrame(schema={"part": pl.String, "episode": pl.UInt32, "source": pl.String})
    return (
        _first_of(pl.concat(found), chosen)
        .filter(pl.len().over("source") >= MIN_TASKS)
        .sort("source", "content_hash")
        .filter(pl.int_range(pl.len()).over("source") < MAX_TASKS)
        .sort("source", "part", "episode")
        .select("part", "episode", "source")
    )


def _first_of(rows: pl.DataFrame, columns: list[str]) -> pl.DataFrame:
    """Return the row with the smallest content hash for each value of some columns."""
    return rows.sort("content_hash", "part", "episode").unique(columns, keep="first")
