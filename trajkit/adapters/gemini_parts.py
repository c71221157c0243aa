"""Contents of the Gemini API (`{role, parts}`), read as `Message`s.

Used by every adapter whose log holds such contents. Keys are camelCase on the wire and snake_case
in logs of the Python SDK. Calls have ids in newer logs only; else name and order tell which answer
is whose.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from trajkit.adapters.content import content_text
from trajkit.adapters.messages import Call, Message, id_text, make_call
from trajkit.model import to_json_text

_SNAKE = {
    "functionCall": "function_call",
    "functionResponse": "function_response",
    "executableCode": "executable_code",
    "codeExecutionResult": "code_execution_result",
}
_RESPONSE_KEYS = ("output", "error", "result")


def messages(contents: list[Any], *, first_event: int = 0) -> Iterator[Message]:
    """Give the messages of a list of contents; what is no content is left out."""
    for number, content in enumerate(contents, first_event):
        if isinstance(content, dict):
            yield from read(content.get("role"), content.get("parts"), number)
        elif isinstance(content, str):
            yield Message(role="user", text=content, event=number)
        else:
            yield Message(role="system", also=((number, "unknown_event"),))


def read(
    role: Any, parts: Any, event: Hashable = None, time: str | None = None
) -> Iterator[Message]:
    """Give what one content tells, in the order in which it happened."""
    listed = parts if isinstance(parts, list) else [] if parts is None else [parts]
    rounds: list[list[dict[str, Any]]] = [[]]
    results: list[Message] = []
    for part in listed:
        part = part if isinstance(part, dict) else {"text": content_text(part)[0]}
        found = result(part, event, time)
        if found is None:
            rounds[-1].append(part)
            continue
        if role == "model" and rounds[-1]:
            yield _agent(rounds[-1], event, time)
            rounds.append([])
        results.append(found)
        yield found
    rest = rounds[-1]
    if role == "model" and (rest or not results):
        yield _agent(rest, event, time)
    elif role != "model" and (rest or not results):
        text, media = content_text(rest)
        speaker = "system" if role == "system" else "user"
        yield Message(role=speaker, text=text, media=media, event=event, time=time)  # type: ignore[arg-type]


def _held(part: dict[str, Any], key: str) -> dict[str, Any] | None:
    value = part.get(key) or part.get(_SNAKE[key])
    return value if isinstance(value, dict) else None


def _agent(parts: list[dict[str, Any]], event: Hashable, time: str | None) -> Message:
    thoughts: list[str] = []
    shown: list[dict[str, Any]] = []
    calls: list[Call] = []
    for part in parts:
        made = call(part)
        thought = part.get("thought")
        if made is not None:
            calls.append(made)
        elif thought is True or isinstance(thought, str):
            thoughts.append(thought if isinstance(thought, str) else content_text([part])[0] or "")
        elif part.keys() - {"thoughtSignature", "thought_signature", "thought"}:
            shown.append(part)
    text, media = content_text(shown)
    return Message(
        role="assistant",
        text=text or None,
        thought="\n\n".join(filter(None, thoughts)) or None,
        calls=tuple(calls),
        media=media,
        event=event,
        time=time,
    )


def call(part: dict[str, Any]) -> Call | None:
    """Return the call of a part, or null when it is none."""
    if (function := _held(part, "functionCall")) is not None:
        return make_call(function.get("name"), function.get("args"), function.get("id"))
    if (code := _held(part, "executableCode")) is not None:
        language = code.get("language")
        name = language.lower() if isinstance(language, str) else None
        text = content_text(code.get("code"))[0] or ""
        return Call(action=text, name=name, id=id_text(code.get("id")), kind="code")
    return None


def result(part: dict[str, Any], event: Hashable = None, time: str | None = None) -> Message | None:
    """Return the answer that a part holds, or null when it holds none.

    The API's own wrapper of an answer (`output`, `error`, the SDK's `result`) is taken off where
    it holds nothing else.
    """
    if (code := _held(part, "codeExecutionResult")) is not None:
        outcome = content_text(code.get("outcome"))[0]
        text, media = content_text(code.get("output"))
        failed = outcome is not None and not outcome.endswith("OK")
        return Message(
            role="result",
            text=text,
            call_id=id_text(code.get("id")),
            error=outcome if failed else None,
            event=event,
            time=time,
        )
    function = _held(part, "functionResponse")
    if function is None:
        return None
    response = function.get("response")
    failed = False
    if isinstance(response, dict) and len(response) == 1:
        (key,) = response
        failed = key == "error"
        response = response[key] if key in _RESPONSE_KEYS else response
    text = response if isinstance(response, str) else to_json_text(response)
    media = None
    if isinstance(function.get("parts"), list):
        pictures, media = content_text(function["parts"])
        text = "\n".join(filter(None, [text, pictures]))
    name = function.get("name")
    return Message(
        role="result",
        text=text,
        call_id=id_text(function.get("id")),
        name=name if isinstance(name, str) else None,
        error="is_error" if failed else None,
        media=media,
        event=event,
        time=time,
    )
