"""smolagents memories: the steps of `agent.memory`, or what a run's `dict()` gives.

Defined by the memory classes of Hugging Face's smolagents (1.x). The document is a list of steps or
an object with `steps` (and `system_prompt`, or `state` and `output` of a run). Steps are told apart
by their keys: `task`, `plan`, or `step_number` for an action. `model_input_messages` repeats
everything before a step and is left alone; an older `agent_memory` is the same.

A `CodeAgent` writes code: it is the action, and the words before it are the thought. A
`ToolCallingAgent` may make several calls in one step, whose answers are merged into one text
without ids: that text belongs to the last call, and `meta.merged_observations` counts such steps.
A step that failed has an `error` of type and message. Where there are no observations, the message
is what the agent got to see and the type is the error; else both stand in the error. A reply that
could not be parsed is an action that is not valid. A plan is a thought. Whatever `final_answer`
gave is `meta.final_answer`; that it was given says nothing of the outcome.

Smallest shape: [{"task": "..."}, {"step_number": 1, "tool_calls": [{"id": "call_1", "type":
"function", "function": {"name": "python_interpreter", "arguments": "print(1)"}}], "model_output":
"...", "code_action": "print(1)", "observations": "...", "error": null}]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from trajkit.adapters import Adapter
from trajkit.adapters.anthropic_blocks import unread
from trajkit.adapters.content import content_text
from trajkit.adapters.fields import mapping, mappings, meta_text, no_action, text, time_text
from trajkit.adapters.messages import Call, Message, fold, id_text, make_call
from trajkit.model import ObservationSource, Record, Reject, Trajectory

_OPENING = re.compile(r"(Code:\s*)?(<code>|```(py|python)?)\s*\Z")
_ACTION_KEYS = ("tool_calls", "observations", "code_action", "model_output")


def detect(value: Any) -> bool:
    """Return whether a value is a memory with at least one action."""
    if isinstance(value, dict) and "schema_version" in value:
        return False
    steps = value.get("steps") if isinstance(value, dict) else value
    return isinstance(steps, list) and any(_acts(mapping(step)) for step in steps)


def _acts(step: dict[str, Any]) -> bool:
    return type(step.get("step_number")) is int and sum(k in step for k in _ACTION_KEYS) >= 2


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the one memory of a document."""
    run = mapping(record.value)
    listed = run["steps"] if run else record.value
    steps = [mapping(step) for step in listed]
    record.ledger.expect(range(len(steps)))
    folded = fold(_messages(steps), record.ledger)
    if not folded.acts:
        yield no_action(record)
        return
    actions = [step for step in steps if _acts(step)]
    ended = actions[-1] if actions else {}
    final = ended.get("action_output") if ended.get("is_final_answer") is True else None
    error = text(mapping(ended.get("error")).get("type"))
    prompt = run.get("system_prompt")
    written = next((step["system_prompt"] for step in steps if "system_prompt" in step), None)
    merged = [
        s for s in actions if len(mappings(s.get("tool_calls"))) > 1 and s.get("observations")
    ]
    times = [mapping(step.get("timing")).get("start_time") for step in actions]
    yield Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        agent="smolagents",
        task=folded.task,
        agent_system_prompt=text(mapping(prompt).get("system_prompt", prompt)) or text(written),
        exit_status=text(run.get("state")) or ("final_answer" if final is not None else error),
        started_at=next(filter(None, map(time_text, times)), None),
        meta=meta_text(
            folded,
            final_answer=run.get("output") if final is None else final,
            merged_observations=len(merged) or None,
        ),
        steps=folded.steps,
    )


def _messages(steps: list[dict[str, Any]]) -> Iterator[Message]:
    for event, step in enumerate(steps):
        if "task" in step:
            yield Message(role="user", text=content_text(step["task"])[0], event=event)
        elif "plan" in step:
            yield Message(role="assistant", thought=text(step["plan"]), event=event)
        elif _acts(step):
            yield from _action(step, event)
        elif "system_prompt" in step:
            yield unread(event, "context")
        elif "final_answer" in step or "output" in step:
            yield unread(event, "repeated_message")
        else:
            yield unread(event, "unknown_event")


def _action(step: dict[str, Any], event: int) -> Iterator[Message]:
    time = time_text(mapping(step.get("timing")).get("end_time"))
    reply = content_text(step.get("model_output"))[0]
    error = mapping(step.get("error"))
    calls, thought = _calls(step, reply)
    if not calls and error and reply:
        # The reply was no action that the agent's program could read.
        calls, thought = [Call(action=reply, name=None, valid=False)], None
        source: ObservationSource = "harness"
    else:
        source = "environment"
    if calls or thought:
        yield Message(role="assistant", text=thought, calls=tuple(calls), event=event, time=time)
    seen, media = content_text(step.get("observations"))
    kind, message = text(error.get("type")) or "error", content_text(error.get("message"))[0]
    if error:
        seen, failed = (message, kind) if seen is None else (seen, f"{kind}: {message}")
    else:
        failed = None
    if seen is None:
        if not calls and not thought:
            yield unread(event, "empty_message")
        return
    if calls:
        yield Message(
            role="result",
            text=seen,
            call_id=calls[-1].id,
            error=failed,
            source=source,
            media=media,
            event=event,
            time=time,
        )
    else:
        yield Message(
            role="user", text=seen, source="harness", error=failed, event=event, time=time
        )


def _calls(step: dict[str, Any], reply: str | None) -> tuple[list[Call], str | None]:
    """Return the calls of a step, and the words that came with them."""
    logged = mappings(step.get("tool_calls"))
    code = text(step.get("code_action"))
    functions = [mapping(call.get("function")) or call for call in logged]
    if code is None and len(functions) == 1 and functions[0].get("name") == "python_interpreter":
        code = text(functions[0].get("arguments"))
    if code is None:
        made = [
            make_call(function.get("name"), function.get("arguments"), call.get("id"))
            for function, call in zip(functions, logged, strict=True)
        ]
        return made, reply
    id_ = id_text(logged[0].get("id")) if logged else None
    before, found, _ = (reply or "").partition(code)
    thought = _OPENING.sub("", before) if found else reply
    return [Call(action=code, name="python_interpreter", id=id_, kind="code")], thought or None


ADAPTER = Adapter(
    name="smolagents",
    title="smolagents memories, of code agents and tool calling agents",
    domains=("mcp", "search", "terminal", "web", "swe"),
    detect=detect,
    extract=extract,
)
