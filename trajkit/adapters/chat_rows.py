"""Chat rows of data sets: the turns of a row, whichever names it has for roles and texts.

Rows differ in the name of the list (`conversations`, `messages`), of the role (`from`, `role`), of
the text (`value`, `content`) and of the speakers (`human`, `gpt`). What stands in the texts is
the business of an adapter; here a row only becomes `Turn`s, and messages become an episode.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import orjson

from trajkit.adapters.content import content_text
from trajkit.adapters.fields import meta_text, no_action
from trajkit.adapters.messages import Folded, Message, fold
from trajkit.model import Record, Reject, Trajectory

Role = Literal["system", "user", "assistant", "call", "result"]

_ROLES: dict[str, Role] = {
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("user", "human"), "user"),
    **dict.fromkeys(("assistant", "gpt", "model", "chatgpt", "bing", "bard", "ai"), "assistant"),
    **dict.fromkeys(("function_call", "tool_call"), "call"),
    **dict.fromkeys(("observation", "tool", "function", "function_response"), "result"),
    **dict.fromkeys(("tool_response", "ipython"), "result"),
}
LISTS = ("conversations", "messages", "conversation")
_FORM_TURNS = 16


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a chat row."""

    number: int
    """Its index in the list: the event of the ledger."""
    role: Role | None
    """Who spoke; null for a role nobody knows, or no turn at all."""
    text: str
    """What was said, as logged."""
    media: str | None = None
    """JSON text: pictures left out of the text."""
    fields: dict[str, Any] = field(default_factory=dict)
    """The turn as logged."""


def chat_list(value: Any, names: tuple[str, ...] = LISTS) -> list[Any] | None:
    """Return the list of turns of a row, or null; some rows hold it as JSON text."""
    if not isinstance(value, dict):
        return None
    for name in names:
        turns = value.get(name)
        if isinstance(turns, str) and turns[:20].lstrip().startswith("["):
            turns = _parsed(turns)
        if isinstance(turns, list) and turns:
            return turns
    return None


@lru_cache(maxsize=2)
def _parsed(turns: str) -> Any:
    """Return the value of JSON text; a row is asked for by many adapters one after the other."""
    try:
        return orjson.loads(turns)
    except ValueError:
        return None


def turns(items: list[Any]) -> Iterator[Turn]:
    """Give the turns of a list, one an item; a broken item is a turn without a role."""
    for number, item in enumerate(items):
        if not isinstance(item, dict):
            yield Turn(number, None, "")
            continue
        name = item.get("from", item.get("role"))
        text, media = content_text(item.get("value", item.get("content")))
        role = _ROLES.get(name) if isinstance(name, str) else None
        yield Turn(number, role, text or "", media, item)


def read(record: Record, names: tuple[str, ...] = LISTS) -> list[Turn]:
    """Return the turns of a record's row; a broken one is left out, and counted."""
    found = list(turns(chat_list(record.value, names) or []))
    record.ledger.expect(turn.number for turn in found)
    for turn in found:
        if turn.role is None:
            record.ledger.left_out(turn.number, "unknown_event")
    return [turn for turn in found if turn.role is not None]


def head(value: Any, names: tuple[str, ...] = LISTS) -> list[Turn]:
    """Return the first turns of a row, where its form shows; none when it is no chat row.

    The first two turns must have roles that are known.
    """
    items = chat_list(value, names)
    found = list(turns(items[:_FORM_TURNS])) if items else []
    if any(turn.role is None for turn in found[:2]):
        return []
    return [turn for turn in found if turn.role is not None]


def said(found: Iterable[Turn], *roles: Role) -> Iterator[str]:
    """Give the texts of the turns of some roles."""
    return (turn.text for turn in found if turn.role in roles)


def heard(turn: Turn, **fields: Any) -> Message:
    """Return a turn that calls nothing as a message, its text as it is unless `fields` has it."""
    roles: dict[Role, Literal["system", "user", "assistant", "result"]] = {
        "call": "assistant",
        "result": "result",
        "system": "system",
        "user": "user",
        "assistant": "assistant",
    }
    fields = {"text": turn.text, "media": turn.media, "event": turn.number} | fields
    return Message(role=fields.pop("role", roles[turn.role or "user"]), **fields)


def observed(turn: Turn, text: str, **fields: Any) -> Message:
    """Return a user's turn as the result it holds: this text of it."""
    return heard(turn, role="result", text=text, **fields)


def episode(
    record: Record,
    adapter: str,
    messages: Iterable[Message],
    *,
    meta: dict[str, Any] | None = None,
    **fields: Any,
) -> Iterator[Trajectory | Reject]:
    """Give the episode that messages tell, or the reject of mere talk.

    `fields` are fields of the trajectory that the row states; else they come from the messages.
    """
    folded = fold(messages, record.ledger)
    if not folded.acts:
        yield no_action(record)
        return
    yield from_folded(record, adapter, folded, meta or {}, fields)


def from_folded(
    record: Record, adapter: str, folded: Folded, meta: dict[str, Any], fields: dict[str, Any]
) -> Trajectory:
    """Return a folded chat as a trajectory; `fields` that are null do not count."""
    told = {
        "origin": record.origin,
        "task": folded.task,
        "agent_system_prompt": folded.agent_system_prompt,
        "steps": folded.steps,
        "meta": meta_text(folded, **meta),
    }
    stated = {name: value for name, value in fields.items() if value is not None}
    return Trajectory(adapter=adapter, **(told | stated))
