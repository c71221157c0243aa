"""The screen log of a Cline task (`ui_messages.json`), for tasks whose history is missing.

Used by the `cline` adapter, whose docstring says what the format is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import orjson

from trajkit.adapters.fields import mapping, text, time_text
from trajkit.adapters.messages import Message, make_call
from trajkit.model import to_json_text

_ACTIONS = ("tool", "command", "use_mcp_server", "browser_action", "browser_action_launch")
_OUTPUTS = ("command_output", "mcp_server_response", "browser_action_result")
_PERSON = ("task", "user_feedback")
_SPEECH = ("text", "completion_result", "followup", "plan_mode_respond")


def is_screen(value: Any) -> bool:
    """Return whether a value is a list of `say` and `ask` lines."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(
            isinstance(line, dict)
            and line.get("type") in ("say", "ask")
            and isinstance(line.get(line["type"]), str)
            and "ts" in line
            for line in value[:50]
        )
    )


def screen_facts(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Return model, cost, end and number of compactions, as far as the lines tell."""
    costs = [
        _object(line.get("text")).get("cost")
        for line in lines
        if line.get("say") == "api_req_started"
    ]
    known = [cost for cost in costs if isinstance(cost, int | float)]
    key = "conversationHistoryDeletedRange"
    ranges = [to_json_text(line[key]) for line in lines if line.get(key)]
    ended = any(_kind(line) == "completion_result" for line in lines)
    return {
        "model": next((line["modelInfo"] for line in lines if line.get("modelInfo")), None),
        "cost": sum(known) if known else None,
        "end": "completion_result" if ended else None,
        "compactions": len(dict.fromkeys(ranges)) or None,
    }


def screen_messages(lines: list[dict[str, Any]]) -> Iterator[Message]:
    """Give the messages that the lines tell.

    Chunks of one command's output are joined; what was thought and said right before a call is the
    call's.
    """
    held: list[Message] = []
    said_first: list[Message] = []
    before: tuple[str | None, Any] = (None, None)
    asked = False
    for number, line in enumerate(lines):
        kind, said = _kind(line), text(line.get("text"))
        event = ("screen", number)
        repeated = kind in (*_ACTIONS, *_SPEECH) and (not said or (kind, said) == before)
        before = (kind, said)
        if line.get("partial") is True or repeated or not _is_told(kind):
            reason = "repeated" if repeated else "bookkeeping"
            yield Message(role="system", also=((event, reason),))
            continue
        if held and kind != "command_output":
            yield _joined(held)
            held = []
        time = time_text(line.get("ts"))
        if said_first and kind not in (*_ACTIONS, *_SPEECH, "reasoning"):
            yield _one_turn(said_first)
            said_first = []
        if kind in _PERSON or (kind == "text" and not asked):
            asked = True
            yield Message(role="user", text=said, event=event, time=time)
        elif kind == "command_output":
            held.append(Message(role="result", text=said, event=event, time=time))
        elif kind in _OUTPUTS:
            yield Message(role="result", text=said, event=event, time=time)
        elif kind in _ACTIONS:
            name, arguments = _call(str(kind), said or "")
            call = make_call(name, arguments)
            turn = Message(role="assistant", calls=(call,), event=event, time=time)
            yield _one_turn([*said_first, turn])
            said_first = []
        elif kind == "reasoning":
            said_first.append(Message(role="assistant", thought=said, event=event, time=time))
        elif kind in _SPEECH:
            said_first.append(Message(role="assistant", text=said, event=event, time=time))
        else:
            yield Message(role="system", text=said, source="harness", event=event, time=time)
    if held:
        yield _joined(held)
    if said_first:
        yield _one_turn(said_first)


def _one_turn(parts: list[Message]) -> Message:
    """Return the lines of one reply as one message."""
    thoughts = [part.thought for part in parts if part.thought]
    texts = [part.text for part in parts if part.text]
    calls = parts[-1].calls
    fates = ["thought" if calls or not part.text else "action" for part in parts[:-1]]
    return replace(
        parts[-1],
        text="\n\n".join(texts) or None,
        thought="\n\n".join(thoughts) or None,
        also=tuple((part.event, fate) for part, fate in zip(parts[:-1], fates, strict=True)),
    )


def _kind(line: dict[str, Any]) -> str | None:
    return text(line.get("say")) if line.get("type") == "say" else text(line.get("ask"))


def _is_told(kind: str | None) -> bool:
    return kind in (*_ACTIONS, *_OUTPUTS, *_PERSON, *_SPEECH, "reasoning", "error")


def _joined(chunks: list[Message]) -> Message:
    others = tuple((chunk.event, "observation") for chunk in chunks[1:])
    joined = "\n".join(chunk.text or "" for chunk in chunks)
    first = chunks[0]
    return Message(role="result", text=joined, event=first.event, also=others, time=chunks[-1].time)


def _object(value: Any) -> dict[str, Any]:
    try:
        return mapping(orjson.loads(value)) if isinstance(value, str) else {}
    except ValueError:
        return {}


def _call(kind: str, said: str) -> tuple[str, Any]:
    """Return name and arguments of a call as the screen shows it."""
    if kind == "command":
        return "execute_command", {"command": said}
    shown = _object(said)
    if kind == "tool" and isinstance(shown.get("tool"), str):
        return shown["tool"], {key: value for key, value in shown.items() if key != "tool"}
    return kind, shown or {"text": said}
