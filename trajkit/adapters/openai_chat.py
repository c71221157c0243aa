"""OpenAI chat messages: `{"messages": [...], "tools": [...]}` rows, a bare message list, one reply.

Defined by the Chat Completions API. Read here: `tool_calls` answered by `tool` messages, and the
older `function_call` answered by `function` messages; content as text or parts; vendors'
`reasoning_content` and `reasoning`; tools as a list or JSON text; a reply on its own (`{"choices":
[...]}` or `{"message", "finish_reason"}`). In rows of data sets the list may stand under
`conversations`, `trajectory` or `traj`, or in two halves under `prompt` and `completion`; it may be
JSON text, and so may each `tool_calls`; keys that a table filled with null count as absent, but
nulls inside arguments stay as logged.

Traps. In rows with `function_call` (Toucan) one turn stands on several assistant messages: those
before the next answer are read as parallel calls of one turn, and answers without ids go to them in
order. A system message of the form `tool_declare` holds the tools. Where no message has a call of
its own, calls written into the text as `<function=...>` or `<tool_call>` count, and user messages
that begin with `EXECUTION RESULT of [`, `OBSERVATION:` or `<tool_response>` are their answers,
without that label (rows of SWE-smith's and Hermes' form have adapters of their own). A reply that
was cut off (`finish_reason` is `length`, or every allowed token was used) makes its calls invalid,
whole as they may look. Formats that wrap such messages in more than a row have adapters of their
own, which come before this one.

Smallest shape: {"messages": [{"role": "user", "content": "..."}, {"role": "assistant",
"tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}]}, {"role": "tool",
"tool_call_id": "c1", "content": "..."}]}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import orjson

from trajkit.adapters import Adapter
from trajkit.adapters.content import content_text
from trajkit.adapters.fields import mapping, mappings, quantity, text
from trajkit.adapters.messages import (
    Call,
    Message,
    fold,
    id_text,
    is_message_list,
    make_call,
    tools_text,
)
from trajkit.adapters.text_calls import (
    agent_message,
    function_tags,
    results,
    tool_call_tags,
)
from trajkit.model import OutcomeStatus, Record, Reject, Trajectory, to_json_text

ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_ACTS = ("assistant", "tool", "function")
_ROW_KEYS = ("messages", "conversations", "trajectory", "traj")
_TASK_KEYS = ("task", "instruction", "question", "problem_statement")
_TOOL_KEYS = ("tools", "functions", "available_tools")
_CALL_KEYS = ("tool_calls", "function_call", "tool_call_id")
_KNOWN_KEYS = {*_ROW_KEYS, *_TASK_KEYS, *_TOOL_KEYS, "model", "agent", "message", "choices"}
_KNOWN_KEYS |= {"response", "raw_response", "prompt", "completion"}
_BLOCKS = ("tool_use", "tool_result", "server_tool_use", "mcp_tool_use", "thinking")
_DECLARED = re.compile(r"<\|im_system\|>tool_declare<\|im_middle\|>(.*)<\|im_end\|>\s*", re.DOTALL)
_LABEL = re.compile(r"(?:EXECUTION RESULT of \[[^\]\n]{1,200}\]|OBSERVATION):(?: |\r?\n|\Z)")
_MAX_META_CHARS = 2000


def detect(value: Any) -> bool:
    """Return whether a value is a chat row, a bare chat or a reply."""
    listed = message_list(value)
    if not is_message_list(listed, ROLES):
        return False
    if not any(item["role"] in _ACTS for item in listed) or any("extra" in i for i in listed):
        return False
    structured = any(item.get(key) for item in listed for key in _CALL_KEYS)
    if isinstance(value, dict) and "messages" not in value and not structured:
        # Plain talk under another key is the business of other formats.
        return False
    return not any(
        part.get("type") in _BLOCKS for item in listed for part in mappings(item.get("content"))
    )


def message_list(value: Any) -> Any:
    """Return the message list of a row, a bare chat or a reply; anything else has none."""
    if not isinstance(value, dict):
        return _parsed(value) if isinstance(value, list) else None
    for key in _ROW_KEYS:
        if value.get(key):
            return _parsed(value[key])
    halves = [_parsed(value.get(key)) for key in ("prompt", "completion")]
    if all(isinstance(half, list) for half in halves):
        return [*halves[0], *halves[1]]
    if isinstance(value.get("message"), dict) and "finish_reason" in value:
        return [value["message"] | {"finish_reason": value["finish_reason"]} | _limits(value)]
    choices = value.get("choices")
    if isinstance(choices, list) and len(choices) == 1 and isinstance(choices[0], dict):
        return message_list(choices[0] | _limits(value))
    return None


def _limits(reply: dict[str, Any]) -> dict[str, Any]:
    return {key: reply[key] for key in ("usage", "max_tokens") if key in reply}


def _parsed(value: Any) -> Any:
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            return orjson.loads(value)
        except ValueError:
            return None
    return value


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the one episode of a row, or the reason why it is none."""
    listed = message_list(record.value)
    row = mapping(record.value)
    record.ledger.expect(range(len(listed)))
    folded = fold(messages(listed), record.ledger)
    if not folded.acts:
        yield Reject(
            origin=record.origin,
            reason="no_action",
            message="a conversation without any tool call",
            pointer="$.messages",
        )
        return
    task = next((said for key in _TASK_KEYS if (said := text(row.get(key))) and said.strip()), None)
    meta = {key: item for key, item in row.items() if key not in _KNOWN_KEYS and _is_small(item)}
    tools = next((row[key] for key in _TOOL_KEYS if row.get(key)), None)
    yield Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        agent=text(row.get("agent")),
        model=text(row.get("model")),
        task=task or folded.task,
        agent_system_prompt=folded.agent_system_prompt,
        action_space=tools_text(tools) or _declared(folded.agent_system_prompt),
        outcome_status=_outcome(row),
        reward=quantity(row.get("reward")),
        meta=to_json_text(meta | {"linked_by": folded.linked_by}),
        steps=folded.steps,
    )


def _is_small(value: Any) -> bool:
    """Return whether a column is a fact about the row and not one more text of it."""
    return value is not None and len(to_json_text(value)) <= _MAX_META_CHARS


def _outcome(row: dict[str, Any]) -> OutcomeStatus:
    keys = ("outcome", "resolved", "success")
    said = next((row[key] for key in keys if row.get(key) is not None), None)
    if said in (True, "success"):
        return "success"
    return "failure" if said in (False, "failure") else "unknown"


def _declared(system: str | None) -> str | None:
    """Return the tools that a system message of the Kimi template declares."""
    match = _DECLARED.fullmatch(system or "")
    return tools_text(match[1].strip()) if match else None


def messages(listed: list[Any], *, first_event: int = 0) -> Iterator[Message]:
    """Give the messages of a chat; several assistant messages that share a turn are one."""
    structured = any(item.get(key) for item in mappings(listed) for key in _CALL_KEYS)
    run: list[Message] = []
    for event, raw in enumerate(listed, first_event):
        if not isinstance(raw, dict):
            yield Message(role="system", also=((event, "unknown_event"),))
            continue
        is_agent = raw.get("role") == "assistant"
        if is_agent and not raw.get("tool_calls"):
            message = _agent(raw, event) if structured else _spoken(raw, event)
            if run and run[-1].calls and not message.calls:
                yield _joined(run)
                run = []
            run.append(message)
            continue
        yield from _ended(run)
        run = []
        if is_agent:
            yield _agent(raw, event)
        else:
            yield from _other(raw, event, labels=not structured)
    yield from _ended(run)


def _ended(run: list[Message]) -> Iterator[Message]:
    """Give a run of assistant messages: one turn where it ends in calls, else each by itself."""
    if run and run[-1].calls:
        yield _joined(run)
    else:
        yield from run


def _joined(run: list[Message]) -> Message:
    def joined(parts: Iterator[str | None]) -> str | None:
        return "\n\n".join(part for part in parts if part) or None

    others = tuple(
        (m.event, "action" if m.calls else "thought" if m.text or m.thought else "empty_message")
        for m in run[:-1]
    )
    return replace(
        run[-1],
        text=joined(m.text for m in run),
        thought=joined(m.thought for m in run),
        calls=tuple(call for message in run for call in message.calls),
        also=others,
    )


def _agent(raw: dict[str, Any], event: int) -> Message:
    said, media = content_text(raw.get("content"))
    if not said:
        said = text(raw.get("refusal"))
    listed = _parsed(raw.get("tool_calls"))
    calls = [
        _call(call.get("function") or call, call.get("id"))
        for call in (listed if isinstance(listed, list) else [])
        if isinstance(call, dict)
    ]
    if raw.get("function_call"):
        calls.append(_call(raw["function_call"], None))
    if _is_cut(raw):
        calls = [replace(call, valid=False) for call in calls]
    return Message(
        role="assistant",
        text=said,
        thought=_thought(raw),
        calls=tuple(calls),
        media=media,
        event=event,
    )


def _thought(raw: dict[str, Any]) -> str | None:
    return text(raw.get("reasoning_content")) or text(raw.get("reasoning"))


def _spoken(raw: dict[str, Any], event: int) -> Message:
    """Return a message whose calls, if any, stand in its text."""
    said, media = content_text(raw.get("content"))
    if said is None or ("<function=" not in said and "<tool_call>" not in said):
        return _agent(raw, event)
    grammars = (tool_call_tags, function_tags)
    message = agent_message(said, *grammars, event=event, media=media)
    calls = message.calls
    if _is_cut(raw):
        calls = tuple(replace(call, valid=False) for call in calls)
    return replace(message, calls=calls, thought=message.thought or _thought(raw))


def _other(raw: dict[str, Any], event: int, *, labels: bool) -> Iterator[Message]:
    said, media = content_text(raw.get("content"))
    if raw.get("role") in ("tool", "function"):
        yield Message(
            role="result",
            text=said,
            call_id=id_text(raw.get("tool_call_id")),
            name=text(raw.get("name")),
            media=media,
            event=event,
        )
        return
    if raw.get("role") == "user" and labels and said:
        answers = results(said)
        if (label := _LABEL.match(said)) is not None:
            answers = [said[label.end() :]]
        if answers is not None:
            for answer in answers:
                yield Message(role="result", text=answer, media=media, event=event)
            return
    speaker = "user" if raw.get("role") == "user" else "system"
    yield Message(role=speaker, text=said, media=media, event=event)  # type: ignore[arg-type]


def _call(function: Any, call_id: Any) -> Call:
    named = mapping(function)
    return make_call(named.get("name"), named.get("arguments"), call_id)


def _is_cut(raw: dict[str, Any]) -> bool:
    """Return whether the reply ended because no more tokens were allowed."""
    used, allowed = mapping(raw.get("usage")).get("completion_tokens"), raw.get("max_tokens")
    return raw.get("finish_reason") == "length" or (type(used) is int and used == allowed)


ADAPTER = Adapter(
    name="openai-chat",
    title="OpenAI chat messages, with tool_calls, function_call or calls in the text; Toucan",
    domains=("mcp", "search", "terminal", "swe", "web", "os"),
    detect=detect,
    extract=extract,
    generic=True,
)
