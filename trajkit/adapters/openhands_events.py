"""One event of an OpenHands V0 stream, whichever generation wrote it.

Used by the adapter `openhands`, whose docstring says what the generations are.
"""

from __future__ import annotations

from typing import Any

from trajkit.adapters.content import content_text
from trajkit.adapters.fields import mapping, mappings, text
from trajkit.adapters.messages import Call, id_text, make_call

_SOURCES = ("user", "agent", "environment")
_ACTIONS = {
    "message", "system", "run", "run_ipython", "read", "write", "edit", "browse", "finish",
    "browse_interactive", "call_tool_mcp", "think", "delegate", "reject", "recall", "null",
    "condensation", "condensation_request", "change_agent_state", "task_tracking", "summarize",
    "add_task", "modify_task", "loop_recovery", "push", "send_pr", "start", "initialize",
}  # fmt: skip
_OBSERVATIONS = {
    "run", "run_ipython", "read", "write", "edit", "browse", "delegate", "chat", "message", "mcp",
    "error", "success", "null", "think", "agent_state_changed", "user_rejected", "recall",
    "condense", "task_tracking", "loop_detection", "download", "microagent", "workspace_context",
}  # fmt: skip
NOTES = {
    "null", "recall", "condensation_request", "change_agent_state", "start", "initialize",
    "loop_recovery", "condense", "microagent", "workspace_context",
}  # fmt: skip
_NOT_ARGUMENTS = {
    "action", "id", "timestamp", "source", "cause", "message", "thought", "tool_call_metadata",
    "llm_metrics", "action_risk", "security_risk", "confirmation_state", "is_confirmed", "hidden",
    "keep_prompt", "kernel_init_code", "blocking", "is_static", "impl_source", "include_extra",
    "translated_ipython_code", "wait_for_response", "images_urls", "image_urls", "file_urls",
}  # fmt: skip


def is_event(value: Any) -> bool:
    """Return whether a value is an event; a chat message is none."""
    if not isinstance(value, dict) or "role" in value:
        return False
    action, observation = value.get("action"), value.get("observation")
    if isinstance(action, str) == isinstance(observation, str):
        return False
    known = action in _ACTIONS if isinstance(action, str) else observation in _OBSERVATIONS
    if "args" in value or "extras" in value:
        return known or (value.get("source") in _SOURCES and "id" in value)
    flat = ("command", "code", "content", "path", "outputs", "thought", "url", "browser_actions")
    return known and any(key in value for key in flat)


def argument(raw: dict[str, Any], name: str) -> Any:
    """Return an argument of an action, wherever its generation keeps it."""
    return mapping(raw.get("args")).get(name, raw.get(name))


def extra(raw: dict[str, Any], name: str) -> Any:
    """Return a detail of an observation, wherever its generation keeps it."""
    return mapping(raw.get("extras")).get(name, raw.get(name))


def response(raw: dict[str, Any]) -> dict[str, Any]:
    """Return the reply of the model that a call came with; observations hold a copy of it."""
    return mapping(mapping(raw.get("tool_call_metadata")).get("model_response"))


def said(raw: dict[str, Any]) -> tuple[str | None, str | None]:
    """Return the text of a message or observation, and its pictures."""
    content = argument(raw, "content")
    urls = argument(raw, "image_urls") or argument(raw, "images_urls")
    urls = urls or mapping(raw.get("extras")).get("image_urls") or []
    shot = text(mapping(raw.get("extras")).get("screenshot"))
    pictures = [url for url in (urls if isinstance(urls, list) else []) if isinstance(url, str)]
    pictures += [shot] if shot and not pictures else []
    if not pictures:
        return content_text(content)
    _, media = content_text([{"type": "image_url", "image_url": {"url": u}} for u in pictures])
    return content_text(content)[0], media


def call(raw: dict[str, Any]) -> Call:
    """Return the call as the model wrote it, or else as the harness understood it."""
    metadata = mapping(raw.get("tool_call_metadata"))
    call_id = id_text(metadata.get("tool_call_id"))
    choices = mappings(response(raw).get("choices"))
    logged = mapping(choices[0].get("message")) if choices else {}
    for call in mappings(logged.get("tool_calls")):
        function = mapping(call.get("function"))
        if call_id and call.get("id") == call_id and text(function.get("name")):
            return make_call(function["name"], function.get("arguments"), call_id)
    given = raw["args"] if isinstance(raw.get("args"), dict) else raw
    arguments = {k: v for k, v in given.items() if k not in _NOT_ARGUMENTS and v is not None}
    if raw["action"] == "call_tool_mcp" and isinstance(given.get("name"), str):
        return make_call(given["name"], given.get("arguments"), call_id or raw.get("id"))
    return make_call(raw["action"], arguments, call_id or raw.get("id"))
