"""Whether a row fits the window that a trainer cuts rows to."""

from __future__ import annotations

from typing import Literal

Fate = Literal["no_target", "cut_target"]


def fate(n_prompt_tokens: int, n_completion_tokens: int, max_tokens: int) -> Fate | None:
    """Return why a row must not be written, or null when it fits the window.

    Trainers keep the first `max_tokens` tokens of a row and say nothing. `no_target`: not one
    token of the completion is left, so the row trains at zero loss, or has no completion at all.
    `cut_target`: the completion loses its end, and with it the end-of-turn token, so the row
    teaches never to stop. Both numbers count what the chat template adds.

    >>> fate(40, 24, 64), fate(40, 25, 64), fate(64, 1, 64), fate(40, 0, 64)
    (None, 'cut_target', 'no_target', 'no_target')
    """
    if n_completion_tokens <= 0 or n_prompt_tokens >= max_tokens:
        return "no_target"
    return "cut_target" if n_prompt_tokens + n_completion_tokens > max_tokens else None
