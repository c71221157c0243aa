"""What became of each event of a raw record: the account behind the loss report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Literal

Fate = Literal["action", "observation", "thought", "context"]

FATES: tuple[Fate, ...] = ("action", "observation", "thought", "context")
_RANK = {fate: rank for rank, fate in enumerate(FATES)}


class Ledger:
    """Gives every source event one fate: what it became, or why it was left out.

    An event is the smallest thing a log writes down for itself: a line, a message, a step record.
    The first of action, observation, thought and context that it reached is its fate. An event
    that was announced and never spoken of again counts as left out for the reason `other`.

    >>> ledger = Ledger()
    >>> ledger.expect(range(3))
    >>> ledger.became(0, "context")
    >>> ledger.left_out(1, "progress")
    >>> dict(ledger.fates()), dict(ledger.reasons())
    ({'context': 1}, {'progress': 1, 'other': 1})
    """

    __slots__ = ("_fates", "_reasons")

    def __init__(self) -> None:
        self._fates: dict[Hashable, Fate] = {}
        self._reasons: dict[Hashable, str] = {}

    def expect(self, events: Iterable[Hashable]) -> None:
        """Announce events; each must be spoken of, or it is left out for the reason `other`."""
        for event in events:
            self._reasons.setdefault(event, "other")

    def became(self, event: Hashable, fate: Fate) -> None:
        """Note that an event is kept as this, or as this too."""
        held = self._fates.get(event)
        if held is None or _RANK[fate] < _RANK[held]:
            self._fates[event] = fate

    def left_out(self, event: Hashable, reason: str) -> None:
        """Note that an event is in no column, with a stable reason slug."""
        self._reasons[event] = reason

    def leave_the_rest(self, reason: str) -> None:
        """Give every event without a fate this reason instead of `other`."""
        for event, held in self._reasons.items():
            if held == "other":
                self._reasons[event] = reason

    def fates(self) -> Counter[str]:
        """Return how many events became what."""
        return Counter(self._fates.values())

    def reasons(self) -> Counter[str]:
        """Return how many events were left out, by reason."""
        return Counter(r for event, r in self._reasons.items() if event not in self._fates)
