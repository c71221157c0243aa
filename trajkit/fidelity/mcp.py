"""Rule checks of tool answers: JSON shape, types, success, identifiers, known values, numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from trajkit.fidelity.content import agreement, compare, earlier_texts, mask, parse_json
from trajkit.fidelity.findings import GUARD, Case, Finding, finding
from trajkit.fidelity.outcome import check_outcome, exit_code

Leaf = str | int | float | bool | None

MAX_LEAVES = 200_000
REAL_TIME_TOLERANCE = 0.2
"""Share by which a number of the running world may differ (report, section 4.2: 10 to 20 %)."""

_REAL_TIME = re.compile(
    r"price|rate|temp|wind|humid|pressure|speed|volume|market|change|percent|latency|duration|"
    r"elapsed|distance|traffic|score|balance_usd|usage|load|memory|visib|cloud|rain",
    re.IGNORECASE,
)
_ERROR_KEY = re.compile(r"/(?:error|errors|isError|is_error|exception|traceback)(?:/|\Z)")
_ERROR_TEXT = re.compile(
    r"\s*(?:\[?error\b|mcp error|exception\b|traceback\b|failed\b|invalid\b|unknown tool|"
    r"tool .{1,80} not found|input validation error|\d+ validation errors? for)",
    re.IGNORECASE,
)


def leaves(value: Any) -> list[tuple[str, Leaf]]:
    """Return the pointers and values of a decoded JSON value's leaves; list places are `*`.

    >>> leaves({"a": [{"b": 1}, {"b": None}]})
    [('/a/*/b', 1), ('/a/*/b', None)]
    """
    found: list[tuple[str, Leaf]] = []
    stack: list[tuple[str, Any]] = [("", value)]
    while stack and len(found) < MAX_LEAVES:
        pointer, top = stack.pop()
        if len(pointer) > 400:
            pointer = pointer[:400]
        if isinstance(top, dict) and top:
            stack.extend((f"{pointer}/{key[:80]}", item) for key, item in reversed(top.items()))
        elif isinstance(top, list) and top:
            stack.extend((f"{pointer}/*", item) for item in reversed(top))
        elif isinstance(top, dict | list):
            found.append((f"{pointer}/{'{}' if isinstance(top, dict) else '[]'}", None))
        else:
            found.append((pointer, top))
    return found


def decoded(text: str) -> Any:
    """Return a tool answer as a JSON value, through one layer of text parts; None for text.

    >>> decoded('{"type": "text", "text": "{\\\\"id\\\\": 7}"}')
    {'type': 'text', 'text': {'id': 7}}
    """
    value = parse_json(text)
    parts = value if isinstance(value, list) else [value]
    if value is not None and all(isinstance(p, dict) and p.get("type") == "text" for p in parts):
        inner = [
            p | {"text": decoded_part}
            for p in parts
            if (decoded_part := _inner(p.get("text"))) is not None
        ]
        if inner and len(inner) == len(parts):
            return inner if isinstance(value, list) else inner[0]
    return value


def _inner(text: Any) -> Any:
    return parse_json(text) if isinstance(text, str) else None


def kind(value: Leaf) -> str:
    """Return the JSON type of a leaf."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "null" if value is None else "string"


def fails(text: str, found: list[tuple[str, Leaf]]) -> bool:
    """Return whether a tool answer reports a failure, by its keys or by its first words."""
    for pointer, value in found:
        # An empty text, list or object of errors is no failure.
        if _ERROR_KEY.search(pointer) and value not in (None, False, "", 0):
            return True
        name = pointer.rpartition("/")[2]
        if name in ("success", "ok") and value is False:
            return True
        if name == "status" and isinstance(value, str) and value.lower() in ("error", "failed"):
            return pointer.count("/") <= 2
        if name == "text" and isinstance(value, str) and _ERROR_TEXT.match(value[:200]):
            return True
    return not found and _ERROR_TEXT.match(text[:200]) is not None


def check(case: Case) -> Iterator[Finding]:
    """Give what the rules see in a tool answer."""
    truth, guess = decoded(case.recorded), decoded(case.prediction)
    found = leaves(truth) if truth is not None else []
    got = leaves(guess) if guess is not None else []
    if truth is not None:
        yield finding(
            "not_json",
            "format",
            float(guess is not None),
            "JSON",
            "JSON" if guess is not None else case.prediction,
            weight=GUARD,
            blocking=True,
        )
    if exit_code(case.recorded) is not None:
        yield from check_outcome(case, case.recorded, case.prediction)
    else:
        failed, got_failed = fails(case.recorded, found), fails(case.prediction, got)
        yield finding(
            "wrong_exit_class",
            "factuality",
            float(failed == got_failed),
            "an error" if failed else "success",
            "an error" if got_failed else "success",
            weight=GUARD,
            blocking=True,
        )
    if truth is None:
        yield from compare(case, case.recorded, case.prediction)
        yield from _named_in_text(case)
    elif guess is not None:
        yield from _shape(found, got)
        yield from _values(case, found, got)


def _shape(found: list[tuple[str, Leaf]], got: list[tuple[str, Leaf]]) -> Iterator[Finding]:
    pointers, got_pointers = {p for p, _ in found}, {p for p, _ in got}
    lacking = sorted(pointers - got_pointers)
    extra = sorted(got_pointers - pointers)
    yield finding(
        "wrong_shape",
        "format",
        agreement(Counter(pointers), Counter(got_pointers)),
        ", ".join(lacking) or "the same keys",
        ", ".join(extra) or "nothing more",
        weight=3.0,
    )
    types = _types(found)
    got_types = _types(got)
    common = types.keys() & got_types.keys()
    if common:
        wrong = sorted(p for p in common if not types[p] & got_types[p] and _firm(types[p]))
        yield finding(
            "wrong_type",
            "format",
            1 - len(wrong) / len(common),
            f"{wrong[0]}: {', '.join(sorted(types[wrong[0]]))}" if wrong else "the same types",
            f"{wrong[0]}: {', '.join(sorted(got_types[wrong[0]]))}" if wrong else "the same types",
        )
    size, got_size = len(found), len(got)
    yield finding(
        "wrong_count",
        "quality",
        (min(size, got_size) + 2) / (max(size, got_size) + 2),
        f"{size} values",
        f"{got_size} values",
        content_class="pre_existing",
    )


def _types(found: list[tuple[str, Leaf]]) -> dict[str, set[str]]:
    types: dict[str, set[str]] = {}
    for pointer, value in found:
        types.setdefault(pointer, set()).add(kind(value))
    return types


def _firm(types: set[str]) -> bool:
    return types != {"null"}


def _values(
    case: Case, found: list[tuple[str, Leaf]], got: list[tuple[str, Leaf]]
) -> Iterator[Finding]:
    """Give whether values from the call, from earlier answers and of the running world agree."""
    named = _named(case)
    earlier = "\n".join(earlier_texts(case))
    words = set(re.findall(r"[\w.@:/-]{3,200}", earlier))
    given: Counter[tuple[str, str]] = Counter()
    known: Counter[tuple[str, str]] = Counter()
    new: list[tuple[str, Leaf]] = []
    for pointer, value in found:
        text = _plain(value)
        if text is not None and text in named:
            given[pointer, text] += 1
        elif text is not None and (text in words or f'"{text}"' in earlier[:200_000]):
            known[pointer, text] += 1
        else:
            new.append((pointer, value))
    have = Counter((p, text) for p, value in got if (text := _plain(value)) is not None)
    for slug, wanted in (("wrong_identifier", given), ("wrong_known_value", known)):
        if not wanted:
            continue
        lost = wanted - have
        pointer, shown_value = next(iter(lost or wanted))
        yield finding(
            slug,
            "factuality" if slug == "wrong_identifier" else "consistency",
            1 - lost.total() / wanted.total(),
            f"{pointer}: {shown_value}",
            f"{lost.total()} of {wanted.total()} values differ",
            weight=3.0 if slug == "wrong_identifier" else 2.0,
            blocking=slug == "wrong_identifier",
        )
    yield from _numbers(new, got)


def _named(case: Case) -> set[str]:
    call = parse_json(case.action.action)
    arguments = call.get("arguments", call) if isinstance(call, dict) else call
    plain = (_plain(value) for _, value in leaves(arguments))
    return {text for text in plain if text is not None}


def _plain(value: Leaf) -> str | None:
    """Return a telling leaf as text: no null, no truth value, no single sign."""
    if value is None or isinstance(value, bool):
        return None
    text = str(value)
    return text if len(text) >= 2 else None


def _numbers(new: list[tuple[str, Leaf]], got: list[tuple[str, Leaf]]) -> Iterator[Finding]:
    wanted = _real_time(new)
    have = _real_time(got)
    scores = []
    worst = ("", 0.0, 0.0)
    for pointer in wanted.keys() & have.keys():
        for number, other in zip(wanted[pointer], have[pointer], strict=False):
            allowed = REAL_TIME_TOLERANCE * abs(number)
            off = abs(number - other)
            scores.append(1.0 if off <= allowed else max(0.0, 1 - (off - allowed) / (off + 1e-9)))
            if scores[-1] < 1.0:
                worst = pointer, number, other
    if scores:
        yield finding(
            "number_out_of_range",
            "realism",
            sum(scores) / len(scores),
            f"{worst[0]}: {worst[1]}" if worst[0] else "numbers of the same size",
            f"{worst[0]}: {worst[2]}" if worst[0] else "numbers of the same size",
            content_class="runtime_metadata",
            weight=2.0,
        )
    texts = [str(value) for _, value in new if isinstance(value, str)]
    got_texts = [str(value) for _, value in got if isinstance(value, str)]
    if texts and got_texts:
        size = sum(map(len, texts)) / len(texts)
        got_size = sum(map(len, got_texts)) / len(got_texts)
        yield finding(
            "unlike_texts",
            "realism",
            min(1.0, 2 * (min(size, got_size) + 10) / (max(size, got_size) + 10)),
            mask(texts[0]),
            mask(got_texts[0]),
            content_class="pre_existing",
        )


def _real_time(found: list[tuple[str, Leaf]]) -> dict[str, list[float]]:
    numbers: dict[str, list[float]] = {}
    for pointer, value in found:
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if _REAL_TIME.search(pointer.rpartition("/")[2]) and abs(value) < 1e15:
            numbers.setdefault(pointer, []).append(float(value))
    return numbers


def _named_in_text(case: Case) -> Iterator[Finding]:
    wanted = [text for text in sorted(_named(case)) if text in case.recorded and len(text) <= 200]
    if wanted:
        there = [text for text in wanted if text in case.prediction]
        lost = next((text for text in wanted if text not in there), "")
        yield finding(
            "wrong_identifier",
            "factuality",
            len(there) / len(wanted),
            lost or ", ".join(wanted),
            "missing" if lost else "all there",
            weight=3.0,
            blocking=True,
        )
