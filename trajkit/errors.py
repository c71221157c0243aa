"""Errors a person can fix, as data: where, what, and the next move."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

MAX_QUOTED_CHARS = 80


def quote(value: object) -> str:
    """Return a value's `repr`, cut so that it fits an error message.

    `repr` also takes the teeth out of control characters that a log may hold.

    >>> quote("short")
    "'short'"
    >>> len(quote("x" * 1000))
    81
    """
    text = repr(value)
    return text if len(text) <= MAX_QUOTED_CHARS else text[:MAX_QUOTED_CHARS] + "…"


def alternatives(names: Iterable[str]) -> str:
    """Return a closed set of names as a person would list it.

    >>> alternatives(["b", "a"])
    'a, b'
    """
    return ", ".join(sorted(names))


# Not frozen: a frozen exception cannot take the traceback that `with` sets on it.
@dataclass(eq=False)
class TrajkitError(Exception):
    """Something the person at the keyboard can put right.

    Anything else that is raised is a bug in trajkit and keeps its traceback.

    >>> print(TrajkitError("runs/a.jsonl:17", "is not JSON", "see rejects.parquet"))
    runs/a.jsonl:17: is not JSON
    Hint: see rejects.parquet
    """

    where: str
    """File, line, option or column: the place to look at."""
    what: str
    """What is wrong there."""
    hint: str = ""
    """The next move."""

    def __str__(self) -> str:
        """Return `where: what`, and the hint on a line of its own."""
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text}\nHint: {self.hint}" if self.hint else text

    def __reduce__(self) -> tuple[type[TrajkitError], tuple[str, str, str]]:
        """Return what rebuilds the error in another process."""
        return type(self), (self.where, self.what, self.hint)
