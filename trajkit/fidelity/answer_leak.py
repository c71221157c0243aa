"""Whether a search answer gives away what the agent was to find out by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from trajkit.fidelity.content import earlier_texts
from trajkit.fidelity.findings import GUARD, Case, Finding, finding
from trajkit.fidelity.known_values import whole

MAX_ANSWER_CHARS = 1_500
WINDOW_WORDS = 5
STEP_WORDS = 2
MIN_WINDOWS = 2
"""So many runs of words in common, which only the answer has, are no accident."""
_MARK = re.compile(r"<[^<>\n]{1,40}>|[*`_#]{1,3}")
_NAME = re.compile(r"[A-Z][\w'-]{2,40}|\d[\d.,]{0,20}\d")


@lru_cache(maxsize=64)
def _read(answer: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the runs of words, and the names and numbers, of an answer in small letters."""
    words = _MARK.sub(" ", answer[:MAX_ANSWER_CHARS]).split()
    n = max(1, len(words) - WINDOW_WORDS + 1)
    windows = [" ".join(words[at : at + WINDOW_WORDS]).lower() for at in range(0, n, STEP_WORDS)]
    names = [name.lower() for name in _NAME.findall(" ".join(words))]
    return tuple(dict.fromkeys(windows)), tuple(dict.fromkeys(names))


@lru_cache(maxsize=64)
def _flat(text: str) -> str:
    return " ".join(text.split()).lower()


def check_leak(case: Case) -> Iterator[Finding]:
    """Give whether the run's answer stands in a prediction and in nothing seen until then.

    It does by several of its runs of words, or by most of those names and numbers of it that
    nothing else told.
    """
    if not case.answer:
        return
    windows, names = _read(case.answer)
    prediction, recorded = _flat(case.prediction), _flat(case.recorded)
    told = [one for one in windows if one in prediction and one not in recorded]
    named = [one for one in names if one in prediction and not whole(one, recorded)]
    leaked = ""
    if len(told) >= min(MIN_WINDOWS, len(windows)) or named:
        known = [_flat(text) for text in (case.task or "", case.action.action)]
        known += [_flat(text) for text in earlier_texts(case)]
        new = [one for one in told if not any(one in text for text in known)]
        secret = [
            one
            for one in names
            if not whole(one, recorded) and not any(whole(one, text) for text in known)
        ]
        given = [one for one in secret if one in named and whole(one, prediction)]
        if new and len(new) >= min(MIN_WINDOWS, len(windows)):
            leaked = new[0]
        elif given and 2 * len(given) > len(secret):
            leaked = given[0]
    yield finding(
        "answer_leaked",
        "realism",
        float(not leaked),
        "nothing of what the agent answers in the end",
        leaked or "nothing",
        weight=GUARD,
        blocking=True,
    )
