"""ATIF, the Agent Trajectory Interchange Format of the Harbor project, versions 1.0 to 1.8.

Defined by Harbor's RFC 0001. Drift handled here: content as text or parts (1.6), observations on
system steps (1.2), `agent.tool_definitions` (1.5), copied context (1.5), embedded
`subagent_trajectories` and `trajectory_id` (1.7). Terminus writes one result without
`source_call_id` for a whole batch of keystrokes: that batch is one action. Where it logs its raw
reply instead of tool calls, the `commands` in that reply are the batch. Copied context has the
`skip_reason` `copied_context`, since an earlier file has it as targets.

Smallest shape: {"schema_version": "ATIF-v1.5", "agent": {"name": "a", "version": "1"},
"steps": [{"step_id": 1, "source": "user", "message": "..."}, {"step_id": 2, "source": "agent",
"message": "...", "tool_calls": [{"tool_call_id": "1", "function_name": "f", "arguments": {}}],
"observation": {"results": [{"source_call_id": "1", "content": "..."}]}}]}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import orjson

from trajkit.adapters import Adapter
from trajkit.adapters.content import content_text
from trajkit.adapters.messages import (
    Call,
    Message,
    fold,
    id_text,
    make_call,
    skip_first,
    tools_text,
)
from trajkit.model import Origin, OutcomeStatus, Record, Reject, Step, Trajectory, to_json_text

_VERSION = re.compile(r"^ATIF-v(1\.\d+)$")
_UNPARSED = "Previous response had parsing errors"
_TERMINUS = re.compile(
    r"(.*?)(?:^|\n)Task Description:\n(.*?)\n+Current terminal state:\n(.*)\Z", re.DOTALL
)
_FEEDBACK = re.compile(
    r"^(Previous response had (parsing errors|warnings)|Current terminal state:)", re.MULTILINE
)


def detect(value: Any) -> bool:
    """Return whether a value is an ATIF document."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("steps"), list)
        and isinstance(value.get("schema_version"), str)
        and _VERSION.match(value["schema_version"]) is not None
    )


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the episode of a document, then those of the sub-agents embedded in it."""
    yield from _episodes(record.value, record.origin, None)


def _episodes(
    document: dict[str, Any], origin: Origin, parent_key: str | None
) -> Iterator[Trajectory | Reject]:
    messages, n_copied_messages, n_copied = _messages(document)
    folded = fold(messages)
    prompt, task, state = split_terminus_task(folded.task)
    n_copied_steps = len(fold(messages[:n_copied_messages]).steps)
    steps = skip_first(folded.steps, n_copied_steps, "copied_context")
    if document.get("subagent_trajectories") and origin.key is None:
        # Children name their parent by its key.
        origin = replace(origin, key="$")
    agent = document.get("agent") or {}
    extra = document.get("extra") or {}
    if folded.acts:
        yield Trajectory(
            origin=origin,
            adapter=ADAPTER.name,
            format_version=_version(document),
            agent=agent.get("name"),
            model=agent.get("model_name") or _first_model(document),
            task=task,
            agent_system_prompt=folded.agent_system_prompt or prompt,
            initial_state=state or _first_state(document),
            action_space=tools_text(agent.get("tool_definitions")),
            outcome_status=_outcome(extra),
            started_at=next(
                (s["timestamp"] for s in document["steps"] if s.get("timestamp")), None
            ),
            parent_key=parent_key,
            meta=to_json_text(
                {
                    "session_id": document.get("session_id"),
                    "trajectory_id": document.get("trajectory_id"),
                    "agent_version": agent.get("version"),
                    "final_metrics": document.get("final_metrics"),
                    "extra": extra or None,
                    "continued_trajectory_ref": document.get("continued_trajectory_ref"),
                    "copied_context_steps": n_copied,
                    "linked_by": folded.linked_by,
                }
            ),
            steps=tuple(_finished(step) for step in steps),
        )
    else:
        yield Reject(
            origin=origin,
            reason="no_action",
            message="no agent step calls a tool",
            pointer="$.steps",
        )
    for number, child in enumerate(document.get("subagent_trajectories") or []):
        if detect(child):
            key = f"{origin.key or '$'}.subagent_trajectories[{number}]"
            yield from _episodes(child, replace(origin, key=key), origin.key)


def split_terminus_task(text: str | None) -> tuple[str | None, str | None, str | None]:
    """Return prompt, task and first screen of Terminus's opening message; another text is a task.

    >>> split_terminus_task("Rules.\\n\\nTask Description:\\nx\\n\\nCurrent terminal state:\\n$ ")
    ('Rules.', 'x', '$ ')
    """
    match = _TERMINUS.match(text or "")
    if match is None:
        return None, text, None
    prompt, task, state = match.groups()
    return prompt.strip() or None, task.strip(), state


def _first_state(document: dict[str, Any]) -> str | None:
    """Return what a system or user step observed before the agent acted (ATIF 1.2 and later)."""
    texts = []
    for step in document["steps"]:
        if step.get("source") == "agent":
            break
        for result in (step.get("observation") or {}).get("results") or []:
            texts.append(content_text(result.get("content"))[0])
    return "\n".join(text for text in texts if text) or None


def _version(document: dict[str, Any]) -> str:
    return str(document["schema_version"]).removeprefix("ATIF-v")


def _first_model(document: dict[str, Any]) -> str | None:
    return next((s["model_name"] for s in document["steps"] if s.get("model_name")), None)


def _outcome(extra: dict[str, Any]) -> OutcomeStatus:
    said = extra.get("outcome")
    if said == "success":
        return "success"
    return "failure" if said == "failure" else "unknown"


def _messages(document: dict[str, Any]) -> tuple[list[Message], int, int]:
    """Return the steps as messages, and how many messages and steps at the start are copies."""
    messages: list[Message] = []
    n_copied = n_copied_messages = 0
    for number, step in enumerate(document["steps"]):
        if n_copied == number:
            n_copied_messages = len(messages)
            n_copied += step.get("is_copied_context") is True
        source = step.get("source")
        text, media = content_text(step.get("message"))
        time = step.get("timestamp")
        if source == "agent":
            calls = _calls(step.get("tool_calls") or []) or _raw_batch(step, text)
            messages.append(
                Message(
                    role="assistant",
                    text=text,
                    thought=step.get("reasoning_content"),
                    calls=calls,
                    time=time,
                )
            )
            messages.extend(_results(step, calls, time))
        else:
            messages.append(
                Message(
                    role="system" if source == "system" else "user",
                    text=text,
                    media=media,
                    time=time,
                )
            )
            messages.extend(_results(step, (), time))
    if n_copied == len(document["steps"]):
        n_copied_messages = len(messages)
    return messages, n_copied_messages, n_copied


def _calls(raw: list[dict[str, Any]]) -> tuple[Call, ...]:
    arguments = [call.get("arguments") for call in raw]
    if arguments and all(isinstance(a, dict) and "keystrokes" in a for a in arguments):
        # One screen answers the whole batch, so the batch is the action.
        return (Call(action=to_json_text(arguments), name=_name(raw[0]), kind="keystrokes"),)
    return tuple(
        make_call(call.get("function_name"), call.get("arguments"), call.get("tool_call_id"))
        for call in raw
    )


def _name(call: dict[str, Any]) -> str | None:
    name = call.get("function_name")
    return name if isinstance(name, str) else None


def _raw_batch(step: dict[str, Any], text: str | None) -> tuple[Call, ...]:
    """Return the batch of a raw reply that was run: an object with `commands` of keystrokes."""
    if not step.get("observation") or text is None or not text.lstrip().startswith("{"):
        return ()
    try:
        commands = orjson.loads(text)["commands"]
    except (ValueError, KeyError):
        return ()
    if not isinstance(commands, list) or not all(
        isinstance(command, dict) and "keystrokes" in command for command in commands
    ):
        return ()
    return (Call(action=to_json_text(commands), name=None, kind="keystrokes"),)


def _results(step: dict[str, Any], calls: tuple[Call, ...], time: str | None) -> Iterator[Message]:
    results = (step.get("observation") or {}).get("results") or []
    for result in results:
        text, media = content_text(result.get("content"))
        if text is None and result.get("subagent_trajectory_ref"):
            text = to_json_text({"subagent_trajectory_ref": result["subagent_trajectory_ref"]})
        feedback = not calls or (text is not None and _FEEDBACK.match(text) is not None)
        batch = len(calls) == 1 and calls[0].kind == "keystrokes"
        if not calls:
            yield Message(role="user", text=text, source="harness", media=media, time=time)
        else:
            yield Message(
                role="result",
                text=text,
                call_id=None if batch else id_text(result.get("source_call_id")),
                source="harness" if feedback else "environment",
                media=media,
                time=time,
            )


def _finished(step: Step) -> Step:
    """Return a step with what only the pair of action and observation tells."""
    if step.action_kind == "message" and (step.observation or "").startswith(_UNPARSED):
        return replace(step, action_valid=False)
    if step.action_kind == "keystrokes" and step.observation_source == "environment":
        return replace(step, observation_kind="screen")
    return step


ADAPTER = Adapter(
    name="atif",
    title="ATIF 1.0 to 1.8 (Harbor, Terminus and their converters)",
    domains=("mcp", "search", "terminal", "swe", "web", "os", "android"),
    detect=detect,
    extract=extract,
)
