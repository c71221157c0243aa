"""Anthropic messages: `{"messages": [...], "system": ..., "tools": [...]}` rows, or a bare list.

Defined by the Messages API; what logs hold is a request with its history, often with the last
reply (`{"type": "message", "role": "assistant", "content": [...]}`) under `response`. Content is
text or blocks: `text`, `image`, `document`, `thinking`, `redacted_thinking`, `tool_use` answered by
`tool_result` in the next user message, `server_tool_use` and `mcp_tool_use` answered inside the
reply itself. A list without any block of these is taken for an OpenAI chat, which reads it alike.

Traps. One user message may hold several results and words of a person beside them; the results come
first. A reply in which a server's tool answered is cut into one turn for each round. `is_error` is
the error where no code says more. Thinking that is redacted, or logged with its signature only, is
no thought: a message of nothing else counts as `withheld_thinking`. A reply that was cut off
(`stop_reason` is `max_tokens`) makes its calls invalid. `system` is text or blocks.

Smallest shape: [{"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f",
"input": {}}]}, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1",
"content": "..."}]}]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from trajkit.adapters import Adapter, anthropic_blocks
from trajkit.adapters.content import content_text
from trajkit.adapters.fields import mapping, mappings, meta_text, no_action, text
from trajkit.adapters.messages import Message, fold, is_message_list, tools_text
from trajkit.model import Record, Reject, Trajectory

_ROLES = ("system", "user", "assistant")
_META = ("id", "usage", "stop_reason", "metadata")


def detect(value: Any) -> bool:
    """Return whether a value is a row, a bare list or a reply that holds blocks with calls."""
    listed = _list(value)
    return is_message_list(listed, _ROLES) and any(
        part.get("type") in (*anthropic_blocks.CALLS, *anthropic_blocks.THOUGHTS)
        or (anthropic_blocks.is_result(part) and "tool_use_id" in part)
        for item in listed
        for part in mappings(item.get("content"))
    )


def _list(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if value.get("type") == "message" and value.get("role") == "assistant":
        return [value]
    listed = value.get("messages")
    reply = mapping(value.get("response"))
    if isinstance(listed, list) and reply.get("role") == "assistant" and "content" in reply:
        return [*listed, reply]
    return listed


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the one episode of a row or list."""
    listed = _list(record.value)
    row = mapping(record.value)
    record.ledger.expect(range(len(listed)))
    folded = fold(_messages(listed), record.ledger)
    if not folded.acts:
        yield no_action(record)
        return
    model = text(row.get("model")) or next(
        (found for item in listed if (found := text(item.get("model")))), None
    )
    yield Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        model=model,
        task=folded.task,
        agent_system_prompt=content_text(row.get("system"))[0] or folded.agent_system_prompt,
        action_space=tools_text(row.get("tools")),
        meta=meta_text(folded, **{key: row.get(key) for key in _META}),
        steps=folded.steps,
    )


def _messages(listed: list[dict[str, Any]]) -> Iterator[Message]:
    for number, raw in enumerate(listed):
        for message in anthropic_blocks.messages([raw], first_event=number):
            if raw.get("stop_reason") == "max_tokens" and message.calls:
                cut = tuple(replace(call, valid=False) for call in message.calls)
                message = replace(message, calls=cut)
            yield message


ADAPTER = Adapter(
    name="anthropic",
    title="Anthropic messages with content blocks, client and server tools",
    domains=("mcp", "search", "terminal", "swe", "web", "os"),
    detect=detect,
    extract=extract,
    generic=True,
)
