"""The parts of opencode messages as `Message`s.

Used by the `opencode` adapter, whose docstring says what the format is.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from trajkit.adapters.content import content_text
from trajkit.adapters.fields import integer, mapping, mappings, text, time_text
from trajkit.adapters.injected import split_injected
from trajkit.adapters.messages import Call, Message, make_call
from trajkit.adapters.step_keys import global_id
from trajkit.ledger import Ledger

_NOISE = {
    "agent": "bookkeeping",
    "patch": "bookkeeping",
    "snapshot": "bookkeeping",
    "step-finish": "bookkeeping",
    "step-start": "bookkeeping",
    "retry": "retry",
    "source-url": "attachment",
    "file": "attachment",
    "subtask": "subtask",
}


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a message, with its name in the ledger."""

    event: Hashable
    """Its name in the ledger; null for a part inside the file of its message."""
    raw: dict[str, Any]
    """The part as logged."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One message with its parts, from whichever shape."""

    event: Hashable
    """Its name in the ledger; null when no file or line is the message itself."""
    info: dict[str, Any]
    """What the log says of the message."""
    parts: list[Part]
    """Its parts in order."""


@dataclass(slots=True)
class _Reply:
    """What the model says and calls until an answer comes."""

    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    results: list[Message] = field(default_factory=list)
    events: list[tuple[Hashable, str]] = field(default_factory=list)
    time: str | None = None
    key: str | None = None
    is_withheld: bool = False


@dataclass(slots=True)
class Reader:
    """Reads the messages of one session in their order."""

    ledger: Ledger
    """Where what is left out is written."""
    thinking: list[str] = field(default_factory=list)
    """Of each turn: `present`, `withheld` or `none`."""
    windows: list[int] = field(default_factory=list)
    """Number of messages before each compaction."""
    n_given: int = 0
    """Messages given so far."""

    def read(self, entries: list[Entry]) -> Iterator[Message]:
        """Give the messages of a session."""
        for entry in entries:
            if entry.event is not None:
                self.ledger.became(entry.event, "context")
            is_user = entry.info.get("role") == "user"
            for message in self._user(entry) if is_user else self._assistant(entry):
                self.n_given += 1
                yield message

    def _left_out(self, part: Part, reason: str) -> None:
        if part.event is not None:
            self.ledger.left_out(part.event, reason)

    def _user(self, entry: Entry) -> Iterator[Message]:
        said: list[Message] = []
        for part in entry.parts:
            kind, raw = part.raw.get("type"), part.raw
            time = time_text(mapping(raw.get("time")).get("start")) or _created(entry.info)
            key = global_id(raw.get("id"))
            message = Message(role="user", time=time, event=part.event, key=key)
            if kind == "compaction":
                self.windows.append(self.n_given)
                if part.event is not None:
                    self.ledger.became(part.event, "context")
            elif kind == "text" and raw.get("ignored") is not True:
                words, around = split_injected(text(raw.get("text")) or "")
                if raw.get("synthetic") is True:
                    words, around = "", text(raw.get("text")) or ""
                if around:
                    yield replace(message, role="system", text=around, source="harness")
                if words or not around:
                    said.append(replace(message, text=words))
            elif kind == "file" and (text(raw.get("mime")) or "").startswith("image/"):
                shown, media = content_text([{"type": "image", "image": raw.get("url")}])
                said.append(replace(message, text=shown, media=media))
            else:
                ignored = "ignored_part" if kind == "text" else "unknown_event"
                self._left_out(part, _NOISE.get(str(kind), ignored))
        if said:
            # One person's turn, however many parts it has.
            yield replace(
                said[0],
                text="\n".join(message.text for message in said if message.text),
                media=next((message.media for message in said if message.media), None),
                also=tuple((message.event, "context") for message in said[1:] if message.event),
            )

    def _assistant(self, entry: Entry) -> Iterator[Message]:
        if entry.info.get("summary") is True:
            yield from self._summary(entry)
            return
        reply = _Reply()
        for part in entry.parts:
            raw, kind = part.raw, part.raw.get("type")
            if kind == "step-start" or (kind in ("text", "reasoning") and reply.calls):
                yield from self._given(reply)
                reply = _Reply()
            start = mapping(raw.get("time")).get("start")
            if kind in ("text", "reasoning"):
                self._words(reply, part)
            elif kind in ("tool", "tool-invocation"):
                start = mapping(mapping(raw.get("state")).get("time")).get("start")
                _tool(reply, part, raw if kind == "tool" else _old_tool(raw))
            else:
                self._left_out(part, _NOISE.get(str(kind), "unknown_event"))
                continue
            reply.time = reply.time or time_text(start) or _created(entry.info)
            reply.key = reply.key or global_id(raw.get("id"))
        yield from self._given(reply)

    def _words(self, reply: _Reply, part: Part) -> None:
        said = text(part.raw.get("text"))
        is_thought = part.raw["type"] == "reasoning"
        if part.raw.get("ignored") is True or part.raw.get("synthetic") is True:
            self._left_out(part, "synthetic_part")
        elif said is None:
            reply.is_withheld |= is_thought
            self._left_out(part, "withheld_thinking" if is_thought else "empty_message")
        elif is_thought:
            reply.thoughts.append(said)
            reply.events.append((part.event, "thought"))
        else:
            reply.texts.append(said)
            reply.events.append((part.event, "said"))

    def _given(self, reply: _Reply) -> Iterator[Message]:
        if not (reply.texts or reply.thoughts or reply.calls):
            return
        hidden = "withheld" if reply.is_withheld else "none"
        self.thinking.append("present" if reply.thoughts else hidden)
        yield Message(
            role="assistant",
            text="\n\n".join(reply.texts) or None,
            thought="\n\n".join(reply.thoughts) or None,
            calls=tuple(reply.calls),
            time=reply.time,
            also=tuple(
                # Words beside a call are the thought of its step.
                (event, ("thought" if reply.calls else "action") if fate == "said" else fate)
                for event, fate in reply.events
            ),
            key=reply.key,
        )
        yield from reply.results

    def _summary(self, entry: Entry) -> Iterator[Message]:
        """Give the summary that a compaction wrote as the program's words."""
        for part in entry.parts:
            said = text(part.raw.get("text"))
            if part.raw.get("type") == "text" and said:
                time = _created(entry.info)
                yield Message(
                    role="system", text=said, source="harness", time=time, event=part.event
                )
            else:
                self._left_out(part, _NOISE.get(str(part.raw.get("type")), "compaction"))


def _created(info: dict[str, Any]) -> str | None:
    return time_text(mapping(info.get("time")).get("created"))


def _old_tool(raw: dict[str, Any]) -> dict[str, Any]:
    """Return a call of the first version in the shape of the later ones."""
    old = mapping(raw.get("toolInvocation"))
    state: dict[str, Any] = {"input": old.get("args"), "status": "running"}
    if "result" in old:
        state |= {"status": "completed", "output": old["result"]}
    return {"tool": old.get("toolName"), "callID": old.get("toolCallId"), "state": state}


def _tool(reply: _Reply, part: Part, raw: dict[str, Any]) -> None:
    state = mapping(raw.get("state"))
    detail = mapping(state.get("metadata"))
    given = state.get("input")
    if not given and isinstance(state.get("raw"), str):
        given = state["raw"]
    call = make_call(text(raw.get("tool")), given, raw.get("callID"))
    reply.calls.append(call)
    reply.events.append((part.event, "action"))
    failure = text(state.get("error"))
    if "output" not in state and failure is None:
        return
    pictures = [
        {"type": "image", "image": file.get("url")}
        for file in mappings(state.get("attachments"))
        if (text(file.get("mime")) or "").startswith("image/")
    ]
    output = content_text(state.get("output"))[0] if failure is None else failure
    refused = failure is not None and failure.startswith("The user rejected permission")
    reply.results.append(
        Message(
            role="result",
            text=output,
            call_id=call.id,
            error="rejected" if refused else failure,
            exit_code=integer(detail.get("exit")),
            truncated=detail.get("truncated") is True,
            source="user" if refused else "environment",
            media=content_text(pictures)[1] if pictures else None,
            time=time_text(mapping(state.get("time")).get("end")),
        )
    )
