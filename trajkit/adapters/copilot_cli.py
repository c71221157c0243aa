"""GitHub Copilot CLI sessions: `session-state/<id>/events.jsonl`.

Written by the Copilot command line, without a published definition; versions 0.0.3xx to 1.0 were
seen. Each line is `{"type", "data", "id", "timestamp", "parentId"}`; new types are counted, never
an error.

`assistant.message` holds text, readable reasoning and the calls of one reply; the start of a tool
repeats its call, and is a call only where no message holds it (a command that a person ran). The
end of a tool is the answer; `success` false is an error, a refusal has a code of its own. An
`assistant.reasoning` line belongs to the message after it, unless that repeats it. `parentId` is a
chain: where a person went back, what hangs beside the live way is a trajectory of its own, marked
`meta.branch`, whose first steps have the `skip_reason` `shared_history`. Events of a sub-agent lie
between those of its parent (`parentToolCallId`, later `agentId`): a trajectory of its own.

`content` of a person's message is their own words; `transformedContent` with the program's
additions is not read. Notices and skills are harness texts. Nothing is cut at a truncation or
compaction: `meta.context_windows` holds the step each window of the agent's context begins with.
`meta.thinking` tells for each turn whether its reasoning is `present`, `withheld` or `none`.

Smallest shape: {"type": "assistant.message", "data": {"content": "", "toolRequests":
[{"toolCallId": "c1", "name": "bash", "arguments": {}}]}, "id": "e1", "parentId": null}
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from trajkit.adapters import Adapter
from trajkit.adapters.content import content_text
from trajkit.adapters.event_tree import Branch, Node, branches, link
from trajkit.adapters.fields import (
    first_text,
    integer,
    mapping,
    mappings,
    meta_text,
    no_action,
    text,
)
from trajkit.adapters.injected import split_injected
from trajkit.adapters.messages import Message, fold, make_call, skip_first
from trajkit.adapters.step_keys import distinct, global_id
from trajkit.model import Record, Reject, Trajectory

_KNOWN = (
    "session.start",
    "user.message",
    "assistant.message",
    "assistant.turn_start",
    "tool.execution_start",
    "tool.execution_complete",
)
_CONTEXT = (
    "abort",
    "session.compaction_complete",
    "session.error",
    "session.model_change",
    "session.shutdown",
    "session.start",
    "session.truncation",
    "subagent.completed",
    "subagent.failed",
    "subagent.started",
)
_WINDOWS = ("session.truncation", "session.compaction_complete")
_NOISE = ("session.", "assistant.", "hook.", "permission.", "subagent.", "tool.", "skill.")
_REFUSED = ("rejected", "denied", "user_rejected")


def detect(value: Any) -> bool:
    """Return whether a value is an event of a session."""
    return (
        isinstance(value, dict)
        and value.get("type") in _KNOWN
        and isinstance(value.get("data"), dict)
        and ("parentId" in value or "agentId" in value)
    )


@dataclass(slots=True)
class _Session:
    """What single events need to know of all others."""

    calls: set[str] = field(default_factory=set)
    """Ids of calls that a message holds."""
    repeated: set[str] = field(default_factory=set)
    """Reasoning that a message holds too."""
    thoughts: dict[str, list[Node]] = field(default_factory=dict)
    """Reasoning before the message of each node."""
    agents: dict[str, str] = field(default_factory=dict)
    """The call that began an agent, by the agent's id."""

    def agent(self, raw: dict[str, Any]) -> str | None:
        """Return the sub-agent that an event is of; its beginning and end are its own too."""
        data = mapping(raw.get("data"))
        id_ = text(data.get("parentToolCallId")) or text(raw.get("agentId"))
        if id_ is None and str(raw.get("type")).startswith("subagent."):
            id_ = text(data.get("toolCallId"))
        return self.agents.get(id_, id_) if id_ is not None else None


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the main line, what was left beside it, then the sub-agents."""
    values = record.value if isinstance(record.value, list) else [record.value]
    record.ledger.expect(range(len(values)))
    lines = [(number, mapping(value)) for number, value in enumerate(values)]
    nodes = link(lines, record.ledger, id_key="id", parent_key="parentId")
    session = _survey(nodes)
    for node in nodes:
        _account(node, record)
    datas = [mapping(node.raw.get("data")) for node in nodes]
    id_ = first_text(datas, "sessionId")
    found: list[Trajectory] = []

    def read(node: Node) -> Iterator[Message]:
        return iter(()) if session.agent(node.raw) else _messages(node, session)

    for branch in branches(nodes, read, record.ledger):
        windows = [
            len(fold([m for before in branch.nodes[:n] for m in read(before)]).steps)
            for n, node in enumerate(branch.nodes)
            if node.raw.get("type") in _WINDOWS and not session.agent(node.raw)
        ]
        key = id_ or "session"
        about: dict[str, Any] = {"context_windows": sorted({0, *windows}) if windows else None}
        if found:
            about["branch"] = {"of": key, "n_shared_steps": branch.n_shared_steps}
            key = f"{key}~{len(found)}"
        own = [node for node in branch.nodes if not session.agent(node.raw)]
        if not found:
            # The way ends at the last message; how the session ended stands behind it.
            own += [n for n in nodes[nodes.index(own[-1]) + 1 :] if not session.agent(n.raw)]
        one = _trajectory(branch, own, session, record, key, about)
        found.append(replace(one, names=(id_,) if id_ and not found else ()))
    yield from found
    n_found = len(found)
    for agent in dict.fromkeys(filter(None, (session.agent(node.raw) for node in nodes))):
        own = [node for node in nodes if session.agent(node.raw) == agent]
        messages = [message for node in own for message in _messages(node, session)]
        if not fold(messages).acts:
            for message in messages:
                if message.event is not None:
                    record.ledger.left_out(message.event, "no_action")
            continue
        n_found += 1
        folded = fold(messages, record.ledger)
        started = [mapping(node.raw.get("data")) for node in own]
        about = {"agent_name": first_text(started, "agentName"), "spawned_by": agent}
        one = _trajectory(Branch(tuple(own), folded, 0), own, session, record, agent, about)
        parent = found[0].origin.key if found else None
        task = one.task or _prompt(agent, nodes)
        yield replace(one, parent_key=parent, task=task, names=(agent,))
    if not n_found:
        yield no_action(record)


def _survey(nodes: list[Node]) -> _Session:
    session = _Session()
    for node in nodes:
        data = mapping(node.raw.get("data"))
        began, agent = text(data.get("toolCallId")), text(node.raw.get("agentId"))
        if node.raw.get("type") == "subagent.started" and began and agent:
            session.agents[agent] = began
    waiting: dict[str | None, list[Node]] = {}
    for node in nodes:
        data, agent = mapping(node.raw.get("data")), session.agent(node.raw)
        if node.raw.get("type") == "assistant.reasoning":
            waiting.setdefault(agent, []).append(node)
        elif node.raw.get("type") == "assistant.message":
            ids = (text(call.get("toolCallId")) for call in mappings(data.get("toolRequests")))
            session.calls.update(filter(None, ids))
            before = waiting.pop(agent, [])
            said = text(data.get("reasoningText"))
            same = [n for n in before if mapping(n.raw["data"]).get("content") == said]
            session.repeated.update(n.id for n in same)
            session.thoughts[node.id] = [n for n in before if n not in same]
    return session


def _account(node: Node, record: Record) -> None:
    """Note what becomes of an event that gives no message."""
    kind = text(node.raw.get("type")) or ""
    if kind in _CONTEXT:
        record.ledger.became(node.event, "context")
    elif kind == "assistant.reasoning" or kind == "tool.execution_start":
        record.ledger.left_out(node.event, "duplicate_event")
    elif kind.startswith(_NOISE):
        record.ledger.left_out(node.event, "bookkeeping")
    else:
        record.ledger.left_out(node.event, "unknown_event")


def _messages(node: Node, session: _Session) -> Iterator[Message]:
    kind, data = node.raw.get("type"), mapping(node.raw.get("data"))
    time, key = text(node.raw.get("timestamp")), global_id(node.raw.get("id"))
    message = Message(role="system", source="harness", time=time, event=node.event, key=key)
    if kind == "system.message":
        yield replace(message, text=text(data.get("content")), source=None)
    elif kind == "user.message":
        said = content_text(data.get("content"))[0] or ""
        by_program = text(data.get("source")) not in (None, "user", "cli")
        words, around = ("", said) if by_program else split_injected(said)
        if around:
            yield replace(message, text=around)
        if words or not around:
            yield replace(message, role="user", text=words, source=None)
    elif kind == "system.notification":
        yield replace(message, text=text(data.get("content")))
    elif kind == "session.compaction_complete" and text(data.get("summaryContent")):
        yield replace(message, text=data["summaryContent"])
    elif kind == "assistant.message":
        before = session.thoughts.get(node.id, [])
        thoughts = [text(mapping(n.raw.get("data")).get("content")) for n in before]
        thoughts.append(text(data.get("reasoningText")))
        yield replace(
            message,
            role="assistant",
            text=content_text(data.get("content"))[0] or None,
            thought="\n\n".join(filter(None, thoughts)) or None,
            calls=tuple(
                make_call(call.get("name"), call.get("arguments"), call.get("toolCallId"))
                for call in mappings(data.get("toolRequests"))
            ),
            source=None,
            also=tuple((n.event, "thought") for n in before),
        )
    elif kind in ("tool.execution_start", "tool.user_requested"):
        if text(data.get("toolCallId")) not in session.calls:
            call = make_call(data.get("toolName"), data.get("arguments"), data.get("toolCallId"))
            yield replace(message, role="assistant", calls=(call,), source=None)
    elif kind == "tool.execution_complete":
        yield _result(data, message)


def _result(data: dict[str, Any], message: Message) -> Message:
    result, failure = mapping(data.get("result")), mapping(data.get("error"))
    said, media = content_text(result.get("content"))
    code = text(failure.get("code"))
    failed = data.get("success") is False
    refused = failed and code in _REFUSED
    error = (code or "failed") if failed else None
    return replace(
        message,
        role="result",
        text=said if said is not None else text(failure.get("message")),
        call_id=text(data.get("toolCallId")),
        error="rejected" if refused else error,
        source="user" if refused else "environment",
        media=media,
    )


def _trajectory(
    branch: Branch,
    nodes: list[Node],
    session: _Session,
    record: Record,
    key: str,
    about: dict[str, Any],
) -> Trajectory:
    datas = [mapping(node.raw.get("data")) for node in nodes]
    models = [m for d in datas if (m := text(d.get("model")))]
    chosen = first_text(datas, "selectedModel", "newModel")
    start = next((mapping(d.get("context")) for d in datas if "context" in d), {})
    errors = [
        said
        for node, data in zip(nodes, datas, strict=True)
        if node.raw.get("type") == "session.error" and (said := text(data.get("message")))
    ]
    return Trajectory(
        origin=replace(record.origin, key=key),
        adapter=ADAPTER.name,
        format_version=first_text(datas, "copilotVersion"),
        agent="copilot-cli",
        model=next(iter(models), chosen),
        task=branch.folded.task,
        agent_system_prompt=branch.folded.agent_system_prompt,
        exit_status=_end(nodes),
        started_at=first_text([node.raw for node in nodes], "timestamp"),
        meta=meta_text(
            branch.folded,
            session_id=first_text(datas, "sessionId"),
            cwd=text(start.get("cwd")),
            git_branch=text(start.get("branch")),
            models=list(dict.fromkeys(models)) if len(set(models)) > 1 else None,
            thinking=_thinking(nodes, session),
            output_tokens=sum(n for d in datas if (n := integer(d.get("outputTokens")))) or None,
            errors=errors or None,
            **about,
        ),
        steps=skip_first(branch.folded.steps, branch.n_shared_steps, "shared_history"),
        step_keys=distinct(branch.folded.step_keys),
    )


def _end(nodes: list[Node]) -> str | None:
    for node in reversed(nodes):
        data = mapping(node.raw.get("data"))
        if node.raw.get("type") == "session.shutdown":
            return text(data.get("shutdownType"))
        if node.raw.get("type") in ("abort", "subagent.failed", "subagent.completed"):
            return str(node.raw["type"])
    return None


def _thinking(nodes: list[Node], session: _Session) -> list[str] | None:
    states = []
    for node in nodes:
        data = mapping(node.raw.get("data"))
        hidden = data.get("reasoningOpaque") or data.get("encryptedContent")
        states += [
            "present" if message.thought else "withheld" if hidden else "none"
            for message in _messages(node, session)
            if message.role == "assistant" and (message.calls or message.text or message.thought)
        ]
    return states if set(states) - {"none"} else None


def _prompt(agent: str, nodes: list[Node]) -> str | None:
    """Return what the call that began a sub-agent asked of it."""
    for node in nodes:
        for call in mappings(mapping(node.raw.get("data")).get("toolRequests")):
            if call.get("toolCallId") == agent:
                return text(mapping(call.get("arguments")).get("prompt"))
    return None


ADAPTER = Adapter(
    name="copilot-cli",
    title="GitHub Copilot CLI sessions, with branches and sub-agents",
    domains=("swe", "terminal", "mcp", "search"),
    detect=detect,
    extract=extract,
    unit="session",
)
