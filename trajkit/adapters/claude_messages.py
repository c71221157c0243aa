"""The lines of one Claude Code conversation as messages: replies joined, injected text told apart.

Used by the `claude-code` adapter, whose docstring says what the format is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from trajkit.adapters.claude_tree import Line, text_of
from trajkit.adapters.content import content_text
from trajkit.adapters.injected import split_injected
from trajkit.adapters.messages import Call, Message, make_call
from trajkit.ledger import Ledger

_REJECTION = re.compile(r"The user doesn't want to (proceed with this tool use|take this action)")
_EXIT_CODE = re.compile(r"Exit code (\d{1,9})(\n|$)")
_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
_THOUGHTS = ("thinking", "redacted_thinking")


@dataclass(slots=True)
class Talk:
    """A way through a session as messages."""

    messages: list[Message] = field(default_factory=list)
    """Messages in order."""
    counts: Counter[str] = field(default_factory=Counter)
    """What was seen and is in no message."""
    thinking: list[str] = field(default_factory=list)
    """Of each reply that says or does anything: `present`, `withheld` or `none`."""
    windows: list[int] = field(default_factory=list)
    """Number of messages before each compaction."""


def talk(way: list[Line], ledger: Ledger) -> Talk:
    """Return the messages of a way; the lines of one reply are one."""
    told = Talk()
    replies: dict[str, list[Line]] = {}
    for line in way:
        replies.setdefault(line.reply_id or line.id, []).append(line)
    for line in way:
        if line.raw.get("subtype") == "compact_boundary":
            told.counts["compactions"] += 1
            told.windows.append(len(told.messages))
        reply = replies[line.reply_id or line.id]
        told.messages.extend(_read(line, reply, told, ledger))
    return told


def replies(line: Line) -> bool:
    """Return whether a line holds words or a call of the agent."""
    return (
        line.raw.get("type") == "assistant"
        and not _is_synthetic(line)
        and any(block.get("type") not in _THOUGHTS for block in line.blocks)
    )


def _is_synthetic(line: Line) -> bool:
    return line.message.get("model") == "<synthetic>" or line.raw.get("isApiErrorMessage") is True


def _read(line: Line, reply: list[Line], told: Talk, ledger: Ledger) -> Iterator[Message]:
    attachment = line.raw.get("attachment")
    if isinstance(attachment, dict) and attachment.get("type") == "queued_command":
        yield from _queued(attachment, line)
    elif not line.message:
        return
    elif line.raw["type"] == "user":
        n_given = 0
        for message in _user(line, told.counts):
            n_given += 1
            yield message
        if n_given == 0:
            ledger.left_out(line.event, "empty_message")
    elif _is_synthetic(line):
        told.counts["synthetic_replies"] += 1
        ledger.left_out(line.event, "synthetic_reply")
    elif line is reply[0]:
        yield from _assistant(reply, told, ledger)


def _time(line: Line) -> str | None:
    return text_of(line.raw.get("timestamp"))


def _queued(attachment: dict[str, Any], line: Line) -> Iterator[Message]:
    text, media = content_text(attachment.get("prompt"))
    if attachment.get("commandMode") == "prompt":
        yield Message(
            role="user",
            text=text,
            media=media,
            time=_time(line),
            event=line.event,
            key=text_of(line.raw.get("uuid")),
        )
    else:
        yield _injected(text or "", line)


def _assistant(reply: list[Line], told: Talk, ledger: Ledger) -> Iterator[Message]:
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[Call] = []
    results: list[Message] = []
    fates: list[tuple[Line, str]] = []
    n_withheld = 0
    for line in reply:
        if not line.message:
            continue
        for block in line.blocks:
            kind = block.get("type")
            if kind == "text":
                texts.append(content_text(block.get("text"))[0] or "")
                fates.append((line, "said" if texts[-1] else "empty_message"))
            elif kind in _THOUGHTS:
                thought = text_of(block.get("thinking"))
                n_withheld += thought is None
                thoughts.append(thought or "")
                fates.append((line, "thought" if thought else "withheld_thinking"))
            elif kind in _CALLS:
                name, id_ = text_of(block.get("name")), text_of(block.get("id"))
                calls.append(make_call(name, block.get("input"), id_))
                fates.append((line, "action"))
            elif isinstance(block.get("tool_use_id"), str):
                results.append(_result(block, line))
            else:
                told.counts["other_blocks"] += 1
                fates.append((line, "unknown_block"))
        if not line.blocks:
            fates.append((line, "empty_message"))
    for line, fate in fates:
        if fate == "action" or (fate == "said" and not calls):
            ledger.became(line.event, "action")
        elif fate in ("said", "thought"):
            ledger.became(line.event, "thought")
        else:
            ledger.left_out(line.event, fate)
    told.counts["withheld_thinking"] += n_withheld
    thought = "\n\n".join(filter(None, thoughts)) or None
    text = "\n\n".join(filter(None, texts)) or None
    if calls or text or thought:
        told.thinking.append("present" if thought else "withheld" if n_withheld else "none")
    yield Message(
        role="assistant",
        text=text,
        thought=thought,
        calls=tuple(calls),
        time=_time(reply[0]),
        key=text_of(reply[0].raw.get("uuid")),
    )
    yield from results


def _user(line: Line, counts: Counter[str]) -> Iterator[Message]:
    """Give results, then what a person said, then what the program put beside it."""
    said: list[str] = []
    injected: list[Message] = []
    is_meta = any(
        line.raw.get(flag) is True for flag in ("isMeta", "isCompactSummary", "isSynthetic")
    )
    pictures: list[dict[str, Any]] = []
    for block in line.blocks:
        if block.get("type") == "tool_result":
            yield _result(block, line)
            continue
        text, media = content_text([block])
        text = text or ""
        if media is not None:
            pictures.append(block)
            words, around = text, ""
        elif is_meta:
            words, around = "", text
        else:
            words, around = split_injected(text)
        if words:
            said.append(words)
        if around:
            injected.append(_injected(around, line))
    if said:
        yield Message(
            role="user",
            text="\n".join(said),
            media=content_text(pictures)[1],
            time=_time(line),
            event=line.event,
            key=text_of(line.raw.get("uuid")),
        )
    counts["injected_texts"] += len(injected)
    yield from injected


def _injected(text: str, line: Line) -> Message:
    return Message(
        role="system",
        text=text,
        source="harness",
        time=_time(line),
        event=line.event,
        key=text_of(line.raw.get("uuid")),
    )


def _result(block: dict[str, Any], line: Line) -> Message:
    text, media = content_text(block.get("content"))
    failed = block.get("is_error") is True
    rejected = line.raw.get("toolDenialKind") == "user-rejected" or (
        failed and _REJECTION.match(text or "") is not None
    )
    error = "is_error" if failed else None
    if line.detail.get("interrupted") is True:
        error = "interrupted"
    code = _EXIT_CODE.match(text or "") if failed else None
    return Message(
        role="result",
        text=text,
        call_id=text_of(block.get("tool_use_id")),
        error="rejected" if rejected else error,
        exit_code=int(code.group(1)) if code else None,
        source="user" if rejected else "environment",
        media=media,
        time=_time(line),
        event=line.event,
        key=text_of(line.raw.get("uuid")),
    )
