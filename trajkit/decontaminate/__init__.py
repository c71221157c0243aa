"""Find episodes that hold a benchmark's tasks or episodes, each with the text that says so.

Three ways, from the surest on: the benchmark's id of the task (`id`), its statement (`task`), and
runs of thirteen words that it shares with the benchmark (`ngram`). A run counts when few items of
the benchmark and few of our own tasks hold it (what many hold is boilerplate), and when it is made
of enough different words. A flag by runs needs ten of them and half of the item, and the longest is
looked up again in both texts: in public audits most flags by overlap alone were false.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from trajkit.decontaminate.benchmarks import Benchmark, read_benchmark
from trajkit.decontaminate.shared_runs import (
    MAX_ITEMS,
    MIN_SHARE,
    SharedRuns,
    by_benchmark,
    limit,
    texts_of,
)
from trajkit.decontaminate.task_matches import FLAGS, Ids, Statements
from trajkit.progress import Progress
from trajkit.store import Store
from trajkit.tables import TABLES, to_arrow, write_table


@dataclass(frozen=True, slots=True)
class Contamination:
    """What was found, and what it was looked for in."""

    flags: pl.DataFrame
    """Rows of the table `contamination`: one for each episode, item of a benchmark, and way it was
    found. `ours_where` and `theirs_where` name the texts, `..._start` and `..._end` the characters
    that match there, `..._text` is that span, cut at 500 characters."""
    checked: list[dict[str, Any]]
    """For the report: what was read of each benchmark."""
    warnings: list[str]
    """For the report: what could not be checked."""

    @property
    def trajectory_ids(self) -> list[str]:
        """Return the episodes to drop as `contaminated`, sorted."""
        return self.flags["trajectory_id"].unique().sort().to_list()

    def write(self, folder: Path) -> None:
        """Write `contamination.parquet`."""
        write_table(folder / "contamination.parquet", to_arrow("contamination", self.flags))


def flags(source: Store, against: Sequence[str], *, min_share: float = MIN_SHARE) -> pl.DataFrame:
    """Return the flagged episodes with their evidence: the table `contamination`."""
    return find(source, against, min_share=min_share).flags


def find(
    source: Store, against: Sequence[str], *, min_share: float = MIN_SHARE, quiet: bool = True
) -> Contamination:
    """Return what of a store is also in benchmarks, given as paths (see `benchmarks`).

    Sub-agents are flagged with the run that spawned them. Holds the benchmarks' hashed runs, one
    part of the store, and 16 bytes for each run that both have. The result depends on the texts
    alone.

    Raises TrajkitError when a benchmark is not there or not known.
    """
    benchmarks = [read_benchmark(given) for given in against]
    items = _items(benchmarks)
    ids = Ids(items)
    statements = [
        Statements(own, limit(own["item"].n_unique(), MAX_ITEMS)) for own in by_benchmark(items)
    ]
    shared = SharedRuns(items, source.manifest.rows.get("trajectories", 0), min_share)
    rows: list[dict[str, Any]] = []
    families: list[pl.DataFrame] = []
    parts = source.parts() if items.height else []
    with Progress("decontaminate", len(parts), "parts", quiet=quiet) as progress:
        for part in parts:
            episodes = source.read("trajectories", part)
            rows.extend(ids.find(episodes))
            for told in statements:
                rows.extend(told.find(episodes))
            shared.look(part, episodes, texts_of(episodes, source.read("steps", part)))
            families.append(episodes.select("trajectory_id", "parent_id"))
            progress.advance()
    rows.extend(shared.flags(source))
    found = _table(pl.DataFrame(rows, schema=FLAGS), items)
    if found.height:
        found = _with_sub_agents(found, pl.concat(families))
    checked, warnings = _account(benchmarks, ids, statements)
    return Contamination(found, checked, warnings)


def _items(benchmarks: Sequence[Benchmark]) -> pl.DataFrame:
    """Return the texts of all benchmarks, their items numbered through."""
    frames = []
    n_items = 0
    for number, benchmark in enumerate(benchmarks):
        own = benchmark.texts.with_columns(
            pl.col("item") + n_items,
            name=pl.coalesce("instance_id", pl.format("row {}", pl.col("item") + 1)),
            benchmark=pl.lit(benchmark.name),
            benchmark_number=pl.lit(number),
        )
        frames.append(own)
        if own.height:
            n_items = int(own["item"].max()) + 1  # type: ignore[arg-type]
    return pl.concat(frames) if frames else pl.DataFrame(schema=_ITEMS)


_ITEMS = {
    "item": pl.Int64,
    "instance_id": pl.String,
    "where": pl.String,
    "text": pl.String,
    "is_statement": pl.Boolean,
    "is_template": pl.Boolean,
    "is_named": pl.Boolean,
    "name": pl.String,
    "benchmark": pl.String,
    "benchmark_number": pl.Int32,
}


def _account(
    benchmarks: Sequence[Benchmark], ids: Ids, statements: Sequence[Statements]
) -> tuple[list[dict[str, Any]], list[str]]:
    checked: list[dict[str, Any]] = []
    warnings = [] if benchmarks else ["no benchmark was given: nothing was checked"]
    told = iter(statements)
    for benchmark in benchmarks:
        own = Ids(benchmark.texts)
        texts = next(told) if benchmark.texts.height else None
        entry = {
            "benchmark": benchmark.name,
            "kind": benchmark.kind,
            "items": benchmark.texts["item"].n_unique(),
            "columns": benchmark.columns,
            "ids": own.n_ids,
            "weak_ids": own.n_weak,
            "statements": 0 if texts is None else texts.n_texts - texts.n_unused,
            "weak_statements": 0 if texts is None else texts.n_unused,
            "unread": benchmark.n_unread,
        }
        checked.append(entry)
        if not entry["items"]:
            warnings.append(f"{benchmark.name} is empty: nothing was checked against it")
        elif benchmark.n_unread:
            warnings.append(
                f"{benchmark.name}: {benchmark.n_unread} rows hold neither id nor statement"
            )
    return checked, warnings


def _table(found: pl.DataFrame, items: pl.DataFrame) -> pl.DataFrame:
    """Return flags in the order of the table, one for each episode, item and way.

    Of several places of one way the first stays, of names before paths and tasks.
    """
    names = items.select("item", "benchmark", instance_id="name")
    names = names.unique("item", keep="first", maintain_order=True)
    by_task = found.filter(pl.col("method") == "task")
    ways = found.join(
        by_task.select("trajectory_id", "item", method=pl.lit("ngram")),
        on=["trajectory_id", "item", "method"],
        how="anti",
    )
    keys = ["trajectory_id", "benchmark", "instance_id", "method"]
    order = pl.col("ours_where").str.starts_with("meta.")
    return (
        ways.join(names, on="item")
        .sort(*keys, ~order, "ours_where", "ours_start", "theirs_where", "item")
        .unique(keys, keep="first", maintain_order=True)
        .select(TABLES["contamination"].names)
    )


def _with_sub_agents(found: pl.DataFrame, families: pl.DataFrame) -> pl.DataFrame:
    """Return the flags and those of all runs that a flagged one spawned, at any depth."""
    known = set(found["trajectory_id"])
    children = families.drop_nulls("parent_id")
    level = found
    while level.height:
        spawned = children.filter(~pl.col("trajectory_id").is_in(list(known)))
        level = spawned.join(
            level, left_on="parent_id", right_on="trajectory_id", suffix="_of_parent"
        ).with_columns(ours_where=pl.format("{}: {}", "parent_id", "ours_where"))
        level = level.select(found.columns)
        known |= set(level["trajectory_id"])
        found = pl.concat([found, level])
    return found.sort("trajectory_id", "benchmark", "instance_id", "method")
