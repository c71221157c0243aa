"""Supervised fine-tuning rows: one transition a row, with a rationale or without.

Source: Qwen-AgentWorld report, section 3.3. With `rationale="rollout"` a world model answers each
query several times without seeing the truth; the fidelity gate judges each answer against the
recorded observation; the rationale of the best accepted one is kept, and the recorded observation
stays the target.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
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
from trajkit.builders.rollout import Answered, Candidate, Query, Rollout, answer
from trajkit.domains import load as load_domain
from trajkit.domains.base import ANSWER_CLOSE, ANSWER_OPEN, ASK
from trajkit.errors import TrajkitError, alternatives
from trajkit.fidelity.check import AXES, case, verdict_row
from trajkit.progress import Progress
from trajkit.report import Report, under
from trajkit.store import Store, StoreWriter, inputs_of, iterate_parts, open_writer
from trajkit.tables import TABLES, write_atomically
from trajkit.transitions import uniform_draws
from trajkit.worldmodel import Sampling, open_world_model
from trajkit.worldmodel.cache import CachedWorldModel

RATIONALES = ("none", "rollout")
COMPLETIONS = "completions.jsonl"
_WINDOW = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a person may decide about the rows; part of the manifest."""

    rationale: str = "none"
    """`none`, or `rollout` with a world model."""
    world_model: str | None = None
    """SPEC of the world model; part of the manifest by name."""
    n_rollouts: int = 3
    """Answers asked for each query."""
    per_domain: int | None = None
    """At most about this many targets a domain, drawn by content; null means all."""
    max_prompt_chars: int = 200_000
    """Longest prompt; the oldest whole turns are left out until it fits."""
    max_tokens: int = 4096
    """Longest answer of the world model."""
    temperature: float = 0.6
    """Sampling temperature; the report's value."""
    seed: int = 0
    """Seed of draws and sampling."""
    validation: float = 0.05
    """Share of groups that goes to validation."""
    jsonl: bool = False
    """Whether JSON lines are written beside the Parquet files."""


def build_sft(
    store: str | Path,
    out: str | Path,
    *,
    options: Options | None = None,
    overwrite: bool = False,
    quiet: bool = False,
) -> Report:
    """Return the report of writing one row for each target that is kept.

    Answers of the world model are kept in `completions.jsonl` as they come, so a killed run goes
    on where it was and a finished one can be replayed. `verdicts.parquet` and `predictions.jsonl`
    hold the best candidate of every query, accepted or not.

    Raises TrajkitError for unknown options, a missing world model or a store without transitions.
    """
    options = options or Options()
    _check(options)
    source = Store(store).require("trajectories", "steps", "transitions")
    report = Report("build-sft", out)
    writer = open_writer(
        out,
        kind="examples",
        stage="build-sft",
        options=asdict(options),
        inputs=inputs_of(source),
        overwrite=overwrite,
    )
    examples = ExampleWriter(writer, _schema(options), options.validation, options.jsonl)
    chosen = _choose(source, options)
    n_each, unit = (
        (1, "targets") if options.rationale == "none" else (options.n_rollouts, "answers")
    )
    with (
        Progress("build-sft", chosen.height * n_each, unit, quiet=quiet) as progress,
        _Answers(writer, options, progress) as answers,
    ):
        for part in iterate_parts(source, writer):
            counts: Counter[str] = Counter()
            verdicts: list[dict[str, Any]] = []
            for window in _windows(_targets(source, part, chosen, options, counts)):
                for target, answered in answers.answer(window):
                    counts["read"] += 1
                    reason = target.reason or answered.reason
                    best = answered.best
                    if best is not None:
                        verdicts.append(_judged(answered.query, best))
                    if reason is None:
                        counts["kept"] += 1
                        examples.add(_row(target, best, options))
                    else:
                        counts[f"dropped.{reason}"] += 1
                    if target.reason is not None or options.rationale == "none":
                        progress.advance(n_each)
            counts += examples.write(part)
            if options.rationale != "none":
                _write_verdicts(writer, part, verdicts)
            writer.mark(part, counts + answers.take_counts())
    totals = writer.counts
    report.read = totals["read"]
    report.kept = report.written = totals["kept"]
    report.dropped = under(totals, "dropped")
    report.extra["splits"] = under(totals, "split")
    report.extra["turns_left_out"] = totals["turns_left_out"]
    if options.rationale != "none":
        report.extra["world_model"] = answers.name
        report.extra["calls"] = under(totals, "calls")
    return report.finish(writer)


def _check(options: Options) -> None:
    if options.rationale not in RATIONALES:
        raise TrajkitError(
            "--rationale", f"no kind {options.rationale!r}", f"one of {alternatives(RATIONALES)}"
        )
    if options.rationale != "none" and options.world_model is None:
        raise TrajkitError(
            "--world-model",
            f"--rationale {options.rationale} needs a world model",
            "try --world-model embedded, or http://127.0.0.1:8000/v1#MODEL",
        )


def _schema(options: Options) -> pa.Schema:
    completion = list(MESSAGE)
    columns = [pa.field("prompt", pa.list_(pa.struct(MESSAGE)))]
    extra = [pa.field("rationale_kind", pa.string())]
    if options.rationale != "none":
        completion.append(pa.field("reasoning_content", pa.large_string()))
        scores = [pa.field(axis, pa.float64()) for axis in AXES]
        extra.append(pa.field("fidelity", pa.struct(scores)))
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
    query: Query
    truth: str
    reason: str | None


def _targets(
    source: Store, part: str, chosen: pl.DataFrame, options: Options, counts: Counter[str]
) -> Iterator[_Target]:
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
                yield _target(episode, steps, rendered, turn, options, counts)


def _variant(episode: Mapping[str, Any], seed: int) -> str:
    """Return the system-prompt variant of an episode, uniform over v2 and later by content."""
    templates = sorted(load_domain(episode["domain"]).templates)
    later = [name for name in templates if name not in ("v0", "v1")] or ["v0"]
    draw = uniform_draws(
        pl.Series([episode["content_hash"]]), pl.Series([-1], dtype=pl.Int64), seed
    )[0]
    return later[int(draw * len(later))]


def _target(
    episode: Mapping[str, Any],
    steps: Sequence[Mapping[str, Any]],
    rendered: render.Rendered,
    turn: render.Turn,
    options: Options,
    counts: Counter[str],
) -> _Target:
    messages, n_left_out = _fit(rendered, turn, options.max_prompt_chars)
    counts["turns_left_out"] += n_left_out
    step = steps[turn.step_index]
    query = Query(
        trajectory_id=episode["trajectory_id"],
        step_index=turn.step_index,
        messages=tuple(messages or ()),
        case=case(episode, steps, turn.step_index, ""),
    )
    return _Target(
        episode=episode,
        split_group=step["split_group"],
        query=query,
        truth=turn.observation or "",
        reason=None if messages else "prompt_too_long",
    )


def _fit(
    rendered: render.Rendered, turn: render.Turn, max_chars: int
) -> tuple[list[dict[str, str]] | None, int]:
    """Return the prompt with as few of the oldest turns left out as fit, and how many those are."""
    sizes = [
        len(past.action) + len(past.observation or "") for past in rendered.turns[: turn.number - 1]
    ]
    base = render.chat(rendered, turn.step_index, skip=turn.number - 1)
    room = max_chars - sum(len(message["content"]) for message in base)
    if room < 0:
        return None, 0
    skip = len(sizes)
    while skip > 0 and sizes[skip - 1] + 100 <= room:
        # Each turn also carries its marks and fences; 100 characters hold them.
        skip -= 1
        room -= sizes[skip] + 100
    messages = render.chat(rendered, turn.step_index, skip=skip)
    return [{"role": m["role"], "content": m["content"]} for m in messages], skip


def _windows(targets: Iterator[_Target]) -> Iterator[list[_Target]]:
    window: list[_Target] = []
    for target in targets:
        window.append(target)
        if len(window) == _WINDOW:
            yield window
            window = []
    if window:
        yield window


def _row(target: _Target, best: Candidate | None, options: Options) -> dict[str, Any]:
    *history, last = target.query.messages
    prompt = [*history, {"role": "user", "content": f"{last['content']}\n\n{ASK}"}]
    content = f"{ANSWER_OPEN}\n{target.truth}\n{ANSWER_CLOSE}"
    completion: dict[str, Any] = {"role": "assistant", "content": content}
    row = shared_values(target.episode, target.query.step_index, target.split_group)
    row |= {"prompt": prompt, "completion": [completion], "rationale_kind": options.rationale}
    if best is not None:
        completion["reasoning_content"] = best.rationale
        verdict = best.verdict
        row["fidelity"] = {axis: getattr(verdict, axis) for axis in AXES}
    return row


def _judged(query: Query, best: Candidate) -> dict[str, Any]:
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


class _Answers:
    """Pairs targets with what the world model said; without one, with nothing."""

    def __init__(self, writer: StoreWriter, options: Options, progress: Progress) -> None:
        self.name: str | None = None
        self._rollout: Rollout | None = None
        self._model: CachedWorldModel | None = None
        if options.rationale == "none" or options.world_model is None:
            return
        inner = open_world_model(options.world_model)
        self.name = inner.name
        self._model = CachedWorldModel(inner, writer.path / COMPLETIONS)
        self._rollout = Rollout(
            model=self._model,
            n_rollouts=options.n_rollouts,
            sampling=Sampling(
                temperature=options.temperature, max_tokens=options.max_tokens, seed=options.seed
            ),
            laid_out=options.world_model == "embedded",
            calls=Counter(),
            on_answer=progress.advance,
        )

    def __enter__(self) -> _Answers:
        return self

    def __exit__(self, *_: object) -> None:
        if self._model is not None:
            self._model.close()

    def answer(self, targets: list[_Target]) -> list[tuple[_Target, Answered]]:
        """Return each target with its answer."""
        if self._rollout is None:
            return [(t, Answered(query=t.query, best=None, reason=None)) for t in targets]
        asked = [target for target in targets if target.reason is None]
        answered = iter(answer(self._rollout, [target.query for target in asked]))
        return [
            (t, Answered(query=t.query, best=None, reason=t.reason) if t.reason else next(answered))
            for t in targets
        ]

    def take_counts(self) -> Counter[str]:
        """Return the calls by outcome since the last time."""
        if self._rollout is None:
            return Counter()
        counts = Counter({f"calls.{name}": n for name, n in self._rollout.calls.items()})
        self._rollout.calls.clear()
        return counts
