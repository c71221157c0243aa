"""Continual pre-training rows: whole episodes, loss on observations only.

Source: Qwen-AgentWorld report, section 3.2; the system prompt is variant v1. The loss lies on
observations; turns of little information stay as context. Their categories are found by the stage
`transitions`, and `loss_spans` draws what of them bears loss.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import polars as pl

from trajkit import trainers
from trajkit.builders.cpt_rows import COLUMNS, Rows, tokenizer_of
from trajkit.builders.examples import episode_blocks, write_trainer_files
from trajkit.builders.history import HISTORIES, windows
from trajkit.builders.layouts import answered_steps
from trajkit.builders.loss_spans import KeepRules, keep_rules
from trajkit.builders.mix import single_turns
from trajkit.builders.packed import PACKINGS
from trajkit.builders.splits import Splits
from trajkit.errors import TrajkitError, alternatives
from trajkit.inputs import InputFile, list_inputs
from trajkit.parallel import Workers, rare_collections
from trajkit.progress import Progress
from trajkit.report import Report, under
from trajkit.store import Store, StoreWriter, inputs_of, iterate_parts, open_writer
from trajkit.tables import file_sha256
from trajkit.trainers import Kind, Trainer

MIX_PART_CHARS = 32 << 20
_TOKEN_OPTIONS = ("tokenizer", "fast_tokenizer", "max_tokens", "packing")
_STEPS = ("observation", "action", "turn")
_EPISODES = (
    *("trajectory_id", "content_hash", "domain", "source", "task", "action_space"),
    *("initial_state", "simulation_instruction"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Splits):
    """What a person may decide about the rows; part of the manifest."""

    layout: Kind = "text"
    """`text` (with loss spans), `messages` (with a flag each) or `tokens` (with labels)."""
    trainer: str | None = None
    """Whose flags the `messages` layout has (null: swift), and whose files stand beside rows."""
    keep: Mapping[str, float] = field(default_factory=dict)
    """Share of each category that bears loss; what is not named is as `transitions` was told."""
    keep_by: str = "turn"
    """Whether a share is of `turn`s or of the text of each turn (`token`)."""
    seed: int | None = None
    """Seed of the draw; null means that of `transitions`."""
    masks: bool = True
    """Without them every target bears loss, whatever its category."""
    history: str = "full"
    """`full`, or `window`: one row for each window of the agent's own context, where a log tells
    that it was cut."""
    tokenizer: str = "embedded"
    """Tokens: which tokenizer, `embedded` or a place on this machine."""
    fast_tokenizer: bool = False
    """Tokens: whether a faster implementation may make the ids."""
    max_tokens: int = 8192
    """Tokens: length of a window; longer documents are cut."""
    packing: str = "best-fit"
    """Tokens: `best-fit` puts several documents into a window, `none` one."""
    jsonl: bool = False
    """Whether JSON lines are written beside the Parquet files."""


def build_cpt(
    store: str | Path,
    out: str | Path,
    *,
    options: Options | None = None,
    mix: Sequence[str | Path] = (),
    workers: int = 1,
    overwrite: bool = False,
    quiet: bool = False,
) -> Report:
    """Return the report of writing the episodes that have something to learn.

    One row an episode, with the layout `tokens` one row a window of tokens. An episode with no
    observation in the loss is dropped as `no_loss`: such rows train in silence at zero loss. With
    the history `window` each window of the agent's context counts as an episode, and the row's
    `step_index` is the step it begins with. `mix` names files
    of single-turn text that get rows too, after the episodes. `loss` in the report counts what of
    the written episodes bears loss and what is masked, by domain and category; `not_target` are
    observations that may never bear loss. Holds a row group at a time in each of `workers`.

    Raises TrajkitError for options that do not go together or a store without transitions.
    """
    options = options or Options()
    trainer = _checked(options)
    source = Store(store).require("trajectories", "steps", "transitions")
    rules = keep_rules(
        source, keep=options.keep, by=options.keep_by, seed=options.seed, masks=options.masks
    )
    files = list_inputs(tuple(map(str, mix))) if mix else []
    report = Report("build-cpt", out)
    writer = open_writer(
        out,
        kind="examples",
        stage="build-cpt",
        options=_written(options, rules, files),
        inputs=inputs_of(source)
        + [
            {"name": Path(file.origin_path).name, "sha256": file_sha256(file.path)}
            for file in files
        ],
        overwrite=overwrite,
    )
    parts = list(iterate_parts(source, writer))
    with (
        Progress("build-cpt", len(parts), "parts", quiet=quiet) as progress,
        Workers(workers) as pool,
        rare_collections(),
    ):
        calls = [(source.path, part, writer, options, rules) for part in parts]
        for part, counts in zip(parts, pool.each(_build_part, calls), strict=True):
            writer.mark(part, counts)
            progress.advance()
    if files:
        _build_mix(files, len(source.parts()), writer, options)
    totals = writer.counts
    report.read, report.kept = totals["read"], totals["kept"]
    report.dropped = under(totals, "dropped")
    splits = under(totals, "split")
    report.written = sum(splits.values())
    report.extra |= {"splits": splits, "chars": totals["chars"]}
    report.extra["chars_in_loss"] = totals["loss_chars"]
    report.extra["control_tokens_escaped"] = totals["control_tokens"]
    if options.layout == "tokens":
        report.extra |= _of_windows(totals, options)
    report.extra["loss"] = _by_category(totals)
    if trainer is not None:
        report.extra["trainer_files"] = write_trainer_files(
            writer, trainer, options.layout, tuple(splits)
        )
    return report.finish(writer)


def _checked(options: Options) -> Trainer | None:
    """Return the trainer whose rows or files are wanted, after looking at the options."""
    if options.layout not in COLUMNS:
        raise TrajkitError(
            "--layout", f"no layout {options.layout!r}", f"one of {alternatives(COLUMNS)}"
        )
    if options.history not in HISTORIES:
        raise TrajkitError(
            "--history", f"no kind {options.history!r}", f"one of {alternatives(HISTORIES)}"
        )
    if options.packing not in PACKINGS:
        raise TrajkitError(
            "--packing", f"no packing {options.packing!r}", f"one of {alternatives(PACKINGS)}"
        )
    if options.max_tokens < 2:
        raise TrajkitError(
            "--max-tokens", f"{options.max_tokens} leave nothing to predict", "8192 is the default"
        )
    if options.trainer is None and options.layout != "messages":
        return None
    trainer = trainers.load(options.trainer or "swift")
    if options.layout not in trainer.layouts:
        able = [name for name in trainers.NAMES if options.layout in trainers.load(name).layouts]
        raise TrajkitError(
            "--trainer",
            f"{trainer.title} reads no rows of the layout {options.layout}",
            f"one of {alternatives(able)}",
        )
    if options.layout == "messages" and options.keep_by == "token":
        raise TrajkitError(
            "--keep-by", "a message bears loss wholly or not at all", "try --layout text or tokens"
        )
    return trainer


def _written(options: Options, rules: KeepRules, files: Sequence[InputFile]) -> dict[str, Any]:
    """Return the options for the manifest: what decides the rows, and no place of this machine."""
    written = asdict(options) | {"keep": dict(rules.ratios), "seed": rules.seed}
    if options.layout == "tokens":
        written["tokenizer"] = tokenizer_of(options.tokenizer, options.fast_tokenizer).name
    else:
        written = {name: value for name, value in written.items() if name not in _TOKEN_OPTIONS}
    return written | ({"mix": [Path(file.origin_path).name for file in files]} if files else {})


def _build_part(
    store: Path, part: str, writer: StoreWriter, options: Options, rules: KeepRules
) -> Counter[str]:
    """Return the counts of one part after writing it."""
    rows = Rows(writer, options)
    by_window = options.history == "window"
    columns = (*_EPISODES, "meta") if by_window else _EPISODES
    for episodes, steps in episode_blocks(Store(store), part, _STEPS, columns):
        if by_window:
            episodes, steps = _windows(episodes, steps)
        shares = rules.with_shares(
            steps.with_columns(
                content_hash=pl.Series([episode["content_hash"] for episode in episodes]).gather(
                    steps["episode"]
                ),
                counted_as=pl.when("target").then("category").otherwise(pl.lit("not_target")),
            )
        )
        chosen = _chosen(episodes, shares, options, rows.counts)
        for split, numbers in sorted(chosen.items()):
            rows.add_block(
                split,
                [episodes[number] for number in numbers],
                shares.filter(pl.col("episode").is_in(numbers)).pipe(answered_steps),
                rules.seed,
            )
    return rows.write(part)


def _windows(
    episodes: Sequence[dict[str, Any]], steps: pl.DataFrame
) -> tuple[list[dict[str, Any]], pl.DataFrame]:
    """Return each window of an agent's context as an episode, with the step it begins with."""
    found: list[dict[str, Any]] = []
    numbers: list[int] = []
    for episode, n_steps in zip(episodes, steps["episode"].rle().struct.field("len"), strict=True):
        own = windows(episode, n_steps)
        for window in own:
            numbers += [len(found)] * len(window)
            found.append(episode | {"first_step": window.start if len(own) > 1 else None})
    return found, steps.with_columns(episode=pl.Series(numbers, dtype=pl.UInt32))


def _chosen(
    episodes: Sequence[dict[str, Any]], steps: pl.DataFrame, options: Options, counts: Counter[str]
) -> dict[str, list[int]]:
    """Return the places of the episodes to write by split; these get their `split_group`."""
    facts = steps.group_by("episode", maintain_order=True).agg(
        pl.col("split_group").first(), bears_loss=(pl.col("share") > 0).any()
    )
    chosen: dict[str, list[int]] = {}
    for number, group, bears_loss in facts.iter_rows():
        split = options.side(group)
        counts["read"] += 1
        if split is None:
            counts["dropped.other_pool"] += 1
        elif not bears_loss:
            counts["dropped.no_loss"] += 1
        else:
            chosen.setdefault(split, []).append(number)
            episodes[number]["split_group"] = group
    return chosen


def _build_mix(
    files: Sequence[InputFile], n_parts: int, writer: StoreWriter, options: Options
) -> None:
    """Write single-turn rows as further parts, each of some tens of megabytes."""
    rows = Rows(writer, options)
    # What is done already is read again: which texts are new depends on all before.
    found = single_turns(files, writer.marks / "mix.seen", rows.counts)
    for number in count(n_parts):
        part = f"part-{number:05d}"
        is_done = writer.done(part)
        n_chars = 0
        row = None
        for row in found:
            n_chars += rows.add_single(row, write=not is_done)
            if n_chars >= MIX_PART_CHARS:
                break
        counts = rows.write(part)
        if not is_done:
            writer.mark(part, counts)
        if row is None:
            return


def _of_windows(totals: Mapping[str, int], options: Options) -> dict[str, Any]:
    """Return what a report says of token rows."""
    names = ("tokens", "loss_tokens", "cut_documents", "windows_without_loss", "replaced_bytes")
    room = totals["rows"] * options.max_tokens
    return {name: totals[name] for name in names} | {
        "filled": round(totals["tokens"] / max(1, room), 4)
    }


def _by_category(totals: Mapping[str, int]) -> dict[str, Any]:
    """Return counts `loss.DOMAIN.CATEGORY.SIDE.UNIT` as nested mappings."""
    nested: dict[str, Any] = {}
    for name, n in under(totals, "loss").items():
        *path, unit = name.split(".")
        inner = nested
        for step in path:
            inner = inner.setdefault(step, {})
        inner[unit] = n
    return nested
