"""Prompts for RL: exactly one turn of each trajectory, and what its answers are rewarded by.

Two turns of one trajectory share most of their prompt, which makes training collapse; so a
trajectory gives one. The system prompt is variant v0. The recorded observation and the verifiers
stand in columns of their own, for `trajkit.reward`, and never in the prompt.

With `warm_up` the whole history is one message of the user: single-turn rows without an agent's
roles. The report says that training on such rows first lifts the agent that is trained afterwards,
and does not say more of their form; we take it that they are these very tasks and rewards, told as
one question.

Source: Qwen-AgentWorld report, section 3.4; which turn is taken is our choice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from trajkit import schema, tokens, trainers
from trajkit.builders.examples import ExampleWriter, episodes, example_schema
from trajkit.builders.prompts import MESSAGE_TOKENS
from trajkit.builders.rl_turns import Options, TurnMaker
from trajkit.errors import TrajkitError
from trajkit.inputs import list_inputs
from trajkit.model import DOMAINS
from trajkit.progress import Progress
from trajkit.readers import FileReader
from trajkit.report import Report, under
from trajkit.store import Store, StoreWriter, inputs_of, iterate_parts, open_writer
from trajkit.tables import file_sha256
from trajkit.trainers import Trainer
from trajkit.transitions import uniform_draws

_TRAJECTORY = -1
"""Place of the draw for a whole trajectory, beside those of its steps."""
_LETTERS_AND_BLANKS = bytes([*range(65, 91), *range(97, 123), 32])


def build_rl(
    store: str | Path,
    out: str | Path,
    *,
    options: Options | None = None,
    predictions: Sequence[str] = (),
    overwrite: bool = False,
    quiet: bool = False,
) -> Report:
    """Return the report of writing one row for each trajectory.

    `read` counts trajectories; what gets no row is dropped by its reason. `predictions` are files
    of answers made elsewhere, as `trajkit check` reads them: a verifier is kept only when it says
    of those of its turn what the gate says. They are held in memory, and one part of the store.

    Raises TrajkitError for options that do not go together or a store without transitions.
    """
    options = options or Options()
    source = Store(store).require("trajectories", "steps", "transitions")
    trainer = trainers.load(options.trainer)
    if trainer.rl is None:
        raise TrajkitError("--trainer", f"{trainer.title} has no rows for RL", "try verl or trl")
    report = Report("build-rl", out)
    files = list_inputs(tuple(predictions)) if predictions else []
    rollouts, told = _rollouts(files)
    name, size = _measure(options)
    writer = open_writer(
        out,
        kind="examples",
        stage="build-rl",
        options=asdict(options) | {"tokenizer": name},
        inputs=[
            *inputs_of(source),
            *({"name": file.origin_path, "sha256": file_sha256(file.path)} for file in files),
        ],
        overwrite=overwrite,
    )
    examples = ExampleWriter(writer, _schema(trainer), options, options.jsonl)
    chosen, left_out = _choose(source, options)
    maker = TurnMaker(options, size, rollouts)
    with Progress("build-rl", len(chosen), "trajectories", quiet=quiet) as progress:
        for part in iterate_parts(source, writer):
            counts = Counter(left_out[part])
            for episode, steps in episodes(source, part):
                if episode["trajectory_id"] in chosen:
                    counts["read"] += 1
                    row = maker.row(episode, steps, trainer, counts)
                    if row is not None:
                        examples.add(row)
                        counts["kept"] += 1
                    progress.advance()
            writer.mark(part, counts + examples.write(part))
    _describe(report, writer, told)
    return report.finish(writer)


def _describe(report: Report, writer: StoreWriter, told: Mapping[str, int]) -> None:
    totals = writer.counts
    report.read = totals["read"]
    report.kept = report.written = totals["kept"]
    report.dropped = under(totals, "dropped")
    report.extra["splits"] = under(totals, "split")
    report.extra["instructions"] = under(totals, "instructions")
    report.extra["verifiers"] = under(totals, "verifiers")
    report.extra["by_domain"] = {
        domain: own for domain in DOMAINS if (own := under(totals, f"by_domain.{domain}"))
    }
    report.extra["rows_with_verifiers"] = totals["rows_with_verifiers"]
    report.extra["turns_left_out"] = totals["turns_left_out"]
    if told:
        report.extra["predictions"] = dict(told)
    if report.kept and not totals["rows_with_verifiers"]:
        report.warnings.append("no row has a verifier: all of them need a judge")


def _schema(trainer: Trainer) -> pa.Schema:
    return example_schema(
        *trainer.rl_columns,
        pa.field("instruction_kind", pa.string()),
        pa.field("turns_left_out", pa.int64()),
        pa.field("n_verifiers", pa.int64()),
    )


def _choose(source: Store, options: Options) -> tuple[frozenset[str], dict[str, Counter[str]]]:
    """Return the ids of the trajectories that may get a row, and by part the account of the rest.

    The limit of a domain takes those first in an order that content and seed decide. Holds one row
    for each trajectory.
    """
    left_out: dict[str, Counter[str]] = {}
    frames = []
    for part in source.parts():
        own = source.read("transitions", part, ["trajectory_id", "target", "split_group"])
        own = own.group_by("trajectory_id", maintain_order=True).agg(
            pl.col("target").any(), pl.col("split_group").first()
        )
        rows = source.read("trajectories", part).select("trajectory_id", "content_hash", "domain")
        rows = rows.join(own, on="trajectory_id", how="left", maintain_order="left")
        left_out[part] = Counter()
        sides = [group is not None and options.side(group) for group in rows["split_group"]]
        rows = rows.with_columns(
            reason=pl.when(~pl.col("target").fill_null(value=False))
            .then(pl.lit("no_target"))
            .when(pl.Series([not side for side in sides], dtype=pl.Boolean))
            .then(pl.lit("other_pool")),
            part=pl.lit(part),
        )
        place = pl.Series([_TRAJECTORY] * rows.height, dtype=pl.Int64)
        draw = uniform_draws(rows["content_hash"], place, options.seed)
        frames.append(rows.with_columns(draw=pl.Series(draw, dtype=pl.Float64)))
    rows = pl.concat(frames)
    chosen = rows.filter(pl.col("reason").is_null())
    if options.per_domain is not None:
        ordered = chosen.sort("draw", "trajectory_id").group_by("domain", maintain_order=True)
        chosen = ordered.head(options.per_domain)
    ids = frozenset(chosen["trajectory_id"])
    for id_, part, reason in rows.select("trajectory_id", "part", "reason").iter_rows():
        if id_ not in ids:
            left_out[part]["read"] += 1
            left_out[part][f"dropped.{reason or 'over_domain_limit'}"] += 1
    return ids, left_out


def _measure(options: Options) -> tuple[str | None, Callable[[str], int]]:
    """Return the name of the tokenizer, and what a message takes with what stands around it."""
    if options.tokenizer is None:
        return None, lambda text: estimated_tokens(text) + MESSAGE_TOKENS
    tokenizer = tokens.open_tokenizer(options.tokenizer)
    return tokenizer.name, lambda text: tokenizer.count([text])[0] + MESSAGE_TOKENS


def estimated_tokens(text: str) -> int:
    """Return how many tokens a text has at most, without a tokenizer.

    Two letters or blanks count as one token, and each byte of anything else as one: digits and
    signs stand alone in many vocabularies. Prose has a third of that. A text of random letters may
    have more; a tokenizer counts exactly.

    >>> estimated_tokens("make all"), estimated_tokens("100%")
    (4, 4)
    """
    raw = text.encode("utf-8", "surrogatepass")
    n_other = len(raw.translate(None, _LETTERS_AND_BLANKS))
    return n_other + -(-(len(raw) - n_other) // 2)


def _rollouts(files: Sequence[Any]) -> tuple[dict[tuple[str, int], list[str]], dict[str, int]]:
    """Return predictions by their place, and how many lines were read and how many are none."""
    found: dict[tuple[str, int], list[str]] = {}
    counts: Counter[str] = Counter()
    for file in files:
        reader = FileReader(file)
        for value in reader:
            for document in value.value if isinstance(value.value, list) else [value.value]:
                counts["read"] += 1
                if schema.is_valid("prediction", document):
                    place = document["trajectory_id"], document["step_index"]
                    found.setdefault(place, []).append(document["prediction"])
                else:
                    counts["no_prediction"] += 1
        counts["read"] += len(reader.rejects)
        counts["no_prediction"] += len(reader.rejects)
    return {place: sorted(texts) for place, texts in found.items()}, dict(counts)
