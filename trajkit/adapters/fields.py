"""Fields of an untrusted log, read as the type they should have; any other type counts as none."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from trajkit.adapters.messages import Folded
from trajkit.model import Record, Reject, to_json_text


def text(value: Any) -> str | None:
    """Return a value that is text and not empty, else null."""
    return value if isinstance(value, str) and value else None


def mapping(value: Any) -> dict[str, Any]:
    """Return a value that is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def mappings(value: Any) -> list[dict[str, Any]]:
    """Return the objects of a list; anything but a list has none."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def integer(value: Any) -> int | None:
    """Return a value that is a whole number, else null.

    >>> integer(3), integer(True), integer("3")
    (3, None, None)
    """
    return value if type(value) is int else None


def quantity(value: Any) -> float | None:
    """Return a value that is a number, else null.

    >>> quantity(3), quantity(True), quantity("3")
    (3.0, None, None)
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else None


def first_text(values: Iterable[dict[str, Any]], *keys: str) -> str | None:
    """Return the first text that stands under one of some keys."""
    return next(
        (found for value in values for key in keys if (found := text(value.get(key)))), None
    )


def time_text(value: Any) -> str | None:
    """Return a logged time as text: as it is, or ISO 8601 when it counts seconds or milliseconds.

    >>> time_text("today"), time_text(1700000000), time_text(1700000000123)
    ('today', '2023-11-14T22:13:20Z', '2023-11-14T22:13:20.123000Z')
    """
    seconds = quantity(value)
    if seconds is None:
        return text(value)
    try:
        moment = datetime.fromtimestamp(seconds / 1000 if abs(seconds) > 1e11 else seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return str(value)
    return moment.isoformat().replace("+00:00", "Z")


def meta_text(folded: Folded, **fields: Any) -> str:
    """Return fields that are not null, and how results found their calls, as JSON text."""
    known = {name: value for name, value in fields.items() if value is not None}
    return to_json_text(known | {"linked_by": folded.linked_by})


def no_action(record: Record, reason: str = "no_action") -> Reject:
    """Return the reject of a session without any call or result, and account for its events."""
    record.ledger.leave_the_rest(reason)
    return Reject(
        origin=record.origin, reason=reason, message="a session without any tool call or result"
    )
