"""Attributes of OpenTelemetry spans as plain values, and the dotted names in them as trees."""

from __future__ import annotations

import re
from typing import Any

from trajkit.adapters.fields import mapping, mappings

_MAX_DEPTH = 12


def plain_attributes(value: Any) -> dict[str, Any]:
    """Return attributes as an object, from OTLP's list of keys with typed values or as they are.

    >>> plain_attributes([{"key": "a", "value": {"arrayValue": {"values": [{"intValue": "1"}]}}}])
    {'a': [1]}
    """
    if isinstance(value, list):
        return {
            one["key"]: _plain(one.get("value"))
            for one in mappings(value)
            if isinstance(one.get("key"), str)
        }
    return mapping(value)


def _plain(value: Any) -> Any:
    typed = mapping(value)
    if len(typed) != 1:
        return value
    ((kind, inner),) = typed.items()
    if kind in ("arrayValue", "array_value"):
        return [_plain(one) for one in mapping(inner).get("values") or []]
    if kind in ("kvlistValue", "kvlist_value"):
        return plain_attributes(mapping(inner).get("values") or [])
    if kind in ("intValue", "int_value"):
        return int(inner) if re.fullmatch(r"-?\d{1,18}", str(inner)) else inner
    return inner


def tree(attributes: dict[str, Any], prefix: str) -> Any:
    """Return what the dotted names below a prefix tell: objects, and lists where names count.

    >>> tree({"p.0.role": "user", "p.0.x.y": 1, "q": 2}, "p")
    [{'role': 'user', 'x': {'y': 1}}]
    """
    root: dict[str, Any] = {}
    for name, value in attributes.items():
        if not name.startswith(f"{prefix}."):
            continue
        inner = root
        *way, last = name[len(prefix) + 1 :].split(".", _MAX_DEPTH)
        for part in way:
            found = inner.setdefault(part, {})
            if not isinstance(found, dict):
                found = inner[part] = {}
            inner = found
        inner[last] = value
    return _listed(root)


def _listed(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if value and all(name.isascii() and name.isdigit() and len(name) < 9 for name in value):
        return [_listed(value[name]) for name in sorted(value, key=int)]
    return {name: _listed(inner) for name, inner in value.items()}
