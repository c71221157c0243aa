"""Calls written as JSON text: what every notation that wraps JSON in tags or fences shares."""

from __future__ import annotations

import ast
import re
import warnings
from collections import Counter
from typing import Any

import orjson

from trajkit.adapters.messages import Call, make_call
from trajkit.json_text import decode
from trajkit.model import ActionKind, to_json_text

_NAME = re.compile(r"""["']name["']\s*:\s*["']([^"'\n]{1,200})["']""")
_MAX_LITERAL_CHARS = 100_000


def json_calls(text: str) -> tuple[Call, ...]:
    """Return the calls of JSON text: `{"name", "arguments"}` or a list of them.

    An object of just these two keys is the action character for character. The arguments may
    stand under `parameters` or `args`, and the object may be a Python literal, as some data sets
    print it; then the action is that object as JSON.

    >>> json_calls('{"arguments": {"n": 1.10}, "name": "f"}')[0].action
    '{"arguments": {"n": 1.10}, "name": "f"}'
    >>> json_calls("{'name': 'f', 'arguments': {'q': None}}")[0].action
    '{"name": "f", "arguments": {"q":null}}'
    >>> json_calls('{"name": "f", "arguments": {')[0].valid
    False
    """
    value = literal(text)
    if isinstance(value, list) and value and all(_is_call(item) for item in value):
        return tuple(_json_call(item, to_json_text(item)) for item in value)
    if _is_call(value):
        return (_json_call(value, text.strip()),)
    name = _NAME.search(text[:1000])
    return (unparsed(framed(text), name[1] if name else None),)


def _is_call(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("name"), str)


def _json_call(value: dict[str, Any], raw: str) -> Call:
    name = value["name"]
    if value.keys() == {"name", "arguments"} and isinstance(value["arguments"], dict):
        if _is_json(raw):
            return Call(action=raw, name=name)
        return make_call(name, value["arguments"])
    key = next((key for key in ("arguments", "parameters", "args") if key in value), None)
    return make_call(name, value.get(key) if key else None, value.get("id"))


def _is_json(text: str) -> bool:
    try:
        orjson.loads(text)
    except ValueError:
        return False
    return True


def literal(text: str) -> Any:
    """Return the value of JSON text or of a Python literal that JSON can hold, else null."""
    if _is_json(text):
        try:
            return decode(text.encode(), Counter())
        except ValueError:
            # A key stands twice; what every parser makes of that is the last one.
            return orjson.loads(text)
    if len(text) > _MAX_LITERAL_CHARS or not text.strip().startswith(("{'", "[{'")):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = ast.literal_eval(text.strip())
        to_json_text(value)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None
    return value


def framed(text: str) -> str:
    """Return text between two tags without the line breaks that belong to the tags.

    >>> framed("\\n  a\\n\\n")
    '  a\\n'
    """
    text = text[2:] if text.startswith("\r\n") else text.removeprefix("\n")
    return text[:-2] if text.endswith("\r\n") else text.removesuffix("\n")


def unparsed(raw: str, name: str | None = None, kind: ActionKind = "tool_call") -> Call:
    """Return the call of a text that is not what its notation wants."""
    return Call(action=raw, name=name, kind=kind, valid=False)
