"""Sessions of the Hermes agent (a chat gateway), one JSON file a session.

Defined by the agent's session files: `session_id`, `model`, `platform`, `system_prompt`, `tools`,
`session_start`, `last_updated` and, under `messages`, OpenAI chat messages with tool calls. Chats
in the Hermes prompt format are another thing, which the adapter `hermes` reads.

Traps: a message of role `session_meta` is bookkeeping; reasoning stands up to three times in one
message (`reasoning`, `reasoning_content`, `codex_reasoning_items`) and is taken once. A tool's
message whose `finish_reason` is `error` tells of a failed call.

Smallest shape: {"session_id": "s", "platform": "cli", "messages": [{"role": "user", "content":
"..."}, {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments":
"{}"}}]}, {"role": "tool", "tool_call_id": "c1", "content": "..."}]}
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from trajkit.adapters import Adapter, openai_chat
from trajkit.adapters.chat_rows import episode
from trajkit.adapters.fields import mapping, mappings, text
from trajkit.adapters.messages import Message, tools_text
from trajkit.model import Record, Reject, Trajectory

_KNOWN = (*openai_chat.ROLES, "session_meta")


def detect(value: Any) -> bool:
    """Return whether a value is a session file of the agent."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("session_id"), str)
        and ("platform" in value or "session_start" in value)
        and isinstance(value.get("messages"), list)
        and any(item.get("role") in _KNOWN for item in mappings(value["messages"])[:1])
    )


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the one episode of a session."""
    session, ledger = record.value, record.ledger
    listed = session["messages"]
    ledger.expect(range(len(listed)))
    kept: list[int] = []
    for number, item in enumerate(listed):
        role = item.get("role") if isinstance(item, dict) else None
        if role in openai_chat.ROLES:
            kept.append(number)
        else:
            ledger.left_out(number, "bookkeeping" if role == "session_meta" else "unknown_event")
    told = openai_chat.messages([listed[number] for number in kept])
    yield from episode(
        record,
        ADAPTER.name,
        (_finished(_at(message, kept), listed) for message in told),
        agent="hermes-agent",
        model=text(session.get("model")),
        agent_system_prompt=text(session.get("system_prompt")),
        action_space=tools_text(session.get("tools")),
        started_at=text(session.get("session_start")),
        names=(session["session_id"],),
        meta={
            "session_id": session["session_id"],
            "platform": text(session.get("platform")),
            "cwd": text(mapping(session.get("model_config")).get("cwd")),
            "last_updated": text(session.get("last_updated")),
        },
    )


def _at(message: Message, kept: list[int]) -> Message:
    """Return a message with its events at their places in the whole list."""
    also = tuple((kept[event], what) for event, what in message.also if isinstance(event, int))
    event = kept[message.event] if isinstance(message.event, int) else message.event
    return replace(message, event=event, also=also)


def _finished(message: Message, listed: list[Any]) -> Message:
    """Return a result with the error that its own message tells of."""
    if message.role != "result" or not isinstance(message.event, int):
        return message
    failed = mapping(listed[message.event]).get("finish_reason") == "error"
    return replace(message, error="error") if failed else message


ADAPTER = Adapter(
    name="hermes-agent",
    title="Sessions of the Hermes agent",
    domains=("mcp", "search", "terminal", "swe"),
    detect=detect,
    extract=extract,
)
