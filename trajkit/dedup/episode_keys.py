"""What dedup knows of each part: keys of episodes and steps, and MinHash signatures, on disk.

The key text of an episode is its actions and observations. System prompts, tool schemas, tasks
and demonstrations are not in it, and shingles that are boilerplate are left out of its set.
Everything is worked through in slices of a few megabytes, and what is found goes to files beside
the part, so that a later run need not find it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from trajkit.dedup.keys import normalised
from trajkit.dedup.signatures import (
    N_PERMUTATIONS,
    Hashes,
    Numbers,
    Shingles,
    shingles,
    signatures,
    text_hashes,
)
from trajkit.store import Store

COPY_MARKS = ("copied_context", "shared_history", "duplicate_transition")
"""Skip reasons that say: the same step is a target elsewhere."""
TARGET, COPY, NO_TARGET = 0, 1, 2

_SLICE_BYTES = 8 << 20
_SPREAD = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], dtype=np.uint64)
_CONTEXT = np.uint64(0x94D049BB133111EB)
_HAS_WORD = r"[0-9a-zA-Z]|[^\x00-\x7f]"
_STEP_COLUMNS = (
    "trajectory_id",
    "step_index",
    "action",
    "observation",
    "observation_source",
    "skip_reason",
)


@dataclass(frozen=True, slots=True)
class Recipe:
    """What decides a key."""

    plain: bool = False
    """Compare texts as they are: no normalising, no boilerplate."""
    context_steps: int = 1
    """Steps before a transition that must be the same as well."""
    boilerplate: Path | None = None
    """File of the sorted shingle hashes to leave out."""

    def common(self) -> Hashes:
        """Return the shingles to leave out."""
        if self.boilerplate is None:
            return np.zeros(0, dtype=np.uint64)
        loaded: Hashes = np.load(self.boilerplate)
        return loaded


@dataclass(frozen=True, slots=True)
class Slice:
    """Some neighbouring episodes of a part and the normalised texts of their steps."""

    rows: Numbers
    """Rows of the episodes in their part, growing."""
    steps: pl.DataFrame
    """`episode` (row in the part, not decreasing), `action`, `observation`, and the marks."""

    def texts(self) -> pl.Series:
        """Return the key text of each step."""
        return self.steps.select(
            pl.concat_str("action", pl.col("observation").fill_null(""), separator="\n")
        ).to_series()

    def sets(self, common: Hashes) -> Shingles:
        """Return the shingle sets of the episodes."""
        present, groups = np.unique(self.steps["episode"].to_numpy(), return_inverse=True)
        found = shingles(self.texts(), groups).without(common)
        counts = np.zeros(len(self.rows), dtype=np.int64)
        counts[np.searchsorted(self.rows, present)] = found.counts()
        return Shingles(found.hashes, np.concatenate(([0], np.cumsum(counts))))


def slices(
    source: Store, part: str, recipe: Recipe, rows: Numbers | None = None
) -> Iterator[Slice]:
    """Give a part's episodes in slices of some megabytes, or only the episodes of some rows."""
    order = pl.read_parquet(
        source.path / "trajectories" / f"{part}.parquet", columns=["trajectory_id"]
    ).with_row_index("episode")
    if rows is not None:
        order = order.filter(pl.col("episode").is_in(pl.Series(rows, dtype=pl.UInt32).implode()))
    if not order.height:
        return
    steps = pl.read_parquet(source.path / "steps" / f"{part}.parquet", columns=[*_STEP_COLUMNS])
    steps = steps.join(order, on="trajectory_id", maintain_order="left").drop("trajectory_id")
    if not steps["episode"].is_sorted():
        steps = steps.sort("episode", maintain_order=True)
    size = pl.col("action").str.len_bytes() + pl.col("observation").str.len_bytes().fill_null(0)
    filled = steps.select(size.cast(pl.Int64).cum_sum() // _SLICE_BYTES).to_series()
    # The slice of an episode is that of its first step.
    number = steps.select("episode", slice=filled).group_by("episode", maintain_order=True).first()
    number = order.select("episode").join(number, on="episode", how="left", maintain_order="left")
    number = number.with_columns(pl.col("slice").fill_null(strategy="forward").fill_null(0))
    for (_,), group in number.group_by(["slice"], maintain_order=True):
        own = group["episode"].to_numpy().astype(np.int64)
        begin = int(steps["episode"].search_sorted(int(own[0]), side="left"))
        end = int(steps["episode"].search_sorted(int(own[-1]), side="right"))
        yield Slice(own, _keyed(steps[begin:end], recipe))


def _keyed(steps: pl.DataFrame, recipe: Recipe) -> pl.DataFrame:
    if recipe.plain:
        return steps
    return steps.with_columns(normalised(steps["action"]), normalised(steps["observation"]))


def write_keys(store: str, part: str, folder: Path, recipe: Recipe) -> None:
    """Write `PART.episodes`, `PART.steps` and `PART.signatures.npy`; the episodes come last."""
    source = Store(store)
    common = recipe.common()
    step_keys, sizes, minima = [], [], []
    for piece in slices(source, part, recipe):
        sets = piece.sets(common)
        minima.append(signatures(sets))
        sizes.append(sets.counts())
        step_keys.append(_step_keys(piece, recipe.context_steps))
    steps = pl.concat(step_keys) if step_keys else _step_keys(_NOTHING, 0)
    save_rows(
        folder / f"{part}.signatures.npy",
        np.concatenate([np.zeros((0, N_PERMUTATIONS), dtype=np.uint32), *minima]),
    )
    save_table(folder / f"{part}.steps", steps)
    ends = steps.group_by("episode", maintain_order=True).agg(
        pl.col("chain", "chain_high").last(),
        last_open=~pl.col("closed").last(),
        has_words=pl.col("any_word").any(),
    )
    episodes = (
        pl.read_parquet(
            source.path / "trajectories" / f"{part}.parquet",
            columns=["trajectory_id", "content_hash", "source", "n_steps"],
        )
        .with_row_index("episode")
        .with_columns(n_shingles=pl.Series(np.concatenate([np.zeros(0, dtype=np.int64), *sizes])))
        .join(ends, on="episode", how="left", maintain_order="left")
        .with_columns(
            pl.col("chain", "chain_high").fill_null(0),
            pl.col("last_open", "has_words").fill_null(value=False),
        )
    )
    save_table(folder / f"{part}.episodes", episodes)


def save_table(path: Path, frame: pl.DataFrame) -> None:
    """Write a Parquet file that is either whole or absent; hashes do not compress."""
    temporary = path.with_name(f".{path.name}.tmp")
    frame.write_parquet(temporary, compression="uncompressed", use_pyarrow=False)
    temporary.replace(path)


def save_rows(path: Path, rows: npt.NDArray[np.generic]) -> None:
    """Write an array so that the file is either whole or absent."""
    temporary = path.with_name(f".{path.name}.tmp")
    with open(temporary, "wb") as file:
        np.save(file, rows)
    temporary.replace(path)


_NOTHING = Slice(
    np.zeros(0, dtype=np.int64),
    pl.DataFrame(
        schema={"episode": pl.UInt32, "step_index": pl.Int64}
        | dict.fromkeys(_STEP_COLUMNS[2:], pl.String),
    ),
)


def _step_keys(piece: Slice, context_steps: int) -> pl.DataFrame:
    """Return the keys of a slice's steps.

    `chain` stands for the steps up to this one, `open` for the same without this one's answer:
    a log that was cut while it waited for an answer ends there.
    """
    steps = piece.steps
    asked, answered = _digests(steps)
    episode = steps["episode"].to_numpy().astype(np.int64)
    starts = np.flatnonzero(np.diff(episode, prepend=-1))
    lengths = np.diff(np.append(starts, len(episode)))
    nth = np.arange(len(episode)) - np.repeat(starts, lengths)
    chain, opened = _chains(asked, answered, nth, starts, lengths)
    transition = answered[:, 0].copy()
    for back in range(1, context_steps + 1):
        before = np.zeros(len(transition), dtype=np.uint64)
        before[back:] = answered[: len(answered) - back, 0]
        before[nth < back] = 0
        transition = (transition * _CONTEXT) ^ (before + np.uint64(back))
    is_target = (
        pl.col("skip_reason").is_null()
        & pl.col("observation").is_not_null()
        & (pl.col("observation_source") == "environment")
    )
    return steps.select(
        "episode",
        "step_index",
        pl.Series("nth", nth.astype(np.int32)),
        pl.Series("transition", transition),
        pl.Series("chain", chain[:, 0]),
        pl.Series("chain_high", chain[:, 1]),
        pl.Series("open", opened[:, 0]),
        pl.Series("open_high", opened[:, 1]),
        closed=pl.col("observation").is_not_null(),
        answer_has_words=pl.col("observation").str.contains(_HAS_WORD).fill_null(value=False),
        any_word=pl.col("action").str.contains(_HAS_WORD)
        | pl.col("observation").str.contains(_HAS_WORD).fill_null(value=False),
        state=pl.when(is_target)
        .then(TARGET)
        .when(pl.col("skip_reason").is_in(COPY_MARKS))
        .then(COPY)
        .otherwise(NO_TARGET)
        .cast(pl.Int8),
    )


def _digests(steps: pl.DataFrame) -> tuple[Hashes, Hashes]:
    """Return 128 bits of each action, and of each action with its observation."""
    asked = text_hashes(steps["action"])
    answer = text_hashes(steps["observation"])
    answered = (asked * _CONTEXT) ^ (answer + _CONTEXT)
    silent = steps["observation"].is_null().to_numpy()
    answered[silent] = asked[silent]
    return asked, answered


def _chains(
    asked: Hashes, answered: Hashes, nth: Numbers, starts: Numbers, lengths: Numbers
) -> tuple[Hashes, Hashes]:
    """Return the hash of each step's history with it, and with its action only.

    A sum of digests times powers of an odd number, modulo 2^64 in each of two lanes.
    """
    chain, opened = np.zeros_like(answered), np.zeros_like(answered)
    for lane, base in enumerate(_SPREAD):
        powers = np.ones(int(nth.max(initial=0)) + 2, dtype=np.uint64)
        np.multiply.accumulate(np.full(len(powers) - 1, base), out=powers[1:])
        terms = answered[:, lane] * powers[nth + 1]
        total = np.cumsum(terms, dtype=np.uint64)
        before = np.repeat(total[starts] - terms[starts], lengths)
        chain[:, lane] = total - before
        opened[:, lane] = chain[:, lane] - terms + asked[:, lane] * powers[nth + 1]
    return chain, opened
