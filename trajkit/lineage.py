"""Tie together what the files of a corpus tell of each other: parents, and copied histories.

A sub-agent may lie in another file than the run that spawned it, and a resumed or forked session
begins with a copy of an older file. Workers write down names and keys beside their parts; one
pass after the last part joins them with DuckDB, which spills, and rewrites the parts concerned.
The pass gives the same result however often it is begun.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import duckdb
import orjson
import polars as pl
import pyarrow as pa

from trajkit.model import Origin, Reject, Trajectory
from trajkit.progress import without_bar
from trajkit.store import StoreWriter
from trajkit.tables import rejects_table, to_arrow, write_atomically, write_table

COPIED = "copied_context"
"""Skip reason of a step that an earlier trajectory has as well."""
HISTORY = "copied_history"
"""Reason of a trajectory that has no step of its own."""

_MEMORY = "256MB"
_COLUMNS: dict[str, dict[str, Any]] = {
    "names": {"name": pl.String, "trajectory_id": pl.String},
    "parents": {"trajectory_id": pl.String, "name": pl.String, "part": pl.String},
    "keys": {
        "key": pl.String,
        "trajectory_id": pl.String,
        "step_index": pl.Int64,
        "place": pl.Int64,
        "n_steps": pl.Int64,
        "part": pl.String,
    },
}


_PARENTS = """
    select p.part, p.trajectory_id, min(n.trajectory_id) as parent_id
    from parents p join names n on n.name = p.name and n.trajectory_id <> p.trajectory_id
    group by all order by all"""
# Ties share a rank: the calls of one turn have one key and are no copies of each other.
_COPIES = """
    select part, trajectory_id, step_index, n_steps from (
        select *, rank() over (partition by key order by part, place) as nth from keys)
    where nth > 1 order by all"""


class Ties:
    """What one part says of other files; a few words for each step that has a global id."""

    def __init__(self, part: str) -> None:
        self._part = part
        self._place = 0
        self._rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in _COLUMNS}

    def add(self, found: Trajectory, identity: str, *, has_parent: bool) -> None:
        """Note the names, the missing parent and the step keys of one trajectory."""
        self._place += 1
        self._rows["names"].extend((f"{found.adapter}:{name}", identity) for name in found.names)
        if found.parent_key is not None and not has_parent:
            parent = f"{found.adapter}:{found.parent_key}"
            self._rows["parents"].append((identity, parent, self._part))
        self._rows["keys"].extend(
            (f"{found.adapter}:{key}", identity, index, self._place, len(found.steps), self._part)
            for index, key in enumerate(found.step_keys[: len(found.steps)])
            if key is not None
        )

    def write(self, writer: StoreWriter) -> None:
        """Write the notes beside the part, if there are any."""
        for name, rows in self._rows.items():
            if rows:
                frame = pl.DataFrame(rows, schema=_COLUMNS[name], orient="row")
                write_table(writer.marks / f"{self._part}.{name}.ties", frame.to_arrow())


def link(writer: StoreWriter) -> Counter[str]:
    """Return the change of counts after giving parents their children and marking copies.

    Of steps with one key the first in the order of parts keeps its place as a target; the others
    get the skip reason `copied_context` and stay as history. A trajectory that is nothing but
    copies is dropped as `copied_history`.
    """
    files = {name: sorted(writer.marks.glob(f"*.{name}.ties")) for name in _COLUMNS}
    if not files["parents"] and not files["keys"]:
        return Counter()
    with duckdb.connect(config={"memory_limit": _MEMORY, "threads": 1}) as base:
        without_bar(base)
        base.execute("set temp_directory = ?", [str(writer.marks / "spill")])
        for name, columns in _COLUMNS.items():
            kinds = ", ".join(
                f"{column} {'bigint' if kind == pl.Int64 else 'varchar'}"
                for column, kind in columns.items()
            )
            base.execute(f"create table {name} ({kinds})")
            for file in files[name]:
                base.execute(f"insert into {name} select * from read_parquet(?)", [str(file)])
        parents = pl.DataFrame(base.sql(_PARENTS).to_arrow_table())
        copies = pl.DataFrame(base.sql(_COPIES).to_arrow_table())
    counts: Counter[str] = Counter()
    for part in sorted({*parents["part"], *copies["part"]}):
        counts.update(
            _rewrite(
                writer,
                part,
                parents.filter(pl.col("part") == part).drop("part"),
                copies.filter(pl.col("part") == part).drop("part"),
            )
        )
    return counts


def _rewrite(
    writer: StoreWriter, part: str, parents: pl.DataFrame, copies: pl.DataFrame
) -> Counter[str]:
    """Rewrite one part with its overflow, and return the change of its counts."""
    whole = (
        copies.group_by("trajectory_id", "n_steps")
        .len()
        .filter(pl.col("len") >= pl.col("n_steps"))
        .select("trajectory_id")
    )
    files = sorted((writer.path / "trajectories").glob(f"{part}*.parquet"))
    note = writer.marks / f"{part}.copies.json"
    if not note.exists():
        # What is dropped is on disk before it leaves its part: a second try would not find it.
        gone = pl.concat(
            pl.read_parquet(file).join(whole, on="trajectory_id", how="semi") for file in files
        )
        if gone.height:
            write_table(writer.marks / f"{part}-copies.rejects.parquet", _rejects(gone))
        write_atomically(note, orjson.dumps(_change(gone)))
    copied = copies.select("trajectory_id", "step_index", copied=pl.lit(True))
    for file in files:
        rows = (
            pl.read_parquet(file)
            .join(whole, on="trajectory_id", how="anti", maintain_order="left")
            .join(parents, on="trajectory_id", how="left", suffix="_found", maintain_order="left")
            .with_columns(parent_id=pl.coalesce("parent_id", "parent_id_found"))
        )
        write_table(file, to_arrow("trajectories", rows))
        steps_file = writer.path / "steps" / file.name
        reason = pl.coalesce("skip_reason", pl.lit(COPIED))
        steps = (
            pl.read_parquet(steps_file)
            .join(whole, on="trajectory_id", how="anti", maintain_order="left")
            .join(copied, on=["trajectory_id", "step_index"], how="left", maintain_order="left")
            .with_columns(skip_reason=pl.when("copied").then(reason).otherwise("skip_reason"))
        )
        write_table(steps_file, to_arrow("steps", steps))
    return Counter(orjson.loads(note.read_bytes()))


def _change(gone: pl.DataFrame) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for row in gone.select("adapter", "domain", "n_steps").iter_rows(named=True):
        counts["kept"] -= 1
        counts["steps"] -= row["n_steps"]
        counts[f"adapter.{row['adapter']}"] -= 1
        counts[f"domain.{row['domain']}"] -= 1
        counts[f"dropped.{HISTORY}"] += 1
    return counts


def _rejects(gone: pl.DataFrame) -> pa.Table:
    return rejects_table(
        Reject(
            origin=Origin(path=row["origin_path"], line=row["origin_line"], key=row["origin_key"]),
            reason=HISTORY,
            message="every step of it stands in another trajectory as well",
        )
        for row in gone.iter_rows(named=True)
    )
