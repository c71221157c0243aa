"""Whether a rationale helps: what it does to the probability of the recorded observation.

The model scores the observation in its answer tag three times: behind the rationale, behind none,
and behind the rationale of another step of the same domain. A rationale that only sounds right
gains nothing over another step's; one that gains much may give the answer away, which is what the
checks of `leaks` are for.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from trajkit.domains.base import ANSWER_CLOSE, ANSWER_OPEN, ASK
from trajkit.rationales.queries import Answered, Gain
from trajkit.worldmodel.protocol import Scored, Scoring, WorldModel

NANO = 1_000_000_000
"""Gains are summed as whole nano-nats: the sum does not turn on the order of its terms."""


def with_gains(
    model: WorldModel, answers: Sequence[Answered], counts: Counter[str]
) -> list[Answered]:
    """Return the answers, each usable rationale with its gain, in the order given.

    The other step is half the list of the domain away: mostly another episode, and the same one
    in every run. Sums go into `counts` for `summary`.
    """
    others = _others(answers)
    scored = {one.key: one for one in model.score(_scorings(answers, others))}
    found = []
    for answered in answers:
        best = answered.best
        if answered.reason is None and best is not None:
            gain = _gain(answered.query.key, scored)
            _count(gain, counts)
            answered = replace(answered, best=replace(best, gain=gain))
        found.append(answered)
    return found


def _others(answers: Sequence[Answered]) -> dict[str, str]:
    """Return the rationale of another step for each step that has one."""
    by_domain: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for answered in answers:
        if answered.reason is None and answered.best is not None:
            told = (answered.query.key, answered.best.rationale)
            by_domain[answered.query.case.domain].append(told)
    return {
        key: told[(place + len(told) // 2) % len(told)][1]
        for told in by_domain.values()
        if len(told) > 1
        for place, (key, _) in enumerate(told)
    }


def _scorings(answers: Sequence[Answered], others: Mapping[str, str]) -> Iterator[Scoring]:
    for answered in answers:
        if answered.reason is not None or answered.best is None:
            continue
        query = answered.query
        for kind, rationale in (
            ("none", None),
            ("own", answered.best.rationale),
            ("other", others.get(query.key)),
        ):
            if rationale is None and kind == "other":
                continue
            thought = f"<think>\n{rationale}\n</think>\n\n" if rationale is not None else ""
            yield Scoring(
                key=f"{query.key}:{kind}",
                messages=query.asking(ASK),
                # The opening tag is given: without a rationale a model may not begin with it, and
                # that says nothing about the observation.
                prefix=f"{thought}{ANSWER_OPEN}\n",
                continuation=f"{query.recorded}\n{ANSWER_CLOSE}",
            )


def _gain(key: str, scored: Mapping[str, Scored]) -> Gain:
    def per_token(kind: str) -> float | None:
        one = scored.get(f"{key}:{kind}")
        if one is None or one.logprob is None:
            return None
        return one.logprob / max(1, one.n_tokens or 0)

    own, none, other = (per_token(kind) for kind in ("own", "none", "other"))
    if own is None or none is None:
        failed = scored[f"{key}:own" if own is None else f"{key}:none"]
        return Gain(failure=failed.failure or "call_failed")
    return Gain(over_none=own - none, over_other=None if other is None else own - other)


def _count(gain: Gain, counts: Counter[str]) -> None:
    if gain.failure is not None:
        counts[f"gain.failed.{gain.failure}"] += 1
    for kind, value in (("none", gain.over_none), ("other", gain.over_other)):
        if value is not None:
            counts[f"gain.{kind}.n"] += 1
            counts[f"gain.{kind}.positive"] += value > 0
            counts[f"gain.{kind}.nano"] += round(value * NANO)


def summary(counts: Mapping[str, int]) -> dict[str, float | int]:
    """Return mean gain and share of positive gains, over all rationales that were scored.

    >>> summary({"gain.none.n": 2, "gain.none.positive": 1, "gain.none.nano": 500_000_000})
    {'n_over_none': 2, 'mean_over_none': 0.25, 'positive_over_none': 0.5}
    """
    found: dict[str, float | int] = {}
    for kind in ("none", "other"):
        if n := counts.get(f"gain.{kind}.n", 0):
            found[f"n_over_{kind}"] = n
            found[f"mean_over_{kind}"] = round(counts.get(f"gain.{kind}.nano", 0) / NANO / n, 4)
            share = counts.get(f"gain.{kind}.positive", 0) / n
            found[f"positive_over_{kind}"] = round(share, 4)
    failed = "gain.failed."
    return found | {
        f"failed_{name.removeprefix(failed)}": n
        for name, n in sorted(counts.items())
        if name.startswith(failed)
    }
