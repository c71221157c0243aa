"""AMEX instruction annotations: one document an episode, screenshots and touches of a person.

Defined by the AMEX data set (`instruction_anno/<id>.json`; LearnGUI writes the same): `instruction`
and `steps` with `step_id`, `image_path`, `action` (`TAP`, `SWIPE`, `TYPE`, `PRESS_BACK`,
`PRESS_HOME`, `PRESS_ENTER`, `TASK_COMPLETE`, `TASK_IMPOSSIBLE`), `touch_coord` and `lift_coord`
(pixels, x first), `type_text`, `device_dim`, `package_name` (older: `package`).

The action holds the fields of it that the step uses, as logged. The log has pictures only, so there
is no observation in text: a step names the picture after it in `media`. The last action is the exit
status when it says how the task ended.

Smallest shape: {"instruction": "...", "steps": [{"step_id": 0, "image_path": "a.png", "action":
"TAP", "touch_coord": [10, 20], "lift_coord": [10, 20]}]}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trajkit.adapters import Adapter
from trajkit.adapters.phone_steps import Logged, shifted
from trajkit.adapters.screens import named_picture
from trajkit.model import Record, Reject, Trajectory, to_json_text

_FIELDS = {
    "TAP": ("touch_coord", "lift_coord"),
    "SWIPE": ("touch_coord", "lift_coord"),
    "TYPE": ("type_text",),
}
_ALL = ("touch_coord", "lift_coord", "type_text")


def detect(value: Any) -> bool:
    """Return whether a value is an episode."""
    steps = value.get("steps") if isinstance(value, dict) else None
    first = steps[0] if isinstance(steps, list) and steps else None
    return (
        isinstance(first, dict)
        and "instruction" in value
        and {"action", "touch_coord", "lift_coord"} <= first.keys()
    )


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the one episode."""
    document = record.value
    record.ledger.expect(range(len(document["steps"])))
    logged = []
    for index, step in enumerate(document["steps"]):
        if isinstance(step, dict) and "action" in step:
            record.ledger.became(index, "action")
            logged.append(_logged(step))
        else:
            record.ledger.left_out(index, "step_without_action")
    first, last = document["steps"][0], logged[-1].name
    yield Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        domain="android",
        task=document["instruction"] if isinstance(document["instruction"], str) else None,
        exit_status=last if last in ("TASK_COMPLETE", "TASK_IMPOSSIBLE") else None,
        meta=to_json_text(
            {
                "episode_id": document.get("episode_id"),
                "device_dim": first.get("device_dim"),
                "packages": [
                    step.get("package_name") or step.get("package")
                    for step in document["steps"]
                    if isinstance(step, dict)
                ],
                "initial_media": logged[0].picture,
            }
        ),
        steps=shifted(logged),
    )


def _logged(step: dict[str, Any]) -> Logged:
    name, number = step["action"], step.get("step_id")
    fields = _FIELDS.get(name, ()) if isinstance(name, str) else _ALL
    return Logged(
        action={"action": name} | {key: step[key] for key in fields if key in step},
        name=name if isinstance(name, str) else None,
        picture=named_picture(step.get("image_path")),
        number=number if isinstance(number, int) else None,
    )


ADAPTER = Adapter(
    name="amex",
    title="AMEX instruction annotations",
    domains=("android",),
    detect=detect,
    extract=extract,
)
