"""Episodes with planted copies whose likeness is known, written straight into a store.

The lines are those of recorded logs, so that words and lengths are real; digits are left out, so
that the truth (`exact_similarity`: sets of five words, in plain Python) needs no normalising. All
episodes have a system prompt of 3,000 words and the same tool schemas.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import polars as pl

from trajkit.store import Store, open_writer
from trajkit.tables import TABLES, rows_frame

ROOT = Path(__file__).parent.parent
PART_EPISODES = 2_000
Steps = list[tuple[str, str]]


@dataclass
class Corpus:
    """What was planted."""

    pairs: list[tuple[str, str]] = field(default_factory=list)
    """Ids of an episode and its changed copy."""
    chains: list[tuple[str, str, str]] = field(default_factory=list)
    """A, B and C: neighbours are alike, the ends are not."""
    again: list[tuple[str, str]] = field(default_factory=list)
    """Copies that differ in case, layout and clock only."""
    begun: list[tuple[str, str]] = field(default_factory=list)
    """Episodes and a longer one that begins with them."""


def recorded_lines() -> list[str]:
    """Return lines of the recorded logs: ASCII, no digits, and no five words in two of them."""
    found: set[str] = set()
    for place in (ROOT / "examples" / "logs", ROOT / "tests" / "golden"):
        for path in sorted(place.rglob("*.json*")):
            for text in _strings(path):
                found.update(
                    line
                    for line in text.split("\n")
                    if 20 <= len(line) <= 300 and line.isascii() and not re.search(r"[0-9\r]", line)
                )
    seen: set[tuple[str, ...]] = set()
    lines = []
    for line in sorted(found):
        runs = shingle_set([("", line)])
        if seen.isdisjoint(runs):
            seen |= runs
            lines.append(line)
    return lines


def _strings(path: Path) -> Iterator[str]:
    data = path.read_text(encoding="utf-8", errors="replace")
    for line in [data] if path.suffix == ".json" else data.split("\n"):
        try:
            waiting: list[Any] = [json.loads(line)]
        except ValueError:
            continue
        while waiting:
            value = waiting.pop()
            if isinstance(value, str):
                yield value
            elif isinstance(value, dict | list):
                waiting.extend(value.values() if isinstance(value, dict) else value)


class Maker:
    """Makes episodes of about 5 kB, and copies of them."""

    def __init__(self, seed: int = 0, n_chars: int = 5_000) -> None:
        self._random = random.Random(seed)
        self._lines = recorded_lines()
        self._n_chars = n_chars
        self._n_new = 0

    def new_word(self) -> str:
        """Return a word that stands nowhere else."""
        self._n_new += 1
        number, letters = self._n_new, ""
        while number:
            number, rest = divmod(number, 20)
            letters += "ghijklmnopqrstuvwxyz"[rest]
        return f"q{letters}"

    def episode(self) -> Steps:
        """Return the steps of a new episode."""
        steps, size = [], 0
        while size < self._n_chars:
            lines = self._random.choices(self._lines, k=self._random.randint(6, 16))
            command = {"command": f"{self.new_word()} {lines[0][:60]}"}
            action = json.dumps({"name": "bash", "arguments": command})
            observation = "\n".join([self.new_word(), *lines[1:], self.new_word()])
            steps.append((action, observation))
            size += len(action) + len(observation)
        return steps

    def changed(self, steps: Steps, likeness: float) -> Steps:
        """Return a copy with words replaced, of about this Jaccard similarity."""
        size = len(shingle_set(steps))
        n_changes = max(1, round(size * (1 - likeness) / (5 * (1 + likeness))))
        places = [
            (step, match.start(), match.end())
            for step, (_, observation) in enumerate(steps)
            for match in re.finditer(r"\w+", observation)
        ]
        # Every fifth word at most: each change costs five shingles of its own.
        chosen = self._random.sample(range(0, len(places), 5), min(n_changes, len(places) // 5))
        texts = [observation for _, observation in steps]
        for place in sorted(chosen, reverse=True):
            step, start, end = places[place]
            texts[step] = texts[step][:start] + self.new_word() + texts[step][end:]
        return [(action, text) for (action, _), text in zip(steps, texts, strict=True)]

    def again(self, steps: Steps) -> Steps:
        """Return a copy with another layout and case."""
        return [(action, text.replace("\n", "  \r\n").upper()) for action, text in steps]


def shingle_set(steps: Steps) -> set[tuple[str, ...]]:
    """Return the runs of five words of an episode."""
    text = "\n".join(f"{action}\n{observation}" for action, observation in steps).lower()
    words = re.findall(r"\w+", text)
    return {tuple(words[k : k + 5]) for k in range(len(words) - 4)}


def exact_similarity(one: Steps, other: Steps) -> float:
    """Return the Jaccard similarity of two episodes."""
    a, b = shingle_set(one), shingle_set(other)
    return len(a & b) / len(a | b)


def write_corpus(
    folder: Path, n_episodes: int, *, seed: int = 0, n_chars: int = 5_000, prompt: bool = True
) -> Corpus:
    """Return what is planted in a store of so many episodes after writing it.

    Of sixty made, twelve have a changed copy at 0.5 to 1.0, one a copy of another layout, one goes
    on longer, and one begins a chain of three.
    """
    maker, planted = Maker(seed, n_chars), Corpus()
    draw = random.Random(seed + 1)
    writer = _writer(folder)
    rows: list[tuple[str, Steps]] = []
    bare = {} if prompt else {"agent_system_prompt": "", "action_space": "[]"}
    number = n_parts = 0

    def add(steps: Steps) -> str:
        nonlocal number
        number += 1
        rows.append((f"{number:024x}", steps))
        return rows[-1][0]

    while number < n_episodes:
        steps = maker.episode()
        first = add(steps)
        kind = draw.randrange(60)
        if kind < 12:
            planted.pairs.append((first, add(maker.changed(steps, draw.uniform(0.5, 1)))))
        elif kind == 12:
            planted.again.append((first, add(maker.again(steps))))
        elif kind == 13:
            planted.begun.append((first, add(steps + maker.episode())))
        elif kind == 14:
            middle = maker.changed(steps, 0.88)
            planted.chains.append((first, add(middle), add(maker.changed(middle, 0.88))))
        if len(rows) >= PART_EPISODES:
            _write_part(writer, n_parts, rows, **bare)
            n_parts += 1
    if rows:
        _write_part(writer, n_parts, rows, **bare)
    writer.finish({"stage": "ingest", "read": number, "kept": number}, {})
    return planted


def write_episodes(folder: Path, episodes: list[tuple[str, Steps]], **columns: Any) -> Path:
    """Return the folder after writing a store of these episodes in one part."""
    writer = _writer(folder)
    n_episodes = len(episodes)
    _write_part(writer, 0, episodes, **columns)
    writer.finish({"stage": "ingest", "read": n_episodes, "kept": n_episodes}, {})
    return folder


def _writer(folder: Path) -> Any:
    return open_writer(
        folder,
        kind="store",
        stage="ingest",
        options={},
        inputs=[{"name": folder.name, "sha256": ""}],
        overwrite=True,
    )


PROMPT = " ".join(f"rule{n % 700} says never{n % 30}" for n in range(1_000))
TOOLS = json.dumps([{"name": "bash", "description": PROMPT, "parameters": {"type": "object"}}])


def _write_part(writer: Any, number: int, rows: list[tuple[str, Steps]], **columns: Any) -> None:
    trajectories, steps = [], []
    for id_, episode in rows:
        digest = sha256(json.dumps(episode).encode()).hexdigest()[:32]
        given = {
            name: value[id_] if isinstance(value, dict) else value
            for name, value in columns.items()
            if name != "skip_reason"
        }
        trajectories.append(
            dict.fromkeys(TABLES["trajectories"].names)
            | {
                "trajectory_id": id_,
                "content_hash": digest,
                "domain": "terminal",
                "source": "made",
                "adapter": "made",
                "origin_path": "made",
                "task": f"task {id_}",
                "agent_system_prompt": PROMPT,
                "action_space": TOOLS,
                "outcome_status": "unknown",
                "n_steps": len(episode),
            }
            | given
        )
        reasons = columns.get("skip_reason", {}).get(id_, [None] * len(episode))
        steps.extend(
            dict.fromkeys(TABLES["steps"].names)
            | {
                "trajectory_id": id_,
                "step_index": index,
                "domain": "terminal",
                "turn": index,
                "action_kind": "tool_call",
                "action_name": "bash",
                "action": action,
                "action_valid": True,
                "observation": observation,
                "observation_kind": "text",
                "observation_source": "environment",
                "truncated": False,
                "skip_reason": reasons[index],
            }
            for index, (action, observation) in enumerate(episode)
        )
    part = f"part-{number:05d}"
    writer.write("trajectories", part, rows_frame(trajectories, TABLES["trajectories"]))
    writer.write("steps", part, rows_frame(steps, TABLES["steps"]))
    writer.mark(part, {"kept": len(rows)})
    rows.clear()


def read_steps(store: Path) -> dict[str, Steps]:
    """Return the steps of every episode of a store."""
    found: dict[str, Steps] = {}
    for part in Store(store).parts():
        frame = Store(store).read("steps", part)
        for id_, action, observation in frame.select(
            "trajectory_id", "action", "observation"
        ).iter_rows():
            found.setdefault(id_, []).append((action, observation))
    return found


def kept_ids(store: Path) -> set[str]:
    """Return the ids of the episodes of a store."""
    opened = Store(store)
    return {
        id_ for part in opened.parts() for id_ in opened.read("trajectories", part)["trajectory_id"]
    }


def quality(raw: Path, unique: Path, planted: Corpus) -> dict[str, float]:
    """Return precision and recall of a run against the truth, and how many pairs they rest on."""
    texts, kept = read_steps(raw), kept_ids(unique)
    pairs = pl.read_parquet(unique / "duplicates.parquet").filter(pl.col("method") == "near")
    pairs = pairs.filter(pl.col("level") == "trajectory")
    exact = [
        exact_similarity(texts[one], texts[other])
        for one, other in pairs.select("trajectory_id", "kept_id").iter_rows()
    ]
    alike = [
        not {one, other} <= kept
        for one, other in planted.pairs
        if exact_similarity(texts[one], texts[other]) >= 0.85
    ]
    return {
        "near_pairs": len(exact),
        "precision": sum(value >= 0.8 for value in exact) / max(1, len(exact)),
        "worst_error": max(
            (abs(a - b) for a, b in zip(exact, pairs["exact_similarity"], strict=True)), default=0.0
        ),
        "pairs_over_085": len(alike),
        "recall": sum(alike) / max(1, len(alike)),
    }
