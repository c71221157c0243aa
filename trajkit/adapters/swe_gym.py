"""SWE-Gym's OpenHands trajectories: rows with `messages`, `tools`, `resolved` and a test result.

Published by the SWE-Gym project as Parquet, and found as JSON. The messages are OpenAI chat, read
as in `openai-chat`. What is particular: Parquet merged all tools into one struct, so schemas (and
arguments, where a converter made objects of them) hold a null for each key of another tool: those
nulls are left out here, but arguments that are text stay that text. The text with which the harness
answers a message of the agent ("Please continue working ...") is the harness's. Results begin with
`OBSERVATION:`, as the model saw them; the label stays. `resolved` is outcome and reward.

Smallest shape: {"instance_id": "o__r-1", "run_id": "...", "resolved": true, "messages": [{"role":
"user", "content": "...", "tool_calls": null}, {"role": "assistant", "content": "", "tool_calls":
[{"id": "c1", "function": {"name": "f", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id":
"c1", "content": "OBSERVATION:\\n..."}], "tools": [...], "test_result": {...}}
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from trajkit.adapters import Adapter, openai_chat
from trajkit.adapters.fields import mapping, mappings, meta_text, no_action, text
from trajkit.adapters.messages import Message, fold, is_message_list, tools_text
from trajkit.model import Record, Reject, Trajectory

_KEYS = {"instance_id", "messages", "resolved", "run_id"}
_FROM_HARNESS = "Please continue working on the task on whatever approach you think is suitable."


def detect(value: Any) -> bool:
    """Return whether a value is a row of the data set."""
    return (
        isinstance(value, dict)
        and value.keys() >= _KEYS
        and ("tools" in value or "test_result" in value)
        and is_message_list(value["messages"], openai_chat.ROLES)
    )


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the one episode of a row."""
    row = record.value
    record.ledger.expect(range(len(row["messages"])))
    listed = [_without_nulls(message) for message in row["messages"]]
    folded = fold(map(_spoken, openai_chat.messages(listed)), record.ledger)
    if not folded.acts:
        yield no_action(record)
        return
    resolved = row["resolved"] if isinstance(row["resolved"], bool) else None
    yield Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        domain="swe",
        agent="OpenHands",
        task=folded.task,
        agent_system_prompt=folded.agent_system_prompt,
        action_space=tools_text(_pruned(row.get("tools"))),
        outcome_status="unknown" if resolved is None else "success" if resolved else "failure",
        reward=None if resolved is None else float(resolved),
        meta=meta_text(
            folded,
            instance_id=text(row["instance_id"]),
            run_id=text(row["run_id"]),
            report=mapping(row.get("test_result")).get("report"),
        ),
        steps=folded.steps,
    )


def _without_nulls(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message whose call arguments, where they are objects, hold no nulls."""
    calls = []
    for call in mappings(message.get("tool_calls")):
        function = mapping(call.get("function"))
        given = function.get("arguments")
        if isinstance(given, dict):
            given = {key: value for key, value in given.items() if value is not None}
        calls.append(call | {"function": function | {"arguments": given}})
    return message | {"tool_calls": calls or None}


def _spoken(message: Message) -> Message:
    if message.role == "user" and (message.text or "").startswith(_FROM_HARNESS):
        return replace(message, source="harness")
    return message


def _pruned(value: Any) -> Any:
    """Return JSON without the keys whose value is null."""
    if isinstance(value, dict):
        return {key: _pruned(inner) for key, inner in value.items() if inner is not None}
    return [_pruned(inner) for inner in value] if isinstance(value, list) else value


ADAPTER = Adapter(
    name="swe-gym",
    title="SWE-Gym rows of OpenHands trajectories",
    domains=("swe",),
    detect=detect,
    extract=extract,
)
