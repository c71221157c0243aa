"""Items of the OpenAI Responses API, read as `Message`s.

Used by every adapter whose log holds such items. Reasoning, text and calls that follow each other
are one agent message, until an output or another speaker comes: calls of one reply are parallel. A
call that a server ran has its output inside the item (`mcp_call`, `code_interpreter_call`,
`file_search_call`) or nowhere (`web_search_call`); what the agent says after it is a new message.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import orjson

from trajkit.adapters.content import content_text
from trajkit.adapters.messages import Call, Message, id_text, make_call, raw_call
from trajkit.model import to_json_text

TYPES = (
    "message",
    "reasoning",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    "local_shell_call",
    "local_shell_call_output",
    "web_search_call",
    "file_search_call",
    "computer_call",
    "computer_call_output",
    "code_interpreter_call",
    "image_generation_call",
    "mcp_call",
    "mcp_list_tools",
    "mcp_approval_request",
    "mcp_approval_response",
    "tool_search_call",
    "shell_call",
    "shell_call_output",
    "apply_patch_call",
    "apply_patch_call_output",
    "item_reference",
    "compaction",
)
_LEFT_OUT = {
    "item_reference": "item_reference",
    "compaction": "compaction",
    "compaction_summary": "compaction",
    "mcp_list_tools": "tool_list",
    "mcp_approval_request": "bookkeeping",
}
_SPEAKERS = ("system", "developer", "user", "assistant")
# Outputs that stand inside the call's own item.
_INLINE = {"mcp_call": "output", "code_interpreter_call": "outputs", "file_search_call": "results"}
_NOT_ARGUMENTS = ("id", "call_id", "type", "status", "results", "outputs", "output", "result")


def messages(items: list[Any], *, first_event: int = 0) -> Iterator[Message]:
    """Give the messages of an item list; what is no item is left out.

    `event` is the number of the item: for an agent message that of its first item, the others are
    in `also`; so a log that keeps times beside its items can give them by number.
    """
    reader = _Reader()
    for number, item in enumerate(items, first_event):
        yield from reader.read(item, number)
    yield from reader.end()


def is_item(value: Any) -> bool:
    """Return whether a value is an item of a known type other than a message."""
    return isinstance(value, dict) and value.get("type") in TYPES[1:]


class _Reader:
    """Gathers the items of one agent message; `over` is set once a server ran a call of it."""

    def __init__(self) -> None:
        self.thoughts: list[str] = []
        self.texts: list[str] = []
        self.calls: list[Call] = []
        self.events: list[tuple[int, str]] = []
        self.left_out: list[tuple[int, str]] = []
        self.requests: dict[Any, dict[str, Any]] = {}
        self.over = False

    def read(self, item: Any, event: int) -> Iterator[Message]:
        kind = item.get("type") or "message" if isinstance(item, dict) else None
        if kind == "message" and item.get("role") in _SPEAKERS:
            yield from self._message(item, event)
        elif kind == "reasoning":
            yield from self._again()
            thought = _thought(item)
            self.thoughts.append(thought)
            if thought:
                self.events.append((event, "thought"))
            else:
                self.left_out.append((event, "withheld_thinking"))
        elif kind == "mcp_approval_response":
            yield from self._approval(item, event)
        elif not isinstance(kind, str) or kind in _LEFT_OUT:
            self.left_out.append((event, _LEFT_OUT.get(str(kind), "unknown_event")))
            if kind == "mcp_approval_request":
                self.requests[id_text(item.get("id"))] = item
        elif kind.endswith("_output"):
            yield from self.end()
            yield output(item, event)
        elif kind.endswith("_call"):
            self.calls.append(call(item))
            self.events.append((event, "action"))
            yield from self._inline(item, kind, event)
        else:
            self.left_out.append((event, "unknown_event"))

    def _message(self, item: dict[str, Any], event: int) -> Iterator[Message]:
        text, media = content_text(item.get("content"))
        if item["role"] == "assistant":
            yield from self._again()
            self.texts.append(text or "")
            self.events.append((event, "action"))
            return
        yield from self.end()
        role = "user" if item["role"] == "user" else "system"
        yield Message(role=role, text=text, media=media, event=event)  # type: ignore[arg-type]

    def _inline(self, item: dict[str, Any], kind: str, event: int) -> Iterator[Message]:
        """Give the answer that the item of a server's call holds."""
        self.over |= kind == "web_search_call"
        found, error = item.get(_INLINE.get(kind, "")), item.get("error")
        if found is None and error is None:
            return
        yield from self.end()
        failure = error if error is None or isinstance(error, str) else to_json_text(error)
        text = found if isinstance(found, str) else to_json_text(found)
        yield Message(
            role="result",
            text=text if found is not None else failure,
            call_id=_id(item),
            error=failure,
            event=event,
        )

    def _approval(self, item: dict[str, Any], event: int) -> Iterator[Message]:
        """Give the call that a person refused, with the refusal; leave consent out."""
        request = self.requests.get(id_text(item.get("approval_request_id")))
        if item.get("approve") is not False or request is None:
            self.left_out.append((event, "bookkeeping"))
            return
        refused = id_text(request.get("id"))
        self.calls.append(make_call(request.get("name"), request.get("arguments"), refused))
        self.events.append((event, "action"))
        yield from self.end()
        text = content_text(item.get("reason"))[0] or ""
        yield Message(
            role="result", text=text, call_id=refused, error="rejected", source="user", event=event
        )

    def _again(self) -> Iterator[Message]:
        if self.over:
            yield from self.end()

    def end(self) -> Iterator[Message]:
        """Give what was gathered."""
        text = "\n\n".join(filter(None, self.texts))
        thought = "\n\n".join(filter(None, self.thoughts))
        if self.events:
            (event, _), *others = self.events
            yield Message(
                role="assistant",
                text=text or None,
                thought=thought or None,
                calls=tuple(self.calls),
                event=event,
                also=(*others, *self.left_out),
            )
        elif self.left_out:
            yield Message(role="system", also=tuple(self.left_out))
        self.thoughts, self.texts, self.calls = [], [], []
        self.events, self.left_out, self.over = [], [], False


def call(item: dict[str, Any]) -> Call:
    """Return the call of an item of any `*_call` type."""
    kind = item["type"]
    name, arguments = item.get("name"), item.get("arguments")
    if kind == "custom_tool_call" and isinstance(item.get("input"), str):
        made = raw_call(name if isinstance(name, str) else None, item["input"], _id(item))
    elif kind == "computer_call":
        action = item.get("action")
        gesture = action.get("type") if isinstance(action, dict) else None
        named = gesture if isinstance(gesture, str) else None
        made = Call(action=to_json_text(action), name=named, id=_id(item), kind="gui")
    elif name is None and arguments is None:
        rest = {key: value for key, value in item.items() if key not in _NOT_ARGUMENTS}
        action = item.get("action")
        made = make_call(kind.removesuffix("_call"), action if action else rest, _id(item))
    else:
        made = make_call(name, arguments, _id(item))
    # A reply that was cut off stops inside its last call.
    return replace(made, valid=made.valid and item.get("status") != "incomplete")


def output(item: dict[str, Any], event: int | None) -> Message:
    """Return the answer of an item of any `*_output` type.

    The wrapper `{"output", "metadata"}` of a shell is taken off: its exit code has its own column.
    """
    found = item.get("output")
    code = None
    failed = item.get("status") == "failed"
    if isinstance(found, str) and found.lstrip().startswith("{"):
        found, code = _unwrapped(found)
    if isinstance(found, dict) and ("content" in found or "content_items" in found):
        failed |= found.get("success") is False
        found = found.get("content_items") or found.get("content")
    elif isinstance(found, list) and len(found) == 1 and isinstance(found[0], dict):
        outcome = found[0].get("outcome")
        code = outcome.get("exit_code") if isinstance(outcome, dict) else None
    text, media = content_text(found)
    return Message(
        role="result",
        text=text,
        call_id=_id(item),
        error="failed" if failed else None,
        exit_code=code if type(code) is int else None,
        media=media,
        event=event,
    )


def _unwrapped(text: str) -> tuple[Any, Any]:
    try:
        wrapper = orjson.loads(text)
    except ValueError:
        return text, None
    metadata = wrapper.get("metadata")
    if wrapper.keys() != {"output", "metadata"} or not isinstance(metadata, dict):
        return text, None
    if not isinstance(wrapper["output"], str):
        return text, None
    return wrapper["output"], metadata.get("exit_code")


def _id(item: dict[str, Any]) -> str | None:
    return id_text(item.get("call_id")) or id_text(item.get("id"))


def _thought(item: dict[str, Any]) -> str:
    """Return what an item shows of the reasoning; often that is nothing."""
    shown = [text for key in ("summary", "content") if (text := content_text(item.get(key))[0])]
    return "\n\n".join(shown)
