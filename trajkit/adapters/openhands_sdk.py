"""OpenHands V1, the software-agent-sdk: a conversation folder, its events as JSON lines, or rows.

Defined by the SDK's `sdk/event` package. Shapes: `base_state.json` beside
`events/event-<n>-<id>.json` (read together); one event per line; a list of events, also inside
`history`, `events` or `items` of an object. Event classes are told by `kind`.

Drift handled here: tool calls flat or in `function`; observations with `content` parts or with
`output` text; exit codes in the observation or in its `metadata`; `extended_content`;
`ACPToolCallEvent`, which is written once when a call starts and once when it ends, with the answer
inside; `parent_id`, by which events make a tree whose every way with actions is a trajectory. An
event class nobody knows is an `unknown_event`.

Choices: calls of one `llm_response_id` are one turn. An action that is null could not be run: its
call is not valid. A rejection is the person's, or the harness's when a hook gave it; an agent error
is the harness's. A condensation loses nothing: its summary is a step of the harness, and
`meta.condensations` says which steps the agent no longer saw. What the harness added to a person's
message is its own. An observation whose action is missing is kept as a step without action. State
updates give model, costs and the last status; other notes are `bookkeeping`. Event ids are the step
keys, the id of the conversation is the name of the run.

Smallest shape: {"kind": "ActionEvent", "id": "e1", "source": "agent", "thought": [], "action":
{"kind": "TerminalAction", "command": "ls"}, "tool_name": "terminal", "tool_call_id": "c1",
"tool_call": {"id": "c1", "name": "terminal", "arguments": "{\\"command\\": \\"ls\\"}"},
"llm_response_id": "r1"}, then {"kind": "ObservationEvent", "id": "e2", "source": "environment",
"action_id": "e1", "tool_call_id": "c1", "observation": {"content": [{"type": "text", "text":
"a.py"}], "is_error": false, "exit_code": 0}}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from trajkit.adapters import Adapter
from trajkit.adapters.content import content_text
from trajkit.adapters.event_tree import Branch, Node, branches, link
from trajkit.adapters.fields import first_text, integer, mapping, mappings, meta_text, text
from trajkit.adapters.messages import Call, Message, id_text, make_call, skip_first, tools_text
from trajkit.adapters.openhands_stream import Condensations, by_reply, is_cut
from trajkit.model import Bundle, Origin, Record, Reject, Trajectory, to_json_text

_FILE = re.compile(r"(.+)/(?:base_state\.json|events/event-\d+-[^/]+\.json)")
_LISTS = ("history", "events", "items")
_SPEAKS = {
    "SystemPromptEvent", "MessageEvent", "ActionEvent", "ObservationEvent", "AgentErrorEvent",
    "UserRejectObservation", "Condensation", "CondensationSummaryEvent", "ACPToolCallEvent",
}  # fmt: skip
_NOTES = {
    "CondensationRequest", "ConversationStateUpdateEvent", "ConversationErrorEvent", "PauseEvent",
    "TokenEvent", "LLMCompletionLogEvent", "HookExecutionEvent", "InterruptEvent",
    "StreamingDeltaEvent", "ServerErrorEvent",
}  # fmt: skip
_STATE = {"agent", "workspace", "execution_status"}


def bundle(path: str) -> str | None:
    """Return the folder of a conversation that a file belongs to."""
    match = _FILE.fullmatch(path)
    return match[1] if match else None


def detect(value: Any) -> bool:
    """Return whether a value is an event, a list of events, a conversation or its base state."""
    if isinstance(value, Bundle):
        return any(detect(value.files[name]) for name in sorted(value.files)[:3])
    if isinstance(value, list):
        return sum(map(_is_event, value[:20])) * 2 > len(value[:20])
    if not isinstance(value, dict):
        return False
    lists = (value.get(key) for key in _LISTS)
    return (
        _is_event(value)
        or _is_state(value)
        or any(isinstance(one, list) and one and detect(one) for one in lists)
    )


def _is_event(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
        return False
    return value["kind"] in _SPEAKS | _NOTES and ("source" in value or "id" in value)


def _is_state(value: dict[str, Any]) -> bool:
    return value.keys() >= _STATE and isinstance(value["agent"], dict)


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the live way through each conversation, then the ways that were left."""
    for number, (row, lines) in enumerate(_conversations(record.value)):
        named: list[int | tuple[int, int]] = [(number, i) for i in range(len(lines))]
        if lines is record.value:
            named = list(range(len(lines)))
        elif isinstance(record.value, list):
            for i in range(len(record.value)):
                record.ledger.became(i, "context")
        record.ledger.expect(named)
        reader = _Reader({})
        events = []
        states = []
        for event, raw in zip(named, lines, strict=True):
            if _is_state(mapping(raw)):
                row = raw | row
                states.append(event)
            elif not isinstance(raw, dict) or str(raw.get("kind")) not in _SPEAKS:
                reader.note(raw)
                known = str(mapping(raw).get("kind")) in _NOTES
                record.ledger.left_out(event, "bookkeeping" if known else "unknown_event")
            else:
                events.append((event, raw))
        nodes = link(events, record.ledger, id_key="id", parent_key="parent_id")
        reader.gather(nodes)
        key = record.origin.key or "conversation"
        key = f"{key}[{number}]" if number else key
        n_found = 0
        for branch in branches(nodes, reader.messages, record.ledger):
            place = record.origin
            if number or n_found:
                place = replace(place, key=f"{key}~{n_found}" if n_found else key)
            yield _trajectory(branch, reader, row, place)
            n_found += 1
        for state in states:
            record.ledger.became(state, "context")
        if not n_found:
            reason = "no_action" if events else "metadata_only"
            message = "no event holds an action of the agent"
            yield Reject(origin=record.origin, reason=reason, message=message)


def _conversations(value: Any) -> Iterator[tuple[dict[str, Any], list[Any]]]:
    """Give the events of each conversation with the object that holds them."""
    if isinstance(value, Bundle):
        yield {}, [value.files[name] for name in sorted(value.files, key=_order)]
        return
    values = value if isinstance(value, list) else [value]
    rows = [one for one in values if isinstance(one, dict) and not _is_event(one)]
    rows = [row for row in rows if any(isinstance(row.get(key), list) for key in _LISTS)]
    for row in rows:
        yield row, next(row[key] for key in _LISTS if isinstance(row.get(key), list))
    if not rows:
        yield {}, values


def _order(name: str) -> tuple[int, str]:
    """Return the place of a file: the base state first, then events by their number."""
    match = re.search(r"event-(\d+)-", name)
    return int(match[1]) if match else -1, name


@dataclass(slots=True)
class _Reader:
    """Reads events as messages, and keeps what they say of the whole."""

    links: dict[str, str]
    turns: dict[str, list[Node]] = field(default_factory=dict)
    tools: Any = None
    model: str | None = None
    status: str | None = None
    error: dict[str, Any] | None = None
    stats: Any = None
    context: list[str] = field(default_factory=list)
    condensed: Condensations = field(default_factory=Condensations)

    def note(self, raw: Any) -> None:
        """Keep what a state update or error says of the whole conversation."""
        raw = mapping(raw)
        if raw.get("kind") == "ConversationErrorEvent":
            self.error = {"code": raw.get("code"), "detail": raw.get("detail")}
        elif raw.get("key") == "execution_status":
            self.status = text(raw.get("value")) or self.status
        elif raw.get("key") == "stats":
            usage = mapping(mapping(raw.get("value")).get("usage_to_metrics"))
            metrics = mapping(usage.get("default"))
            self.model = text(metrics.get("model_name")) or self.model
            self.stats = {
                name: metrics.get(name) for name in ("accumulated_cost", "accumulated_token_usage")
            }

    def gather(self, nodes: list[Node]) -> None:
        """Put the calls of one reply of the model together; ACP calls are by themselves."""
        acting = [node for node in nodes if node.raw["kind"] == "ActionEvent"]
        known = {node.id: node for node in nodes}
        for node in acting:
            self.links[node.id] = id_text(node.raw.get("tool_call_id")) or node.id
        replies = [(node.id, text(node.raw.get("llm_response_id"))) for node in acting]
        for ids in by_reply(replies):
            self.turns[ids[0]] = [known[id_] for id_ in ids]
        started: dict[Any, Node] = {}
        for node in nodes:
            if node.raw["kind"] == "ACPToolCallEvent":
                first = started.setdefault(id_text(node.raw.get("tool_call_id")), node)
                self.turns.setdefault(first.id, []).append(node)

    def messages(self, node: Node) -> Iterator[Message]:
        """Give the messages of one event."""
        raw, kind = node.raw, node.raw["kind"]
        if kind == "ActionEvent":
            if node.id in self.turns:
                yield self._actions(self.turns[node.id])
        elif kind == "ACPToolCallEvent":
            if node.id in self.turns:
                yield from self._acp(self.turns[node.id])
        elif kind == "SystemPromptEvent":
            self.tools = self.tools or raw.get("tools")
            prompt = content_text(raw.get("system_prompt"))[0]
            more = content_text(raw.get("dynamic_context"))[0]
            said = "\n\n".join(part for part in (prompt, more) if part)
            yield Message(role="system", text=said, event=node.event, key=node.id)
        elif kind == "MessageEvent":
            yield from self._message(node)
        elif kind in ("Condensation", "CondensationSummaryEvent"):
            summary = text(raw.get("summary"))
            if kind == "Condensation":
                ids = raw.get("forgotten_event_ids")
                self.condensed.add(node.id, ids if isinstance(ids, list) else [], summary)
            yield self._harness(node, summary, also=((node.event, "context"),))
        else:
            yield from self._result(node)

    def _harness(self, node: Node, said: str | None, **fields: Any) -> Message:
        time = text(node.raw.get("timestamp"))
        return Message(role="system", text=said, source="harness", time=time, key=node.id, **fields)

    def _actions(self, nodes: list[Node]) -> Message:
        first, *others = nodes
        raw = first.raw
        said = next((t for node in nodes if (t := content_text(node.raw.get("thought"))[0])), None)
        thought = text(raw.get("reasoning_content")) or "\n\n".join(
            block["thinking"]
            for block in mappings(raw.get("thinking_blocks"))
            if text(block.get("thinking"))
        )
        self.condensed.calls[first.id] = [node.id for node in nodes]
        return Message(
            role="assistant",
            text=said,
            # Some models write the same thought into both places.
            thought=None if said and thought.strip() in said else thought or None,
            calls=tuple(_call(node.raw) for node in nodes),
            time=text(raw.get("timestamp")),
            event=first.event,
            also=tuple((node.event, "action") for node in others),
            key=first.id,
        )

    def _acp(self, nodes: list[Node]) -> Iterator[Message]:
        """Give a call that another agent program ran, and its answer."""
        first, last = nodes[0], nodes[-1]
        call_id = id_text(first.raw.get("tool_call_id"))
        given: Any = next(
            (n.raw["raw_input"] for n in reversed(nodes) if n.raw.get("raw_input")), {}
        )
        call = make_call(last.raw.get("tool_kind") or last.raw.get("title"), given, call_id)
        also = tuple((node.event, "observation") for node in nodes[1:])
        time = text(first.raw.get("timestamp"))
        yield Message(
            role="assistant",
            calls=(call,),
            time=time,
            event=first.event,
            also=also,
            key=first.id,
        )
        answer = last.raw.get("raw_output")
        answer = last.raw.get("content") if answer is None else answer
        if answer is not None:
            yield Message(
                role="result",
                text=answer if isinstance(answer, str) else to_json_text(answer),
                call_id=call_id,
                error="error" if last.raw.get("is_error") is True else None,
                time=text(last.raw.get("timestamp")),
            )

    def _message(self, node: Node) -> Iterator[Message]:
        raw, said = node.raw, mapping(node.raw.get("llm_message"))
        words, media = content_text(said.get("content"))
        speaker = raw.get("source") or said.get("role")
        time = text(raw.get("timestamp"))
        if speaker in ("agent", "assistant"):
            thought = text(said.get("reasoning_content"))
            yield Message(
                role="assistant", text=words, thought=thought, time=time, event=node.event,
                key=node.id,
            )  # fmt: skip
        elif speaker == "user":
            yield Message(
                role="user", text=words, media=media, time=time, event=node.event, key=node.id
            )
        else:
            yield self._harness(node, words, event=node.event)
        if more := content_text(raw.get("extended_content"))[0]:
            self.context.append(more)
            yield self._harness(node, more)

    def _result(self, node: Node) -> Iterator[Message]:
        raw, kind = node.raw, node.raw["kind"]
        answer = mapping(raw.get("observation"))
        code = None
        media = error = None
        if kind == "AgentErrorEvent":
            said = error = text(raw.get("error"))
        elif kind == "UserRejectObservation":
            said = content_text(raw.get("rejection_reason"))[0]
        else:
            content = answer.get("content")
            said, media = content_text(answer.get("output") if content is None else content)
            error = "error" if answer.get("is_error") is True else None
            code = integer(answer.get("exit_code"))
            ended = integer(mapping(answer.get("metadata")).get("exit_code"))
            # The harness writes -1 where the command has not ended.
            code = ended if code is None and ended is not None and ended >= 0 else code
            error = "timeout" if error and answer.get("timeout") is True else error
        by_person = kind == "UserRejectObservation" and raw.get("rejection_source") != "hook"
        own = kind != "ObservationEvent"
        yield Message(
            role="result",
            text=said,
            call_id=self.links.get(str(raw.get("action_id"))) or id_text(raw.get("tool_call_id")),
            name=text(raw.get("tool_name")),
            error=error,
            exit_code=code,
            truncated=is_cut(said),
            source="user" if by_person else "harness" if own else None,
            media=media,
            time=text(raw.get("timestamp")),
            event=node.event,
            key=node.id,
        )
        if more := content_text(raw.get("extended_content"))[0]:
            yield self._harness(node, more)


def _call(raw: dict[str, Any]) -> Call:
    call = mapping(raw.get("tool_call"))
    function = call.get("function") if isinstance(call.get("function"), dict) else call
    name = text(mapping(function).get("name")) or raw.get("tool_name")
    call_id = id_text(raw.get("tool_call_id")) or id_text(raw.get("id"))
    if "arguments" in mapping(function):
        made = make_call(name, mapping(function)["arguments"], call_id)
    else:
        given = {k: v for k, v in mapping(raw.get("action")).items() if k != "kind"}
        made = make_call(name, given, call_id)
    return replace(made, valid=made.valid and raw.get("action") is not None)


def _trajectory(branch: Branch, reader: _Reader, row: dict[str, Any], origin: Origin) -> Trajectory:
    agent = mapping(row.get("agent"))
    name = text(row.get("id")) if _is_state(row) else None
    n_shared = branch.n_shared_steps
    tested = mapping(row.get("test_result"))
    resolved = mapping(tested.get("report")).get("resolved", tested.get("resolved"))
    resolved = resolved if isinstance(resolved, bool) else None
    return Trajectory(
        origin=origin,
        adapter=ADAPTER.name,
        agent="OpenHands",
        model=text(mapping(agent.get("llm")).get("model")) or reader.model,
        task=branch.folded.task or text(row.get("instruction")),
        agent_system_prompt=branch.folded.agent_system_prompt,
        action_space=tools_text(reader.tools),
        outcome_status="unknown" if resolved is None else "success" if resolved else "failure",
        reward=None if resolved is None else float(resolved),
        exit_status=reader.status or text(row.get("execution_status")),
        names=(name,) if name and not n_shared else (),
        step_keys=branch.folded.step_keys,
        started_at=first_text((node.raw for node in branch.nodes), "timestamp"),
        meta=meta_text(
            branch.folded,
            conversation_id=name,
            instance_id=row.get("instance_id"),
            working_dir=mapping(row.get("workspace")).get("working_dir"),
            context=reader.context or None,
            condensations=reader.condensed.meta(branch.folded),
            error=reader.error,
            stats=reader.stats,
            n_shared_steps=n_shared or None,
        ),
        steps=skip_first(branch.folded.steps, n_shared, "shared_history"),
    )


ADAPTER = Adapter(
    name="openhands-sdk",
    title="OpenHands V1 (software-agent-sdk) conversations and event lines",
    domains=("swe", "terminal", "web", "mcp"),
    detect=detect,
    extract=extract,
    unit="session",
    bundle=bundle,
)
