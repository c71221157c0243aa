"""What an action on a screen types, and which element it points at."""

from __future__ import annotations

import ast
import re

from trajkit.fidelity.content import action_text, parse_json
from trajkit.fidelity.trees import Node, Screen, at, name_of

_TYPING = re.compile(
    r"\b(?:fill|type|keyboard_type|keyboard_insert_text|select_option|write|typewrite|SetTextEvent)"
    r"\s*\((.{0,4000})\)",
    re.DOTALL,
)
_FIRST_ARGUMENT = re.compile(r"\s*[a-z_]{2,24}\s*[(\[]\s*['\"]?([\w-]{1,40})")
_POINT = re.compile(r"[cC]lick\(\s*(?:x=)?(\d{1,5})(?:\.\d+)?,\s*(?:y=)?(\d{1,5})")
MAX_TARGET_NAMES = 4


def typed_text(action: str) -> str | None:
    """Return the text that an action types, chooses or asks for, if it does.

    >>> typed_text("fill('14', 'plum jam')"), typed_text("click('3')")
    ('plum jam', None)
    """
    value = parse_json(action)
    if isinstance(value, dict):
        for holder in (value, value.get("arguments")):
            if isinstance(holder, dict):
                for key in ("text", "value", "options", "app_name", "url"):
                    if isinstance(holder.get(key), str):
                        return str(holder[key])
    match = _TYPING.search(action if value is None else action_text(action))
    if match is None:
        return None
    try:
        arguments = ast.parse(f"f({match.group(1)})", mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    constants = [
        node.value
        for node in (arguments.args if isinstance(arguments, ast.Call) else [])
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return constants[-1] if constants else None


def target_names(action: str, before: Screen) -> list[str]:
    """Return the texts on the element that an action points at, the nearest first."""
    value = parse_json(action)
    nodes: list[Node] = []
    if isinstance(value, dict) and all(isinstance(value.get(k), int | float) for k in "xy"):
        nodes = at(before, value["x"], value["y"])
    elif points := _POINT.findall(action_text(action)):
        nodes = at(before, *map(int, points[-1]))
    elif value is None and (match := _FIRST_ARGUMENT.match(action)) is not None:
        nodes = [node for node in before.nodes if node.key == match.group(1)]
    names = [name for node in nodes[:20] if len(name := name_of(node)) >= 3]
    return names[:MAX_TARGET_NAMES]
