"""Langfuse traces and observations, as its API and exports give them.

Defined by Langfuse's OpenAPI document. A trace holds its `observations` and `scores`; exports also
give observations one a line, each with its `traceId`. Traces of one `sessionId` are one story.

Drift and traps handled here: observations were only SPAN, GENERATION and EVENT before 2025, then
also AGENT, TOOL, CHAIN and more; older SPANs that follow a call of their name are that tool's run.
`input` and `output` are values or JSON text, and the messages in them are those of whichever SDK
was traced. A failure is `level` ERROR with its text in `statusMessage`. A single numeric score is
the reward. Other exports write the same names in snake case.

Smallest shape: {"id": "t", "observations": [{"id": "o", "traceId": "t", "type": "GENERATION",
"startTime": "...", "input": [...], "output": {...}}, {"id": "p", "traceId": "t", "type": "TOOL",
"name": "f", "startTime": "...", "input": {}, "output": "..."}]}
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import Any, Literal

from trajkit.adapters import Adapter
from trajkit.adapters.fields import first_text, mapping, mappings, quantity, text
from trajkit.adapters.messages import Message, make_call
from trajkit.adapters.spans import Span, Trace, episodes
from trajkit.adapters.traced_messages import parsed, traced_messages
from trajkit.model import DOMAINS, Record, Reject, Trajectory, to_json_text

_TYPES = (
    *("SPAN", "GENERATION", "EVENT", "AGENT", "TOOL", "CHAIN", "RETRIEVER", "EVALUATOR"),
    *("EMBEDDING", "GUARDRAIL"),
)
_SNAKE = re.compile(r"_([a-z])")


def detect(value: Any) -> bool:
    """Return whether a value is a trace or an observation, or a list of them."""
    if isinstance(value, list):
        return bool(value) and all(isinstance(one, dict) and detect(one) for one in value)
    found = _camel(mapping(value))
    if isinstance(found.get("observations"), list):
        return any(_is_observation(_camel(one)) for one in mappings(found["observations"]))
    return _is_observation(found) and "traceId" in found


def _is_observation(value: dict[str, Any]) -> bool:
    return value.get("type") in _TYPES and "id" in value and "startTime" in value


def _camel(value: dict[str, Any]) -> dict[str, Any]:
    """Return an object with its own names in camel case, as the API writes them."""
    return {_SNAKE.sub(lambda m: m[1].upper(), str(name)): inner for name, inner in value.items()}


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the episode of each session or trace, then those of its sub-agents."""
    values = record.value if isinstance(record.value, list) else [record.value]
    record.ledger.expect(range(len(values)))
    traces: dict[str, Trace] = {}
    for place, value in enumerate(values):
        found = _camel(mapping(value))
        if isinstance(found.get("observations"), list):
            record.ledger.became(place, "context")
            name = str(found.get("id"))
            trace = traces.setdefault(text(found.get("sessionId")) or name, Trace(key=name))
            trace.key = text(found.get("sessionId")) or name
            _head(trace, found)
            inner = [_camel(one) for one in mappings(found["observations"])]
            record.ledger.expect((place, number) for number in range(len(inner)))
            trace.spans += [_span(one, (place, number)) for number, one in enumerate(inner)]
        elif _is_observation(found):
            name = str(found.get("traceId"))
            traces.setdefault(name, Trace(key=name)).spans.append(_span(found, place))
        else:
            record.ledger.left_out(place, "unknown_event")
    for trace in traces.values():
        trace.spans = _with_old_tools(trace.spans)
        yield from episodes(trace, record.origin, ADAPTER.name, record.ledger)


def _head(trace: Trace, found: dict[str, Any]) -> None:
    asked = parsed(found.get("input"))
    trace.task = trace.task or text(asked) or first_text([mapping(asked)], "input", "question")
    trace.agent = trace.agent or text(found.get("name"))
    scores = [_camel(one) for one in mappings(found.get("scores"))]
    known = [value for one in scores if (value := quantity(one.get("value"))) is not None]
    trace.reward = known[0] if len(known) == 1 else trace.reward
    if scores:
        trace.meta["scores"] = {str(one.get("name")): one.get("value") for one in scores}
    trace.meta |= {name: found[name] for name in ("release", "tags") if found.get(name)}


def _span(found: dict[str, Any], event: Hashable) -> Span:
    kind: Literal["model", "tool", "other"] = "other"
    if found.get("type") == "GENERATION":
        kind = "model"
    elif found.get("type") == "TOOL":
        kind = "tool"
    given = parsed(found.get("input"))
    failed = found.get("level") == "ERROR"
    is_model = kind == "model"
    return Span(
        event=event,
        kind=kind,
        id=text(found.get("id")),
        parent=text(found.get("parentObservationId")),
        start=text(found.get("startTime")) or "",
        time=text(found.get("startTime")),
        ended=text(found.get("endTime")),
        name=text(found.get("name")),
        heard=traced_messages(given) or _plain(given, "user") if is_model else (),
        said=_reply(found) if is_model else (),
        tools=mapping(given).get("tools") if is_model else None,
        model=first_text([found], "model", "providedModelName"),
        call=None if is_model else make_call(found.get("name"), given if given != "" else None),
        result=None if is_model else _result(found.get("output")),
        error=(text(found.get("statusMessage")) or "error") if failed else None,
    )


def _plain(value: Any, role: Literal["user", "assistant"]) -> tuple[Message, ...]:
    said = value if isinstance(value, str) and value else None
    return (Message(role=role, text=said),) if said is not None else ()


def _reply(found: dict[str, Any]) -> tuple[Message, ...]:
    """Return a model's reply; what has no role is the assistant's."""
    output = parsed(found.get("output"))
    fields = mapping(output)
    if fields and "role" not in fields and {"content", "tool_calls"} & set(fields):
        output = {"role": "assistant"} | fields
    return traced_messages(output) or _plain(output, "assistant")


def _result(output: Any) -> str | None:
    if output is None:
        return None
    return output if isinstance(output, str) else to_json_text(output)


def _with_old_tools(spans: list[Span]) -> list[Span]:
    """Return the spans, those of the older type that answer a call of their name as tools."""
    called = {call.name for span in spans for said in span.said for call in said.calls}
    return [
        replace(span, kind="tool") if span.kind == "other" and span.name in called else span
        for span in spans
    ]


ADAPTER = Adapter(
    name="langfuse",
    title="Langfuse traces and observations",
    domains=DOMAINS,
    detect=detect,
    extract=extract,
    unit="session",
)
