"""OpenTelemetry spans of generative AI: OTLP JSON (`resourceSpans`) and lines of single spans.

Defined by the GenAI semantic conventions. Read here: `gen_ai.input.messages`, `output.messages`,
`system_instructions` and `tool.definitions` (1.37 and later; JSON text or values, on the span or on
an event of it); message events (`gen_ai.user.message`, `gen_ai.choice`, 1.28 to 1.36); and what
others write on the same spans: OpenInference (`llm.input_messages.N.message.*`), Traceloop
(`gen_ai.prompt.N.*`) and the Vercel AI SDK (`ai.prompt.messages`, `ai.toolCall.*`).

Spans of one `gen_ai.conversation.id` (else of one trace) are one story, over all lines of a file.
Traps: attributes are a list of typed values or an object; numbers are text; content is opt-in, so
spans without any are counted as `no_content`; the outer span of an agent or a Vercel call repeats
what its inner spans say. JSON Schemas of the conventions and their example values are no episodes.

Smallest shape: {"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "t", "spanId": "s",
"startTimeUnixNano": "1", "attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue":
"chat"}}, {"key": "gen_ai.output.messages", "value": {"stringValue": "[...]"}}]}]}]}]}
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Literal

from trajkit.adapters import Adapter
from trajkit.adapters.fields import first_text, mapping, mappings, text
from trajkit.adapters.messages import Call, Message, make_call
from trajkit.adapters.otel_attributes import plain_attributes, tree
from trajkit.adapters.spans import Span, Trace, episodes
from trajkit.adapters.traced_messages import parsed, traced_messages
from trajkit.model import DOMAINS, Record, Reject, Trajectory, to_json_text

Kind = Literal["model", "tool", "other"]

_SIGNS = ("gen_ai.", "openinference.", "llm.", "traceloop.", "ai.")
_SCHEMAS = ("InputMessages", "OutputMessages", "SystemInstructions", "ToolDefinitions")
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("chat", "text_completion", "generate_content", "completion"), "model"),
    **dict.fromkeys(("llm", "ai.generatetext.dogenerate", "ai.streamtext.dostream"), "model"),
    **dict.fromkeys(("execute_tool", "tool", "ai.toolcall"), "tool"),
}
_OPERATION = (
    *("gen_ai.operation.name", "openinference.span.kind", "traceloop.span.kind"),
    *("ai.operationId", "llm.request.type"),
)
_THREADS = ("gen_ai.conversation.id", "session.id", "traceloop.association.properties.thread_id")
_MODELS = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name", "ai.model.id")
_TOOLS = ("gen_ai.tool.name", "tool.name", "ai.toolCall.name", "traceloop.entity.name")
_CALL_IDS = ("gen_ai.tool.call.id", "ai.toolCall.id", "tool_call.id")
_ARGUMENTS = (
    *("gen_ai.tool.call.arguments", "ai.toolCall.args", "ai.toolCall.input", "input.value"),
    *("tool.parameters", "traceloop.entity.input"),
)
_RESULTS = (
    *("gen_ai.tool.call.result", "ai.toolCall.result", "ai.toolCall.output", "output.value"),
    "traceloop.entity.output",
)
_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}


def detect(value: Any) -> bool:
    """Return whether a value holds spans of a model or a tool, or a schema of them."""
    if isinstance(value, list):
        return any(isinstance(one, dict) and detect(one) for one in value[:50])
    found = mapping(value)
    if _is_schema(found):
        return True
    return any(_is_ours(span) for span in _spans_of(found))


def _is_schema(value: dict[str, Any]) -> bool:
    if "$defs" in value:
        return value.get("title") in _SCHEMAS
    return bool(value) and all(str(name).startswith("gen-ai-") for name in value)


def _spans_of(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Give the spans of an OTLP batch, or the value itself when it is one."""
    for resource in mappings(value.get("resourceSpans") or value.get("resource_spans")):
        for key in ("scopeSpans", "scope_spans", "instrumentationLibrarySpans"):
            for scope in mappings(resource.get(key)):
                yield from mappings(scope.get("spans"))
    if "attributes" in value and _ids(value)[1] is not None:
        yield value


def _ids(span: dict[str, Any]) -> tuple[str | None, str | None, str | None]:
    """Return the ids of trace, span and parent."""
    held = [span, mapping(span.get("context"))]
    trace = first_text(held, "traceId", "trace_id")
    own = first_text(held, "spanId", "span_id", "id")
    return trace, own, first_text([span], "parentSpanId", "parent_span_id", "parent_id", "parentId")


def _is_ours(span: dict[str, Any]) -> bool:
    return any(name.startswith(_SIGNS) for name in plain_attributes(span.get("attributes")))


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the episode of each conversation or trace, then those of its sub-agents."""
    values = record.value if isinstance(record.value, list) else [record.value]
    record.ledger.expect(range(len(values)))
    found: list[tuple[Hashable, dict[str, Any]]] = []
    for number, value in enumerate(values):
        if _is_schema(mapping(value)):
            message = "a definition of messages and its examples, not a log"
            yield Reject(origin=record.origin, reason="schema_document", message=message)
        spans = list(_spans_of(mapping(value)))
        if len(spans) == 1 and spans[0] is value:
            found.append((number, value))
            continue
        record.ledger.left_out(number, "unknown_event")
        if spans:
            record.ledger.became(number, "context")
        found += [((number, place), span) for place, span in enumerate(spans)]
    record.ledger.expect(event for event, _ in found)
    yield from _traces(record, found)


def _traces(
    record: Record, found: list[tuple[Hashable, dict[str, Any]]]
) -> Iterator[Trajectory | Reject]:
    threads: dict[str, str] = {}
    for _, raw in found:
        thread = first_text([plain_attributes(raw.get("attributes"))], *_THREADS)
        if thread is not None:
            threads.setdefault(str(_ids(raw)[0]), thread)
    traces: dict[str, Trace] = {}
    for event, raw in found:
        if not _is_ours(raw):
            record.ledger.left_out(event, "other_span")
            continue
        name = str(_ids(raw)[0])
        key = threads.get(name, name)
        trace = traces.setdefault(key, Trace(key=key))
        attributes = plain_attributes(raw.get("attributes"))
        trace.agent = trace.agent or first_text([attributes], "gen_ai.agent.name", "agent.name")
        trace.spans.append(_span(raw, attributes, event))
    for trace in traces.values():
        yield from episodes(trace, record.origin, ADAPTER.name, record.ledger)


def _kind(attributes: dict[str, Any]) -> Kind:
    for name in _OPERATION:
        said = text(attributes.get(name))
        if said is not None and said.lower() in _KINDS:
            return _KINDS[said.lower()]
    return "other"


def _span(raw: dict[str, Any], attributes: dict[str, Any], event: Hashable) -> Span:
    kind = _kind(attributes)
    begun = raw.get("startTimeUnixNano") or raw.get("start_time_unix_nano") or raw.get("start_time")
    ended = raw.get("endTimeUnixNano") or raw.get("end_time_unix_nano") or raw.get("end_time")
    _, own, parent = _ids(raw)
    heard, said = _talk(raw, attributes) if kind == "model" else ((), ())
    result = next((attributes[name] for name in _RESULTS if name in attributes), None)
    return Span(
        event=event,
        kind=kind,
        id=own,
        parent=parent,
        start=str(begun or "").zfill(20),
        time=_time(begun),
        ended=_time(ended),
        name=first_text([attributes], *_TOOLS) if kind == "tool" else text(raw.get("name")),
        heard=heard,
        said=said,
        tools=_tools(attributes) if kind == "model" else None,
        model=first_text([attributes], *_MODELS),
        call=_call(attributes) if kind == "tool" else None,
        result=None if result is None or kind != "tool" else _result(result),
        error=_error(raw, attributes),
    )


def _time(value: Any) -> str | None:
    """Return nanoseconds as ISO 8601; a time in another form as it is."""
    digits = str(value) if isinstance(value, str | int) else ""
    if not digits.isascii() or not digits.isdigit() or len(digits) > 19:
        return text(value)
    moment = datetime.fromtimestamp(int(digits) // 1_000_000_000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{int(digits) % 1_000_000_000 // 1000:06d}Z"


def _error(raw: dict[str, Any], attributes: dict[str, Any]) -> str | None:
    status = mapping(raw.get("status"))
    code = status.get("code", status.get("status_code"))
    failed = code in (2, "2", "ERROR", "STATUS_CODE_ERROR")
    thrown = [
        plain_attributes(one.get("attributes"))
        for one in mappings(raw.get("events"))
        if one.get("name") == "exception"
    ]
    said = first_text([*thrown, status], "exception.message", "message", "description")
    return (said or "error") if failed else first_text([attributes], "error.type")


def _call(attributes: dict[str, Any]) -> Call:
    given = next((attributes[name] for name in _ARGUMENTS if name in attributes), None)
    call_id = first_text([attributes], *_CALL_IDS)
    return make_call(first_text([attributes], *_TOOLS), given, call_id)


def _result(value: Any) -> str:
    """Return a tool's result as text; Vercel and JSON loggers write text as a JSON string."""
    if isinstance(value, str) and len(value) > 1 and value[0] == value[-1] == '"':
        inner = parsed(f"[{value}]")
        if isinstance(inner, list) and len(inner) == 1 and isinstance(inner[0], str):
            return inner[0]
    return value if isinstance(value, str) else to_json_text(value)


def _tools(attributes: dict[str, Any]) -> Any:
    for name in ("gen_ai.tool.definitions", "ai.prompt.tools"):
        if attributes.get(name):
            listed = parsed(attributes[name])
            return [parsed(one) for one in listed] if isinstance(listed, list) else listed
    flat = tree(attributes, "llm.request.functions") or tree(attributes, "llm.tools")
    return [parsed(mapping(mapping(one).get("tool")).get("json_schema")) or one for one in flat]


def _talk(
    raw: dict[str, Any], attributes: dict[str, Any]
) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """Return what a model was given and what it said, in the first notation that says anything."""
    events = [
        (text(one.get("name")), plain_attributes(one.get("attributes")))
        for one in mappings(raw.get("events"))
    ]
    for held in (attributes, *(found for _, found in events)):
        heard = traced_messages(_instructed(held))
        said = traced_messages(held.get("gen_ai.output.messages"))
        if heard or said:
            return heard, said
    asked = [_told(name, held) for name, held in events if name in _ROLES]
    choices = [_told(name, held) for name, held in events if name == "gen_ai.choice"]
    if asked or choices:
        return traced_messages(asked), traced_messages(choices)
    for prompt, completion in (
        ("llm.input_messages", "llm.output_messages"),
        ("gen_ai.prompt", "gen_ai.completion"),
    ):
        heard, said = (
            traced_messages([_flat(one) for one in mappings(tree(attributes, prefix))])
            for prefix in (prompt, completion)
        )
        if heard or said:
            return heard, said
    return _vercel(attributes)


def _instructed(held: dict[str, Any]) -> list[Any]:
    """Return the input messages, with the system instructions before them."""
    listed = parsed(held.get("gen_ai.input.messages"))
    given = parsed(held.get("gen_ai.system_instructions"))
    parts = [given] if isinstance(given, dict) else given
    first = [{"role": "system", "parts": parts}] if isinstance(parts, list) and parts else []
    if isinstance(given, str) and given:
        first = [{"role": "system", "content": given}]
    return [*first, *(listed if isinstance(listed, list) else [])]


def _told(name: str | None, held: dict[str, Any]) -> dict[str, Any]:
    """Return the message of an event: its fields, or one field that holds it all."""
    inner = mapping(parsed(held.get("message") or held.get("body") or held.get("event_body")))
    fields = mapping(inner.get("message")) or inner or held
    told = {"role": _ROLES.get(name or "", "assistant"), "content": fields.get("content")}
    if calls := parsed(fields.get("tool_calls")):
        told["tool_calls"] = calls
    if told["role"] == "tool":
        told["tool_call_id"] = fields.get("id")
    return told


def _flat(one: dict[str, Any]) -> dict[str, Any]:
    """Return a flattened message of OpenInference or Traceloop as a chat message."""
    told = mapping(one.get("message")) or one
    contents = [
        mapping(mapping(part).get("message_content")) for part in told.get("contents") or []
    ]
    said = "\n".join(found for part in contents if (found := text(part.get("text"))))
    calls = []
    for call in mappings(told.get("tool_calls")):
        inner = mapping(call.get("tool_call")) or call
        calls.append({"id": inner.get("id"), "function": mapping(inner.get("function")) or inner})
    plain = {
        "role": told.get("role") or "assistant",
        "content": told.get("content") or said or None,
    }
    if calls:
        plain["tool_calls"] = calls
    if told.get("tool_call_id"):
        plain["tool_call_id"] = told["tool_call_id"]
    return plain


def _vercel(attributes: dict[str, Any]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    heard = traced_messages(attributes.get("ai.prompt.messages"))
    calls = [
        make_call(call.get("toolName"), call.get("input", call.get("args")), call.get("toolCallId"))
        for call in mappings(parsed(attributes.get("ai.response.toolCalls")))
    ]
    said = text(attributes.get("ai.response.text"))
    if not calls and said is None:
        return heard, ()
    message = Message(
        role="assistant",
        text=said,
        thought=text(attributes.get("ai.response.reasoning")),
        calls=tuple(calls),
    )
    return heard, (replace(message, event=None),)


ADAPTER = Adapter(
    name="otel-genai",
    title="OpenTelemetry GenAI spans (OTLP JSON, OpenInference, Traceloop, Vercel AI SDK)",
    domains=DOMAINS,
    detect=detect,
    extract=extract,
    unit="session",
)
