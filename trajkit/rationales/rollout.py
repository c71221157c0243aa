"""Free rollouts of a world model, each judged by the fidelity gate against the truth.

The model sees history and action, never the recorded observation: its reasoning can hold nothing
that only the answer could tell. A judge, where there is one, scores what the gate accepts and
compares it pairwise.

Source: Qwen-AgentWorld report, section 3.3; the report names no least score, ours is below.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from trajkit.control_tokens import escape, unescape
from trajkit.domains.base import ANSWER_CLOSE, ANSWER_OPEN, ASK, OBSERVATION_MARK
from trajkit.fidelity.gate import judge as gate
from trajkit.fidelity.thresholds import Thresholds
from trajkit.judges import Asked, Judge
from trajkit.rationales.faults import fault
from trajkit.rationales.queries import Answered, Calls, Candidate, Messages, Query
from trajkit.worldmodel import Completion

MIN_SCORE = 3.0
"""Least mean of the judge's five axes: the middle of the scale, where faults are small."""
THINK_FIRST = (
    "First think between <think> and </think>: what the action does, what the history already "
    "settles, and what form the answer must have. "
)
LAID_OUT = (
    r"<think>\n[^<>]{20,300}\n</think>\n\n"
    rf"{ANSWER_OPEN}\n[^<>]{{0,400}}\n{ANSWER_CLOSE}"
)
"""Shape forced on a model too weak to keep it by itself (`embedded`)."""


@dataclass(slots=True)
class Rollouts:
    """Rationales by answering without the answer in view."""

    calls: Calls
    n_rollouts: int
    """Answers asked for each query."""
    laid_out: bool
    """Whether the answer's shape is forced."""
    judge: Judge | None = None
    min_score: float = MIN_SCORE
    thresholds: Thresholds | None = None
    """Least scores of the gate; null means those of the package."""

    def answer(self, queries: Iterable[Query]) -> list[Answered]:
        """Return every query with its best candidate, in the order given.

        Best is what the gate accepts with the highest rule score, or, with a judge, what no other
        accepted candidate of at least `min_score` is preferred to.
        """
        place: dict[str, int] = {}
        accepted: list[tuple[Query, list[Candidate]]] = []
        answers: list[Answered] = []
        completed = self.calls.ask(
            _placed(queries, place),
            prompt,
            numbers=range(self.n_rollouts),
            pattern=LAID_OUT if self.laid_out else None,
        )
        for query, completions in completed:
            answered, candidates = self._gate(query, completions)
            if candidates and self.judge is not None:
                accepted.append((query, candidates))
            else:
                answers.append(answered)
            self.calls.on_done()
        if self.judge is not None:
            answers += self._judge(self.judge, accepted)
        return sorted(answers, key=lambda answered: place[answered.query.key])

    def _gate(
        self, query: Query, completions: Sequence[Completion]
    ) -> tuple[Answered, list[Candidate]]:
        """Return a query with its best candidate by rules, and all that the gate accepts."""
        candidates: list[Candidate] = []
        failures: list[str] = []
        for completion in completions:
            found = read_answer(completion)
            if isinstance(found, str):
                failures.append(found)
                self.calls.counts[f"calls.{found}"] += 1
                continue
            rationale, prediction = found
            verdict = gate(replace(query.case, prediction=prediction), self.thresholds)
            outcome = "accepted" if verdict.passed else f"gate_{verdict.reason}"
            self.calls.counts[f"calls.{outcome}"] += 1
            candidates.append(
                Candidate(rationale=rationale, prediction=prediction, verdict=verdict)
            )
        if not candidates:
            return Answered(query=_light(query), best=None, reason=failures[0]), []
        best = max(candidates, key=lambda one: (_passed(one), rule_score(one)))
        accepted = [one for one in candidates if _passed(one)]
        if accepted:
            return Answered(query=query, best=best, reason=None), accepted
        assert best.verdict is not None
        reason = f"gate_{best.verdict.reason}"
        return Answered(query=_light(query), best=best, reason=reason), []

    def _judge(
        self, judge: Judge, accepted: Sequence[tuple[Query, list[Candidate]]]
    ) -> Iterator[Answered]:
        """Give every query with the candidate the judge holds best."""
        counts = self.calls.counts
        by_key = {
            f"{query.key}:{number}": (query, candidate)
            for query, candidates in accepted
            for number, candidate in enumerate(candidates)
        }
        ranked: dict[str, list[tuple[str, Candidate]]] = {query.key: [] for query, _ in accepted}
        best: dict[str, Answered] = {}
        asked = (_asked(key, query, candidate) for key, (query, candidate) in by_key.items())
        for judged in sorted(judge.score(asked), key=lambda judged: judged.key):
            counts["judge_tokens"] += judged.n_tokens
            query, candidate = by_key[judged.key]
            if judged.scores is None:
                counts[f"judge.{judged.failure}"] += 1
                failed = Answered(query=query, best=candidate, reason=f"judge_{judged.failure}")
                best.setdefault(query.key, failed)
                continue
            mean = sum(judged.scores.values()) / len(judged.scores)
            candidate = replace(candidate, judge_score=mean)
            if mean < self.min_score:
                counts["judge.low_score"] += 1
                best[query.key] = Answered(query=query, best=candidate, reason="low_score")
            else:
                counts["judge.scored"] += 1
                ranked[query.key].append((judged.key, candidate))
        for query, _ in accepted:
            ranked[query.key].sort(key=lambda one: _by_judge(one[1]))
            if good := ranked[query.key]:
                best[query.key] = Answered(query=query, best=good[0][1], reason=None)
        self._knock_out(judge, ranked, best)
        for answered in best.values():
            light = answered.query if answered.reason is None else _light(answered.query)
            yield replace(answered, query=light)

    def _knock_out(
        self,
        judge: Judge,
        ranked: Mapping[str, list[tuple[str, Candidate]]],
        best: dict[str, Answered],
    ) -> None:
        """Put the winners into `best`: who leads by score stays unless another one wins."""
        leading = {key: ranking[0] for key, ranking in ranked.items() if ranking}
        for number in range(1, max(map(len, ranked.values()), default=0)):
            pairs: dict[tuple[str, str], tuple[str, tuple[str, Candidate]]] = {}
            asked = []
            for key, ranking in ranked.items():
                if len(ranking) <= number:
                    continue
                first, other = leading[key], ranking[number]
                if first[1].prediction == other[1].prediction:
                    continue
                query = best[key].query
                pairs[(first[0], other[0])] = (key, other)
                asked.append((_asked(first[0], query, first[1]), _asked(other[0], query, other[1])))
            for preferred in judge.prefer_all(asked):
                self.calls.counts["judge_tokens"] += preferred.n_tokens
                self.calls.counts[f"judge.choice_{preferred.choice or 'none'}"] += 1
                if preferred.choice == "second":
                    key, other = pairs[preferred.keys]
                    leading[key] = other
        for key, (_, candidate) in leading.items():
            best[key] = replace(best[key], best=candidate)


def prompt(query: Query) -> Messages:
    """Return the messages of a rollout."""
    return query.asking(THINK_FIRST + ASK)


def _placed(queries: Iterable[Query], place: dict[str, int]) -> Iterator[Query]:
    for number, query in enumerate(queries):
        place[query.key] = number
        yield query


def _light(query: Query) -> Query:
    """Return a query without its prompt: a drop needs none, and prompts are what fills memory."""
    return replace(query, messages=())


def _asked(key: str, query: Query, candidate: Candidate) -> Asked:
    return Asked(
        key=key,
        domain=query.case.domain,
        messages=query.messages,
        recorded=query.case.recorded,
        prediction=candidate.prediction or "",
    )


def _by_judge(candidate: Candidate) -> tuple[float, float]:
    return -(candidate.judge_score or 0.0), -rule_score(candidate)


def _passed(candidate: Candidate) -> bool:
    return candidate.verdict is not None and candidate.verdict.passed


def rule_score(candidate: Candidate) -> float:
    """Return the mean of the five rule scores, factuality counted twice."""
    verdict = candidate.verdict
    if verdict is None:
        return 0.0
    axes = [verdict.format, verdict.consistency, verdict.realism, verdict.quality]
    return (sum(axes) + 2 * verdict.factuality) / 6


def read_prediction(text: str) -> tuple[str, int] | None:
    """Return what stands in the answer tag and where the tag begins, null without a whole tag.

    The last opening tag counts, so that a model that speaks of the tag while it thinks does no
    harm. An answer that is cut has no closing tag: it is never taken for a whole one.

    >>> read_prediction("<predicted_observation>\\n  x\\n</predicted_observation>")
    ('  x', 0)
    """
    start = text.rfind(ANSWER_OPEN)
    end = text.find(ANSWER_CLOSE, start)
    if start < 0 or end < 0:
        return None
    prediction = text[start + len(ANSWER_OPEN) : end]
    prediction = prediction.removeprefix("\n").removesuffix("\n")
    return unescape(prediction.removeprefix(OBSERVATION_MARK)), start


def read_answer(completion: Completion) -> tuple[str, str] | str:
    """Return rationale and prediction, or the slug of why there are none."""
    if completion.failure is not None:
        return completion.failure
    text = completion.text or ""
    found = read_prediction(text)
    if found is None:
        return "refusal" if fault(text) == "refusal" else "no_answer_tag"
    prediction, start = found
    rationale = (completion.reasoning or text[:start]).strip()
    # A rationale is written between tags: it must not be able to close them.
    return fault(rationale) or (escape(rationale)[0], prediction)
