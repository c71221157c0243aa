"""Toolathlon trajectories: `{"pass", "messages", "failure"}` as its site shows them, or a raw dump.

Written by the Toolathlon benchmark; no definition but its files. `messages` are OpenAI chat
messages with up to 18 parallel calls in one turn and no system prompt. `pass` is the outcome (null
when it was not judged); `failure` is what the checker printed. The raw dump (`traj_log.json`) has
the tools under `tool_calls.tools`, `config`, `status` and `key_stats` beside the messages.

Traps. A tool's content is what the agent read: a stringified MCP object
(`{"type":"text","text":"...","annotations":null}`) or bare text, and it stays as it is. Output over
100,000 characters was cut by the harness, which says so in the text: such a step is `truncated`.
`local-claim_done` ends a run. Some runs call no tool at all. There are neither times nor a model.

Smallest shape: {"pass": false, "messages": [{"role": "user", "content": "..."}, {"role":
"assistant", "content": null, "tool_calls": [...]}, {"role": "tool", "tool_call_id": "c1",
"content": "..."}]}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from trajkit.adapters import Adapter, openai_chat
from trajkit.adapters.fields import mapping, mappings, meta_text, no_action, text
from trajkit.adapters.messages import Message, fold, is_message_list, tools_text
from trajkit.model import OutcomeStatus, Record, Reject, Trajectory

_CUT = re.compile(
    r"\(The output of the tool call \(shortuuid identifier: \w+\) is too long! Only the first"
)
_OUTCOMES: dict[Any, OutcomeStatus] = {True: "success", False: "failure"}


def detect(value: Any) -> bool:
    """Return whether a value is a judged run, or a dump with its key statistics."""
    if not isinstance(value, dict) or not is_message_list(value.get("messages"), openai_chat.ROLES):
        return False
    judged = "pass" in value and (value["pass"] is None or isinstance(value["pass"], bool))
    return judged or ("key_stats" in value and "config" in value)


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the one episode of a run."""
    row = record.value
    listed = row["messages"]
    record.ledger.expect(range(len(listed)))
    folded = fold(map(_marked, openai_chat.messages(listed)), record.ledger)
    if not folded.acts:
        yield no_action(record)
        return
    config = mapping(row.get("config"))
    passed = row.get("pass")
    yield Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        domain="mcp",
        agent="toolathlon",
        task=text(config.get("task_str")) or folded.task,
        agent_system_prompt=folded.agent_system_prompt,
        action_space=tools_text(mappings(mapping(row.get("tool_calls")).get("tools"))),
        outcome_status=_OUTCOMES[passed] if isinstance(passed, bool) else "unknown",
        exit_status=text(row.get("status")),
        started_at=text(row.get("initial_run_time")),
        meta=meta_text(
            folded,
            failure=text(row.get("failure")),
            key_stats=mapping(row.get("key_stats")) or None,
            task_dir=text(config.get("task_dir")),
        ),
        steps=folded.steps,
    )


def _marked(message: Message) -> Message:
    cut = message.role == "result" and _CUT.search(message.text or "") is not None
    return replace(message, truncated=True) if cut else message


ADAPTER = Adapter(
    name="toolathlon",
    title="Toolathlon trajectories, from its site or as raw dumps",
    domains=("mcp",),
    detect=detect,
    extract=extract,
)
