"""AgentNet tasks (OpenCUA): people's desktop work as pictures and PyAutoGUI code.

Defined by the OpenCUA project. Read here: the raw form and the released JSON lines (`traj` of
`{index, image, value: {code, ...}}`), and AgentNetBench documents (`steps` with
`ground_truth_actions`). Recordings of the annotation tool are read by `agentnet-recording`.

A picture was taken before its action; pictures are shifted and named in `media`, their pixels are
not in the log, so no step has an observation. Bench documents leave steps out: where `step_num`
jumps, the picture after is not known. Coordinates are shares of the screen, from 0 to 1. The
released form adds a model's words: what it saw, thought and meant are the thought; its
`reflection` looks back from after the action and is left out, with the bench's alternative
actions. `computer.terminate(status=...)` gives the `exit_status`; `task_completed` the outcome.

Smallest shape: {"task_id": "a", "instruction": "...", "traj": [{"index": 0, "image": "0.png",
"value": {"code": "pyautogui.click(x=0.5, y=0.5)"}}]}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from trajkit.adapters import Adapter
from trajkit.adapters.fields import first_text, integer, mapping, mappings, text
from trajkit.adapters.screens import call_name, media_text, named_picture
from trajkit.model import OutcomeStatus, Record, Reject, Step, Trajectory, to_json_text

_TERMINATE = re.compile(r"computer\.terminate\(\s*status\s*=\s*['\"](\w+)['\"]")
_KEPT = (
    "task_id",
    "high_level_task_description",
    "natural_language_task",
    "actual_task",
    "alignment_score",
    "efficiency_score",
    "task_difficulty",
    "domain",
    "meta_info",
)


@dataclass(frozen=True, slots=True)
class _Action:
    """One action, in either form."""

    place: int
    image: str | None
    code: str
    thought: str | None


def detect(value: Any) -> bool:
    """Return whether a value is a task with its code, or a bench document."""
    if not isinstance(value, dict) or "task_id" not in value:
        return False
    listed = value.get("traj", value.get("steps"))
    first = listed[0] if isinstance(listed, list) and listed else None
    if not isinstance(first, dict) or "image" not in first:
        return False
    return "code" in mapping(first.get("value")) or "ground_truth_actions" in first


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the one episode of a task."""
    row = record.value
    listed = mappings(row.get("traj", row.get("steps")))
    actions = [_action(number, step) for number, step in enumerate(listed)]
    record.ledger.expect(range(len(actions)))
    for number in range(len(actions)):
        record.ledger.became(number, "action")
    endings = [found for action in actions if (found := _TERMINATE.search(action.code))]
    meta = {key: row[key] for key in _KEPT if row.get(key) is not None}
    pictures = named_picture(actions[0].image)
    yield Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        domain="os",
        agent="human",
        task=first_text([row], "instruction", "user_task_description", "task_description"),
        outcome_status=_outcome(row.get("task_completed")),
        exit_status=endings[-1].group(1) if endings else None,
        meta=to_json_text(meta | {"initial_media": pictures}),
        steps=tuple(_steps(actions)),
    )


def _outcome(completed: Any) -> OutcomeStatus:
    return "unknown" if not isinstance(completed, bool) else "success" if completed else "failure"


def _action(number: int, step: dict[str, Any]) -> _Action:
    value = mapping(step.get("value"))
    words = value or mapping(step.get("inner_monologue"))
    said = [text(words.get(key)) for key in ("observation", "thought", "low_level_instruction")]
    said.append(text(value.get("action")))
    place = integer(step.get("step_num", step.get("index")))
    return _Action(
        place=number if place is None else place,
        image=text(step.get("image")),
        code=text(value.get("code")) or text(step.get("action")) or "",
        thought="\n\n".join(part for part in said if part) or None,
    )


def _steps(actions: list[_Action]) -> Iterator[Step]:
    for number, action in enumerate(actions):
        follows = actions[number + 1] if number + 1 < len(actions) else None
        is_next = follows is not None and follows.place == action.place + 1
        yield Step(
            action=action.code,
            action_kind="code" if action.code else "none",
            action_name=call_name(action.code),
            action_valid=bool(action.code),
            turn=number,
            thought=action.thought,
            observation_kind="none",
            media=media_text(named_picture(follows.image)) if follows and is_next else None,
        )


ADAPTER = Adapter(
    name="agentnet",
    title="AgentNet tasks and AgentNetBench (OpenCUA)",
    domains=("os",),
    detect=detect,
    extract=extract,
)
