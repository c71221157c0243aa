"""Numbers of the running world, such as prices and temperatures: of the same size, not the same."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from trajkit.fidelity.content import shape
from trajkit.fidelity.findings import Case, Finding, finding
from trajkit.fidelity.json_shape import Leaf

REAL_TIME_TOLERANCE = 0.2
"""Share by which a number of the running world may differ (report, section 4.2: 10 to 20 %)."""

_REAL_TIME = re.compile(
    r"price|rate|temp|wind|humid|pressure|speed|volume|market|change|percent|latency|duration|"
    r"elapsed|distance|traffic|score|balance_usd|usage|load|memory|visib|cloud|rain|weather",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"-?\d{1,12}(?:\.\d{1,6})?")


def check_numbers_in_text(case: Case) -> Iterator[Finding]:
    """Give whether the numbers of a text about the running world are of the recorded size."""
    if _REAL_TIME.search(case.action.action_name or "") is None:
        return
    if shape(case.recorded) == shape(case.prediction):
        sides = (_NUMBER.findall(text) for text in (case.recorded, case.prediction))
        pairs = [("", float(a), float(b)) for a, b in zip(*sides, strict=False)]
        yield from _range(pairs)


def check_moving_numbers(
    new: Sequence[tuple[str, Leaf]], got: Sequence[tuple[str, Leaf]]
) -> Iterator[Finding]:
    """Give whether numbers whose key names a thing that moves are of the recorded size."""
    wanted, have = _moving(new), _moving(got)
    yield from _range(
        [
            (pointer, number, other)
            for pointer in wanted.keys() & have.keys()
            for number, other in zip(wanted[pointer], have[pointer], strict=False)
        ]
    )


def _range(pairs: Sequence[tuple[str, float, float]]) -> Iterator[Finding]:
    """Give whether numbers of the running world are of the recorded size."""
    scores, worst = [], None
    for pointer, number, other in sorted(pairs):
        allowed, off = REAL_TIME_TOLERANCE * abs(number), abs(number - other)
        scores.append(1.0 if off <= allowed else max(0.0, 1 - (off - allowed) / (off + 1e-9)))
        if scores[-1] < 1.0:
            worst = pointer, number, other
    if scores:
        yield finding(
            "number_out_of_range",
            "realism",
            sum(scores) / len(scores),
            f"{worst[0]}: {worst[1]}" if worst else "numbers of the same size",
            f"{worst[0]}: {worst[2]}" if worst else "numbers of the same size",
            content_class="runtime_metadata",
            weight=2.0,
        )


def _moving(found: Sequence[tuple[str, Leaf]]) -> dict[str, list[float]]:
    numbers: dict[str, list[float]] = {}
    for pointer, value in found:
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if _REAL_TIME.search(pointer.rpartition("/")[2]) and abs(value) < 1e15:
            numbers.setdefault(pointer, []).append(float(value))
    return numbers
