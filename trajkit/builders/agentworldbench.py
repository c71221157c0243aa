"""Benchmark rows in the form of AgentWorldBench: one row for each turn that may be a target.

Files `<domain>_test.jsonl`. A row holds all turns of its episode in `prompt` and `response` and
says with `turn_idx` (from 1) which one to predict: what lies behind it is for the judge, never for
the model. A step that nothing answered stands in the prompt of the next one that was. Beside the
benchmark's own keys a row has `trajectory_id` and `step_index`, which lead back to the store.

Source: the row format of AgentWorldBench; the system text is variant v0.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from trajkit.builders import render
from trajkit.builders.examples import episodes
from trajkit.builders.splits import SPLITS, Splits
from trajkit.domains.base import OBSERVATION_MARK
from trajkit.errors import TrajkitError, alternatives
from trajkit.model import DOMAINS
from trajkit.progress import Progress
from trajkit.report import Report, under
from trajkit.store import Store, StoreWriter, inputs_of, iterate_parts, open_writer
from trajkit.tables import write_atomically

VARIANT = "v0"
SIDES: dict[str, tuple[str, ...]] = {
    "all": SPLITS,
    "held-out": ("validation", "test"),
    **{side: (side,) for side in SPLITS},
}
"""Choices of `sides`, and the sides of groups they take."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    sides: tuple[str, ...]
    splits: Splits


def build_bench(
    store: str | Path,
    out: str | Path,
    *,
    per_episode: int | None = None,
    sides: str = "all",
    splits: Splits | None = None,
    overwrite: bool = False,
    quiet: bool = False,
) -> Report:
    """Return the report of writing one row for each target of the held-out episodes.

    `read` counts the steps that may be targets. `sides` says from which groups: `all`, `held-out`
    (validation and test), or one side; with the `splits` that the training rows were built with, a
    benchmark then holds only groups that training does not.
    `per_episode` bounds the rows of an episode, since each repeats it whole; which ones are taken
    depends on their ids alone. Holds one part at a time.

    Raises TrajkitError for an unknown side or a bound that is none, or a store without transitions.
    """
    if sides not in SIDES:
        raise TrajkitError("--sides", f"no side {sides!r}", f"one of {alternatives(SIDES)}")
    splits = splits or Splits()
    if per_episode is not None and per_episode < 1:
        raise TrajkitError("--per-episode", f"{per_episode} is no number of rows", "give 1 or more")
    source = Store(store).require("trajectories", "steps", "transitions")
    report = Report("build-bench", out)
    writer = open_writer(
        out,
        kind="bench",
        stage="build-bench",
        options={"per_episode": per_episode, "sides": sides} | asdict(splits),
        inputs=inputs_of(source),
        overwrite=overwrite,
    )
    parts = source.parts()
    wanted = _Wanted(SIDES[sides], splits)
    with Progress("build-bench", len(parts), "parts", quiet=quiet) as progress:
        for part in iterate_parts(source, writer):
            writer.mark(part, _write_part(source, part, writer, per_episode, wanted))
            progress.advance()
    _gather(writer, parts)
    totals = writer.counts
    report.read = totals["read"]
    report.kept = report.written = totals["kept"]
    report.dropped = under(totals, "dropped")
    report.extra["episodes"] = totals["episodes"]
    report.extra["by_domain"] = under(totals, "domain")
    report.extra["control_tokens_escaped"] = totals["control_tokens"]
    if report.kept == 0:
        report.warnings.append("no step may be a target; see `skip_reason` in the transitions")
    return report.finish(writer)


def _write_part(
    source: Store, part: str, writer: StoreWriter, per_episode: int | None, wanted: _Wanted
) -> Counter[str]:
    """Return the counts of one part after writing its rows, domain by domain."""
    counts: Counter[str] = Counter()
    lines: dict[str, list[bytes]] = {}
    for episode, steps in episodes(source, part):
        targets = [step["step_index"] for step in steps if step["target"]]
        counts["read"] += len(targets)
        if not targets:
            continue
        side = wanted.splits.side(steps[0]["split_group"])
        if side not in wanted.sides:
            counts[f"dropped.{side or 'other_pool'}_group"] += len(targets)
            continue
        chosen = _chosen(episode["trajectory_id"], targets, per_episode)
        if len(chosen) < len(targets):
            counts["dropped.over_episode_limit"] += len(targets) - len(chosen)
        rendered = render.render(episode, steps, VARIANT)
        counts["episodes"] += 1
        counts["control_tokens"] += rendered.n_control_tokens
        for row in rows(episode, rendered, chosen):
            lines.setdefault(episode["domain"], []).append(orjson.dumps(row) + b"\n")
            counts["kept"] += 1
            counts[f"domain.{episode['domain']}"] += 1
    for domain, written in lines.items():
        write_atomically(writer.marks / f"{part}.{domain}.jsonl", b"".join(written))
    return counts


def _chosen(trajectory_id: str, targets: Sequence[int], limit: int | None) -> set[int]:
    """Return the targets to write: those first in an order that only ids decide."""

    def draw(step_index: int) -> str:
        return hashlib.sha256(f"{trajectory_id} {step_index}".encode()).hexdigest()

    return set(sorted(targets, key=draw)[:limit])


def rows(
    episode: Mapping[str, Any], rendered: render.Rendered, targets: set[int]
) -> Iterator[dict[str, Any]]:
    """Give the rows of an episode, one for each target in order."""
    prompts: list[str] = []
    responses: list[str] = []
    asked: list[int] = []
    pending: list[str] = []
    for place, turn in enumerate(rendered.turns):
        pending.append(rendered.user_text(turn, first=place == 0))
        if turn.observation is not None:
            prompts.append("\n\n".join(pending))
            responses.append(OBSERVATION_MARK + turn.observation)
            asked.append(turn.step_index)
            pending = []
    for number, step_index in enumerate(asked, 1):
        if step_index in targets:
            yield {
                "task": episode["domain"],
                # 52 bits: a number that every JSON reader keeps exactly.
                "id": int(episode["trajectory_id"][:13], 16),
                "prompt": prompts,
                "response": responses,
                "current_prompt": prompts[number - 1],
                "system_str": rendered.system,
                "turn_idx": number,
                "total_turns": len(prompts),
                "trajectory_id": episode["trajectory_id"],
                "step_index": step_index,
            }


def _gather(writer: StoreWriter, parts: Sequence[str]) -> None:
    """Join the rows of all parts, one file for each domain; none for a domain without rows."""
    for domain in DOMAINS:
        target = writer.path / f"{domain}_test.jsonl"
        pieces = [writer.marks / f"{part}.{domain}.jsonl" for part in parts]
        found = [piece for piece in pieces if piece.is_file()]
        if not found:
            target.unlink(missing_ok=True)
            continue
        unfinished = writer.marks / target.name
        with open(unfinished, "wb") as joined:
            for piece in found:
                with open(piece, "rb") as file:
                    while block := file.read(1 << 20):
                        joined.write(block)
        unfinished.replace(target)
