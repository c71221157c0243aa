"""OpenAI Responses: a bare list of items, rows with `input` or `items`, or a response object.

Defined by the Responses API; the Agents SDK and its users log the same items. A row may hold the
history (`input`, which may be plain text, or `items`), `instructions`, `tools`, and the reply as
`output` of its own or of a `response` beside it; `{"object": "response", "output": [...]}` is one
reply. Item types that came later (`mcp_call`, `shell_call`, `apply_patch_call`, ...) are read by
their endings: `*_call` acts, `*_output` answers, and what has no such ending is counted as
`unknown_event`.

Traps. Messages may lack their `type`. Calls of one reply stand side by side and are one turn;
reasoning before them is their thought, and often nothing of it is logged (`withheld_thinking`).
`function_call_output` holds text, parts, or the shell's wrapper `{"output", "metadata"}`, which is
taken off. `web_search_call` has no answer in the log. A compaction item holds nothing readable and
replaces nothing here. `mcp_list_tools` brings the tools of a server.

Smallest shape: [{"role": "user", "content": "..."}, {"type": "function_call", "call_id": "c1",
"name": "f", "arguments": "{}"}, {"type": "function_call_output", "call_id": "c1", "output": "..."}]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trajkit.adapters import Adapter, response_items
from trajkit.adapters.content import content_text
from trajkit.adapters.fields import mapping, mappings, meta_text, no_action, text
from trajkit.adapters.messages import fold, tools_text
from trajkit.model import Record, Reject, Trajectory

_META = ("id", "conversation", "previous_response_id", "created_at", "usage", "error")


def detect(value: Any) -> bool:
    """Return whether a value is a list of items or holds one; talk without any item is not."""
    items = _items(value)
    return (
        isinstance(items, list)
        and any(map(response_items.is_item, items))
        and all(isinstance(item, dict) and _named(item) for item in items[:50])
    )


def _named(item: dict[str, Any]) -> bool:
    return isinstance(item.get("type"), str) or isinstance(item.get("role"), str)


def _items(value: Any) -> Any:
    """Return history and reply as one list of items."""
    if not isinstance(value, dict):
        return value
    asked = next((value[key] for key in ("items", "input") if key in value), None)
    if isinstance(asked, str):
        asked = [{"role": "user", "content": asked}]
    reply = mapping(value.get("response")).get("output") or value.get("output")
    parts = [part for part in (asked, reply) if isinstance(part, list)]
    return [item for part in parts for item in part] if parts else None


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the one episode of a list, row or reply."""
    items = _items(record.value)
    row = mapping(record.value)
    reply = mapping(row.get("response")) or row
    record.ledger.expect(range(len(items)))
    folded = fold(response_items.messages(items), record.ledger)
    if not folded.acts:
        yield no_action(record)
        return
    tools = [*_tools(row, reply)]
    for number, item in enumerate(items):
        if isinstance(item, dict) and item.get("type") == "mcp_list_tools":
            tools.extend(mappings(item.get("tools")))
            record.ledger.became(number, "context")
    instructions = content_text(row.get("instructions") or reply.get("instructions"))[0]
    prompts = [prompt for prompt in (instructions, folded.agent_system_prompt) if prompt]
    yield Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        model=text(row.get("model")) or text(reply.get("model")),
        task=folded.task,
        agent_system_prompt="\n\n".join(prompts) or None,
        action_space=tools_text(tools),
        exit_status=text(reply.get("status")),
        meta=meta_text(folded, **{key: reply.get(key) for key in _META}),
        steps=folded.steps,
    )


def _tools(row: dict[str, Any], reply: dict[str, Any]) -> list[Any]:
    listed = row.get("tools") or reply.get("tools")
    return listed if isinstance(listed, list) else []


ADAPTER = Adapter(
    name="responses",
    title="OpenAI Responses items, rows and response objects",
    domains=("mcp", "search", "terminal", "swe", "web", "os"),
    detect=detect,
    extract=extract,
    generic=True,
)
