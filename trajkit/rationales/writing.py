"""Write rationales for queries with the models that a person named."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trajkit.errors import TrajkitError, alternatives
from trajkit.fidelity.thresholds import read_thresholds
from trajkit.judges import Judge
from trajkit.rationales.gain import summary, with_gains
from trajkit.rationales.hindsight import Hindsight
from trajkit.rationales.queries import Answered, Calls, Query
from trajkit.rationales.rollout import MIN_SCORE, Rollouts
from trajkit.report import Report, under
from trajkit.worldmodel import (
    CachedWorldModel,
    EngineOptions,
    Sampling,
    WorldModel,
    is_embedded,
    open_world_model,
)

KINDS = ("none", "rollout", "hindsight")
TARGETS = ("recorded", "predicted")
MAX_TOKENS, EMBEDDED_TOKENS = 4_096, 300
COMPLETIONS = "completions.jsonl"
JUDGEMENTS = "judgements.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a person may decide about the rationales."""

    rationale: str = "none"
    """`none`, `rollout` or `hindsight`; the latter two with a world model."""
    world_model: str | None = None
    """SPEC of the world model; in the manifest by its name alone."""
    judge: str | None = None
    """SPEC of a model that scores and compares accepted rollouts; by its name alone too."""
    n_rollouts: int = 3
    """Answers asked for each query; with hindsight, tries at most."""
    min_score: float = MIN_SCORE
    """Least mean of the judge's five axes, 1 to 5."""
    thresholds: str | None = None
    """File of the gate's least scores, in place of the shipped ones; its values are written down,
    not its name."""
    target: str = "recorded"
    """`recorded`, or `predicted`: the accepted rollout's own answer is what the row teaches."""
    gain: bool = False
    """Whether each rationale's gain is measured."""
    min_gain: float | None = None
    """Least gain over no rationale, in nats per token; measures it."""
    max_tokens: int | None = None
    """Longest answer of world model and judge, thoughts included; null means 4,096, and 300 for
    the embedded model, which has little room."""
    temperature: float = 0.6
    """Sampling temperature; the report's value."""
    seed: int = 0
    """Seed of draws and sampling."""


class Rationales:
    """The models that a person named, at work; use it as a context manager."""

    def __init__(self, options: Options, engine: EngineOptions | None = None) -> None:
        """Open the models; no engine starts yet.

        Raises TrajkitError for options that do not go together.
        """
        _check(options)
        self._thresholds = read_thresholds(options.thresholds)
        self.written: dict[str, Any] = {
            "world_model": None,
            "judge": None,
            "thresholds": None if options.thresholds is None else self._thresholds,
        }
        """What a manifest holds of the options that are no plain values: models by their names."""
        self._options = options
        self._counts: Counter[str] = Counter()
        self._maker: Rollouts | Hindsight | None = None
        self._models: dict[str, WorldModel] = {}
        self._on_done: Callable[[], None] = lambda: None
        for place, spec in (("world_model", options.world_model), ("judge", options.judge)):
            if spec is not None:
                if spec not in self._models:
                    self._models[spec] = open_world_model(spec, engine)
                self.written[place] = self._models[spec].name

    def __enter__(self) -> Rationales:
        return self

    def __exit__(self, *_: object) -> None:
        for model in self._models.values():
            model.close()

    def start(self, folder: Path, on_done: Callable[[], None]) -> None:
        """Record everything in a folder from now on; `on_done` is called for each query."""
        self._on_done = on_done
        options = self._options
        if options.world_model is None:
            return
        for spec, name in ((options.world_model, COMPLETIONS), (options.judge, JUDGEMENTS)):
            # A judge that is the world model itself shares its engine and its recording.
            if spec is not None and not isinstance(self._models[spec], CachedWorldModel):
                self._models[spec] = CachedWorldModel(self._models[spec], folder / name)
        model = self._models[options.world_model]
        calls = Calls(
            model=model,
            sampling=Sampling(
                temperature=options.temperature, max_tokens=self._room(model), seed=options.seed
            ),
            on_done=on_done,
            counts=self._counts,
        )
        laid_out = is_embedded(model)
        if options.rationale == "hindsight":
            self._maker = Hindsight(calls=calls, n_tries=options.n_rollouts, laid_out=laid_out)
            return
        judge = None
        if options.judge is not None:
            judge_model = self._models[options.judge]
            judge = Judge(judge_model, max_tokens=self._room(judge_model))
        self._maker = Rollouts(
            calls=calls,
            n_rollouts=options.n_rollouts,
            laid_out=laid_out,
            judge=judge,
            min_score=options.min_score,
            thresholds=self._thresholds,
        )

    def _room(self, model: WorldModel) -> int:
        """Return how many tokens an answer of a model may have."""
        return self._options.max_tokens or (EMBEDDED_TOKENS if is_embedded(model) else MAX_TOKENS)

    def answer(self, queries: Iterable[Query]) -> list[Answered]:
        """Return every query with its rationale or the reason why there is none, in order."""
        if self._maker is None:
            answers = []
            for query in queries:
                answers.append(Answered(query=query, best=None, reason=None))
                self._on_done()
            return answers
        started = time.monotonic()
        answers = self._maker.answer(queries)
        if self._options.gain or self._options.min_gain is not None:
            answers = with_gains(self._maker.calls.model, answers, self._counts)
            answers = [self._gaining(answered) for answered in answers]
        self._counts["milliseconds"] += round(1000 * (time.monotonic() - started))
        return answers

    def _gaining(self, answered: Answered) -> Answered:
        least = self._options.min_gain
        gain = answered.best.gain if answered.best is not None else None
        if least is None or gain is None:
            return answered
        if gain.over_none is None:
            return replace(answered, reason=f"gain_{gain.failure}")
        return answered if gain.over_none >= least else replace(answered, reason="no_gain")

    def take_counts(self) -> Counter[str]:
        """Return what was counted since the last time."""
        counts = Counter(self._counts)
        self._counts.clear()
        return counts

    def describe(self, report: Report, counts: Mapping[str, int]) -> None:
        """Put the account of the calls into a report."""
        if self._maker is None:
            return
        report.extra["world_model"] = self.written["world_model"]
        report.extra["calls"] = under(counts, "calls")
        report.extra["tokens"] = counts["tokens"]
        if self.written["judge"] is not None:
            said: dict[str, Any] = {
                "model": self.written["judge"],
                "tokens": counts["judge_tokens"],
            }
            report.extra["judge"] = said | under(counts, "judge")
        if gains := summary(counts):
            report.extra["gain_nats_per_token"] = gains
        n_tokens = counts["tokens"] + counts["judge_tokens"]
        report.extra["tokens_per_kept_row"] = round(n_tokens / max(1, report.kept), 1)


def _check(options: Options) -> None:
    for name, value, known in (
        ("--rationale", options.rationale, KINDS),
        ("--target", options.target, TARGETS),
    ):
        if value not in known:
            raise TrajkitError(name, f"no kind {value!r}", f"one of {alternatives(known)}")
    if options.n_rollouts < 1:
        raise TrajkitError("--rollouts", f"{options.n_rollouts} is under 1", "3 is the default")
    if options.rationale != "none" and options.world_model is None:
        raise TrajkitError(
            "--world-model",
            f"--rationale {options.rationale} needs a world model",
            "try --world-model embedded, or http://127.0.0.1:8000/v1#MODEL",
        )
    for name, given, kinds in (
        ("--judge", options.judge is not None, ("rollout",)),
        ("--thresholds", options.thresholds is not None, ("rollout",)),
        ("--target predicted", options.target == "predicted", ("rollout",)),
        ("--gain", options.gain, ("rollout", "hindsight")),
        ("--min-gain", options.min_gain is not None, ("rollout", "hindsight")),
        ("--world-model", options.world_model is not None, ("rollout", "hindsight")),
    ):
        if given and options.rationale not in kinds:
            raise TrajkitError(
                name,
                f"means nothing with --rationale {options.rationale}",
                f"give --rationale {' or '.join(kinds)}",
            )
    if not 1 <= options.min_score <= 5:
        raise TrajkitError(
            "--min-score", f"{options.min_score} is outside 1 to 5", f"{MIN_SCORE} is the default"
        )
