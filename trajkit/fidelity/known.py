"""Which lines of an observation could be told beforehand.

Three classes: what the action and the history determine must match exactly; what the environment
held already, unseen, only needs the form; times, process numbers and the like are masked.

Source: Qwen-AgentWorld report, section 4.2.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from trajkit.fidelity.content import MASK, action_text, lines_of, mask, texts_before
from trajkit.fidelity.findings import Case, ContentClass, Turn

MIN_RUN = 3
"""Known lines in a row that are no chance: one alone may stand in any file."""
MIN_KNOWN_SHARE = 0.5
"""Share of known lines from which on each of them counts."""
MIN_OWN_CHARS = 4
MAX_ECHO_COST = 20_000_000
MAX_NAMING_CHARS = 500
"""Length of an action whose plain words still name what it is about."""
TELLING = re.compile(r"[^\W_]{3}|\d")
"""What a line must hold to tell anything."""

_NUMBERING = re.compile(r"[ \t]{0,8}\d{1,7}(?:\t|: ?|\||→|-(?=[ \t])| {2,4})")
_TOKEN = re.compile(r"[\w~/](?:[\w./~@%+-]*[\w/])?")
_PLAIN = re.compile(r"[A-Za-z]?[a-z]+")
_NAME = re.compile(r"[\w~-]*(?:/[\w.@~-]+)+/?|[\w-]+(?:\.[\w-]+)*\.[A-Za-z]\w{0,5}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One line of a recorded observation and the class of its content."""

    text: str
    """The line without trailing blanks."""
    content_class: ContentClass
    """How strictly it is compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the turns before the judged action gave away."""

    lines: frozenset[str]
    """Telling lines, without blanks around them; numbered ones also without their number."""
    names: frozenset[str]
    """Paths and file names."""


def known(case: Case) -> Known:
    """Return what the history and the initial state of a case gave away."""
    return _known(case.history, case.initial_state)


# The answers of one prompt are judged one after the other.
@lru_cache(maxsize=16)
def _known(history: tuple[Turn, ...], initial_state: str | None) -> Known:
    lines: set[str] = set()
    names: set[str] = set()
    for text in texts_before(history, initial_state):
        for line in text.split("\n"):
            if TELLING.search(line):
                lines.add(line.strip())
                numbering = _NUMBERING.match(line)
                if numbering is not None:
                    lines.add(line[numbering.end() :].strip())
                names.update(token for token in _TOKEN.findall(line) if _NAME.fullmatch(token))
    return Known(lines=frozenset(lines), names=frozenset(names))


def is_known(line: str, lines: frozenset[str]) -> bool:
    """Return whether a line was seen before, be it numbered now or marked by a diff."""
    stripped = line.strip()
    if stripped in lines:
        return True
    numbering = _NUMBERING.match(line)
    if numbering is not None and line[numbering.end() :].strip() in lines:
        return True
    return line[:1] in ("+", "-", " ") and line[1:].strip() in lines


def parts(case: Case, recorded: str) -> tuple[Part, ...]:
    """Return the telling lines of a recorded observation (or a piece of it) with their classes.

    A line is deterministic when the action's own text holds it, when the command works out its
    answer from files this session made or showed, or when it was seen before together with its
    neighbours: in a row of three, or with half of all lines.
    """
    return _parts(case.history, case.initial_state, case.action, recorded)


@lru_cache(maxsize=32)
def _parts(
    history: tuple[Turn, ...], initial_state: str | None, action: Turn, recorded: str
) -> tuple[Part, ...]:
    seen = _known(history, initial_state).lines
    own = action_text(action.action)
    lines = [line for line in lines_of(recorded) if TELLING.search(line)]
    if computes_from_known(action, history):
        # A hash follows from the file, yet nobody works it out: only its form can be asked for.
        return tuple(
            Part(
                text=line,
                content_class="pre_existing" if "‹hex_id›" in mask(line) else "deterministic",
            )
            for line in lines
        )
    may_echo = len(own) * len(lines) <= MAX_ECHO_COST
    own_lines = [may_echo and _holds(own, line) for line in lines]
    flags = [mine or is_known(line, seen) for mine, line in zip(own_lines, lines, strict=True)]
    if sum(flags) < MIN_KNOWN_SHARE * len(flags):
        flags = _in_runs(flags)
    found = []
    for line, mine, flag in zip(lines, own_lines, flags, strict=True):
        content_class: ContentClass = "pre_existing"
        if mine or flag:
            content_class = "deterministic"
        elif len(line) <= 200 and not TELLING.search(MASK.sub("", mask(line))):
            content_class = "runtime_metadata"
        found.append(Part(text=line, content_class=content_class))
    return tuple(found)


def _holds(own: str, line: str) -> bool:
    """Return whether an action's text holds a line, be it numbered now or marked by a diff."""
    numbering = _NUMBERING.match(line)
    told = [line, line[numbering.end() :] if numbering else "", line[line[:1] in ("+", "-") :]]
    return any(len(text.strip()) >= MIN_OWN_CHARS and text.strip() in own for text in told)


def _in_runs(flags: list[bool]) -> list[bool]:
    """Return flags without those that stand in a row of fewer than `MIN_RUN`.

    >>> _in_runs([True, False, True, True, True])
    [False, False, True, True, True]
    """
    kept, start = list(flags), None
    for number, flag in enumerate([*flags, False]):
        if flag and start is None:
            start = number
        elif not flag and start is not None:
            if number - start < MIN_RUN:
                kept[start:number] = [False] * (number - start)
            start = None
    return kept


def lost_values(case: Case, recorded: str, prediction: str) -> list[str]:
    """Return the known names and values of a text that another telling of it lacks.

    Known are words of two signs and more from the action's own text (of a long one those that
    are no plain words), and paths and file names of the history.
    """
    own, names = _own_tokens(case.action.action), known(case).names
    lost = Counter(_TOKEN.findall(recorded)) - Counter(_TOKEN.findall(prediction))
    return [token for token in lost if len(token) > 1 and (token in own or token in names)]


@lru_cache(maxsize=64)
def _own_tokens(action: str) -> frozenset[str]:
    text = action_text(action)[:20_000]
    tokens = _TOKEN.findall(text)
    if len(text) > MAX_NAMING_CHARS:
        tokens = [token for token in tokens if not _PLAIN.fullmatch(token)]
    return frozenset(tokens)


_COMPUTING = re.compile(
    r"(?:wc|sort|uniq|cut|tr|nl|tac|rev|seq|expr|bc|cmp|diff|awk|md5sum|sha1sum|sha256sum|cksum)"
    r"\b|echo\s+[^;&|]{0,80}\$\(\("
)
_PARTIAL = re.compile(r"\s*(?:head|tail|grep|egrep|rg|sed|less|more|ls|wc|awk|find|cut|sort)\b")
_PATH = re.compile(r"[\w./~-]*[\w-][./][\w./-]*")
_QUOTED = re.compile(r"'[^']*'|\"[^\"$`]*\"")
_ARITHMETIC = re.compile(r"\$\(\([\d\s+*/%()-]{1,200}\)\)")


def computes_from_known(action: Turn, history: tuple[Turn, ...]) -> bool:
    """Return whether the action is one command whose answer the session's own text determines.

    That is a pipe of commands such as `sort`, `wc` or `sha256sum` whose every path was written
    or shown whole in an earlier turn, or shell arithmetic on constants.
    """
    own = action_text(action.action).strip()
    if action.action_kind == "tool_call":
        own = own.partition("\n")[2].strip()
    if not own or len(own) > 300 or "\n" in own or _COMPUTING.match(own) is None:
        return False
    plain = _QUOTED.sub("", _ARITHMETIC.sub("", own))
    if re.search(r"[$`>*?;&]", plain):
        return False
    stages = [stage.strip() for stage in plain.split("|")]
    if not all(_COMPUTING.match(stage) or stage.startswith("echo") for stage in stages):
        return False
    paths = _PATH.findall(plain)
    if not paths and not _ARITHMETIC.search(own) and "<" in plain:
        return False
    earlier = [
        line
        for turn in history
        for line in action_text(turn.action).split("\n")
        if not _PARTIAL.match(line)
    ]
    return all(any(path in line for line in earlier) for path in paths)
