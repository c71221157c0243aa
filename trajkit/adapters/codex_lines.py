"""The lines of a Codex log as items of the Responses API: what is told twice is taken once.

Used by the `codex` adapter, whose docstring says what the format is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from trajkit.adapters.content import content_text
from trajkit.adapters.fields import integer, mapping, mappings, text
from trajkit.adapters.messages import id_text
from trajkit.adapters.response_items import is_item
from trajkit.model import to_json_text

_ENVELOPE = (
    "session_meta",
    "response_item",
    "event_msg",
    "turn_context",
    "compacted",
    "world_state",
    "inter_agent_communication_metadata",
)
_OLD_HEADER = {"id", "timestamp", "instructions", "git"}
# Events that tell of the program; one that is named neither here nor in `_Reader` is new.
_BOOKKEEPING = frozenset(
    (
        *("agent_message_delta", "agent_reasoning_delta", "agent_reasoning_section_break"),
        *("background_event", "collab_agent_interaction_begin", "collab_agent_interaction_end"),
        *("collab_agent_spawn_begin", "collab_agent_spawn_end", "collab_close_begin"),
        *("collab_close_end", "collab_waiting_begin", "collab_waiting_end", "context_compacted"),
        *("deprecation_notice", "elicitation_request", "entered_review_mode"),
        *("exec_approval_request", "exec_command_output_delta", "exited_review_mode"),
        *("get_history_entry_response", "ghost_snapshot", "guardian_assessment", "item_started"),
        *("apply_patch_approval_request", "mcp_list_tools_response", "mcp_startup_complete"),
        *("mcp_startup_update", "mcp_tool_call_begin", "patch_apply_begin", "plan_delta"),
        *("plan_update", "raw_response_item", "request_user_input", "session_configured"),
        *("shutdown_complete", "skills_update_available", "stream_error", "sub_agent_activity"),
        *("task_complete", "task_started", "thread_goal_updated", "thread_name_updated"),
        *("thread_rolled_back", "thread_settings_applied", "token_count", "turn.completed"),
        *("turn.failed", "turn.started", "turn_aborted", "turn_complete", "turn_diff"),
        *("turn_started", "undo_completed", "undo_started", "warning", "web_search_begin"),
        *("image_generation_begin", "view_image_tool_call", "codex/event/raw_item"),
    )
)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of any version in the newest envelope."""

    kind: str | None
    """Type of the envelope, `exec_item` for an item of the printed stream, null if unknown."""
    payload: dict[str, Any]
    """What is in the envelope."""
    raw: dict[str, Any]
    """The line as logged."""


@dataclass(slots=True)
class Items:
    """A log as items, one for each line; null where the line is none."""

    items: list[Any] = field(default_factory=list)
    """Items of the Responses API."""
    reasons: dict[int, str] = field(default_factory=dict)
    """Why a line is no item, or `context` if it is kept elsewhere."""
    exits: dict[int | str, dict[str, Any]] = field(default_factory=dict)
    """How a command ended, by its line and by the id of its call: `exit_code`, `status`."""
    ends: set[int] = field(default_factory=set)
    """Lines that end a message of the agent: what it says next it says after that call."""
    unknown: dict[str, int] = field(default_factory=dict)
    """Types that are not known, with how often they stand there."""


def envelope(value: Any) -> Line:
    """Return a line of any version in the newest envelope."""
    raw = mapping(value)
    kind = text(raw.get("type"))
    if kind in _ENVELOPE and isinstance(inner := raw.get("payload", raw.get(kind)), dict):
        return Line(kind, inner, raw)
    if isinstance(raw.get("msg"), dict) and isinstance(raw["msg"].get("type"), str):
        return Line("event_msg", raw["msg"], raw)
    if kind == "thread.started":
        return Line("session_meta", {"id": raw.get("thread_id"), "source": "exec"}, raw)
    if kind in ("item.started", "item.updated", "item.completed"):
        return Line("exec_item", mapping(raw.get("item")), raw)
    if kind in ("turn.started", "turn.completed", "turn.failed", "error"):
        return Line("event_msg", raw, raw)
    if is_item(raw) or (kind in (None, "message") and isinstance(raw.get("role"), str)):
        return Line("response_item", raw, raw)
    if is_old_header(raw):
        return Line("session_meta", raw, raw)
    if kind is None and isinstance(raw.get("prompt"), str):
        return Line("event_msg", {"type": "user_message", "message": raw["prompt"]}, raw)
    return Line(None, raw, raw)


def is_old_header(raw: dict[str, Any]) -> bool:
    """Return whether a line is the first one of a log from before the envelope."""
    return {"id", "timestamp", "instructions"} <= raw.keys() <= _OLD_HEADER


def as_items(lines: list[Line]) -> Items:
    """Return what the lines say as items, in their order, each thing once.

    Items of the API are the truth. An event or a finished item that says the same of the same call
    or in the same words is left out; one that says what no item says becomes an item.
    """
    reader = _Reader(lines)
    for number, line in enumerate(lines):
        reader.found.items.append(reader.item(number, line))
    return reader.found


class _Reader:
    def __init__(self, lines: list[Line]) -> None:
        self.found = Items()
        self.calls: set[str] = set()
        self.searches: set[str] = set()
        self.said: dict[str, set[str]] = {"user": set(), "assistant": set(), "reasoning": set()}
        self.finished: set[str] = set()
        self.begun: dict[str, Any] = {}
        for line in lines:
            payload = line.payload
            if line.kind == "response_item":
                self._note_item(payload)
            elif line.raw.get("type") == "item.completed":
                self.finished.add(str(payload.get("id")))
            elif payload.get("type") == "exec_command_end":
                self.finished.add(str(payload.get("call_id")))
            elif payload.get("type") == "exec_command_begin":
                self.begun[str(payload.get("call_id"))] = payload.get("command")

    def _note_item(self, item: dict[str, Any]) -> None:
        kind = item.get("type") or "message"
        self.calls.update(str(item[key]) for key in ("call_id", "id") if item.get(key))
        if kind == "web_search_call":
            self.searches.add(to_json_text(item.get("action")))
        if kind == "message":
            parts = item.get("content")
            whole = content_text(parts)[0] or ""
            texts = [whole, *(str(part.get("text") or "") for part in mappings(parts))]
            self.said.get(str(item.get("role")), set()).update(t.strip() for t in texts)
        elif kind == "reasoning":
            for part in [*mappings(item.get("summary")), *mappings(item.get("content"))]:
                self.said["reasoning"].add(str(part.get("text") or "").strip())

    def item(self, number: int, line: Line) -> Any:
        """Return the item of a line; why there is none stands in `found.reasons`."""
        payload = line.payload
        kind = text(payload.get("type"))
        if line.kind == "response_item":
            return self._response_item(number, payload, kind)
        if line.kind == "exec_item":
            return self._exec_item(number, line)
        if line.kind == "event_msg":
            if kind == "item_completed":
                item = mapping(payload.get("item"))
                return self._finished(number, item, _snake(text(item.get("type")) or ""))
            return self._event(number, payload, kind or "")
        if line.kind in ("session_meta", "turn_context", "compacted"):
            self.found.reasons[number] = "context"
        elif line.kind is not None or "record_type" in payload:
            self.found.reasons[number] = "bookkeeping"
        else:
            self._unknown(number, kind or "none")
        return None

    def _unknown(self, number: int, kind: str) -> None:
        self.found.unknown[kind] = self.found.unknown.get(kind, 0) + 1
        self.found.reasons[number] = "unknown_event"

    def _response_item(self, number: int, item: dict[str, Any], kind: str | None) -> Any:
        if kind == "ghost_snapshot":
            self.found.reasons[number] = "bookkeeping"
            return None
        if kind == "agent_message":
            content = [part for part in mappings(item.get("content")) if "text" in part]
            return {"type": "message", "role": "user", "content": content}
        if kind == "tool_search_call":
            return {"name": "tool_search"} | item
        if kind == "tool_search_output":
            return item | {"output": to_json_text(item.get("tools"))}
        if kind == "tool_call":
            name = mapping(item.get("function")).get("name") or item.get("name")
            return item | {"type": "function_call", "name": name}
        if kind == "tool_result":
            result = mapping(item.get("result"))
            self.found.exits[number] = {"exit_code": result.get("exitCode")}
            output = result.get("stdout") if "stdout" in result else item.get("result")
            return item | {"type": "function_call_output", "output": output}
        if kind is not None and not is_item(item) and kind != "message":
            self._unknown(number, kind)
            return None
        return item

    def _exec_item(self, number: int, line: Line) -> Any:
        item = line.payload
        kind = text(item.get("type")) or text(item.get("item_type")) or ""
        done = line.raw["type"] == "item.completed"
        if not done and (
            line.raw["type"] != "item.started" or str(item.get("id")) in self.finished
        ):
            self.found.reasons[number] = "unfinished_item"
            return None
        return self._finished(number, item, kind)

    def _finished(self, number: int, item: dict[str, Any], kind: str) -> Any:
        """Return the item of an action that is told with its end."""
        if kind in ("user_message", "agent_message", "assistant_message", "plan", "reasoning"):
            role = {"user_message": "user", "reasoning": "reasoning"}.get(kind, "assistant")
            told = item.get("text") or item.get("content") or item.get("summary_text")
            return self._words(number, role, content_text(told)[0] or "")
        if kind == "command_execution":
            return self._command(number, item, text(item.get("id")))
        if kind == "mcp_tool_call":
            invocation = {key: item.get(key) for key in ("server", "tool", "arguments")}
            result, error = item.get("result"), item.get("error")
            return self._mcp(number, item, invocation, result if error is None else error)
        if kind == "file_change":
            return self._patch(number, item, text(item.get("id")))
        if kind in ("web_search", "extension"):
            return self._search(number, item, text(item.get("id")))
        if kind in ("todo_list", "collab_tool_call"):
            rest = {key: value for key, value in item.items() if key not in ("id", "type")}
            return self._call(number, text(item.get("id")), kind, rest)
        if kind == "error":
            self.found.reasons[number] = "context"
        else:
            self._unknown(number, text(item.get("type")) or "none")
        return None

    def _event(self, number: int, event: dict[str, Any], kind: str) -> Any:
        call_id = text(event.get("call_id"))
        if kind in ("user_message", "agent_message", "agent_reasoning"):
            role = {"user_message": "user", "agent_message": "assistant"}.get(kind, "reasoning")
            return self._words(number, role, text(event.get("message")) or text(event.get("text")))
        if kind == "agent_reasoning_raw_content":
            return self._words(number, "reasoning", text(event.get("text")))
        if kind == "exec_command_begin":
            known = call_id in self.calls or call_id in self.finished
            self.found.reasons[number] = "duplicate_event" if known else "unfinished_item"
            return None
        if kind == "exec_command_end":
            return self._command(number, event, call_id)
        if kind == "mcp_tool_call_end":
            result = event.get("result")
            ended = mapping(result)
            told = ended.get("Ok", ended.get("Err", result))
            return self._mcp(number, event, mapping(event.get("invocation")), told)
        if kind == "patch_apply_end":
            return self._patch(number, event, call_id)
        if kind == "web_search_end":
            return self._search(number, event, call_id)
        if kind in ("dynamic_tool_call_request", "dynamic_tool_call_response"):
            if call_id in self.calls:
                return self._twice(number)
            if kind.endswith("request"):
                name, arguments = event.get("tool"), event.get("arguments")
                return {"type": "function_call", "name": name, "arguments": arguments} | {
                    "call_id": call_id
                }
            output = content_text(event.get("content_items"))[0] or text(event.get("error"))
            return {"type": "function_call_output", "call_id": call_id, "output": output}
        if kind == "error":
            self.found.reasons[number] = "context"
        elif kind == "image_generation_end":
            return self._twice(number)
        elif kind in _BOOKKEEPING:
            self.found.reasons[number] = "bookkeeping"
        else:
            self._unknown(number, kind)
        return None

    def _twice(self, number: int) -> None:
        self.found.reasons[number] = "duplicate_event"

    def _words(self, number: int, role: str, said: str | None) -> Any:
        """Return words as an item if no item of the API holds them."""
        bare = (said or "").strip()
        known = self.said[role]
        if bare in known or (bare and any(bare in other for other in known)):
            return self._twice(number)
        if not bare:
            self.found.reasons[number] = "empty_message"
            return None
        if role == "reasoning":
            return {"type": "reasoning", "summary": [{"type": "summary_text", "text": said}]}
        return {"type": "message", "role": role, "content": said}

    def _call(
        self, number: int, call_id: str | None, name: str, arguments: Any, output: Any = None
    ) -> Any:
        """Return a call and its answer as one item, if no item of the API holds the call."""
        if call_id in self.calls:
            return self._twice(number)
        made = {"type": "mcp_call", "id": call_id, "name": name, "arguments": arguments}
        self.found.ends.add(number)
        return made if output is None else made | {"output": output}

    def _command(self, number: int, event: dict[str, Any], call_id: str | None) -> Any:
        ended = {"exit_code": integer(event.get("exit_code")), "status": event.get("status")}
        if ended["status"] == "declined":
            # It never ran.
            ended["exit_code"] = None
        self.found.exits[number] = ended
        if call_id is not None:
            self.found.exits[call_id] = ended
        command = event.get("command")
        if command is None:
            command = self.begun.get(call_id or "")
        output = text(event.get("aggregated_output"))
        if output is None and ended["status"] != "in_progress":
            output = "".join(text(event.get(key)) or "" for key in ("stdout", "stderr"))
        return self._call(number, call_id, "shell", {"command": command}, output)

    def _mcp(
        self, number: int, event: dict[str, Any], invocation: dict[str, Any], told: Any
    ) -> Any:
        name = "__".join(text(invocation.get(key)) or "" for key in ("server", "tool"))
        result = mapping(told)
        failed = result.get("isError") is True or "message" in result or isinstance(told, str)
        if failed:
            self.found.exits[number] = {"status": "failed"}
        output = told if isinstance(told, str) else content_text(result.get("content"))[0]
        if output is None:
            output = text(result.get("message"))
        call_id = text(event.get("call_id")) or text(event.get("id"))
        return self._call(number, call_id, name, invocation.get("arguments"), output)

    def _patch(self, number: int, event: dict[str, Any], call_id: str | None) -> Any:
        texts = [event[key] for key in ("stdout", "stderr") if isinstance(event.get(key), str)]
        failed = event.get("success") is False or event.get("status") == "failed"
        if failed:
            self.found.exits[number] = {"status": "failed"}
        output = "".join(texts) if texts or failed else None
        changes = {"changes": event.get("changes")}
        return self._call(number, call_id, "file_change", changes, output)

    def _search(self, number: int, event: dict[str, Any], call_id: str | None) -> Any:
        """Return a search, or only its results where an item of the API holds the call."""
        action, results = event.get("action"), event.get("results")
        output = None if results is None else to_json_text(results)
        if call_id in self.calls or to_json_text(action) in self.searches:
            if output is None:
                return self._twice(number)
            known = call_id if call_id in self.calls else None
            return {"type": "web_search_call_output", "call_id": known, "output": output}
        arguments = action if action else {"query": event.get("query")}
        return self._call(number, id_text(call_id), "web_search", arguments, output)


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
