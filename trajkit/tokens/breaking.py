"""Break up the tokens of one vocabulary where a text shows them, so that they stay text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from trajkit.control_tokens import BREAK, any_of, escape


class Breaker:
    """Breaks the strings of a vocabulary's tokens after their first character.

    Of tokens that `control_tokens.escape` knows only whole ones are broken: it had its turn on the
    text before, and what it broke is not broken again. All others gain a break whether they have
    one or not, so that `whole` gives back what stood in the text.
    """

    def __init__(self, tokens: Iterable[str]) -> None:
        """Take the tokens; there may be thousands."""
        known: list[str] = []
        own: list[str] = []
        for token in sorted(set(tokens)):
            (known if escape(token)[1] else own).append(token)
        self._known = _pattern(known)
        self._own = _pattern(own, f"{BREAK}*")
        self._own_broken = _pattern(own, f"{BREAK}+")
        self._marks = sorted({token[0] for token in (*known, *own)})

    def broken(self, text: str) -> tuple[str, int]:
        """Return the text without a whole token of the vocabulary, and how many were broken."""
        if not any(mark in text for mark in self._marks):
            return text, 0
        text, n_known = self._known.subn(lambda found: escape(found.group())[0], text)
        text, n_own = self._own.subn(lambda found: _with_break(found.group()), text)
        return text, n_known + n_own

    def whole(self, text: str) -> str:
        """Return the text in which `broken` broke the tokens that only this vocabulary has."""
        return self._own_broken.sub(lambda found: found.group().replace(BREAK, "", 1), text)


def _with_break(token: str) -> str:
    return token[0] + BREAK + token[1:]


def _pattern(tokens: Sequence[str], after_first: str = "") -> re.Pattern[str]:
    parts = [
        re.escape(first) + after_first + any_of(t[1:] for t in tokens if t[0] == first)
        for first in dict.fromkeys(token[0] for token in tokens)
    ]
    return re.compile("|".join(parts) or r"(?!)")
