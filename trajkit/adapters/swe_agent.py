"""SWE-agent `.traj` files, 0.x to 1.x, and the rows of its published trajectories.

Defined by the SWE-agent project (its `trajectories` folder and `types.py`): what was done is in
`trajectory`, what was said in `history`. Drift handled here: `state` as JSON text (0.x) or an
object (1.x); observations in `history` as role `user` (0.x) or `tool` with `tool_call_ids` (1.x,
function calling); content as text or parts; `replay_config` as an object or JSON text (1.x);
`thinking_blocks` (1.1); demonstrations marked by `is_demo` or `message_type`. A demonstration file
may hold `history` only; its results are then paired by id, else by position. A run with retries
holds whole runs in `attempts`: each is a trajectory, and what stands beside the list is a copy of
the chosen one. Rows (nebius) hold messages of the roles `system`, `user` and `ai` in `trajectory`:
the prompt stands in `system_prompt`, the command in the last fence of the text, `target` says
whether the tests passed.

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
from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import Any, Literal

import orjson

from trajkit.adapters import Adapter
from trajkit.adapters.content import content_text
from trajkit.adapters.messages import Call, Message, fold, is_message_list, observation_kind
from trajkit.adapters.text_calls import code_fences
from trajkit.ledger import Ledger
from trajkit.model import (
    ObservationSource,
    Record,
    Reject,
    Step,
    Trajectory,
    to_json_text,
)

_ROLES = ("system", "user", "assistant", "tool")
_MARKS = ("agent", "message_type", "is_demo")
_WORD = re.compile(r"\s*([A-Za-z_][\w.-]*)")
_fences = code_fences("", "bash", "sh", "shell", "python")
_EXIT = re.compile(r"exit_(cost|context|format|error|forfeit|api|command|environment)\w*")
_INFO_KEYS = ("model_stats", "swe_agent_version", "swe_agent_hash")


def detect(value: Any) -> bool:
    """Return whether a value is a `.traj` document, a demonstration or a published row."""
    if not isinstance(value, dict):
        return False
    attempts = value.get("attempts")
    if isinstance(attempts, list) and attempts and _is_run(attempts[0]):
        return True
    return _is_run(value) or _is_row(value)


def _is_run(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("history"), list):
        return False
    steps = value.get("trajectory")
    if isinstance(steps, list) and steps:
        return isinstance(steps[0], dict) and {"action", "observation"} <= steps[0].keys()
    history = value["history"]
    return is_message_list(history, _ROLES) and any(
        any(mark in item for mark in _MARKS) for item in history
    )


def _is_row(value: dict[str, Any]) -> bool:
    turns = value.get("trajectory")
    if not is_message_list(turns, ("system", "user", "ai")) or not isinstance(turns, list):
        return False
    return any(turn["role"] == "ai" and "text" in turn for turn in turns)


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the episode of a document or row, or that of each attempt."""
    document, ledger = record.value, record.ledger
    attempts = document.get("attempts")
    runs = [one for one in attempts if _is_run(one)] if isinstance(attempts, list) else []
    for number, run in enumerate(runs):
        found = _run(run, record, (number,))
        chosen = _object(document.get("info")).get("best_attempt_idx")
        meta = orjson.loads(found.meta or "{}") | {"attempt": number, "chosen": chosen == number}
        origin = replace(record.origin, key=f"$.attempts[{number}]")
        yield replace(found, origin=origin, meta=to_json_text(meta))
    if runs:
        for name in ("trajectory", "history"):
            listed = document.get(name)
            for number in range(len(listed) if isinstance(listed, list) else 0):
                ledger.left_out((name, number), "copied_attempt")
    else:
        yield _run(document, record, ()) if _is_run(document) else _row(document, record)


def _run(document: dict[str, Any], record: Record, place: tuple[int, ...]) -> Trajectory:
    """Return the run of a document or attempt; `place` begins the names of its events."""
    ledger = record.ledger
    logged = document.get("trajectory")
    has_steps = isinstance(logged, list) and bool(logged)
    said: list[tuple[Hashable, dict[str, Any]]] = []
    for number, item in enumerate(document["history"]):
        event = (*place, "history", number)
        ledger.expect([event])
        if not isinstance(item, dict):
            ledger.left_out(event, "unknown_event")
        elif _is_demo(item):
            ledger.left_out(event, "demonstration")
        else:
            said.append((event, item))
            if has_steps:
                ledger.left_out(event, "repeated_in_trajectory")
    messages = list(_messages(said))
    if has_steps:
        began = next((n for n, m in enumerate(messages) if m.role == "assistant"), len(messages))
        folded = fold(messages[:began], ledger)
        steps = tuple(_steps(logged or [], ledger, place))
    else:
        folded = fold(messages, ledger)
        steps = folded.steps
    info = document["info"] if isinstance(document.get("info"), dict) else {}
    replay = _object(document.get("replay_config"))
    meta = {
        "environment": document.get("environment"),
        "submission": _submission(info, steps),
        "demonstration": bool(not has_steps and steps) or None,
        "linked_by": None if has_steps else folded.linked_by,
    } | {key: info.get(key) for key in _INFO_KEYS}
    return Trajectory(
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


def _row(row: dict[str, Any], record: Record) -> Trajectory | Reject:
    """Return the run of a published row."""
    turns = row["trajectory"]
    record.ledger.expect(range(len(turns)))
    folded = fold(_spoken(turns), record.ledger)
    if not folded.acts:
        message = "a row in which the agent writes no command"
        return Reject(origin=record.origin, reason="no_action", message=message)
    target = row["target"] if isinstance(row.get("target"), bool) else None
    meta = {
        "instance_id": row.get("instance_id"),
        "submission": row.get("generated_patch"),
        "linked_by": folded.linked_by,
    }
    return Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        domain="swe",
        agent="SWE-agent",
        model=_text(row.get("model_name")),
        task=folded.task,
        agent_system_prompt=folded.agent_system_prompt,
        outcome_status="unknown" if target is None else "success" if target else "failure",
        reward=None if target is None else float(target),
        exit_status=_text(row.get("exit_status")),
        meta=to_json_text({key: item for key, item in meta.items() if item is not None}),
        steps=folded.steps,
    )


def _spoken(turns: list[dict[str, Any]]) -> Iterator[Message]:
    """Give the turns of a row; what answers a text without a command is the harness's."""
    acted: bool | None = None
    for event, turn in enumerate(turns):
        text = _text(turn.get("text"))
        if turn["role"] == "ai":
            fences = list(_fences(text or ""))
            acted = bool(fences)
            if not fences:
                yield Message(role="assistant", text=text, event=event)
                continue
            last = fences[-1]
            said = (text or "")[: last.start] + (text or "")[last.end :]
            call = replace(last.calls[0], name=_name(last.calls[0].action))
            yield Message(role="assistant", text=said.strip() or None, calls=(call,), event=event)
        elif turn["role"] == "system":
            prompt = text or _text(turn.get("system_prompt"))
            yield Message(role="system", text=prompt, event=event)
        elif acted:
            yield Message(role="result", text=text, event=event)
        else:
            source: ObservationSource | None = None if acted is None else "harness"
            yield Message(role="user", text=text, source=source, event=event)


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


def _steps(logged: list[Any], ledger: Ledger, place: tuple[int, ...]) -> Iterator[Step]:
    for number, raw in enumerate(logged):
        ledger.expect([(*place, "trajectory", number)])
        if not isinstance(raw, dict) or not isinstance(raw.get("action"), str | None):
            ledger.left_out((*place, "trajectory", number), "unknown_event")
            continue
        action = raw.get("action") or ""
        ledger.became((*place, "trajectory", number), "action" if action.strip() else "observation")
        observation, media = content_text(raw.get("observation"))
        is_harness = not action.strip() or _EXIT.fullmatch(action.strip()) is not None
        thought = _thought(raw)
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


def _thought(raw: dict[str, Any]) -> str | None:
    """Return reasoning that the log keeps apart, and the thought of the agent's visible text."""
    blocks = raw.get("thinking_blocks")
    thinking = [_text(block.get("thinking")) for block in blocks or () if isinstance(block, dict)]
    return "\n\n".join(part for part in (*thinking, _text(raw.get("thought"))) if part) or None


def _name(action: str) -> str | None:
    word = _WORD.match(action)
    return word.group(1) if word else None


def _messages(history: list[tuple[Hashable, dict[str, Any]]]) -> Iterator[Message]:
    """Give a history as messages; whatever follows an agent's command is its result."""
    acted = False
    for event, item in history:
        role = item.get("role")
        text, media = content_text(item.get("content"))
        if role == "assistant":
            calls = _calls(item)
            acted = acted or bool(calls)
            said = _text(item.get("thought")) if calls else None
            spoken = text if said is None else said
            yield Message(role="assistant", text=spoken, calls=calls, event=event)
        elif acted and role in ("user", "tool"):
            ids = item.get("tool_call_ids")
            call_id = ids[0] if isinstance(ids, list) and len(ids) == 1 else None
            answered = _text(call_id)
            yield Message(role="result", text=text, call_id=answered, media=media, event=event)
        else:
            speaker: Literal["system", "user"] = "system" if role == "system" else "user"
            yield Message(role=speaker, text=text, media=media, event=event)


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
    title="SWE-agent .traj, 0.x to 1.x, demonstrations with a history only, published rows",
    domains=("swe",),
    detect=detect,
    extract=extract,
)
