"""Cline tasks: the folder of a task with its conversation, screen log and metadata; Cline 2 files.

Written by the Cline extension (and, in the same form, by its forks) under `tasks/<time>/` as
`api_conversation_history.json`, `ui_messages.json` and `task_metadata.json`; no definition but its
source. `api_conversation_history.json` is what the model read and wrote, in Anthropic blocks, and
is what is read here. Up to about 3.3x a call is XML in the agent's text
(`<execute_command><command>ls</command></execute_command>`) and its answer a user text that begins
`[execute_command for 'ls'] Result:`; later `tool_use` and `tool_result` blocks, though some
providers still get the answer as such a text. Cline 2 writes one `*.messages.json` with `messages`
that carry `modelInfo` and `metrics`.

Traps. `<task>` and `<feedback>` hold a person's words; `<environment_details>`, `# task_progress`,
`[ERROR]` and `[TASK RESUMPTION]` are the program's. A refusal (`The user denied this operation.`)
is a person's. The head `[...] Result:` repeats the call and is taken off. `ui_messages.json` tells
the same again for the screen: with the history beside it, it counts as `screen_copy` and only gives
model, cost and end; alone, it is read from `say` and `ask` lines, where commands have their output
in `command_output` chunks, file tools often have none, unfinished lines (`partial`) and an `ask`
that repeats a `say` are left out. `conversationHistoryDeletedRange` took messages from the model's
view, not from the file: `meta.compactions`.

Smallest shape: api_conversation_history.json: [{"role": "user", "content": [{"type": "text",
"text": "<task>\\n...\\n</task>"}]}, {"role": "assistant", "content": [{"type": "text", "text":
"<read_file>\\n<path>a</path>\\n</read_file>"}]}]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from trajkit.adapters import Adapter, anthropic_blocks
from trajkit.adapters.anthropic_blocks import Place
from trajkit.adapters.cline_screen import is_screen, screen_facts, screen_messages
from trajkit.adapters.content import content_text
from trajkit.adapters.fields import mapping, mappings, meta_text, no_action, text, time_text
from trajkit.adapters.messages import Message, fold, is_message_list
from trajkit.adapters.talk import heard, injected
from trajkit.adapters.text_calls import agent_message, tool_tags
from trajkit.model import Bundle, Record, Reject, Trajectory

_HISTORY, _SCREEN, _METADATA = (
    "api_conversation_history.json",
    "ui_messages.json",
    "task_metadata.json",
)
_TOOLS = tool_tags(
    *("execute_command", "read_file", "write_to_file", "replace_in_file", "search_files"),
    *("list_files", "list_code_definition_names", "browser_action", "use_mcp_tool", "apply_diff"),
    *("access_mcp_resource", "ask_followup_question", "attempt_completion", "new_task"),
    *("plan_mode_respond", "load_mcp_documentation", "insert_content", "search_and_replace"),
    *("switch_mode", "condense", "focus_chain", "apply_patch", "use_subagents"),
    *("web_search", "web_fetch"),
)
_HEAD = re.compile(r"\[([A-Za-z_]\w{0,60})\b(.{0,20000}?)\] Result:(?:\r?\n|\Z)", re.DOTALL)
_PROGRAM = re.compile(
    r"\s*(<environment_details>|#+ task_progress|\[ERROR\]|\[TASK RESUMPTION\]|"
    r"<explicit_instructions|\[\[NOTE\]|#+ TODO LIST)"
)
_WORDS = ("task", "feedback", "user_message", "answer")
_DENIED = "The user denied this operation."
_FAILED = "The tool execution failed with the following error:"


def bundle(path: str) -> str | None:
    """Return the folder of a task's file."""
    folder, _, name = path.rpartition("/")
    return folder if folder and name in (_HISTORY, _SCREEN, _METADATA) else None


def detect(value: Any) -> bool:
    """Return whether a value is a task's folder or one of its files that tells the task."""
    if isinstance(value, Bundle):
        return any(
            name in value.files and detect(value.files[name]) for name in (_HISTORY, _SCREEN)
        )
    return _is_history(value) or is_screen(value) or _is_second(value)


def _is_history(value: Any) -> bool:
    """Return whether a value is a list of messages that shows one of the program's marks."""
    return is_message_list(value, ("user", "assistant")) and any(
        _PROGRAM.match(said) or said.startswith("<task>\n") or _HEAD.match(said)
        for message in value[:20]
        if message["role"] == "user"
        for block in mappings(message.get("content"))
        if (said := text(block.get("text"))) is not None
    )


def _is_second(value: Any) -> bool:
    listed = value.get("messages") if isinstance(value, dict) else None
    return (
        isinstance(listed, list)
        and isinstance(value.get("sessionId"), str)
        and is_message_list(listed, ("user", "assistant"))
        and any("modelInfo" in message or "metrics" in message for message in listed)
    )


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the episode of one task."""
    ledger = record.ledger
    held = record.value
    files = held.files if isinstance(held, Bundle) else {_SCREEN if is_screen(held) else "": held}
    history = files.get(_HISTORY) or files.get("")
    row = mapping(history)
    history = row.get("messages", history)
    screen = mappings(files.get(_SCREEN))
    metadata = mapping(files.get(_METADATA))
    ledger.expect(("screen", number) for number in range(len(screen)))
    if isinstance(history, list):
        ledger.expect(("history", number) for number in range(len(history)))
        for number in range(len(screen)):
            ledger.left_out(("screen", number), "screen_copy")
        messages = list(_messages(history))
    else:
        history = []
        messages = list(screen_messages(screen))
    folded = fold(messages, ledger)
    first = next((n for n, m in enumerate(messages) if m.role == "assistant"), len(messages))
    context = [message.text for message in messages[:first] if message.source == "harness"]
    if metadata:
        ledger.expect(["metadata"])
        ledger.became("metadata", "context")
    if not folded.acts:
        yield no_action(record)
        return
    facts = screen_facts(screen)
    infos = [mapping(m.get("modelInfo")) for m in mappings(history)]
    infos += [*mappings(metadata.get("model_usage")), mapping(facts.pop("model"))]
    keys = ("modelId", "id", "model_id")
    model = next((found for info in infos for key in keys if (found := text(info.get(key)))), None)
    times = (time_text(m.get("ts")) for m in [*mappings(history), *screen])
    session = text(row.get("sessionId"))
    yield Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        format_version="2" if session else None,
        domain="swe",
        agent="cline",
        model=model,
        task=folded.task,
        agent_system_prompt=text(row.get("systemPrompt")) or folded.agent_system_prompt,
        exit_status=facts.pop("end"),
        started_at=next(filter(None, times), None),
        names=(session,) if session else (),
        meta=meta_text(folded, session_id=session, context=context or None, **facts),
        steps=folded.steps,
    )


def _messages(history: list[Any]) -> Iterator[Message]:
    for number, raw in enumerate(history):
        event = ("history", number)
        if not isinstance(raw, dict):
            yield anthropic_blocks.unread(event, "unknown_event")
            continue
        place = Place(event=event, time=time_text(raw.get("ts")))
        parts = anthropic_blocks.blocks(raw.get("content"))
        if raw.get("role") == "assistant":
            yield from _agent(parts, place)
        else:
            yield from _user(parts, place)


def _agent(parts: list[dict[str, Any]], place: Place) -> Iterator[Message]:
    for message in anthropic_blocks.said(parts, place):
        if message.role == "assistant" and not message.calls and message.text:
            written = agent_message(message.text, _TOOLS)
            thoughts = [thought for thought in (message.thought, written.thought) if thought]
            yield replace(
                message,
                text=written.text,
                thought="\n\n".join(thoughts) or None,
                calls=written.calls,
            )
        else:
            yield message


def _user(parts: list[dict[str, Any]], place: Place) -> Iterator[Message]:
    """Give results, then a person's words, then the program's; a head may stand by itself."""
    answers: list[tuple[str | None, list[dict[str, Any]]]] = []
    spoken: list[dict[str, Any]] = []
    program: list[str] = []
    for part in parts:
        said = text(part.get("text")) or ""
        head = _HEAD.match(said)
        if anthropic_blocks.is_result(part):
            yield _judged(anthropic_blocks.result(part, place))
        elif _PROGRAM.match(said):
            program.append(said)
        elif head is not None:
            rest = said[head.end() :]
            answers.append((head[1], [part | {"text": rest}] if rest else []))
        elif any(said.lstrip().startswith(f"<{tag}>") for tag in _WORDS):
            spoken.append(part)
        elif answers and not spoken:
            answers[-1][1].append(part)
        else:
            spoken.append(part)
    for name, answer in answers:
        yield _judged(_result(name, answer, place))
    if spoken or not (answers or program or any(map(anthropic_blocks.is_result, parts))):
        yield from _words(spoken, place)
    if program:
        yield injected("\n\n".join(program), place)


def _result(name: str | None, parts: list[dict[str, Any]], place: Place) -> Message:
    said, media = content_text(parts)
    return Message(
        role="result", text=said, name=name, media=media, event=place.event, time=place.time
    )


def _words(parts: list[dict[str, Any]], place: Place) -> Iterator[Message]:
    """Give a person's words without the tag around them, and what the program put beside them."""
    said, media = content_text(parts)
    tag = next((tag for tag in _WORDS if f"<{tag}>" in (said or "")), None)
    yield from heard(said, place, media=media, wrapper=tag)


def _judged(message: Message) -> Message:
    said = message.text or ""
    if said.startswith(_DENIED):
        return replace(message, source="user", error="rejected")
    return replace(message, error="tool_error") if said.startswith(_FAILED) else message


ADAPTER = Adapter(
    name="cline",
    title="Cline tasks (XML or native tool calls), their screen log alone, Cline 2 sessions",
    domains=("swe", "terminal", "mcp", "web"),
    detect=detect,
    extract=extract,
    bundle=bundle,
)
