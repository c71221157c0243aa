"""Supervised fine-tuning rows: one transition a row, with a rationale or without.

The rationale is written by a world model (`trajkit.rationales`); the recorded observation is what
the row teaches, unless `target` says otherwise.

Source: Qwen-AgentWorld report, section 3.3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, get_args

import orjson
import pyarrow as pa

from trajkit import trainers
from trajkit.builders import prompts
from trajkit.builders.examples import (
    ExampleWriter,
    episodes,
    example_schema,
    write_trainer_files,
)
from trajkit.builders.prompts import Prompts, Target, answer_of
from trajkit.builders.splits import SPLITS, Splits
from trajkit.builders.targets import Chosen, check_turns, choose_targets
from trajkit.control_tokens import escape
from trajkit.domains.base import ASK
from trajkit.errors import TrajkitError
from trajkit.fidelity.check import AXES, verdict_row
from trajkit.progress import Progress
from trajkit.rationales import writing
from trajkit.rationales.queries import Candidate, Messages, Query
from trajkit.report import Report, under
from trajkit.store import Store, StoreWriter, inputs_of, iterate_parts, open_writer
from trajkit.tables import TABLES, write_atomically
from trajkit.trainers import Message, Role, Trainer
from trajkit.worldmodel import EngineOptions

_ROLES: dict[str, Role] = {role: role for role in get_args(Role)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(writing.Options, prompts.Options, Splits):
    """What a person may decide about the rows; part of the manifest."""

    turns: str = "all"
    """Which targets of an episode get a row: `all`, the `last`, or `sample:N` drawn by content."""
    per_domain: int | None = None
    """At most about this many targets a domain, drawn by content; null means all."""
    trainer: str = "trl"
    """Whose columns the rows have."""
    jsonl: bool = False
    """Whether JSON lines are written beside the Parquet files."""

    def __post_init__(self) -> None:
        Splits.__post_init__(self)
        prompts.Options.__post_init__(self)
        check_turns(self.turns)


def build_sft(
    store: str | Path,
    out: str | Path,
    *,
    options: Options | None = None,
    engine: EngineOptions | Mapping[str, Any] | None = None,
    overwrite: bool = False,
    quiet: bool = False,
) -> Report:
    """Return the report of writing one row for each target that is kept.

    `read` counts all targets of the store; what gets no row is dropped by its reason. What the
    models say is kept in `completions.jsonl` (and `judgements.jsonl`) as it comes, so a killed run
    goes on where it was and a finished one can be replayed. With rollouts, `verdicts.parquet` and
    `predictions.jsonl` hold the best candidate of every query, accepted or not. `engine` says how
    the models run; it is no part of the manifest.

    Without rationales rows are written as they are made; with them, a part's are held.

    Raises TrajkitError for options that do not go together or a store without transitions.
    """
    options = options or Options()
    if isinstance(engine, Mapping):
        engine = EngineOptions(**engine)
    source = Store(store).require("trajectories", "steps", "transitions")
    trainer = trainers.load(options.trainer)
    if trainer.sft is None:
        raise TrajkitError("--trainer", f"{trainer.title} has no fine-tuning rows", "try trl")
    report = Report("build-sft", out)
    with writing.Rationales(options, engine) as rationales:
        maker = Prompts(options, seed=options.seed, room=_room(options))
        writer = open_writer(
            out,
            kind="examples",
            stage="build-sft",
            options=asdict(options) | rationales.written | maker.written,
            inputs=inputs_of(source),
            overwrite=overwrite,
        )
        examples = ExampleWriter(writer, _schema(options, trainer), options, options.jsonl)
        chosen = choose_targets(
            source,
            options,
            turns=options.turns,
            per_domain=options.per_domain,
            seed=options.seed,
        )
        with Progress("build-sft", chosen.n_steps, "targets", quiet=quiet) as progress:
            rationales.start(writer.path, progress.advance)
            job = _Job(
                source=source,
                writer=writer,
                chosen=chosen,
                prompts=maker,
                rationales=rationales,
                examples=examples,
                options=options,
                trainer=trainer,
                on_done=progress.advance,
            )
            for part in iterate_parts(source, writer):
                writer.mark(part, job.build(part))
    totals = writer.counts
    report.read = totals["read"]
    report.kept = report.written = totals["kept"]
    report.dropped = under(totals, "dropped")
    report.extra["splits"] = under(totals, "split")
    report.extra["turns_left_out"] = totals["turns_left_out"]
    report.extra["instructions"] = under(totals, "instructions")
    splits = [split for split in SPLITS if totals[f"split.{split}"]]
    has_reasoning = options.rationale != "none"
    files = write_trainer_files(writer, trainer, "sft", splits, has_reasoning=has_reasoning)
    if files:
        report.extra["trainer_files"] = files
    rationales.describe(report, totals)
    report.finish(writer)
    if options.rationale != "none":
        # Not part of the manifest: a replay has the same content and other times.
        seconds = totals["milliseconds"] / 1000 / max(1, report.kept)
        report.extra["seconds_per_kept_row"] = round(seconds, 3)
    return report


def _room(options: Options) -> int | None:
    """Return how many tokens are kept free for a rationale, null when none is wanted."""
    if options.rationale == "none":
        return None
    usual = writing.EMBEDDED_TOKENS if options.world_model == "embedded" else writing.MAX_TOKENS
    return options.max_tokens or usual


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """All that the parts of one run share."""

    source: Store
    writer: StoreWriter
    chosen: Chosen
    prompts: Prompts
    rationales: writing.Rationales
    examples: ExampleWriter
    options: Options
    trainer: Trainer
    on_done: Callable[[], None]

    def build(self, part: str) -> Counter[str]:
        """Return the counts of one part after writing it."""
        counts: Counter[str] = Counter()
        for reason, n in self.chosen.left_out[part].items():
            if n:
                counts["read"] += n
                counts[f"dropped.{reason}"] += n
        if self.options.rationale == "none":
            for target in self._targets(part, counts):
                self._take(target, target.messages, target.n_left_out, None, counts)
                self.on_done()
        else:
            self._ask(part, counts)
        counts += self.examples.write(part)
        counts.update(self.rationales.take_counts())
        return counts

    def _targets(self, part: str, counts: Counter[str]) -> Iterator[Target]:
        """Give the targets of a part that have a prompt, and count the others."""
        wanted = self.chosen.of(part)
        for episode, steps in episodes(self.source, part):
            indices = wanted.get(episode["trajectory_id"])
            for target in self.prompts.of(episode, steps, indices) if indices else ():
                counts["read"] += 1
                if target.reason is None:
                    yield target
                else:
                    counts[f"dropped.{target.reason}"] += 1
                    self.on_done()

    def _ask(self, part: str, counts: Counter[str]) -> None:
        """Write the rows of a part for which a model finds a rationale."""
        targets: dict[str, Target] = {}

        def queries() -> Iterator[Query]:
            for target in self._targets(part, counts):
                assert target.query is not None
                query = target.query
                # The query is with the rationales from here on, which know when it may go.
                targets[query.key] = replace(target, query=None, messages=())
                yield query

        verdicts: list[dict[str, Any]] = []
        for answered in self.rationales.answer(queries()):
            query, best = answered.query, answered.best
            if best is not None and best.verdict is not None:
                verdicts.append(_judged(query, best))
            if answered.reason is None:
                target = targets[query.key]
                self._take(target, query.messages, query.n_left_out, best, counts)
            else:
                counts[f"dropped.{answered.reason}"] += 1
        if self.options.rationale == "rollout":
            _write_verdicts(self.writer, part, verdicts)

    def _take(
        self,
        target: Target,
        messages: Messages,
        n_left_out: int,
        best: Candidate | None,
        counts: Counter[str],
    ) -> None:
        """Write the row of a target, unless its trainer would cut it."""
        options, trainer = self.options, self.trainer
        truth = target.recorded
        if options.target == "predicted" and best is not None:
            truth = escape(best.prediction or "")[0]
        # A blank rationale would be an empty block, which teaches a model not to think.
        rationale = None if best is None else best.rationale.strip() and best.rationale
        answer = Message(
            role="assistant", content=answer_of(truth), reasoning=rationale or None, loss=True
        )
        reason = self.prompts.fate(messages, answer.content, answer.reasoning)
        if reason is not None:
            counts[f"dropped.{reason}"] += 1
            return
        *history, last = (Message(role=_ROLES[m["role"]], content=m["content"]) for m in messages)
        asked = replace(last, content=f"{last.content}\n\n{ASK}")
        assert trainer.sft is not None
        self.examples.add(
            {
                **target.shared,
                **trainer.sft([*history, asked, answer]),
                "variant": target.variant,
                "instruction_kind": target.instruction_kind,
                "turns_left_out": n_left_out,
                "rationale_kind": options.rationale,
                **_scores(best, options),
            }
        )
        counts["kept"] += 1
        counts["turns_left_out"] += n_left_out
        counts[f"instructions.{target.instruction_kind}"] += 1


def _schema(options: Options, trainer: Trainer) -> pa.Schema:
    extra = [
        pa.field("variant", pa.string()),
        pa.field("instruction_kind", pa.string()),
        pa.field("turns_left_out", pa.int64()),
        pa.field("rationale_kind", pa.string()),
    ]
    if options.rationale == "rollout":
        scores = [pa.field(axis, pa.float64()) for axis in AXES]
        extra += [pa.field("target_kind", pa.string()), pa.field("fidelity", pa.struct(scores))]
    if options.judge is not None:
        extra.append(pa.field("judge_score", pa.float64()))
    if options.gain or options.min_gain is not None:
        extra += [pa.field("gain_none", pa.float64()), pa.field("gain_other", pa.float64())]
    assert trainer.sft_columns is not None
    return example_schema(*trainer.sft_columns(options.rationale != "none"), *extra)


def _scores(best: Candidate | None, options: Options) -> dict[str, Any]:
    """Return the columns that say how good a rationale is."""
    scores: dict[str, Any] = {}
    if best is None:
        return scores
    if best.verdict is not None:
        scores["target_kind"] = options.target
        scores["fidelity"] = {axis: getattr(best.verdict, axis) for axis in AXES}
    if options.judge is not None:
        scores["judge_score"] = best.judge_score
    if best.gain is not None:
        scores |= {"gain_none": best.gain.over_none, "gain_other": best.gain.over_other}
    return scores


def _judged(query: Query, best: Candidate) -> dict[str, Any]:
    assert best.verdict is not None
    row = verdict_row(query.trajectory_id, query.step_index, query.case.domain, best.verdict)
    return row | {"prediction": best.prediction, "rationale": best.rationale}


def _write_verdicts(writer: StoreWriter, part: str, rows: list[dict[str, Any]]) -> None:
    table = pa.Table.from_pylist(
        [{name: row[name] for name in TABLES["verdicts"].names} for row in rows],
        schema=TABLES["verdicts"],
    )
    writer.write("verdicts", part, table)
    names = ("trajectory_id", "step_index", "prediction", "rationale")
    lines = (orjson.dumps({name: row[name] for name in names}) + b"\n" for row in rows)
    folder = writer.path / "predictions"
    folder.mkdir(exist_ok=True)
    write_atomically(folder / f"{part}.jsonl", b"".join(lines))
