"""Free rollouts of a world model, each judged by the fidelity gate against the truth.

The model sees history and action, never the recorded observation (Qwen-AgentWorld report,
section 3.3): its reasoning can hold nothing that only the answer could tell.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from trajkit.control_tokens import escape, unescape
from trajkit.domains.base import ANSWER_CLOSE, ANSWER_OPEN, ASK, OBSERVATION_MARK
from trajkit.fidelity.findings import Case, Verdict
from trajkit.fidelity.gate import judge
from trajkit.worldmodel import Completion, Request, Sampling, WorldModel

THINK_FIRST = (
    "First think between <think> and </think>: what the action does, what the history already "
    "settles, and what form the answer must have. "
)
MIN_RATIONALE_CHARS = 20
LAID_OUT = (
    r"<think>\n[^<>]{20,300}\n</think>\n\n"
    rf"{ANSWER_OPEN}\n[^<>]{{0,400}}\n{ANSWER_CLOSE}"
)
"""Shape forced on a model too weak to keep it by itself (`embedded`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One transition to be answered."""

    trajectory_id: str
    step_index: int
    messages: tuple[dict[str, str], ...]
    """Prompt up to the action, without the closing question."""
    case: Case
    """What the gate needs; its prediction is filled in for each rollout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One rollout that gave rationale and answer, with its verdict."""

    rationale: str
    prediction: str
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A query with its best candidate, or the reason why there is none."""

    query: Query
    best: Candidate | None
    reason: str | None
    """Null when the best candidate passed the gate."""


@dataclass(slots=True)
class Rollout:
    """How queries are put to a world model, and the account of the calls."""

    model: WorldModel
    n_rollouts: int
    sampling: Sampling
    laid_out: bool
    """Whether the answer's shape is forced."""
    calls: Counter[str]
    """Calls by outcome, and tokens."""
    on_answer: Callable[[], None]
    """Called once for each call that came back, so that progress can be shown."""

    def requests(self, query: Query) -> Iterator[Request]:
        """Give the requests of one query; each rollout has its own seed."""
        *history, last = query.messages
        ask = f"{last['content']}\n\n{THINK_FIRST}{ASK}"
        messages = (*history, {"role": "user", "content": ask})
        for number in range(self.n_rollouts):
            key = f"{query.trajectory_id}:{query.step_index}:{number}"
            yield Request(
                key=key,
                messages=messages,
                sampling=replace(self.sampling, seed=_seed(self.sampling.seed, key)),
                answer_pattern=LAID_OUT if self.laid_out else None,
            )


def _seed(seed: int, key: str) -> int:
    """Return a seed of this rollout alone, so that no answer depends on what was asked before."""
    digest = hashlib.sha256(f"{seed}:{key}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def answer(rollout: Rollout, queries: Sequence[Query]) -> list[Answered]:
    """Return every query with its best candidate, in the order given."""
    by_query: dict[str, list[Completion]] = defaultdict(list)
    requests = [request for query in queries for request in rollout.requests(query)]
    for completion in rollout.model.generate(requests):
        by_query[completion.key.rpartition(":")[0]].append(completion)
        rollout.on_answer()
    return [
        _choose(rollout, query, by_query[f"{query.trajectory_id}:{query.step_index}"])
        for query in queries
    ]


def _choose(rollout: Rollout, query: Query, completions: list[Completion]) -> Answered:
    candidates: list[Candidate] = []
    failures: list[str] = []
    for completion in sorted(completions, key=lambda completion: completion.key):
        rollout.calls["tokens"] += completion.n_completion_tokens or 0
        found = read_answer(completion)
        if isinstance(found, str):
            failures.append(found)
            rollout.calls[found] += 1
            continue
        rationale, prediction = found
        verdict = judge(replace(query.case, prediction=prediction))
        rollout.calls["accepted" if verdict.passed else f"gate_{verdict.reason}"] += 1
        candidates.append(Candidate(rationale=rationale, prediction=prediction, verdict=verdict))
    if not candidates:
        return Answered(query=query, best=None, reason=failures[0] if failures else "no_answer")
    best = max(candidates, key=lambda candidate: (candidate.verdict.passed, score(candidate)))
    reason = None if best.verdict.passed else f"gate_{best.verdict.reason}"
    return Answered(query=query, best=best, reason=reason)


def score(candidate: Candidate) -> float:
    """Return the mean of the five rule scores, factuality counted twice."""
    verdict = candidate.verdict
    axes = [verdict.format, verdict.consistency, verdict.realism, verdict.quality]
    return (sum(axes) + 2 * verdict.factuality) / 6


def read_answer(completion: Completion) -> tuple[str, str] | str:
    """Return rationale and prediction, or the slug of why there are none.

    The prediction is taken from its tag strictly; the last opening tag counts, so that a model
    that speaks of the tag while it thinks does no harm.
    """
    if completion.failure is not None:
        return completion.failure
    text = completion.text or ""
    start = text.rfind(ANSWER_OPEN)
    end = text.find(ANSWER_CLOSE, start)
    if start < 0 or end < 0:
        return "no_answer_tag"
    prediction = text[start + len(ANSWER_OPEN) : end]
    prediction = prediction.removeprefix("\n").removesuffix("\n")
    prediction = prediction.removeprefix(OBSERVATION_MARK)
    rationale = (completion.reasoning or text[:start]).strip()
    if len(rationale) < MIN_RATIONALE_CHARS:
        return "no_rationale"
    # A rationale is written between tags: it must not be able to close them.
    return escape(rationale)[0], unescape(prediction)
