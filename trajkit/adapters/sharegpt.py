"""ShareGPT conversations: rows of `{"from", "value"}` turns under `conversations`.

No standard defines the form; ShareGPT dumps began it and LLaMA-Factory, FastChat and many data sets
write it. Drift handled here: speakers `human`/`gpt` or `user`/`assistant`; `role`/`content` in
place of `from`/`value`; the list as JSON text; calls as turns from `function_call` whose value is
JSON (a call or a list), answered by `observation` or `tool`; `system` and `tools` beside the list;
LLaVA-Plus, whose `gpt` turns hold `thoughts` and `actions` and whose next `human` turn opens with
`<tool> model outputs: `, goes on with `summarize the model outputs` and so is no person's word.

Most rows of this form are talk without any action: those are rejected as `no_action`, and rows in
which nobody answers as `question_only`. The form is broad, so an adapter that knows the texts in
it (Hermes, AgentInstruct, AgentGym, CodeAct) takes its rows first.

Smallest shape: {"conversations": [{"from": "human", "value": "..."}, {"from": "function_call",
"value": "{\\"name\\": \\"f\\", \\"arguments\\": {}}"}, {"from": "observation", "value": "..."}]}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from trajkit.adapters import Adapter, openai_chat
from trajkit.adapters.chat_rows import Turn, episode, head, heard, read
from trajkit.adapters.fields import first_text, mappings, text
from trajkit.adapters.json_calls import json_calls
from trajkit.adapters.messages import Message, make_call, tools_text
from trajkit.model import Record, Reject, Trajectory

_LISTS = ("conversations", "conversation")
_OUTPUTS = re.compile(
    r"\A([\w.+-]{1,80}) model outputs: (.*?)\n\nsummarize the model outputs and answer my first"
    r" (?:question|answer): ",
    re.DOTALL,
)


def detect(value: Any) -> bool:
    """Return whether a value is a conversation of turns whose speakers are known."""
    return bool(head(value, _LISTS)) and not openai_chat.detect(value)


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the one episode of a row, or the reject of talk."""
    row, found = record.value, read(record, _LISTS)
    if not any(turn.role in ("assistant", "call", "result") for turn in found):
        record.ledger.leave_the_rest("question_only")
        yield Reject(
            origin=record.origin, reason="question_only", message="a question that nobody answers"
        )
        return
    yield from episode(
        record,
        ADAPTER.name,
        _messages(found),
        agent_system_prompt=text(row.get("system")),
        action_space=tools_text(row.get("tools")),
        model=text(row.get("model")),
        meta={
            "id": first_text([row], "id", "unique_id", "conversation_id"),
            "image": text(row.get("image")),
            "data_source": first_text([row], "data_source", "source", "dataset"),
        },
    )


def _messages(found: list[Turn]) -> Iterator[Message]:
    acted = False
    for turn in found:
        if turn.role == "call":
            yield heard(turn, text=None, calls=json_calls(turn.text))
        elif turn.role == "user" and acted and (match := _OUTPUTS.match(turn.text)):
            yield heard(turn, role="result", text=match[2], name=match[1])
        elif turn.role == "assistant":
            calls = tuple(
                make_call(action.get("API_name"), action.get("API_params"))
                for action in mappings(turn.fields.get("actions"))
            )
            acted = bool(calls)
            thought = text(turn.fields.get("thoughts"))
            yield heard(turn, thought=thought, calls=calls, media=None)
        else:
            yield heard(turn)


ADAPTER = Adapter(
    name="sharegpt",
    title="ShareGPT conversations, with function_call turns or LLaVA-Plus actions",
    domains=("mcp", "search", "terminal", "swe", "web"),
    detect=detect,
    extract=extract,
    generic=True,
)
