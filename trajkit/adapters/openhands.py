"""OpenHands (OpenDevin) V0 event streams: saved trajectories, evaluation and resolver rows.

Written by the OpenHands project until its 0.x line ended (`events/`, `evaluation/`, `resolver/`).
Shapes: a list of events; one file per event (`<session>/events/<n>.json`); one event per line; a
row with the events in `history` (or `trajectory`, `events`).

Drift handled here: flat events of 2024 (`command`, `thought`, `exit_code` beside `action` and
`observation`; no ids, so results are paired by position); rows whose history is a list of pairs
`[action, observation]`; events of 2025 with `id`, `args`, `extras` and `cause`; 0.5x with `system`
(prompt, tools, version), `recall`, `condensation`, `task_tracking`, `llm_metrics`. Actions nobody
knows are read as calls.

Choices: the call is the model's own (`tool_call_metadata`), else the action with its arguments but
without what the harness keeps there. Calls of one `model_response.id` are one turn, although the
log writes each beside its observation. `null`, `recall`, state changes and other notes are
`bookkeeping`; what a `recall` brought is in `meta.recalled`, the last state is the exit status. A
condensation loses nothing: its summary is a step of the harness, and `meta.condensations` says
which steps the agent no longer saw. What a delegate did stands between the `delegate` action and
its observation, and is a trajectory of its own. `message` is for the eye only and never read.

Smallest shape: [{"id": 0, "source": "user", "action": "message", "args": {"content": "..."}},
{"id": 1, "source": "agent", "action": "run", "args": {"command": "ls", "thought": "..."}},
{"id": 2, "source": "agent", "observation": "run", "cause": 1, "content": "a.py",
"extras": {"metadata": {"exit_code": 0}}}]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from trajkit.adapters import Adapter
from trajkit.adapters.fields import first_text, integer, mapping, mappings, meta_text, text
from trajkit.adapters.messages import Folded, Message, fold, id_text, tools_text
from trajkit.adapters.openhands_events import (
    NOTES,
    argument,
    call,
    extra,
    is_event,
    response,
    said,
)
from trajkit.adapters.openhands_stream import Condensations, by_reply, is_cut
from trajkit.model import Bundle, Origin, OutcomeStatus, Record, Reject, Trajectory, to_json_text

Event = int | tuple[int, int]
"""Number of an event in the record, or of the row or file that holds it and of the event in it."""

_FILE = re.compile(r"((?:.*/)?events)/\d+\.json")
_LISTS = ("history", "trajectory", "events")
_NO_CALLS = {"message", "system", "condensation"}
_UNDERWAY = (None, "loading", "init", "running", "user_confirmed")
_RECALLED = (
    "repo_name", "repo_directory", "repo_branch", "repo_instructions", "working_dir", "date",
    "additional_agent_instructions", "conversation_instructions", "microagent_knowledge",
)  # fmt: skip
_ROW = ("instance_id", "git_patch", "error", "result_explanation", "issue", "run_id")


def bundle(path: str) -> str | None:
    """Return the folder of a file that holds one event."""
    match = _FILE.fullmatch(path)
    return match[1] if match else None


def detect(value: Any) -> bool:
    """Return whether a value is an event, a list of events or pairs, or a row with them."""
    if isinstance(value, Bundle):
        names = [name for name in value.files if name.removesuffix(".json").isdigit()]
        return any(is_event(value.files[name]) for name in names[:20])
    if isinstance(value, list):
        return _are_events(value)
    if not isinstance(value, dict):
        return False
    if is_event(value):
        return True
    if value.get("history") in ([], None) and {"instance_id", "test_result"} <= value.keys():
        return "history" in value
    return any(isinstance(value.get(key), list) and _are_events(value[key]) for key in _LISTS)


def _are_events(values: list[Any]) -> bool:
    head = _flat(values[:20])
    return sum(map(is_event, head)) * 2 > len(head)


def _flat(values: list[Any]) -> list[Any]:
    """Return events in one row, where a log keeps each action with its observation."""
    return [one for v in values for one in (v if isinstance(v, list) else [v])]


def _row_key(value: Any) -> str:
    """Return one key for all single events of a file, and one for each row."""
    if is_event(value) or not isinstance(value, dict):
        return "events"
    name = id_text(value.get("instance_id"))
    return name or sha256(to_json_text(value.get("instruction")).encode()).hexdigest()[:12]


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the episode of each event list, and after it those of its delegates."""
    for number, (row, events) in enumerate(_lists(record.value)):
        if events is record.value:
            named: list[Event] = list(range(len(events)))
        else:
            named = [(number, i) for i in range(len(events))]
            for i in range(len(record.value) if isinstance(record.value, list) else 0):
                record.ledger.became(i, "context")
        record.ledger.expect(named)
        key = record.origin.key or ("$" if not number else "")
        key = f"{key}[{number}]" if number else key
        streams = _streams(list(zip(named, events, strict=True)), key)
        alone = len(streams) == 1 and not number
        for stream in streams:
            origin = record.origin if alone else replace(record.origin, key=stream.key)
            folded = fold(stream.messages(), record.ledger)
            for event, what in stream.notes:
                if what == "context":
                    record.ledger.became(event, "context")
                else:
                    record.ledger.left_out(event, what)
            if folded.acts:
                yield _trajectory(stream, folded, row if stream is streams[0] else {}, origin)
            else:
                message = "no event holds an action of the agent"
                yield Reject(origin=origin, reason="no_action", message=message)


def _lists(value: Any) -> Iterator[tuple[dict[str, Any], list[Any]]]:
    """Give each event list with the row that holds it."""
    if isinstance(value, Bundle):
        names = sorted(value.files, key=lambda name: int(name.removesuffix(".json")))
        yield {}, [value.files[name] for name in names]
    elif isinstance(value, dict) and not is_event(value):
        lists = (value[key] for key in _LISTS if isinstance(value.get(key), list))
        yield value, _flat(next(lists, []))
    elif isinstance(value, list) and not _are_events(value):
        for inner in value:
            yield from _lists(inner)
    elif isinstance(value, list) and not any(isinstance(one, list) for one in value):
        yield {}, value
    else:
        yield {}, _flat(value if isinstance(value, list) else [value])


def _streams(events: list[tuple[Event, Any]], key: str) -> list[_Stream]:
    """Return the main agent's events, then those of each delegate."""
    streams = [_Stream(key)]
    running = [streams[0]]
    for i, (event, raw) in enumerate(events):
        if not isinstance(raw, dict):
            running[-1].notes.append((event, "unknown_event"))
            continue
        if raw.get("observation") == "delegate" and len(running) > 1:
            running.pop()
        running[-1].events.append((event, raw))
        if raw.get("action") == "delegate":
            asked = first_text([mapping(argument(raw, "inputs"))], "task", "instruction")
            name = text(argument(raw, "agent"))
            child = _Stream(f"{key}.delegate[{i}]", running[-1].key, asked=asked, agent=name)
            streams.append(child)
            running.append(child)
    return streams


@dataclass(slots=True)
class _Stream:
    """The events of one agent, and what they say of the whole."""

    key: str
    parent: str | None = None
    events: list[tuple[Event, dict[str, Any]]] = field(default_factory=list)
    asked: str | None = None
    agent: str | None = None
    prompt: dict[str, Any] = field(default_factory=dict)
    model: str | None = None
    state: str | None = None
    recalled: list[dict[str, Any]] = field(default_factory=list)
    condensed: Condensations = field(default_factory=Condensations)
    notes: list[tuple[Event, str]] = field(default_factory=list)

    def messages(self) -> Iterator[Message]:
        acting = [(event, raw) for event, raw in self.events if self._acts(raw)]
        raws = dict(acting)
        replies = [(event, text(response(raw).get("id"))) for event, raw in acting]
        turns = {group[0]: group[1:] for group in by_reply(replies)}
        links: dict[Any, str] = {}
        speaker = "agent"
        for event, raw in self.events:
            if raw.get("action") == "message":
                # Flat events do not say who spoke: a person first, then whoever was spoken to.
                unsaid = "user" if event == self.events[0][0] or speaker == "talking" else "agent"
                speaker = text(raw.get("source")) or unsaid
                yield self._message(event, raw, speaker)
                speaker = "talking" if speaker == "agent" else "agent"
                continue
            speaker = "agent"
            if event in turns:
                others = [(other, raws[other]) for other in turns[event]]
                yield self._agent([(event, raw), *others], links)
            elif event not in raws:
                yield from self._other(event, raw, links)

    def _acts(self, raw: dict[str, Any]) -> bool:
        action = raw.get("action")
        return isinstance(action, str) and action not in NOTES | _NO_CALLS

    def _agent(self, group: list[tuple[Event, dict[str, Any]]], links: dict[Any, str]) -> Message:
        """Return the calls of one reply as one message."""
        calls = []
        for _, raw in group:
            made = call(raw)
            if "id" in raw and made.id:
                links[_key(raw["id"])] = made.id
            calls.append(made)
        (event, first), *others = group
        self.model = self.model or text(response(first).get("model"))
        choices = mappings(response(first).get("choices"))
        logged = mapping(choices[0].get("message")) if choices else {}
        thoughts = (text(argument(raw, "thought")) for _, raw in group)
        key = str(first.get("id", event))
        self.condensed.calls[key] = [str(raw.get("id", other)) for other, raw in group]
        return Message(
            role="assistant",
            text=next((thought for thought in thoughts if thought), None),
            thought=text(logged.get("reasoning_content")),
            calls=tuple(calls),
            time=text(first.get("timestamp")),
            event=event,
            also=tuple((other, "action") for other, _ in others),
            key=key,
        )

    def _message(self, event: Event, raw: dict[str, Any], speaker: str) -> Message:
        words, media = said(raw)
        return Message(
            role="assistant" if speaker == "agent" else "user",
            text=words,
            media=None if speaker == "agent" else media,
            source=None if speaker in ("agent", "user") else "harness",
            time=text(raw.get("timestamp")),
            event=event,
            key=str(raw.get("id", event)),
        )

    def _other(self, event: Event, raw: dict[str, Any], links: dict[Any, str]) -> Iterator[Message]:
        action, observation = raw.get("action"), raw.get("observation")
        key = str(raw.get("id", event))
        if action == "system":
            self.prompt = mapping(raw.get("args")) or raw
            yield Message(role="system", text=text(self.prompt.get("content")), event=event)
        elif action == "condensation":
            args = mapping(raw.get("args")) or raw
            summary = text(args.get("summary"))
            first, last = args.get("forgotten_events_start_id"), args.get("forgotten_events_end_id")
            ids = args.get("forgotten_event_ids") or []
            if type(first) is int and type(last) is int:
                ids = (e["id"] for _, e in self.events if _between(first, e.get("id"), last))
            self.condensed.add(key, ids, summary)
            self.notes.append((event, "context"))
            if summary:
                yield Message(role="system", text=summary, source="harness", event=event, key=key)
        elif observation == "agent_state_changed":
            state = text(extra(raw, "agent_state"))
            self.state = state if state not in _UNDERWAY else self.state
            self.notes.append((event, "bookkeeping" if state in _UNDERWAY else "context"))
        elif observation == "recall":
            found = {name: extra(raw, name) for name in _RECALLED if extra(raw, name)}
            self.recalled.extend([found] if found else [])
            self.notes.append((event, "context" if found else "bookkeeping"))
        elif str(action) in NOTES or str(observation) in NOTES:
            self.notes.append((event, "bookkeeping"))
        elif isinstance(observation, str):
            yield self._result(event, raw, observation, links)
        else:
            self.notes.append((event, "unknown_event"))

    def _result(
        self, event: Event, raw: dict[str, Any], kind: str, links: dict[Any, str]
    ) -> Message:
        words, media = said(raw)
        if kind == "delegate" and not words and (outputs := extra(raw, "outputs")):
            words = to_json_text(outputs)
        cause = raw.get("cause")
        known = links.get(_key(cause))
        # Without ids only the order tells; an error that names no cause is the harness's own.
        alone = known is None and cause is None and "id" in raw
        metadata = mapping(extra(raw, "metadata"))
        code = integer(metadata.get("exit_code", extra(raw, "exit_code")))
        failed = kind == "error" or (raw.get("success") is False and code is None)
        return Message(
            role="system" if alone and kind in ("error", "loop_detection") else "result",
            text=words,
            call_id=known or id_text(cause),
            error=(text(extra(raw, "error_id")) or "error") if failed else None,
            exit_code=code,
            truncated=is_cut(words),
            source="user" if kind == "user_rejected" else "harness" if alone else None,
            media=media,
            time=text(raw.get("timestamp")),
            event=event,
            key=str(raw.get("id", event)),
        )


def _key(value: Any) -> Any:
    return value if isinstance(value, str | int) else None


def _between(first: int, value: Any, last: int) -> bool:
    return type(value) is int and first <= value <= last


def _trajectory(stream: _Stream, folded: Folded, row: dict[str, Any], origin: Origin) -> Trajectory:
    metadata = mapping(row.get("metadata"))
    prompt = stream.prompt
    outcome, reward = _outcome(row)
    return Trajectory(
        origin=origin,
        adapter=ADAPTER.name,
        format_version=text(prompt.get("openhands_version")),
        domain="swe" if "git_patch" in row or "test_result" in row else None,
        agent=stream.agent
        or text(prompt.get("agent_class"))
        or text(metadata.get("agent_class"))
        or "OpenHands",
        model=stream.model or text(mapping(metadata.get("llm_config")).get("model")),
        task=folded.task or stream.asked or text(row.get("instruction")),
        agent_system_prompt=folded.agent_system_prompt,
        action_space=tools_text(prompt.get("tools")),
        outcome_status=outcome,
        reward=reward,
        exit_status=stream.state or ("error" if row.get("error") else None),
        parent_key=stream.parent,
        started_at=first_text((raw for _, raw in stream.events), "timestamp"),
        meta=meta_text(
            folded,
            recalled=stream.recalled or None,
            condensations=stream.condensed.meta(folded),
            report=mapping(row.get("test_result")).get("report") or row.get("report"),
            cost=mapping(row.get("metrics")).get("accumulated_cost"),
            **{name: row.get(name) for name in _ROW},
        ),
        steps=folded.steps,
    )


def _outcome(row: dict[str, Any]) -> tuple[OutcomeStatus, float | None]:
    """Return what a test said; the resolver's own judgement is an outcome, but no reward."""
    tested = mapping(row.get("test_result"))
    for place in (mapping(row.get("report")), mapping(tested.get("report")), tested, row):
        if isinstance(resolved := place.get("resolved"), bool):
            return ("success" if resolved else "failure"), float(resolved)
    if isinstance(success := row.get("success"), bool):
        return ("success" if success else "failure"), None
    return "unknown", None


ADAPTER = Adapter(
    name="openhands",
    title="OpenHands V0 event streams and evaluation rows, 2024 to 0.5x",
    domains=("swe", "terminal", "web", "mcp"),
    detect=detect,
    extract=extract,
    unit="rows",
    row_key=_row_key,
    bundle=bundle,
)
