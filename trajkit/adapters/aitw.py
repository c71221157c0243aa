"""Android in the Wild (AITW) steps as JSON: one row a step, told together by `episode_id`.

Defined by the AITW data set (TFRecords), here in the JSON form of its converters; list or one row a
line. Rows of an episode follow each other and are put in order by `step_id`. A row holds the screen
before its action, so screens are shifted; where numbers are missing the screen after the gap is not
taken for the answer. People recorded the episodes, so there is no model and no thought.

A gesture is `results/yx_touch` and `results/yx_lift`, y before x, from 0 to 1, -1 when there was
none; it becomes a click or a swipe in pixels of `image/width` and `image/height` (without those the
fractions stay), and stands as logged in `meta.gestures`. Other types are told by number or by name:
3 text, 5 back, 6 home, 7 enter, 10 complete, 11 impossible; unknown ones stay as they are.

The screen is what was read off the picture (`image/ui_annotations_*`: text and kind of each box,
y, x, height, width), which is no accessibility tree: a line `Activity: ...`, then one element a
line, bounds as left, top, right, bottom in pixels where whole pixels give back the logged number:

    [0] TEXT text="Oct 7" bounds=(66,78,111,94)

Smallest shape: {"episode_id": "1", "step_id": 0, "goal_info": "...", "results/action_type": 5}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trajkit.adapters import Adapter
from trajkit.adapters.phone_steps import Logged, element, gesture, shifted
from trajkit.adapters.screens import named_picture
from trajkit.model import Record, Reject, Trajectory, to_json_text

_TYPES = {
    3: "input_text",
    4: "gesture",
    5: "navigate_back",
    6: "navigate_home",
    7: "keyboard_enter",
    10: "complete",
    11: "infeasible",
}
_NAMES = {
    "dual": 4,
    "typ": 3,
    "back": 5,
    "home": 6,
    "enter": 7,
    "impossible": 11,
    "complete": 10,
}


def detect(value: Any) -> bool:
    """Return whether a value is one step of an episode."""
    return (
        isinstance(value, dict)
        and "results/action_type" in value
        and {"episode_id", "step_id"} <= value.keys()
    )


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the episode of a run of rows."""
    record.ledger.expect(range(len(record.value)))
    order = sorted(range(len(record.value)), key=lambda index: _number(record.value[index]))
    rows = [record.value[index] for index in order]
    for index in order:
        record.ledger.became(index, "action")
    first = rows[0]
    logged = [_logged(row) for row in rows]
    goal = first.get("goal_info")
    yield Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        domain="android",
        task=goal if isinstance(goal, str) else None,
        initial_state=logged[0].state,
        meta=to_json_text(
            {
                "episode_id": first.get("episode_id"),
                "episode_length": first.get("episode_length"),
                "step_ids": [row.get("step_id") for row in rows],
                "device_type": first.get("device_type"),
                "android_api_level": first.get("android_api_level"),
                "initial_media": logged[0].picture,
                "gestures": [
                    [row.get("results/yx_touch"), row.get("results/yx_lift")] for row in rows
                ],
            }
        ),
        steps=shifted(logged),
    )


def _number(row: dict[str, Any]) -> int:
    number = row.get("step_id")
    return number if isinstance(number, int) else 0


def _logged(row: dict[str, Any]) -> Logged:
    action = action_of(
        row["results/action_type"],
        row.get("results/type_action"),
        row.get("results/yx_touch"),
        row.get("results/yx_lift"),
        _size(row),
    )
    return Logged(
        action=action,
        name=action["action_type"] if isinstance(action["action_type"], str) else None,
        state=_screen(row),
        picture=named_picture(row.get("image/encoded")),
        number=row["step_id"] if isinstance(row["step_id"], int) else None,
    )


def action_of(
    kind: Any, text: Any, touch: Any, lift: Any, size: tuple[int, int] | None
) -> dict[str, Any]:
    """Return an action of AITW or AITZ as an object with `action_type` and its fields."""
    number = kind
    if isinstance(kind, str):
        number = next((n for part, n in _NAMES.items() if part in kind.lower()), kind)
    name = _TYPES.get(number) if isinstance(number, int) else None
    if name == "gesture" and _is_point(touch) and _is_point(lift):
        found: dict[str, Any] = gesture(touch, lift, size)
        return found
    if name == "input_text":
        return {"action_type": name, "text": text}
    if name in ("complete", "infeasible"):
        return {"action_type": "status", "goal_status": name}
    if name in (None, "gesture"):
        return {"action_type": kind, "text": text, "touch_yx": touch, "lift_yx": lift}
    return {"action_type": name}


def _is_point(point: Any) -> bool:
    return (
        isinstance(point, list)
        and len(point) == 2
        and all(isinstance(part, int | float) and not isinstance(part, bool) for part in point)
    )


def _size(row: dict[str, Any]) -> tuple[int, int] | None:
    width, height = row.get("image/width"), row.get("image/height")
    return (width, height) if isinstance(width, int) and isinstance(height, int) else None


def _screen(row: dict[str, Any]) -> str | None:
    texts, kinds, boxes = (
        row.get(f"image/ui_annotations_{name}") for name in ("text", "ui_types", "positions")
    )
    activity = row.get("current_activity")
    lines = [f"Activity: {activity}"] if isinstance(activity, str) and activity else []
    if not isinstance(boxes, list):
        return "\n".join(lines) or None
    return "\n".join(lines + elements(texts, kinds, boxes, _size(row)))


def elements(texts: Any, kinds: Any, boxes: list[Any], size: tuple[int, int] | None) -> list[str]:
    """Return the lines of elements; boxes are y, x, height, width, fractions of `size` if given."""
    lines = []
    for number, box in enumerate(boxes):
        kind, text = (
            str(listed[number]) if isinstance(listed, list) and number < len(listed) else ""
            for listed in (kinds, texts)
        )
        lines.append(element(number, kind or "ELEMENT", text, _bounds(box, size)))
    return lines


def _bounds(box: Any, size: tuple[int, int] | None) -> tuple[Any, ...]:
    if (
        not isinstance(box, list)
        or len(box) != 4
        or not (_is_point(box[:2]) and _is_point(box[2:]))
    ):
        return (to_json_text(box),)
    top, left, height, width = box
    edges = (left, top, left + width, top + height)
    if size is None:
        return edges
    scaled = [edge * size[axis % 2] for axis, edge in enumerate(edges)]
    pixels = tuple(round(edge) for edge in scaled)
    exact = all(abs(edge - pixel) < 0.01 for edge, pixel in zip(scaled, pixels, strict=True))
    return pixels if exact else edges


ADAPTER = Adapter(
    name="aitw",
    title="Android in the Wild, steps as JSON",
    domains=("android",),
    detect=detect,
    extract=extract,
    unit="rows",
    row_key=lambda row: str(row["episode_id"]),
)
