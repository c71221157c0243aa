"""Rule checks of what tells one screen from another: address, title, focus, typed text, errors."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from trajkit.fidelity.changes import Change
from trajkit.fidelity.content import agreement, likeness, mask
from trajkit.fidelity.findings import GUARD, Case, Finding, finding
from trajkit.fidelity.gestures import typed_text
from trajkit.fidelity.trees import Screen, texts_of

MAX_LABEL_CHARS = 40
MAX_NOTICE_CHARS = 80
"""A notice of an error is short; longer texts speak of errors as content."""

_ERROR_LINE = re.compile(r"(?i)error from last action|^last.action.error|^traceback|^\w*error:")
_NOTICE = re.compile(
    r"(?i)\b(?:40[0134]|50[0234]) (?:not found|forbidden|error|bad|internal|service|gateway)"
    r"|\bpage (?:was |is |could |can)? ?not\b|keeps stopping|isn.t responding|something went wrong"
    r"|\baccess denied\b|can.t be reached|/page error$",
    re.MULTILINE,
)
_DIGITS = re.compile(r"\d+")


def check_anchors(wanted: Change, got: Change) -> Iterator[Finding]:
    """Give whether address, title, tabs, window and error lines are those of the recording."""
    truth, guess = wanted.after, got.after
    if truth.header:
        wanted_labels, labels = (Counter(_label(line) for line in s.header) for s in (truth, guess))
        yield finding(
            "wrong_header",
            "format",
            agreement(wanted_labels, labels),
            ", ".join(wanted_labels),
            ", ".join(labels),
        )
        have, sure = Counter(guess.header), Counter(wanted.sure_header)
        lost = sure - have
        yield finding(
            "wrong_anchor",
            "factuality",
            float(not lost),
            "; ".join(lost) or "; ".join(sure),
            "; ".join(have - sure) or "the same",
            weight=2.0,
            blocking=True,
        )
        other = Counter(map(mask, (Counter(truth.header) - sure).elements()))
        left = Counter(map(mask, (have - sure).elements()))
        # The address behind a link cannot be known, so one that is nearly right counts in part.
        near = [
            1.0 if line in left else max((_nearness(line, one) for one in left), default=0.0)
            for line in other.elements()
        ]
        yield finding(
            "unlike_anchor",
            "factuality",
            sum(near) / len(near) if near else 1.0,
            "; ".join(other) or "nothing new",
            "; ".join(left) or "nothing new",
            content_class="pre_existing",
            weight=2.0,
        )
    failed, got_failed = (_failed(side) for side in (truth, guess))
    yield finding(
        "wrong_exit_class",
        "factuality",
        float(failed == got_failed),
        "an error" if failed else "no error",
        "an error" if got_failed else "no error",
        weight=GUARD,
        blocking=True,
    )


@lru_cache(maxsize=32)
def _failed(screen: Screen) -> bool:
    """Return whether the harness speaks of an error, or the screen itself is a notice of one."""
    if any(_ERROR_LINE.search(line[:400]) for line in screen.header):
        return True
    short = [node for node in screen.nodes if len(node.label) <= MAX_NOTICE_CHARS]
    if _NOTICE.search("\n".join(node.label for node in short)):
        return True
    return screen.form == "table" and any(
        not node.role and _ERROR_LINE.search(node.value) for node in short
    )


def _nearness(wanted: str, got: str) -> float:
    """Return how near two lines of one label are; texts of no kinship come out near 0."""
    if _label(wanted) != _label(got):
        return 0.0
    tails = (line.partition(":")[2].rpartition("//")[2].partition("/")[2] for line in (wanted, got))
    first, second = tails
    alike = likeness(first, second) if first or second else likeness(wanted, got)
    return max(0.0, 2 * alike - 1)


def _label(line: str) -> str:
    """Return what a header line begins with; nothing for a line of prose."""
    label = line.partition(":")[0]
    return label if len(label) <= MAX_LABEL_CHARS else ""


def check_lines(wanted: Change, guess: Screen) -> Iterator[Finding]:
    """Give whether lines stand there that belong to no part of such a state."""
    truth = wanted.after
    foreign: list[str] = []
    if all(node.role for node in truth.nodes):
        foreign += [node.value for node in guess.nodes if not node.role]
    old = wanted.before.header if wanted.before is not None else ()
    labels = {_DIGITS.sub("0", _label(line)) for line in (*truth.header, *old)}
    foreign += [
        line
        for line in guess.header
        # Windows of a desktop stand as list entries.
        if line[:1] not in " *" and _DIGITS.sub("0", _label(line)) not in labels
    ]
    if truth.form != "lines":
        yield finding(
            "foreign_line",
            "format",
            float(not foreign),
            f"{truth.form} alone",
            "; ".join(foreign[:3]) or "nothing else",
            weight=GUARD,
            blocking=True,
        )


def check_typed(case: Case, truth: Screen, guess: Screen) -> Iterator[Finding]:
    """Give whether the text that the action types stands where it stood."""
    typed = typed_text(case.action.action) or ""
    texts = [text for line in typed.split("\n")[:50] if (text := line.strip()) in case.recorded]
    texts = [text for text in texts if text]
    if not texts:
        return
    own, got_own = (Counter(t for n in side.nodes for t in texts_of(n)) for side in (truth, guess))
    # Where the text is a value of its own it is there as often; in other texts it is there at all.
    scores = [
        min(1.0, got_own[text] / own[text]) if own[text] else float(text in case.prediction)
        for text in texts
    ]
    yield finding(
        "missing_typed_text",
        "factuality",
        min(scores),
        typed,
        "; ".join(f"{got_own[text]} times, recorded {own[text]} times" for text in texts[:3]),
        weight=2.0,
        blocking=True,
    )


def check_focus(truth: Screen, guess: Screen) -> Iterator[Finding]:
    """Give whether an element with the focus is one that had it."""
    wanted, got = ({node.label for node in s.nodes if node.focused} for s in (truth, guess))
    if wanted:
        yield finding(
            "wrong_focus",
            "factuality",
            float(bool(wanted & got)),
            "; ".join(sorted(wanted)),
            "; ".join(sorted(got)) or "no focus",
        )
