"""Small corpora beside small benchmarks, for the tests of decontamination."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import polars as pl
from chats import ingested, write_rows

from trajkit.decontaminate import flags
from trajkit.store import Store

TURNS = [("look", {"at": n}, f"seen {n}") for n in range(2)]
STATEMENT = (
    "Teach the parser to accept dates that leave out the year, and let it take the current one "
    "unless the option --base-year names another; a date before March then belongs to next year."
)


def prose(seed: int, n: int) -> str:
    rng = random.Random(seed)
    return " ".join(f"word{rng.randrange(20_000)}" for _ in range(n))


def flagged(folder: Path, rows: list[Any], benchmark: Any, **options: Any) -> pl.DataFrame:
    """Return the flags of chat rows with their tasks, against rows of a task list or a path."""
    against = benchmark
    if isinstance(benchmark, list):
        against = str(write_rows(folder / "bench.jsonl", benchmark))
    store = Store(ingested(folder, rows))
    found = flags(store, [against], **options)
    tasks = pl.concat(store.read("trajectories", part) for part in store.parts())
    return found.join(tasks.select("trajectory_id", "task"), on="trajectory_id", how="left")
