"""Train, validation and test by group."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajkit.builders.splits import Splits
from trajkit.errors import TrajkitError
from trajkit.split import group_name

groups = st.integers().map(lambda number: group_name(str(number)))
shares = st.floats(0, 0.49)


@given(group=groups, validation=shares, test=shares, more=shares)
def test_a_bigger_share_only_ever_takes_from_train(
    group: str, validation: float, test: float, more: float
) -> None:
    before = Splits(validation=validation, test=test).side(group)
    wider = Splits(validation=max(validation, more), test=test).side(group)
    assert wider == before or (before, wider) == ("train", "validation")
    wider = Splits(validation=validation, test=max(test, more)).side(group)
    assert wider == before or (before, wider) == ("train", "test")


@given(group=groups, cut=st.floats(0.01, 0.99))
def test_pools_that_do_not_meet_share_no_group_and_lose_none(group: str, cut: float) -> None:
    sides = [Splits(pool=pool).side(group) for pool in ((0.0, cut), (cut, 1.0))]
    assert sides.count(None) == 1
    assert Splits().side(group) in sides


def test_shares_are_about_as_asked_in_every_pool() -> None:
    names = [group_name(str(number)) for number in range(20_000)]
    for pool in ((0.0, 0.5), (0.5, 1.0)):
        found = [Splits(validation=0.1, test=0.2, pool=pool).side(name) for name in names]
        n = sum(side is not None for side in found)
        assert 0.47 < n / len(names) < 0.53
        assert 0.09 < found.count("validation") / n < 0.11
        assert 0.18 < found.count("test") / n < 0.22


@pytest.mark.parametrize(
    "wrong",
    [{"validation": 1.0}, {"test": -0.1}, {"validation": 0.6, "test": 0.4}, {"pool": (1, 0)}],
)
def test_shares_and_pools_that_are_none_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(TrajkitError, match="Hint"):
        Splits(**wrong)  # type: ignore[arg-type]
