"""Ask a world model the questions of a benchmark, score what it says by rules, then by judges.

Every pass reads the benchmark anew, so that no more questions are in memory than are under way;
what stays is one `Outcome` a question, with the prediction.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from trajkit.domains.base import ANSWER_CLOSE, ANSWER_OPEN
from trajkit.evaluate.questions import Bench, Question, n_turns_before, shortened
from trajkit.fidelity.findings import AXES
from trajkit.fidelity.gate import judge as gate
from trajkit.judges import Asked, Judge
from trajkit.judges.judge import HIGHEST, LOWEST
from trajkit.rationales.rollout import read_prediction
from trajkit.worldmodel import Completion, Request, Sampling, WorldModel

RULES = "rules"
"""Name of the scorer that needs no model."""
LAID_OUT = rf"{ANSWER_OPEN}\n[^<>]{{0,400}}\n{ANSWER_CLOSE}"
"""Shape forced on a model too weak to keep it by itself (`embedded`)."""


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What became of one question."""

    key: str
    trajectory: str
    domain: str
    place: str
    turn: int
    turns_left_out: int = 0
    """Oldest turns that did not fit the model."""
    failure: str | None = None
    """Why the world model gave no observation; null when it gave one."""
    prediction: str | None = None
    passed: bool | None = None
    """Whether the gate accepts the prediction."""
    reason: str | None = None
    """The gate's reason not to."""
    n_tokens: int = 0
    """New tokens of the world model, thoughts included."""
    scores: dict[str, Mapping[str, float]] = field(default_factory=dict)
    """0 to 100 for each axis, by scorer."""
    unscored: dict[str, str] = field(default_factory=dict)
    """Why a judge gave no verdict, by scorer; no fault of the world model."""
    remarks: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Strengths and weaknesses that a judge named, by scorer."""

    def score(self, scorer: str, axis: str) -> float | None:
        """Return a score, null when there is none; `overall` is the mean of the axes."""
        scores = self.scores.get(scorer)
        if scores is None:
            return None
        return sum(scores.values()) / len(scores) if axis == "overall" else scores[axis]


def survey(per_domain: int | None, questions: Iterator[Question]) -> list[Outcome]:
    """Return an empty outcome for each question to ask, in the order of the benchmark.

    With `per_domain` only so many of each domain, those first in an order that keys decide.
    """
    outcomes = [
        Outcome(
            key=one.key,
            trajectory=one.trajectory,
            domain=one.domain,
            place=one.place,
            turn=one.turn,
        )
        for one in questions
    ]
    if per_domain is None:
        return outcomes
    chosen: set[str] = set()
    for domain in {one.domain for one in outcomes}:
        keys = [one.key for one in outcomes if one.domain == domain]
        chosen.update(sorted(keys, key=lambda key: _digest("draw", key))[:per_domain])
    return [one for one in outcomes if one.key in chosen]


def ask(
    bench: Bench,
    model: WorldModel,
    outcomes: Mapping[str, Outcome],
    *,
    sampling: Sampling,
    pattern: str | None,
    on_done: Callable[[], None],
) -> None:
    """Fill in what the world model says to each question, and its scores by the rules.

    A prompt that is too long is asked again without a quarter of its turns, the oldest.
    """
    waiting = dict.fromkeys(outcomes, 0)
    while waiting:
        flying: dict[str, Question] = {}

        def requests(
            waiting: Mapping[str, int] = waiting, flying: dict[str, Question] = flying
        ) -> Iterator[Request]:
            for question in bench.read([]):
                if question.key not in waiting:
                    continue
                question = shortened(question, waiting[question.key])
                flying[question.key] = question
                seed = int.from_bytes(_digest(str(sampling.seed), question.key)[:4], "big") >> 1
                yield Request(
                    key=question.key,
                    messages=question.messages,
                    sampling=replace(sampling, seed=seed),
                    answer_pattern=pattern,
                )

        too_long: dict[str, int] = {}
        for completion in model.generate(requests()):
            question = flying.pop(completion.key)
            n_turns = n_turns_before(question)
            if completion.failure == "prompt_too_long" and n_turns:
                too_long[question.key] = waiting[question.key] + max(1, n_turns // 4)
                continue
            outcome = outcomes[question.key]
            outcome.turns_left_out = waiting[question.key]
            _take(outcome, question, completion)
            on_done()
        waiting = too_long


def _take(outcome: Outcome, question: Question, completion: Completion) -> None:
    outcome.n_tokens = completion.n_completion_tokens or 0
    found = None if completion.text is None else read_prediction(completion.text)
    if found is None:
        outcome.failure = completion.failure or "no_answer_tag"
        return
    case = replace(question.case, prediction=found[0])
    verdict = gate(case)
    outcome.prediction = found[0]
    outcome.passed, outcome.reason = verdict.passed, verdict.reason
    outcome.scores[RULES] = {axis: 100 * float(getattr(verdict, axis)) for axis in AXES}


def ask_judge(
    bench: Bench,
    judge: Judge,
    outcomes: Mapping[str, Outcome],
    *,
    on_done: Callable[[], None],
) -> int:
    """Return how many tokens the judge wrote after filling in its scores of every prediction."""
    name = judge.model.name

    def asked() -> Iterator[Asked]:
        for question in bench.read([]):
            outcome = outcomes.get(question.key)
            if outcome is not None and outcome.prediction is not None:
                yield Asked(
                    key=question.key,
                    domain=question.domain,
                    messages=question.messages,
                    recorded=question.case.recorded,
                    prediction=outcome.prediction,
                )

    n_tokens = 0
    for judged in judge.score(asked()):
        outcome = outcomes[judged.key]
        n_tokens += judged.n_tokens
        if judged.scores is None:
            outcome.unscored[name] = judged.failure or "invalid"
        else:
            outcome.scores[name] = {
                axis: (judged.scores[axis] - LOWEST) / (HIGHEST - LOWEST) * 100 for axis in AXES
            }
            outcome.remarks[name] = (judged.strengths, judged.weaknesses)
        on_done()
    return n_tokens


def _digest(*words: str) -> bytes:
    return hashlib.sha256(":".join(words).encode("utf-8", "surrogatepass")).digest()
