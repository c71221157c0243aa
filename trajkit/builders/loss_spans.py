"""Which characters of an observation bear loss: the keep rules of continual pre-training.

Source: Qwen-AgentWorld report, section 3.2, table 3. It does not say whether a keep ratio counts
turns or tokens, so both are here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from trajkit.errors import TrajkitError, alternatives
from trajkit.store import Store
from trajkit.transitions import KEEP_RATIOS, checked_ratios, piece_draws, uniform_draws

KEEP_BY = ("turn", "token")
_PIECE = re.compile(r"\s*\S+|\s+$")
"""Blanks with the word after them: about what a pre-tokenizer cuts, so a token is seldom halved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepRules:
    """How much of each category bears loss, and how it is drawn."""

    ratios: Mapping[str, float]
    """By category; every category has one."""
    by: str
    """`turn`: a turn bears loss wholly or not at all. `token`: each turn does in part."""
    seed: int
    as_stored: bool
    """Whether the draw of the stage `transitions` is taken as it is."""

    def with_shares(self, steps: pl.DataFrame) -> pl.DataFrame:
        """Return steps with `share`: how much of the observation bears loss, 0 when no target.

        Steps need `content_hash`, `step_index`, `category`, `target` and `loss`.
        """
        if self.as_stored:
            return steps.with_columns(share=pl.col("loss").cast(pl.Float64))
        ratio = steps["category"].replace_strict(self.ratios, return_dtype=pl.Float64)
        if self.by == "turn":
            draw = uniform_draws(steps["content_hash"], steps["step_index"], self.seed)
            ratio = pl.Series(draw < ratio.to_numpy()).cast(pl.Float64)
        return steps.with_columns(
            share=pl.when(pl.col("target")).then(ratio).otherwise(0.0).cast(pl.Float64)
        )


def keep_rules(
    store: Store, *, keep: Mapping[str, float], by: str, seed: int | None, masks: bool
) -> KeepRules:
    """Return the rules for a store; what is not given is as its transitions were drawn.

    Without `masks` every target bears loss wholly.

    Raises TrajkitError for an unknown category or way to draw, or ratios without masks.
    """
    if by not in KEEP_BY:
        raise TrajkitError("--keep-by", f"no way {by!r}", f"one of {alternatives(KEEP_BY)}")
    given = checked_ratios(keep)
    if not masks:
        if given:
            raise TrajkitError(
                "--no-masks", "keeps every target whole, so --keep has no say", "give one of both"
            )
        given = dict.fromkeys(KEEP_RATIOS, 1.0)
    drawn = store.manifest.options
    return KeepRules(
        ratios=KEEP_RATIOS | drawn.get("keep_ratios", {}) | given,
        by=by,
        seed=drawn.get("seed", 0) if seed is None else seed,
        as_stored=by == "turn" and seed is None and not given,
    )


@dataclass(frozen=True, slots=True)
class Spans:
    """Spans `[start, end)` of observations, in order."""

    step: npt.NDArray[np.int64]
    """Row of the step."""
    start: npt.NDArray[np.int64]
    """First character, counted from the start of the observation."""
    end: npt.NDArray[np.int64]
    """One after the last; the line end that closes an observation counts as its own."""

    def n_chars(self, n_steps: int) -> npt.NDArray[np.int64]:
        """Return how many characters of each step bear loss."""
        counts = np.zeros(n_steps, dtype=np.int64)
        np.add.at(counts, self.step, self.end - self.start)
        return counts


def loss_spans(steps: pl.DataFrame, seed: int) -> Spans:
    """Return the spans of steps that have `share`, `shown_observation` and `n_chars`.

    `n_chars` is the length of the observation with the line end that closes it.
    """
    share = steps["share"].to_numpy()
    n_chars = steps["n_chars"].to_numpy()
    (whole,) = np.nonzero(share >= 1)
    (in_part,) = np.nonzero((share > 0) & (share < 1))
    found = [np.stack([whole, np.zeros_like(whole), n_chars[whole]], axis=1)]
    for row in in_part.tolist():
        pairs = _drawn(steps.row(row, named=True), seed)
        found.append(np.column_stack([np.full(len(pairs), row), pairs]))
    rows = np.concatenate(found).astype(np.int64)
    rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
    return Spans(rows[:, 0], rows[:, 1], rows[:, 2])


def _drawn(step: Mapping[str, Any], seed: int) -> npt.NDArray[np.int64]:
    """Return the spans of one turn whose pieces are drawn, neighbours joined."""
    text = step["shown_observation"] + "\n"
    ends = np.array([piece.end() for piece in _PIECE.finditer(text)], dtype=np.int64)
    draws = piece_draws(step["content_hash"], step["step_index"], seed, len(ends))
    edges = np.diff(np.concatenate([[False], draws < step["share"], [False]]).astype(np.int8))
    (first,), (last,) = np.nonzero(edges == 1), np.nonzero(edges == -1)
    starts = np.concatenate([[0], ends])
    return np.column_stack([starts[first], starts[last]])
