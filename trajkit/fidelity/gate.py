"""The gate: one verdict for one prediction, by rules alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from trajkit import domains
from trajkit.fidelity.findings import AXES, Axis, Case, Finding, Verdict
from trajkit.fidelity.shared import check_presence, check_shared

WEIGHTS: Mapping[Axis, float] = {
    "format": 2.0,
    "factuality": 3.0,
    "consistency": 2.0,
    "realism": 1.0,
    "quality": 1.0,
}
"""What an axis counts in the overall score; factuality weighs most."""

THRESHOLDS: Mapping[str, float] = {
    "format": 0.6,
    "factuality": 0.6,
    "consistency": 0.6,
    "realism": 0.5,
    "quality": 0.5,
    "overall": 0.7,
}
"""Least score by axis, and of their weighted mean."""

DOMAIN_THRESHOLDS: Mapping[str, Mapping[str, float]] = {
    # A result list or a page nobody saw before shares little text with any other good answer.
    "search": {"factuality": 0.5, "realism": 0.35},
}
"""What differs from `THRESHOLDS` in a domain."""


def judge(case: Case) -> Verdict:
    """Return the verdict on a prediction.

    A blocking finding under 0.5 fails it, then an axis under its threshold, then the weighted
    mean of the axes. Reads nothing but the case; the same case gives the same verdict.
    """
    findings = tuple(_findings(_normalised(case)))
    scores = {axis: _mean([f for f in findings if f.axis == axis]) for axis in AXES}
    reason = _reason(case.domain, findings, scores)
    return Verdict(passed=reason is None, reason=reason, findings=findings, **scores)


def _normalised(case: Case) -> Case:
    # Carriage returns before newlines and blanks at the very end are the harness's, not the
    # environment's: no rule should turn on them.
    def plain(text: str) -> str:
        return text.replace("\r\n", "\n").rstrip()

    return replace(case, recorded=plain(case.recorded), prediction=plain(case.prediction))


def _findings(case: Case) -> Iterator[Finding]:
    yield from check_presence(case)
    if case.recorded and case.prediction:
        yield from check_shared(case)
        yield from domains.load(case.domain).check(case)


def _mean(findings: list[Finding]) -> float:
    total = sum(f.weight for f in findings)
    return sum(f.score * f.weight for f in findings) / total if total else 1.0


def _reason(domain: str, findings: tuple[Finding, ...], scores: Mapping[Axis, float]) -> str | None:
    for f in findings:
        if f.blocking and f.score < 0.5:
            return f.check
    least = {**THRESHOLDS, **DOMAIN_THRESHOLDS.get(domain, {})}
    for axis in AXES:
        if scores[axis] < least[axis]:
            return _worst([f for f in findings if f.axis == axis])
    overall = sum(scores[axis] * WEIGHTS[axis] for axis in AXES) / sum(WEIGHTS.values())
    return _worst(list(findings)) if overall < least["overall"] else None


def _worst(findings: list[Finding]) -> str:
    return max(findings, key=lambda f: (1 - f.score) * f.weight).check
