"""Codex sessions: rollout files `rollout-<time>-<id>.jsonl`, and the stream of `codex exec --json`.

Written by OpenAI's Codex command line; defined by its source, not by a document. Drift read here:

- until mid 2025: a bare first line `{"id", "timestamp", "instructions"}`, then bare items of the
  Responses API, with `record_type` lines between them;
- since then an envelope `{"timestamp", "type", "payload"}` of the types `session_meta`,
  `turn_context`, `response_item`, `event_msg`, `compacted`, `world_state`;
- since 2026 finished things as `event_msg` of the type `item_completed`, and an `ordinal`;
- `codex exec --json`: `thread.started`, `turn.*`, `item.started`, `item.completed`; before that
  `{"id", "msg": {...}}` with the events inside. A call that was begun and never completed stays, as
  a call without an answer.

`response_item` is the truth and the events repeat it for the screen: what says the same is left out
as `duplicate_event`. What only an event says is kept: results of a web search, tools of MCP
servers, commands and words of sessions that hold nothing but events. An event of a command that an
item holds still gives its exit code; else the head of the shell's answer or its metadata does. The
wrapper `{"output", "metadata"}` is taken off. A tool of an MCP server that only an event tells of
is named `server__tool`.

Not a person's words: the machine's context, AGENTS.md, permissions, the summary after a compaction.
Nothing is cut at a compaction: `meta.context_windows` holds the step each window of the agent's
context begins with; the history that `compacted` puts in place of the old one is left out.
A sub-agent or fork has its own file, begun with a copy of its parent's history up to
`subagent_history_start_ordinal` (or with lines older than itself): those steps have the
`skip_reason` `copied_context`. It is found by its parent's id. `meta.thinking` tells for each turn
whether its reasoning is `present`, `withheld` (encrypted) or `none`.

Smallest shape: {"timestamp": "...", "type": "response_item", "payload": {"type": "function_call",
"name": "shell", "arguments": "{}", "call_id": "c1"}}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from trajkit.adapters import Adapter
from trajkit.adapters.codex_lines import Items, Line, as_items, envelope, is_old_header
from trajkit.adapters.content import content_text
from trajkit.adapters.fields import (
    first_text,
    integer,
    mapping,
    meta_text,
    no_action,
    text,
)
from trajkit.adapters.injected import split_injected
from trajkit.adapters.messages import Message, fold, skip_first, tools_text
from trajkit.adapters.response_items import messages as read_items
from trajkit.adapters.step_keys import distinct, global_id
from trajkit.model import Record, Reject, Trajectory

_TYPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_STREAM = ("thread.started", "item.started", "item.completed")
_OLD_EVENTS = ("task_started", "agent_message", "agent_reasoning", "exec_command_begin")
_HEAD = r"\A(?:Chunk ID: [^\n]*\n)?(?:Wall time: [^\n]*\n)?"
_EXIT_CODE = re.compile(
    rf"\AExit code: (-?\d{{1,9}})\n|{_HEAD}Process exited with code (-?\d{{1,9}})\n"
)
_STILL_RUNS = re.compile(rf"{_HEAD}Process running with session ID ")
_CUT = re.compile(
    r"\u2026 ?\d+ (?:tokens|chars|bytes) truncated ?\u2026"
    r"|\[\.\.\. omitted \d+ of \d+ lines \.\.\.\]"
)


def detect(value: Any) -> bool:
    """Return whether a value is a line of a rollout or of a printed stream."""
    if not isinstance(value, dict):
        return False
    kind = value.get("type")
    if kind in _TYPES:
        return isinstance(value.get("payload", value.get(kind)), dict)
    if kind in _STREAM:
        return isinstance(value.get("thread_id"), str) or isinstance(value.get("item"), dict)
    message = value.get("msg")
    if isinstance(message, dict) and "id" in value:
        return message.get("type") in _OLD_EVENTS
    return is_old_header(value)


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the one session of a file."""
    values = record.value if isinstance(record.value, list) else [record.value]
    record.ledger.expect(range(len(values)))
    lines = [envelope(value) for value in values]
    found = as_items(lines)
    messages = list(_messages(lines, found))
    folded = fold(messages, record.ledger)
    for number, reason in found.reasons.items():
        if reason == "context":
            record.ledger.became(number, "context")
        else:
            record.ledger.left_out(number, reason)
    if not folded.acts:
        yield no_action(record)
        return
    headers = [line.payload for line in lines if line.kind == "session_meta"]
    head = headers[0] if headers else {}
    contexts = [line.payload for line in lines if line.kind == "turn_context"]
    n_copied_lines = _copied(lines, head)
    n_copied = folded.n_steps_of(_n_before(messages, [n_copied_lines])[0])
    own = [m for m in messages if isinstance(m.event, int) and m.event >= n_copied_lines]
    task = folded.task
    if n_copied_lines:
        task = next((m.text for m in own if m.role == "user"), None)
    models = list(dict.fromkeys(model for c in contexts if (model := text(c.get("model")))))
    spawn = mapping(mapping(mapping(head.get("source")).get("subagent")).get("thread_spawn"))
    windows = [
        folded.n_steps_of(n_messages)
        for n_messages in _n_before(
            messages, [number for number, line in enumerate(lines) if line.kind == "compacted"]
        )
    ]
    system = [first_text([mapping(head.get("base_instructions"))], "text")]
    system += [text(head.get("instructions")), folded.agent_system_prompt]
    id_ = first_text([head], "id", "session_id")
    yield Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        format_version=text(head.get("cli_version")),
        agent="codex",
        model=next(iter(models), None),
        task=task,
        agent_system_prompt="\n\n".join(filter(None, system)) or None,
        action_space=_tools(head.get("dynamic_tools")),
        exit_status=_last(lines),
        parent_key=first_text([head, spawn], "parent_thread_id"),
        names=(id_,) if id_ else (),
        started_at=first_text([head, *(line.raw for line in lines)], "timestamp"),
        meta=meta_text(
            folded,
            session_id=id_,
            cwd=first_text([head, *contexts], "cwd"),
            originator=text(head.get("originator")),
            forked_from=text(head.get("forked_from_id")),
            agent_role=first_text([spawn], "agent_role", "agent_nickname"),
            models=models if len(models) > 1 else None,
            context_windows=[0, *windows] if windows else None,
            thinking=_thinking(messages, lines),
            usage=_usage(lines),
            errors=_errors(lines),
            unknown_events=dict(sorted(found.unknown.items())) or None,
            copied_lines=n_copied_lines or None,
        ),
        steps=skip_first(folded.steps, n_copied, "copied_context"),
        step_keys=distinct(folded.step_keys),
    )


def _n_before(messages: list[Message], lines: list[int]) -> list[int]:
    """Return how many messages come before those of each line; the lines ascend."""
    counts = []
    n_before = 0
    events = sorted((m.event, n) for n, m in enumerate(messages, 1) if isinstance(m.event, int))
    at = 0
    for line in lines:
        while at < len(events) and events[at][0] < line:
            n_before = max(n_before, events[at][1])
            at += 1
        counts.append(n_before)
    return counts


def _messages(lines: list[Line], found: Items) -> Iterator[Message]:
    """Give the messages of the items, with what only their lines tell."""
    started = False
    compacted = [n for n, line in enumerate(lines) if line.kind == "compacted"]
    for message in _read(found):
        number = message.event
        if not isinstance(number, int):
            yield message
            continue
        while compacted and compacted[0] < number:
            yield from _summary(compacted[0], lines)
            compacted.pop(0)
        line = lines[number]
        message = replace(message, time=text(line.raw.get("timestamp")), key=_key(line))
        if message.role == "user":
            is_agent = line.payload.get("type") == "agent_message" and line.kind == "response_item"
            if is_agent and started:
                yield replace(message, source="harness")
            else:
                yield from _heard(message, mapping(found.items[number]).get("content"))
        elif message.role == "result":
            yield _result(message, found)
        else:
            started |= message.role == "assistant"
            yield message
    for number in compacted:
        yield from _summary(number, lines)


def _read(found: Items) -> Iterator[Message]:
    begin = 0
    for end in sorted({*(number + 1 for number in found.ends), len(found.items)}):
        yield from read_items(found.items[begin:end], first_event=begin)
        begin = end


def _summary(number: int, lines: list[Line]) -> Iterator[Message]:
    said = text(lines[number].payload.get("message"))
    if said is not None:
        time = text(lines[number].raw.get("timestamp"))
        yield Message(role="system", text=said, source="harness", event=number, time=time)


def _key(line: Line) -> str | None:
    return global_id(line.payload.get("call_id")) or global_id(line.payload.get("id"))


def _heard(message: Message, content: Any) -> Iterator[Message]:
    """Give what the program put into a user message, then a person's words."""
    said: list[str] = []
    around: list[str] = []
    for part in content if isinstance(content, list) else [content]:
        part_text, media = content_text([part])
        words, rest = (part_text or "", "") if media else split_injected(part_text or "")
        said.append(words)
        around.append(rest)
    if injected := "\n".join(filter(None, around)):
        yield replace(message, role="system", text=injected, source="harness", media=None)
    words = "\n".join(filter(None, said))
    if words or not injected:
        if message.media is None:
            yield replace(message, text=words)
        else:
            # The numbers of pictures count through the whole message.
            yield replace(message, text=message.text if not injected else words)


def _result(message: Message, found: Items) -> Message:
    number = message.event if isinstance(message.event, int) else -1
    ended = found.exits.get(number) or found.exits.get(message.call_id or "") or {}
    shown = message.text or ""
    if _STILL_RUNS.match(shown) is not None:
        # A command may end long after its first answer; then its end is not this answer's.
        ended = {}
    head = _EXIT_CODE.match(shown)
    code = message.exit_code
    if code is None:
        code = integer(ended.get("exit_code"))
    if code is None and head is not None:
        code = int(head.group(1) or head.group(2))
    status = ended.get("status")
    error = "rejected" if status == "declined" else None
    if status == "failed" and code is None:
        error = "failed"
    return replace(
        message,
        exit_code=code,
        error=error or message.error,
        source="user" if error == "rejected" else message.source,
        truncated=_CUT.search(shown) is not None,
    )


def _copied(lines: list[Line], head: dict[str, Any]) -> int:
    """Return how many lines at the start are a copy of another session."""
    base = mapping(head.get("history_base"))
    ends = (
        head.get("subagent_history_start_ordinal"),
        head.get("forked_from_ordinal_exclusive"),
        base.get("end_ordinal_exclusive"),
    )
    end = next((number for n in ends if (number := integer(n)) is not None), None)
    born = text(head.get("timestamp"))
    is_sub_agent = "subagent" in mapping(head.get("source"))
    is_copy = is_sub_agent or bool(head.get("forked_from_id") or head.get("parent_thread_id"))
    n_copied = 0
    for number, line in enumerate(lines):
        if line.kind == "session_meta":
            continue
        ordinal, time = integer(line.raw.get("ordinal")), text(line.raw.get("timestamp"))
        if end is not None and ordinal is not None:
            if ordinal >= end:
                break
        elif not (is_copy and born and time and time < born):
            break
        n_copied = number + 1
    return n_copied


def _tools(value: Any) -> str | None:
    tools = value.get("tools", [value]) if isinstance(value, dict) else value
    return tools_text(tools) if isinstance(tools, list) else None


def _last(lines: list[Line]) -> str | None:
    """Return the last word on how a turn ended."""
    ends = ("task_complete", "turn_aborted", "turn.completed", "turn.failed")
    kinds = [line.payload.get("type") for line in lines if line.kind == "event_msg"]
    return next((kind for kind in reversed(kinds) if kind in ends), None)


def _thinking(messages: list[Message], lines: list[Line]) -> list[str] | None:
    states = []
    for message in messages:
        if message.role != "assistant" or not (message.calls or message.text or message.thought):
            continue
        events = [message.event, *(event for event, _ in message.also)]
        kinds = [lines[e].payload.get("type") for e in events if isinstance(e, int)]
        state = "withheld" if "reasoning" in kinds else "none"
        states.append("present" if message.thought else state)
    return states if set(states) - {"none"} else None


def _usage(lines: list[Line]) -> dict[str, Any] | None:
    """Return the last count of tokens; it covers the whole session."""
    for line in reversed(lines):
        payload = line.payload
        if payload.get("type") == "token_count":
            usage = mapping(payload.get("info")).get("total_token_usage")
        else:
            usage = payload.get("usage") if payload.get("type") == "turn.completed" else None
        if isinstance(usage, dict):
            return usage
    return None


def _errors(lines: list[Line]) -> list[str] | None:
    payloads = [line.payload for line in lines if line.payload.get("type") == "error"]
    return [said for p in payloads if (said := text(p.get("message")))] or None


ADAPTER = Adapter(
    name="codex",
    title="Codex rollouts of every generation, and the stream of `codex exec --json`",
    domains=("swe", "terminal", "mcp", "search"),
    detect=detect,
    extract=extract,
    unit="session",
)
