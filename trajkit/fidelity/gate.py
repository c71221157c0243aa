"""The gate: one verdict for one prediction, by rules alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from trajkit import domains
from trajkit.fidelity.findings import AXES, Axis, Case, Finding, Verdict
from trajkit.fidelity.shared import check_presence, check_shared
from trajkit.fidelity.thresholds import Thresholds, shipped

WEIGHTS: Mapping[Axis, float] = {
    "format": 2.0,
    "factuality": 3.0,
    "consistency": 2.0,
    "realism": 1.0,
    "quality": 1.0,
}
"""What an axis counts in the overall score; factuality weighs most."""


def judge(case: Case, thresholds: Thresholds | None = None) -> Verdict:
    """Return the verdict on a prediction.

    A blocking finding under 0.5 fails it, then an axis under its threshold, then the weighted
    mean of the axes. Without thresholds those of the package hold. Reads nothing but the case; the
    same case gives the same verdict.

    An axis is the mean of its findings, and no more than a blocking one that failed. What fails by
    its format cannot be read as an answer, so that bounds every axis; and so does any failure an
    axis that was not looked at.
    """
    least = (shipped() if thresholds is None else thresholds)[case.domain]
    findings = tuple(_findings(_normalised(case)))
    scores = {axis: _score(axis, findings) for axis in AXES}
    reason = _reason(least, findings, scores)
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


def _score(axis: Axis, findings: tuple[Finding, ...]) -> float:
    own = [f for f in findings if f.axis == axis]
    total = sum(f.weight for f in own)
    mean = sum(f.score * f.weight for f in own) / total if total else 1.0
    bounds = (f.score for f in findings if _fails(f) and (f.axis in (axis, "format") or not own))
    return min(mean, min(bounds, default=1.0))


def _fails(finding: Finding) -> bool:
    return finding.blocking and finding.score < 0.5


def _reason(
    least: Mapping[str, float], findings: tuple[Finding, ...], scores: Mapping[Axis, float]
) -> str | None:
    for f in findings:
        if _fails(f):
            return f.check
    for axis in AXES:
        if scores[axis] < least[axis]:
            return _worst([f for f in findings if f.axis == axis])
    overall = sum(scores[axis] * WEIGHTS[axis] for axis in AXES) / sum(WEIGHTS.values())
    return _worst(list(findings)) if overall < least["overall"] else None


def _worst(findings: list[Finding]) -> str:
    return max(findings, key=lambda f: (1 - f.score) * f.weight).check
