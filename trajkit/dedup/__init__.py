"""Leave out episodes that are there already, and mark transitions that are.

Three kinds of episodes go: exact copies (of the key, see `keys`), beginnings of longer episodes,
and near copies. Near copies are proposed by MinHash signatures in LSH bands; each pair is then
checked on its exact shingle sets. A cluster is a star around the member that stays: each episode
left out is itself over the threshold with the one kept for it.

A transition that repeats another, with the step before it, gets the skip reason
`duplicate_transition` and stays as history. Where the only target among equal transitions goes
with its episode, a step that was marked as its copy becomes the target.

System prompts, tool schemas, tasks and boilerplate are not part of what is compared: a shared
harness would make every episode of a corpus a near copy of the next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import polars as pl
from duckdb import DuckDBPyConnection

from trajkit.decontaminate import find as find_contamination
from trajkit.decontaminate.benchmarks import inputs_of_benchmarks
from trajkit.dedup import pairs as duplicates
from trajkit.dedup.boilerplate import boilerplate
from trajkit.dedup.copies import connect, equal_pairs, prefix_pairs, transition_marks
from trajkit.dedup.episode_keys import Recipe, save_rows, slices, write_keys
from trajkit.dedup.index import Index, stored_sets
from trajkit.dedup.near import BandFile, SetFiles, Stars, near_stars, write_sets
from trajkit.dedup.signatures import MIN_SHINGLES, Flags, Numbers
from trajkit.errors import TrajkitError
from trajkit.parallel import Workers
from trajkit.progress import Progress
from trajkit.report import Report, under
from trajkit.store import Store, StoreWriter, inputs_of, open_writer
from trajkit.tables import write_atomically

KEYS = ("normalised", "plain")
WARNING_SHARE = 0.5
"""Share of a source left out over which the report warns; sources under 20 episodes are spared."""
_WARNING_EPISODES = 20
_PRECEDENCE = ("is_old", "n_shingles", "n_steps", "content_hash", "trajectory_id")


def dedup(
    store: str | Path,
    out: str | Path,
    *,
    threshold: float = 0.8,
    keys: str = "normalised",
    context_steps: int = 1,
    index: str | Path | None = None,
    against: Sequence[str] = (),
    max_removal: float | None = None,
    workers: int = 1,
    overwrite: bool = False,
    quiet: bool = False,
) -> Report:
    """Return the report of leaving out copies of episodes and marking copies of transitions.

    The pairs go to `duplicates.parquet`. Which member stays depends on the episodes alone: the one
    with the most shingles, then the most steps, then the smallest content hash. With `keys`
    "plain" texts are compared as they are. `context_steps` is how many steps before a transition
    must be the same too. Episodes that hold what is in `against` (stores, AgentWorldBench rows,
    task lists of benchmarks) go as `contaminated`, with their evidence in `contamination.parquet`;
    their copies go with them. With `index`, episodes that earlier runs kept count as kept, and what
    this run keeps is added. `max_removal` stops a run, before it writes, that would leave out more
    than this share of a source.

    Memory: under 1 kB for each episode, whatever the threshold, beside one part for each
    worker and 512 MB of joins that spill; scratch on disk takes 0.6 kB for each episode, 60 bytes
    for each step, and the shingles of candidates.

    Raises TrajkitError for a value out of its range, an index of other settings, and where
    `max_removal` stops the run.
    """
    _check(threshold, keys, context_steps, max_removal)
    source = Store(store).require("trajectories", "steps")
    report = Report("dedup", out)
    inputs = inputs_of(source)
    recipe = Recipe(plain=keys == "plain", context_steps=context_steps)
    known = None if index is None else Index(index, recipe, inputs)
    options: dict[str, Any] = {
        "threshold": threshold,
        "keys": keys,
        "context_steps": context_steps,
        "max_removal": max_removal,
        "index": None if known is None else known.names(),
        "against": [Path(given).name for given in against],
    }
    writer = open_writer(
        out,
        kind="store",
        stage="dedup",
        options=options,
        inputs=inputs + inputs_of_benchmarks(against),
        overwrite=overwrite,
    )
    contamination = find_contamination(source, against, quiet=quiet) if against else None
    n_steps = 2 * len(source.parts())
    with Progress("dedup", n_steps, "parts", quiet=quiet) as progress, Workers(workers) as pool:
        run = _Run(source, writer, recipe, known, threshold, pool, progress)
        if contamination is not None:
            run.contaminated = contamination.trajectory_ids
            contamination.write(writer.path)
        run.keys()
        run.find()
        removed = run.removed()
        _refuse(removed, max_removal)
        run.write()
    counts = writer.counts
    report.read = counts["read"]
    report.kept = report.written = counts["kept"]
    report.dropped = under(counts, "dropped")
    report.extra |= {
        "near_candidates": run.stars.n_candidates,
        "near_verified": run.stars.n_verified,
        "near_confirmed": run.stars.n_confirmed,
        "steps": counts["steps"],
        "steps_marked": under(counts, "marked"),
        "steps_unmarked": counts["unmarked"],
        "boilerplate_shingles": run.boilerplate,
        "removed_share": {name: round(n / total, 4) for name, (n, total) in removed.items() if n},
    }
    if contamination is not None:
        report.extra["against"] = contamination.checked
        report.extra["contamination_flags"] = contamination.flags.height
        report.warnings.extend(contamination.warnings)
    if known is not None:
        report.extra["index_episodes"] = int(run.episodes["is_old"].sum())
    for name, (n, total) in removed.items():
        if total >= _WARNING_EPISODES and n / total > WARNING_SHARE:
            report.warnings.append(
                f"{n:,} of {total:,} episodes of source {name!r} are copies;"
                " look at some pairs in duplicates.parquet before you trust it"
            )
    return report.finish(writer)


def _check(threshold: float, keys: str, context_steps: int, max_removal: float | None) -> None:
    if not 0 < threshold <= 1:
        raise TrajkitError("--threshold", f"{threshold} is outside (0, 1]", "0.8 is the default")
    if keys not in KEYS:
        raise TrajkitError("--keys", f"no keys {keys!r}", f"one of {', '.join(KEYS)}")
    if not 0 <= context_steps <= 16:
        raise TrajkitError(
            "--context-steps", f"{context_steps} is outside [0, 16]", "1 is the default"
        )
    if max_removal is not None and not 0 <= max_removal <= 1:
        raise TrajkitError("--max-removal", f"{max_removal} is outside [0, 1]", "as in 0.5")


def _refuse(removed: dict[str, tuple[int, int]], max_removal: float | None) -> None:
    for name, (n, total) in removed.items():
        if max_removal is not None and n > max_removal * total:
            raise TrajkitError(
                f"source {name!r}",
                f"{n:,} of {total:,} episodes would be left out,"
                f" more than --max-removal {max_removal}",
                "see what they share; raise --threshold or --max-removal",
            )


@dataclass
class _Run:
    source: Store
    writer: StoreWriter
    recipe: Recipe
    index: Index | None
    threshold: float
    workers: Workers
    progress: Progress
    contaminated: list[str] = field(default_factory=list)

    def keys(self) -> None:
        """Find boilerplate, then the keys of each part that has none on disk yet."""
        scratch = self.writer.marks
        self.boilerplate: dict[str, int] = {}
        if not self.recipe.plain:
            self._find_boilerplate(scratch / "boilerplate.npy", scratch / "boilerplate.json")
        parts = self.source.parts()
        missing = [part for part in parts if not (scratch / f"{part}.episodes").exists()]
        self.progress.advance(len(parts) - len(missing))
        calls = [(str(self.source.path), part, scratch, self.recipe) for part in missing]
        for _ in self.workers.each(write_keys, calls):
            self.progress.advance()
        old = [] if self.index is None else self.index.parts()
        self.files = [*(scratch / part for part in parts), *old]
        self.episodes = self._episodes(len(parts))

    def _find_boilerplate(self, rows: Path, counts: Path) -> None:
        if not counts.exists():
            common, found = boilerplate(self.source, self.recipe, self.workers)
            if self.index is not None:
                common = np.union1d(common, self.index.boilerplate())
            save_rows(rows, common)
            write_atomically(counts, orjson.dumps(found))
        self.boilerplate = orjson.loads(counts.read_bytes())
        self.recipe = Recipe(context_steps=self.recipe.context_steps, boilerplate=rows)

    def _episodes(self, n_parts: int) -> pl.DataFrame:
        """Return all episodes, those of the index too, numbered in order of precedence."""
        frames = [
            pl.read_parquet(f"{file}.episodes").with_columns(
                file=pl.lit(place, dtype=pl.UInt32),
                is_old=pl.lit(place >= n_parts),
                source=pl.col("source").cast(pl.Categorical),
            )
            for place, file in enumerate(self.files)
        ]
        descending = [name in ("is_old", "n_shingles", "n_steps") for name in _PRECEDENCE]
        return (
            pl.concat(frames)
            .sort(*_PRECEDENCE, descending=descending)
            .with_row_index("number")
            .with_columns(pl.col("number").cast(pl.Int64))
        )

    def find(self) -> None:
        """Find what goes and which marks change."""
        n = self.episodes.height
        step_files = [file.with_name(f"{file.name}.steps") for file in self.files]
        equal = equal_pairs(self.episodes)
        alive = np.ones(n, dtype=bool)
        alive[equal["number"].to_numpy()] = False
        with connect(self.writer.marks) as base, SetFiles(n) as sets:
            single = self.episodes.filter(pl.Series(alive))
            prefixes = prefix_pairs(base, single, step_files, MIN_SHINGLES)
            fixed = self.episodes["is_old"].to_numpy().copy()
            self.stars = Stars(self.threshold, np.arange(n), fixed)
            alive[prefixes["number"].to_numpy()] = False
            self._near(base, alive, sets)
            # The beginning of an episode that was left out itself is compared like any other.
            lost = self.stars.is_out(prefixes["kept"].to_numpy())
            if lost.any():
                self.stars.fixed |= alive & ~self.stars.is_out(np.arange(n))
                alive[prefixes["number"].to_numpy()[lost]] = True
                self._near(base, alive, sets)
            sizes = self.episodes["n_shingles"].to_numpy()
            self.found = duplicates.resolved(self.stars, prefixes, equal, sizes)
            self.marks = transition_marks(
                base, self.episodes.with_columns(alive=pl.Series(~self.found.out)), step_files
            )

    def _near(self, base: DuckDBPyConnection, alive: Flags, sets: SetFiles) -> None:
        long_enough = self.episodes["n_shingles"].to_numpy() >= MIN_SHINGLES
        chosen = self.episodes.select("number", "file", "episode").filter(
            pl.Series(alive & long_enough & ~self.stars.is_out(np.arange(len(alive))))
        )
        chosen = chosen.sort("file", "episode")
        path = self.writer.marks / "bands"
        with BandFile(path, chosen.height, self.threshold) as bands:
            for (place,), rows in chosen.group_by(["file"], maintain_order=True):
                minima = np.load(f"{self.files[int(str(place))]}.signatures.npy")
                bands.add(minima[rows["episode"].to_numpy()])
            numbers = chosen["number"].to_numpy()
            near_stars(
                base, bands.bands(), numbers, self.stars, sets, lambda new: self._load(new, sets)
            )

    def _load(self, numbers: Numbers, sets: SetFiles) -> None:
        """Put the shingle sets of some episodes on disk, read again from their parts."""
        wanted = self.episodes.select("number", "file", "episode")[numbers].sort("file", "episode")
        groups = [
            (self.files[int(str(place))], rows)
            for (place,), rows in wanted.group_by(["file"], maintain_order=True)
        ]
        calls: list[tuple[Any, ...]] = []
        for file, rows in groups:
            path = self.writer.marks / f"{len(sets) + len(calls)}.sets"
            store = None if file.parent != self.writer.marks else str(self.source.path)
            calls.append((path, store, file, rows["episode"].to_numpy(), self.recipe))
        found = self.workers.each(_write_part_sets, calls)
        for call, (_, rows), sizes in zip(calls, groups, found, strict=True):
            sets.add(call[0], rows["number"].to_numpy(), sizes)

    def removed(self) -> dict[str, tuple[int, int]]:
        """Return for each source how many episodes go, and of how many."""
        new = self.episodes.select(
            pl.col("source").cast(pl.String), "is_old", out=pl.Series(self.found.out)
        ).filter(~pl.col("is_old"))
        counts = new.group_by("source").agg(pl.col("out").sum(), pl.len()).sort("source")
        return {name: (n, total) for name, n, total in counts.iter_rows()}

    def write(self) -> None:
        """Write the pairs, the parts that are not there yet, and the index."""
        duplicates.write_pairs(
            self.writer, duplicates.pairs_table(self.found, self.episodes, self.marks)
        )
        parts = self.source.parts()
        waiting = [part for part in parts if not self.writer.done(part)]
        self.progress.advance(len(parts) - len(waiting))
        places = {part: place for place, part in enumerate(parts)}
        out = np.flatnonzero(self.found.out)
        where = self.episodes.select("number", "file", "trajectory_id")
        reasons = pl.Series([_reason(m) for m in self.found.method[out]], dtype=pl.String)
        gone = where[out].select("file", "trajectory_id", reason=reasons)
        gone = pl.concat([gone, self._others_contaminated(where)])
        marks = self.marks.join(where, on="number", maintain_order="left")
        marks = marks.select("file", "trajectory_id", "step_index", "lifted")
        gone_by = gone.partition_by("file", as_dict=True, include_key=False)
        marks_by = marks.partition_by("file", as_dict=True, include_key=False)
        none_gone, none_marked = gone.clear().drop("file"), marks.clear().drop("file")
        sender = replace(self.writer, counts=Counter())
        calls = [
            (
                sender,
                str(self.source.path),
                part,
                gone_by.get((places[part],), none_gone),
                marks_by.get((places[part],), none_marked),
            )
            for part in waiting
        ]
        written = self.workers.each(duplicates.write_part, calls)
        for part, counts in zip(waiting, written, strict=True):
            self.writer.mark(part, counts)
            self.progress.advance()
        if self.index is not None:
            self._add_to_index(parts)

    def _others_contaminated(self, where: pl.DataFrame) -> pl.DataFrame:
        """Return the contaminated episodes that no other reason takes out."""
        own = pl.Series(~self.found.out & ~self.episodes["is_old"].to_numpy())
        hit = own & where["trajectory_id"].is_in(self.contaminated)
        reason = pl.lit("contaminated", dtype=pl.String)
        return where.filter(hit).select("file", "trajectory_id", reason=reason)

    def _add_to_index(self, parts: list[str]) -> None:
        assert self.index is not None
        clean = ~self.episodes["trajectory_id"].is_in(self.contaminated)
        stays = self.episodes.filter(clean & pl.Series(~self.found.out)).select("file", "episode")
        by_file = stays.sort("file", "episode").partition_by("file", as_dict=True)
        kept = {
            part: by_file[(place,)]["episode"].to_numpy().astype(np.int64)
            for place, part in enumerate(parts)
            if (place,) in by_file
        }
        self.index.add(self.source, self.writer.marks, kept, self.recipe)


def _reason(method: int) -> str:
    return duplicates.REASONS[duplicates.METHODS[method]]


def _write_part_sets(
    path: Path, store: str | None, file: Path, rows: Numbers, recipe: Recipe
) -> Numbers:
    """Return the sizes of the sets of some rows of a part, or of an index, after writing them."""
    common = recipe.common()
    if store is None:
        return write_sets(path, iter([stored_sets(file, rows, common)]))
    wanted = rows.astype(np.int64)
    pieces = slices(Store(store), file.name, recipe, wanted)
    return write_sets(path, (piece.sets(common) for piece in pieces))
