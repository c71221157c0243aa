"""Rule checks of coding tools: exit codes, errors, frames, listings, tests, paths."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from trajkit.fidelity.content import action_text, agreement, compare, lines_of, overlap, parse_json
from trajkit.fidelity.findings import Case, Finding, finding
from trajkit.fidelity.mcp import check as check_tool
from trajkit.fidelity.outcome import check_outcome

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
_FRAME_HEAD = re.compile(r"Here's the (?:result|files)|OBSERVATION:|Exit code|\[File: |diff --git")


def check(case: Case) -> Iterator[Finding]:
    """Give what the rules see in the answer of a coding tool."""
    if parse_json(case.recorded) is not None and not _NUMBERED.search(case.recorded):
        yield from check_tool(case)
        return
    yield from check_outcome(case, case.recorded, case.prediction)
    yield from _frame(case)
    yield from _tests(case)
    yield from _listing(case)
    yield from _paths(case)
    yield from _inside(case)


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
        )


def _ends(text: str) -> tuple[str, str]:
    """Return the tags with which the first and the last line begin."""
    lines = text.strip().split("\n")
    first, last = _TAG.match(lines[0]), _TAG.match(lines[-1])
    return first.group() if first else "", last.group() if last else ""


def _tests(case: Case) -> Iterator[Finding]:
    wanted, got = _TESTS.findall(case.recorded), _TESTS.findall(case.prediction)
    if wanted:
        yield finding(
            "wrong_test_outcome",
            "factuality",
            agreement(Counter(wanted), Counter(got)),
            "; ".join(" ".join(filter(None, row)) for row in wanted[-6:]),
            "; ".join(" ".join(filter(None, row)) for row in got[-6:]) or "no summary",
            weight=2.0,
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
    )
    numbers, got_numbers = (Counter(row[0] for row in side) for side in (rows, got))
    yield finding(
        "wrong_line_numbers",
        "factuality",
        agreement(numbers, got_numbers),
        f"{rows[0][0]} to {rows[-1][0]}",
        f"{got[0][0]} to {got[-1][0]}" if got else "none",
    )


def _paths(case: Case) -> Iterator[Finding]:
    """Give whether paths that the action names and the answer repeats are repeated."""
    named = set(_PATH.findall(action_text(case.action.action)[:20_000]))
    wanted = {path for path in named if path in case.recorded}
    if wanted:
        lost = sorted(path for path in wanted if path not in case.prediction)
        yield finding(
            "wrong_path",
            "factuality",
            1 - len(lost) / len(wanted),
            lost[0] if lost else sorted(wanted)[0],
            "missing" if lost else "there",
            weight=2.0,
        )
