"""What an action did to a screen: what stayed, what changed as it had to, and what is new.

The content classes of a screen: an element that was there before, or whose name or text the
history or the action gave away, is deterministic; any other is pre-existing content, of which only
the form counts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote

from trajkit.fidelity.content import action_text, earlier_texts, previous_state
from trajkit.fidelity.findings import Case
from trajkit.fidelity.gestures import typed_text
from trajkit.fidelity.trees import Node, Screen, parse

NEW_SCREEN_SHARE = 0.5
"""A state that keeps less than this share of its elements counts as another page."""

_NOTHING = Screen(form="", header=(), nodes=(), values=Counter())
_WORD = re.compile(r"[^\W_]+")
_CLOCK = re.compile(r"(?<!\d)\d{1,2}:\d\d(?!\d)")
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Past:
    """What was known before the action, and what the action gives away."""

    before: Screen | None
    """The state before; null when none is known."""
    labels: frozenset[str]
    """Labels of elements that were shown."""
    header: frozenset[str]
    """Header lines that were shown, and the addresses in them."""
    words: frozenset[str]
    """Words that were shown, and those of the action."""
    near_words: frozenset[str]
    """Words of the state before and of the action."""
    spoken: str
    """The action as plain text."""
    typed: tuple[str, ...]
    """Lines that the action types."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Change:
    """What differs between the state before and a state after."""

    before: Screen | None
    """The state before; null when none is known."""
    after: Screen
    """The state after."""
    stayed: Counter[str]
    """Values of elements that are the same in both."""
    removed: Counter[str]
    """Values of elements that are gone."""
    sure: Counter[str]
    """Values, without place, of changed elements that had to be so."""
    fresh: Counter[str]
    """Values, without place, of elements that nothing gave away."""
    sure_header: tuple[str, ...]
    """Header lines that had to be so."""
    kept_share: float
    """Which part of the elements stayed, of the larger of both states."""
    other_page: bool
    """Whether the state is another page or screen altogether."""

    def __bool__(self) -> bool:
        """Return whether anything changed, the header included."""
        if self.before is None:
            return True
        same = self.before.header == self.after.header
        return bool(self.sure or self.fresh or self.removed) or not same


def change_to(case: Case, text: str, *, numbered: bool) -> Change:
    """Return what a state that follows the case's action changes."""
    earlier = tuple(earlier_texts(case))
    return _change(
        text, _past(previous_state(case), earlier, case.action.action, numbered), numbered
    )


@lru_cache(maxsize=4)
def _past(previous: str | None, earlier: tuple[str, ...], action: str, numbered: bool) -> Past:
    before = None if previous is None else parse(previous, numbered=numbered)
    spoken = unquote(action_text(action))
    shown = [_shown(text, numbered) for text in earlier]
    own = frozenset(_words([spoken]))
    near = frozenset() if previous is None else _shown(previous, numbered)[2]
    return Past(
        before=before,
        labels=frozenset().union(*(labels for labels, _, _ in shown)),
        header=frozenset().union(*(header for _, header, _ in shown)),
        words=own.union(*(words for _, _, words in shown)),
        near_words=own | near,
        spoken=spoken,
        typed=tuple(
            line for line in map(str.strip, (typed_text(action) or "").split("\n")[:50]) if line
        ),
    )


@lru_cache(maxsize=128)
def _shown(text: str, numbered: bool) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """Return labels, header lines and words of a text of the history."""
    screen = parse(text, numbered=numbered)
    labels = frozenset(node.label for node in screen.nodes)
    header = {*screen.header, *(_address(line) for line in screen.header if "://" in line)}
    return labels, frozenset(header), frozenset(_words([text]))


@lru_cache(maxsize=16)
def _change(text: str, past: Past, numbered: bool) -> Change:
    after, before = parse(text, numbered=numbered), past.before or _NOTHING
    stayed = before.values & after.values
    larger = max(len(before.nodes), len(after.nodes))
    kept_share = stayed.total() / larger if larger else float(past.before is not None)
    other_page = kept_share < NEW_SCREEN_SHARE or _root(before) != _root(after)
    added, removed = after.values - stayed, before.values - stayed
    counted = frozenset[str]() if other_page else _counters(removed, added)
    sure, fresh = Counter[str](), Counter[str]()
    for node in reversed(after.nodes) if added else ():
        if added[node.value] > 0:
            added[node.value] -= 1
            is_sure = node.value in counted or _is_given(node, past)
            (sure if is_sure else fresh)[node.plain] += 1
    sure_header = tuple(
        line for line in after.header if line in past.header or _is_given_line(line, past)
    )
    return Change(
        before=past.before,
        after=after,
        stayed=stayed,
        removed=removed,
        sure=sure,
        fresh=fresh,
        sure_header=sure_header,
        kept_share=kept_share,
        other_page=other_page,
    )


def _root(screen: Screen) -> str:
    """Return the page's root, which tells pages apart; empty where states have none."""
    first = screen.nodes[0] if screen.nodes else None
    if first is None or (first.role != "RootWebArea" and screen.form != "json"):
        return ""
    return first.key if "'" in first.key else first.label


def _counters(removed: Counter[str], added: Counter[str]) -> frozenset[str]:
    """Return values that are an element's old one with other numbers: each such form but once.

    Clocks go on by themselves, whatever the action.
    """
    old, new = (Counter(_DIGITS.sub("0", value) for value in side) for side in (removed, added))
    return frozenset(
        value
        for value in added
        if (form := _DIGITS.sub("0", value)) != value
        and old[form] == new[form] == 1
        and _CLOCK.search(value) is None
    )


def _is_given(node: Node, past: Past) -> bool:
    """Return whether the history or the action gives away a new or changed element."""
    if node.role.startswith("/"):
        leaf = node.value.partition(" ")[2]
        return node.label in past.labels or (len(leaf) >= 3 and leaf in past.spoken)
    if any(line in node.value for line in past.typed):
        return True
    return node.label in past.labels and (
        node.label == node.value or past.words.issuperset(_words([node.plain]))
    )


def _is_given_line(line: str, past: Past) -> bool:
    """Return whether the state before and the action tell a header line."""
    if "://" in line:
        address = _address(line)
        return address in past.header or address in past.spoken
    return past.near_words.issuperset(_words([line]))


def _address(line: str) -> str:
    return line.partition(": ")[2].strip()


def _words(texts: Iterable[str]) -> list[str]:
    return [word for text in texts for word in _WORD.findall(text.lower())]
