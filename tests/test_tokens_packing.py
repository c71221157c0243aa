"""Packing: every example once, no window over its length, and few windows."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajkit.tokens import pack

CAPACITIES = st.integers(1, 3000)


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[int], int]:
    capacity = draw(CAPACITIES)
    return draw(st.lists(st.integers(0, capacity), max_size=60)), capacity


def plain_best_fit(lengths: list[int], capacity: int) -> int:
    """Return how many bins best-fit decreasing needs, found by looking at every bin."""
    rooms: list[int] = []
    for length in sorted(lengths, reverse=True):
        fitting = [room for room in rooms if room >= length]
        if fitting:
            rooms.remove(min(fitting))
            rooms.append(min(fitting) - length)
        else:
            rooms.append(capacity - length)
    return len(rooms)


@given(problems())
def test_each_example_is_in_one_window_and_no_window_is_too_long(
    problem: tuple[list[int], int],
) -> None:
    lengths, capacity = problem
    bins = pack(lengths, capacity)
    assert sorted(index for indices in bins for index in indices) == list(range(len(lengths)))
    assert all(sum(lengths[index] for index in indices) <= capacity for indices in bins)
    assert all(indices == sorted(indices) and indices for indices in bins)
    assert bins == sorted(bins) == pack(tuple(lengths), capacity)


@given(problems())
def test_there_are_as_few_windows_as_best_fit_decreasing_finds(
    problem: tuple[list[int], int],
) -> None:
    lengths, capacity = problem
    assert len(pack(lengths, capacity)) == plain_best_fit(lengths, capacity)


@pytest.mark.parametrize("length", [-1, 11])
def test_an_example_that_fits_no_window_is_an_error(length: int) -> None:
    with pytest.raises(ValueError, match=f"example 1 has {length} tokens, the window 10"):
        pack([3, length], 10)
    with pytest.raises(ValueError, match="holds nothing"):
        pack([], 0)


def test_a_realistic_mix_fills_its_windows() -> None:
    draw = random.Random(7)
    lengths = [min(8192, int(draw.lognormvariate(7, 1.2))) for _ in range(20_000)]
    bins = pack(lengths, 8192)
    assert sum(lengths) / (8192 * len(bins)) > 0.99
