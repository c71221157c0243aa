"""ATIF, the Agent Trajectory Interchange Format of the Harbor project, versions 1.0 to 1.8.

Defined by Harbor's RFC 0001. Drift handled here: observations on system steps (1.2),
`agent.tool_definitions` and copied context (1.5), content as text or parts (1.6), embedded
`subagent_trajectories`, `trajectory_id` and `llm_call_count` (1.7), audio parts (1.8). Version
numbers are what the writer stamped and decide nothing.

Files: a document by itself; a run of several (`trajectory.json`, `trajectory.cont-N.json`,
`trajectory.summarization-N-*.json`, also with a name before them); a trial of Harbor, whose
`agent/trajectory*.json` are read together with `result.json`, `config.json` and
`verifier/reward.txt|json`: these give reward, outcome (1 is success, 0 failure) and the exception
as exit status. A result without any trajectory is a reject, `metadata_only`.

Traps. Terminus writes one result without `source_call_id` for a whole batch of keystrokes: that
batch is one action. Where it logs its raw reply instead of tool calls, the `commands` in that reply
are the batch. A reply that could not be parsed, and the question whether to finish, are answered by
the harness, and so is every later user step of a Terminus, which has no person to speak to. Copied
context has the `skip_reason` `copied_context`, since an earlier file has it as targets. A sub-agent
is found by `trajectory_id`, `trajectory_path`, or the `session_id` of versions up to 1.6; in a file
by itself it names its parent by `parent_session_id`. `meta.subagents` holds references of steps
that are no calls.

Smallest shape: {"schema_version": "ATIF-v1.5", "agent": {"name": "a", "version": "1"},
"steps": [{"step_id": 1, "source": "user", "message": "..."}, {"step_id": 2, "source": "agent",
"message": "...", "tool_calls": [{"tool_call_id": "1", "function_name": "f", "arguments": {}}],
"observation": {"results": [{"source_call_id": "1", "content": "..."}]}}]}
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from trajkit.adapters import Adapter, harbor_trial, terminus
from trajkit.adapters.content import bytes_left_out, content_text
from trajkit.adapters.fields import integer, mapping, mappings, text
from trajkit.adapters.messages import Call, Message, fold, id_text, make_call, tools_text
from trajkit.adapters.terminus import split_terminus_task as split_terminus_task
from trajkit.model import (
    Bundle,
    Origin,
    OutcomeStatus,
    Record,
    Reject,
    Step,
    Trajectory,
    to_json_text,
)

_VERSION = re.compile(r"^ATIF-v(1\.\d+)$")
_COPIED = "copied"


def detect(value: Any) -> bool:
    """Return whether a value is an ATIF document, a run or trial that holds one, or a result."""
    if isinstance(value, Bundle):
        runs = [value.files[name] for name in sorted(value.files) if harbor_trial.is_run(name)]
        # A trajectory of another format is for its own adapter, and so are the files beside it.
        if any(run is not None and not _is_document(run) for run in runs):
            return False
        return any(runs) or detect(value.files.get("result.json"))
    return _is_document(value) or harbor_trial.is_trial(value) or harbor_trial.is_job(value)


def _is_document(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("steps"), list)
        and isinstance(value.get("schema_version"), str)
        and _VERSION.match(value["schema_version"]) is not None
    )


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the episode of each document, and after it those of its sub-agents."""
    files = record.value.files if isinstance(record.value, Bundle) else {"": record.value}
    looked_at: list[str] = []
    told = harbor_trial.facts(files, looked_at) if isinstance(record.value, Bundle) else {}
    documents = {name: files[name] for name in sorted(files) if _is_document(files[name])}
    for name in looked_at:
        record.ledger.became(("file", name), "context")
    if not documents:
        message = "a result of Harbor without the trajectory it speaks of"
        yield Reject(origin=record.origin, reason="metadata_only", message=message)
    parents = _parents(documents)
    for name in sorted(documents, key=lambda name: (_depth(name, parents), name)):
        alone = len(documents) == 1
        origin = record.origin if alone else replace(record.origin, key=name)
        parent = parents.get(name) or (
            text(_about(documents[name]).get("parent_session_id")) if alone else None
        )
        yield from _episodes(
            documents[name], origin, parent, record, (name,), told if parent is None else {}
        )


def _about(document: dict[str, Any]) -> dict[str, Any]:
    return mapping(mapping(document.get("agent")).get("extra"))


def _parents(documents: Mapping[str, Any]) -> dict[str, str]:
    """Return the file of the parent of each sub-agent's file: by reference, else by session."""
    parents: dict[str, str] = {}
    for name, document in documents.items():
        others = [other for other in documents if other != name]
        asked = text(_about(document).get("parent_session_id"))
        found = [other for other in others if _refers(documents[other], name, document)]
        found += [
            other
            for other in others
            if asked is not None
            and asked == documents[other].get("session_id")
            and not _is_continuation(documents[other])
        ]
        for other in found:
            if _depth(name, parents | {name: other}) <= len(documents):
                parents[name] = other
                break
    return parents


def _is_continuation(document: dict[str, Any]) -> bool:
    return integer(_about(document).get("continuation_index")) is not None


def _refers(candidate: dict[str, Any], name: str, document: dict[str, Any]) -> bool:
    """Return whether a document names another as its sub-agent's."""
    id_, session = text(document.get("trajectory_id")), text(document.get("session_id"))
    # A continuation has the session of the run it continues.
    session = None if session == candidate.get("session_id") else session
    return any(
        _is_at(name, ref.get("trajectory_path"))
        or (id_ is not None and ref.get("trajectory_id") == id_)
        or (session is not None and ref.get("session_id") == session)
        for ref in _references(candidate)
    )


def _is_at(name: str, path: Any) -> bool:
    """Return whether a reference means this file, which may have a name before it."""
    return isinstance(path, str) and (name == path or name.endswith((f"/{path}", f".{path}")))


def _depth(name: str, parents: Mapping[str, str]) -> int:
    """Return how many agents stand above a file's; more than there are for a circle."""
    depth = 0
    while name in parents and depth <= len(parents):
        name = parents[name]
        depth += 1
    return depth


def _references(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for step in mappings(document["steps"]):
        for result in mappings(mapping(step.get("observation")).get("results")):
            refs = result.get("subagent_trajectory_ref")
            yield from mappings(refs if isinstance(refs, list) else [refs])


def _episodes(
    document: dict[str, Any],
    origin: Origin,
    parent_key: str | None,
    record: Record,
    place: tuple[Any, ...],
    told: dict[str, Any],
) -> Iterator[Trajectory | Reject]:
    reader = _Reader(document, place)
    for number, step in enumerate(document["steps"]):
        record.ledger.expect([(*place, number)])
        if not isinstance(step, dict):
            record.ledger.left_out((*place, number), "unknown_event")
    folded = fold(reader.messages(), record.ledger)
    for event in reader.noted:
        record.ledger.became(event, "context")
    prompt, task, state = split_terminus_task(folded.task)
    children = [
        child for child in document.get("subagent_trajectories") or [] if _is_document(child)
    ]
    if children and origin.key is None:
        # Children name their parent by its key.
        origin = replace(origin, key="$")
    agent = mapping(document.get("agent"))
    extra = mapping(document.get("extra"))
    if folded.acts:
        ids = (text(document.get("trajectory_id")), text(document.get("session_id")))
        yield Trajectory(
            origin=origin,
            adapter=ADAPTER.name,
            format_version=str(document["schema_version"]).removeprefix("ATIF-v"),
            agent=text(agent.get("name")) or told.get("agent"),
            model=text(agent.get("model_name")) or reader.model or told.get("model"),
            task=task,
            agent_system_prompt=folded.agent_system_prompt or prompt,
            initial_state=state or reader.first_state,
            action_space=tools_text(agent.get("tool_definitions")),
            outcome_status=_outcome(extra, told),
            reward=told.get("reward"),
            exit_status=told.get("exit_status"),
            started_at=reader.started_at
            or (None if _is_continuation(document) else told.get("started_at")),
            parent_key=parent_key,
            names=tuple(
                dict.fromkeys(
                    name for name in ids[: 1 if _is_continuation(document) else 2] if name
                )
            ),
            meta=to_json_text(
                {
                    "session_id": document.get("session_id"),
                    "trajectory_id": document.get("trajectory_id"),
                    "agent_version": agent.get("version"),
                    "final_metrics": document.get("final_metrics"),
                    "extra": extra or None,
                    "continued_trajectory_ref": document.get("continued_trajectory_ref"),
                    "copied_context_steps": reader.n_copied,
                    "linked_by": folded.linked_by,
                }
                | reader.findings()
                | told.get("meta", {})
            ),
            steps=tuple(
                _finished(step, copied=key == _COPIED)
                for step, key in zip(folded.steps, folded.step_keys, strict=True)
            ),
        )
    else:
        yield Reject(
            origin=origin,
            reason="no_action",
            message="no agent step calls a tool",
            pointer="$.steps",
        )
    for number, child in enumerate(children):
        key = f"{origin.key or '$'}.subagent_trajectories[{number}]"
        yield from _episodes(
            child, replace(origin, key=key), origin.key, record, (*place, "child", number), {}
        )


def _outcome(extra: dict[str, Any], told: dict[str, Any]) -> OutcomeStatus:
    said = extra.get("outcome")
    if said == "success":
        return "success"
    known: OutcomeStatus = told.get("outcome_status", "unknown")
    return "failure" if said == "failure" else known


class _Reader:
    """Turns the steps of a document into messages; keeps what they say of the whole."""

    def __init__(self, document: dict[str, Any], place: tuple[Any, ...]) -> None:
        self.steps = [
            (i, step) for i, step in enumerate(document["steps"]) if isinstance(step, dict)
        ]
        self.place = place
        name = text(mapping(document.get("agent")).get("name")) or ""
        self.is_terminus = name.startswith("terminus")
        self.model: str | None = None
        self.started_at: str | None = None
        self.first_state: str | None = None
        self.n_copied = self.n_without_model = 0
        self.subagents: list[Any] = []
        self.noted: list[tuple[Any, ...]] = []

    def findings(self) -> dict[str, Any]:
        found = {"subagents": self.subagents, "steps_without_model": self.n_without_model}
        return {name: value for name, value in found.items() if value}

    def messages(self) -> Iterator[Message]:
        acted = False
        for number, step in self.steps:
            copied = step.get("is_copied_context") is True
            self.n_copied += copied
            self.started_at = self.started_at or text(step.get("timestamp"))
            fields: dict[str, Any] = {
                "time": text(step.get("timestamp")),
                "event": (*self.place, number),
                "key": _COPIED if copied else None,
            }
            said, media = _content(step.get("message"))
            calls: tuple[Call, ...] = ()
            if step.get("source") == "agent":
                acted = True
                self.model = self.model or text(step.get("model_name"))
                self.n_without_model += step.get("llm_call_count") == 0
                calls = _calls(mappings(step.get("tool_calls")))
                calls = calls or (terminus.raw_batch(said) if step.get("observation") else ())
                thought = text(step.get("reasoning_content"))
                yield Message(role="assistant", text=said, thought=thought, calls=calls, **fields)
            else:
                by_harness = acted and self.is_terminus
                yield Message(
                    role="system" if step.get("source") == "system" else "user",
                    text=said,
                    source="harness" if by_harness else None,
                    media=media,
                    **fields,
                )
            yield from self._results(step, calls, acted, fields)

    def _results(
        self, step: dict[str, Any], calls: tuple[Call, ...], acted: bool, fields: dict[str, Any]
    ) -> Iterator[Message]:
        batch = len(calls) == 1 and calls[0].kind == "keystrokes"
        before: list[str] = []
        for result in mappings(mapping(step.get("observation")).get("results")):
            said, media = _content(result.get("content"))
            refs = result.get("subagent_trajectory_ref")
            if said is None and refs and calls:
                said = to_json_text({"subagent_trajectory_ref": refs})
            elif said is None and refs:
                self.subagents.extend(refs if isinstance(refs, list) else [refs])
                self.noted.append(fields["event"])
                continue
            if not acted:
                before.extend([said] if said else [])
            if calls:
                extra = mapping(result.get("extra"))
                yield Message(
                    role="result",
                    text=said,
                    call_id=None if batch else id_text(result.get("source_call_id")),
                    source="harness" if terminus.is_feedback(said) else "environment",
                    error="error" if extra.get("is_error") is True else None,
                    exit_code=integer(extra.get("exit_code")),
                    media=media,
                    **fields,
                )
            else:
                yield Message(role="user", text=said, source="harness", media=media, **fields)
        if before:
            first = [self.first_state] if self.first_state else []
            self.first_state = "\n".join([*first, *before])


def _content(content: Any) -> tuple[str | None, str | None]:
    """Return text and pictures of a content; the sound of an audio part is left out of it."""
    if isinstance(content, list):
        content = [_without_sound(part) for part in content]
    return content_text(content)


def _without_sound(part: Any) -> Any:
    source = part.get("source") if isinstance(part, dict) and part.get("type") == "audio" else None
    if not isinstance(source, dict) or not isinstance(source.get("data"), str):
        return part
    rest = {key: value for key, value in source.items() if key != "data"}
    return part | {"source": rest | bytes_left_out(source["data"], source.get("media_type"))}


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


def _finished(step: Step, *, copied: bool) -> Step:
    """Return a step with what only the pair of action and observation tells."""
    if copied:
        step = replace(step, skip_reason="copied_context")
    if step.action_kind == "message" and (step.observation or "").startswith(terminus.UNPARSED):
        return replace(step, action_valid=False)
    seen = step.observation is not None and step.observation_source == "environment"
    if step.action_kind == "keystrokes" and seen:
        return replace(step, observation_kind="screen")
    return step


ADAPTER = Adapter(
    name="atif",
    title="ATIF 1.0 to 1.8 (Harbor trials, Terminus and their converters)",
    domains=("mcp", "search", "terminal", "swe", "web", "os", "android"),
    detect=detect,
    extract=extract,
    bundle=harbor_trial.bundle,
)
