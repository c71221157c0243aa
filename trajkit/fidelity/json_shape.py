"""Tool answers taken apart: JSON (also inside texts), tables of commas, and plain text."""

from __future__ import annotations

import ast
import csv
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from trajkit.fidelity.content import parse_json

Leaf = str | int | float | bool | None
Form = Literal["json", "csv", "text"]

MAX_LEAVES = 200_000
MAX_RECORDS = 2_000
MAX_DOCUMENTS = 200
MAX_NAME_CHARS = 200
MAX_KEPT_CHARS = 20_000
"""Longer texts are taken apart each time, so that memory stays bounded."""
MAX_OPENED = 4
"""How many times a text inside a JSON value may hold a JSON value again."""
MAX_LITERAL_CHARS = 20_000
_IDENTIFYING = re.compile(
    r"(?:id|sku|key|code|number|uuid|name|email|url|path|reference)\Z", re.IGNORECASE
)
_FRACTION = re.compile(r"-?\d{0,9}\.\d{1,9}\Z|-?\d{1,2}\Z")
_DIGIT = re.compile(r"\d")
_SIGN = re.compile(r"\S")
_DECODER = json.JSONDecoder()
_PYTHON = re.compile(r"\{'[^']{1,80}': |\[\{'[^']{1,80}': |\{\}\Z|\[\]\Z")
# Python warns of a backslash before any other sign, and means to refuse it one day.
_ODD_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\[^\\'\"abfnrtvxuUN0-7\n]")


class Record(NamedTuple):
    """The plain values that stand together in one object or one row."""

    values: Mapping[str, str]
    """Keys and values, as texts."""
    names: tuple[str, ...]
    """Those values by which it is known again elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A tool answer taken apart."""

    form: Form
    """How it is laid out."""
    leaves: tuple[tuple[str, Leaf], ...]
    """Pointers and values of a JSON value or of a table's cells; none for plain text."""
    records: tuple[Record, ...]
    """The objects and rows it holds."""


def read_answer(text: str) -> Answer:
    """Return a tool answer taken apart; short ones are kept, as they are looked at again.

    >>> read_answer("sku,price\\nA-1,2.5\\n").leaves
    (('/*/sku', 'A-1'), ('/*/price', '2.5'))
    """
    return _kept(text) if len(text) <= MAX_KEPT_CHARS else _read(text)


def _read(text: str) -> Answer:
    values = _documents(text)
    if values:
        sides = [_walked(value) for value in values]
        return Answer(
            form="json",
            leaves=tuple(leaf for found, _ in sides for leaf in found),
            records=tuple(one for _, records in sides for one in records)[:MAX_RECORDS],
        )
    rows = _rows(text)
    table = [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]
    cells = tuple((f"/*/{key[:80]}", cell) for row in table for key, cell in row.items())
    records = tuple(map(record, table[:MAX_RECORDS]))
    return Answer(form="csv" if rows else "text", leaves=cells, records=records)


_kept = lru_cache(maxsize=512)(_read)


def _documents(text: str) -> list[Any]:
    """Return the JSON values that make up a text, one after the other; none for any other text.

    Tool servers write each item of a list as a text of its own, and clients join them by lines.
    """
    value = parse_json(text)
    if value is not None:
        return [value]
    values: list[Any] = []
    place = _first_sign(text, 0)
    while text[place : place + 1] in ("{", "[") and len(values) < MAX_DOCUMENTS:
        try:
            value, end = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError):
            return []
        values.append(value)
        place = _first_sign(text, end)
    return values if place == len(text) else []


def _first_sign(text: str, start: int) -> int:
    """Return the place of the first sign from a place on that is no white space."""
    match = _SIGN.search(text, start)
    return len(text) if match is None else match.start()


def leaves(value: Any) -> list[tuple[str, Leaf]]:
    """Return the pointers and values of a decoded JSON value's leaves; list places are `*`.

    A text that holds JSON, or a value as Python writes it, is opened; `~` in the pointer tells
    it from a value that was there openly.

    >>> leaves({"a": [{"b": 1}, {"b": '{"c": null}'}]})
    [('/a/*/b', 1), ('/a/*/b/~/c', None)]
    """
    return _walked(value)[0]


def _walked(value: Any) -> tuple[list[tuple[str, Leaf]], list[Record]]:
    """Return the leaves and the plain values of each object, in order, without recursion."""
    found: list[tuple[str, Leaf]] = []
    records: list[Record] = []
    stack: list[tuple[str, Any, int]] = [("", value, MAX_OPENED)]
    while stack and len(found) < MAX_LEAVES:
        pointer, top, left = stack.pop()
        if len(pointer) > 400:
            pointer = pointer[:400]
        if isinstance(top, str) and top[:1] in ("{", "[") and left:
            inner = parse_json(top)
            inner = _python_value(top) if inner is None else inner
            if inner is not None:
                stack.append((f"{pointer}/~", inner, left - 1))
                continue
        if isinstance(top, dict) and top:
            plain = {str(k): text for k, v in top.items() if (text := plain_text(v)) is not None}
            if plain and len(records) < MAX_RECORDS:
                records.append(record(plain))
            children = [(f"{pointer}/{str(key)[:80]}", item, left) for key, item in top.items()]
            stack.extend(reversed(children))
        elif isinstance(top, list | tuple) and top:
            stack.extend((f"{pointer}/*", item, left) for item in reversed(top))
        elif isinstance(top, dict | list | tuple):
            found.append((f"{pointer}/{'{}' if isinstance(top, dict) else '[]'}", None))
        else:
            found.append((pointer, top if isinstance(top, Leaf) else str(top)))
    return found, records


def _python_value(text: str) -> Any:
    """Return the object or list that Python wrote as text; None for any other text."""
    if len(text) > MAX_LITERAL_CHARS or _PYTHON.match(text) is None:
        return None
    if sum(map(text.count, "([{")) > MAX_LITERAL_CHARS // 50 or _ODD_ESCAPE.search(text):
        return None
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None
    return value if isinstance(value, dict | list) else None


def record(values: Mapping[str, str]) -> Record:
    """Return an object's plain values with those by which it is known again.

    >>> record({"sku": "A-17", "price": "9.75", "category": "hand"}).names
    ('A-17',)
    """
    names = {
        value: None
        for key, value in values.items()
        if 3 <= len(value) <= MAX_NAME_CHARS
        and not is_fraction(value)
        and (_DIGIT.search(value) or _IDENTIFYING.search(key))
    }
    return Record(values, tuple(names))


def is_fraction(text: str) -> bool:
    """Return whether a text is a number that may stand in two places by chance.

    >>> is_fraction("27.5"), is_fraction("12"), is_fraction("4711")
    (True, True, False)
    """
    return _FRACTION.match(text) is not None


def plain_text(value: Any) -> str | None:
    """Return a number or a text as text; None for everything else."""
    if isinstance(value, str):
        return value
    return None if isinstance(value, bool) or not isinstance(value, int | float) else str(value)


def kind(value: Leaf) -> str:
    """Return the JSON type of a leaf."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "null" if value is None else "string"


def _rows(text: str) -> list[list[str]]:
    """Return the rows of a comma-separated table with a header; none for any other text."""
    first, _, rest = text.strip().partition("\n")
    if "," not in first or not rest:
        return []
    try:
        rows = [row for row in csv.reader(text.strip().split("\n"), strict=True) if row]
    except csv.Error:
        return []
    header = rows[0] if rows else []
    # A sentence with commas has blanks behind them; a header has no cell twice.
    named = all(cell == cell.strip() and len(cell) <= 80 for cell in header)
    if len(header) < 2 or not named or len(set(header)) != len(header):
        return []
    return rows if all(len(row) == len(header) for row in rows) else []
