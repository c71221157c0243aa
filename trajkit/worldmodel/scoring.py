"""What it takes to score a text, the same for every engine: where it starts, what it sums to."""

from __future__ import annotations

import math
from collections.abc import Sequence

from trajkit.worldmodel.protocol import Scored, Scoring
from trajkit.worldmodel.reasoning import CLOSE, OPEN


def spoken(prefix: str, *, opened: bool | None) -> str:
    """Return a prefix as it goes on behind a prompt, which may have opened the thoughts.

    `opened` is that of `split_reasoning`.

    >>> spoken("<think>\\nls lists\\n</think>\\n\\n", opened=True)
    'ls lists\\n</think>\\n\\n'
    >>> spoken("the answer: ", opened=True)
    '</think>\\n\\nthe answer: '
    >>> spoken("the answer: ", opened=None)
    'the answer: '
    """
    if not opened:
        return prefix
    body = prefix.lstrip()
    if body.startswith(OPEN):
        return body[len(OPEN) :].removeprefix("\n")
    return f"{CLOSE}\n\n{prefix}"


def border(before: Sequence[int], whole: Sequence[int]) -> int:
    """Return where the tokens of a text leave those of its beginning.

    A token that holds the end of the beginning and the start of the rest counts with the rest.

    >>> border([5, 6, 7], [5, 6, 9, 8])
    2
    """
    same = 0
    for one, other in zip(before, whole, strict=False):
        if one != other:
            break
        same += 1
    return same


def scored(scoring: Scoring, logprobs: Sequence[float], seconds: float) -> Scored:
    """Return the sum over the tokens of a continuation."""
    total = math.fsum(logprobs)
    if not math.isfinite(total):
        return unscored(scoring, "call_failed", f"its log-probability is {total}", seconds=seconds)
    return Scored(key=scoring.key, logprob=total, n_tokens=len(logprobs), seconds=seconds)


def unscored(scoring: Scoring, failure: str, detail: str, *, seconds: float = 0.0) -> Scored:
    """Return what became of a text that was not scored."""
    return Scored(
        key=scoring.key, logprob=None, failure=failure, failure_detail=detail, seconds=seconds
    )
