"""Which parts of an observation must match, and which only need the right form.

Three classes: what the action and the history determine must match exactly; what the environment
held already, unseen, only needs the form; times, process numbers and the like are masked.

Source: Qwen-AgentWorld report, section 4.2.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson
from rapidfuzz import fuzz

from trajkit.fidelity.findings import Case, ContentClass, Finding, finding

# Bounds that keep the cost of one case linear; texts beyond them are compared as bags of words.
MAX_FUZZY_CHARS = 20_000
MAX_MASKED_CHARS = 100_000
MAX_HISTORY_CHARS = 4_000_000
MAX_ECHO_COST = 20_000_000

_MONTHS = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_DAYS = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_METADATA = re.compile(
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
_MASK = re.compile(r"‹[a-z_]{3,20}›")


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
    return _METADATA.sub(lambda match: f"‹{match.lastgroup}›", text)


def metadata_kinds(masked: str) -> Counter[str]:
    """Return how often each kind of runtime metadata stood in a text before it was masked."""
    return Counter(kind[1:-1] for kind in _MASK.findall(masked))


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
    left = MAX_HISTORY_CHARS
    for turn in reversed(case.history):
        for text in (turn.observation or "", action_text(turn.action)):
            left -= len(text)
            if left < 0:
                return
            yield text
    if case.initial_state and len(case.initial_state) <= left:
        yield case.initial_state


_TELLING = re.compile(r"[^\W_]{3}|\d")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One line of a recorded observation and the class of its content."""

    text: str
    """The line without trailing blanks."""
    content_class: ContentClass
    """How strictly it is compared."""


def parts(case: Case, recorded: str) -> list[Part]:
    """Return the telling lines of a recorded observation (or a piece of it) with their classes.

    A line is deterministic when the same line was seen before, when the action's own text holds
    it, or when the command works out its answer from files this session made or showed.
    """
    known = {
        line.strip()
        for text in earlier_texts(case)
        for line in text.split("\n")
        if _TELLING.search(line)
    }
    own = action_text(case.action.action)
    lines = lines_of(recorded)
    may_echo = len(own) * len(lines) <= MAX_ECHO_COST
    computed = computes_from_known(case)
    found = []
    for line in lines:
        stripped = line.strip()
        if not stripped or not _TELLING.search(stripped):
            continue
        content_class: ContentClass = "pre_existing"
        if computed or stripped in known or (may_echo and len(stripped) >= 4 and stripped in own):
            content_class = "deterministic"
        elif len(stripped) <= 200 and not _TELLING.search(_MASK.sub("", mask(stripped))):
            content_class = "runtime_metadata"
        found.append(Part(text=line, content_class=content_class))
    return found


_COMPUTING = re.compile(
    r"^\s*(?:(?:wc|sort|uniq|cut|tr|nl|tac|rev|seq|expr|bc|cmp|diff|md5sum|sha1sum|sha256sum|cksum)"
    r"\b|echo\s+[^;&|]{0,80}\$\(\()"
)
_PATH = re.compile(r"[\w./~-]*[\w-][./][\w./-]*")


def computes_from_known(case: Case) -> bool:
    """Return whether the action is one command whose answer the session's own text determines.

    That is a command such as `wc` or `sha256sum` whose every path was named in an earlier turn,
    or shell arithmetic on constants.
    """
    own = action_text(case.action.action).strip()
    if case.action.action_kind == "tool_call":
        own = own.partition("\n")[2].strip()
    if not own or len(own) > 300 or "\n" in own or _COMPUTING.match(own) is None:
        return False
    plain = re.sub(r"\$\(\([\d\s+*/%()-]{1,200}\)\)", "", own)
    if re.search(r"[$`<>*?;]|&&", plain):
        return False
    paths = _PATH.findall(plain)
    earlier = [action_text(turn.action) for turn in case.history]
    return all(any(path in text for text in earlier) for path in paths)


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


def compare(case: Case, recorded: str, prediction: str) -> Iterator[Finding]:
    """Give the findings any domain can use on plain text: known lines, form, metadata."""
    classes = parts(case, recorded)
    got_lines = Counter(line.strip() for line in prediction.split("\n"))
    exact = Counter(p.text.strip() for p in classes if p.content_class == "deterministic")
    if exact:
        lost = exact - got_lines
        yield finding(
            "missing_known_line",
            "factuality",
            overlap(exact, got_lines),
            next(iter(lost), next(iter(exact))),
            "all there" if not lost else f"{lost.total()} of {exact.total()} lines are missing",
            weight=3.0,
        )
    loose = [p.text for p in classes if p.content_class != "deterministic"]
    if not classes:
        score = likeness(recorded, prediction)
        yield finding("unlike_form", "realism", score, recorded, prediction, weight=2.0)
    if loose:
        # Lines known beforehand are taken off both sides, so that only the new text is compared.
        left = got_lines & exact
        rest = []
        for line in lines_of(prediction):
            if left[line.strip()] > 0:
                left[line.strip()] -= 1
            elif _TELLING.search(line):
                rest.append(line)
        wanted, got = (mask(edges("\n".join(side), MAX_MASKED_CHARS)) for side in (loose, rest))
        score = max(likeness(wanted, got), likeness(shape(wanted), shape(got)))
        yield finding(
            "unlike_form", "realism", score, wanted, got, content_class="pre_existing", weight=2.0
        )
        yield from _metadata_form(metadata_kinds(wanted), metadata_kinds(got))


def _metadata_form(kinds: Counter[str], got_kinds: Counter[str]) -> Iterator[Finding]:
    if kinds or got_kinds:
        yield finding(
            "wrong_metadata_form",
            "realism",
            agreement(kinds, got_kinds),
            dict(sorted(kinds.items())),
            dict(sorted(got_kinds.items())),
            content_class="runtime_metadata",
        )
