"""MCPMark runs: a folder of `messages.json` and `meta.json`, one for each task and trial.

Written by the MCPMark benchmark (`results/<run>/<model>__<service>/run-N/<task>/`). `messages.json`
holds OpenAI Responses items as the Agents SDK logs them, `meta.json` the outcome, token counts and
turns. A `messages.json` without its `meta.json` is read as plain Responses items; a `meta.json`
alone is rejected as `metadata_only`. `execution.log` is prose of the runner and stays unused.

Traps. The system prompt is not logged. Ids are often `__fake_id__`, which is none. Reasoning is
folded into the text as `<think>...</think>`; it is taken out as thought. After a compaction a user
message begins with `Context summary (auto-compacted due to token limit):`: that is the harness
speaking, it replaces nothing here, and `meta.compactions` counts it. Outputs are JSON text of an
MCP result (`{"type":"text","text":"..."}`, text in a text): what the agent read, kept as it is.

Smallest shape: messages.json: [{"role": "user", "content": "..."}, {"type": "function_call",
"call_id": "c1", "name": "f", "arguments": "{}"}, {"type": "function_call_output", "call_id": "c1",
"output": "..."}]; meta.json: {"execution_result": {"success": true}}
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from trajkit.adapters import Adapter, openai_chat, response_items
from trajkit.adapters.fields import mapping, mappings, meta_text, no_action, text, time_text
from trajkit.adapters.messages import Message, fold
from trajkit.adapters.text_calls import agent_message
from trajkit.model import Bundle, OutcomeStatus, Record, Reject, Trajectory

_FILES = ("messages.json", "meta.json", "execution.log")
_SUMMARY = "Context summary (auto-compacted due to token limit):"
_FAKE = "__fake_id__"
_META = (
    "task_name",
    "mcp",
    "token_usage",
    "turn_count",
    "agent_execution_time",
    "reasoning_effort",
)
_OUTCOMES: dict[Any, OutcomeStatus] = {True: "success", False: "failure"}


def bundle(path: str) -> str | None:
    """Return the folder of a run's file."""
    folder, _, name = path.rpartition("/")
    return folder if folder and name in _FILES else None


def detect(value: Any) -> bool:
    """Return whether a value is a run's folder, or its `meta.json` alone."""
    if not isinstance(value, Bundle):
        return _is_meta(value)
    if not {"messages.json", "meta.json"} <= value.files.keys():
        return False
    return isinstance(value.files["messages.json"], list) and _is_meta(value.files["meta.json"])


def _is_meta(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("execution_result"), dict)
        and ("turn_count" in value or "token_usage" in value)
    )


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the episode of a run, or the reject of a `meta.json` alone."""
    ledger = record.ledger
    if not isinstance(record.value, Bundle):
        ledger.expect(["meta"])
        said = "the outcome of a run without its messages"
        yield replace(no_action(record, "metadata_only"), message=said)
        return
    items, meta = record.value.files["messages.json"], record.value.files["meta.json"]
    ledger.expect([*range(len(items)), "meta"])
    ledger.became("meta", "context")
    messages = list(_messages(items))
    folded = fold(messages, ledger)
    if not folded.acts:
        yield no_action(record)
        return
    result = meta["execution_result"]
    success = result.get("success")
    yield Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        domain="mcp",
        agent=text(meta.get("agent_name")) or "mcpmark",
        model=text(meta.get("model_name")) or text(meta.get("model")),
        task=folded.task,
        agent_system_prompt=folded.agent_system_prompt,
        outcome_status=_OUTCOMES[success] if isinstance(success, bool) else "unknown",
        exit_status=text(result.get("error_message")),
        started_at=time_text(mapping(meta.get("time")).get("start")),
        meta=meta_text(
            folded,
            verification_error=text(result.get("verification_error")),
            compactions=sum(message.source == "harness" for message in messages) or None,
            **{key: meta.get(key) for key in _META},
        ),
        steps=folded.steps,
    )


def _messages(items: list[Any]) -> Iterator[Message]:
    plain = [_without_fake_ids(item) for item in items]
    is_chat = any(item.get("tool_calls") or item.get("role") == "tool" for item in mappings(plain))
    for message in openai_chat.messages(plain) if is_chat else response_items.messages(plain):
        said = message.text or ""
        if message.role == "user" and said.startswith(_SUMMARY):
            yield replace(message, role="system", source="harness")
        elif message.role == "assistant" and "<think>" in said:
            cut = agent_message(said)
            thoughts = [thought for thought in (message.thought, cut.thought) if thought]
            yield replace(message, text=cut.text, thought="\n\n".join(thoughts) or None)
        else:
            yield message


def _without_fake_ids(item: Any) -> Any:
    if not isinstance(item, dict):
        return item
    return {
        key: value
        for key, value in item.items()
        if not (key in ("id", "call_id", "tool_call_id") and value == _FAKE)
    }


ADAPTER = Adapter(
    name="mcpmark",
    title="MCPMark runs (messages.json with meta.json)",
    domains=("mcp",),
    detect=detect,
    extract=extract,
    bundle=bundle,
)
