"""Global names of steps, so that a copy of a step in another file is known for one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

# Ids made by a server are longer; `call_1` or `msg_0001` are counters.
_GLOBAL_ID_CHARS = 16


def distinct(keys: Iterable[str | None]) -> tuple[str | None, ...]:
    """Return keys of which no two are equal: one line of a log may be several steps.

    The number of a repeated key is the same in every file that holds a copy of the line.

    >>> distinct(["a", "a", None, "b", "a"])
    ('a', 'a#1', None, 'b', 'a#2')
    """
    seen: Counter[str] = Counter()
    named: list[str | None] = []
    for key in keys:
        repeats = seen[key] if key is not None else 0
        named.append(f"{key}#{repeats}" if repeats else key)
        if key is not None:
            seen[key] += 1
    return tuple(named)


def global_id(value: object) -> str | None:
    """Return an id that means the same everywhere; a short one only counts within its file.

    >>> global_id("call_1"), global_id("call_QbW8mV0pXkT2")
    (None, 'call_QbW8mV0pXkT2')
    """
    return value if isinstance(value, str) and len(value) >= _GLOBAL_ID_CHARS else None
