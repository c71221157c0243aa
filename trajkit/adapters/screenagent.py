"""ScreenAgent sessions: a desktop driven over VNC, each answer corrected by a person.

Defined by the ScreenAgent data set: a row is one call of the model with the screen it saw; the rows
of a session are a list, or follow each other with one `session_id`. The call plans, acts, or judges
the sub-task. `actions` is JSON text of what was done after correction (`LLM_response_editer`, the
data set's spelling); in the answers themselves keys may be escaped as in Markdown
(`"action\\_type"`), and they are read only where `actions` is missing. Task, prompts and answers
have twins in English and Chinese; the field without a suffix is the one that was used.

Several actions of a row are one turn. Plans and verdicts are no actions on the screen: they are the
thought of the next action. A picture was taken before its row and is shifted to the action before;
pixels are not in the log, so no step has an observation.

Smallest shape: [{"session_id": "a", "task_prompt": "...", "LLM_response_editer": "...",
"saved_image_name": "1.jpg", "actions": "[{\\"action_type\\": \\"WaitAction\\"}]"}]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import orjson

from trajkit.adapters import Adapter
from trajkit.adapters.fields import first_text, mappings, text
from trajkit.adapters.screens import media_text, named_picture
from trajkit.model import Record, Reject, Step, Trajectory, to_json_text

_TALK = ("PlanAction", "EvaluateSubTaskAction")
_ANSWERS = ("LLM_response_editer", "LLM_response")
_FENCE = re.compile(r"```json\s*(.*?)```", re.DOTALL)


def detect(value: Any) -> bool:
    """Return whether a value is a row, or a list of rows."""
    if isinstance(value, list):
        return bool(value) and all(isinstance(row, dict) and detect(row) for row in value)
    return (
        isinstance(value, dict)
        and {"session_id", "saved_image_name", "task_prompt"} <= value.keys()
        and any(key in value for key in _ANSWERS)
    )


def row_key(value: Any) -> str:
    """Return the session that rows belong to."""
    return str((value[0] if isinstance(value, list) else value)["session_id"])


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the one episode of a session."""
    given = record.value if isinstance(record.value, list) else [record.value]
    rows: list[tuple[Any, dict[str, Any]]] = []
    for number, row in enumerate(given):
        if isinstance(row, list):
            rows.extend(((number, n), inner) for n, inner in enumerate(mappings(row)))
            record.ledger.became(number, "context")
        else:
            rows.append((number, row))
    record.ledger.expect(event for event, _ in rows)
    steps: list[Step] = []
    pending: list[str] = []
    turn = -1
    prompt = None
    for event, row in rows:
        picture = media_text(named_picture(row.get("saved_image_name")))
        if steps and steps[-1].media is None:
            steps[-1] = replace(steps[-1], media=picture)
        said = first_text([row], *_ANSWERS)
        actions = _actions(row)
        acts = [item for item in actions if item.get("action_type") not in _TALK]
        if said:
            pending.append(said)
        if not acts:
            record.ledger.became(event, "thought")
            continue
        record.ledger.became(event, "action")
        turn += 1
        prompt = prompt or text(row.get("send_prompt"))
        for number, action in enumerate(acts):
            thought = "\n\n".join(pending) or None if number == 0 else None
            steps.append(_step(action, turn, thought))
        pending = []
    first = rows[0][1]
    if not steps:
        record.ledger.leave_the_rest("no_action")
        message = "a session that plans and judges, and does nothing"
        yield Reject(origin=record.origin, reason="no_action", message=message)
        return
    meta = {
        "session_id": first.get("session_id"),
        "task_prompt_en": first.get("task_prompt_en"),
        "task_prompt_zh": first.get("task_prompt_zh"),
        "video_width": first.get("video_width"),
        "video_height": first.get("video_height"),
        "initial_media": named_picture(first.get("saved_image_name")),
        "last_words": "\n\n".join(pending) or None,
    }
    yield Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        domain="os",
        agent="ScreenAgent",
        task=text(first.get("task_prompt")),
        agent_system_prompt=prompt,
        names=tuple(name for name in [text(first.get("session_id"))] if name),
        meta=to_json_text({key: item for key, item in meta.items() if item is not None}),
        steps=tuple(steps),
    )


def _actions(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the actions of a row; from the answer's fence where the row lists none."""
    listed = row.get("actions")
    if not isinstance(listed, str):
        if listed:
            return mappings(listed)
        said = first_text([row], *_ANSWERS) or ""
        fences = _FENCE.findall(said)
        listed = (fences[-1] if fences else said).replace("\\_", "_")
    try:
        found = orjson.loads(listed)
    except ValueError:
        return []
    return mappings(found if isinstance(found, list) else [found])


def _step(action: dict[str, Any], turn: int, thought: str | None) -> Step:
    return Step(
        action=to_json_text(action),
        action_kind="gui",
        action_name=first_text(
            [action], "mouse_action_type", "keyboard_action_type", "action_type"
        ),
        turn=turn,
        thought=thought,
        observation_kind="none",
    )


ADAPTER = Adapter(
    name="screenagent",
    title="ScreenAgent sessions",
    domains=("os",),
    detect=detect,
    extract=extract,
    unit="rows",
    row_key=row_key,
)
