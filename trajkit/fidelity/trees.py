"""Screens as trees of nodes: parsed, keyed, and found by place.

Read here: BrowserGym's accessibility lines (`[id] role 'name', properties`), WebArena's alike,
OSWorld's table (`tag<TAB>name<TAB>text...`), node lines of phones (`[0] TextView text="..."
bounds=(...)`), XML hierarchies and HTML, JSON states and lists of boxes, pages flattened to pieces
between `[SEP]`, and any other text as lines.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from trajkit.fidelity.content import parse_json

_BRACKET = re.compile(r"\[([\w-]{1,40})\] ?(\S+)(.*)\Z", re.DOTALL)
_PLAIN_ROLE = re.compile(r"([A-Za-z]{2,40}) ('.*|\".*)\Z", re.DOTALL)
_NAME = re.compile(r"\s?('(?:[^'\\]|\\.){0,4000}'|\"(?:[^\"\\]|\\.){0,4000}\")")
_TABLE = re.compile(r"([a-z][a-z -]{1,40})\t")
_HEADER = re.compile(r"[A-Z][\w ()]{1,39}: ?\S")
_MARKUP = re.compile(r"\s*<[A-Za-z!?/]")
_PIECE_OF_MARKUP = re.compile(r"<([/!?]?[\w.:-]{0,80})([^<>]{0,8000})>|([^<>]+)")
_ATTRIBUTE = re.compile(r"([\w-]{1,40})=\"([^\"]{0,2000})\"")
_BOUNDS = re.compile(r"\s*bounds=\([\d,. -]{1,60}\)|\t\(-?\d+, -?\d+\)\t\(\d+, \d+\)\Z")
_BOX = re.compile(r"bounds=[(\"]\[?(\d{1,5}), ?(\d{1,5})(?:\]\[|, ?)(\d{1,5}), ?(\d{1,5})")
_PLACE = re.compile(r"\((\d{1,5}), (\d{1,5})\)\t\((\d{1,5}), (\d{1,5})\)\s*\Z")
_QUOTED = re.compile(r"'(?:[^'\\]|\\.){0,4000}'|\"(?:[^\"\\]|\\.){0,4000}\"")
_STATUS = re.compile(r"\d{1,2}:\d\d|[Bb]attery|[Ww]i-?[Ff]i|[Ss]ignal|percent|[Nn]otification")
_CHANGING = re.compile(r"\d+|\b(?:no|one|two|three|four|full)(?= bars?\b)")
STATUS_BAR_BOTTOM = 160
"""Elements of a phone that end above this line (pixels) tell time, battery and signal."""
STATUS_BAR_SHARE = 0.08
"""The same as a part of the screen's height."""
_FOCUSED = re.compile(r"(?<![\w'\"])(?:focused(?:=True|=\"true\"|: True)?)(?![\w'\"=:])")
_PHONE_TEXT = re.compile(r"(?<![\w])(?:text|description|hint|id)=(\"(?:[^\"\\]|\\.){0,4000}\")")
_TEXT_ROLES = ("", "piece", "text", "box", "line")
SEPARATOR = " [SEP] "
MAX_CELL_LINES = 200
"""How many lines the text of one element of a table may take."""

Box = tuple[int, int, int, int]


class Node(NamedTuple):
    """One element of a screen."""

    key: str
    """What makes it the same element in two states."""
    label: str
    """Role and name, without id and place: what a person would recognise."""
    role: str
    """Kind of element; empty for a line that is no element."""
    value: str
    """The line without indentation and without the element's number in the list."""
    focused: bool = False
    """Whether it has the focus."""
    box: Box | None = None
    """Left, top, right, bottom in pixels, where the state tells."""
    content: str = ""
    """The value without its place; empty where the value tells none."""

    @property
    def plain(self) -> str:
        """Return the value without its place."""
        return self.content or self.value


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Screen:
    """A state taken apart."""

    form: str
    """The syntax: tree, table, json, pieces, markup, a header alone, or lines."""
    header: tuple[str, ...]
    """Lines before the tree: address, title, tabs, activity."""
    nodes: tuple[Node, ...]
    """Elements in order, each key once."""
    values: Counter[str]
    """How often each value stands there."""


@lru_cache(maxsize=16)
def parse(text: str, *, numbered: bool = False) -> Screen:
    """Return a state as header lines and nodes.

    `numbered` says that the number in brackets is a mere place in a list (phones), so that
    elements are told apart by role and text; otherwise it is the element's id.

    >>> parse("URL: http://a\\n\\nRootWebArea 'A'\\n\\t[3] link 'B'").nodes[1].key
    '3'
    >>> [node.label for node in parse("Rope [SEP] Price: $4 [SEP] Buy Now").nodes]
    ['Rope', 'Price: $4', 'Buy Now']
    """
    header: list[str] = []
    value = parse_json(text)
    if value is not None:
        form, nodes = "json", _from_json(value)
    elif SEPARATOR in text:
        form, nodes = "pieces", [_piece(piece.strip()) for piece in text.split(SEPARATOR)]
    elif _MARKUP.match(text):
        form, nodes = "markup", _from_markup(text)
    else:
        form, nodes = _from_lines(text, numbered, header)
    if not nodes:
        form = "header"
        if not all(map(_HEADER.match, header)):
            # No tree in any known form: lines are then elements of their own.
            form, nodes, header = "lines", [_bare(line.strip()) for line in header], []
    times: Counter[str] = Counter()
    keyed = []
    for node in nodes:
        times[node.key] += 1
        n = times[node.key]
        keyed.append(node if n == 1 else node._replace(key=f"{node.key}#{n}"))
    values = Counter(node.value for node in keyed)
    return Screen(form=form, header=tuple(header), nodes=tuple(keyed), values=values)


def _from_lines(text: str, numbered: bool, header: list[str]) -> tuple[str, list[Node]]:
    """Return the form and the nodes of lines; lines before the first node go into the header."""
    form, nodes = "tree", list[Node]()
    lines = iter(text.split("\n"))
    for line in lines:
        if not line or line.isspace():
            continue
        node = _node(line, numbered)
        if node is not None:
            if not nodes and "\t" in node.value:
                form = "table"
            if form == "table" and line.count('"') % 2:
                nodes += _of_many_lines(node, line, lines)
            else:
                nodes.append(node)
        elif nodes:
            nodes.append(_bare(line.strip()))
        else:
            header.append(line.rstrip())
    return form, nodes


def _of_many_lines(node: Node, line: str, lines: Iterator[str]) -> Iterator[Node]:
    """Give a row whose quoted cell goes on over further lines, then each line of the cell."""
    row, _, first = line.rpartition('"')
    told = [first]
    for further in islice(lines, MAX_CELL_LINES):
        told.append(further)
        if further.count('"') % 2:
            break
    yield node._replace(value=row, content=row, box=_box(told[-1]))
    for one in map(str.strip, told):
        yield Node(one, one, "line", one, content=_BOUNDS.sub("", one))


@lru_cache(maxsize=4096)
def _node(line: str, numbered: bool) -> Node | None:
    """Return the element of a line, told by how the line begins; None for other text."""
    stripped = line.strip()
    if stripped[0] == "[":
        match = _BRACKET.match(stripped)
        if match is None:
            return None
        number, role, rest = match.groups()
        return _bracketed(number, role, rest, numbered)
    if "\t" in stripped:
        match = _TABLE.match(line)
        if match is None or line.count("\t") < 2:
            return None
        cells = line.split("\t")
        label = f"{cells[0]} {cells[1]}"
        value = line.rstrip()
        return Node(label, label, cells[0], value, False, _box(line), _BOUNDS.sub("", value))
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
        return Node(number, label, role, f"{role}{rest}", role != "RootWebArea" and _focus(rest))
    box = _box(rest)
    rest = _without_status(rest, box)
    label = f"{role} {' '.join(_PHONE_TEXT.findall(rest))}"
    value = f"{role}{rest}"
    return Node(label, label, role, value, _focus(rest), box, _BOUNDS.sub("", value))


def _without_status(rest: str, box: Box | None) -> str:
    """Return an element's text without time, charge and counts if it stands in the status bar."""
    if box is not None and box[3] <= STATUS_BAR_BOTTOM and _STATUS.search(rest):
        return _CHANGING.sub("0", rest)
    return rest


def _from_markup(text: str) -> list[Node]:
    nodes = []
    for match in _PIECE_OF_MARKUP.finditer(text):
        tag, rest, words = match.groups()
        if words is not None:
            if not words.isspace():
                nodes.append(_bare(words.strip())._replace(role="text"))
        elif tag[:1] == "/":
            nodes.append(_bare(f"<{tag}>")._replace(role="end"))
        elif tag[:1] not in ("!", "?"):
            box = _box(rest)
            rest = _without_status(rest.rstrip("/ "), box)
            attributes: dict[str, str] = dict(_ATTRIBUTE.findall(rest))
            role = attributes.get("class", tag) if tag == "node" else tag
            texts = [attributes.get(key, "") for key in ("text", "content-desc", "resource-id")]
            label = " ".join([role, *texts])
            nodes.append(Node(label, label, role, f"<{tag}{rest}>", _focus(rest), box))
    return nodes


def _from_json(value: Any) -> list[Node]:
    """Return the leaves of a JSON state; of a list of boxes, one node for each."""
    nodes: list[Node] = []
    stack: list[tuple[str, Any]] = [("", value)]
    while stack:
        path, top = stack.pop()
        if isinstance(top, dict) and isinstance(top.get("bounding_box"), dict):
            label = " ".join(text for text in top.values() if isinstance(text, str))
            y = top["bounding_box"].get("y")
            if isinstance(y, float) and y < STATUS_BAR_SHARE and _STATUS.search(label):
                label = _CHANGING.sub("0", label)
            nodes.append(Node(label, label, "box", label))
        elif isinstance(top, dict):
            stack.extend((f"{path}/{name}", inner) for name, inner in reversed(top.items()))
        elif isinstance(top, list):
            stack.extend((f"{path}/*", inner) for inner in reversed(top))
        else:
            nodes.append(Node(f"{path} {top}", f"{path} {top}", path or "/", f"{path} {top}"))
    return nodes


def _piece(stripped: str) -> Node:
    return Node(stripped, stripped, "piece", stripped)


def _bare(stripped: str) -> Node:
    return Node(stripped, stripped, "", stripped)


def _focus(text: str) -> bool:
    return "focused" in text and _FOCUSED.search(text) is not None


def _box(text: str) -> Box | None:
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


def _holds(box: Box, left: float, top: float, right: float, bottom: float) -> bool:
    return box[0] <= left and box[1] <= top and right <= box[2] and bottom <= box[3]


def _area(box: Box | None) -> int:
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


def texts_of(node: Node) -> list[str]:
    """Return the texts that stand on an element as values of their own.

    >>> texts_of(parse("[3] textbox 'To' value='Ommer', focused").nodes[0])
    ['To', 'Ommer']
    """
    if "\t" in node.value:
        return [cell.strip('"') for cell in node.value.split("\t")[1:3]]
    quoted = [text[1:-1] for text in _QUOTED.findall(node.value)]
    return quoted or ([node.label] if node.role in _TEXT_ROLES or node.role[0] == "/" else [])
