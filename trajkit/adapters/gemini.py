"""Gemini contents: `{"contents": [...], "systemInstruction": ..., "tools": [...]}`, or a bare list.

Defined by the Gemini API (`generateContent`). A row is a request with its history; a reply stands
beside it as `response`, or alone as `{"candidates": [...]}`. Keys are camelCase on the wire and
snake_case in logs of the Python SDK, and both are read everywhere. `systemInstruction` is a content
or text; `tools` hold `functionDeclarations`.

Traps. Calls have an `id` in newer logs only: else the answer goes to the first open call of its
function's name. Answers stand in contents of role `user`, `function` or `tool`. The wrapper of
an answer (`output`, `error`, the SDK's `result`) is taken off where it is alone. Parts with
`"thought": true` are thoughts. Code that the API ran (`executableCode`) is an action of its own,
answered inside the same content.

Smallest shape: {"contents": [{"role": "user", "parts": [{"text": "..."}]}, {"role": "model",
"parts": [{"functionCall": {"name": "f", "args": {}}}]}, {"role": "user", "parts":
[{"functionResponse": {"name": "f", "response": {"output": "..."}}}]}]}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trajkit.adapters import Adapter, gemini_parts
from trajkit.adapters.content import content_text
from trajkit.adapters.fields import first_text, mapping, mappings, meta_text, no_action
from trajkit.adapters.messages import fold, tools_text
from trajkit.model import Record, Reject, Trajectory

_ROLES = ("user", "model", "function", "tool", "system", None)
_DECLARATIONS = ("functionDeclarations", "function_declarations")


def detect(value: Any) -> bool:
    """Return whether a value is a request, reply or list of contents in which a model speaks."""
    contents = _contents(value)
    return (
        isinstance(contents, list)
        and any(_speaks(content) for content in contents)
        and all(
            isinstance(content, dict)
            and content.get("role") in _ROLES
            and isinstance(content.get("parts"), list)
            and "type" not in content
            for content in contents
        )
    )


def _speaks(content: Any) -> bool:
    return isinstance(content, dict) and content.get("role") == "model"


def _contents(value: Any) -> Any:
    """Return history and reply as one list of contents."""
    if not isinstance(value, dict):
        return value
    listed = value.get("contents")
    reply = mappings((mapping(value.get("response")) or value).get("candidates"))
    said = [mapping(candidate.get("content")) for candidate in reply[:1]]
    if listed is None and not said:
        return None
    return [*(listed if isinstance(listed, list) else [listed] if listed else []), *said]


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the one episode of a row or list."""
    contents = _contents(record.value)
    row = mapping(record.value)
    config = mapping(row.get("config"))
    record.ledger.expect(range(len(contents)))
    folded = fold(gemini_parts.messages(contents), record.ledger)
    if not folded.acts:
        yield no_action(record)
        return
    keys = ("systemInstruction", "system_instruction")
    system = next((found[key] for found in (row, config) for key in keys if found.get(key)), None)
    reply = mapping(row.get("response")) or row
    yield Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        model=first_text([row, reply], "model", "modelVersion", "model_version"),
        task=folded.task,
        agent_system_prompt=_system(system) or folded.agent_system_prompt,
        action_space=tools_text(_tools(row.get("tools") or config.get("tools"))),
        meta=meta_text(
            folded, usage=reply.get("usageMetadata"), response_id=reply.get("responseId")
        ),
        steps=folded.steps,
    )


def _system(instruction: Any) -> str | None:
    parts = instruction.get("parts") if isinstance(instruction, dict) else instruction
    return content_text(parts)[0] or None


def _tools(tools: Any) -> list[Any]:
    """Return the declared functions, and each tool that is none (a search, code execution)."""
    found: list[Any] = []
    for tool in mappings(tools):
        declared = next((tool[key] for key in _DECLARATIONS if key in tool), None)
        found.extend(declared if isinstance(declared, list) else [tool])
    return found


ADAPTER = Adapter(
    name="gemini",
    title="Gemini API contents, camelCase or snake_case",
    domains=("mcp", "search", "terminal", "swe", "web", "os"),
    detect=detect,
    extract=extract,
    generic=True,
)
