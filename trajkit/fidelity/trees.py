"""Screens as trees of nodes: parsed, keyed, and compared with the state before.

Read here: BrowserGym's accessibility lines (`[id] role 'name', properties`), WebArena's alike,
OSWorld's table (`tag<TAB>name<TAB>text...`), node lines of phones (`[0] TextView text="..."
bounds=(...)`), XML hierarchies, and any other text as lines.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

_BRACKET = re.compile(r"\[([\w-]{1,40})\] (\S+)(.*)\Z", re.DOTALL)
_PLAIN_ROLE = re.compile(r"([A-Za-z]{2,40}) ('.*|\".*)\Z", re.DOTALL)
_NAME = re.compile(r"\s?('(?:[^'\\]|\\.){0,4000}'|\"(?:[^\"\\]|\\.){0,4000}\")")
_TABLE = re.compile(r"([a-z][a-z-]{1,40})\t")
_TAG = re.compile(r"<([\w.]{1,80})((?:\s[^<>]{0,8000})?)/?>\Z")
_ATTRIBUTE = re.compile(r"([\w-]{1,40})=\"([^\"]{0,2000})\"")
_BOUNDS = re.compile(r"\s*bounds=\([\d,. -]{1,60}\)")
_BOX = re.compile(r"bounds=[(\"]\[?(\d{1,5}), ?(\d{1,5})(?:\]\[|, ?)(\d{1,5}), ?(\d{1,5})")
_PLACE = re.compile(r"\((\d{1,5}), (\d{1,5})\)\t\((\d{1,5}), (\d{1,5})\)\s*\Z")
_QUOTED = re.compile(r"'(?:[^'\\]|\\.){0,4000}'|\"(?:[^\"\\]|\\.){0,4000}\"")
_STATUS = re.compile(r"\d{1,2}:\d\d|[Bb]attery|[Ww]i-?[Ff]i|[Ss]ignal|percent|[Nn]otification")
_DIGITS = re.compile(r"\d+")
STATUS_BAR_BOTTOM = 160
"""Elements of a phone that end above this line (pixels) tell time, battery and signal."""
_FOCUSED = re.compile(r"(?<![\w'\"])(?:focused(?:=True|=\"true\")?)(?![\w'\"=])")
_PHONE_TEXT = re.compile(r"(?<![\w])(?:text|description|hint|id)=(\"(?:[^\"\\]|\\.){0,4000}\")")


class Node(NamedTuple):
    """One element of a screen."""

    key: str
    """What makes it the same element in two states."""
    label: str
    """Role and name, without id and place: what a person would recognise."""
    role: str
    """Kind of element."""
    value: str
    """The line without indentation and without the element's number in the list."""
    focused: bool = False
    """Whether it has the focus."""
    box: tuple[int, int, int, int] | None = None
    """Left, top, right, bottom in pixels, where the state tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """A state taken apart."""

    header: tuple[str, ...]
    """Lines before the tree: address, title, tabs, activity."""
    nodes: tuple[Node, ...]
    """Elements in order, each key once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What differs between two states."""

    added: Counter[str]
    """Labels and values that are new."""
    removed: Counter[str]
    """Keys that are gone."""

    def __bool__(self) -> bool:
        """Return whether anything changed."""
        return bool(self.added or self.removed)


@lru_cache(maxsize=8)
def parse(text: str, *, numbered: bool = False) -> Screen:
    """Return a state as header lines and nodes.

    `numbered` says that the number in brackets is a mere place in a list (phones), so that
    elements are told apart by role and text; otherwise it is the element's id.

    >>> parse("URL: http://a\\n\\nRootWebArea 'A'\\n\\t[3] link 'B'").nodes[1].key
    '3'
    """
    header: list[str] = []
    nodes: list[Node] = []
    times: Counter[str] = Counter()
    for line in text.split("\n"):
        stripped = line.strip()
        if not stripped:
            continue
        node = _node(line, stripped, numbered)
        if node is None:
            if not nodes:
                header.append(line.rstrip())
                continue
            node = _bare(stripped)
        times[node.key] += 1
        if times[node.key] > 1:
            node = node._replace(key=f"{node.key}#{times[node.key]}")
        nodes.append(node)
    if not nodes:
        # No tree in any known form: lines are then elements of their own.
        return Screen(header=(), nodes=tuple(_bare(line.strip()) for line in header))
    return Screen(header=tuple(header), nodes=tuple(nodes))


@lru_cache(maxsize=128)
def labels(text: str, *, numbered: bool = False) -> frozenset[str]:
    """Return the labels of a state's elements."""
    return frozenset(node.label for node in parse(text, numbered=numbered).nodes)


def _node(line: str, stripped: str, numbered: bool) -> Node | None:
    """Return the element of a line, told by how the line begins; None for other text."""
    if stripped[0] == "[":
        match = _BRACKET.match(stripped)
        if match is None:
            return None
        number, role, rest = match.groups()
        return _bracketed(number, role, rest, numbered)
    if stripped[0] == "<":
        match = _TAG.match(stripped)
        return None if match is None else _tagged(stripped, match.group(1), match.group(2))
    if "\t" in stripped:
        match = _TABLE.match(line)
        if match is None or line.count("\t") < 2:
            return None
        cells = line.split("\t")
        label = f"{cells[0]} {cells[1]}"
        return Node(label, label, cells[0], line.rstrip(), False, _box(line))
    match = _PLAIN_ROLE.match(stripped)
    if match is None:
        return None
    role, rest = match.groups()
    name = _NAME.match(rest)
    key = f"{role} {name.group(1) if name else ''}"
    # The root has the focus whenever no element has it, which says nothing.
    return Node(key, stripped, role, stripped, role != "RootWebArea" and _focus(rest))


def _bracketed(number: str, role: str, rest: str, numbered: bool) -> Node:
    if not numbered and "bounds=(" not in rest:
        name = _NAME.match(rest)
        label = f"{role} {name.group(1) if name else ''}"
        return Node(number, label, role, f"{role}{rest}", _focus(rest))
    box = _box(rest)
    if box is not None and box[3] <= STATUS_BAR_BOTTOM and _STATUS.search(rest):
        rest = _DIGITS.sub("0", rest)
    label = f"{role} {' '.join(_PHONE_TEXT.findall(rest))}"
    return Node(label, label, role, f"{role}{rest}", _focus(rest), box)


def _tagged(stripped: str, tag: str, rest: str) -> Node:
    attributes: dict[str, str] = dict(_ATTRIBUTE.findall(rest))
    role = attributes.get("class", tag)
    texts = [attributes.get(key, "") for key in ("text", "content-desc", "resource-id")]
    label = " ".join([role, *texts])
    return Node(label, label, role, stripped, _focus(rest), _box(rest))


def _bare(stripped: str) -> Node:
    return Node(stripped, stripped, "", stripped)


def _focus(text: str) -> bool:
    return "focused" in text and _FOCUSED.search(text) is not None


def _box(text: str) -> tuple[int, int, int, int] | None:
    corners = _BOX.search(text)
    if corners is not None:
        left, top, right, bottom = map(int, corners.groups())
        return left, top, right, bottom
    place = _PLACE.search(text)
    if place is not None:
        left, top, width, height = map(int, place.groups())
        return left, top, left + width, top + height
    return None


def at(screen: Screen, x: float, y: float) -> list[Node]:
    """Return the elements under a point, the smallest first, and those inside a bare one."""
    under = [n for n in screen.nodes if n.box is not None and _holds(n.box, x, y, x, y)]
    under.sort(key=lambda n: _area(n.box))
    if not under or under[0].box is None:
        return under
    inside = [n for n in screen.nodes if n.box is not None and _holds(under[0].box, *n.box)]
    return under[:1] + [n for n in inside if n is not under[0]] + under[1:]


def _holds(
    box: tuple[int, int, int, int], left: float, top: float, right: float, bottom: float
) -> bool:
    return box[0] <= left and box[1] <= top and right <= box[2] and bottom <= box[3]


def _area(box: tuple[int, int, int, int] | None) -> int:
    return (box[2] - box[0]) * (box[3] - box[1]) if box else 0


def name_of(node: Node) -> str:
    """Return the text a person reads on an element, without role and quotes.

    >>> name_of(parse("[3] link 'Cart (2)', focused").nodes[0])
    'Cart (2)'
    """
    quoted = _QUOTED.findall(node.label)
    if quoted:
        return str(max(quoted, key=len))[1:-1]
    return node.label.partition(" ")[2].strip()


def change(before: Screen, after: Screen) -> Change:
    """Return what differs between two states; a changed element counts as gone and new."""
    old = {node.key: node for node in before.nodes}
    new = {node.key: node for node in after.nodes}
    added = Counter(
        f"{node.value}"
        for key, node in new.items()
        if key not in old or old[key].value != node.value
    )
    added.update(line for line in after.header if line not in before.header)
    removed = Counter(
        key for key, node in old.items() if key not in new or new[key].value != node.value
    )
    return Change(added=added, removed=removed)


def untouched(before: Screen, after: Screen) -> list[Node]:
    """Return the elements that are the same in both states."""
    old = {node.key: node.value for node in before.nodes}
    return [node for node in after.nodes if old.get(node.key) == node.value]


def without_place(value: str) -> str:
    """Return an element's value without its bounds."""
    return _BOUNDS.sub("", value)
