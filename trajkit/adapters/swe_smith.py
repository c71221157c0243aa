"""SWE-smith and OpenHands chats: calls as `<function=...>` XML in the text, answers as user text.

Defined by SWE-agent's `xml` tool format (SWE-smith's trajectories) and by OpenHands' prompt mode
for models without function calling (SWE-Gym, SWE-Play). Drift handled here: SWE-smith answers with
`OBSERVATION:`, OpenHands with `EXECUTION RESULT of [tool]:`; those labels are the harness's and not
part of the observation. The closing tag may be missing, since OpenHands stops the model there.
Messages may be JSON text.

Traps: values of parameters are text, numbers too. OpenHands puts an invented example before the
task, between marks; only what stands between the `NEW TASK DESCRIPTION` marks is the task. Line
ends of a terminal (`\\r\\n`) stay. `resolved` is a verdict of the tests, told beside the messages.

Smallest shape: {"instance_id": "a", "messages": [{"role": "user", "content": "..."}, {"role":
"assistant", "content": "<function=bash>\\n<parameter=command>ls</parameter>\\n</function>"},
{"role": "user", "content": "OBSERVATION:\\n..."}]}
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from trajkit.adapters import Adapter
from trajkit.adapters.chat_rows import Turn, chat_list, episode, head, heard, read, said
from trajkit.adapters.fields import first_text, mappings, text
from trajkit.adapters.messages import Message
from trajkit.adapters.text_calls import agent_message, function_tags
from trajkit.model import OutcomeStatus, Record, Reject, Trajectory

_LABEL = re.compile(
    r"\A(?:OBSERVATION:(?:\r?\n| |\Z)|EXECUTION RESULT of \[([^\]\n]{1,200})\]:(?:\r?\n| |\Z))"
)
_TASK = re.compile(
    r"-{5,} NEW TASK DESCRIPTION -{5,}\n(.*?)\n-{5,} END OF NEW TASK DESCRIPTION -{5,}", re.DOTALL
)
_LOGS = ("response", "kwargs", "cost")


def detect(value: Any) -> bool:
    """Return whether a value is a row whose agent calls in XML and is answered under a label."""
    found = head(value)
    return (
        any("<function=" in words for words in said(found, "assistant"))
        and any(_LABEL.match(words) for words in said(found, "user"))
        and not any(key in value for key in _LOGS)
        and not any(item.get("tool_calls") for item in mappings(chat_list(value)))
    )


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the one episode of a row."""
    row, found = record.value, read(record)
    marked = _TASK.search(next(iter(said(found, "user")), ""))
    yield from episode(
        record,
        ADAPTER.name,
        _messages(found),
        domain="swe",
        model=text(row.get("model")),
        task=marked[1] if marked else None,
        outcome_status=_outcome(row.get("resolved")),
        exit_status=text(row.get("exit_status")),
        meta={
            "id": first_text([row], "traj_id", "id"),
            "instance_id": text(row.get("instance_id")),
            "source": text(row.get("source")),
            "patch": first_text([row], "patch", "generated_patch"),
        },
    )


def _messages(found: Iterable[Turn]) -> Iterator[Message]:
    failed = waits = acts = False
    for turn in found:
        if turn.role == "assistant":
            message = agent_message(turn.text, function_tags, event=turn.number)
            waits, acts = bool(message.calls), True
            failed = waits and not any(call.valid for call in message.calls)
            yield message
            continue
        label = _LABEL.match(turn.text) if turn.role in ("user", "result") else None
        if label is not None or (turn.role == "user" and failed):
            yield heard(
                turn,
                role="result" if waits else "user",
                text=turn.text[label.end() :] if label else turn.text,
                name=label[1] if label else None,
                source="harness" if failed else "environment",
            )
        else:
            # Runs are unattended: whoever speaks after the start is the harness.
            yield heard(turn, source="harness" if acts else None)
        failed = False


def _outcome(resolved: Any) -> OutcomeStatus | None:
    if isinstance(resolved, str):
        resolved = {"true": True, "false": False}.get(resolved.lower())
    return None if resolved is None else "success" if resolved else "failure"


ADAPTER = Adapter(
    name="swe-smith",
    title="SWE-smith and OpenHands chats with <function=...> in the text",
    domains=("swe",),
    detect=detect,
    extract=extract,
)
