"""Hermes function-calling chats: `<tool_call>` in the agent's text, `<tool_response>` as answer.

Defined by the Hermes prompt format of NousResearch; Qwen's chat template and many data sets write
the same. Drift handled here: `from`/`value` turns under `conversations` or `role`/`content` turns
under `messages`; results in turns from `tool` or inside `user` turns; several calls in one turn,
each in a tag of its own or as a list, answered by as many `<tool_response>` blocks; calls as JSON,
as Python literals (older rows) or as `<function=...>` (Qwen3-Coder); tools in a `tools` column or
between `<tools>` tags of the system prompt.

Traps: a call inside `<think>` is only thought of. What cannot be parsed is a call that is not
valid, and the answer to it is the harness's. Words behind the last `</tool_response>` are no
result but the harness's or a person's.

Smallest shape: {"conversations": [{"from": "human", "value": "..."}, {"from": "gpt", "value":
"<tool_call>{...}</tool_call>"}, {"from": "tool", "value": "<tool_response>...</tool_response>"}]}
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from trajkit.adapters import Adapter
from trajkit.adapters.chat_rows import Turn, chat_list, episode, head, heard, read, said
from trajkit.adapters.fields import text
from trajkit.adapters.messages import Message, tools_text
from trajkit.adapters.text_calls import agent_message, blocks, split_results, tool_call_tags
from trajkit.model import ObservationSource, Record, Reject, Trajectory, to_json_text

_NOTE = re.compile(r"You have now reached the maximum context length")


def detect(value: Any) -> bool:
    """Return whether a value is a chat row in which an agent calls between tags.

    Rows of search agents have an adapter of their own, and so have logs of one model call and
    traces of Harbor trials.
    """
    return (
        isinstance(value, dict)
        and not is_search_row(value)
        and not {"response", "kwargs"} <= value.keys()
        and "trial_name" not in value
        and is_tagged(value)
    )


def is_search_row(value: dict[str, Any]) -> bool:
    """Return whether a row has the columns of WebDancer's data or of DeepResearch's inference."""
    asked = "question" in value and bool({"prediction", "termination"} & value.keys())
    return asked or {"tag", "functions"} <= value.keys()


def is_tagged(value: Any, *names: str) -> bool:
    """Return whether the calls of a chat row stand between tags, and nowhere else."""
    listed = chat_list(value, names) if names else chat_list(value)
    first = head(value, names) if names else head(value)
    structured = any(isinstance(item, dict) and item.get("tool_calls") for item in listed or [])
    return not structured and any("<tool_call>" in words for words in said(first, "assistant"))


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the one episode of a row, or the reject of talk."""
    row, found = record.value, read(record)
    yield from episode(
        record,
        ADAPTER.name,
        tagged_messages(found),
        action_space=tools_text(row.get("tools")) or declared_tools(said(found, "system", "user")),
        model=text(row.get("model")),
        meta={
            key: text(row.get(key))
            for key in ("id", "category", "subcategory", "task", "source", "schema")
        },
    )


def tagged_messages(found: Iterable[Turn]) -> Iterator[Message]:
    """Give turns as messages: calls from the agent's tags, results from the others'.

    Whatever answers a call that could not be parsed is the harness's.
    """
    failed = False
    for turn in found:
        if turn.role == "assistant":
            message = agent_message(turn.text, tool_call_tags, event=turn.number)
            failed = bool(message.calls) and not any(call.valid for call in message.calls)
            yield message
            continue
        source: ObservationSource | None = "harness" if failed else None
        answers = turn.role in ("user", "result")
        texts, rest = split_results(turn.text) if answers else ([], turn.text)
        if answers and not texts and (failed or turn.role == "result"):
            texts, rest = [turn.text], ""
        for words in texts:
            yield heard(turn, role="result", text=words, source=source)
        if rest and texts:
            yield heard(turn, role="user", text=rest, source="harness")
        elif not texts:
            note = "harness" if _NOTE.match(turn.text) else None
            yield heard(turn, source=note if turn.role == "user" else None)
        failed = False


def declared_tools(texts: Iterable[str]) -> str | None:
    """Return the tools that stand between `<tools>` tags, as JSON text, if they are JSON.

    Writers put one list there, one object a line, or objects with commas between.

    >>> declared_tools(['Use <tools>\\n{"name": "f"}\\n{"name": "g"}\\n</tools> well.'])
    '[{"name":"f"},{"name":"g"}]'
    """
    for words in texts:
        for *_, inner, closed in blocks(words, "tools"):
            lines = [line for line in inner.split("\n") if line.strip()]
            for form in (inner, f"[{inner}]", f"[{','.join(lines)}]"):
                value = _value(form) if closed else None
                if isinstance(value, dict | list) and value and value != [[]]:
                    return to_json_text(value if isinstance(value, list) else [value])
    return None


def _value(form: str) -> Any:
    try:
        return orjson.loads(form)
    except ValueError:
        return None


ADAPTER = Adapter(
    name="hermes",
    title="Hermes and Qwen chats with <tool_call> and <tool_response> in the text",
    domains=("mcp", "search", "terminal", "swe", "web"),
    detect=detect,
    extract=extract,
)
