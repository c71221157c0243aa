"""The numbers of an evaluation: means by hand, intervals that know of trajectories."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajkit.evaluate.answers import RULES, Outcome
from trajkit.evaluate.results import agreement, measures
from trajkit.evaluate.statistics import (
    Estimate,
    difference,
    estimate,
    macro,
    rank_correlation,
    t_quantile,
)
from trajkit.fidelity.findings import AXES

ROWS = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.floats(0, 100, allow_nan=False)), min_size=1
)


def test_a_mean_and_its_error_are_those_worked_out_by_hand() -> None:
    # Mean 190/3. Residuals by trajectory: a -80/3, b +80/3. 2/(2-1) times the sum of their
    # squares is 25600/9, its root over three rows is 160/9.
    found = estimate([("a", 40.0), ("a", 60.0), ("b", 90.0)])
    assert found is not None
    assert found.mean == pytest.approx(190 / 3)
    assert found.standard_error == pytest.approx(160 / 9)
    assert (found.degrees, found.n_rows, found.n_trajectories) == (1, 3, 2)
    low, high = found.interval() or (0, 0)
    assert (low, high) == pytest.approx((190 / 3 - 12.7062 * 160 / 9, 190 / 3 + 12.7062 * 160 / 9))


def test_without_clusters_the_error_is_the_usual_one() -> None:
    values = [3.0, 5.0, 10.0, 22.0]
    found = estimate((str(n), value) for n, value in enumerate(values))
    variance = sum((v - 10) ** 2 for v in values) / 3
    assert found is not None
    assert found.standard_error == pytest.approx(math.sqrt(variance / 4))


def test_copies_of_a_row_in_its_trajectory_promise_nothing_more() -> None:
    rows = [("a", 10.0), ("b", 50.0), ("c", 60.0)]
    once, thrice = estimate(rows), estimate(rows * 3)
    assert once is not None and thrice is not None
    assert thrice.standard_error == pytest.approx(once.standard_error)
    apart = estimate((f"{t}{n}", v) for n in range(3) for t, v in rows)
    assert apart is not None and apart.standard_error is not None
    assert apart.standard_error < 0.7 * (once.standard_error or 0)


@given(ROWS, st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_no_bit(
    rows: list[tuple[str, float]], chance: random.Random
) -> None:
    shuffled = list(rows)
    chance.shuffle(shuffled)
    assert estimate(shuffled) == estimate(rows)


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    chance = random.Random(5)
    hits = 0
    for _ in range(600):
        rows = []
        for n in range(12):
            level = chance.gauss(50, 10)
            rows += [(str(n), chance.gauss(level, 3)) for _ in range(5)]
        found = estimate(rows)
        assert found is not None
        low, high = found.interval() or (0, 0)
        hits += low <= 50 <= high
    assert 0.92 <= hits / 600 <= 0.98


def test_one_trajectory_gives_a_mean_and_no_interval() -> None:
    found = estimate([("a", 1.0), ("a", 3.0)])
    assert found is not None and found.mean == 2 and found.interval() is None
    assert estimate([]) is None and macro([]) is None
    assert macro([found, found]) == Estimate(
        mean=2, standard_error=None, degrees=None, n_rows=4, n_trajectories=2
    )


def part(mean: float, error: float, degrees: float = 9.0) -> Estimate:
    return Estimate(mean=mean, standard_error=error, degrees=degrees, n_rows=10, n_trajectories=10)


def test_parts_count_alike_in_a_macro_mean() -> None:
    found = macro([part(10, 3), part(50, 4)])
    assert found is not None
    assert (found.mean, found.standard_error) == pytest.approx((30, 2.5))
    # Welch and Satterthwaite: 25 squared over (81 + 256) / 9.
    assert found.degrees == pytest.approx(625 * 9 / 337)
    flat = macro([part(10, 0), part(50, 0)])
    assert flat is not None and flat.interval() == (30, 30)


def test_a_difference_has_the_errors_of_both_sides() -> None:
    found = difference(part(60, 3), part(50, 4))
    assert (found.mean, found.standard_error) == pytest.approx((10, 5))
    assert found.degrees == pytest.approx(625 * 9 / 337)


def test_quantiles_are_those_of_the_printed_table() -> None:
    table = {1: 12.706, 2: 4.303, 4: 2.776, 5: 2.571, 7: 2.365, 10: 2.228, 30: 2.042, 120: 1.980}
    for degrees, quantile in table.items():
        assert t_quantile(degrees) == pytest.approx(quantile, abs=0.001)
    assert t_quantile(2.9) == t_quantile(2) and t_quantile(0.4) == t_quantile(1)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=30))
def test_rank_correlation_is_symmetric_and_within_bounds(pairs: list[tuple[int, int]]) -> None:
    one, two = [float(a) for a, _ in pairs], [float(b) for _, b in pairs]
    found = rank_correlation(one, two)
    assert found == rank_correlation(two, one)
    if len(set(one)) == 1 or len(set(two)) == 1:
        assert found is None
    else:
        assert found is not None and -1.000001 <= found <= 1.000001
        assert rank_correlation(one, one) == pytest.approx(1)
        assert rank_correlation(one, [-a for a in one]) == pytest.approx(-1)


def test_rank_correlation_by_hand() -> None:
    # Ranks 1 2 3 4 5 against 2 1 4 3 5: 1 - 6 * 4 / (5 * 24).
    assert rank_correlation([1, 2, 3, 4, 5], [20, 10, 40, 30, 50]) == pytest.approx(0.8)


def outcome(key: str, domain: str, trajectory: str, score: float | None, **changes: str) -> Outcome:
    one = Outcome(
        key=key,
        trajectory=trajectory,
        domain=domain,
        place="",
        turn=1,
        failure=changes.get("failure"),
    )
    if score is not None:
        one.scores[RULES] = dict.fromkeys(AXES, score)
    return one


OUTCOMES = [
    outcome("1", "mcp", "a", 80.0),
    outcome("2", "mcp", "a", 60.0),
    outcome("3", "mcp", "b", None, failure="cut_answer"),
    outcome("4", "web", "c", 100.0),
]


def test_failures_count_nothing_or_are_left_out_and_domains_count_alike() -> None:
    rows = {row["domain"]: row for row in measures(OUTCOMES, [RULES]) if row["axis"] == "overall"}
    assert [rows[d]["score"] for d in ("mcp", "web", "macro", "micro")] == pytest.approx(
        [140 / 3, 100, (140 / 3 + 100) / 2, 60]
    )
    assert [rows[d]["answered_score"] for d in ("mcp", "web", "macro", "micro")] == pytest.approx(
        [70, 100, 85, 80]
    )
    assert [rows[d]["failures"] for d in ("mcp", "web", "macro", "micro")] == [1, 0, 1, 1]
    assert rows["os"]["score"] is None and rows["os"]["rows"] == 0
    assert rows["web"]["low"] is None, "a single trajectory has no interval"
    assert 0 <= rows["mcp"]["low"] < rows["mcp"]["score"] < rows["mcp"]["high"] <= 100


def test_what_a_judge_gave_no_verdict_on_is_no_zero() -> None:
    ones = [outcome(str(n), "mcp", str(n), 50.0) for n in range(3)]
    for one, score in zip(ones, (20.0, 40.0, None), strict=True):
        if score is None:
            one.unscored["judge"] = "invalid"
        else:
            one.scores["judge"] = dict.fromkeys(AXES, score)
    ones.append(outcome("9", "mcp", "9", None, failure="timeout"))
    rows = [
        row
        for row in measures(ones, [RULES, "judge"])
        if row["scorer"] == "judge" and row["domain"] == "mcp" and row["axis"] == "realism"
    ]
    assert [(r["rows"], r["score"], r["answered_score"]) for r in rows] == [(3, 20.0, 30.0)]
    assert rows[0]["unscored"] == 1 and rows[0]["failures"] == 1
    (found,) = (row for row in agreement(ones, [RULES, "judge"]) if row["axis"] == "overall")
    assert (found["rows"], found["mean_absolute_difference"]) == (2, 20.0)
    assert found["rank_correlation"] is None


@given(st.randoms(use_true_random=False))
def test_shuffled_rows_give_the_same_measures(chance: random.Random) -> None:
    ones = [outcome(str(n), "mcp" if n % 3 else "web", str(n % 7), n * 100 / 31) for n in range(31)]
    shuffled = list(ones)
    chance.shuffle(shuffled)
    assert measures(shuffled, [RULES]) == measures(ones, [RULES])
