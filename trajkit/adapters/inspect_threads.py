"""The conversations of one Inspect AI sample, put together from its transcript and its messages.

`messages` of a sample is only the last state of one conversation: compaction, hand-offs and
helpers leave no trace in it. The transcript holds the input and the reply of every model call, so
a conversation is the union of its calls' messages in the order they came up. A call belongs to
the innermost span that may hold an agent of its own (`agent`, `tool`, `subtask`, `branch`); such a
span continues the conversation around it when their messages are the same, as after a hand-off.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from trajkit.adapters.fields import mapping, text
from trajkit.ledger import Ledger
from trajkit.model import to_json_text

_THREAD_TYPES = ("agent", "tool", "subtask", "branch", "handoff")
_CONTEXT_EVENTS = {"tool", "sample_init", "score", "error", "sample_limit", "approval", "subtask"}
_KNOWN_EVENTS = {
    *("span_begin", "span_end", "step", "state", "store", "info", "logger", "input", "anchor"),
    *("branch", "compaction", "sandbox", "checkpoint", "interrupt", "score_edit", "review"),
}
_MAX_DEPTH = 200
_ATTACHMENT = ("attachment://", "tc://")


class Heard:
    """One message as a call or the sample's last state has it."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self.raw = raw
        self.id = raw.get("id") or None

    @cached_property
    def signature(self) -> str:
        """Return a hash of what the message says, whatever its id."""
        calls = [
            [call.get("id"), call.get("function"), call.get("arguments")]
            for call in self.raw.get("tool_calls") or []
            if isinstance(call, dict)
        ]
        told = [self.raw.get(name) for name in ("role", "content", "tool_call_id", "error")]
        return hashlib.sha256(to_json_text([told, calls]).encode()).hexdigest()


@dataclass(slots=True)
class Said:
    """One message of a conversation and its number in the ledger."""

    heard: Heard
    number: int
    time: str | None = None

    @property
    def raw(self) -> dict[str, Any]:
        """Return the message as logged, with its attachments."""
        return self.heard.raw


@dataclass(slots=True)
class Thread:
    """One conversation: of the sample itself, of a sub-agent, or of an abandoned branch."""

    key: str
    name: str | None = None
    parent: Thread | None = None
    is_branch: bool = False
    said: list[Said] = field(default_factory=list)
    tools: dict[str, Any] = field(default_factory=dict)
    model: str | None = None
    compacted: bool = False
    _places: dict[str, list[Said]] = field(default_factory=dict)

    def shared(self, heard: Heard, *, by_id: bool) -> list[Said]:
        """Return the messages already here that may be this one, the same id first."""
        found = self._places.get(f"id {heard.id}", []) if heard.id else []
        if not (by_id and heard.id):
            found = found + self._places.get(heard.signature, [])
        return found

    def add(self, said: Said, place: int | None = None) -> None:
        """Put a message at its place, by default the end."""
        self.said.insert(len(self.said) if place is None else place, said)
        if said.heard.id:
            self._places.setdefault(f"id {said.heard.id}", []).append(said)
        self._places.setdefault(said.heard.signature, []).append(said)


class Sample:
    """Reads one sample's transcript; `threads` are its conversations, the main one first."""

    def __init__(self, raw: dict[str, Any], ledger: Ledger, first_number: int) -> None:
        self.raw = raw
        self.ledger = ledger
        self.n_numbers = first_number
        old = mapping(raw.get("transcript"))
        self._texts = raw.get("attachments") or old.get("content") or {}
        pool = raw.get("message_pool") or mapping(raw.get("events_data")).get("messages")
        self._pool = self._hear(pool or [])
        self.main = Thread(key="")
        self.threads = [self.main]
        self._by_span: dict[str, Thread] = {}
        self._spans: dict[str, dict[str, Any]] = {}
        self._tool_events: dict[str, list[dict[str, Any]]] = {}
        self._tool_numbers: dict[int, int] = {}
        self.human_refusals: set[str] = set()
        self.started_at: str | None = None
        self._read(raw.get("events") or old.get("events") or [])
        self._finish(raw.get("messages") or [])

    def whole(self, value: Any, depth: int = 0) -> Any:
        """Return a value with its attachments put back in."""
        if isinstance(value, str):
            for start in _ATTACHMENT:
                if value.startswith(start):
                    return self._texts.get(value.removeprefix(start), value)
            return value
        if isinstance(value, list) and depth < _MAX_DEPTH:
            return [self.whole(item, depth + 1) for item in value]
        if isinstance(value, dict) and depth < _MAX_DEPTH:
            return {key: self.whole(item, depth + 1) for key, item in value.items()}
        return value

    def tool_event(self, call_id: str | None, result: str | None) -> dict[str, Any]:
        """Return the transcript's event of a result; some models use one id for many calls."""
        events = self._tool_events.get(call_id or "", [])
        same = [event for event in events if self.whole(event.get("result")) == result]
        return (same or events or [{}])[0]

    def _number(self) -> int:
        self.n_numbers += 1
        self.ledger.expect([self.n_numbers])
        return self.n_numbers

    def _read(self, events: list[Any]) -> None:
        flat = list(_flat(events, None, self._spans))
        calls = [
            (event, span)
            for event, span in flat
            if event.get("event") == "model" and not self._is_scoring(span)
        ]
        for event, _ in flat:
            if event.get("event") == "tool" and isinstance(event.get("id"), str):
                self._tool_events.setdefault(event["id"], []).append(event)
        following: dict[int, dict[str, Any]] = {}
        last: dict[str | None, int] = {}
        for place, (event, span) in enumerate(calls):
            if (before := last.get(span)) is not None:
                following[id(calls[before][0])] = event
            last[span] = place
        for event, span in flat:
            number = self._number()
            kind = event.get("event")
            if kind == "model":
                self._call(event, span, number, following.get(id(event)))
                continue
            self._remember(event, span, number)
            if kind in _CONTEXT_EVENTS:
                self.ledger.became(number, "context")
            else:
                known = kind in _KNOWN_EVENTS
                self.ledger.left_out(number, "bookkeeping" if known else "unknown_event")

    def _remember(self, event: dict[str, Any], span: str | None, number: int) -> None:
        kind = event.get("event")
        self.started_at = self.started_at or text(event.get("timestamp"))
        if kind == "tool":
            self._tool_numbers[id(event)] = number
        elif kind == "compaction":
            self._thread(span).compacted = True
        elif kind == "approval" and isinstance(call := event.get("call"), dict):
            refused = event.get("decision") in ("reject", "terminate")
            if refused and event.get("approver") == "human" and isinstance(call.get("id"), str):
                self.human_refusals.add(call["id"])

    def _call(
        self, event: dict[str, Any], span: str | None, number: int, after: dict[str, Any] | None
    ) -> None:
        if self._is_scoring(span):
            self.ledger.left_out(number, "scoring")
            return
        reply = self._hear(_reply(event))
        if not reply:
            self.ledger.left_out(number, "failed_call")
            return
        heard = self._input(event)
        ran = any(call in self._tool_events for call in _call_ids(reply[0].raw))
        replaced = after is not None and _reply(after) and not ran
        if replaced and after is not None and _same(heard, self._input(after)):
            self.ledger.left_out(number, "abandoned_reply")
            return
        thread = self._joined(self._thread(span), heard)
        asked = [message for message in heard if message.raw.get("role") != "system"]
        strange = not any(self._known(thread, message) for message in asked)
        if thread.said and strange and not thread.compacted:
            self.ledger.left_out(number, "side_call")
            return
        thread.compacted = False
        self._absorb(thread, heard, None)
        self._absorb(thread, reply, text(event.get("timestamp")))
        for tool in event.get("tools") or []:
            tool = self.whole(tool)
            if isinstance(tool, dict) and isinstance(tool.get("name"), str):
                thread.tools.setdefault(tool["name"], tool)
        thread.model = thread.model or text(event.get("model"))
        self.ledger.became(number, "context")

    def _hear(self, messages: Any) -> list[Heard]:
        return [Heard(self.whole(raw)) for raw in messages or [] if isinstance(raw, dict)]

    def _input(self, event: dict[str, Any]) -> list[Heard]:
        if event.get("input"):
            return self._hear(event["input"])
        found: list[Heard] = []
        for bounds in event.get("input_refs") or []:
            start, end = (bounds, bounds + 1) if isinstance(bounds, int) else bounds
            found.extend(self._pool[start:end])
        return found

    def _thread(self, span: str | None) -> Thread:
        """Return the conversation of a span, a new one for a span that may hold an agent."""
        way: list[str] = []
        while span is not None and span in self._spans and span not in self._by_span:
            if self._spans[span].get("type") in _THREAD_TYPES:
                way.append(span)
            span = self._spans[span].get("parent_id")
        thread = self._by_span.get(span or "", self.main)
        for inner in reversed(way):
            begun = self._spans[inner]
            thread = Thread(
                key=inner,
                name=text(begun.get("name")),
                parent=thread,
                is_branch=begun.get("type") == "branch",
            )
            self._by_span[inner] = thread
        return thread

    def _joined(self, thread: Thread, heard: list[Heard]) -> Thread:
        """Return the conversation that a span's first call goes on with: its own, or one around."""
        if thread.said or thread.parent is None:
            return thread
        around: Thread | None = thread.parent
        in_tool = self._is_tool(thread)
        while around is not None and not around.said:
            in_tool = in_tool or self._is_tool(around)
            around = around.parent
        roles = ("assistant", "tool") if in_tool else ("assistant", "tool", "user")
        if thread.is_branch:
            joins = False
        elif around is None:
            joins, around = not in_tool, self.main
        else:
            joins = any(m.raw.get("role") in roles and self._known(around, m) for m in heard)
        if joins and around is not None:
            around.name = around.name or thread.name
            for span, one in self._by_span.items():
                if one is thread:
                    self._by_span[span] = around
            return around
        thread.parent = around or self.main
        self.threads.append(thread)
        return thread

    def _is_tool(self, thread: Thread) -> bool:
        return self._spans.get(thread.key, {}).get("type") == "tool"

    def _is_scoring(self, span: str | None) -> bool:
        while span is not None and (begun := self._spans.get(span)) is not None:
            if begun.get("type") in ("scorer", "scorers"):
                return True
            span = begun.get("parent_id")
        return False

    def _known(self, thread: Thread, message: Heard) -> bool:
        return bool(thread.shared(message, by_id=not self._pool))

    def _absorb(
        self,
        thread: Thread,
        messages: list[Heard],
        time: str | None,
        *,
        in_order: bool = False,
    ) -> None:
        """Add what is new; a message that is there twice in a list is two messages."""
        used: set[int] = set()
        place = 0
        for heard in messages:
            known = thread.shared(heard, by_id=not self._pool)
            said = next((one for one in known if one.number not in used), None)
            if said is None:
                said = Said(heard, self._number(), time)
                thread.add(said, place if in_order else None)
            used.add(said.number)
            said.time = said.time or time
            if in_order:
                place = next(i for i, one in enumerate(thread.said) if one is said) + 1

    def _finish(self, messages: list[Any]) -> None:
        """Add what only the last state of the sample tells, each beside what it followed."""
        self._absorb(self.main, self._hear(messages), None, in_order=True)
        for thread in self.threads:
            self._answer(thread)

    def _answer(self, thread: Thread) -> None:
        """Add results that no message has, as those of a run that broke off, from the tools."""
        answered = {one.raw.get("tool_call_id") for one in thread.said}
        place = 0
        while place < len(thread.said):
            raw = thread.said[place].raw
            place += 1
            missing = [call for call in _call_ids(raw) if call not in answered]
            while place < len(thread.said) and thread.said[place].raw.get("role") == "tool":
                place += 1
            for call in missing:
                for event in self._tool_events.get(call, [])[:1]:
                    if event.get("pending") or "result" not in event:
                        continue
                    told = {"role": "tool", "tool_call_id": call, "content": event["result"]}
                    told |= {name: event.get(name) for name in ("function", "error")}
                    heard = Heard(self.whole(told))
                    thread.add(Said(heard, self._tool_numbers[id(event)]), place)
                    place += 1


def _same(one: list[Heard], other: list[Heard]) -> bool:
    return len(one) == len(other) and all(
        mine.signature == yours.signature for mine, yours in zip(one, other, strict=True)
    )


def _reply(event: dict[str, Any]) -> list[Any]:
    output = event.get("output")
    choices = output.get("choices") if isinstance(output, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return []
    message = choices[0].get("message")
    return [message] if isinstance(message, dict) else []


def _call_ids(raw: dict[str, Any]) -> list[str]:
    if raw.get("role") != "assistant" or not isinstance(raw.get("tool_calls"), list):
        return []
    calls = [call.get("id") for call in raw["tool_calls"] if isinstance(call, dict)]
    return [call for call in calls if isinstance(call, str)]


def _flat(
    events: list[Any], span: str | None, spans: dict[str, dict[str, Any]]
) -> Iterator[tuple[dict[str, Any], str | None]]:
    """Give all events with their span; older logs nest events and have steps for spans."""
    steps: list[str | None] = [span]
    for event in events:
        if not isinstance(event, dict):
            continue
        kind = event.get("event")
        if kind == "span_begin" and isinstance(event.get("id"), str):
            # A parent begins before its child, so no chain of parents can be a ring.
            around = event.get("parent_id")
            around = around if isinstance(around, str) and around in spans else None
            begun = {"type": event.get("type"), "name": event.get("name"), "parent_id": around}
            spans.setdefault(event["id"], begun)
        elif kind == "step" and event.get("action") == "begin":
            name = f"step {len(spans)}"
            spans[name] = {"type": event.get("type"), "name": None, "parent_id": steps[-1]}
            steps.append(name)
        elif kind == "step" and len(steps) > 1:
            steps.pop()
        own = event.get("span_id")
        inside = own if isinstance(own, str) else steps[-1]
        yield event, inside
        if isinstance(event.get("events"), list) and event["events"]:
            name = f"{kind} {len(spans)}"
            called = event.get("function") or event.get("name")
            spans[name] = {"type": kind, "name": called, "parent_id": inside}
            yield from _flat(event["events"], name, spans)
