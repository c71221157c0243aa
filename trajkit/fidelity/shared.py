"""Checks that hold for every domain: emptiness, left-over marks, loops, talk, copies."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from functools import lru_cache

from trajkit.control_tokens import escape
from trajkit.fidelity.content import action_text, parse_json, previous_state
from trajkit.fidelity.findings import GUARD, Case, Finding, finding
from trajkit.fidelity.talk import talk_about_itself

MIN_LOOP_CHARS = 400
LOOP_RATIO = 0.06
LENGTH_SLACK_CHARS = 400
MAX_FORM_LINES = 50
"""How many lines tell the form of a text."""
LISTED_SHARE = 0.9
"""Share of lines that begin alike in a list or a table."""
_FIELD = re.compile(
    r"</?predicted_observation>|</?think>|\*\*Environment Observation:\*\*|"
    r"^### Turn \d|\*\*Action:\*\*",
    re.MULTILINE,
)
_OPENED = re.compile(r"<([A-Za-z][\w:-]{0,40})>")
_LABEL = re.compile(r"(?:\*\*)?(?:Output|Result|Response|Observation|Answer)(?:\*\*)?:(?:\*\*)?\s")


def squeezed(text: str) -> str:
    """Return a text with each run of white space made one blank."""
    return " ".join(text.split())


def compression(text: str) -> float:
    """Return the compressed size of a text over its size; loops come out far under 0.1."""
    raw = text.encode("utf-8", "surrogatepass")
    return len(zlib.compress(raw, 1)) / len(raw) if raw else 1.0


def check_presence(case: Case) -> Iterator[Finding]:
    """Give whether an answer is there exactly where the environment gave one."""
    empty, got_empty = not case.recorded.strip(), not case.prediction.strip()
    if empty and got_empty:
        return
    yield finding(
        "invented_output" if empty else "empty_prediction",
        "factuality",
        float(empty == got_empty),
        case.recorded,
        case.prediction,
        weight=GUARD,
        blocking=True,
    )


def check_shared(case: Case) -> Iterator[Finding]:
    """Give the findings that need no knowledge of the domain; both sides hold text."""
    recorded, prediction = case.recorded, case.prediction
    yield from _leftovers(recorded, prediction)
    yield from _length(recorded, prediction)
    talk = talk_about_itself(recorded, prediction)
    yield finding(
        "meta_talk",
        "realism",
        float(talk is None),
        "no talk about the simulation",
        talk or "none",
        weight=GUARD,
        blocking=True,
    )
    plain, got_plain = squeezed(recorded), squeezed(prediction)
    for own in (case.action.action, action_text(case.action.action)):
        if got_plain == squeezed(own) != plain:
            yield finding("action_copy", "realism", 0.0, recorded, prediction, blocking=True)
            break
    previous = previous_state(case)
    if previous is not None and got_plain == squeezed(previous) != plain:
        yield finding("stale_copy", "consistency", 0.0, recorded, prediction, blocking=True)


def _leftovers(recorded: str, prediction: str) -> Iterator[Finding]:
    marks = [match.group() for match in _FIELD.finditer(prediction)]
    known = {match.group() for match in _FIELD.finditer(recorded)}
    left = [mark for mark in marks if mark not in known]
    yield finding(
        "answer_mark",
        "format",
        float(not left),
        "no marks of the prompt",
        left[0] if left else "none",
        weight=GUARD,
        blocking=True,
    )
    n_tokens, n_got = escape(recorded)[1], escape(prediction)[1]
    if n_got > n_tokens:
        yield finding("control_token", "format", 0.0, n_tokens, n_got)
    wanted, got = form(recorded), form(prediction)
    if got not in ("plain", wanted):
        check = "code_fence" if got == "fence" else "wrong_form"
        yield finding(check, "format", 0.0, wanted, got, blocking=True)


@lru_cache(maxsize=32)
def form(text: str) -> str:
    """Return in which outer form a text stands; plain for none.

    >>> form("a\\nb"), form("- a\\n- b"), form('{"a": 1}'), form("<r>\\na\\n</r>")
    ('plain', 'bullets', 'json', 'tagged')
    """
    stripped = text.strip()
    if stripped[:3] == "```":
        return "fence"
    if stripped[:1] in ("{", "[") and stripped[-1:] in ("}", "]"):
        return "json" if parse_json(stripped) is not None else "plain"
    tag = _OPENED.match(stripped)
    if tag is not None and stripped.endswith(f"</{tag.group(1)}>"):
        return "tagged"
    if _LABEL.match(stripped):
        return "labelled"
    lines = [line.lstrip()[:2] for line in stripped.split("\n", MAX_FORM_LINES)[:MAX_FORM_LINES]]
    lines = [line for line in lines if line]
    for name, starts in (("bullets", ("- ", "* ")), ("table", ("|", "| ", "||", "|-"))):
        if lines and sum(line in starts for line in lines) >= LISTED_SHARE * len(lines):
            return name
    return "plain"


def _length(recorded: str, prediction: str) -> Iterator[Finding]:
    size, got_size = len(recorded), len(prediction)
    yield finding(
        "runaway_length",
        "quality",
        float(got_size <= 4 * size + 4 * LENGTH_SLACK_CHARS),
        f"{size} characters",
        f"{got_size} characters",
        content_class="pre_existing",
        weight=GUARD,
        blocking=True,
    )
    slack = LENGTH_SLACK_CHARS / 4
    ratio = (min(size, got_size) + slack) / (max(size, got_size) + slack)
    yield finding(
        "unlike_length",
        "quality",
        min(1.0, 2 * ratio),
        f"{size} characters",
        f"{got_size} characters",
        content_class="pre_existing",
        weight=0.5,
    )
    if got_size >= MIN_LOOP_CHARS:
        got_ratio = compression(prediction)
        loops = got_ratio < LOOP_RATIO and got_ratio < 0.6 * compression(recorded)
        yield finding(
            "repetition",
            "quality",
            float(not (loops and got_size > 0.8 * size)),
            "no loop",
            f"compresses to {got_ratio:.3f}",
            content_class="pre_existing",
            weight=GUARD,
            blocking=True,
        )
