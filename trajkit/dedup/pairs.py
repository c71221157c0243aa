"""What dedup found, put together: who goes for whom, which marks change, and the parts written."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from trajkit.dedup.near import Stars
from trajkit.dedup.signatures import Flags, Numbers
from trajkit.store import Store, StoreWriter
from trajkit.tables import to_arrow, write_table

DUPLICATE = "duplicate_transition"
"""Skip reason of a step that repeats the transition of another."""
METHODS = ("", "exact", "prefix", "near")
REASONS = {method: f"{method}_duplicate" for method in METHODS if method}


@dataclass
class Findings:
    """Who stays for each episode, by which method, and how alike the two are."""

    kept: Numbers
    """Number of the episode that stays; its own for those that stay themselves."""
    method: npt.NDArray[np.int8]
    """Place in `METHODS`."""
    estimated: npt.NDArray[np.float64]
    exact: npt.NDArray[np.float64]

    @property
    def out(self) -> Flags:
        """Return which episodes go."""
        out: Flags = self.kept != np.arange(len(self.kept))
        return out


def resolved(
    stars: Stars, prefixes: pl.DataFrame, equal: pl.DataFrame, n_shingles: Numbers
) -> Findings:
    """Return the findings such that whoever is named as kept does stay.

    A copy of an episode that goes itself goes for the same one: its key text is the same, and so
    is the likeness.
    """
    n = len(stars.kept)
    found = Findings(stars.kept.copy(), np.zeros(n, dtype=np.int8), np.ones(n), np.ones(n))
    near = np.array(sorted(stars.exact), dtype=np.int64)
    found.method[near] = METHODS.index("near")
    found.exact[near] = [stars.exact[number] for number in near.tolist()]
    found.estimated[near] = [stars.estimated[number] for number in near.tolist()]
    for number, kept in prefixes.select("number", "kept").iter_rows():
        # The set of a beginning lies in that of the whole: their likeness is the ratio of sizes.
        if found.kept[number] == number and found.kept[kept] == kept:
            found.kept[number] = kept
            found.method[number] = METHODS.index("prefix")
            share = min(1.0, float(n_shingles[number]) / max(1.0, float(n_shingles[kept])))
            found.exact[number] = found.estimated[number] = share
    for number, kept in equal.select("number", "kept").iter_rows():
        stays = found.kept[kept] == kept
        found.kept[number] = found.kept[kept]
        found.method[number] = METHODS.index("exact") if stays else found.method[kept]
        found.exact[number], found.estimated[number] = found.exact[kept], found.estimated[kept]
    return found


def pairs_table(found: Findings, episodes: pl.DataFrame, marks: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of the table `duplicates`: left out episodes, then marked transitions.

    `episodes` are in order of their numbers.
    """
    out = np.flatnonzero(found.out)
    ids = episodes["trajectory_id"]
    rows = pl.DataFrame(
        {
            "trajectory_id": ids[out],
            "kept_id": ids[found.kept[out]],
            "level": pl.Series(["trajectory"] * len(out), dtype=pl.String),
            "method": pl.Series([METHODS[m] for m in found.method[out]], dtype=pl.String),
            "estimated_similarity": found.estimated[out],
            "exact_similarity": found.exact[out],
            "step_index": pl.Series([None] * len(out), dtype=pl.Int64),
            "kept_step_index": pl.Series([None] * len(out), dtype=pl.Int64),
        }
    ).sort("method", "trajectory_id")
    repeated = marks.filter(~pl.col("lifted"))
    steps = pl.DataFrame(
        {
            "trajectory_id": ids[repeated["number"]],
            "kept_id": ids[repeated["kept"]],
            "level": pl.Series(["transition"] * repeated.height, dtype=pl.String),
            "method": pl.Series(["exact"] * repeated.height, dtype=pl.String),
            "estimated_similarity": np.ones(repeated.height),
            "exact_similarity": np.ones(repeated.height),
            "step_index": repeated["step_index"],
            "kept_step_index": repeated["kept_step_index"],
        }
    ).sort("trajectory_id", "step_index")
    return pl.concat([rows, steps])


def write_pairs(writer: StoreWriter, rows: pl.DataFrame) -> None:
    """Write the table `duplicates`."""
    write_table(writer.path / "duplicates.parquet", to_arrow("duplicates", rows))


def write_part(
    writer: StoreWriter, store: str, part: str, gone: pl.DataFrame, marks: pl.DataFrame
) -> dict[str, int]:
    """Return the counts of a part after writing it without some episodes and with new marks.

    `gone` has `trajectory_id, reason` of the episodes to leave out, `marks` `trajectory_id,
    step_index, lifted`. A part in which nothing changes is linked.
    """
    source = Store(store)
    trajectories = pl.scan_parquet(source.path / "trajectories" / f"{part}.parquet")
    sizes = trajectories.select("trajectory_id", "n_steps").collect()
    kept = sizes.join(gone, on="trajectory_id", how="anti")
    counts = {"read": sizes.height, "kept": kept.height, "steps": int(kept["n_steps"].sum())}
    for reason, n in gone["reason"].value_counts().iter_rows():
        counts[f"dropped.{reason}"] = n
    counts["unmarked"] = int(marks["lifted"].sum())
    counts[f"marked.{DUPLICATE}"] = marks.height - counts["unmarked"]
    if not gone.height:
        writer.link(source, "trajectories", part)
    else:
        rows = source.read("trajectories", part)
        stays = rows.join(gone, on="trajectory_id", how="anti", maintain_order="left")
        writer.write("trajectories", part, stays)
    if not gone.height and not marks.height:
        writer.link(source, "steps", part)
        return counts
    steps = source.read("steps", part)
    if gone.height:
        steps = steps.join(gone, on="trajectory_id", how="anti", maintain_order="left")
    if marks.height:
        place = ["trajectory_id", "step_index"]
        steps = steps.join(marks, on=place, how="left", maintain_order="left").with_columns(
            skip_reason=pl.when("lifted")
            .then(None)
            .when(~pl.col("lifted"))
            .then(pl.lit(DUPLICATE))
            .otherwise("skip_reason")
        )
    writer.write("steps", part, steps)
    return counts
