"""Android in the Zoo (AITZ) steps: episodes of AITW with written-out reasoning, one row a step.

Defined by the AITZ data set: a JSON file an episode, a list of steps with `episode_id`, `step_id`,
`instruction`, `result_action_type` (numbers of AITW), `result_touch_yx`, `result_lift_yx`,
`result_action_text`, `ui_positions`, `ui_text`, `ui_types`, `image_path` and `coat_*`. List fields
are JSON (or Python) text inside the JSON; a list is taken too.

As in AITW the screen stands before its action and is shifted. Its size is not in the log: points
stay fractions (x and y named), boxes are pixels as logged (left, top, right, bottom). The thought
is `coat_screen_desc`, `coat_action_think` and `coat_action_desc`; `coat_action_result` tells what
came after and stands in `meta` alone. A model wrote these texts afterwards; people acted.

Smallest shape: [{"episode_id": "1", "step_id": 0, "instruction": "...", "result_action_type": 4,
"result_touch_yx": "[0.5, 0.5]", "result_lift_yx": "[0.5, 0.5]", "coat_action_think": "..."}]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from trajkit.adapters import Adapter
from trajkit.adapters.aitw import action_of, elements
from trajkit.adapters.phone_steps import Logged, shifted
from trajkit.adapters.screens import named_picture
from trajkit.model import Record, Reject, Trajectory, to_json_text

_THOUGHTS = ("coat_screen_desc", "coat_action_think", "coat_action_desc")


def detect(value: Any) -> bool:
    """Return whether a value is one step of an episode."""
    return (
        isinstance(value, dict) and {"episode_id", "step_id", "result_action_type"} <= value.keys()
    )


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the episode of a run of rows."""
    record.ledger.expect(range(len(record.value)))
    order = sorted(range(len(record.value)), key=lambda index: _number(record.value[index]) or 0)
    rows = [record.value[index] for index in order]
    for index in order:
        record.ledger.became(index, "action")
    logged = [_logged(row) for row in rows]
    goal = rows[0].get("instruction")
    yield Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        domain="android",
        task=goal if isinstance(goal, str) else None,
        initial_state=logged[0].state,
        meta=to_json_text(
            {
                "episode_id": rows[0].get("episode_id"),
                "episode_length": rows[0].get("episode_length"),
                "step_ids": [row.get("step_id") for row in rows],
                "initial_media": logged[0].picture,
                "gestures": [
                    [row.get("result_touch_yx"), row.get("result_lift_yx")] for row in rows
                ],
                "action_results": [row.get("coat_action_result") for row in rows],
            }
        ),
        steps=shifted(logged),
    )


def _number(row: dict[str, Any]) -> int | None:
    number = row.get("step_id")
    return number if isinstance(number, int) else None


def _logged(row: dict[str, Any]) -> Logged:
    action = action_of(
        row["result_action_type"],
        row.get("result_action_text"),
        _listed(row.get("result_touch_yx")),
        _listed(row.get("result_lift_yx")),
        None,
    )
    boxes = _listed(row.get("ui_positions"))
    said = [row[name] for name in _THOUGHTS if isinstance(row.get(name), str) and row[name]]
    state = None
    if isinstance(boxes, list):
        texts, kinds = _listed(row.get("ui_text")), _listed(row.get("ui_types"))
        state = "\n".join(elements(texts, kinds, boxes, None))
    return Logged(
        action=action,
        name=action["action_type"] if isinstance(action["action_type"], str) else None,
        thought="\n\n".join(said) or None,
        state=state,
        picture=named_picture(row.get("image_path") or row.get("image_full_path")),
        number=_number(row),
    )


def _listed(value: Any) -> Any:
    """Return a list that a log wrote as text; anything else as it is."""
    if not isinstance(value, str):
        return value
    try:
        found = ast.literal_eval(value.strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return value
    return found if isinstance(found, list) else value


ADAPTER = Adapter(
    name="aitz",
    title="Android in the Zoo, steps with reasoning",
    domains=("android",),
    detect=detect,
    extract=extract,
    unit="rows",
    row_key=lambda row: str(row["episode_id"]),
)
