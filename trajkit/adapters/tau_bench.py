"""tau-bench v1 results: a JSON list of `{"task_id", "reward", "info", "traj"}`, one per trial.

Written by Sierra's tau-bench (`run.py`). `traj` holds OpenAI chat messages: the rules of the shop
or airline as system prompt, then an agent between its tools and a user who is played by a model.
Drift handled here: the tool-calling agent uses `tool_calls`; the ReAct and Act agents write
`Action:` and a JSON object into their text, whose tool `respond` speaks to the user, and get `API
output: ` in user messages. The few-shot files flatten a chat into one text (`messages_display`)
without its calls: they are rejected as `flattened_chat`.

Traps. The goal (`info.task.instruction`) is what the played user was told; the agent never sees it.
The user's first words are `initial_state`. A tool that fails answers `Error: ...`: such a step has
the error `tool_error`. The user ends with `###STOP###`. A trial that crashed has an empty `traj`
and `info.error`: it is rejected as `run_failed`. The reward is 1 for success and 0 otherwise. The
expected calls in `info.task.actions` are never read into a step.

Smallest shape: [{"task_id": 0, "reward": 1.0, "info": {"task": {"instruction": "..."}}, "traj":
[{"role": "user", "content": "..."}, {"role": "assistant", "content": null, "tool_calls": [...]}]}]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import orjson

from trajkit.adapters import Adapter, openai_chat
from trajkit.adapters.fields import mapping, mappings, meta_text, no_action, quantity, text
from trajkit.adapters.json_calls import unparsed
from trajkit.adapters.messages import Message, fold, make_call
from trajkit.model import OutcomeStatus, Record, Reject, Trajectory

_ACTION = re.compile(r"(?:\A|\n)Action:\s*(\{.*\})\s*\Z", re.DOTALL)
_ANSWER = "API output: "
_FAILED = "Error: "


def detect(value: Any) -> bool:
    """Return whether a value is the result of one trial, or a flattened few-shot chat."""
    if not isinstance(value, dict):
        return False
    if value.keys() == {"messages_display"}:
        return isinstance(value["messages_display"], str)
    return isinstance(value.get("traj"), list) and "task_id" in value and "reward" in value


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the episode of a trial, or the reason why it is none."""
    row = record.value
    if "messages_display" in row:
        record.ledger.expect([0])
        said = "a chat as one text, without the agent's calls"
        yield replace(no_action(record, "flattened_chat"), message=said)
        return
    info = mapping(row.get("info"))
    task = mapping(info.get("task"))
    record.ledger.expect(range(len(row["traj"])))
    folded = fold(_messages(row["traj"]), record.ledger)
    if not folded.acts:
        yield no_action(record, "run_failed" if "error" in info else "no_action")
        return
    reward = quantity(row.get("reward"))
    yield Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        domain="mcp",
        agent="tau-bench",
        task=text(task.get("instruction")) or folded.task,
        agent_system_prompt=folded.agent_system_prompt,
        initial_state=folded.task if text(task.get("instruction")) else None,
        outcome_status=_outcome(reward),
        reward=reward,
        exit_status=text(info.get("error")),
        meta=meta_text(
            folded,
            task_id=row.get("task_id"),
            trial=row.get("trial"),
            user_id=task.get("user_id"),
            user_cost=info.get("user_cost"),
            simulated_user=True,
        ),
        steps=folded.steps,
    )


def _outcome(reward: float | None) -> OutcomeStatus:
    if reward is None:
        return "unknown"
    return "success" if reward >= 1 else "failure"


def _messages(traj: list[Any]) -> Iterator[Message]:
    calls = any(raw.get("tool_calls") for raw in mappings(traj))
    waiting = False
    for message in openai_chat.messages(traj):
        if calls:
            yield _marked(message)
        elif message.role == "assistant":
            message = _written(message)
            waiting = bool(message.calls)
            yield message
        elif message.role == "user" and waiting and (message.text or "").startswith(_ANSWER):
            answer = (message.text or "").removeprefix(_ANSWER)
            yield _marked(replace(message, role="result", text=answer))
        else:
            yield message


def _marked(message: Message) -> Message:
    failed = message.role == "result" and (message.text or "").startswith(_FAILED)
    return replace(message, error="tool_error") if failed else message


def _written(message: Message) -> Message:
    """Return an agent's message with the call it wrote; `respond` is speech."""
    said = message.text or ""
    match = _ACTION.search(said)
    if match is None:
        return message
    before = said[: match.start()].removeprefix("Thought:").strip() or None
    try:
        written = orjson.loads(match[1])
    except ValueError:
        return replace(message, text=before, calls=(unparsed(match[1]),))
    name, arguments = written.get("name"), written.get("arguments")
    if name == "respond" and isinstance(arguments, dict):
        return replace(message, text=text(arguments.get("content")), thought=before)
    return replace(message, text=before, calls=(make_call(name, arguments),))


ADAPTER = Adapter(
    name="tau-bench",
    title="tau-bench v1 results (tool-calling, ReAct and Act agents)",
    domains=("mcp",),
    detect=detect,
    extract=extract,
)
