"""opencode sessions: its storage folder, `opencode export`, and `opencode run --format json`.

Written by the opencode command line; defined by its source. Shapes and drift read here:

- the storage folder, read as a whole: `storage/session/<project>/<session>.json`,
  `storage/message/<session>/<message>.json`, `storage/part/<message>/<part>.json`, and the counter
  `storage/migration`. Before the migrations `storage/session/{info,message,part}/`, with parts
  inside the message (`tool-invocation`) in the first version, and parts in one flat folder. A tree
  whose files were flattened to names with `__` for `/` is the same tree. Newer versions keep a
  database instead and give the same objects through `export`;
- `opencode export` and the server: `{"info", "messages": [{"info", "parts"}]}`, or the bare list;
- `run --format json`: lines `step_start`, `text`, `reasoning`, `tool_use`, `step_finish`, `error`,
  without what the person said, so such a trajectory has no task.

Messages are ordered by the time they were created, parts by their id. A message may hold several
steps of the model, one after each `step-start`. A `tool` part is call and answer in one: `output`,
or `error` where it failed; a call that is still `pending` or `running` has no answer. A part whose
message is missing still gives its call. Not a person's words: `synthetic` parts, reminders, and the
summary a compaction writes; `meta.context_windows` holds the step each window of the agent's
context begins with, and nothing is cut. `meta.thinking` tells for each turn whether its reasoning
is `present`, `withheld` or `none`. Sessions of sub-agents name their parent in `parentID`.

Smallest shape: {"info": {"id": "ses_1"}, "messages": [{"info": {"id": "msg_1", "role":
"assistant"}, "parts": [{"type": "tool", "tool": "bash", "state": {"input": {}, "output": ""}}]}]}
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from trajkit.adapters import Adapter
from trajkit.adapters.fields import (
    first_text,
    mapping,
    mappings,
    meta_text,
    quantity,
    text,
    time_text,
)
from trajkit.adapters.messages import fold
from trajkit.adapters.opencode_parts import Entry, Part, Reader
from trajkit.adapters.step_keys import distinct
from trajkit.ledger import Ledger
from trajkit.model import Bundle, Record, Reject, Trajectory

_ROOT = re.compile(r"(?:.*/)?storage[^/]*")
_LINES = ("step_start", "text", "reasoning", "tool_use", "step_finish", "error")
_STEPS = {"step_start": "step-start", "step_finish": "step-finish", "tool_use": "tool"}


@dataclass(slots=True)
class _Session:
    info: dict[str, Any] = field(default_factory=dict)
    events: list[Hashable] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def _place(path: str) -> tuple[str | None, str, list[str]]:
    """Return the root of the tree that a path is in, the kind of file, and the names below it."""
    parts = path.replace("__", "/").split("/")
    for number in range(len(parts) - 2, -1, -1):
        root = "/".join(parts[: number + 1])
        if _ROOT.fullmatch(root):
            kind, *names = parts[number + 1 :]
            if kind == "session" and names and names[0] in ("info", "message", "part"):
                kind, *names = names
            return root, "session" if kind == "info" else kind, names
    return None, "", []


def _within(name: str) -> tuple[str, list[str]]:
    """Return kind and names of a file of a bundle, whether its name has the root or not."""
    root, kind, names = _place(name)
    return (kind, names) if root is not None else _place(f"storage/{name}")[1:]


def bundle(path: str) -> str | None:
    """Return the storage folder that a file is in."""
    root, kind, names = _place(path)
    if root is None or (kind == "migration") == bool(names):
        return None
    is_known = kind == "migration" or names[-1].endswith(".json")
    return root if is_known and kind in ("session", "message", "part", "migration") else None


def detect(value: Any) -> bool:
    """Return whether a value is an export, a printed line, or the files of a storage folder."""
    if isinstance(value, Bundle):
        return any(_within(name)[0] in ("message", "part") for name in value.files)
    if isinstance(value, list):
        return bool(value) and _is_entry(value[0])
    if not isinstance(value, dict):
        return False
    if value.get("type") in _LINES and isinstance(value.get("part", value.get("error")), dict):
        return isinstance(value.get("sessionID"), str)
    messages = value.get("messages")
    if isinstance(value.get("info"), dict) and isinstance(messages, list):
        is_empty = not messages and str(value["info"].get("id")).startswith("ses_")
        return is_empty or any(_is_entry(message) for message in messages[:3])
    return _is_entry(value) or _is_fragment(value)


def _is_entry(value: Any) -> bool:
    info = value.get("info") if isinstance(value, dict) else None
    return (
        isinstance(info, dict)
        and info.get("role") in ("user", "assistant")
        and isinstance(value.get("parts"), list)
    )


def _is_fragment(value: dict[str, Any]) -> bool:
    """Return whether a value is one file of a storage folder, away from the others."""
    if isinstance(value.get("messageID"), str) and isinstance(value.get("type"), str):
        return "id" in value
    if isinstance(value.get("sessionID"), str) and value.get("role") in ("user", "assistant"):
        return "id" in value and isinstance(value.get("time"), dict)
    return {"id", "projectID", "directory", "time"} <= value.keys()


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the sessions of a record, parents before the sub-agents they began."""
    if isinstance(record.value, dict) and _is_fragment(record.value):
        message = "one file of a storage folder, without the others"
        yield Reject(origin=record.origin, reason="metadata_only", message=message)
        return
    sessions = _sessions(record)
    for id_ in _ordered(sessions):
        found = _trajectory(id_, sessions[id_], record)
        if found is not None:
            yield found
            continue
        for event in _events(sessions[id_]):
            if event is not None:
                record.ledger.left_out(event, "no_action")
        yield Reject(
            origin=replace(record.origin, key=id_),
            reason="no_action",
            message="a session without any call",
        )


def _events(session: _Session) -> Iterator[Hashable]:
    yield from session.events
    for entry in session.entries:
        yield entry.event
        yield from (part.event for part in entry.parts)


def _sessions(record: Record) -> dict[str, _Session]:
    value = record.value
    if isinstance(value, Bundle):
        return _stored(value, record)
    sessions: dict[str, _Session] = {}
    values = value if isinstance(value, list) else [value]
    loose: list[tuple[int, Any]] = []
    for number, one in enumerate(values):
        record.ledger.expect([number])
        if isinstance(one, dict) and "messages" in one:
            info = mapping(one.get("info"))
            session = sessions.setdefault(text(info.get("id")) or f"session {number}", _Session())
            session.info, session.events = info, [number]
            session.entries = _entries(one.get("messages"), (number,), record)
        else:
            loose.append((number, one))
    if loose and _is_entry(loose[0][1]):
        id_ = text(mapping(loose[0][1].get("info")).get("sessionID")) or "session"
        sessions.setdefault(id_, _Session()).entries = _entries(
            [one for _, one in loose], (), record
        )
    else:
        _printed(loose, sessions, record)
    return sessions


def _entries(values: Any, place: tuple[Hashable, ...], record: Record) -> list[Entry]:
    entries = []
    for number, value in enumerate(values if isinstance(values, list) else []):
        value = mapping(value)
        event: Hashable = (*place, number) if place else number
        parts = [Part((*place, number, index), part) for index, part in enumerate(_parts(value))]
        record.ledger.expect([event, *(part.event for part in parts)])
        entries.append(Entry(event, mapping(value.get("info")), parts))
    return entries


def _parts(value: dict[str, Any]) -> list[dict[str, Any]]:
    return mappings(value.get("parts"))


def _printed(lines: list[tuple[int, Any]], sessions: dict[str, _Session], record: Record) -> None:
    """Put the lines of a printed stream into messages, one for each message of the model."""
    for number, line in lines:
        line = mapping(line)
        session = sessions.setdefault(text(line.get("sessionID")) or "session", _Session())
        kind = text(line.get("type")) or ""
        if kind == "error":
            session.errors.append(_error(line.get("error")))
            record.ledger.became(number, "context")
            continue
        if kind not in _LINES:
            record.ledger.left_out(number, "unknown_event")
            continue
        part = mapping(line.get("part"))
        id_ = text(part.get("messageID")) or "message"
        if not session.entries or session.entries[-1].info.get("id") != id_:
            created = {"created": line.get("timestamp")}
            info = {"id": id_, "role": "assistant", "time": created}
            session.entries.append(Entry(None, info, []))
        session.entries[-1].parts.append(Part(number, part | {"type": _STEPS.get(kind, kind)}))


def _stored(value: Bundle, record: Record) -> dict[str, _Session]:
    """Join the files of a storage folder."""
    sessions: dict[str, _Session] = {}
    messages: dict[str, Entry] = {}
    of_message: dict[str, list[Part]] = {}
    session_of: dict[str, str] = {}
    record.ledger.expect(sorted(value.files))
    for name in sorted(value.files):
        kind, names = _within(name)
        content = value.files[name]
        if kind == "migration" or not isinstance(content, dict):
            reason = "bookkeeping" if kind == "migration" else "malformed_event"
            record.ledger.left_out(name, reason)
            continue
        id_ = text(content.get("id")) or names[-1].removesuffix(".json")
        if kind == "session":
            session = sessions.setdefault(id_, _Session())
            session.info = content
            session.events.append(name)
        elif kind == "message":
            old = mapping(content.get("metadata"))
            messages[id_] = Entry(name, content | old | mapping(old.get("assistant")), [])
            of_message.setdefault(id_, []).extend(Part(name, part) for part in _parts(content))
            folder = names[-2] if len(names) > 1 else "session"
            session_of[id_] = first_text([content, old], "sessionID") or folder
        else:
            folder = names[-2] if len(names) > 1 else id_
            owner = text(content.get("messageID")) or folder
            of_message.setdefault(owner, []).append(Part(name, content))
            if owner not in session_of and text(content.get("sessionID")):
                session_of[owner] = content["sessionID"]
    for owner, parts in of_message.items():
        entry = messages.get(owner) or _implied(owner, parts)
        if entry is None or owner not in session_of:
            for part in parts:
                record.ledger.left_out(part.event, "orphan_part")
            continue
        entry = replace(entry, parts=parts)
        sessions.setdefault(session_of[owner], _Session()).entries.append(entry)
    for session in sessions.values():
        session.entries.sort(key=lambda entry: (_begun(entry), str(entry.info.get("id"))))
    return sessions


def _begun(entry: Entry) -> float:
    created = mapping(entry.info.get("time")).get("created")
    return float(created) if isinstance(created, int | float) else 0.0


def _implied(id_: str, parts: list[Part]) -> Entry | None:
    """Return the message of parts whose own file is missing; only a call tells whose it was."""
    times = [
        mapping(mapping(part.raw.get("state")).get("time")).get("start")
        for part in parts
        if part.raw.get("type") == "tool"
    ]
    if not times:
        return None
    return Entry(None, {"id": id_, "role": "assistant", "time": {"created": times[0]}}, [])


def _ordered(sessions: dict[str, _Session]) -> list[str]:
    """Return the sessions by name, each after the one that began it."""
    ordered: dict[str, None] = {}

    def add(id_: str, above: frozenset[str]) -> None:
        parent = text(sessions[id_].info.get("parentID"))
        if parent in sessions and parent not in above:
            add(parent, above | {id_})
        ordered.setdefault(id_)

    for id_ in sorted(sessions):
        add(id_, frozenset((id_,)))
    return list(ordered)


def _trajectory(id_: str, session: _Session, record: Record) -> Trajectory | None:
    if not fold(Reader(Ledger()).read(session.entries)).acts:
        return None
    reader = Reader(record.ledger)
    messages = list(reader.read(session.entries))
    folded = fold(messages, record.ledger)
    for event in session.events:
        record.ledger.became(event, "context")
    infos = [entry.info for entry in session.entries]
    replies = [info for info in infos if info.get("role") == "assistant"]
    windows = [folded.n_steps_of(n) for n in reader.windows]
    models = [*replies, *(mapping(info.get("model")) for info in infos)]
    errors = session.errors + [_error(info["error"]) for info in replies if info.get("error")]
    times = (mapping(info.get("time")).get("created") for info in [session.info, *infos])
    return Trajectory(
        origin=replace(record.origin, key=id_),
        adapter=ADAPTER.name,
        format_version=text(session.info.get("version")),
        agent="opencode",
        model=first_text(models, "modelID"),
        task=folded.task,
        agent_system_prompt=_system(infos) or folded.agent_system_prompt,
        exit_status=text(replies[-1].get("finish")) if replies else None,
        parent_key=text(session.info.get("parentID")),
        names=(id_,),
        started_at=next((time for t in times if (time := time_text(t))), None),
        meta=meta_text(
            folded,
            title=text(session.info.get("title")),
            cwd=text(session.info.get("directory")) or _cwd(replies),
            provider=first_text(models, "providerID"),
            agent=first_text([*replies, *infos], "agent", "mode"),
            context_windows=sorted({0, *windows}) if windows else None,
            thinking=reader.thinking if set(reader.thinking) - {"none"} else None,
            cost=_cost(replies),
            errors=errors or None,
            reverted_from=text(mapping(session.info.get("revert")).get("messageID")),
        ),
        steps=folded.steps,
        step_keys=distinct(folded.step_keys),
    )


def _system(infos: list[dict[str, Any]]) -> str | None:
    for info in infos:
        system = info.get("system")
        texts = [system] if isinstance(system, str) else system
        if isinstance(texts, list) and texts:
            return "\n\n".join(one for one in texts if isinstance(one, str)) or None
    return None


def _cwd(replies: list[dict[str, Any]]) -> str | None:
    return first_text([mapping(info.get("path")) for info in replies], "cwd")


def _cost(replies: list[dict[str, Any]]) -> float | None:
    costs = [info["cost"] for info in replies if quantity(info.get("cost")) is not None]
    return float(sum(costs)) if costs else None


def _error(error: Any) -> str:
    error = mapping(error)
    said = text(mapping(error.get("data")).get("message")) or text(error.get("message"))
    return ": ".join(part for part in (text(error.get("name")), said) if part) or "error"


ADAPTER = Adapter(
    name="opencode",
    title="opencode storage folders, exports and printed streams, with sub-agents",
    domains=("swe", "terminal", "mcp", "search"),
    detect=detect,
    extract=extract,
    unit="session",
    bundle=bundle,
)
