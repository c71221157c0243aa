"""LangSmith runs: JSON lines, or a list, of the records of its tracer and its API.

Defined by the `Run` of the LangSmith SDK. The runs of a trace share a `trace_id`, are ordered by
`dotted_order` and may lie among the runs of others; the runs of one thread (`thread_id` or
`session_id` in the metadata) are one episode over several traces.

Traps: every `llm` run repeats the talk so far, in messages of LangChain, of OpenAI or of Anthropic;
older ones have `prompts` of mere text, which then only give the task. A `tool` run has its call's
id in `extra` or in the message it gives back, and on failure nothing but `error`: that text is the
observation. A run may stand twice, when it begins and when it ends; the later one counts. Feedback
is a reward when all of it is one number.

Smallest shape: {"id": "r1", "trace_id": "r1", "run_type": "llm", "dotted_order": "...", "inputs":
{"messages": [...]}, "outputs": {"generations": [...]}} and {"id": "r2", "trace_id": "r1",
"run_type": "tool", "name": "f", "inputs": {}, "outputs": {"output": "..."}}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trajkit.adapters import Adapter
from trajkit.adapters.content import content_text
from trajkit.adapters.fields import first_text, mapping, mappings, quantity, text
from trajkit.adapters.messages import Call, make_call
from trajkit.adapters.spans import Span, Trace, episodes
from trajkit.adapters.traced_messages import parsed, traced_messages
from trajkit.model import DOMAINS, Record, Reject, Trajectory, to_json_text

_TYPES = ("llm", "chain", "tool", "retriever", "prompt", "parser", "embedding", "agent")
_THREADS = ("thread_id", "session_id", "conversation_id")


def detect(value: Any) -> bool:
    """Return whether a value is a run, or a list of runs."""
    if isinstance(value, list):
        return bool(value) and all(_is_run(run) for run in value)
    return _is_run(value)


def _is_run(value: Any) -> bool:
    run = mapping(value)
    return (
        run.get("run_type") in _TYPES
        and "id" in run
        and bool({"dotted_order", "trace_id"} & set(run))
    )


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the episode of each trace or thread, then those of its sub-agents."""
    values = record.value if isinstance(record.value, list) else [record.value]
    record.ledger.expect(range(len(values)))
    latest: dict[str, int] = {}
    for place, run in enumerate(values):
        if not _is_run(run):
            record.ledger.left_out(place, "unknown_event")
            continue
        before = latest.get(str(run["id"]))
        if before is not None:
            record.ledger.left_out(before, "repeated_run")
        latest[str(run["id"])] = place
    threads = {
        str(run.get("trace_id")): thread
        for run in mappings(values)
        if (thread := first_text([mapping(mapping(run.get("extra")).get("metadata"))], *_THREADS))
    }
    traces: dict[str, Trace] = {}
    for place in latest.values():
        run = values[place]
        name = str(run.get("trace_id") or run["id"])
        key = threads.get(name, name)
        trace = traces.setdefault(key, Trace(key=key))
        trace.spans.append(_span(run, place))
        if run.get("parent_run_id") is None:
            _head(trace, run)
    for trace in traces.values():
        yield from episodes(trace, record.origin, ADAPTER.name, record.ledger)


def _head(trace: Trace, run: dict[str, Any]) -> None:
    """Take from a root what it says of the whole trace."""
    inputs = mapping(run.get("inputs"))
    trace.task = trace.task or first_text([inputs], "input", "question", "query", "task")
    trace.agent = trace.agent or text(run.get("name"))
    trace.exit_status = "error" if run.get("error") else trace.exit_status
    stats = mapping(run.get("feedback_stats"))
    scores = [mapping(one).get("avg") for one in stats.values()]
    known = [score for score in map(quantity, scores) if score is not None]
    trace.reward = known[0] if len(known) == 1 else trace.reward
    trace.meta |= {"feedback": stats} if stats else {}
    trace.meta |= {"tags": run["tags"]} if run.get("tags") else {}


def _span(run: dict[str, Any], place: int) -> Span:
    kind = run["run_type"]
    extra = mapping(run.get("extra"))
    found = mapping(run.get("outputs"))
    details = [mapping(extra.get("metadata")), mapping(extra.get("invocation_params"))]
    is_model, is_tool = kind == "llm", kind == "tool"
    called = mapping(run.get("inputs"))
    result, call_id = _result(found) if is_tool else (None, None)
    said = traced_messages(found) if is_model else ()
    model = first_text(details, "ls_model_name", "model", "model_name")
    return Span(
        event=place,
        kind="model" if is_model else "tool" if is_tool else "other",
        id=text(run.get("id")),
        parent=text(run.get("parent_run_id")),
        start=text(run.get("dotted_order")) or text(run.get("start_time")) or "",
        time=text(run.get("start_time")),
        ended=text(run.get("end_time")),
        name=text(run.get("name")),
        heard=traced_messages(called) if is_model else (),
        said=said,
        tools=mapping(extra.get("invocation_params")).get("tools") if is_model else None,
        model=model or (_said_by(found) if is_model else None),
        call=_call(run, called, text(extra.get("tool_call_id")) or call_id) if is_tool else None,
        result=result,
        error=text(run.get("error")),
    )


def _call(run: dict[str, Any], inputs: dict[str, Any], call_id: str | None) -> Call:
    """Return the call of a tool's run; older runs have its arguments as text in `input`."""
    given: Any = inputs
    if set(inputs) == {"input"}:
        inner = parsed(inputs["input"])
        given = inner if isinstance(inner, dict) else inputs
    return make_call(run.get("name"), given, call_id)


def _result(outputs: dict[str, Any]) -> tuple[str | None, str | None]:
    """Return what a tool gave back, and the id of its call where a message says it."""
    if not outputs:
        return None, None
    given = outputs.get("output", outputs)
    fields = mapping(given)
    fields = mapping(fields.get("kwargs")) or mapping(fields.get("data")) or fields
    if "content" in fields and ("tool_call_id" in fields or fields.get("type") == "tool"):
        return content_text(fields["content"])[0], text(fields.get("tool_call_id"))
    return given if isinstance(given, str) else to_json_text(given), None


def _said_by(outputs: dict[str, Any]) -> str | None:
    """Return the model that a reply names."""
    listed: Any = outputs.get("generations")
    while isinstance(listed, list) and listed:
        listed = listed[0]
    fields = mapping(mapping(mapping(listed).get("message")).get("kwargs"))
    return first_text([mapping(fields.get("response_metadata")), outputs], "model_name", "model")


ADAPTER = Adapter(
    name="langsmith",
    title="LangSmith runs",
    domains=DOMAINS,
    detect=detect,
    extract=extract,
    unit="session",
)
