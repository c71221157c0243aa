"""What the two event logs of OpenHands share: calls of one reply, and what a condensation hides.

Used by the adapters `openhands` and `openhands-sdk`, whose docstrings say what the formats are.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from trajkit.adapters.messages import Folded

Event = TypeVar("Event", bound=Hashable)

CUT = ("[... Observation truncated due to length ...]", "<response clipped>")
"""What the harness leaves where it cut an observation."""


def by_reply(replies: Sequence[tuple[Event, str | None]]) -> list[list[Event]]:
    """Return events that hold a call, grouped by the reply of the model that they came with.

    Only neighbours make a group: a provider may use an id again later.

    >>> by_reply([(1, "a"), (2, "a"), (3, None), (4, None), (5, "a")])
    [[1, 2], [3], [4], [5]]
    """
    groups: list[list[Event]] = []
    last: str | None = None
    for event, reply in replies:
        if reply is not None and reply == last:
            groups[-1].append(event)
        else:
            groups.append([event])
        last = reply
    return groups


@dataclass(slots=True)
class Condensations:
    """Condensations of a stream: the log keeps the events that the agent no longer saw."""

    calls: dict[str, list[str]] = field(default_factory=dict)
    """Ids of the events that went into a message, by the message's key."""
    found: list[tuple[str, frozenset[str], str | None]] = field(default_factory=list)
    """Id of each condensation, ids of the events it forgets, and its summary."""

    def add(self, id_: str, forgotten: Iterable[Any], summary: str | None) -> None:
        """Note a condensation."""
        self.found.append((id_, frozenset(str(other) for other in forgotten), summary))

    def meta(self, folded: Folded) -> list[dict[str, Any]] | None:
        """Return which steps each one hides from the agent, and the step that is its summary.

        A summary that came before the first step stands here as text.
        """
        steps: dict[str, int] = {}
        seen: dict[str, int] = {}
        for number, key in enumerate(folded.step_keys):
            if key is not None:
                nth = seen[key] = seen.get(key, -1) + 1
                ids = self.calls.get(key, [key])
                steps[ids[min(nth, len(ids) - 1)]] = number
        told = []
        for id_, forgotten, summary in self.found:
            entry: dict[str, Any] = {
                "summary_step": steps.get(id_),
                "forgotten_steps": sorted(n for other, n in steps.items() if other in forgotten),
            }
            told.append(entry if id_ in steps else entry | {"summary": summary})
        return told or None


def is_cut(text: str | None) -> bool:
    """Return whether the harness cut an observation."""
    return text is not None and any(mark in text for mark in CUT)
