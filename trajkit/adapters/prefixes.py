"""Logs that write one record per model call, each with the whole talk so far: which to keep.

Used by every adapter of such a log. A talk that another one begins with adds nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from hashlib import sha256

from trajkit.model import Step


def longest(talks: Sequence[Sequence[str]]) -> list[int]:
    """Return for each talk the number of the one that holds it whole: its own, if it is kept.

    Of equal talks the last is kept. Compares hashes of beginnings: time and memory are linear in
    the messages given.

    >>> longest([["a"], ["a", "b"], ["c"], ["a", "b"]])
    [3, 3, 2, 3]
    """
    chains: list[list[bytes]] = []
    for talk in talks:
        state = sha256()
        chain = []
        for said in talk:
            state.update(len(said.encode()).to_bytes(8) + said.encode())
            chain.append(state.digest())
        chains.append(chain or [state.digest()])
    holder: dict[bytes, int] = {}
    found = [0] * len(talks)
    for number in sorted(range(len(talks)), key=lambda n: (len(chains[n]), n), reverse=True):
        found[number] = holder.setdefault(chains[number][-1], number)
        if found[number] == number:
            for digest in chains[number]:
                holder.setdefault(digest, number)
    return found


def mark_copies(steps: tuple[Step, ...], task: str | None, seen: set[Hashable]) -> tuple[Step, ...]:
    """Return the steps with those marked that an earlier talk of the task has; note the others.

    A harness that shortens the history begins a new talk with calls of the old one. Only calls with
    an id count, since others may be made twice.
    """
    marked = []
    own: set[Hashable] = set()
    for step in steps:
        if step.call_id is None:
            marked.append(step)
            continue
        name = (task, step.call_id, step.action, step.observation)
        copied = name in seen
        marked.append(replace(step, skip_reason="copied_context") if copied else step)
        own.add(name)
    seen.update(own)
    return tuple(marked)
