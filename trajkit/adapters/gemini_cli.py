"""Gemini CLI sessions: `session-*.json` and, since 0.40, `session-*.jsonl` under `chats/`.

Written by Google's `gemini` command line; the format has no definition but its source. Up to 0.39 a
session is one document with `messages`. Since 0.40 it is JSON lines: a header, messages, patches
`{"$set": {...}}` of the header, and `{"$rewindTo": id}`. A message that is written again under its
id replaces the first one in its place: the earlier line counts as `replaced`. A rewind takes away a
message and all after it; what it took is a trajectory of its own, marked `meta.branch`, if it holds
an action. A patch may bring a whole new list of messages after a compaction or after old results
were masked: what the file told before is kept as it was, and only messages with new ids are added,
as text of the program.

One entry of `toolCalls` is call and answer at once. The answer is `result`, what the model saw;
`resultDisplay` is for the screen. Status `success` says that the tool ran: a command that failed
has it too, with its exit code inside the text, where it stays. A call that a person refused has the
status `cancelled`. Notes of type `info`, `warning` and `error` are for the screen only and count as
`screen_note`. Thoughts are lists of subject and description. A message may hold nothing else. Some
tools write `history` of `role` and `parts` instead of `messages`; it is read too. So is what the
program prints with `--output-format stream-json`, whose last line has the status of the run.
A sub-agent writes a file of its own into a folder named after the session that began it.

Smallest shape: {"sessionId": "s", "projectHash": "h", "startTime": "...", "messages": [{"id": "1",
"type": "user", "content": "..."}, {"id": "2", "type": "gemini", "content": "", "toolCalls": [{"id":
"c", "name": "f", "args": {}, "status": "success", "result": [{"functionResponse": {"id": "c",
"name": "f", "response": {"output": "..."}}}]}]}]}
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from trajkit.adapters import Adapter, gemini_parts
from trajkit.adapters.anthropic_blocks import Place
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
from trajkit.adapters.gemini_stream import is_stream_line
from trajkit.adapters.gemini_stream import messages as stream_messages
from trajkit.adapters.messages import Message, fold, make_call, skip_first
from trajkit.adapters.talk import heard, injected
from trajkit.ledger import Ledger
from trajkit.model import Record, Reject, Trajectory

_SCREEN = ("info", "warning", "error")
_AGENT = ("gemini", "model")
_SPEAKERS = ("user", *_AGENT, *_SCREEN)
_AGENT_KEYS = ("thoughts", "tokens", "toolCalls")
_REFUSAL = "User did not allow tool call"


def detect(value: Any) -> bool:
    """Return whether a value is a session document, a header line or an agent's line."""
    if not isinstance(value, dict):
        return False
    listed = value.get("messages", value.get("history"))
    kinds = [_kind(message) for message in mappings(listed)]
    if isinstance(value.get("sessionId"), str) and isinstance(value.get("projectHash"), str):
        return not kinds or any(kind in _SPEAKERS for kind in kinds)
    if isinstance(value.get("history"), list) and isinstance(value.get("lastUpdated"), str):
        return any(kind in _AGENT for kind in kinds)
    agent = value.get("type") == "gemini" and isinstance(value.get("id"), str)
    return is_stream_line(value) or (agent and any(key in value for key in _AGENT_KEYS))


def _kind(message: dict[str, Any]) -> Any:
    return message.get("type", message.get("role"))


@dataclass(slots=True)
class _Session:
    header: dict[str, Any] = field(default_factory=dict)
    live: dict[str, tuple[int, dict[str, Any]]] = field(default_factory=dict)
    left: list[list[tuple[int, dict[str, Any]]]] = field(default_factory=list)


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the session, then each branch that a rewind left."""
    if any(is_stream_line(mapping(line)) for line in record.value):
        yield _printed([mapping(line) for line in record.value], record)
        return
    session = _read(record.value, record.ledger)
    ways = [list(session.live.values()), *session.left]
    shown: set[int] = set()
    n_found = 0
    for lines in ways:
        messages = [m for event, raw in lines for m in _messages(raw, event)]
        shared = [m for event, raw in lines if event in shown for m in _messages(raw, event)]
        n_shared = len(fold(shared).steps)
        folded = fold(messages)
        if not folded.acts or all(s.action_kind == "none" for s in folded.steps[n_shared:]):
            continue
        fold(messages, record.ledger)
        shown.update(event for event, _ in lines)
        name = text(session.header.get("sessionId"))
        key = f"{record.origin.key or name or 'session'}~{n_found}" if n_found else None
        subagent = session.header.get("kind") == "subagent"
        yield Trajectory(
            origin=replace(record.origin, key=key or record.origin.key),
            adapter=ADAPTER.name,
            agent="gemini-cli",
            model=first_text((raw for _, raw in lines), "model"),
            task=folded.task,
            agent_system_prompt=folded.agent_system_prompt,
            parent_key=_folder(record.origin.path) if subagent else None,
            names=(name,) if name and not n_found else (),
            step_keys=folded.step_keys,
            started_at=text(session.header.get("startTime")),
            meta=meta_text(
                folded,
                session_id=name,
                project=text(session.header.get("projectHash")),
                summary=text(session.header.get("summary")),
                kind=text(session.header.get("kind")),
                branch={"n_shared_steps": n_shared} if n_found else None,
            ),
            steps=skip_first(folded.steps, n_shared, "shared_history"),
        )
        n_found += 1
    if n_found == 0:
        yield no_action(record)
    record.ledger.leave_the_rest("branch_without_action")


def _printed(lines: list[dict[str, Any]], record: Record) -> Trajectory | Reject:
    """Return the run that a printed stream tells of."""
    record.ledger.expect(range(len(lines)))
    folded = fold(stream_messages(lines), record.ledger)
    if not folded.acts:
        return no_action(record)
    name = first_text(lines, "session_id")
    ends = [line for line in lines if line.get("type") == "result"]
    return Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        agent="gemini-cli",
        model=first_text(lines, "model"),
        task=folded.task,
        exit_status=first_text(ends, "status"),
        names=(name,) if name else (),
        started_at=first_text(lines, "timestamp"),
        meta=meta_text(
            folded,
            session_id=name,
            error=next((line["error"] for line in ends if line.get("error")), None),
        ),
        steps=folded.steps,
    )


def _folder(path: str) -> str | None:
    """Return the folder of a file: for a sub-agent it has the name of the session above."""
    return path.split("/")[-2] if "/" in path else None


def _read(value: Any, ledger: Ledger) -> _Session:
    session = _Session()
    if isinstance(value, dict):
        session.header = {k: v for k, v in value.items() if k not in ("messages", "history")}
        listed = value.get("messages", value.get("history"))
        value = listed if isinstance(listed, list) else []
    ledger.expect(range(len(value)))
    for event, line in enumerate(value):
        raw = mapping(line)
        if isinstance(raw.get("$rewindTo"), str):
            _rewind(session, raw["$rewindTo"])
            ledger.left_out(event, "rewind")
        elif "$set" in raw:
            fresh = _patched(session, mapping(raw["$set"]), event)
            ledger.left_out(event, "bookkeeping")
            if fresh:
                ledger.became(event, "observation")
        elif _kind(raw) in _SPEAKERS:
            id_ = text(raw.get("id")) or f"line {event}"
            if id_ in session.live:
                ledger.left_out(session.live[id_][0], "replaced")
            session.live[id_] = (event, raw)
        elif "sessionId" in raw:
            session.header |= raw
            ledger.became(event, "context")
        else:
            ledger.left_out(event, "unknown_event")
    return session


def _rewind(session: _Session, target: str) -> None:
    """Take away a message and all after it; all there are when it is not known."""
    ids = list(session.live)
    kept = ids[: ids.index(target)] if target in ids else []
    session.left.append(list(session.live.values()))
    session.live = {id_: session.live[id_] for id_ in kept}


def _patched(session: _Session, patch: dict[str, Any], event: int) -> bool:
    """Take a patch of the header over, and tell whether it brought messages with new ids."""
    fresh = False
    for raw in mappings(patch.get("messages")):
        id_, content = text(raw.get("id")), raw.get("content")
        repeats = any("functionCall" in p or "functionResponse" in p for p in mappings(content))
        if id_ and id_ not in session.live and raw.get("type") == "user" and not repeats:
            session.live[id_] = (event, raw | {"type": "synthetic"})
            fresh = True
    session.header |= {key: item for key, item in patch.items() if key != "messages"}
    return fresh


def _messages(raw: dict[str, Any], event: int) -> Iterator[Message]:
    time, id_ = time_text(raw.get("timestamp", raw.get("ts"))), text(raw.get("id"))
    # A document stays beside the JSON lines that a newer version went on with, as copies.
    place = Place(event=event, time=time, key=f"{id_}@{time}" if id_ and time else None)
    kind, parts = _kind(raw), raw.get("parts")
    said, media = content_text(raw.get("content", parts))
    if kind in _SCREEN:
        yield Message(role="system", also=((event, "screen_note"),))
    elif kind == "synthetic":
        yield injected(said, place)
    elif isinstance(parts, list) and (kind in _AGENT or _answers(parts)):
        yield from gemini_parts.read("model" if kind in _AGENT else "user", parts, event, time)
    elif kind == "user":
        yield from heard(said, place, media=media)
    else:
        calls = mappings(raw.get("toolCalls"))
        yield Message(
            role="assistant",
            text=said or None,
            thought=_thought(raw.get("thoughts")),
            calls=tuple(make_call(c.get("name"), c.get("args"), c.get("id")) for c in calls),
            media=media,
            event=event,
            time=place.time,
            key=place.key,
        )
        for call in calls:
            answer = _answer(call, event)
            if answer is not None:
                yield answer


def _answers(parts: list[Any]) -> bool:
    return any(gemini_parts.result(part) is not None for part in mappings(parts))


def _thought(thoughts: Any) -> str | None:
    told = [
        "\n".join(part for key in ("subject", "description") if (part := text(thought.get(key))))
        for thought in mappings(thoughts)
    ]
    return "\n\n".join(filter(None, told)) or None


def _answer(call: dict[str, Any], event: int) -> Message | None:
    """Return what the model got to see of a call, or null when nothing came."""
    result = call.get("result")
    parts = mappings(result if isinstance(result, list) else [result])
    time = text(call.get("timestamp"))
    found = [m for part in parts if (m := gemini_parts.result(part, event, time)) is not None]
    beside = [part for part in parts if gemini_parts.result(part) is None]
    own = [m for m in found if m.call_id == call.get("id")] or found
    if own:
        extra, media = content_text(beside) if beside else (None, None)
        shown = "\n".join(filter(None, (own[0].text, extra)))
        answer = replace(own[0], text=shown, media=own[0].media or media)
    elif beside or isinstance(result, str):
        shown, media = content_text(beside or result)  # type: ignore[assignment]
        answer = Message(role="result", text=shown, media=media, event=event, time=time)
    else:
        return None
    status = text(call.get("status"))
    refused = status == "cancelled" and _REFUSAL in (answer.text or "")
    return replace(
        answer,
        call_id=text(call.get("id")),
        name=text(call.get("name")),
        error="rejected" if refused else status if status in ("error", "cancelled") else None,
        source="user" if refused else "harness" if status == "cancelled" else None,
    )


ADAPTER = Adapter(
    name="gemini-cli",
    title="Gemini CLI sessions: documents to 0.39, JSON lines with patches since 0.40",
    domains=("swe", "terminal", "mcp", "search"),
    detect=detect,
    extract=extract,
    unit="session",
)
