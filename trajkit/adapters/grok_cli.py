"""Grok command line sessions: `chat_history.jsonl` in the folder of a session.

Written by xAI's `grok`; without a published definition. A line has the type `system`, `user`,
`reasoning`, `assistant`, `tool_result` or `backend_tool_call`, and no time. Reasoning is a line of
its own before the reply that it belongs to; only its summary can be read. A `backend_tool_call` ran
at the provider: its sources are what came back, and nothing else of the answer is logged. A user
line with a `synthetic_reason` is the program's, but `interjection` is a person who broke in. A
person's request may stand in `<user_query>`, then what is around it is the program's.

Smallest shape: {"type": "user", "content": [{"type": "text", "text": "..."}], "prompt_index": 0},
{"type": "assistant", "content": "", "tool_calls": [{"id": "c", "name": "f", "arguments": "{}"}],
"model_id": "grok-4"} and {"type": "tool_result", "tool_call_id": "c", "content": "..."}
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from trajkit.adapters import Adapter
from trajkit.adapters.anthropic_blocks import Place, unread
from trajkit.adapters.content import content_text
from trajkit.adapters.fields import first_text, mapping, mappings, meta_text, no_action, text
from trajkit.adapters.messages import Call, Message, fold, id_text, make_call
from trajkit.adapters.talk import heard, injected
from trajkit.model import Record, Reject, Trajectory, to_json_text


def detect(value: Any) -> bool:
    """Return whether a value is a line that only this program writes."""
    if not isinstance(value, dict):
        return False
    kind = value.get("type")
    if kind == "user":
        marks = {"prompt_index", "synthetic_reason", "prior_turn_interrupt"}
        return "content" in value and not marks.isdisjoint(value)
    if kind == "assistant":
        return "content" in value and isinstance(value.get("model_id"), str)
    if kind == "tool_result":
        return isinstance(value.get("tool_call_id"), str) and "content" in value
    return kind == "backend_tool_call" and isinstance(value.get("kind"), dict)


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the one session of a file."""
    lines = [mapping(line) for line in record.value]
    record.ledger.expect(range(len(lines)))
    folded = fold(_messages(lines), record.ledger)
    if not folded.acts:
        yield no_action(record)
        return
    yield Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        agent="grok-cli",
        model=first_text(lines, "model_id"),
        task=folded.task,
        agent_system_prompt=folded.agent_system_prompt,
        meta=meta_text(folded, reasoning_effort=first_text(lines, "reasoning_effort")),
        steps=folded.steps,
    )


def _messages(lines: list[dict[str, Any]]) -> Iterator[Message]:
    thoughts: list[str] = []
    events: list[tuple[Hashable, str]] = []
    for event, line in enumerate(lines):
        kind = line.get("type")
        place = Place(event=event)
        said, media = content_text(line.get("content"))
        if kind == "reasoning":
            thought, _ = content_text(line.get("summary", line.get("content")))
            thoughts.append(thought or "")
            events.append((event, "thought" if thought else "withheld_thinking"))
            continue
        if kind in ("assistant", "backend_tool_call"):
            calls = [_call(call) for call in mappings(line.get("tool_calls"))]
            backend = mapping(line.get("kind")) if kind == "backend_tool_call" else {}
            action = mapping(backend.get("action"))
            if backend:
                asked = {key: item for key, item in action.items() if key != "sources"}
                calls = [make_call(backend.get("tool_type"), asked, backend.get("id"))]
            yield Message(
                role="assistant",
                text=said or None,
                thought="\n\n".join(filter(None, thoughts)) or None,
                calls=tuple(calls),
                media=media,
                event=event,
                also=tuple(events),
            )
            thoughts, events = [], []
            if action.get("sources"):
                found = to_json_text(action["sources"])
                id_ = id_text(backend.get("id"))
                yield Message(role="result", text=found, call_id=id_, event=event)
            continue
        if events:
            yield _thinking(thoughts, events)
            thoughts, events = [], []
        if kind == "tool_result":
            id_ = id_text(line.get("tool_call_id"))
            yield Message(role="result", text=said, call_id=id_, media=media, event=event)
        elif kind == "system":
            yield Message(role="system", text=said, event=event)
        elif kind == "user" and line.get("synthetic_reason") not in (None, "interjection"):
            yield injected(said, place)
        elif kind == "user":
            yield from heard(said, place, media=media, wrapper="user_query")
        else:
            yield unread(event, "unknown_event")
    if events:
        yield _thinking(thoughts, events)


def _thinking(thoughts: list[str], events: list[tuple[Hashable, str]]) -> Message:
    thought = "\n\n".join(filter(None, thoughts)) or None
    return Message(role="assistant", thought=thought, also=tuple(events))


def _call(call: dict[str, Any]) -> Call:
    function = mapping(call.get("function")) or call
    return make_call(text(function.get("name")), function.get("arguments"), call.get("id"))


ADAPTER = Adapter(
    name="grok-cli",
    title="Grok command line sessions (chat_history.jsonl)",
    domains=("swe", "terminal", "mcp", "search"),
    detect=detect,
    extract=extract,
    unit="session",
)
