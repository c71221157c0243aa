"""Rule checks of coding tools: exit codes, errors, frames, listings, tests, paths."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from trajkit.fidelity.compare import compare, whole_or_not
from trajkit.fidelity.content import action_text, agreement, lines_of, overlap, parse_json
from trajkit.fidelity.findings import GUARD, Case, Finding, finding
from trajkit.fidelity.mcp import check as check_tool
from trajkit.fidelity.outcome import check_outcome, reads_content

MIN_NUMBERED_LINES = 2
_TAG = re.compile(r"^</?[a-z_]{2,30}>", re.MULTILINE)
_FRAME_LINE = re.compile(r"</?[a-z_]{2,30}>(?:[^<>\n]{0,80}</[a-z_]{2,30}>)?\s*\Z")
_NUMBERED = re.compile(r"^ {0,8}(\d{1,7})(\t|: ?|\||→| {2,4})(.*)$", re.MULTILINE)
_TESTS = re.compile(
    r"(?<![\d.])(\d{1,6}) (passed|failed|errors?|skipped|xfailed|xpassed|deselected)\b"
    r"|^Ran (\d{1,6}) tests?|^(OK)(?: \(.*\))?$",
    re.MULTILINE,
)
_PATH = re.compile(r"(?<![\w/])(?:[\w.-]{1,80}/){0,12}[\w-][\w.-]{0,80}\.[A-Za-z]{1,6}(?!\w)")
_HUNK = re.compile(r"@@ -\d{1,9}(?:,(\d{1,9}))? \+\d{1,9}(?:,(\d{1,9}))? @@")
_FRAME_HEAD = re.compile(
    r"Here's the (?:result|files)|OBSERVATION:|Exit code|\[File: |diff --git"
    r"|Execution logs:|Out\[|Code execution failed"
)


def check(case: Case) -> Iterator[Finding]:
    """Give what the rules see in the answer of a coding tool."""
    wrapped = _wrapped(case.recorded)
    if wrapped is not None:
        yield from _fields(case, wrapped)
        got = _wrapped(case.prediction) or wrapped
        case = replace(case, recorded=wrapped["output"], prediction=got["output"])
    elif parse_json(case.recorded) is not None and not _NUMBERED.search(case.recorded):
        yield from check_tool(case)
        return
    else:
        yield from check_outcome(case, case.recorded, case.prediction)
    yield from _frame(case)
    yield from _tests(case)
    yield from _listing(case)
    yield from _diff(case)
    yield from _paths(case)
    yield from _inside(case)


def _wrapped(text: str) -> dict[str, Any] | None:
    """Return the fields of a JSON answer that holds an output and a return code."""
    value = parse_json(text)
    if isinstance(value, dict) and isinstance(value.get("output"), str) and "returncode" in value:
        return value
    return None


def _fields(case: Case, wrapped: dict[str, Any]) -> Iterator[Finding]:
    """Give whether the same JSON fields came, and whether the command ended alike."""
    got = _wrapped(case.prediction)
    yield finding(
        "wrong_shape",
        "format",
        float(got is not None and got.keys() == wrapped.keys()),
        ", ".join(wrapped),
        "other text" if got is None else ", ".join(got),
        weight=2.0,
        blocking=True,
    )
    if got is not None:
        code, got_code = wrapped["returncode"], got["returncode"]
        yield finding(
            "wrong_exit_class",
            "factuality",
            float((code == 0) == (got_code == 0)),
            code,
            got_code,
            weight=GUARD,
            blocking=True,
        )
        if code != 0 and got_code != 0:
            yield finding("wrong_exit_code", "factuality", float(code == got_code), code, got_code)


def _inside(case: Case) -> Iterator[Finding]:
    """Give how the text within the tool's frame compares; an empty frame must stay empty."""
    recorded, prediction = (_without_frame(text) for text in (case.recorded, case.prediction))
    if bool(recorded) != bool(prediction):
        yield finding(
            "missing_output" if recorded else "broken_silence",
            "factuality",
            0.0,
            recorded or "no output",
            prediction or "no output",
            blocking=True,
        )
    elif recorded:
        yield from compare(case, recorded, prediction)


def _without_frame(text: str) -> str:
    return "\n".join(
        line for line in lines_of(text) if line[:1] != "<" or not _FRAME_LINE.match(line)
    ).strip("\n")


def _frame(case: Case) -> Iterator[Finding]:
    ends, got = (_ends(text) for text in (case.recorded, case.prediction))
    if any(ends):
        yield finding(
            "wrong_frame",
            "format",
            float(ends == got),
            " ... ".join(ends),
            " ... ".join(got),
            weight=2.0,
            blocking=True,
        )
    head = _FRAME_HEAD.match(case.recorded)
    if head is not None:
        yield finding(
            "wrong_heading",
            "format",
            float(case.prediction.startswith(head.group())),
            head.group(),
            case.prediction[:40],
            blocking=True,
        )


def _ends(text: str) -> tuple[str, str]:
    """Return the tags with which the first and the last line begin."""
    lines = text.strip().split("\n")
    first, last = _TAG.match(lines[0]), _TAG.match(lines[-1])
    return first.group() if first else "", last.group() if last else ""


def _tests(case: Case) -> Iterator[Finding]:
    wanted, got = _TESTS.findall(case.recorded), _TESTS.findall(case.prediction)
    if wanted and not reads_content(case):
        yield finding(
            "wrong_test_outcome",
            "factuality",
            agreement(Counter(wanted), Counter(got)),
            "; ".join(" ".join(filter(None, row)) for row in wanted[-6:]),
            "; ".join(" ".join(filter(None, row)) for row in got[-6:]) or "no summary",
            weight=3.0,
        )


def _listing(case: Case) -> Iterator[Finding]:
    """Give whether a numbered listing is numbered alike: same separator, first line, steps."""
    rows = _NUMBERED.findall(case.recorded)
    if len(rows) < max(MIN_NUMBERED_LINES, 0.3 * case.recorded.count("\n")):
        return
    got = _NUMBERED.findall(case.prediction)
    yield finding(
        "missing_line_numbers",
        "format",
        overlap(Counter([rows[0][1]]), Counter(row[1] for row in got)),
        f"{len(rows)} numbered lines",
        f"{len(got)} numbered lines",
        weight=2.0,
        blocking=True,
    )
    numbers, got_numbers = ([int(row[0]) for row in side] for side in (rows, got))
    if _gap(numbers) is not None:
        # What a search found: where, is the file's.
        return
    yield finding(
        "wrong_line_numbers",
        "factuality",
        agreement(Counter(map(str, numbers)), Counter(map(str, got_numbers))),
        f"{numbers[0]} to {numbers[-1]}",
        f"{got_numbers[0]} to {got_numbers[-1]}" if got else "none",
    )
    gap = _gap(got_numbers)
    yield finding(
        "broken_numbering",
        "consistency",
        float(gap is None),
        "each line numbered one more than the last",
        gap or "so it is",
        weight=GUARD,
        blocking=True,
    )


def _gap(numbers: Sequence[int]) -> str | None:
    """Return where numbers do not go up by one."""
    for number, following in pairwise(numbers):
        if following != number + 1:
            return f"{following} after {number}"
    return None


def _diff(case: Case) -> Iterator[Finding]:
    """Give whether a diff holds the lines that its hunk headings announce."""
    n_hunks, fault = _hunks(case.recorded)
    if n_hunks and fault is None:
        n_got, fault = _hunks(case.prediction)
        yield finding(
            "broken_diff",
            "consistency",
            float(bool(n_got) and fault is None),
            f"{n_hunks} hunks that apply",
            fault or f"{n_got} hunks",
            weight=GUARD,
            blocking=True,
        )


def _hunks(text: str) -> tuple[int, str | None]:
    """Return the number of hunks, and the heading of the first that does not hold its lines."""
    lines = text.split("\n")
    n_hunks, number = 0, 0
    while number < len(lines):
        heading = _HUNK.match(lines[number])
        number += 1
        if heading is None:
            continue
        n_hunks += 1
        left = {side: int(size or 1) for side, size in zip("-+", heading.groups(), strict=True)}
        while number < len(lines) and max(left.values()) > 0:
            sign = lines[number][:1]
            if sign not in ("", " ", "-", "+", "\\"):
                break
            for side in left:
                if sign in ("", " ", side):
                    left[side] -= 1
            number += 1
        rest = lines[number] if number < len(lines) else ""
        more = rest[:1] in (" ", "-", "+") and not rest.startswith(("--- ", "+++ "))
        if any(left.values()) or more:
            return n_hunks, heading.group()
    return n_hunks, None


def _paths(case: Case) -> Iterator[Finding]:
    """Give whether paths that the action names and the answer repeats are repeated."""
    named = set(_PATH.findall(action_text(case.action.action)[:20_000]))
    wanted = {path for path in named if path in case.recorded}
    if wanted:
        lost = sorted(path for path in wanted if path not in case.prediction)
        yield finding(
            "wrong_path",
            "factuality",
            whole_or_not(1 - len(lost) / len(wanted)),
            lost[0] if lost else min(wanted),
            "missing" if lost else "there",
            weight=2.0,
            blocking=True,
        )
