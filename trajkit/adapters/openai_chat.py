"""OpenAI chat messages: `{"messages": [...], "tools": [...]}` rows, or a bare message list.

Defined by the Chat Completions API. Versions read here: `tool_calls` with `tool` messages; the
older `function_call` with `function` messages; `tools` as a list or as JSON text; content as text
or parts; vendors' `reasoning_content` and `reasoning`; rows whose `messages` are JSON text.
Chats in the text form of mini-swe-agent and rows of NNetNav are left to those adapters.

Smallest shape: {"messages": [{"role": "user", "content": "..."}, {"role": "assistant",
"tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}]}, {"role": "tool",
"tool_call_id": "c1", "content": "..."}]}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from trajkit.adapters import Adapter, mini_swe_agent, nnetnav
from trajkit.adapters.content import content_text
from trajkit.adapters.messages import Message, fold, id_text, is_message_list, make_call, tools_text
from trajkit.model import OutcomeStatus, Record, Reject, Trajectory, to_json_text

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_TASK_KEYS = ("task", "instruction", "question", "problem_statement")
_TOOL_KEYS = ("tools", "functions", "available_tools")
_KNOWN_KEYS = {"messages", "model", "agent", *_TASK_KEYS, *_TOOL_KEYS}


def detect(value: Any) -> bool:
    """Return whether a value is a chat row or a bare chat."""
    messages = _messages(value)
    if messages is None or not is_message_list(messages, _ROLES):
        return False
    if isinstance(value, dict) and "trajectory_format" in value:
        return False
    if mini_swe_agent.is_text_chat(messages) or nnetnav.detect(value):
        return False
    return any(item["role"] == "assistant" for item in messages) and not any(
        "extra" in item for item in messages
    )


def _messages(value: Any) -> Any:
    messages = value.get("messages") if isinstance(value, dict) else value
    if isinstance(messages, str) and messages.lstrip().startswith("["):
        try:
            return orjson.loads(messages)
        except ValueError:
            return None
    return messages


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the one episode of a row, or the reason why it is none."""
    row = record.value if isinstance(record.value, dict) else {}
    folded = fold(_read(message) for message in _messages(record.value))
    if not folded.acts:
        yield Reject(
            origin=record.origin,
            reason="no_action",
            message="a conversation without any tool call or result",
            pointer="$.messages",
        )
        return
    task = next((row[key] for key in _TASK_KEYS if isinstance(row.get(key), str)), None)
    meta = {key: item for key, item in row.items() if key not in _KNOWN_KEYS}
    yield Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        agent=_text(row.get("agent")),
        model=_text(row.get("model")),
        task=task or folded.task,
        agent_system_prompt=folded.agent_system_prompt,
        action_space=tools_text(next((row[key] for key in _TOOL_KEYS if row.get(key)), None)),
        outcome_status=_outcome(row),
        reward=_number(row.get("reward")),
        meta=to_json_text(meta | {"linked_by": folded.linked_by}),
        steps=folded.steps,
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else None


def _outcome(row: dict[str, Any]) -> OutcomeStatus:
    said = next((row[key] for key in ("outcome", "resolved", "success") if key in row), None)
    if said in (True, "success"):
        return "success"
    return "failure" if said in (False, "failure") else "unknown"


def _read(raw: dict[str, Any]) -> Message:
    text, media = content_text(raw.get("content"))
    role = raw["role"]
    if role in ("tool", "function"):
        return Message(
            role="result", text=text, call_id=id_text(raw.get("tool_call_id")), media=media
        )
    if role == "assistant":
        calls = [
            _call(call.get("function") or call, call.get("id"))
            for call in raw.get("tool_calls") or []
            if isinstance(call, dict)
        ]
        if raw.get("function_call"):
            calls.append(_call(raw["function_call"], None))
        thought = raw.get("reasoning_content") or raw.get("reasoning")
        return Message(role="assistant", text=text, thought=_text(thought), calls=tuple(calls))
    return Message(role="user" if role == "user" else "system", text=text, media=media)


def _call(function: dict[str, Any], call_id: Any) -> Any:
    return make_call(function.get("name"), function.get("arguments"), call_id)


ADAPTER = Adapter(
    name="openai-chat",
    title="OpenAI chat messages, with tool_calls or the older function_call",
    domains=("mcp", "search", "terminal", "swe", "web", "os"),
    detect=detect,
    extract=extract,
)
