"""LangChain messages in all three serialisations, and what LangGraph streams or stores of them.

Defined by `langchain-core`: `messages_to_dict` (`{"type": "ai", "data": {...}}`), `dumpd` (`{"lc":
1, "type": "constructor", "id": [..., "AIMessage"], "kwargs": {...}}`) and `model_dump` (flat). Read
here: bare lists, rows with `messages`, LangGraph checkpoints (`channel_values.messages`), and
streams: chunks `{node: {"messages": [...]}}` of one run follow each other, and states that repeat
the messages before them, of which the longest is kept (`repeated_prefix`).

Traps. An AI message may hold the same call in its content blocks and in `tool_calls`: the latter
counts. `invalid_tool_calls` hold arguments that could not be parsed. Messages older than 0.1 keep
calls in `additional_kwargs` as OpenAI wrote them. A tool message with `status` `error` failed;
`artifact` is what the model did not see. `RemoveMessage` takes a message out of the state: it
counts as `bookkeeping`, and what it removed stays.

Smallest shape: [{"type": "human", "data": {"content": "..."}}, {"type": "ai", "data": {"content":
"", "tool_calls": [{"name": "f", "args": {}, "id": "c1"}]}}, {"type": "tool", "data": {"content":
"...", "tool_call_id": "c1"}}]
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from trajkit.adapters import Adapter, openai_chat
from trajkit.adapters.content import content_text
from trajkit.adapters.fields import mapping, mappings, meta_text, no_action, text
from trajkit.adapters.messages import Call, Message, fold, id_text, make_call, tools_text
from trajkit.ledger import Ledger
from trajkit.model import Origin, Record, Reject, Trajectory, to_json_text

_CLASSES = {
    "HumanMessage": "human",
    "AIMessage": "ai",
    "AIMessageChunk": "ai",
    "SystemMessage": "system",
    "ToolMessage": "tool",
    "FunctionMessage": "function",
    "ChatMessage": "chat",
    "RemoveMessage": "remove",
}
_TYPES = (*dict.fromkeys(_CLASSES.values()), "AIMessageChunk")
_SIGNS = ("additional_kwargs", "response_metadata", "tool_calls", "tool_call_id")
_HIDDEN = ("tool_use", "tool_call", "thinking", "reasoning", "function_call", "input_json_delta")


def detect(value: Any) -> bool:
    """Return whether a value holds messages of this library, or is a list of stream chunks."""
    if isinstance(value, list) and value and all(map(_is_chunk, value)):
        return True
    return _is_list(_list(value)) or _is_chunk(value)


def _plain(raw: Any) -> tuple[str, dict[str, Any]] | None:
    """Return type and fields of a serialised message, or null when it is none."""
    if not isinstance(raw, dict):
        return None
    kind, name = raw.get("type"), raw.get("id")
    if kind == "constructor" and isinstance(name, list) and name and "lc" in raw:
        known = _CLASSES.get(name[-1]) if isinstance(name[-1], str) else None
        return (known, mapping(raw.get("kwargs"))) if known else None
    if not isinstance(kind, str) or kind not in _TYPES:
        return None
    fields = raw["data"] if isinstance(raw.get("data"), dict) else raw
    return ("ai" if kind == "AIMessageChunk" else kind), fields


def _is_list(listed: Any) -> bool:
    if not isinstance(listed, list) or not listed:
        return False
    plain = [_plain(raw) for raw in listed]
    return all(plain) and any(
        raw.get("type") == "constructor" or "data" in raw or any(sign in raw for sign in _SIGNS)
        for raw in listed
    )


def _list(value: Any) -> Any:
    """Return the message list of a list, row or checkpoint."""
    if not isinstance(value, dict):
        return value
    held = value.get("channel_values")
    return (held if isinstance(held, dict) else value).get("messages")


def _is_chunk(value: Any) -> bool:
    """Return whether a value is what some nodes of a graph added: `{node: {"messages": [...]}}`."""
    return (
        isinstance(value, dict)
        and "messages" not in value
        and any(_is_list(_added(update)) for update in value.values())
        and all(update is None or isinstance(update, dict) for update in value.values())
    )


def _added(update: Any) -> Any:
    """Return the messages that one node added; a single one may stand without its list."""
    added = update.get("messages") if isinstance(update, dict) else None
    return [added] if isinstance(added, dict) else added


def row_key(value: Any) -> str:
    """Return what the rows of one run share: they are chunks, or begin with the same request."""
    if _is_chunk(value):
        return "chunks"
    asked: list[Any] = []
    for raw in _list(value):
        asked.append(raw)
        plain = _plain(raw)
        if plain is None or plain[0] not in ("system", "remove"):
            break
    return hashlib.sha256(to_json_text(asked).encode()).hexdigest()[:16]


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the episode of a list, a checkpoint, a run of chunks; of states those not repeated."""
    value = record.value
    if _is_list(_list(value)):
        yield _episode(record, record.origin, mapping(value), list(enumerate(_list(value))))
    elif isinstance(value, dict) or _is_chunk(value[0]):
        chunks = _chunks([value] if isinstance(value, dict) else value, record.ledger)
        yield _episode(record, record.origin, {}, list(chunks))
    else:
        kept = [number for number in range(len(value)) if not _is_repeated(value, number)]
        for number in range(len(value)):
            record.ledger.left_out(number, "repeated_prefix")
        for number in kept:
            record.ledger.became(number, "context")
            raws = [((number, n), raw) for n, raw in enumerate(_list(value[number]))]
            key = record.origin.key if number == kept[0] else f"{record.origin.key}~{number}"
            yield _episode(record, replace(record.origin, key=key), mapping(value[number]), raws)


def _is_repeated(rows: list[Any], number: int) -> bool:
    """Return whether the next row begins with all messages of a row."""
    if number + 1 == len(rows):
        return False
    listed = _list(rows[number])
    return bool(_list(rows[number + 1])[: len(listed)] == listed)


def _episode(
    record: Record, origin: Origin, row: dict[str, Any], raws: Sequence[tuple[Hashable, Any]]
) -> Trajectory | Reject:
    record.ledger.expect(event for event, _ in raws)
    folded = fold(_messages(raws), record.ledger)
    if not folded.acts:
        return replace(no_action(record), origin=origin)
    spoken = [plain[1] for _, raw in raws if (plain := _plain(raw))]
    return Trajectory(
        origin=origin,
        adapter=ADAPTER.name,
        model=next((model for fields in spoken if (model := _model(fields))), None),
        task=folded.task,
        agent_system_prompt=folded.agent_system_prompt,
        action_space=tools_text(row.get("tools")),
        meta=meta_text(folded, id=row.get("id"), thread_id=row.get("thread_id")),
        steps=folded.steps,
    )


def _chunks(rows: list[Any], ledger: Ledger) -> Iterator[tuple[Hashable, Any]]:
    """Give the messages of chunks, each with the number of its chunk; repeated ones once."""
    seen: set[str] = set()
    for number, chunk in enumerate(rows):
        ledger.left_out(number, "bookkeeping")
        for update in chunk.values():
            added = _added(update)
            for raw in added if isinstance(added, list) else []:
                plain = _plain(raw)
                name = text(plain[1].get("id")) if plain else None
                if name is not None and name in seen:
                    ledger.left_out(number, "repeated_prefix")
                    continue
                yield number, raw
                seen |= {name} if name else set()


def _messages(raws: Iterable[tuple[Hashable, Any]]) -> Iterator[Message]:
    for event, raw in raws:
        plain = _plain(raw)
        if plain is None:
            yield Message(role="system", also=((event, "unknown_event"),))
        elif plain[0] == "remove":
            yield Message(role="system", also=((event, "bookkeeping"),))
        else:
            yield replace(_message(*plain), event=event)


def _message(kind: str, fields: dict[str, Any]) -> Message:
    if kind == "ai" or (kind == "chat" and fields.get("role") == "assistant"):
        return _agent(fields)
    said, media = content_text(fields.get("content"))
    if kind in ("tool", "function"):
        return Message(
            role="result",
            text=said,
            call_id=id_text(fields.get("tool_call_id")),
            name=text(fields.get("name")),
            error="is_error" if fields.get("status") == "error" else None,
            media=media,
        )
    is_system = kind == "system" or fields.get("role") in ("system", "developer")
    return Message(role="system" if is_system else "user", text=said, media=media)


def _agent(fields: dict[str, Any]) -> Message:
    content = fields.get("content")
    blocks = content if isinstance(content, list) else [content]
    shown = [b for b in blocks if b is not None and mapping(b).get("type") not in _HIDDEN]
    said, media = content_text(shown)
    more = mapping(fields.get("additional_kwargs"))
    thoughts = [mapping(b).get("thinking") or mapping(b).get("reasoning") for b in blocks]
    thoughts.append(more.get("reasoning_content"))
    details = mapping(fields.get("response_metadata"))
    is_cut = details.get("finish_reason") == "length" or details.get("stop_reason") == "max_tokens"
    calls = _calls(fields, more)
    return Message(
        role="assistant",
        text=said or None,
        thought="\n\n".join(filter(None, map(text, thoughts))) or None,
        calls=tuple(replace(call, valid=call.valid and not is_cut) for call in calls),
        media=media,
    )


def _calls(fields: dict[str, Any], more: dict[str, Any]) -> list[Call]:
    calls = [
        make_call(call.get("name"), call.get("args"), call.get("id"))
        for call in mappings(fields.get("tool_calls"))
    ]
    for call in mappings(fields.get("invalid_tool_calls")):
        made = make_call(call.get("name"), call.get("args"), call.get("id"))
        calls.append(replace(made, valid=False))
    if not calls and (more.get("tool_calls") or more.get("function_call")):
        raw = {"role": "assistant"} | {k: more.get(k) for k in ("tool_calls", "function_call")}
        calls = [call for m in openai_chat.messages([raw]) for call in m.calls]
    return calls


def _model(fields: dict[str, Any]) -> str | None:
    details = mapping(fields.get("response_metadata"))
    return text(details.get("model_name")) or text(details.get("model"))


ADAPTER = Adapter(
    name="langchain",
    title="LangChain messages (messages_to_dict, dumpd, model_dump) and LangGraph streams",
    domains=("mcp", "search", "terminal", "swe", "web", "os"),
    detect=detect,
    extract=extract,
    unit="rows",
    row_key=row_key,
)
