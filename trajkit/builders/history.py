"""How much history a prompt has: whole turns, newest first, or the agent's own window of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import orjson

from trajkit.builders.render import Rendered, Turn, chat
from trajkit.domains.base import OBSERVATION_MARK

HISTORIES = ("full", "window")
"""All turns so far, or those of the agent's own window."""


def fit(rendered: Rendered, turn: Turn, room: int, size: Callable[[str], int] = len) -> int | None:
    """Return how few of the oldest turns must go for the prompt of a turn to fit into `room`.

    Null when system prompt, task, first state and the turn's own action are already too long:
    those always stay. `size` measures one message, and may add what a chat template puts around
    it; with characters the sum is exact, with tokens as exact as messages counted one by one.
    Older turns are not looked at once one does not fit.
    """
    first = turn.number - 1
    room -= sum(size(one.content) for one in chat(rendered, turn.step_index, skip=first))
    if room < 0:
        return None
    for past in reversed(rendered.turns[:first]):
        # Other calls of the same agent turn are not shown, and so take no room.
        if past.agent_turn < turn.agent_turn:
            action = rendered.user_text(past, first=False)
            if past.observation is None:
                room -= size(f"{action}\n\n")
            else:
                room -= size(action) + size(OBSERVATION_MARK + past.observation)
            if room < 0:
                return first
        first = past.number - 1
    return first


def window_start(episode: Mapping[str, Any], step_index: int) -> int:
    """Return the step with which the window of the agent's context begins that a step lies in.

    Agents compact long sessions: what came before is gone for them but for a summary of their own.
    A log that tells so has `meta.context_windows`; without it there is one window, from step 0.

    >>> window_start({"meta": '{"context_windows": [0, 3]}'}, 4)
    3
    """
    return max((start for start in _starts(episode) if start <= step_index), default=0)


def windows(episode: Mapping[str, Any], n_steps: int) -> list[range]:
    """Return the steps of each window of the agent's context, in order; all steps are in one.

    >>> windows({"meta": '{"context_windows": [0, 3]}'}, 5)
    [range(0, 3), range(3, 5)]
    """
    starts = [start for start in _starts(episode) if start < n_steps]
    return [range(*pair) for pair in pairwise([*starts, n_steps])]


def _starts(episode: Mapping[str, Any]) -> list[int]:
    """Return where windows begin, from 0 on."""
    meta = episode["meta"]
    if not meta or "context_windows" not in meta:
        return [0]
    told = orjson.loads(meta).get("context_windows")
    starts = told if isinstance(told, list) else []
    return sorted({0, *(start for start in starts if type(start) is int and start > 0)})
