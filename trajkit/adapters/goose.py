"""Goose sessions: JSON lines up to 1.9, exported documents, and what stream JSON prints.

Written by Block's Goose, defined by its source. A session file has a header (`working_dir`,
`description`) and a message on each line: `role`, `created` in seconds, and `content` of the types
`text`, `thinking`, `toolRequest`, `toolResponse` and others. Newer versions keep sessions in a
database; `goose session export --format json` gives a document whose `conversation` holds the same
messages. `--output-format stream-json` prints them inside `{"type": "message", "message": ...}`,
cut into chunks that share the `id` of their message: they are joined again.

Requests and responses have a `status`. A request whose call could not be parsed has the status
`error`: it stands as a call that is not valid. A response holds a list of contents of the Model
Context Protocol, or since 1.8 an object with `content` and `isError`. Contents that are meant for
the person alone (`annotations.audience`) are not what the model saw and are left out, if others
are there.

Smallest shape: {"working_dir": "/", "description": ""}, {"role": "assistant", "created": 1,
"content": [{"type": "toolRequest", "id": "c", "toolCall": {"status": "success", "value": {"name":
"f", "arguments": {}}}}]} and {"role": "user", "created": 2, "content": [{"type": "toolResponse",
"id": "c", "toolResult": {"status": "success", "value": [{"type": "text", "text": "..."}]}}]}
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from trajkit.adapters import Adapter
from trajkit.adapters.anthropic_blocks import Place, unread
from trajkit.adapters.content import content_text
from trajkit.adapters.fields import (
    first_text,
    mapping,
    mappings,
    meta_text,
    no_action,
    text,
    time_text,
)
from trajkit.adapters.messages import Call, Message, fold, id_text, make_call
from trajkit.adapters.talk import heard
from trajkit.model import Record, Reject, Trajectory, to_json_text

_REQUESTS = ("toolRequest", "frontendToolRequest")
_TYPES = (*_REQUESTS, "toolResponse", "thinking", "redactedThinking", "text", "image")
_BOOKKEEPING = ("complete", "notification", "model_change", "error")


def detect(value: Any) -> bool:
    """Return whether a value is a line or a document that only this program writes."""
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("working_dir"), str):
        return "description" in value or isinstance(value.get("conversation"), list)
    message = mapping(value.get("message")) if value.get("type") == "message" else value
    created, content = message.get("created"), message.get("content")
    return (
        type(created) is int
        and message.get("role") in ("user", "assistant")
        and isinstance(content, list)
        and all(part.get("type") in _TYPES for part in mappings(content))
    )


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the one session of a file or document."""
    if isinstance(record.value, dict):
        head = [{key: item for key, item in record.value.items() if key != "conversation"}]
        lines = mappings(record.value.get("conversation"))
    else:
        lines = [mapping(line) for line in record.value]
        head = [line for line in lines if "working_dir" in line]
    record.ledger.expect(range(len(lines)))
    folded = fold(_messages(lines), record.ledger)
    if not folded.acts:
        yield no_action(record)
        return
    name = first_text(head, "id", "session_id")
    models = [mapping(line.get("model_config")) for line in head]
    yield Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        agent="goose",
        model=first_text(models, "model_name"),
        task=folded.task,
        agent_system_prompt=folded.agent_system_prompt,
        names=(name,) if name else (),
        started_at=next((s.time for s in folded.steps if s.time), None),
        meta=meta_text(
            folded,
            session_id=name,
            cwd=first_text(head, "working_dir"),
            description=first_text(head, "description", "name"),
        ),
        steps=folded.steps,
    )


def _messages(lines: list[dict[str, Any]]) -> Iterator[Message]:
    chunks: list[tuple[int, dict[str, Any]]] = []
    for event, line in enumerate(lines):
        raw = mapping(line.get("message")) if line.get("type") == "message" else line
        if "role" not in raw:
            if "working_dir" in line:
                yield unread(event, "context")
            else:
                known = line.get("type") in _BOOKKEEPING
                yield unread(event, "bookkeeping" if known else "unknown_event")
            continue
        same = chunks and raw.get("id") is not None and chunks[0][1].get("id") == raw["id"]
        if chunks and not same:
            yield from _joined(chunks)
            chunks = []
        chunks.append((event, raw))
    if chunks:
        yield from _joined(chunks)


def _joined(chunks: list[tuple[int, dict[str, Any]]]) -> Iterator[Message]:
    """Give one message, or the chunks of one, as messages."""
    event, first = chunks[0]
    role = first["role"]
    parts = [part for _, raw in chunks for part in mappings(raw.get("content"))]
    time, id_ = time_text(first.get("created")), text(first.get("id"))
    place = Place(event=event, time=time, key=f"{id_}@{time}" if id_ and time else None)
    answers = [part for part in parts if part.get("type") == "toolResponse"]
    rest = [part for part in parts if part.get("type") != "toolResponse"]
    also: tuple[tuple[Hashable, str], ...] = tuple(
        (number, "observation" if role == "user" else "action") for number, _ in chunks[1:]
    )
    yield from (_result(part, place) for part in answers)
    if role == "assistant" and rest:
        shown = [part for part in rest if "hinking" not in str(part.get("type"))]
        shown = [part for part in shown if part.get("type") not in _REQUESTS]
        texts = [content_text([part])[0] or "" for part in shown]
        thoughts = [text(part.get("thinking")) or "" for part in rest if "thinking" in part]
        yield Message(
            role="assistant",
            text="".join(texts) if len(chunks) > 1 else "\n".join(texts) or None,
            thought="".join(thoughts) or None,
            calls=tuple(_call(part) for part in rest if part.get("type") in _REQUESTS),
            event=event,
            also=also,
            time=place.time,
            key=place.key,
        )
    elif rest or not answers:
        said, media = content_text(rest)
        yield from heard(said, place, media=media)


def _call(part: dict[str, Any]) -> Call:
    logged = mapping(part.get("toolCall"))
    value = logged.get("value")
    if isinstance(value, dict):
        return make_call(value.get("name"), value.get("arguments"), part.get("id"))
    return Call(action=to_json_text(logged), name=None, id=id_text(part.get("id")), valid=False)


def _result(part: dict[str, Any], place: Place) -> Message:
    logged = mapping(part.get("toolResult"))
    value = logged.get("value")
    failed = mapping(value).get("isError") is True or logged.get("status") == "error"
    contents = mappings(value.get("content") if isinstance(value, dict) else value)
    for_model = [c for c in contents if _audience(c) != ["user"]] or contents
    said, media = content_text(for_model)
    if not contents:
        said = text(logged.get("error")) or (to_json_text(value) if value else said)
    return Message(
        role="result",
        text=said,
        call_id=id_text(part.get("id")),
        error="is_error" if failed else None,
        media=media,
        event=place.event,
        time=place.time,
        key=place.key,
    )


def _audience(content: dict[str, Any]) -> Any:
    return mapping(content.get("annotations")).get("audience")


ADAPTER = Adapter(
    name="goose",
    title="Goose sessions: JSON lines, exported documents, stream JSON",
    domains=("swe", "terminal", "mcp", "search"),
    detect=detect,
    extract=extract,
    unit="session",
)
