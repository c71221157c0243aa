"""Speed of filtering, beside a bare copy of the same store in the same run.

The corpus is made from real logs (`corpus.py`). What counts are the ratios: a bare copy reads both
tables and writes them again, with no look at them. A store that no filter touches is only linked,
so the copy is no lower bound. The table of rules tells where the time goes.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
from corpus import Corpus

from trajkit.filters import filter_episodes, mark_steps
from trajkit.filters.episodes import blocked_pages, drop_reasons
from trajkit.filters.leaks import find_leaks
from trajkit.ingest import ingest
from trajkit.store import Store
from trajkit.tables import to_arrow, write_table

TEXTS = {
    "trajectories": ("task", "agent_system_prompt", "action_space", "initial_state", "meta"),
    "steps": ("thought", "action", "observation", "error"),
}


def main() -> None:
    """Print the speed of the stage, of a bare copy, and of each kind of rule."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=400, help="Size of the raw logs.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        Corpus().write(folder / "logs", options.megabytes * 1_000_000)
        ingest((str(folder / "logs"),), folder / "raw", workers=2, quiet=True)
        store = Store(folder / "raw")
        n_bytes, n_steps = _size(store)
        print(f"{n_bytes / 1e6:,.0f} MB of text, {n_steps:,} steps, {len(store.parts())} parts")
        copied = _timed(lambda: _copy(store, folder / "copy"))
        filtered = _timed(lambda: filter_episodes(store.path, folder / "out", quiet=True))
        for what, seconds in (("bare copy", copied), ("filter", filtered)):
            print(f"{what:<24}{seconds:8.2f} s {n_bytes / 1e6 / seconds:8.0f} MB/s")
        print(f"{'filter : bare copy':<24}{filtered / copied:8.2f}")
        for what, seconds in _by_rule(store).items():
            print(f"  {what:<22}{seconds:8.2f} s {n_bytes / 1e6 / seconds:8.0f} MB/s")
        report = Store(folder / "out").manifest.report
        print(f"dropped {report['dropped']}, marked {report['steps_marked']}")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"peak memory {peak:,.0f} MB")


def _size(store: Store) -> tuple[int, int]:
    n_bytes = n_steps = 0
    for part in store.parts():
        for table, columns in TEXTS.items():
            frame = store.read(table, part).select(columns)
            n_bytes += sum(int(column.str.len_bytes().sum()) for column in frame)
        n_steps += frame.height
    return n_bytes, n_steps


def _timed(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _copy(store: Store, out: Path) -> None:
    for part in store.parts():
        for table in TEXTS:
            write_table(out / table / f"{part}.parquet", to_arrow(table, store.read(table, part)))


def _by_rule(store: Store) -> dict[str, float]:
    """Return the seconds of each kind of rule over the whole store, reading left out."""
    seconds = dict.fromkeys(("blocked_pages", "drop_reasons", "find_leaks", "mark_steps"), 0.0)
    for part in store.parts():
        episodes, steps = store.read("trajectories", part), store.read("steps", part)
        starts = episodes.select("trajectory_id", "domain", "initial_state")
        walls = pl.DataFrame()

        def look(steps: pl.DataFrame = steps) -> None:
            nonlocal walls
            walls = blocked_pages(steps)

        seconds["blocked_pages"] += _timed(look)
        for name, rule in {
            "drop_reasons": lambda: drop_reasons(episodes, steps, walls),  # noqa: B023
            "find_leaks": lambda: find_leaks(episodes, steps),  # noqa: B023
            "mark_steps": lambda: mark_steps(steps, initial_states=starts),  # noqa: B023
        }.items():
            seconds[name] += _timed(rule)
    return seconds


if __name__ == "__main__":
    main()
