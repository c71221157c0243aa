"""The gate on answers with a known verdict, made from the logs of this repository.

`benchmarks/gate_quality.py` prints the whole table, by kind and with the third of the
trajectories that no rule was tuned on. Here are floors under which no change may push it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from dataclasses import replace
from pathlib import Path

import pytest
from gate_variations import ACCEPT, KINDS, REFUSE, samples, variations

from trajkit import domains
from trajkit.fidelity.gate import judge

ROOT = Path(__file__).parent.parent
MOST = 60
"""Transitions a domain: enough for a floor, few enough for every run."""

Counts = Counter[tuple[str, str, bool]]


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> Counts:
    """Return how often the gate was right, by domain and kind."""
    folder = tmp_path_factory.mktemp("quality")
    found: Counts = Counter()
    for sample in samples(folder, [ROOT / "examples" / "logs"], MOST):
        for one in variations(sample):
            verdict = judge(replace(sample.case, prediction=one.text))
            right = verdict.passed == (one.kind in ACCEPT)
            found[sample.case.domain, one.kind, right] += 1
    return found


def share(counts: Counts, domain: str, kinds: Container[str]) -> tuple[float, int]:
    """Return the share of right verdicts over some kinds of a domain, and their number."""
    own = dict.fromkeys((True, False), 0)
    for (name, kind, side), n in counts.items():
        if name == domain and kind in kinds:
            own[side] += n
    n = sum(own.values())
    return (own[True] / n if n else 0.0), n


@pytest.mark.parametrize("domain", domains.ORDER)
def test_right_answers_are_accepted(counts: Counts, domain: str) -> None:
    right, n = share(counts, domain, ACCEPT)
    assert n >= 10
    assert right >= 0.95


@pytest.mark.parametrize("domain", domains.ORDER)
def test_wrong_answers_are_refused(counts: Counts, domain: str) -> None:
    right, n = share(counts, domain, REFUSE)
    assert n >= 30
    assert right >= 0.95


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_answer_is_told_apart(counts: Counts, kind: str) -> None:
    right = sum(n for (_, own, side), n in counts.items() if own == kind and side)
    wrong = sum(n for (_, own, side), n in counts.items() if own == kind and not side)
    assert right + wrong >= 5
    assert right / (right + wrong) >= 0.9
