"""The messages that a trace holds as the input or output of a span, whichever SDK wrote them.

Tracers log what they are given: OpenAI chats and choices, Anthropic blocks, LangChain messages and
generations, the parts of the OpenTelemetry conventions and of the Vercel AI SDK, or JSON text of
any of these. What is none of them is no message.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson

from trajkit.adapters import anthropic_blocks, langchain, openai_chat
from trajkit.adapters.fields import mapping, mappings, text
from trajkit.adapters.messages import Message
from trajkit.model import to_json_text

_HOLDERS = ("messages", "message", "input", "output", "response")
_CALLS = ("tool_call", "tool-call")
_RESULTS = ("tool_call_response", "tool-result")
_THOUGHTS = ("reasoning", "thinking")


def parsed(value: Any) -> Any:
    """Return the value of JSON text; any other value as it is.

    >>> parsed('[1]'), parsed("hello")
    ([1], 'hello')
    """
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return orjson.loads(value)
        except ValueError:
            return value
    return value


def traced_messages(value: Any) -> tuple[Message, ...]:
    """Return the messages in a span's input or output; none where it holds something else."""
    return tuple(replace(m, event=None, also=()) for m in _read(parsed(value), 0) if _says(m))


def _says(message: Message) -> bool:
    said = message.text or message.thought or message.calls
    return bool(said) or message.role == "result"


def _read(value: Any, depth: int) -> list[Message]:
    if depth > 4:
        return []
    if isinstance(value, list):
        if value and all(isinstance(item, list) for item in value):
            return _read(value[0], depth + 1)
        return _listed(mappings([parsed(item) for item in value]), depth)
    found = mapping(value)
    if "generations" in found:
        return _generated(found["generations"], depth)
    if "choices" in found:
        return [m for choice in mappings(found["choices"])[:1] for m in _choice(choice, depth)]
    if "role" in found or "parts" in found or langchain._plain(found):
        return _listed([found], depth)
    for name in _HOLDERS:
        if found.get(name) and (inner := _read(parsed(found[name]), depth + 1)):
            return inner
    return []


def _choice(choice: dict[str, Any], depth: int) -> list[Message]:
    message = mapping(choice.get("message"))
    return _read({"role": "assistant"} | message, depth + 1) if message else []


def _generated(generations: Any, depth: int) -> list[Message]:
    """Return the first reply of a LangChain result; old models give nothing but its text."""
    while isinstance(generations, list) and generations and isinstance(generations[0], list):
        generations = generations[0]
    for one in mappings(generations)[:1]:
        found = _read(one.get("message"), depth + 1) if one.get("message") else []
        return found or [Message(role="assistant", text=text(one.get("text")))]
    return []


def _listed(listed: list[dict[str, Any]], depth: int) -> list[Message]:
    if not listed:
        return []
    if any(langchain._plain(item) for item in listed):
        return list(langchain._messages(enumerate(listed)))
    if any("generations" in item or "choices" in item for item in listed):
        return [message for item in listed for message in _read(item, depth + 1)]
    if not all("role" in item or "parts" in item for item in listed):
        return []
    if any(_is_parts(item) for item in listed):
        listed = [plain for item in listed for plain in _plain(item)]
    elif any(_is_blocks(item) for item in listed):
        return list(anthropic_blocks.messages(listed))
    return list(openai_chat.messages(listed))


def _kinds(item: dict[str, Any]) -> set[Any]:
    return {part.get("type") for part in mappings(item.get("content"))}


def _is_parts(item: dict[str, Any]) -> bool:
    return isinstance(item.get("parts"), list) or bool(_kinds(item) & {"tool-call", "tool-result"})


def _is_blocks(item: dict[str, Any]) -> bool:
    return bool(_kinds(item) & {"tool_use", "tool_result", "thinking"})


def _plain(item: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a message of parts as the chat messages it is; each result is one of its own."""
    given = item["parts"] if isinstance(item.get("parts"), list) else item.get("content")
    if not isinstance(given, list):
        return [item]
    said, thoughts, calls, results = [], [], [], []
    for part in mappings(given):
        kind = part.get("type")
        if kind in _CALLS:
            calls.append(_called(part))
        elif kind in _RESULTS:
            results.append(_result(part))
        elif kind in _THOUGHTS:
            thoughts.append(text(part.get("content")) or text(part.get("text")))
        elif kind == "text" or "text" in part:
            said.append(text(part.get("content")) or text(part.get("text")) or "")
        else:
            said.append(to_json_text(part))
    if results:
        return results
    role = "assistant" if item.get("role") in ("assistant", "model") else item.get("role")
    plain: dict[str, Any] = {"role": role or "user", "content": "\n".join(said) or None}
    if calls:
        plain["tool_calls"] = calls
    if thoughts:
        plain["reasoning_content"] = "\n\n".join(filter(None, thoughts))
    return [plain]


def _called(part: dict[str, Any]) -> dict[str, Any]:
    arguments = next((part[k] for k in ("arguments", "input", "args") if k in part), None)
    name = part.get("name") or part.get("toolName")
    called = {"name": name, "arguments": arguments}
    return {"id": part.get("id") or part.get("toolCallId"), "function": called}


def _result(part: dict[str, Any]) -> dict[str, Any]:
    value = next((part[k] for k in ("response", "result", "output") if k in part), None)
    # The Vercel SDK wraps an output of version 5 with its type.
    if isinstance(value, dict) and set(value) == {"type", "value"}:
        value = value["value"]
    content = value if isinstance(value, str) or value is None else to_json_text(value)
    call_id = part.get("id") or part.get("toolCallId")
    return {"role": "tool", "content": content, "tool_call_id": call_id}
