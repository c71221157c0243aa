"""Take secrets and personal data out of a store: placeholders stand where they stood.

Every text column is searched, JSON inside strings included. `<secret:1>`, `<email:1>`, `<user:1>`
(an account name in a path or a prompt) and `<phone:1>` are numbered within an episode, in order of
appearance, and the same value gets the same number in all of its steps, so that a world model
still sees that what was written is what was read. All other characters stay as they are: what
parsed before parses after. Ids stay; `content_hash` is that of the new text.

Lengths and statistics are taken by later stages, so scrub comes before `transitions`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl

from trajkit.errors import TrajkitError
from trajkit.model import Origin, Step, Trajectory, content_hash
from trajkit.parallel import Workers, rare_collections
from trajkit.progress import Progress
from trajkit.report import Report, under
from trajkit.secrets.masking import Masked, mask
from trajkit.store import Store, StoreWriter, inputs_of, iterate_parts, open_writer

EPISODE_COLUMNS = (
    "task",
    "agent_system_prompt",
    "action_space",
    "initial_state",
    "simulation_instruction",
    "meta",
    "exit_status",
    "agent",
    "model",
    "origin_path",
    "origin_key",
)
STEP_COLUMNS = ("thought", "action_name", "action", "observation", "error")
BATCH_BYTES = 16 << 20
"""Episodes are searched together until their text is as long as this."""


def scrub(
    store: str | Path,
    out: str | Path,
    *,
    workers: int = 1,
    overwrite: bool = False,
    quiet: bool = False,
) -> Report:
    """Return the report of masking secrets and personal data of a store into a new one.

    Nothing is dropped, nothing found is printed: the report counts by kind. Holds one part at a
    time in each worker; the number of workers never changes the output. Rejects, which may quote
    raw logs, are left behind, and so are tables derived from the episodes.

    Raises TrajkitError for a store that was cut into transitions already.
    """
    source = Store(store).require("trajectories", "steps")
    if "transitions" in source.tables():
        raise TrajkitError(
            str(store), "was cut into transitions already", "scrub the store they were made from"
        )
    report = Report("scrub", out)
    writer = open_writer(
        out,
        kind="store",
        stage="scrub",
        options={},
        inputs=inputs_of(source),
        overwrite=overwrite,
    )
    parts = source.parts()
    waiting = list(iterate_parts(source, writer))
    sender = replace(writer, counts=Counter())
    calls = [(source, sender, part) for part in waiting]
    with Progress("scrub", len(parts), "parts", quiet=quiet) as progress:
        progress.advance(len(parts) - len(waiting))
        with Workers(min(workers, len(waiting))) as pool:
            for part, counts in zip(waiting, pool.each(_scrub_part, calls), strict=True):
                writer.mark(part, counts)
                progress.advance()
    report.read = report.kept = report.written = writer.counts["read"]
    report.extra["steps"] = writer.counts["steps"]
    report.extra["changed"] = writer.counts["changed"]
    report.extra["found"] = under(writer.counts, "found")
    report.extra["replaced"] = under(writer.counts, "replaced")
    return report.finish(writer)


@rare_collections()
def _scrub_part(source: Store, writer: StoreWriter, part: str) -> Counter[str]:
    """Return the counts of one part after writing it, or linking it when nothing was found."""
    episodes, steps = source.read("trajectories", part), source.read("steps", part)
    counts: Counter[str] = Counter(read=episodes.height, steps=steps.height)
    edits = _Edits()
    for number, masked in enumerate(_masked(episodes, steps)):
        if masked.cells:
            counts["changed"] += 1
            edits.add(number, masked)
            counts.update({f"found.{group}": n for group, n in masked.distinct.items()})
            counts.update({f"replaced.{kind}": n for kind, n in masked.replaced.items()})
    if not counts["changed"]:
        for table in ("trajectories", "steps"):
            writer.link(source, table, part)
        return counts
    steps = edits.steps(steps, episodes)
    writer.write("trajectories", part, edits.episodes(episodes, steps))
    writer.write("steps", part, steps)
    return counts


def _masked(episodes: pl.DataFrame, steps: pl.DataFrame) -> Iterator[Masked]:
    """Give what to change in each episode, in order."""
    batch: list[list[str | None]] = []
    size = 0
    for cells in _cells(episodes, steps):
        batch.append(cells)
        size += sum(len(cell) for cell in cells if cell)
        if size >= BATCH_BYTES:
            yield from mask(batch)
            batch, size = [], 0
    yield from mask(batch)


def _cells(episodes: pl.DataFrame, steps: pl.DataFrame) -> Iterator[list[str | None]]:
    """Give all texts of each episode: its own columns, then those of its steps, row by row."""
    own = [episodes[name].to_list() for name in EPISODE_COLUMNS]
    of_steps = [steps[name].to_list() for name in STEP_COLUMNS]
    rows = _rows(episodes, steps)
    for number in range(episodes.height):
        cells = [column[number] for column in own]
        for row in rows[number]:
            cells += [column[row] for column in of_steps]
        yield cells


def _rows(episodes: pl.DataFrame, steps: pl.DataFrame) -> list[list[int]]:
    """Return the row numbers of the steps of each episode, in order of the steps."""
    ordered = steps.with_row_index("row").sort("trajectory_id", "step_index")
    grouped = ordered.group_by("trajectory_id", maintain_order=True).agg("row")
    rows: dict[str, list[int]] = dict(grouped.iter_rows())
    return [rows.get(identity, []) for identity in episodes["trajectory_id"].to_list()]


class _Edits:
    """New texts of a part by episode, on their way into its columns."""

    def __init__(self) -> None:
        self._by_episode: dict[int, dict[int, str]] = {}

    def add(self, episode: int, masked: Masked) -> None:
        self._by_episode[episode] = masked.cells

    def steps(self, steps: pl.DataFrame, episodes: pl.DataFrame) -> pl.DataFrame:
        rows = _rows(episodes, steps)
        width, own = len(STEP_COLUMNS), len(EPISODE_COLUMNS)
        texts: dict[str, dict[int, str]] = {}
        for episode, cells in self._by_episode.items():
            for cell, text in cells.items():
                if cell >= own:
                    nth, column = divmod(cell - own, width)
                    texts.setdefault(STEP_COLUMNS[column], {})[rows[episode][nth]] = text
        return _with_texts(steps, texts)

    def episodes(self, episodes: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
        texts: dict[str, dict[int, str]] = {}
        for episode, cells in self._by_episode.items():
            for cell, text in cells.items():
                if cell < len(EPISODE_COLUMNS):
                    texts.setdefault(EPISODE_COLUMNS[cell], {})[episode] = text
        changed = _with_texts(episodes, texts)
        all_rows = _rows(episodes, steps)
        rows = [row for number in sorted(self._by_episode) for row in all_rows[number]]
        known = steps[rows].select(_STEP_FIELDS).iter_rows(named=True)
        hashes = {
            number: _hash(changed.row(number, named=True), islice(known, len(all_rows[number])))
            for number in sorted(self._by_episode)
        }
        return _with_texts(changed, {"content_hash": hashes})


def _with_texts(frame: pl.DataFrame, texts: dict[str, dict[int, str]]) -> pl.DataFrame:
    columns = []
    for name, by_row in texts.items():
        values = frame[name].to_list()
        for row, text in by_row.items():
            values[row] = text
        columns.append(pl.Series(name, values, dtype=frame.schema[name]))
    return frame.with_columns(columns)


_STEP_FIELDS = tuple(field.name for field in fields(Step))


def _hash(row: dict[str, Any], steps: Iterable[dict[str, Any]]) -> str:
    """Return the content hash of an episode as its rows say it now."""
    own = ("domain", *EPISODE_COLUMNS[:5])
    episode = Trajectory(
        origin=Origin(path=row["origin_path"]),
        adapter=row["adapter"],
        steps=tuple(Step(**step) for step in steps),
        **{name: row[name] for name in own},
    )
    return content_hash(episode)
