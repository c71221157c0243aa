"""What a call and the turns before it say about the values of a tool's answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

from trajkit.fidelity.content import MAX_HISTORY_CHARS, mask, parse_json
from trajkit.fidelity.findings import GUARD, Case, Finding, Turn, finding
from trajkit.fidelity.json_shape import (
    Leaf,
    Record,
    is_fraction,
    leaves,
    plain_text,
    read_answer,
    record,
)

MAX_ARGUMENTS = 100
MAX_COMPARED_RECORDS = 500
MAX_SEARCHED_CHARS = 100_000
"""A longer answer is searched for the arguments of its own call alone."""
MAX_BESIDE = 20
MAX_TERMS = 24
"""An object with more numbers than this is not searched for sums."""
SHORT_TEXT_CHARS = 500
"""In an answer no longer than this, even a one-digit argument that comes back is an echo."""
TOLERATED_SHARE = 0.05
"""Of many values that are known, so many may differ before the answer fails for it."""


def strict(n_lost: int, n: int) -> float:
    """Return the share of known values that are there, under 0.5 once more than a few are lost.

    >>> strict(1, 100), strict(1, 4)
    (0.99, 0.375)
    """
    share = 1 - n_lost / n
    return share if n_lost <= n * TOLERATED_SHARE else share / 2


@lru_cache(maxsize=256)
def arguments(action: str) -> tuple[tuple[str, str], ...]:
    """Return the last keys and the values of a call's arguments.

    >>> arguments('{"name": "get", "arguments": {"sku": "A-1", "full": true}}')
    (('sku', 'A-1'),)
    """
    call = parse_json(action)
    given: Any = call.get("arguments", call) if isinstance(call, dict) else call
    if isinstance(given, str):
        given = parse_json(given) or given
    if call is None:
        return ()
    found = ((pointer, plain_text(value)) for pointer, value in leaves(given))
    named = ((_last_key(pointer), text) for pointer, text in found if text)
    return tuple(islice(named, MAX_ARGUMENTS))


def _last_key(pointer: str) -> str:
    return next((key for key in reversed(pointer.split("/")) if key not in ("*", "~")), "")


def whole(value: str, text: str) -> bool:
    """Return whether a value stands in a text with no letter or digit of another word beside it.

    >>> whole("12", "a 12, b"), whole("12", "a 123")
    (True, False)
    """
    start = text.find(value)
    while start >= 0:
        before, after = text[start - 1 : start], text[start + len(value) : start + len(value) + 1]
        if not (before.isalnum() and value[0].isalnum()) and not (
            after.isalnum() and value[-1].isalnum()
        ):
            return True
        start = text.find(value, start + 1)
    return False


def check_given(
    case: Case, found: Sequence[tuple[str, Leaf]], got: Sequence[tuple[str, Leaf]]
) -> Iterator[Finding]:
    """Give whether the arguments that the recording gives back come back at the same pointers.

    A list keeps an argument where all of its values are that argument or hold it, and has it at
    least once where some are.
    """
    here, there = _by_pointer(found), _by_pointer(got)
    lost, n, shown = 0, 0, ""
    for key, value in arguments(case.action.action):
        for pointer, values in here.items():
            own = _last_key(pointer).lower() == key.lower()
            if not own and (len(value) < 3 or is_fraction(value)):
                continue
            everywhere = all(one == value for one in values)
            if everywhere or value in values:
                n += 1
                new = there.get(pointer, [])
                kept = new and all(one == value for one in new) if everywhere else value in new
            elif not own and all(value in one for one in values):
                n += 1
                kept = pointer in there and all(value in one for one in there[pointer])
            else:
                continue
            if not kept:
                lost, shown = lost + 1, f"{pointer}: {value}"
    if n:
        yield finding(
            "wrong_identifier",
            "factuality",
            strict(lost, n),
            shown or "the arguments given back",
            f"{lost} of {n} differ",
            weight=3.0,
            blocking=True,
        )


def _by_pointer(found: Sequence[tuple[str, Leaf]]) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for pointer, value in found:
        if (text := plain_text(value)) is not None:
            values.setdefault(pointer, []).append(text)
    return values


def check_given_in_text(case: Case) -> Iterator[Finding]:
    """Give whether a plain text names the arguments that the recorded one names.

    That holds for the arguments of earlier calls too, where they are telling.
    """
    recorded, prediction = case.recorded, case.prediction
    short = len(recorded) <= SHORT_TEXT_CHARS
    wanted = {
        value
        for _, value in arguments(case.action.action)
        if (short or len(value) >= 3) and len(value) <= 200 and whole(value, recorded)
    }
    for turn in case.history[-50:] if len(recorded) <= MAX_SEARCHED_CHARS else ():
        for _, value in arguments(turn.action):
            telling = len(value) >= 8 or (len(value) >= 4 and any(map(str.isdigit, value)))
            if telling and len(value) <= 200 and whole(value, recorded):
                wanted.add(value)
    if wanted:
        lost = sorted(value for value in wanted if not whole(value, prediction))
        yield finding(
            "wrong_identifier",
            "factuality",
            strict(len(lost), len(wanted)),
            lost[0] if lost else ", ".join(sorted(wanted)),
            f"{len(lost)} of {len(wanted)} are missing",
            weight=3.0,
            blocking=True,
        )


def check_records(
    case: Case, found: Sequence[Record], got: Sequence[Record], known: Mapping[str, set[str]]
) -> Iterator[Finding]:
    """Give whether objects told of before, by the same identifier, keep their known values."""
    own = {value for _, value in arguments(case.action.action)}
    mine: dict[str, list[Mapping[str, str]]] = defaultdict(list)
    for one in got[:MAX_COMPARED_RECORDS]:
        for name in one.names:
            mine[name].append(one.values)
    lost, n, shown = 0, 0, ""
    for one in found[:MAX_COMPARED_RECORDS]:
        told: set[str] = set().union(*(known[name] for name in one.names if name in known))
        if not told:
            continue
        derived = {
            key: value
            for key, value in one.values.items()
            if len(value) >= 2 and (value in told or value in own)
        }
        wrong = list(derived)
        for name in one.names:
            for beside in mine.get(name, ())[:MAX_BESIDE]:
                here = [key for key, value in derived.items() if beside.get(key) != value]
                wrong = min(wrong, here, key=len)
                if not wrong:
                    break
        n += len(derived)
        if wrong:
            lost, shown = lost + len(wrong), f"{wrong[0]}: {derived[wrong[0]]}"
    if n:
        yield finding(
            "wrong_known_value",
            "factuality",
            strict(lost, n),
            shown or "values told before",
            f"{lost} of {n} values differ",
            weight=2.0,
            blocking=True,
        )


@lru_cache(maxsize=4)
def told_before(history: tuple[Turn, ...]) -> Mapping[str, set[str]]:
    """Return the values that stood beside each identifier in earlier calls and answers."""
    told: dict[str, set[str]] = defaultdict(set)
    left = MAX_HISTORY_CHARS
    for turn in reversed(history):
        observation = turn.observation or ""
        left -= len(observation) + len(turn.action)
        if left < 0:
            break
        records = [*read_answer(observation).records[:MAX_COMPARED_RECORDS]]
        records.append(record(dict(arguments(turn.action))))
        for one in records:
            for name in one.names:
                told[name].update(one.values.values())
    return dict(told)


def check_sums(
    case: Case, found: Sequence[tuple[str, Leaf]], got: Sequence[tuple[str, Leaf]]
) -> Iterator[Finding]:
    """Give whether two numbers that differ by an argument still do: a balance before and after."""
    steps = change_steps(case.action.action)
    here = _numbers(found)
    if not steps or not 2 <= len(here) <= MAX_TERMS:
        return
    there = _numbers(got)
    held, n, shown = 0, 0, ""
    pointers = list(here)
    for place, first in enumerate(pointers):
        for second in pointers[place + 1 :]:
            gap = here[second] - here[first]
            if round(abs(gap), 6) not in steps:
                continue
            n += 1
            if first in there and second in there:
                held += abs(there[second] - there[first] - gap) < 1e-6
            shown = f"{second} - {first} = {gap:g}"
    if n:
        yield finding(
            "wrong_sum",
            "factuality",
            held / n,
            shown,
            "the same" if held == n else "another difference",
            weight=2.0,
            blocking=True,
        )


def _numbers(found: Sequence[tuple[str, Leaf]]) -> dict[str, float]:
    """Return the numbers that stand at a pointer of their own."""
    numbers = {
        pointer: float(value)
        for pointer, value in found
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15
    }
    return {pointer: value for pointer, value in numbers.items() if "/*" not in pointer}


def change_steps(action: str) -> set[float]:
    """Return by how much a call may change a number: those among its arguments, without sign."""
    return {abs(number) for _, value in arguments(action) if (number := _number(value))}


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < abs(value) < 1e15 else None


def check_repeat(case: Case) -> Iterator[Finding]:
    """Give whether a call that was made before, with the recorded answer, is answered so again."""
    calls = [t for t in case.history if t.action == case.action.action and t.observation]
    recorded = " ".join(mask(case.recorded).split()) if calls else ""
    if calls and " ".join(mask(calls[-1].observation or "").split()) == recorded:
        again = " ".join(mask(case.prediction).split()) == recorded
        yield finding(
            "unlike_repeat",
            "consistency",
            float(again),
            "the answer that the same call had before",
            "the same" if again else case.prediction,
            weight=GUARD,
            blocking=True,
        )
