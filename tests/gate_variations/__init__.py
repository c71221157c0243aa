"""Answers with a known verdict, made from recorded transitions: what the gate is measured with.

A kind of variation is right or wrong by how it was made, and knows nothing of the gate's own
rules. Domain modules add kinds to those that every domain has; each gives what it can make of a
case, so that a kind may be missing where there is nothing to vary.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from pathlib import Path

from trajkit.builders.examples import episodes
from trajkit.fidelity.check import case
from trajkit.fidelity.findings import Case
from trajkit.filters import filter_episodes
from trajkit.ingest import ingest
from trajkit.store import Store
from trajkit.transitions import transitions

HELD_OUT_SHARE = 3
"""One trajectory in this many is kept out of all tuning."""
ACCEPT = {
    "as_recorded": "the observation itself",
    "metadata_redrawn": "runtime metadata drawn anew",
    "content_varied": "pre-existing content plausibly varied",
}
REFUSE = {
    "other_step": "another step's observation",
    "stale_copy": "the state before the action once more",
    "outcome_swapped": "success told as failure, or failure as success",
    "value_changed": "one derivable number, path or name changed",
    "lines_dropped": "lines left out of what is derivable",
    "self_praise": "praise of itself added",
    "other_format": "the same content in another form",
    "answer_leaked": "the answer of the search given away",
}
KINDS = ACCEPT | REFUSE


@dataclass(frozen=True, slots=True)
class Variation:
    """One answer and the verdict it deserves."""

    kind: str
    """One of `KINDS`."""
    text: str


@dataclass(frozen=True, slots=True)
class Sample:
    """One recorded transition."""

    case: Case
    """Its prediction is the recorded observation."""
    trajectory_id: str
    held_out: bool
    others: Sequence[str]
    """Observations of other steps of the domain, in an order of their own."""
    before: str | None
    """The last observation before the action, or the initial state."""

    def random(self) -> random.Random:
        """Return dice that fall the same in every run."""
        return random.Random(f"{self.trajectory_id}:{len(self.case.history)}:{self.case.recorded}")


def samples(folder: Path, logs: Sequence[Path], most: int = 200) -> Iterator[Sample]:
    """Give the targets of logs, at most so many a domain, from stores made below a folder.

    Whether a trajectory is held out follows from its content alone.
    """
    ingest(tuple(map(str, logs)), folder / "raw", quiet=True)
    filter_episodes(folder / "raw", folder / "filtered", quiet=True)
    transitions(folder / "filtered", folder / "cut", quiet=True)
    store = Store(folder / "cut")
    found: dict[str, list[tuple[str, str, Case]]] = {}
    for part in store.parts():
        for episode, steps in episodes(store, part):
            for step in steps:
                if step["target"]:
                    recorded = case(episode, steps, step["step_index"], step["observation"])
                    digest = sha256(
                        f"{episode['content_hash']}:{step['step_index']}".encode()
                    ).hexdigest()
                    own = (digest, episode["content_hash"], recorded)
                    found.setdefault(episode["domain"], []).append(own)
    for _, rows in sorted(found.items()):
        rows.sort(key=lambda row: row[0])
        for number, (_, content_hash, recorded) in enumerate(rows[:most]):
            others = [
                one.recorded
                for _, _, one in rows[number + 1 :] + rows[:number]
                if one.recorded.split() != recorded.recorded.split()
            ]
            past = [turn.observation for turn in recorded.history if turn.observation]
            yield Sample(
                case=recorded,
                trajectory_id=content_hash,
                held_out=int(content_hash[:8], 16) % HELD_OUT_SHARE == 0,
                others=others[:20],
                before=past[-1] if past else recorded.initial_state,
            )


def variations(sample: Sample) -> Iterator[Variation]:
    """Give all variations of a transition: those of every domain, then those of its own.

    An answer that is the recorded one but for white space is no wrong one and is left out.
    """
    recorded = sample.case.recorded
    for name in ("shared", sample.case.domain):
        module = import_module(f"gate_variations.{name}")
        for one in module.variations(sample):
            assert one.kind in KINDS
            if one.kind in ACCEPT or one.text.split() != recorded.split():
                yield one
