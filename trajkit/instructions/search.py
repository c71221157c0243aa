"""What a simulated search is told: the question, its reference answer, and not to leak it.

The reference is what the log's own data set gives (`meta.answer` and the like), else the last
message of a run that the log calls a success. A run that failed, or of which nobody knows, has no
answer to refer to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from trajkit.instructions.facts import quoted

MAX_REFERENCE_CHARS = 300
MAX_QUESTION_CHARS = 500
MAX_OTHERS = 3
"""Further wordings of the answer that are named."""
_KEYS = (
    *("answer", "answers", "golden_answers", "gold_answer", "reference_answer", "ground_truth"),
    *("correct_answer", "target", "gts"),
)


def instruction(
    episode: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]
) -> tuple[str, tuple[str, ...]] | None:
    """Return the instruction for a search run and what it names; null without task or answer."""
    references = _references(episode, steps)
    question = " ".join((episode["task"] or "").split())
    if not references or not question:
        return None
    first, *others = references
    # The line of the answer comes first and is read by the gate: nothing of the log before it.
    lines = [
        "You know what the agent is after, so that all you show agrees with it.",
        f"Reference answer: {quoted(first)}",
    ]
    if others:
        lines.append(f"Also right: {', '.join(map(quoted, others[:MAX_OTHERS]))}")
    lines += [
        f"Target query: {quoted(_cut(question, MAX_QUESTION_CHARS))}",
        "Do not leak the reference answer. No address, title, snippet or page states it, or hints"
        " at it, because you know it; it stands only where a source that the agent itself asked"
        " for really says so. The agent is to find it by searching, reading and comparing.",
    ]
    return "\n".join(lines), ("reference_answer", "target_query")


def _references(episode: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the wordings of the right answer, the first one foremost."""
    try:
        meta = orjson.loads(episode["meta"] or "{}")
    except ValueError:
        meta = {}
    for key in _KEYS:
        found = [_cut(text, MAX_REFERENCE_CHARS) for text in _texts(meta.get(key))]
        if found:
            return list(dict.fromkeys(found))
    last = steps[-1]
    if episode["outcome_status"] == "success" and last["action_kind"] == "message":
        said = " ".join(last["action"].split())
        return [_cut(said, MAX_REFERENCE_CHARS)] if said else []
    return []


def _texts(value: Any) -> Iterator[str]:
    """Give the texts and numbers in nested lists, as one line each."""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        text = " ".join(str(value).split())
        if text:
            yield text
    elif isinstance(value, list):
        for one in value[: 2 * MAX_OTHERS]:
            yield from _texts(one)


def _cut(text: str, size: int) -> str:
    """Return a text, or its beginning up to a blank, with three dots."""
    if len(text) <= size:
        return text
    head = text[: size - 1]
    return (head.rpartition(" ")[0] or head) + "…"
