"""Which targets of a store get a row: all, the last of each episode, or some drawn by content."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import polars as pl

from trajkit.builders.splits import Splits
from trajkit.errors import TrajkitError
from trajkit.store import Store
from trajkit.transitions import uniform_draws

_PLACE = ["trajectory_id", "step_index"]
_OWN_DRAW = 2**32
"""Added to the seed of the draw inside an episode. With the draw of the limit of a domain, that
limit would prefer long episodes: the least of many draws is small."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The targets that get a row, and the account of the others."""

    steps: dict[str, pl.DataFrame]
    """By part: `trajectory_id` and `step_index`."""
    left_out: dict[str, Counter[str]]
    """By part: how many targets each reason left out."""

    @property
    def n_steps(self) -> int:
        """How many targets get a row, if nothing comes between."""
        return sum(frame.height for frame in self.steps.values())

    def of(self, part: str) -> dict[str, set[int]]:
        """Return the step indices of a part by episode."""
        wanted: dict[str, set[int]] = {}
        for id_, index in self.steps[part].iter_rows():
            wanted.setdefault(id_, set()).add(index)
        return wanted


def check_turns(turns: str) -> None:
    """Raise TrajkitError for a text that is not `all`, `last` or `sample:N`."""
    kind, _, number = turns.partition(":")
    if turns not in ("all", "last") and (
        kind != "sample" or not (number.isascii() and number.isdigit()) or int(number) < 1
    ):
        raise TrajkitError("--turns", f"no way to choose {turns!r}", "one of all, last, sample:N")


def choose_targets(
    source: Store, splits: Splits, *, turns: str, per_domain: int | None, seed: int
) -> Chosen:
    """Return the targets of a store that get a row.

    Of each episode `turns` takes all targets, the last, or `sample:N`; of these `per_domain` takes
    at most so many of a domain. Both draws are by content and seed, so order, parts and further
    episodes of another content change nothing. Reasons, in this order: `other_pool`, `not_drawn`,
    `over_domain_limit`. Holds two columns of all targets.
    """
    frames = {}
    left_out: dict[str, Counter[str]] = {}
    for part in source.parts():
        targets = (
            source.read("transitions", part)
            .filter("target")
            .select(*_PLACE, "domain", "split_group")
            .join(
                source.read("trajectories", part).select("trajectory_id", "content_hash"),
                on="trajectory_id",
                maintain_order="left",
            )
        )
        groups = targets["split_group"].unique().to_list()
        own = [group for group in groups if splits.side(group) is not None]
        rows = targets.filter(pl.col("split_group").is_in(own))
        drawn = _drawn(rows, turns, seed)
        left_out[part] = Counter(
            other_pool=targets.height - rows.height, not_drawn=rows.height - drawn.height
        )
        draw = uniform_draws(drawn["content_hash"], drawn["step_index"], seed)
        frames[part] = drawn.select(*_PLACE, "domain", draw=pl.Series(draw, dtype=pl.Float64))
    if per_domain is not None and frames:
        limited = _limited(frames, per_domain)
        for part, frame in frames.items():
            left_out[part]["over_domain_limit"] = frame.height - limited[part].height
        frames = limited
    return Chosen({part: frame.select(_PLACE) for part, frame in frames.items()}, left_out)


def _limited(frames: dict[str, pl.DataFrame], per_domain: int) -> dict[str, pl.DataFrame]:
    """Return the targets of each part that are among the first drawn of their domain."""
    named = [frame.with_columns(part=pl.lit(part)) for part, frame in frames.items()]
    ordered = pl.concat(named).sort("draw", *_PLACE)
    chosen = ordered.group_by("domain", maintain_order=True).head(per_domain)
    return {part: chosen.filter(pl.col("part") == part) for part in frames}


def _drawn(rows: pl.DataFrame, turns: str, seed: int) -> pl.DataFrame:
    """Return the targets that `turns` takes of each episode."""
    if turns == "all":
        return rows
    if turns == "last":
        return rows.filter(pl.col("step_index") == pl.col("step_index").max().over("trajectory_id"))
    draw = uniform_draws(rows["content_hash"], rows["step_index"], seed + _OWN_DRAW)
    rank = pl.col("_draw").rank("ordinal").over("trajectory_id")
    ranked = rows.with_columns(_draw=pl.Series(draw, dtype=pl.Float64)).filter(
        rank <= int(turns.partition(":")[2])
    )
    return ranked.drop("_draw")
