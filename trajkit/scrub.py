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
from itertools import chain, islice
from pathlib import Path

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
    """Return the counts of one part after writing it; a table without a change is linked."""
    episodes, steps = source.read("trajectories", part), source.read("steps", part)
    counts: Counter[str] = Counter(read=episodes.height, steps=steps.height)
    rows = _rows(episodes, steps)
    edits = _Edits()
    for number, masked in enumerate(_masked(_cells(episodes, steps, rows))):
        if masked.cells:
            counts["changed"] += 1
            edits.add(number, rows[number], masked)
            counts.update({f"found.{group}": n for group, n in masked.distinct.items()})
            counts.update({f"replaced.{kind}": n for kind, n in masked.replaced.items()})
    if edits.of_steps:
        steps = _with_texts(steps, edits.of_steps)
        writer.write("steps", part, steps)
    else:
        writer.link(source, "steps", part)
    if counts["changed"]:
        episodes = _with_texts(episodes, edits.of_episodes)
        hashes = dict(_hashes(episodes, steps, {number: rows[number] for number in edits.changed}))
        writer.write("trajectories", part, _with_texts(episodes, {"content_hash": hashes}))
    else:
        writer.link(source, "trajectories", part)
    return counts


def _masked(texts: Iterable[list[bytes | None]]) -> Iterator[Masked]:
    """Give what to change in each episode, in order."""
    batch: list[list[bytes | None]] = []
    size = 0
    for cells in texts:
        batch.append(cells)
        size += sum(map(len, filter(None, cells)))
        if size >= BATCH_BYTES:
            yield from mask(batch)
            batch, size = [], 0
    yield from mask(batch)


def _cells(
    episodes: pl.DataFrame, steps: pl.DataFrame, rows: list[list[int]]
) -> Iterator[list[bytes | None]]:
    """Give all texts of each episode: its own columns, then those of its steps, row by row."""
    own = [episodes[name].cast(pl.Binary).to_list() for name in EPISODE_COLUMNS]
    of_steps = [steps[name].cast(pl.Binary).to_list() for name in STEP_COLUMNS]
    by_step = list(zip(*of_steps, strict=True))
    for texts, rows_of_steps in zip(zip(*own, strict=True), rows, strict=True):
        yield list(chain(texts, *(by_step[row] for row in rows_of_steps)))


def _rows(episodes: pl.DataFrame, steps: pl.DataFrame) -> list[list[int]]:
    """Return the row numbers of the steps of each episode, in order of the steps."""
    places = steps.select("trajectory_id", "step_index").with_row_index("row")
    ordered = places.sort("trajectory_id", "step_index")
    grouped = ordered.group_by("trajectory_id", maintain_order=True).agg("row")
    rows: dict[str, list[int]] = dict(grouped.iter_rows())
    return [rows.get(identity, []) for identity in episodes["trajectory_id"].to_list()]


class _Edits:
    """New texts of a part, on their way into its columns: by name of the column, then row."""

    def __init__(self) -> None:
        self.changed: list[int] = []
        self.of_episodes: dict[str, dict[int, str]] = {}
        self.of_steps: dict[str, dict[int, str]] = {}

    def add(self, episode: int, rows: list[int], masked: Masked) -> None:
        """Take the new texts of an episode, whose steps stand in these rows."""
        self.changed.append(episode)
        for cell, text in masked.cells.items():
            if cell < len(EPISODE_COLUMNS):
                self.of_episodes.setdefault(EPISODE_COLUMNS[cell], {})[episode] = text
            else:
                nth, column = divmod(cell - len(EPISODE_COLUMNS), len(STEP_COLUMNS))
                self.of_steps.setdefault(STEP_COLUMNS[column], {})[rows[nth]] = text


def _with_texts(frame: pl.DataFrame, texts: dict[str, dict[int, str]]) -> pl.DataFrame:
    return frame.with_columns(
        frame[name].scatter(list(by_row), list(by_row.values())) for name, by_row in texts.items()
    )


_STEP_FIELDS = tuple(field.name for field in fields(Step))


def _hashes(
    episodes: pl.DataFrame, steps: pl.DataFrame, rows: dict[int, list[int]]
) -> Iterator[tuple[int, str]]:
    """Give the content hash of each of these episodes as its rows say it now."""
    known = steps.select(_STEP_FIELDS)[list(chain(*rows.values()))].iter_rows(named=True)
    for number, of_episode in rows.items():
        row = episodes.row(number, named=True)
        own = ("domain", *EPISODE_COLUMNS[:5])
        episode = Trajectory(
            origin=Origin(path=row["origin_path"]),
            adapter=row["adapter"],
            steps=tuple(Step(**step) for step in islice(known, len(of_episode))),
            **{name: row[name] for name in own},
        )
        yield number, content_hash(episode)
