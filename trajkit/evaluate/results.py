"""What an evaluation found, as plain data: means with intervals, agreement of judges, rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Any

import pyarrow as pa

from trajkit.evaluate.answers import RULES, Outcome
from trajkit.evaluate.statistics import Estimate, estimate, macro, rank_correlation
from trajkit.fidelity.findings import AXES
from trajkit.model import DOMAINS

MEASURED = ("overall", *AXES)
"""The mean of the axes, and each of them."""
PUBLISHED = (
    ("AgentWorld-397B", 58.71),
    ("GPT-5.4", 58.25),
    ("AgentWorld-35B", 56.39),
    ("Qwen3.5-35B-A3B", 47.73),
)
"""Macro scores of the Qwen-AgentWorld report."""
PUBLISHED_JUDGE = "gpt-5.2"


def measures(outcomes: Sequence[Outcome], scorers: Sequence[str]) -> list[dict[str, Any]]:
    """Return one row for each scorer, domain and axis, and the means over domains and rows.

    `score` counts a question without an observation as 0; `answered_score` leaves it out. A
    question that a judge gave no verdict on is in neither. `macro` is the mean of the domains
    that have rows, as the report has it; `micro` the mean of all rows, as its script prints it.
    """
    rows = []
    for scorer in scorers:
        for axis in MEASURED:
            whole: list[Estimate] = []
            answered: list[Estimate] = []
            for domain in DOMAINS:
                own = [one for one in outcomes if one.domain == domain]
                both = _estimates(own, scorer, axis)
                rows.append(_measure(scorer, domain, axis, own, *both))
                whole += [both[0]] if both[0] is not None else []
                answered += [both[1]] if both[1] is not None else []
            rows.append(_measure(scorer, "macro", axis, outcomes, macro(whole), macro(answered)))
            both = _estimates(outcomes, scorer, axis)
            rows.append(_measure(scorer, "micro", axis, outcomes, *both))
    return rows


def scored_rows(
    outcomes: Iterable[Outcome], scorer: str, axis: str
) -> Iterator[tuple[Outcome, float]]:
    """Give the questions that count with their scores; a failure of the world model counts 0."""
    for one in outcomes:
        score = 0.0 if one.failure is not None else one.score(scorer, axis)
        if score is not None:
            yield one, score


def _estimates(
    outcomes: Sequence[Outcome], scorer: str, axis: str
) -> tuple[Estimate | None, Estimate | None]:
    rows = [
        (f"{one.domain}:{one.trajectory}", score, one.failure)
        for one, score in scored_rows(outcomes, scorer, axis)
    ]
    return (
        estimate((trajectory, score) for trajectory, score, _ in rows),
        estimate((trajectory, score) for trajectory, score, failure in rows if failure is None),
    )


def _measure(
    scorer: str,
    domain: str,
    axis: str,
    outcomes: Sequence[Outcome],
    whole: Estimate | None,
    answered: Estimate | None,
) -> dict[str, Any]:
    return {
        "scorer": scorer,
        "domain": domain,
        "axis": axis,
        "rows": 0 if whole is None else whole.n_rows,
        "trajectories": 0 if whole is None else whole.n_trajectories,
        "failures": sum(one.failure is not None for one in outcomes),
        "unscored": sum(scorer in one.unscored for one in outcomes),
        "accepted": sum(one.passed is True for one in outcomes),
        **_named("", whole),
        "standard_error": None if whole is None else whole.standard_error,
        "degrees": None if whole is None else whole.degrees,
        **_named("answered_", answered),
    }


def _named(prefix: str, found: Estimate | None) -> dict[str, float | None]:
    interval = None if found is None else found.interval()
    low, high = interval or (None, None)
    return {
        f"{prefix}score": None if found is None else found.mean,
        f"{prefix}low": None if low is None else max(0.0, low),
        f"{prefix}high": None if high is None else min(100.0, high),
    }


def agreement(outcomes: Sequence[Outcome], scorers: Sequence[str]) -> list[dict[str, Any]]:
    """Return how near each two scorers are on the rows that both scored."""
    rows = []
    for first, second in combinations(scorers, 2):
        for axis in MEASURED:
            pairs = [
                (a, b)
                for one in outcomes
                if (a := one.score(first, axis)) is not None
                and (b := one.score(second, axis)) is not None
            ]
            apart = [abs(a - b) for a, b in pairs]
            rows.append(
                {
                    "first": first,
                    "second": second,
                    "axis": axis,
                    "rows": len(pairs),
                    "mean_absolute_difference": sum(apart) / len(apart) if apart else None,
                    "rank_correlation": rank_correlation(*zip(*pairs, strict=True))
                    if pairs
                    else None,
                }
            )
    return rows


def counted(values: Iterable[str | None]) -> dict[str, int]:
    """Return how often each reason occurs, sorted by name; null is none."""
    return dict(sorted(Counter(value for value in values if value is not None).items()))


def prefixes(judges: Sequence[str]) -> dict[str, str]:
    """Return the beginning of each scorer's columns in `rows.parquet`, by scorer."""
    return {RULES: RULES} | {name: f"judge_{n}" for n, name in enumerate(judges, 1)}


def rows_table(outcomes: Sequence[Outcome], judges: Sequence[str]) -> pa.Table:
    """Return one row for each question, in the order of the benchmark."""
    columns: dict[str, list[Any]] = {
        name: [getattr(one, name) for one in outcomes]
        for name in (
            *("key", "trajectory", "domain", "place", "turn", "turns_left_out", "failure"),
            *("passed", "reason", "n_tokens"),
        )
    }
    texts = [one.prediction for one in outcomes]
    columns["prediction"] = [
        None if text is None else text.encode("utf-8", "replace").decode() for text in texts
    ]
    types = {"turn": pa.int64(), "turns_left_out": pa.int64(), "n_tokens": pa.int64()}
    types |= {"passed": pa.bool_(), "prediction": pa.large_string()}
    for scorer, prefix in prefixes(judges).items():
        for axis in MEASURED:
            columns[f"{prefix}_{axis}"] = [one.score(scorer, axis) for one in outcomes]
            types[f"{prefix}_{axis}"] = pa.float64()
        if scorer != RULES:
            columns[f"{prefix}_failure"] = [one.unscored.get(scorer) for one in outcomes]
            remarks = [one.remarks.get(scorer, (None, None)) for one in outcomes]
            columns[f"{prefix}_strengths"] = [strengths for strengths, _ in remarks]
            columns[f"{prefix}_weaknesses"] = [weaknesses for _, weaknesses in remarks]
    schema = pa.schema([(name, types.get(name, pa.string())) for name in columns])
    return pa.Table.from_pydict(columns, schema=schema)
