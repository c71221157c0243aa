"""OmniACT rows: one screen of a desktop or a page, one task, and the script that would do it.

Defined by the OmniACT data set, here in the JSON form of its converters: `task` holds `Task: ...`
and `Output Script:` with PyAutoGUI lines; the screen is a picture with its OCR texts, icons,
colours and labelled boxes. An episode of one action: what the screen became is not in the data
set, so there is no observation, and filters will drop it as a training target. The initial state is
the JSON text of what the log says about the screen, as logged.

Smallest shape: {"id": "a", "task": "Task: ...\\nOutput Script:\\npyautogui.click(1.0,2.0)",
"image": "data/web/a/screen1.png", "box": {}, "ocr": {}}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trajkit.adapters import Adapter
from trajkit.adapters.screens import call_name, named_picture
from trajkit.model import Record, Reject, Step, Trajectory, to_json_text

_SCRIPT = "\nOutput Script:\n"
_SCREEN = ("ocr", "color", "icon", "box")


def detect(value: Any) -> bool:
    """Return whether a value is a row of a task with its script."""
    task = value.get("task") if isinstance(value, dict) else None
    return isinstance(task, str) and task.startswith("Task: ") and _SCRIPT in task


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the one action of a row."""
    row = record.value
    task, _, script = row["task"].removeprefix("Task: ").partition(_SCRIPT)
    screen = {key: row[key] for key in _SCREEN if key in row}
    image = row.get("image")
    on_page = isinstance(image, str) and "/web/" in image
    record.ledger.expect(["screen", "script"])
    record.ledger.became("screen", "context")
    record.ledger.became("script", "action")
    yield Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        domain="web" if on_page else "os",
        agent="human",
        task=task,
        initial_state=to_json_text(screen) if screen else None,
        meta=to_json_text({"id": row.get("id"), "initial_media": named_picture(image)}),
        steps=(
            Step(
                action=script,
                action_kind="code",
                action_name=call_name(script),
                turn=0,
                observation_kind="none",
            ),
        ),
    )


ADAPTER = Adapter(
    name="omniact",
    title="OmniACT rows: one screen, one script",
    domains=("web", "os"),
    detect=detect,
    extract=extract,
)
