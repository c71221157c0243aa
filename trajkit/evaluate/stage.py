"""The stage: ask, score, measure, write, and hold the result against its bounds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from trajkit import schema
from trajkit.errors import TrajkitError
from trajkit.evaluate.answers import LAID_OUT, RULES, Outcome, ask, ask_judge, survey
from trajkit.evaluate.baseline import compare, load_baseline
from trajkit.evaluate.bounds import check_bounds, parse_bounds, refuse_broken
from trajkit.evaluate.page import page
from trajkit.evaluate.questions import Bench, open_bench
from trajkit.evaluate.results import (
    PUBLISHED,
    PUBLISHED_JUDGE,
    agreement,
    counted,
    measures,
    rows_table,
)
from trajkit.judges import Judge
from trajkit.model import DOMAINS, Reject
from trajkit.progress import Progress
from trajkit.report import Report
from trajkit.store import AlreadyDoneError, open_writer
from trajkit.tables import file_sha256, rejects_table, write_atomically, write_table
from trajkit.worldmodel import (
    CachedWorldModel,
    EngineOptions,
    Sampling,
    WorldModel,
    is_embedded,
    open_world_model,
)

NO_JUDGE = "none"
RECORDINGS = "recordings"
"""Folder of everything that was ever answered; it outlives `--overwrite`."""
MAX_TOKENS, MAX_JUDGE_TOKENS = 32_768, 4_096
EMBEDDED_TOKENS, EMBEDDED_JUDGE_TOKENS = 512, 480
"""What leaves room for a prompt in the embedded model, and is enough for the form it is held to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a person may decide about an evaluation; part of the manifest."""

    world_model: str | None = None
    """SPEC of the world model; it must be given."""
    judges: tuple[str, ...] = ()
    """SPECs of the judges; none, or `none`, leaves it at the rules. The first one's scores count
    for bounds and baseline."""
    per_domain: int | None = None
    """At most this many questions a domain, drawn by content; null means all."""
    max_tokens: int | None = None
    """Longest answer, thoughts included; null means 32,768, for `embedded` 512."""
    max_judge_tokens: int | None = None
    """Longest verdict; null means 4,096, for `embedded` 480."""
    judge_tries: int = 3
    """How often a judge is asked for one verdict."""
    temperature: float = 0.6
    """Sampling temperature of the world model."""
    top_p: float = 0.95
    """Nucleus of the world model."""
    seed: int = 0
    """Seed of draws and sampling."""
    gate: str | None = None
    """Bounds such as `min_overall=55,min_factuality=50`."""
    baseline: str | None = None
    """The `results.json` of an earlier evaluation."""


def evaluate(
    bench: str | Path,
    out: str | Path,
    *,
    options: Options | None = None,
    engine: EngineOptions | None = None,
    overwrite: bool = False,
    quiet: bool = False,
) -> Report:
    """Return the report of scoring a world model on a benchmark.

    `kept` are questions that got an observation, `dropped` those that got none and rows that are
    no question. Written are `results.json`, `rows.parquet` (one row a question), `report.html`,
    and what models said under `recordings`: a killed run goes on where it was, and a further judge
    makes the world model answer nothing again. Predictions are held in memory, questions are not.

    Raises TrajkitError for unknown options or a folder that is no benchmark, before anything is
    asked; and for a bound that does not hold, after everything is written.
    """
    options = options or Options()
    if options.world_model is None:
        hint = "try --world-model embedded, or http://127.0.0.1:8000/v1#MODEL"
        raise TrajkitError("--world-model", "no world model is given", hint)
    bounds = parse_bounds(options.gate)
    questions = open_bench(bench)
    judges = _open_judges(options, engine)
    model = open_world_model(options.world_model, engine)
    scorers = (RULES, *judges)
    scored_by = scorers[1] if judges else RULES
    baseline = None if options.baseline is None else load_baseline(options.baseline, scored_by)
    report = Report("eval", out)
    try:
        writer = open_writer(
            out,
            kind="evaluation",
            stage="eval",
            options=_written(options, model, judges),
            inputs=questions.inputs + _baseline_input(options.baseline),
            overwrite=overwrite,
        )
    except AlreadyDoneError:
        # A bound that broke must not pass because it is looked at twice.
        done = orjson.loads((Path(out) / "results.json").read_bytes())
        refuse_broken(done["bounds"], str(out), scored_by)
        raise
    rejects: list[Reject] = []
    outcomes = survey(options.per_domain, questions.read(rejects))
    if not outcomes:
        raise TrajkitError(str(bench), "asks nothing: no row or target", "see rejects in the store")
    sampling = Sampling(
        temperature=options.temperature,
        top_p=options.top_p,
        max_tokens=_room(model, options.max_tokens, EMBEDDED_TOKENS, MAX_TOKENS),
        seed=options.seed,
    )
    by_key = {one.key: one for one in outcomes}
    judge_tokens = {}
    engines: dict[str, str | None] = {}
    with _cached(model, writer.path, "world_model", len(outcomes), quiet) as (cached, on_done):
        laid_out = LAID_OUT if is_embedded(model) else None
        ask(questions, cached, by_key, sampling=sampling, pattern=laid_out, on_done=on_done)
        engines[model.name] = cached.engine
    n_answered = sum(one.failure is None for one in outcomes)
    for name, judge_model in judges.items():
        slug = re.sub(r"[^A-Za-z0-9.]+", "-", f"judge-{name}")
        with _cached(judge_model, writer.path, slug, n_answered, quiet) as (cached, on_done):
            judge = Judge(
                cached,
                max_tokens=_room(
                    judge_model, options.max_judge_tokens, EMBEDDED_JUDGE_TOKENS, MAX_JUDGE_TOKENS
                ),
                max_tries=options.judge_tries,
                seed=options.seed,
            )
            judge_tokens[name] = ask_judge(questions, judge, by_key, on_done=on_done)
            engines[name] = cached.engine
    measured = measures(outcomes, scorers)
    document: dict[str, Any] = {
        "schema_version": "1",
        "bench": {
            "name": questions.name,
            "kind": questions.kind,
            "inputs": questions.inputs,
            "questions": len(outcomes),
            "trajectories": len({(one.domain, one.trajectory) for one in outcomes}),
        },
        "world_model": {"name": model.name, "engine": engines[model.name]},
        "sampling": asdict(sampling),
        "judges": [{"name": name, "engine": engines[name]} for name in judges],
        "scored_by": scored_by,
        "answered": n_answered,
        "failures": counted(one.failure for one in outcomes),
        "unscored": {name: counted(one.unscored.get(name) for one in outcomes) for name in judges},
        "turns_left_out": sum(one.turns_left_out for one in outcomes),
        "tokens": sum(one.n_tokens for one in outcomes),
        "judge_tokens": judge_tokens,
        "measures": measured,
        "agreement": agreement(outcomes, scorers),
        "published": [
            {"model": name, "judge": PUBLISHED_JUDGE, "overall": score} for name, score in PUBLISHED
        ],
        "bounds": check_bounds(bounds, measured, scored_by),
        "baseline": None,
    }
    if baseline is not None and options.baseline is not None:
        moved = compare(options.baseline, baseline, outcomes, measured, scored_by)
        document["baseline"] = moved
    _write(writer.path, document, outcomes, list(judges), questions, rejects)
    report.read = len(outcomes) + len(rejects)
    report.kept = report.written = n_answered
    report.dropped = dict(document["failures"])
    for reject in rejects:
        report.dropped[reject.reason] = report.dropped.get(reject.reason, 0) + 1
    report.extra |= _summary(document)
    report.finish(writer)
    refuse_broken(document["bounds"], str(out), scored_by)
    return report


def _open_judges(options: Options, engine: EngineOptions | None) -> dict[str, WorldModel]:
    """Return each judge by its name, in the order given."""
    judges: dict[str, WorldModel] = {}
    specs = [spec for spec in options.judges if spec != NO_JUDGE]
    if len(specs) < len(options.judges) and specs:
        raise TrajkitError("--judge", "none stands beside others", "leave none out")
    for spec in specs:
        judge = open_world_model(spec, engine)
        if judge.name in judges or judge.name == RULES:
            raise TrajkitError("--judge", f"{judge.name} is given twice", "give each judge once")
        judges[judge.name] = judge
    return judges


@contextmanager
def _cached(
    model: WorldModel, folder: Path, name: str, total: int, quiet: bool
) -> Iterator[tuple[CachedWorldModel, Callable[[], None]]]:
    """Give a model that records what it says, and what to call for each answer; then close it."""
    cached = CachedWorldModel(model, folder / RECORDINGS / f"{name}.jsonl")
    try:
        with Progress(f"eval {model.name}", total, "answers", quiet=quiet) as progress:
            yield cached, progress.advance
    finally:
        cached.close()


def _room(model: WorldModel, chosen: int | None, embedded: int, usual: int) -> int:
    """Return how many tokens an answer of a model may have."""
    return chosen or (embedded if is_embedded(model) else usual)


def _written(
    options: Options, model: WorldModel, judges: Mapping[str, WorldModel]
) -> dict[str, Any]:
    """Return what a manifest holds of the options: models and files by name, no host, no path."""
    baseline = None if options.baseline is None else Path(options.baseline).name
    named = {"world_model": model.name, "judges": list(judges), "baseline": baseline}
    return asdict(options) | named


def _baseline_input(path: str | None) -> list[dict[str, str]]:
    return [] if path is None else [{"name": Path(path).name, "sha256": file_sha256(Path(path))}]


def _write(
    folder: Path,
    document: Mapping[str, Any],
    outcomes: Sequence[Outcome],
    judges: Sequence[str],
    bench: Bench,
    rejects: Sequence[Reject],
) -> None:
    if not schema.is_valid("evaluation", document):
        raise AssertionError(f"results do not fit: {schema.explain('evaluation', document)}")
    text = orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n"
    write_atomically(folder / "results.json", text)
    write_table(folder / "rows.parquet", rows_table(outcomes, judges))
    if rejects:
        write_table(folder / "rejects.parquet", rejects_table(rejects))
    html = page(document, outcomes, bench)
    write_atomically(folder / "report.html", html.encode("utf-8", "replace"))


def _summary(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the printed report shows of the results; `-` stands for no score."""
    scorer = document["scored_by"]
    own = [row for row in document["measures"] if row["scorer"] == scorer]

    def shown(row: Mapping[str, Any]) -> str:
        if row["score"] is None:
            return "-"
        interval = "" if row["low"] is None else f" [{row['low']:.2f}, {row['high']:.2f}]"
        return f"{row['score']:.2f}{interval}"

    overall = {row["domain"]: row for row in own if row["axis"] == "overall"}
    answered = overall["macro"]["answered_score"]
    return {
        "world_model": document["world_model"]["name"],
        "scored_by": scorer,
        "overall": shown(overall["macro"]),
        "overall_without_failures": "-" if answered is None else f"{answered:.2f}",
        "overall_micro": shown(overall["micro"]),
        "accepted": overall["micro"]["accepted"],
        "by_domain": {name: shown(overall[name]) for name in DOMAINS},
        "by_axis": {
            row["axis"]: shown(row)
            for row in own
            if row["domain"] == "macro" and row["axis"] != "overall"
        },
        "unscored": {name: found for name, found in document["unscored"].items() if found},
        "turns_left_out": document["turns_left_out"],
        "tokens": document["tokens"],
    }
