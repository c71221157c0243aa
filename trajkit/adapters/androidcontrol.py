"""AndroidControl episodes as JSON: a goal, n actions and n+1 screens.

Defined by the AndroidControl data set (TFRecords), here in the JSON form of its converters:
parallel lists `screenshots`, `accessibility_trees` (n+1 each), `actions`, `step_instructions` (n).
Drift handled here: trees as text, as a list of nodes, or null; a last screen that is missing; rows
without any tree (screens are then known by their pictures alone); actions as JSON text.

Screens stand before the actions and are shifted: the first is the initial state, the observation of
action k is screen k+1. People recorded the episodes, so there is no model; the instruction of a
step is its thought. Screenshots are named in `media`; their pixels are not in the log.

Layout of a tree that is a list of nodes, one node a line, in logged order, nothing left out:

    [0] TextView text="8:37" description="8:37 AM" clickable bounds=(145,1,229,136)

`[number]`, the class without `android.widget.`, then text, description, hint, tooltip and id as
JSON strings where they are not null, the flags that differ from an ordinary node (`invisible` and
`disabled` where visible and enabled are false; the others where they are true), and the bounds as
x_min, y_min, x_max, y_max. A class without any package gets a leading dot. A node of other fields,
or whose centre, width or height do not follow from its bounds, is JSON text after its number.

Smallest shape: {"episode_id": 1, "goal": "...", "accessibility_trees": [[], []],
"actions": [{"action_type": "wait"}]}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import orjson

from trajkit.adapters import Adapter
from trajkit.model import Record, Reject, Step, Trajectory, to_json_text

_STRINGS = {
    "text": "text",
    "content_description": "description",
    "hint_text": "hint",
    "tooltip": "tooltip",
    "resource_id": "id",
}
_UNUSUAL = {"is_visible": "invisible", "is_enabled": "disabled"}
_FLAGS = (
    "is_focused",
    "is_selected",
    "is_checked",
    "is_checkable",
    "is_clickable",
    "is_editable",
    "is_focusable",
    "is_long_clickable",
    "is_scrollable",
)
_FIELDS = {*_STRINGS, *_UNUSUAL, *_FLAGS, "class_name", "bbox_pixels"}
_PACKAGE = "android.widget."


def detect(value: Any) -> bool:
    """Return whether a value is an episode with its parallel lists."""
    return (
        isinstance(value, dict)
        and "goal" in value
        and isinstance(value.get("actions"), list)
        and (
            isinstance(value.get("accessibility_trees"), list)
            or (
                isinstance(value.get("step_instructions"), list)
                and isinstance(value.get("screenshots"), list)
            )
        )
    )


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the one episode, or a reject when screens and actions cannot be lined up."""
    document = record.value
    actions, trees = document["actions"], document.get("accessibility_trees")
    if not isinstance(trees, list):
        trees = [None] * len(actions)
    ledger = record.ledger
    ledger.expect(["goal", *(("action", n) for n in range(len(actions)))])
    ledger.expect(("screen", n) for n in range(len(trees)))
    if len(trees) not in (len(actions), len(actions) + 1):
        yield Reject(
            origin=record.origin,
            reason="misaligned_states",
            message=f"{len(trees)} screens do not go with {len(actions)} actions",
            pointer="$.accessibility_trees",
        )
        return
    states = [_state(tree) for tree in trees] + [None] * (len(actions) + 1 - len(trees))
    thoughts = document.get("step_instructions")
    named = isinstance(thoughts, list) and len(thoughts) == len(actions)
    ledger.became("goal", "context")
    for number in range(len(actions)):
        ledger.became(("action", number), "action")
    for number, tree in enumerate(trees):
        if tree is None:
            ledger.left_out(("screen", number), "picture_only")
        else:
            ledger.became(("screen", number), "observation" if number else "context")
    yield Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        domain="android",
        task=document["goal"],
        initial_state=states[0],
        meta=to_json_text(
            {
                "episode_id": document.get("episode_id"),
                "initial_media": _screenshot(document, 0),
                "step_instructions": None if named else thoughts,
            }
        ),
        steps=tuple(
            Step(
                action=action if isinstance(action, str) else to_json_text(action),
                action_kind="gui",
                action_name=_name(action),
                turn=number,
                thought=(thoughts[number] or None) if named else None,
                observation=states[number + 1],
                observation_kind="none" if states[number + 1] is None else "tree",
                media=_media(document, number + 1),
            )
            for number, action in enumerate(actions)
        ),
    )


def _name(action: Any) -> str | None:
    if isinstance(action, str):
        try:
            action = orjson.loads(action)
        except ValueError:
            return None
    name = action.get("action_type") if isinstance(action, dict) else None
    return name if isinstance(name, str) else None


def _state(tree: Any) -> str | None:
    if tree is None or isinstance(tree, str):
        return tree
    if not isinstance(tree, list):
        return to_json_text(tree)
    return "\n".join(f"[{number}] {_line(node)}" for number, node in enumerate(tree))


def _line(node: Any) -> str:
    """Return a node on one line, from which every field of it can be told."""
    if not isinstance(node, dict) or node.keys() != _FIELDS:
        return to_json_text(node)
    name = node["class_name"]
    bounds = _bounds(node["bbox_pixels"])
    flags = {name: node[name] for name in (*_UNUSUAL, *_FLAGS)}
    strings = {name: node[name] for name in _STRINGS}
    if (
        bounds is None
        or not isinstance(name, str)
        or not re.fullmatch(r"[\w$][\w.$]*", name)
        or any(not isinstance(flag, bool) for flag in flags.values())
        or any(not isinstance(text, str | None) for text in strings.values())
    ):
        return to_json_text(node)
    short = name.removeprefix(_PACKAGE)
    if "." in short:
        short = name
    elif short == name:
        short = f".{name}"
    parts = [short]
    parts += [
        f"{_STRINGS[key]}={to_json_text(text)}" for key, text in strings.items() if text is not None
    ]
    parts += [word for key, word in _UNUSUAL.items() if not flags[key]]
    parts += [key.removeprefix("is_") for key in _FLAGS if flags[key]]
    parts.append(bounds)
    return " ".join(parts)


def _bounds(box: Any) -> str | None:
    """Return a box in short, or null when the short form would lose something."""
    try:
        left, top, right, bottom = (box[key] for key in ("x_min", "y_min", "x_max", "y_max"))
        derived = {
            "x_min": left,
            "x_max": right,
            "y_min": top,
            "y_max": bottom,
            "center": [(left + right) / 2, (top + bottom) / 2],
            "width": right - left,
            "height": bottom - top,
        }
    except (KeyError, TypeError):
        return None
    corners = (left, top, right, bottom)
    if box != derived or any(type(corner) is not int for corner in corners):
        return None
    return f"bounds=({left},{top},{right},{bottom})"


def _screenshot(document: dict[str, Any], number: int) -> list[dict[str, Any]] | None:
    """Return what the log says of one picture, or null when it says nothing."""

    def listed(name: str) -> Any:
        values = document.get(name)
        return values[number] if isinstance(values, list) and number < len(values) else None

    name = listed("screenshots")
    if not isinstance(name, str):
        return None
    size = {"width": listed("screenshot_widths"), "height": listed("screenshot_heights")}
    return [{"mime": "image/png", "sha256": None, "bytes": None, "name": name} | size]


def _media(document: dict[str, Any], number: int) -> str | None:
    picture = _screenshot(document, number)
    return None if picture is None else to_json_text(picture)


ADAPTER = Adapter(
    name="androidcontrol",
    title="AndroidControl episodes as JSON",
    domains=("android",),
    detect=detect,
    extract=extract,
)
