"""GUI-Odyssey annotations: one document an episode, screenshots and actions across apps.

Defined by the data structure document of GUI-Odyssey. Drift: the first release has the actions
`HOME`, `BACK` and `IMPOSSIBLE`; the second writes keys as `CLICK` with `info` `KEY_HOME`,
`KEY_BACK`, `KEY_APPSELECT`, has `TEXT` and `INCOMPLETE`, and adds `description`, `intention`,
`context`, `low_level_instruction` and `sam2_bbox`.

The action is `action` and `info` as logged (points from 0 to 1000, x first) and `ps` where it is
not empty. The log has pictures only, so there is no observation in text: a step names the picture
after it in `media`, the first one stands in `meta`. `low_level_instruction` and `intention` are the
thought; `description` and `context` tell of screens in a model's words and are left out. People
recorded the episodes. `COMPLETE`, `INCOMPLETE` or `IMPOSSIBLE` at the end says how they thought it
went: that is the exit status, no outcome.

Smallest shape: {"episode_id": "1", "device_info": {}, "task_info": {"instruction": "..."},
"steps": [{"step": 0, "screenshot": "1_0.png", "action": "CLICK", "info": [[500, 500]]}]}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trajkit.adapters import Adapter
from trajkit.adapters.phone_steps import Logged, shifted
from trajkit.adapters.screens import named_picture
from trajkit.model import Record, Reject, Trajectory, to_json_text


def detect(value: Any) -> bool:
    """Return whether a value is an episode."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("task_info"), dict)
        and isinstance(value.get("steps"), list)
        and {"episode_id", "device_info"} <= value.keys()
    )


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the one episode."""
    document = record.value
    steps = [step for step in document["steps"] if isinstance(step, dict) and "action" in step]
    record.ledger.expect(["task_info", *range(len(document["steps"]))])
    record.ledger.became("task_info", "context")
    for index, step in enumerate(document["steps"]):
        if any(step is one for one in steps):
            record.ledger.became(index, "action")
        else:
            record.ledger.left_out(index, "step_without_action")
    logged = [_logged(step) for step in steps]
    if not logged:
        yield Reject(origin=record.origin, reason="no_action", message="the episode has no steps")
        return
    told = document["task_info"]
    task = told.get("instruction") or told.get("task")
    last = logged[-1].name
    yield Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        domain="android",
        task=task if isinstance(task, str) else None,
        exit_status=last if last in ("COMPLETE", "INCOMPLETE", "IMPOSSIBLE") else None,
        meta=to_json_text(
            {
                "episode_id": document["episode_id"],
                "device_info": document["device_info"],
                "task_info": told,
                "step_length": document.get("step_length"),
                "initial_media": logged[0].picture,
            }
        ),
        steps=shifted(logged),
    )


def _logged(step: dict[str, Any]) -> Logged:
    name, number = step["action"], step.get("step")
    action = {"action": name, "info": step.get("info")}
    if step.get("ps"):
        action["ps"] = step["ps"]
    said = [step.get(key) for key in ("low_level_instruction", "intention")]
    return Logged(
        action=action,
        name=name if isinstance(name, str) else None,
        thought="\n\n".join(text for text in said if isinstance(text, str) and text) or None,
        picture=named_picture(step.get("screenshot")),
        number=number if isinstance(number, int) else None,
    )


ADAPTER = Adapter(
    name="gui-odyssey",
    title="GUI-Odyssey annotations",
    domains=("android",),
    detect=detect,
    extract=extract,
)
