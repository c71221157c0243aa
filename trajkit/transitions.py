"""Cut episodes into transitions: pointers and statistics, never copies of history.

Source of the statistics and categories: Qwen-AgentWorld report, section 3.2, table 3. The report
gives no precedence, no number for "short" and no rule for empty sides; ours are stated below.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from trajkit import domains
from trajkit.errors import TrajkitError, alternatives
from trajkit.progress import Progress
from trajkit.report import Report, under
from trajkit.split import BRIDGE, NEAR_THRESHOLD, check_options, split
from trajkit.store import Store, inputs_of, iterate_parts, open_writer
from trajkit.terminal_text import ROUND_LENGTHS

KEEP_RATIOS: dict[str, float] = {
    "retrieval": 1.0,
    "expansion": 1.0,
    "action": 1.0,
    "transform": 0.5,
    "boilerplate": 0.1,
    "echo": 0.05,
    "other": 1.0,
}
"""Share of turns of each category that stay in the loss; the report's values."""


@dataclass(frozen=True, slots=True)
class Bound:
    """One condition of a signature: a statistic of the turn beside a threshold."""

    statistic: str
    """`overlap`, `novelty`, `ratio` (characters of the observation for one of the action) or
    `short` (characters of the observation)."""
    sign: Literal[">=", ">", "<=", "<"]
    threshold: float
    or_else: bool = False
    """Whether it may hold in place of the condition before it."""


SIGNATURES: dict[str, tuple[Bound, ...]] = {
    "echo": (Bound("overlap", ">=", 0.7), Bound("novelty", "<", 0.3)),
    "boilerplate": (Bound("overlap", ">=", 0.5), Bound("novelty", "<", 0.5)),
    "transform": (Bound("novelty", "<", 0.5), Bound("ratio", "<", 1.0)),
    "expansion": (
        Bound("overlap", ">=", 0.5),
        Bound("novelty", ">=", 0.5),
        Bound("ratio", ">", 1.5),
    ),
    "retrieval": (Bound("novelty", ">=", 0.6), Bound("ratio", ">", 1.0)),
    "action": (
        Bound("novelty", ">=", 0.5),
        Bound("ratio", "<=", 1.0),
        Bound("short", "<=", 200.0, or_else=True),
    ),
}
"""The signature of each category in the order they are asked; the first that fits wins, and what
none fits is `other`. Thresholds are the report's, but for `action.short`: it gives no number."""
THRESHOLDS: dict[str, float] = {
    f"{name}.{bound.statistic}": bound.threshold
    for name, bounds in SIGNATURES.items()
    for bound in bounds
}
"""Every threshold by its name, as in `echo.overlap`."""
_STATISTICS = {
    "overlap": "overlap",
    "novelty": "novelty",
    "ratio": "length_ratio",
    "short": "n_observation_chars",
}
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_COMPARE = {">=": pl.Expr.ge, ">": pl.Expr.gt, "<=": pl.Expr.le, "<": pl.Expr.lt}


def transitions(
    store: str | Path,
    out: str | Path,
    *,
    keep_ratios: Mapping[str, float] | None = None,
    signatures: Mapping[str, float] | None = None,
    seed: int = 0,
    split_by: str = "task",
    split_near: float | None = NEAR_THRESHOLD,
    split_from: str | Path | None = None,
    overwrite: bool = False,
    quiet: bool = False,
) -> Report:
    """Return the report of adding the table `transitions` to a store.

    One row for each step. `target` is false for steps that can teach nothing (the reason stands in
    `skip_reason`); `loss` is drawn for each target by its category's keep ratio, from the content
    and the seed, so neither order nor workers change it. Holds one part at a time.
    `suspect_cuts` in the report counts targets of a length at which harnesses cut, with no mark of
    it; nothing is done to them.

    `signatures` are thresholds of categories by name, as in `echo.overlap`; see `SIGNATURES`.

    How episodes are grouped is the business of `split`; `split_from` is a store that this stage
    wrote before, whose episodes keep their side.

    Raises TrajkitError for an unknown category or threshold, or a ratio outside [0, 1].
    """
    ratios = KEEP_RATIOS | checked_ratios(keep_ratios or {})
    thresholds = THRESHOLDS | _checked_thresholds(signatures or {})
    check_options(split_by, split_near)
    source = Store(store).require("trajectories", "steps")
    earlier = None if split_from is None else Store(split_from).require("transitions")
    report = Report("transitions", out)
    writer = open_writer(
        out,
        kind="store",
        stage="transitions",
        options={
            "keep_ratios": ratios,
            "signatures": thresholds,
            "seed": seed,
            "split_by": split_by,
            "split_near": split_near,
        },
        inputs=inputs_of(source) + ([] if earlier is None else inputs_of(earlier)),
        overwrite=overwrite,
    )
    parts = source.parts()
    sides = split(source, by=split_by, near_threshold=split_near, earlier=earlier)
    with Progress("transitions", len(parts), "parts", quiet=quiet) as progress:
        for part in iterate_parts(source, writer):
            rows = _rows(source, part, ratios, thresholds, seed, sides.groups)
            writer.write("transitions", part, rows)
            writer.link(source, "trajectories", part)
            writer.link(source, "steps", part)
            writer.mark(part, _counts(rows))
            progress.advance()
        writer.link(source, "duplicates")
    counts = writer.counts
    report.read = report.kept = report.written = counts["read"]
    report.extra["targets"] = counts["targets"]
    report.extra["in_loss"] = counts["loss"]
    report.extra["split"] = sides.counts()
    report.extra["suspect_cuts"] = counts["round"]
    report.extra["category"] = under(counts, "category")
    report.extra["context_only"] = under(counts, "context_only")
    return report.finish(writer)


def checked_ratios(given: Mapping[str, float]) -> dict[str, float]:
    """Return keep ratios by category as they were given.

    Raises TrajkitError for an unknown category or a ratio outside [0, 1].
    """
    for name, ratio in given.items():
        if name not in KEEP_RATIOS:
            raise TrajkitError(
                "--keep", f"no category {name!r}", f"one of {alternatives(KEEP_RATIOS)}"
            )
        if not 0 <= ratio <= 1:
            raise TrajkitError("--keep", f"{ratio} is outside [0, 1]", f"as in --keep {name}=0.5")
    return dict(given)


def _checked_thresholds(given: Mapping[str, float]) -> dict[str, float]:
    for name in given:
        if name not in THRESHOLDS:
            raise TrajkitError(
                "--signature", f"no threshold {name!r}", f"one of {alternatives(THRESHOLDS)}"
            )
    return dict(given)


def _counts(rows: pl.DataFrame) -> dict[str, int]:
    counts = {
        "read": rows.height,
        "targets": int(rows["target"].sum()),
        "loss": int(rows["loss"].sum()),
        "round": rows.filter(
            pl.col("target")
            & ~pl.col("truncated")
            & pl.col("n_observation_chars").is_in(sorted(ROUND_LENGTHS))
        ).height,
    }
    for name, column in (("category", "category"), ("context_only", "skip_reason")):
        for value, n in rows[column].drop_nulls().value_counts().iter_rows():
            counts[f"{name}.{value}"] = n
    return counts


def overlap_statistics(steps: pl.DataFrame) -> pl.DataFrame:
    """Return the frame with overlap, novelty, jaccard and length ratio of action and observation.

    Words are lower-cased, de-duplicated runs of letters and digits. An empty side gives zero for
    every share that would divide by it. `length_ratio` divides by at least one character.

    >>> frame = pl.DataFrame({"action": ['think("go north")'], "observation": ['{"thought": 1}']})
    >>> overlap_statistics(frame)["overlap"].to_list()
    [0.0]
    """

    def words(column: str) -> pl.Expr:
        text = pl.col(column).fill_null("").str.to_lowercase()
        return text.str.extract_all(r"[\p{L}\p{N}]+").list.unique()

    def share(part: pl.Expr, whole: pl.Expr) -> pl.Expr:
        return pl.when(whole > 0).then(part / whole).otherwise(0.0)

    n_common = pl.col("_in_action").list.set_intersection(pl.col("_in_answer")).list.len()
    n_action, n_answer = pl.col("_in_action").list.len(), pl.col("_in_answer").list.len()
    n_action_chars = pl.col("action").str.len_chars().cast(pl.Int64)
    n_observation_chars = pl.col("observation").fill_null("").str.len_chars().cast(pl.Int64)
    return (
        steps.with_columns(_in_action=words("action"), _in_answer=words("observation"))
        .with_columns(
            n_action_chars=n_action_chars,
            n_observation_chars=n_observation_chars,
            overlap=share(n_common, n_action),
            novelty=share(n_answer - n_common, n_answer),
            jaccard=share(n_common, n_action + n_answer - n_common),
            length_ratio=n_observation_chars / n_action_chars.clip(lower_bound=1),
        )
        .drop("_in_action", "_in_answer")
    )


def category(thresholds: Mapping[str, float] | None = None) -> pl.Expr:
    """Return the category of a turn from its statistics; the first signature that fits wins.

    `thresholds` replace those of `SIGNATURES` by name. The signatures overlap, so the most specific
    is asked first: echo lies inside boilerplate, and boilerplate before transform keeps the lower
    ratio where both fit. An empty observation is `other`: silence is an answer, and no words say
    it is a low one.
    """
    chosen = THRESHOLDS | dict(thresholds or {})
    named = [pl.when(pl.col("n_observation_chars") == 0).then(pl.lit("other"))]
    for name, bounds in SIGNATURES.items():
        fits = pl.lit(True)
        conditions: list[pl.Expr] = []
        for bound in bounds:
            column = pl.col(_STATISTICS[bound.statistic])
            holds = _COMPARE[bound.sign](column, chosen[f"{name}.{bound.statistic}"])
            conditions.append(conditions.pop() | holds if bound.or_else else holds)
        for condition in conditions:
            fits = fits & condition
        named.append(pl.when(fits).then(pl.lit(name)))
    return pl.coalesce(*named, pl.lit("other"))


def _rows(
    source: Store,
    part: str,
    ratios: Mapping[str, float],
    thresholds: Mapping[str, float],
    seed: int,
    groups: pl.DataFrame,
) -> pl.DataFrame:
    episodes = source.read("trajectories", part).select("trajectory_id", "content_hash")
    steps = as_shown(source.read("steps", part)).join(
        episodes.join(groups, on="trajectory_id"), on="trajectory_id", maintain_order="left"
    )
    last = pl.col("step_index") == pl.col("step_index").max().over("trajectory_id")
    skip = pl.coalesce(
        pl.col("skip_reason"),
        pl.when(pl.col("observation_source") != "environment").then(
            pl.concat_str(pl.col("observation_source"), pl.lit("_reply"))
        ),
        pl.when(pl.col("observation").is_null()).then(
            pl.when(last)
            .then(pl.lit("final_without_reply"))
            .otherwise(pl.lit("missing_observation"))
        ),
        pl.when(pl.col("action_kind") == "none").then(pl.lit("empty_action")),
        pl.when(pl.col("is_bridge")).then(pl.lit(BRIDGE)),
    )
    rows = (
        overlap_statistics(steps)
        .with_columns(category=category(thresholds), skip_reason=skip)
        .with_columns(target=pl.col("skip_reason").is_null())
    )
    draw = uniform_draws(rows["content_hash"], rows["step_index"], seed)
    ratio = rows["category"].replace_strict(ratios, return_dtype=pl.Float64).to_numpy()
    return rows.with_columns(loss=pl.Series(draw < ratio) & pl.col("target"))


def as_shown(steps: pl.DataFrame) -> pl.DataFrame:
    """Return steps with raw terminal output as a screen shows it: escapes are no words."""
    raw = steps["observation"].str.contains("[\x1b\b\r]").arg_true()
    if not len(raw):
        return steps
    rows = steps.select("domain", "observation")[raw].iter_rows()
    shown = [domains.load(domain).shown(text) for domain, text in rows]
    return steps.with_columns(observation=steps["observation"].clone().scatter(raw, shown))


def uniform_draws(hashes: pl.Series, indices: pl.Series, seed: int) -> npt.NDArray[np.float64]:
    """Return numbers in [0, 1) that depend on content hash, step index and seed alone."""
    return _shares(_turn_words(hashes, indices, seed))


def piece_draws(
    content_hash: str, step_index: int, seed: int, n_pieces: int
) -> npt.NDArray[np.float64]:
    """Return as many numbers in [0, 1) as a turn has pieces; each depends on its number too."""
    (word,) = _turn_words(pl.Series([content_hash]), pl.Series([step_index]), seed)
    with np.errstate(over="ignore"):
        return _shares(_spread(word + np.arange(1, n_pieces + 1, dtype=np.uint64) * _GOLDEN))


def _turn_words(hashes: pl.Series, indices: pl.Series, seed: int) -> npt.NDArray[np.uint64]:
    word = hashes.str.slice(0, 16).str.to_integer(base=16, dtype=pl.UInt64).to_numpy()
    with np.errstate(over="ignore"):
        return _spread(word + (indices.to_numpy().astype(np.uint64) + np.uint64(seed)) * _GOLDEN)


def _spread(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    # The finaliser of splitmix64 (Steele, Lea, Flood 2014) spreads every input bit.
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _shares(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
    draws: npt.NDArray[np.float64] = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return draws
