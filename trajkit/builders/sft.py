"""Supervised fine-tuning rows: one transition a row, with a rationale or without.

The rationale is written by a world model (`trajkit.rationales`); the recorded observation is what
the row teaches, unless `target` says otherwise.

Source: Qwen-AgentWorld report, section 3.3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pyarrow as pa

from trajkit.builders import render
from trajkit.builders.examples import (
    MESSAGE,
    ExampleWriter,
    episodes,
    example_schema,
    shared_values,
)
from trajkit.control_tokens import escape
from trajkit.domains import load as load_domain
from trajkit.domains.base import ANSWER_CLOSE, ANSWER_OPEN, ASK
from trajkit.fidelity.check import AXES, case, verdict_row
from trajkit.progress import Progress
from trajkit.rationales import writing
from trajkit.rationales.queries import Answered, Candidate, Query
from trajkit.report import Report, under
from trajkit.store import Store, StoreWriter, inputs_of, iterate_parts, open_writer
from trajkit.tables import TABLES, write_atomically
from trajkit.transitions import uniform_draws
from trajkit.worldmodel import EngineOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(writing.Options):
    """What a person may decide about the rows; part of the manifest."""

    per_domain: int | None = None
    """At most about this many targets a domain, drawn by content; null means all."""
    max_prompt_chars: int = 200_000
    """Longest prompt; the oldest whole turns are left out until it fits. One that is still too
    long for the world model loses more of them."""
    validation: float = 0.05
    """Share of groups that goes to validation."""
    jsonl: bool = False
    """Whether JSON lines are written beside the Parquet files."""


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

    What the models say is kept in `completions.jsonl` (and `judgements.jsonl`) as it comes, so a
    killed run goes on where it was and a finished one can be replayed. With rollouts,
    `verdicts.parquet` and `predictions.jsonl` hold the best candidate of every query, accepted or
    not. `engine` says how the models run; it is no part of the manifest.

    Raises TrajkitError for options that do not go together or a store without transitions.
    """
    options = options or Options()
    if isinstance(engine, Mapping):
        engine = EngineOptions(**engine)
    source = Store(store).require("trajectories", "steps", "transitions")
    report = Report("build-sft", out)
    with writing.Rationales(options, engine) as rationales:
        writer = open_writer(
            out,
            kind="examples",
            stage="build-sft",
            options=asdict(options) | rationales.written,
            inputs=inputs_of(source),
            overwrite=overwrite,
        )
        examples = ExampleWriter(writer, _schema(options), options.validation, options.jsonl)
        chosen = _choose(source, options)
        with Progress("build-sft", chosen.height, "targets", quiet=quiet) as progress:
            rationales.start(writer.path, progress.advance)
            for part in iterate_parts(source, writer):
                counts = _build_part(source, part, writer, chosen, rationales, examples, options)
                writer.mark(part, counts)
    totals = writer.counts
    report.read = totals["read"]
    report.kept = report.written = totals["kept"]
    report.dropped = under(totals, "dropped")
    report.extra["splits"] = under(totals, "split")
    report.extra["turns_left_out"] = totals["turns_left_out"]
    rationales.describe(report, totals)
    report.finish(writer)
    if options.rationale != "none":
        # Not part of the manifest: a replay has the same content and other times.
        seconds = totals["milliseconds"] / 1000 / max(1, report.kept)
        report.extra["seconds_per_kept_row"] = round(seconds, 3)
    return report


def _build_part(
    source: Store,
    part: str,
    writer: StoreWriter,
    chosen: pl.DataFrame,
    rationales: writing.Rationales,
    examples: ExampleWriter,
    options: Options,
) -> Counter[str]:
    """Return the counts of one part after writing it."""
    counts: Counter[str] = Counter()
    targets: dict[str, _Target] = {}

    def queries() -> Iterator[Query]:
        for target in _targets(source, part, chosen, options):
            counts["read"] += 1
            if target.query is None:
                counts["dropped.prompt_too_long"] += 1
                continue
            # The query is with the rationales from here on, which know when it may go.
            targets[target.query.key] = replace(target, query=None)
            yield target.query

    verdicts: list[dict[str, Any]] = []
    for answered in rationales.answer(queries()):
        counts["turns_left_out"] += answered.query.n_left_out
        best = answered.best
        if best is not None and best.verdict is not None:
            verdicts.append(_judged(answered.query, best))
        if answered.reason is None:
            counts["kept"] += 1
            examples.add(_row(targets[answered.query.key], answered, options))
        else:
            counts[f"dropped.{answered.reason}"] += 1
    counts += examples.write(part)
    if options.rationale == "rollout":
        _write_verdicts(writer, part, verdicts)
    counts.update(rationales.take_counts())
    return counts


def _schema(options: Options) -> pa.Schema:
    completion = list(MESSAGE)
    columns = [pa.field("prompt", pa.list_(pa.struct(MESSAGE)))]
    extra = [pa.field("rationale_kind", pa.string())]
    if options.rationale != "none":
        completion.append(pa.field("reasoning_content", pa.large_string()))
    if options.rationale == "rollout":
        scores = [pa.field(axis, pa.float64()) for axis in AXES]
        extra += [pa.field("target_kind", pa.string()), pa.field("fidelity", pa.struct(scores))]
    if options.judge is not None:
        extra.append(pa.field("judge_score", pa.float64()))
    if options.gain or options.min_gain is not None:
        extra += [pa.field("gain_none", pa.float64()), pa.field("gain_other", pa.float64())]
    columns.append(pa.field("completion", pa.list_(pa.struct(completion))))
    return example_schema(*columns, *extra)


def _choose(source: Store, options: Options) -> pl.DataFrame:
    """Return ids of the targets, at most `per_domain` of each domain, drawn by content."""
    frames = []
    for part in source.parts():
        rows = (
            source.read("transitions", part)
            .filter("target")
            .select("trajectory_id", "step_index", "domain")
            .join(
                source.read("trajectories", part).select("trajectory_id", "content_hash"),
                on="trajectory_id",
                maintain_order="left",
            )
        )
        draw = uniform_draws(rows["content_hash"], rows["step_index"], options.seed)
        rows = rows.with_columns(draw=pl.Series(draw, dtype=pl.Float64))
        if options.per_domain is not None:
            # What is not among the smallest of its part cannot be among the smallest of all.
            rows = rows.sort("draw", "trajectory_id", "step_index")
            rows = rows.group_by("domain", maintain_order=True).head(options.per_domain)
        frames.append(rows)
    chosen = pl.concat(frames)
    if options.per_domain is not None:
        chosen = chosen.sort("draw", "trajectory_id", "step_index")
        chosen = chosen.group_by("domain", maintain_order=True).head(options.per_domain)
    return chosen.select("trajectory_id", "step_index")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    episode: Mapping[str, Any]
    split_group: str
    query: Query | None
    """Null when even the last action alone is too long."""


def _targets(source: Store, part: str, chosen: pl.DataFrame, options: Options) -> Iterator[_Target]:
    wanted: dict[str, set[int]] = {}
    for id_, index in chosen.iter_rows():
        wanted.setdefault(id_, set()).add(index)
    for episode, steps in episodes(source, part):
        indices = wanted.get(episode["trajectory_id"])
        if not indices:
            continue
        rendered = render.render(episode, steps, _variant(episode, options.seed))
        for turn in rendered.turns:
            if turn.step_index in indices and turn.target:
                skip = _fit(rendered, turn, options.max_prompt_chars)
                yield _Target(
                    episode=episode,
                    split_group=steps[turn.step_index]["split_group"],
                    query=None if skip is None else _query(episode, steps, rendered, turn, skip),
                )


def _variant(episode: Mapping[str, Any], seed: int) -> str:
    """Return the system-prompt variant of an episode, uniform over v2 and later by content."""
    templates = sorted(load_domain(episode["domain"]).templates)
    later = [name for name in templates if name not in ("v0", "v1")] or ["v0"]
    draw = uniform_draws(
        pl.Series([episode["content_hash"]]), pl.Series([-1], dtype=pl.Int64), seed
    )[0]
    return later[int(draw * len(later))]


def _query(
    episode: Mapping[str, Any],
    steps: Sequence[Mapping[str, Any]],
    rendered: render.Rendered,
    turn: render.Turn,
    skip: int,
) -> Query:
    """Return the query of a turn with that many of the oldest turns left out."""
    n_shown = turn.number - 1 - skip

    def shorter() -> Query | None:
        # A third at a time: few rounds, and little more lost than must be.
        more = skip + -(-n_shown // 3)
        return _query(episode, steps, rendered, turn, more) if n_shown else None

    messages = render.chat(rendered, turn.step_index, skip=skip)
    return Query(
        trajectory_id=episode["trajectory_id"],
        step_index=turn.step_index,
        messages=tuple({"role": m["role"], "content": m["content"]} for m in messages),
        recorded=turn.observation or "",
        case=case(episode, steps, turn.step_index, ""),
        n_left_out=skip,
        shorter=shorter,
    )


def _fit(rendered: render.Rendered, turn: render.Turn, max_chars: int) -> int | None:
    """Return how few of the oldest turns must go for the prompt to fit; null when all are few."""
    sizes = [
        len(past.action) + len(past.observation or "") for past in rendered.turns[: turn.number - 1]
    ]
    base = render.chat(rendered, turn.step_index, skip=turn.number - 1)
    room = max_chars - sum(len(message["content"]) for message in base)
    if room < 0:
        return None
    skip = len(sizes)
    while skip > 0 and sizes[skip - 1] + 100 <= room:
        # Each turn also carries its marks and fences; 100 characters hold them.
        skip -= 1
        room -= sizes[skip] + 100
    return skip


def _row(target: _Target, answered: Answered, options: Options) -> dict[str, Any]:
    query, best = answered.query, answered.best
    truth = query.recorded
    if options.target == "predicted" and best is not None:
        truth = escape(best.prediction or "")[0]
    content = f"{ANSWER_OPEN}\n{truth}\n{ANSWER_CLOSE}"
    completion: dict[str, Any] = {"role": "assistant", "content": content}
    row = shared_values(target.episode, query.step_index, target.split_group)
    row |= {
        "prompt": list(query.asking(ASK)),
        "completion": [completion],
        "rationale_kind": options.rationale,
        "target_kind": options.target,
    }
    if best is not None:
        completion["reasoning_content"] = best.rationale
        row["judge_score"] = best.judge_score
        if best.verdict is not None:
            row["fidelity"] = {axis: getattr(best.verdict, axis) for axis in AXES}
        if best.gain is not None:
            row |= {"gain_none": best.gain.over_none, "gain_other": best.gain.over_other}
    return row


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
