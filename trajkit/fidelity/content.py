"""What checks read texts with: masks of metadata, likeness, shapes, texts of the history."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import orjson
from rapidfuzz import fuzz

from trajkit.fidelity.findings import Case, Turn

# Bounds that keep the cost of one case linear; texts beyond them are compared as bags of words.
MAX_FUZZY_CHARS = 20_000
MAXMASKED_CHARS = 100_000
MAX_HISTORY_CHARS = 4_000_000

_MONTHS = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_DAYS = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
METADATA = re.compile(
    r"(?<![\w.])(?:"
    r"(?P<timestamp>\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?"
    r"(?:Z|\s?[+-]\d\d:?\d\d)?)?(?!\w)"
    rf"|{_DAYS},? (?:{_MONTHS} {{1,2}}\d{{1,2}}|\d{{1,2}} {_MONTHS})(?: \d{{4}})?"
    r"(?: \d\d:\d\d(?::\d\d)?(?: [A-Z]{3,4})?(?: \d{4})?)?"
    rf"|{_MONTHS} {{1,2}}\d{{1,2}} {{1,2}}(?:\d\d:\d\d|\d{{4}})(?!\w)"
    r"|\d{1,2}:\d\d:\d\d(?:\.\d{1,9})?(?!\w))"
    r"|(?P<hex_id>0x[0-9a-fA-F]{2,64}(?!\w)"
    r"|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?!\w)"
    r"|(?=[0-9a-f]{0,64}?\d)(?=[0-9a-f]{0,64}?[a-f])[0-9a-f]{7,64}(?!\w))"
    r"|(?P<address>\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}(?::\d{2,5})?(?![\w.]))"
    r"|(?P<port>(?:localhost:|[Pp]ort[ :]{1,2})\d{2,5}(?!\w))"
    r"|(?P<process_id>(?:PID|pid|Pid|process)[ =:#]{1,3}\d{1,9}(?!\w)|\[\d{1,3}\] \d{3,9}$)"
    r"|(?P<duration>\d{1,9}m\d{1,9}(?:\.\d{1,9})?s(?!\w)"
    r"|\d{1,9}(?:\.\d{1,9})? ?(?:ns|us|µs|ms|s|secs?|seconds?)(?!\w))"
    r"|(?P<speed>\d{1,9}(?:\.\d{1,9})? ?[kKMG]?i?B/s(?!\w))"
    r"|(?P<temporary_name>tmp[._]?(?=[A-Za-z_]{0,16}\d)[A-Za-z0-9_]{6,16}(?!\w)"
    r"|tmp\.[A-Za-z0-9]{6,12}(?!\w)))",
    re.MULTILINE,
)
# A cheap look ahead of the real one: a metadata span holds a digit or follows `tmp`.
_MAY_HOLD_METADATA = re.compile(r"\d|tmp\.")
MASK = re.compile(r"‹[a-z_]{3,20}›")


def edges(text: str, size: int) -> str:
    """Return a text, or its first and last halves of `size` characters when it is longer.

    >>> edges("abcdefgh", 4)
    'ab\\ngh'
    """
    return text if len(text) <= size else f"{text[: size // 2]}\n{text[-(size // 2) :]}"


def mask(text: str) -> str:
    """Return a text with its runtime metadata replaced by the name of its kind.

    >>> mask("started 2026-01-05 10:00:01, pid 4711, took 0.31s")
    'started ‹timestamp›, ‹process_id›, took ‹duration›'
    """
    if _MAY_HOLD_METADATA.search(text) is None:
        return text
    return METADATA.sub(lambda match: f"‹{match.lastgroup}›", text)


def metadata_kinds(masked: str) -> Counter[str]:
    """Return how often each kind of runtime metadata stood in a text before it was masked."""
    return Counter(kind[1:-1] for kind in MASK.findall(masked))


def string_leaves(value: Any) -> Iterator[str]:
    """Give every text inside a decoded JSON value, in order, without recursion."""
    stack = [value]
    while stack:
        top = stack.pop()
        if isinstance(top, str):
            yield top
        elif isinstance(top, dict):
            stack.extend(reversed(top.values()))
        elif isinstance(top, list):
            stack.extend(reversed(top))


def parse_json(text: str) -> Any:
    """Return the decoded value of a JSON object or list; None for any other text."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return orjson.loads(text)
    except ValueError:
        return None


@lru_cache(maxsize=256)
def action_text(action: str) -> str:
    """Return the texts inside an action, one after the other; all of it when it is no JSON.

    >>> action_text('{"name": "bash", "arguments": {"command": "echo \\\\"hi\\\\""}}')
    'bash\\necho "hi"'
    """
    value = parse_json(action)
    return action if value is None else "\n".join(string_leaves(value))


def lines_of(text: str) -> list[str]:
    """Return the lines of a text without what blanks trail them; cut at newlines only."""
    return [line.rstrip() for line in text.split("\n")]


def previous_state(case: Case) -> str | None:
    """Return what the environment showed last before the judged action."""
    seen = (turn.observation for turn in reversed(case.history) if turn.observation)
    return next(seen, case.initial_state)


def earlier_texts(case: Case) -> Iterator[str]:
    """Give observations and action texts of the history, newest first, up to a bound."""
    return texts_before(case.history, case.initial_state)


def texts_before(history: tuple[Turn, ...], initial_state: str | None) -> Iterator[str]:
    """Give the same for a history that belongs to no case."""
    left = MAX_HISTORY_CHARS
    for turn in reversed(history):
        for text in (turn.observation or "", action_text(turn.action)):
            left -= len(text)
            if left < 0:
                return
            yield text
    if initial_state and len(initial_state) <= left:
        yield initial_state


def overlap(wanted: Counter[str], got: Counter[str]) -> float:
    """Return the share of wanted things that are there, counted with repetition; 1.0 for none."""
    total = wanted.total()
    return (wanted & got).total() / total if total else 1.0


def agreement(wanted: Counter[str], got: Counter[str]) -> float:
    """Return the F1 of two bags; 1.0 when both are empty."""
    total = wanted.total() + got.total()
    return 2 * (wanted & got).total() / total if total else 1.0


def likeness(first: str, second: str) -> float:
    """Return how alike two texts are, 0.0 to 1.0; long texts as bags of words.

    >>> likeness("abcd", "abcd"), likeness("abcd", "")
    (1.0, 0.0)
    """
    if max(len(first), len(second)) <= MAX_FUZZY_CHARS:
        return fuzz.ratio(first, second) / 100
    return agreement(Counter(first.split()), Counter(second.split()))


_LETTERS = re.compile(r"[^\W\d_]+")
_DIGITS = re.compile(r"\d+")


def shape(text: str) -> str:
    """Return a text with each run of letters and each run of digits cut to one sign.

    >>> shape("-rw-r--r-- 1 ann 52 notes.txt")
    '-a-a--a-- 0 a 0 a.a'
    """
    return _DIGITS.sub("0", _LETTERS.sub("a", text))
