"""The episodes in a trace: calls of a model, runs of its tools, and the spans around them.

Used by every adapter of a tracing format. Each model call repeats the talk so far, so a talk is
the union of its calls' messages in the order they came up; a call that shares no person's words
with a talk before it begins one of its own (a sub-agent). A tool's span answers the call of its id,
else the first unanswered call of its name. Where nobody logged such a call, the span is one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import orjson

from trajkit.adapters.fields import meta_text
from trajkit.adapters.messages import Call, Message, fold, tools_text
from trajkit.ledger import Ledger
from trajkit.model import Origin, OutcomeStatus, Reject, Trajectory, to_json_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One span of a trace, as far as an episode needs it."""

    event: Hashable
    """Its name in the ledger."""
    kind: Literal["model", "tool", "other"]
    """What ran in it."""
    id: str | None
    """Its id."""
    parent: str | None
    """Id of the span around it."""
    start: str
    """What orders the spans of a trace as text."""
    time: str | None = None
    """When it began."""
    ended: str | None = None
    """When it ended."""
    name: str | None = None
    """Name of a tool or an agent."""
    heard: tuple[Message, ...] = ()
    """For a model: the messages it was given."""
    said: tuple[Message, ...] = ()
    """For a model: its reply."""
    tools: Any = None
    """For a model: tool schemas."""
    model: str | None = None
    """For a model: its name."""
    call: Call | None = None
    """For a tool: what was called."""
    result: str | None = None
    """For a tool: what came back."""
    error: str | None = None
    """Error text, when the span failed."""


@dataclass(slots=True, kw_only=True)
class Trace:
    """The spans that tell one story, and what is known of it as a whole."""

    key: str
    """Trace or conversation id."""
    spans: list[Span] = field(default_factory=list)
    """Its spans, in any order."""
    task: str | None = None
    """What was asked, where no model call says it."""
    agent: str | None = None
    """Name of the agent."""
    outcome: OutcomeStatus = "unknown"
    """How it ended."""
    reward: float | None = None
    """A score."""
    exit_status: str | None = None
    """The tracer's word for the end."""
    version: str | None = None
    """Version of the format."""
    meta: dict[str, Any] = field(default_factory=dict)
    """What else is worth keeping."""


@dataclass(slots=True)
class _Talk:
    messages: list[Message] = field(default_factory=list)
    places: dict[str, list[int]] = field(default_factory=dict)
    first: Span | None = None
    tools: Any = None
    events: list[Hashable] = field(default_factory=list)
    parents: set[str | None] = field(default_factory=set)
    claimed: set[tuple[int, int]] = field(default_factory=set)


def episodes(
    trace: Trace, origin: Origin, adapter: str, ledger: Ledger
) -> Iterator[Trajectory | Reject]:
    """Give the episodes of a trace, the one that began first before its sub-agents."""
    spans = sorted(trace.spans, key=lambda span: span.start)
    talks: list[_Talk] = []
    for span in spans:
        if span.kind == "model":
            _listen(span, talks, ledger)
    for span in spans:
        if span.kind == "tool":
            _answer(span, talks, ledger)
        elif span.kind == "other" and span.parent is None:
            ledger.became(span.event, "context")
        elif span.kind == "other":
            ledger.left_out(span.event, "bookkeeping")
    main: str | None = None
    found = 0
    for number, talk in enumerate(talks):
        if not fold(talk.messages).acts:
            for event in talk.events:
                ledger.left_out(event, "no_action")
            continue
        key = trace.key if main is None else f"{trace.key}/{number}"
        yield _trajectory(trace, talk, replace(origin, key=key), adapter, main, ledger)
        main = main or key
        found += 1
    if not found:
        yield Reject(
            origin=replace(origin, key=trace.key),
            reason="no_action",
            message="a trace without any tool call",
        )


def _trajectory(
    trace: Trace, talk: _Talk, origin: Origin, adapter: str, main: str | None, ledger: Ledger
) -> Trajectory:
    folded = fold(talk.messages, ledger)
    is_main = main is None
    first = talk.first
    return Trajectory(
        origin=origin,
        adapter=adapter,
        format_version=trace.version,
        agent=trace.agent if is_main else None,
        model=first.model if first else None,
        task=folded.task or (trace.task if is_main else None),
        agent_system_prompt=folded.agent_system_prompt,
        action_space=tools_text(talk.tools),
        outcome_status=trace.outcome if is_main else "unknown",
        reward=trace.reward if is_main else None,
        exit_status=trace.exit_status if is_main else None,
        parent_key=main,
        started_at=first.time if first else None,
        meta=meta_text(folded, **trace.meta),
        steps=folded.steps,
    )


def _listen(span: Span, talks: list[_Talk], ledger: Ledger) -> None:
    """Add what a model call heard and said to the talk it belongs to."""
    if not span.said and not span.heard:
        ledger.left_out(span.event, "no_content")
        return
    talk = _talk_of(span, talks)
    talk.first = talk.first or span
    talk.tools = talk.tools or span.tools
    talk.events.append(span.event)
    talk.parents.add(span.parent)
    _absorb(talk, span.heard, span)
    if not _absorb(talk, span.said, span, is_reply=True) and span.said:
        ledger.left_out(span.event, "repeated_prefix")
    elif not span.said:
        ledger.left_out(span.event, "failed_call")


def _talk_of(span: Span, talks: list[_Talk]) -> _Talk:
    asked = {_signature(m) for m in span.heard if m.role == "user"} or {
        _signature(m) for m in span.heard if m.role != "system"
    }
    for talk in reversed(talks):
        if not asked or not asked.isdisjoint(talk.places):
            return talk
    talks.append(_Talk())
    return talks[-1]


def _absorb(
    talk: _Talk, messages: Iterable[Message], span: Span, *, is_reply: bool = False
) -> bool:
    """Add the messages that are new; return whether any was. Said twice is two messages."""
    used: Counter[str] = Counter()
    added = False
    for message in messages:
        signature = _signature(message)
        known = talk.places.setdefault(signature, [])
        if used[signature] == len(known):
            known.append(len(talk.messages))
            event = span.event if is_reply or message.role == "assistant" else None
            talk.messages.append(replace(message, event=event, time=message.time or span.time))
            added = True
        used[signature] += 1
    return added


def _signature(message: Message) -> str:
    """Return what tells a message again, though the same call may be written in two ways."""
    calls = [[call.name, _loose(call.action)] for call in message.calls]
    return to_json_text([message.role, message.text or "", message.call_id, calls])


def _loose(action: str) -> Any:
    try:
        value = orjson.loads(action)
        return orjson.dumps(orjson.loads(to_json_text(value)), option=orjson.OPT_SORT_KEYS).decode()
    except ValueError:
        return action


def _answer(span: Span, talks: list[_Talk], ledger: Ledger) -> None:
    """Put what a tool gave back behind its call, or note it where the talk has it already."""
    call = span.call or Call(action="", name=span.name)
    # A trace keeps the whole stack; the first line says what went wrong.
    error = span.error.partition("\n")[0] if span.error else None
    result = Message(
        role="result",
        text=span.result if span.result is not None else span.error,
        call_id=call.id,
        name=span.name,
        error=error,
        time=span.ended or span.time,
        event=span.event,
    )
    near = sorted(talks, key=lambda talk: span.parent not in talk.parents)
    for talk in near:
        if (asked := _asked(talk, call)) is not None:
            _put(talk, asked, result)
            return
    if not talks:
        talks.append(_Talk(first=span))
    talk = near[0] if near else talks[0]
    made = Message(role="assistant", calls=(call,), time=span.time, event=span.event)
    place = _place(talk, span)
    talk.messages[place:place] = [made, result]


def _asked(talk: _Talk, call: Call) -> tuple[int, int] | None:
    """Return the message and the number of a call that no span has answered yet."""
    named: tuple[int, int] | None = None
    for place, message in enumerate(talk.messages):
        for number, one in enumerate(message.calls):
            if (id(message), number) in talk.claimed:
                continue
            if one.id and call.id:
                if one.id == call.id:
                    return place, number
            elif one.name == call.name:
                if _loose(one.action) == _loose(call.action):
                    return place, number
                named = named or (place, number)
    return named


def _put(talk: _Talk, asked: tuple[int, int], result: Message) -> None:
    """Put a result behind its call; where the talk has it already, add what the span knows."""
    place, number = asked
    message = talk.messages[place]
    talk.claimed.add((id(message), number))
    call = message.calls[number]
    end = place + 1
    while end < len(talk.messages) and talk.messages[end].role == "result":
        held = talk.messages[end]
        same = held.call_id == call.id if call.id else end - place - 1 == number
        if same and held.event is None:
            error = held.error or result.error
            talk.messages[end] = replace(held, error=error, time=result.time, event=result.event)
            return
        end += 1
    talk.messages.insert(end, replace(result, call_id=result.call_id or call.id))


def _place(talk: _Talk, span: Span) -> int:
    """Return where a tool run that no model asked for belongs, by its time."""
    started = span.time or ""
    for place, message in enumerate(talk.messages):
        if message.role == "assistant" and message.time and message.time > started:
            return place
    return len(talk.messages)
