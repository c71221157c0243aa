"""Session files of the Pi agent core, read for every program that writes them.

Used by the `pi` and `openclaw` adapters, whose docstrings say what the format is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from trajkit.adapters.anthropic_blocks import Place
from trajkit.adapters.content import content_text
from trajkit.adapters.event_tree import Node, branches, link
from trajkit.adapters.fields import (
    first_text,
    integer,
    mapping,
    mappings,
    meta_text,
    no_action,
    text,
)
from trajkit.adapters.messages import Message, make_call, skip_first
from trajkit.adapters.talk import heard, injected
from trajkit.model import Record, Reject, Trajectory, to_json_text

_CONTEXT = ("session", "model_change", "session_info")
_BOOKKEEPING = ("thinking_level_change", "label", "custom", "context_transform", "ephemeral")
_SUMMARIES = ("compaction", "branch_summary")
_PROGRAM = ("custom", "hookMessage", "branchSummary", "compactionSummary")


def is_header(value: Any) -> bool:
    """Return whether a value is the first line of a session file."""
    return (
        isinstance(value, dict)
        and value.get("type") == "session"
        and isinstance(value.get("id"), str)
        and isinstance(value.get("cwd"), str)
        and "timestamp" in value
    )


def read(record: Record, *, adapter: str) -> Iterator[Trajectory | Reject]:
    """Give the live branch of a session, then those that were left."""
    lines = [mapping(line) for line in record.value]
    record.ledger.expect(range(len(lines)))
    nodes = link(
        enumerate(lines), record.ledger, id_key="id", parent_key="parentId", aliases=_call_ids
    )
    header = next((line for line in lines if is_header(line)), {})
    version = integer(header.get("version"))
    name = text(header.get("id"))
    n_found = 0
    for branch in branches(nodes, _messages, record.ledger):
        raws = [node.raw for node in branch.nodes]
        talk = [mapping(raw.get("message")) for raw in raws]
        model = first_text(talk, "model") or first_text(lines, "modelId")
        key = f"{record.origin.key or name or 'session'}~{n_found}" if n_found else None
        yield Trajectory(
            origin=replace(record.origin, key=key or record.origin.key),
            adapter=adapter,
            format_version=str(version) if version is not None else "1" if header else None,
            agent=adapter,
            model=model,
            task=branch.folded.task,
            names=(name,) if name and not n_found else (),
            step_keys=branch.folded.step_keys,
            started_at=text(header.get("timestamp")),
            meta=meta_text(
                branch.folded,
                session_id=name,
                cwd=text(header.get("cwd")),
                provider=first_text(talk, "provider") or first_text(lines, "provider"),
                title=first_text((r for r in lines if r.get("type") == "session_info"), "name"),
                forked_from=first_text([header], "parentSession", "branchedFrom"),
                compactions=sum(raw.get("type") == "compaction" for raw in raws) or None,
                branch={"n_shared_steps": branch.n_shared_steps} if n_found else None,
            ),
            steps=skip_first(branch.folded.steps, branch.n_shared_steps, "shared_history"),
        )
        n_found += 1
    if n_found == 0:
        yield no_action(record)


def _call_ids(line: dict[str, Any]) -> list[str]:
    """Return the ids of the calls in a line: OpenClaw links an answer to the call itself."""
    blocks = mappings(mapping(line.get("message")).get("content"))
    return [id_ for block in blocks if (id_ := text(block.get("id"))) is not None]


def _messages(node: Node) -> Iterator[Message]:
    raw = node.raw
    kind = raw.get("type")
    time = text(raw.get("timestamp"))
    # Ids are unique in a session only; with its time an entry is known in copies of a session too.
    key = f"{raw['id']}@{time}" if text(raw.get("id")) and time else None
    place = Place(event=node.event, time=time, key=key)
    if kind == "message" and isinstance(raw.get("message"), dict):
        yield from _message(raw["message"], place)
    elif kind in _SUMMARIES and text(raw.get("summary")):
        yield injected(raw["summary"], place)
    elif kind == "custom_message":
        yield injected(content_text(raw.get("content"))[0], place)
    elif kind in _CONTEXT:
        yield Message(role="system", also=((node.event, "context"),))
    elif kind in _BOOKKEEPING or kind in _SUMMARIES:
        yield Message(role="system", also=((node.event, "bookkeeping"),))
    else:
        yield Message(role="system", also=((node.event, "unknown_event"),))


def _message(message: dict[str, Any], place: Place) -> Iterator[Message]:
    role = message.get("role")
    content = message.get("content")
    if role == "assistant":
        yield _agent(message, place)
    elif role == "toolResult":
        said, media = content_text(content)
        code = mapping(message.get("details")).get("exitCode")
        yield Message(
            role="result",
            text=said,
            call_id=text(message.get("toolCallId")),
            name=text(message.get("toolName")),
            error="is_error" if message.get("isError") is True else None,
            exit_code=integer(code),
            media=media,
            event=place.event,
            time=place.time,
            key=place.key,
        )
    elif role == "bashExecution":
        # A person ran a command; what it printed is no answer to the agent.
        kept = ("command", "output", "exitCode", "cancelled", "truncated")
        ran = to_json_text({name: message[name] for name in kept if name in message})
        code = integer(message.get("exitCode"))
        cut = message.get("truncated") is True
        yield replace(injected(ran, place), exit_code=code, truncated=cut)
    elif role in _PROGRAM:
        yield injected(content_text(content)[0] or text(message.get("summary")), place)
    elif role == "user":
        said, media = content_text(content)
        yield from heard(said, place, media=media)
    else:
        yield Message(role="system", also=((place.event, "unknown_event"),))


def _agent(message: dict[str, Any], place: Place) -> Message:
    content = message.get("content")
    blocks = mappings(content) if isinstance(content, list) else [{"text": content}]
    thoughts = [t for b in blocks if b.get("type") == "thinking" and (t := text(b.get("thinking")))]
    shown = [b for b in blocks if b.get("type") not in ("thinking", "toolCall")]
    said, media = content_text(shown)
    calls = [b for b in blocks if b.get("type") == "toolCall"]
    failed = message.get("stopReason") in ("error", "aborted")
    silent = not (said or thoughts or calls)
    return Message(
        role="assistant",
        text=said or None,
        thought="\n\n".join(thoughts) or None,
        calls=tuple(make_call(c.get("name"), c.get("arguments"), c.get("id")) for c in calls),
        media=media,
        event=None if silent and failed else place.event,
        also=((place.event, "failed_reply"),) if silent and failed else (),
        time=place.time,
        key=place.key,
    )
