"""Checks that hold for every domain: emptiness, left-over marks, loops, talk, copies."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator

from trajkit.control_tokens import escape
from trajkit.fidelity.content import action_text, edges, previous_state
from trajkit.fidelity.findings import GUARD, Case, Finding, finding

MIN_LOOP_CHARS = 400
LOOP_RATIO = 0.06
LENGTH_SLACK_CHARS = 400
TALK_CHARS = 8_000
"""How much of a long answer is searched for talk: it stands at the edges."""
_FIELD = re.compile(
    r"</?predicted_observation>|</?think>|\*\*Environment Observation:\*\*|"
    r"^### Turn \d|\*\*Action:\*\*",
    re.MULTILINE,
)
_TALK = re.compile(
    r"\bas an ai\b|\bas a (?:large )?language model\b|\bas a world model\b"
    r"|\bi(?:'m| am) (?:sorry|unable)\b|\bi (?:cannot|can't) "
    r"(?:simulate|predict|execute|run|access)\b"
    r"|\b(?:here is|here's|below is|this is) (?:the|a|my) (?:predicted|simulated|expected|likely) "
    r"|\bthe (?:environment|terminal|tool|system|simulator) (?:would|will) (?:likely |then |now )?"
    r"(?:return|print|show|respond|output|answer)\b"
    r"|\b(?:predicted|simulated) (?:observation|output|response|environment)\b"
    r"|\b(?:in|for) this simulation\b|\bthis is a simulat|\blet me (?:think|simulate|predict)\b"
    r"|\bi (?:would|will) (?:expect|predict|simulate)\b|\bplausible (?:output|response)\b",
    re.IGNORECASE,
)
_SPACE = re.compile(r"\s+")


def squeezed(text: str) -> str:
    """Return a text with each run of white space made one blank."""
    return _SPACE.sub(" ", text).strip()


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
    talk = {match.group().lower() for match in _TALK.finditer(edges(prediction, TALK_CHARS))}
    talk -= {match.group().lower() for match in _TALK.finditer(edges(recorded, 2 * TALK_CHARS))}
    yield finding(
        "meta_talk",
        "realism",
        float(not talk),
        "no talk about the simulation",
        ", ".join(sorted(talk)) or "none",
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
    wrapped, got_wrapped = (text.strip().startswith("```") for text in (recorded, prediction))
    if got_wrapped and not wrapped:
        yield finding("code_fence", "format", 0.0, recorded, prediction, blocking=True)


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
