"""Logs of single completions as LiteLLM users write them: one record for each call of the model.

Written by OpenHands (`log_completions`: a folder `llm_completions/<instance>/` or `completions/`
with one file for each call), by its software-agent-sdk, and by LiteLLM's own logging callbacks
(`StandardLoggingPayload`); also several of them as JSON lines or in a list. A record holds the
messages sent and the reply; every call repeats the talk so far.

Read here: of the calls of one folder or file, each that another one goes on from is left out as
`repeated_prefix`; the last reply of the longest is the last word of the agent. A reply that no
later call holds was thrown away by the harness: `unused_reply`. A harness that shortens its history
begins a new talk: another trajectory, whose calls of the first are marked `copied_context`. Calls
of a condenser hold no action and are rejects.

Drift handled here: where calls were put into text for a model without tools, the messages before
that are used (`raw_messages` beside `response` in the SDK, `fncall_messages` beside
`fncall_response` in 0.x); where a log has the text only, `<function=...>` and
`EXECUTION RESULT of [...]` are read. Responses API calls hold `input` and `output` items. Tools
stand beside the messages or in `kwargs`.

Smallest shape: {"messages": [{"role": "user", "content": "..."}], "response": {"choices":
[{"message": {"role": "assistant", "content": "...", "tool_calls": [...]}}]}, "cost": 0.01,
"timestamp": 1757015076.6}
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from trajkit.adapters import Adapter, openai_chat, response_items
from trajkit.adapters.content import content_text
from trajkit.adapters.fields import mapping, mappings, meta_text, quantity, text, time_text
from trajkit.adapters.messages import Message, fold, is_message_list, tools_text
from trajkit.adapters.prefixes import longest, mark_copies
from trajkit.model import Bundle, Record, Reject, Trajectory, to_json_text

_FOLDER = re.compile(r"((?:.*/)?(?:llm_completions/[^/]+|completions))/[^/]+\.json")
_MARKS = {
    "args", "call_type", "cost", "fncall_messages", "kwargs", "latency_sec", "llm_path",
    "raw_messages", "response_cost", "startTime", "timestamp",
}  # fmt: skip
_PAIRS = (
    ("fncall_messages", "fncall_response"),
    ("raw_messages", "response"),
    ("messages", "raw_response"),
    ("messages", "response"),
    ("input", "response"),
)


def bundle(path: str) -> str | None:
    """Return the folder of a file that holds one call."""
    match = _FOLDER.fullmatch(path)
    return match[1] if match else None


def detect(value: Any) -> bool:
    """Return whether a value is the record of a call, a list of them, or a folder of them."""
    if isinstance(value, Bundle):
        return any(detect(value.files[name]) for name in sorted(value.files)[:3])
    if isinstance(value, list):
        return bool(value) and all(isinstance(one, dict) and detect(one) for one in value[:3])
    return isinstance(value, dict) and bool(_MARKS & value.keys()) and _talk(value) is not None


def _talk(log: dict[str, Any]) -> tuple[list[Any], list[Any]] | None:
    """Return the messages of a call and the reply to them, in the same form."""
    for asked, answered in _PAIRS:
        sent, reply = log.get(asked), mapping(log.get(answered))
        if not isinstance(sent, list):
            continue
        if isinstance(reply.get("output"), list):
            return sent, reply["output"]
        if is_message_list(sent, openai_chat.ROLES) and isinstance(reply.get("choices"), list):
            said = openai_chat.message_list(reply)
            if not said and (first := mappings(reply["choices"])[:1]):
                said = [mapping(first[0].get("message"))]
            return sent, said if is_message_list(said, openai_chat.ROLES) else []
    return None


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of the model."""

    name: str | int
    log: dict[str, Any]
    sent: list[Any]
    reply: list[Any]
    first_event: int


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the longest talk of each family of calls, in the order of their last calls."""
    calls = _calls(record)
    kept = longest([[_canon(message) for message in call.sent] for call in calls])
    seen: set[Hashable] = set()
    families = sorted(set(kept))
    for number in families:
        family = [call for call, holder in zip(calls, kept, strict=True) if holder == number]
        for call in family:
            if call is not calls[number]:
                _leave_out(call, calls[number], record)
        if not isinstance(record.value, dict):
            record.ledger.became(calls[number].name, "context")
        found = _episode(calls[number], family, record)
        key = str(calls[number].name)
        origin = record.origin if len(families) == 1 else replace(record.origin, key=key)
        if isinstance(found, Trajectory):
            found = replace(found, steps=mark_copies(found.steps, found.task, seen))
        yield replace(found, origin=origin)


def _calls(record: Record) -> list[_Call]:
    """Return the calls of a record in the order of time, and announce their events."""
    value = record.value
    if isinstance(value, Bundle):
        named: list[tuple[str | int, Any]] = [(n, value.files[n]) for n in sorted(value.files)]
    elif isinstance(value, list):
        named = list(enumerate(value))
    else:
        named = [("$", value)]
    calls: list[_Call] = []
    at = len(value) if isinstance(value, list) else 0
    for name, log in named:
        talk = _talk(log) if isinstance(log, dict) else None
        if talk is None:
            record.ledger.left_out(name, "unknown_event")
            continue
        calls.append(_Call(name, log, *talk, at))
        at += len(talk[0]) + len(talk[1])
        record.ledger.expect(range(calls[-1].first_event, at))
    return sorted(calls, key=lambda call: (_time(call.log), str(call.name)))


def _time(log: dict[str, Any]) -> float:
    time = log.get("timestamp", log.get("startTime"))
    return float(time) if isinstance(time, int | float) else 0.0


def _canon(message: Any) -> str:
    """Return what a message says, without marks that come and go between calls."""
    if not isinstance(message, dict):
        return to_json_text(message)
    calls = [mapping(call.get("function")) for call in mappings(message.get("tool_calls"))]
    rest = [message.get(key) for key in ("role", "type", "call_id", "tool_call_id", "arguments")]
    said = content_text(message.get("content", message.get("output")))[0] or ""
    return to_json_text([said, [[c.get("name"), c.get("arguments")] for c in calls], *rest])


def _leave_out(call: _Call, holder: _Call, record: Record) -> None:
    """Account for a call that another one goes on from."""
    n_sent = len(call.sent)
    record.ledger.left_out(call.name, "repeated_prefix")
    for event in range(call.first_event, call.first_event + n_sent):
        record.ledger.left_out(event, "repeated_prefix")
    for number, said in enumerate(call.reply):
        later = holder.sent[n_sent + number : n_sent + number + 1]
        used = bool(later) and _canon(later[0]) == _canon(said)
        reason = "repeated_prefix" if used else "unused_reply"
        record.ledger.left_out(call.first_event + n_sent + number, reason)


def _episode(call: _Call, family: list[_Call], record: Record) -> Trajectory | Reject:
    folded = fold(_messages(call), record.ledger)
    if not folded.acts:
        return Reject(
            origin=record.origin,
            reason="no_action",
            message="a call of a model that asks for no tool",
            pointer="$.messages",
        )
    log = call.log
    kwargs = mapping(log.get("kwargs"))
    costs = [one.log.get("cost", one.log.get("response_cost")) for one in family]
    known = [cost for cost in costs if quantity(cost) is not None]
    system = folded.agent_system_prompt or text(log.get("instructions"))
    return Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        model=text(mapping(log.get("response")).get("model")) or text(log.get("model")),
        task=folded.task,
        agent_system_prompt=system,
        action_space=tools_text(log.get("tools") or kwargs.get("tools")),
        started_at=time_text(family[0].log.get("timestamp", family[0].log.get("startTime"))),
        meta=meta_text(
            folded,
            n_calls=len(family),
            cost=sum(known) if known else None,
            trace_id=text(log.get("trace_id")),
            tags=mapping(mapping(kwargs.get("extra_body")).get("metadata")).get("tags"),
        ),
        steps=folded.steps,
    )


def _messages(call: _Call) -> Iterator[Message]:
    """Give the talk of a call with its reply."""
    items = [*call.sent, *call.reply]
    if any(response_items.is_item(item) for item in items):
        return response_items.messages(items, first_event=call.first_event)
    return openai_chat.messages(items, first_event=call.first_event)


ADAPTER = Adapter(
    name="litellm-log",
    title="Logs of single completions (LiteLLM, OpenHands llm_completions)",
    domains=("mcp", "search", "terminal", "swe", "web", "os"),
    detect=detect,
    extract=extract,
    unit="session",
    bundle=bundle,
)
