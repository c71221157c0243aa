"""SWE-agent `.traj` files, 0.x to 1.x: what was done in `trajectory`, what was said in `history`.

Defined by the SWE-agent project (its `trajectories` folder and `types.py`). Drift handled here:
`state` as JSON text (0.x) or an object (1.x); observations in `history` as role `user` (0.x) or
`tool` with `tool_call_ids` (1.x, function calling); content as text or parts; `replay_config` as an
object or JSON text (1.x); demonstrations marked by `is_demo` or `message_type`. A demonstration
file may hold `history` only; its results are then paired by id, else by position.

Choices: the action is the command as logged, which is `code` in every version: the shell-like
commands of the tools, although 1.x sends them as tool calls. An empty action is the harness saying
that it could parse none; what then comes back is the harness's, and the agent's whole output is the
thought. `exit_...` actions are the harness's too. `history` repeats `trajectory` and is read only
for task and system prompt; `state` (working folder, open file) is the harness's own reading and is
left out.

Smallest shape: {"trajectory": [{"action": "ls", "observation": "a.py", "response": "...",
"thought": "...", "state": "{}"}], "history": [{"role": "user", "content": "...", "agent": "main"}],
"info": {"exit_status": "submitted"}, "environment": "main"}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import orjson

from trajkit.adapters import Adapter
from trajkit.adapters.content import content_text
from trajkit.adapters.messages import Call, Message, fold, is_message_list, observation_kind
from trajkit.model import Record, Reject, Step, Trajectory, to_json_text

_ROLES = ("system", "user", "assistant", "tool")
_MARKS = ("agent", "message_type", "is_demo")
_WORD = re.compile(r"\s*([A-Za-z_][\w.-]*)")
_EXIT = re.compile(r"exit_(cost|context|format|error|forfeit|api|command|environment)\w*")
_INFO_KEYS = ("model_stats", "swe_agent_version", "swe_agent_hash")


def detect(value: Any) -> bool:
    """Return whether a value is a `.traj` document, or a demonstration with a history only."""
    if not isinstance(value, dict) or not isinstance(value.get("history"), list):
        return False
    steps = value.get("trajectory")
    if isinstance(steps, list) and steps:
        return isinstance(steps[0], dict) and {"action", "observation"} <= steps[0].keys()
    history = value["history"]
    return is_message_list(history, _ROLES) and any(
        any(mark in item for mark in _MARKS) for item in history
    )


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the one episode of a document."""
    document = record.value
    said = [item for item in document["history"] if isinstance(item, dict) and not _is_demo(item)]
    folded = fold(_messages(said))
    logged = document.get("trajectory")
    steps = tuple(_steps(logged)) if isinstance(logged, list) and logged else folded.steps
    info = document["info"] if isinstance(document.get("info"), dict) else {}
    replay = _object(document.get("replay_config"))
    meta = {
        "environment": document.get("environment"),
        "submission": _submission(info, steps),
        "demonstration": bool(not logged and steps) or None,
        "linked_by": folded.linked_by if not logged else None,
    } | {key: info.get(key) for key in _INFO_KEYS}
    yield Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        format_version=_text(info.get("swe_agent_version")),
        domain="swe",
        agent="SWE-agent",
        model=_model(replay),
        task=folded.task or _task(document, replay),
        agent_system_prompt=folded.agent_system_prompt,
        exit_status=_text(info.get("exit_status")),
        meta=to_json_text({key: item for key, item in meta.items() if item is not None}),
        steps=steps,
    )


def _is_demo(item: dict[str, Any]) -> bool:
    return bool(item.get("is_demo")) or item.get("message_type") == "demonstration"


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _object(value: Any) -> dict[str, Any]:
    """Return an object that may have been logged as JSON text."""
    if isinstance(value, str):
        try:
            value = orjson.loads(value)
        except ValueError:
            return {}
    return value if isinstance(value, dict) else {}


def _steps(logged: list[Any]) -> Iterator[Step]:
    for number, raw in enumerate(logged):
        action = raw["action"]
        if action is None:
            action = ""
        observation, media = content_text(raw["observation"])
        is_harness = not action.strip() or _EXIT.fullmatch(action.strip()) is not None
        thought = _text(raw.get("thought")) or None
        yield Step(
            action=action,
            action_kind="code" if action.strip() else "none",
            action_name=_name(action),
            action_valid=not is_harness,
            turn=number,
            thought=thought if action.strip() else _text(raw.get("response")) or thought,
            observation=observation,
            observation_kind=observation_kind(observation),
            observation_source="harness" if is_harness else "environment",
            media=media,
        )


def _name(action: str) -> str | None:
    word = _WORD.match(action)
    return word.group(1) if word else None


def _messages(history: list[dict[str, Any]]) -> Iterator[Message]:
    """Give a history as messages; whatever follows an agent's command is its result."""
    acted = False
    for item in history:
        role = item.get("role")
        text, media = content_text(item.get("content"))
        if role == "assistant":
            calls = _calls(item)
            acted = acted or bool(calls)
            said = _text(item.get("thought")) if calls else None
            yield Message(role="assistant", text=text if said is None else said, calls=calls)
        elif acted and role in ("user", "tool"):
            ids = item.get("tool_call_ids")
            call_id = ids[0] if isinstance(ids, list) and len(ids) == 1 else None
            yield Message(role="result", text=text, call_id=_text(call_id), media=media)
        else:
            yield Message(role="system" if role == "system" else "user", text=text, media=media)


def _calls(item: dict[str, Any]) -> tuple[Call, ...]:
    action = item.get("action")
    if not isinstance(action, str) or not action.strip():
        return ()
    calls = item.get("tool_calls")
    only = calls[0] if isinstance(calls, list) and len(calls) == 1 else None
    call_id = _text(only.get("id")) if isinstance(only, dict) else None
    return (Call(action=action, name=_name(action), id=call_id or None, kind="code"),)


def _task(document: dict[str, Any], replay: dict[str, Any]) -> str | None:
    """Return the task of a file whose history does not hold it."""
    problem = replay.get("problem_statement")
    if isinstance(problem, dict):
        problem = problem.get("text")
    if isinstance(problem, str) and problem:
        return problem
    first = document["trajectory"][0] if document.get("trajectory") else {}
    query = first.get("query")
    asked = [item for item in query or () if isinstance(item, dict) and item.get("role") == "user"]
    return content_text(asked[0].get("content"))[0] if asked else None


def _model(replay: dict[str, Any]) -> str | None:
    agent = replay.get("agent")
    model = agent.get("model") if isinstance(agent, dict) else None
    return _text(model.get("name")) if isinstance(model, dict) else None


def _submission(info: dict[str, Any], steps: tuple[Step, ...]) -> Any:
    """Return the submitted patch unless some observation shows it already."""
    patch = info.get("submission")
    shown = isinstance(patch, str) and any(
        patch.strip() in (step.observation or "") for step in steps[-2:]
    )
    return None if shown else patch


ADAPTER = Adapter(
    name="swe-agent",
    title="SWE-agent .traj, 0.x to 1.x, with demonstrations that hold a history only",
    domains=("swe",),
    detect=detect,
    extract=extract,
)
