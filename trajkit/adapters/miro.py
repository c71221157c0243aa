"""MiroThinker and MiroFlow: task logs, and rows of MiroVerse, with `<use_mcp_tool>` in the text.

Defined by MiroFlow's task logger: `main_agent_message_history` (a list, or an object of
`system_prompt` and `message_history`), `sub_agent_message_history_sessions` (one such history a
session), `input`, `ground_truth`, `final_boxed_answer`, `final_judge_result`, `step_logs`. Drift
handled here: content as text or parts; calls as XML in the text, or as OpenAI `tool_calls` where
the model has them. MiroVerse rows are chats in the same notation.

Traps: a result is a plain user message without any mark, so the user message after a call is its
result; several results share one message, headed `Valid tool call 1 result:` and so on. No person
speaks after the task: the last user message (`Summarize the above conversation`) is the harness's.
`Tool result is omitted to save tokens.` stands for a result that was cut. A sub-agent is called
like any other tool; its session is an episode of its own with the main one as parent. `step_logs`
tell the same events for people and are left out. The judge's verdict is the outcome.

Smallest shape: {"task_id": "t", "main_agent_message_history": [{"role": "user", "content": "..."},
{"role": "assistant", "content": "<use_mcp_tool><server_name>s</server_name><tool_name>t</tool_name>
<arguments>{}</arguments></use_mcp_tool>"}, {"role": "user", "content": "..."}]}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from trajkit.adapters import Adapter, openai_chat
from trajkit.adapters.chat_rows import Turn, chat_list, from_folded, head, heard, said, turns
from trajkit.adapters.fields import first_text, mapping, mappings, no_action, text
from trajkit.adapters.messages import Call, Message, fold
from trajkit.adapters.text_calls import agent_message, mcp_tool_tags
from trajkit.model import OutcomeStatus, Record, Reject, Trajectory

_MAIN = "main_agent_message_history"
_SESSIONS = ("sub_agent_message_history_sessions", "browser_agent_message_history_sessions")
_RESULT = re.compile(r"^Valid tool call \d{1,4} result:[ ]*\n?", re.MULTILINE)
_OMITTED = "Tool result is omitted to save tokens."
_VERDICTS: dict[str, OutcomeStatus] = {"CORRECT": "success", "INCORRECT": "failure"}


def detect(value: Any) -> bool:
    """Return whether a value is a task log, or a chat row in its notation."""
    if not isinstance(value, dict):
        return False
    if isinstance(value.get(_MAIN), list | dict):
        return True
    agent = list(said(head(value), "assistant"))
    return any("<use_mcp_tool>" in words and "<server_name>" in words for words in agent)


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the episode of the main agent, then those of its sub-agents."""
    log = record.value
    if _MAIN not in log:
        yield from _session(record, "row", {"messages": chat_list(log)}, log, None)
        return
    steps = log.get("step_logs")
    for number in range(len(steps) if isinstance(steps, list) else 0):
        record.ledger.left_out(("step", number), "bookkeeping")
    acted = False
    key = record.origin.key or "$"
    main = replace(record, origin=replace(record.origin, key=key))
    for found in _session(main, "main", log[_MAIN], log, None):
        acted = isinstance(found, Trajectory)
        yield found
    sessions = next((mapping(log[name]) for name in _SESSIONS if log.get(name)), {})
    for name, history in sessions.items():
        child = replace(record, origin=replace(record.origin, key=f"{key}.{name}"))
        yield from _session(child, name, history, {}, key if acted else None)


def _session(
    record: Record, name: str, history: Any, log: dict[str, Any], parent: str | None
) -> Iterator[Trajectory | Reject]:
    told = mapping(history)
    listed = told.get("message_history") or told.get("messages") if told else history
    items = listed if isinstance(listed, list) else []
    record.ledger.expect((name, number) for number in range(len(items)))
    folded = fold(_messages(items, name, record), record.ledger)
    if not folded.acts:
        yield no_action(record)
        return
    asked = log.get("input")
    task = asked if isinstance(asked, str) else first_text([mapping(asked)], "task_description")
    env = mapping(log.get("env_info"))
    yield from_folded(
        record,
        ADAPTER.name,
        folded,
        {
            "task_id": text(log.get("task_id")),
            "session": name if parent else None,
            **{
                kept: log.get(kept)
                for kept in ("ground_truth", "final_boxed_answer", "final_judge_result")
            },
            "end_time": text(log.get("end_time")),
            "error": log.get("error") or None,
        },
        {
            "domain": "search",
            "agent": "miroflow",
            "task": task,
            "model": first_text([env], "llm_model_name", "llm_model", "model_name"),
            "agent_system_prompt": text(told.get("system_prompt")) or folded.agent_system_prompt,
            "outcome_status": _VERDICTS.get(str(log.get("final_judge_result"))),
            "exit_status": text(log.get("status")),
            "started_at": text(log.get("start_time")),
            "parent_key": parent,
        },
    )


def _messages(items: list[Any], name: str, record: Record) -> Iterator[Message]:
    """Give the messages of a session; its events are `(name, 0)` and so on."""
    if any(item.get("tool_calls") for item in mappings(items)):
        for message in openai_chat.messages(items):
            also = tuple(((name, event), what) for event, what in message.also)
            event = None if message.event is None else (name, message.event)
            yield replace(message, event=event, also=also)
        return
    calls: tuple[Call, ...] = ()
    acts = False
    for turn in turns(items):
        event = (name, turn.number)
        if turn.role is None:
            record.ledger.left_out(event, "unknown_event")
        elif turn.role == "assistant":
            message = agent_message(turn.text, mcp_tool_tags, event=event)
            calls, acts = message.calls, True
            yield message
        elif turn.role in ("user", "result") and calls:
            yield from _results(turn, calls, event)
            calls = ()
        else:
            yield heard(turn, event=event, source="harness" if acts else None)


def _results(turn: Turn, calls: tuple[Call, ...], event: tuple[str, int]) -> Iterator[Message]:
    """Give a result a call where each has its heading, else the whole message as one."""
    parts = _RESULT.split(turn.text)
    told = parts[1:] if len(parts) == len(calls) + 1 else [turn.text]
    source = None if any(call.valid for call in calls) else "harness"
    for number, words in enumerate(told):
        last = number == len(told) - 1
        yield heard(
            turn,
            role="result",
            text=words if last else words.rstrip("\n"),
            source=source,
            truncated=words.strip() == _OMITTED,
            event=event,
        )


ADAPTER = Adapter(
    name="miro",
    title="MiroThinker and MiroFlow task logs, MiroVerse rows",
    domains=("search",),
    detect=detect,
    extract=extract,
)
