"""Copies that are equal: episodes, beginnings of longer episodes, and transitions.

All of it is joins over keys on disk; DuckDB does them in bounded memory and spills.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb
import polars as pl

from trajkit.dedup.episode_keys import COPY, TARGET
from trajkit.progress import without_bar

MEMORY = "512MB"


def connect(scratch: Path) -> duckdb.DuckDBPyConnection:
    """Return a database in bounded memory that spills below a folder."""
    base = duckdb.connect(config={"memory_limit": MEMORY, "preserve_insertion_order": False})
    without_bar(base)
    base.execute("set temp_directory = ?", [str(scratch / "spill")])
    return base


def equal_pairs(episodes: pl.DataFrame) -> pl.DataFrame:
    """Return `number, kept` of the episodes whose key text an episode before them has.

    `episodes` are in order of precedence. Episodes without a word are never copies.
    """
    kept = pl.col("number").min().over("chain", "chain_high", "n_steps")
    return (
        episodes.filter("has_words")
        .select("number", "is_old", kept=kept)
        .filter((pl.col("number") != pl.col("kept")) & ~pl.col("is_old"))
        .select("number", "kept")
    )


_PREFIXES = """
    with reached as (
        select e.number, e.n_steps, e.last_open, k.file, k.episode, k.nth, k.closed,
               e.chain = k.chain and e.chain_high = k.chain_high as whole
        from ends e join keys k on e.chain = k.chain and e.n_steps = k.nth + 1
        where e.chain_high = k.chain_high
        union all
        select e.number, e.n_steps, e.last_open, k.file, k.episode, k.nth, k.closed, false
        from ends e join keys k on e.chain = k.open and e.n_steps = k.nth + 1
        where e.chain_high = k.open_high and e.last_open and k.closed)
    select r.number, arg_min(o.number, (-o.n_steps, o.number)) as kept
    from reached r join episodes o on o.file = r.file and o.episode = r.episode
    where o.alive and o.number <> r.number
      and (o.n_steps > r.n_steps or (not r.whole and r.last_open))
    group by r.number order by r.number"""


def prefix_pairs(
    base: duckdb.DuckDBPyConnection, episodes: pl.DataFrame, files: Sequence[Path], min_size: int
) -> pl.DataFrame:
    """Return `number, kept`: episodes that are the beginning of another, and the longest such.

    A log that ends while it waits for an answer is the beginning of one that has the answer.
    `episodes` holds what may stay; those of fewer than `min_size` shingles are not looked at.
    """
    _tables(base, episodes.with_columns(alive=pl.lit(value=True)), files)
    base.register(
        "ends",
        episodes.filter((pl.col("n_shingles") >= min_size) & ~pl.col("is_old"))
        .select("number", "n_steps", "chain", "chain_high", "last_open")
        .to_arrow(),
    )
    return pl.DataFrame(base.sql(_PREFIXES).to_arrow_table())


_GROUPS = f"""
    create or replace temp table groups as
    select k.transition,
           min(place) filter (e.alive and k.state = {TARGET}) as first_target,
           min(place) filter (e.alive and k.state = {COPY}) as first_copy
    from keys k join episodes e on e.file = k.file and e.episode = k.episode,
         lateral (select (e.number << 24) + k.step_index as place)
    group by k.transition
    having count(*) filter (e.alive and k.state = {TARGET} and k.answer_has_words) > 1
        or (first_target is null and first_copy is not null
            and count(*) filter (not e.alive and k.state = {TARGET}) > 0)"""
_MARKS = f"""
    select e.number, k.step_index, g.first_target is null as lifted,
           coalesce(g.first_target, g.first_copy) >> 24 as kept,
           coalesce(g.first_target, g.first_copy) & 16777215 as kept_step_index
    from keys k
    join groups g on g.transition = k.transition
    join episodes e on e.file = k.file and e.episode = k.episode,
         lateral (select (e.number << 24) + k.step_index as place)
    where e.alive and not e.is_old
      and ((k.state = {TARGET} and k.answer_has_words and place <> g.first_target)
           or (k.state = {COPY} and g.first_target is null and place = g.first_copy))
    order by all"""


def transition_marks(
    base: duckdb.DuckDBPyConnection, episodes: pl.DataFrame, files: Sequence[Path]
) -> pl.DataFrame:
    """Return `number, step_index, lifted, kept, kept_step_index`: steps whose mark changes.

    Of equal transitions that are targets the first stays one; the others are to be marked. Where
    the only target went with its episode, the first step marked as its copy becomes the target
    (`lifted`): no transition ceases to be taught because another episode held it. `episodes` has
    all of them, with `alive`. Answers without a word are never marked.
    """
    _tables(base, episodes, files)
    base.execute(_GROUPS)
    return pl.DataFrame(base.sql(_MARKS).to_arrow_table())


def _tables(base: duckdb.DuckDBPyConnection, episodes: pl.DataFrame, files: Sequence[Path]) -> None:
    columns = ("number", "file", "episode", "n_steps", "alive", "is_old")
    base.execute("drop table if exists episodes")
    base.register("given", episodes.select(columns).to_arrow())
    base.execute("create temp table episodes as select * from given")
    base.unregister("given")
    names = pl.DataFrame({"filename": [str(path) for path in files]}).with_row_index("file")
    base.register("files", names.to_arrow())
    listed = ", ".join(_quoted(path) for path in files)
    base.execute(
        "create or replace temp view keys as select f.file, k.* exclude (filename)"
        f" from read_parquet([{listed}], filename = true) k join files f using (filename)"
    )


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
