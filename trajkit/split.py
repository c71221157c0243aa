"""Split episodes by group, so that nothing on one side gives away the other.

The group of an episode is a hash of its task (with `by="place"` of its repository or site, where
one is known), and the side follows from the hash alone: whatever else a corpus holds, an episode
is on the side of its group or on none. A sub-agent has the group of the run it belongs to.

Near copies with different groups are ties. Two that are tied cannot both have the side of their
own group, so one of them is left out of training and validation, as `split_bridge`. To move one
instead would be no rule that lasts: which of them was there first is in neither. Left out first
are those that tie the most, so that an episode between two groups goes and both groups stay; then
the later of two; and with `earlier`, a store cut before, never one that had a side in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import numpy as np
import numpy.typing as npt
import polars as pl

from trajkit.decontaminate.word_runs import word_lists
from trajkit.dedup.boilerplate import boilerplate
from trajkit.dedup.copies import connect
from trajkit.dedup.episode_keys import Recipe, slices
from trajkit.dedup.near import BandFile, SetFiles, similarities, write_sets
from trajkit.dedup.signatures import Numbers, signatures
from trajkit.errors import TrajkitError, alternatives
from trajkit.parallel import Workers
from trajkit.store import Store

BRIDGE = "split_bridge"
"""Skip reason of all steps of an episode that is left out."""
NEAR_THRESHOLD = 0.7
"""Jaccard similarity of a tie; below that of dedup, which has taken the nearer ones out."""
MIN_TIED_SHINGLES = 50
"""Episodes with fewer shingles are not compared: short ones are alike by nature, and give little
away."""
BY = ("task", "place")
BUCKET_HEAD = 64
"""In a bucket each episode is compared with at most so many others, taken from all groups."""
_CODE, _NET = ("swe", "terminal"), ("web", "search")
_REPOSITORY = r"([A-Za-z0-9.-]+__[A-Za-z0-9._-]+?)-[0-9]+"
_HOST = r"https?://(?:www\.)?([A-Za-z0-9.-]+)"


@dataclass(frozen=True, slots=True)
class Split:
    """The groups of a store, and who is left out."""

    groups: pl.DataFrame
    """`trajectory_id, split_group, is_bridge`, one row for each episode."""
    n_ties: int
    """Verified near copies of different groups."""
    n_orphans: int
    """Sub-agents whose parent is not in the store; those of one parent are a group."""

    def counts(self) -> dict[str, int]:
        """Return what the report of a stage says."""
        sizes = self.groups["split_group"].value_counts()["count"]
        return {
            "groups": len(sizes),
            "largest_group": int(sizes.max() or 0),  # type: ignore[arg-type]
            "orphans": self.n_orphans,
            "ties": self.n_ties,
            BRIDGE: int(self.groups["is_bridge"].sum()),
        }


def split(
    source: Store,
    *,
    by: str = "task",
    near_threshold: float | None = NEAR_THRESHOLD,
    earlier: Store | None = None,
) -> Split:
    """Return the groups of a store.

    Holds about 300 bytes for each episode; texts are read a part at a time, and the sets of near
    copies lie on disk. Without a threshold no near copies are looked for.

    Raises TrajkitError for an unknown `by` or a threshold outside (0, 1].
    """
    check_options(by, near_threshold)
    episodes = _episodes(source, by)
    episodes = episodes.with_columns(_roots(episodes).get_columns())
    tied: dict[int, set[int]] = defaultdict(set)
    if near_threshold is not None and episodes["split_group"].n_unique() > 1:
        with TemporaryDirectory(prefix="trajkit-split-") as folder:
            for left, right in near_pairs(source, episodes, near_threshold, Path(folder)):
                tied[left].add(right)
                tied[right].add(left)
    gone = left_out(episodes, tied, set() if earlier is None else _with_side(earlier))
    return Split(
        groups=episodes.select("trajectory_id", "split_group", is_bridge=pl.Series(gone)),
        n_ties=sum(map(len, tied.values())) // 2,
        n_orphans=int(episodes["is_orphan"].sum()),
    )


def check_options(by: str, near_threshold: float | None) -> None:
    """Raise TrajkitError for an unknown `by` or a threshold outside (0, 1]."""
    if by not in BY:
        raise TrajkitError("--split-by", f"no way to split {by!r}", f"one of {alternatives(BY)}")
    if near_threshold is not None and not 0 < near_threshold <= 1:
        raise TrajkitError(
            "--split-near",
            f"{near_threshold} is outside (0, 1]",
            f"{NEAR_THRESHOLD} is the default",
        )


def task_keys(tasks: pl.Series) -> pl.Series:
    """Return tasks as their words; null where a task has none.

    Case, white space and punctuation do not tell tasks apart. A task of signs alone is itself.

    >>> task_keys(pl.Series(["Fix  the 'login'!", "??", " "])).to_list()
    ['fix the login', '??', None]
    """
    words = word_lists(tasks).list.join(" ")
    signs = tasks.str.replace_all(r"\s+", " ").str.strip_chars()
    key = words.zip_with(words != "", signs)
    return key.zip_with(key != "", pl.Series([None], dtype=pl.String))


def group_name(key: str) -> str:
    """Return 16 hex digits of a key: the name of a group, from which its side follows."""
    return sha256(key.encode()).hexdigest()[:16]


def _episodes(source: Store, by: str) -> pl.DataFrame:
    """Return one row for each episode in the order of the parts."""
    columns = ["trajectory_id", "content_hash", "parent_id", "started_at"]
    frames = []
    for part in source.parts():
        rows = source.read("trajectories", part)
        place = _places(source, part, rows) if by == "place" else pl.lit(None, dtype=pl.String)
        frames.append(
            rows.select(
                *columns,
                task_key=_names(task_keys(rows["task"])),
                place=place,
                part=pl.lit(part),
                row=pl.int_range(pl.len()),
            )
        )
    if not frames:
        names = [*columns, "task_key", "place", "part"]
        return pl.DataFrame(schema=dict.fromkeys(names, pl.String) | {"row": pl.Int64})
    return pl.concat(frames)


def _names(keys: pl.Series) -> pl.Series:
    """Return names instead of keys: prompts are long, and only their equality counts."""
    return pl.Series([None if key is None else group_name(key) for key in keys], dtype=pl.String)


def _places(source: Store, part: str, episodes: pl.DataFrame) -> pl.Series:
    """Return the repository of code episodes and the first host of web episodes, else null."""
    steps = (
        source.read("steps", part)
        .group_by("trajectory_id")
        .agg(
            seen=pl.concat_str("action", pl.col("observation").fill_null(""), separator=" ")
            .str.extract(_HOST)
            .drop_nulls()
            .first()
        )
    )
    named = (pl.col("meta").str.json_path_match(f"$.{name}") for name in ("repo", "repository"))
    instance = pl.col("meta").str.json_path_match("$.instance_id").str.extract(_REPOSITORY)
    repository = pl.coalesce(*named, instance, pl.col("origin_path").str.extract(_REPOSITORY))
    host = pl.coalesce(pl.col("initial_state").str.extract(_HOST), "seen")
    place = (
        pl.when(pl.col("domain").is_in(_CODE))
        .then(repository.str.replace("__", "/"))
        .when(pl.col("domain").is_in(_NET))
        .then(host)
    )
    return (
        episodes.join(steps, on="trajectory_id", how="left", maintain_order="left")
        .select(place.str.to_lowercase())
        .to_series()
    )


def _roots(episodes: pl.DataFrame) -> pl.DataFrame:
    """Return `split_group, root_task, is_orphan`: those of the run at the top of each family."""
    rows = {
        id_: (task, place, content)
        for id_, task, place, content in episodes.select(
            "trajectory_id", "task_key", "place", "content_hash"
        ).iter_rows()
    }
    children = episodes.drop_nulls("parent_id")
    parents = dict(children.select("trajectory_id", "parent_id").iter_rows())

    def root(id_: str) -> str:
        seen = {id_}
        while (parent := parents.get(id_)) is not None and parent not in seen:
            seen.add(parent)
            id_ = parent
        # In a ring of parents all members have the same top.
        return min(seen) if id_ in parents else id_

    groups, tasks, orphans = [], [], []
    for id_ in episodes["trajectory_id"]:
        top = root(id_) if id_ in parents else id_
        task, place, content = rows.get(top, (None, None, f"parent:{top}"))
        key = f"place:{place}" if place is not None else f"task:{task or content}"
        groups.append(group_name(key))
        tasks.append(task)
        orphans.append(top not in rows)
    schema = {"split_group": pl.String, "root_task": pl.String, "is_orphan": pl.Boolean}
    columns = {"split_group": groups, "root_task": tasks, "is_orphan": orphans}
    return pl.DataFrame(columns, schema=schema)


def _with_side(earlier: Store) -> set[str]:
    """Return the content hashes of what an earlier store had on a side.

    Not the ids: a file that grew or was named anew gives its episodes others.
    """
    found: set[str] = set()
    for part in earlier.require("trajectories", "transitions").parts():
        rows = earlier.read("transitions", part).select("trajectory_id", "skip_reason")
        kept = rows.filter(pl.col("skip_reason").ne_missing(pl.lit(BRIDGE)))
        episodes = earlier.read("trajectories", part).select("trajectory_id", "content_hash")
        found |= set(episodes.join(kept, on="trajectory_id", how="semi")["content_hash"])
    return found


def left_out(
    episodes: pl.DataFrame, tied: Mapping[int, Set[int]], had_side: Set[str]
) -> npt.NDArray[np.bool_]:
    """Return who is left out: whoever is tied to one that comes before and stays.

    First come those that had a side (`had_side` are content hashes), then those with the fewest
    ties, then by time, then by hash.
    """
    # By task each has one group; by place one task may have several, which tie it like a copy.
    several = pl.col("split_group").n_unique().over("root_task") > 1
    torn = episodes.with_row_index("number").filter(pl.col("root_task").is_not_null() & several)
    numbers = sorted({*tied, *torn["number"].to_list()})
    rows = episodes[numbers].with_columns(
        number=pl.Series(numbers, dtype=pl.Int64),
        is_new=pl.Series([one not in had_side for one in episodes[numbers]["content_hash"]]),
        n_ties=pl.Series([len(tied.get(number, ())) for number in numbers], dtype=pl.Int64),
    )
    order = ["is_new", "n_ties", "started_at", "content_hash", "trajectory_id"]
    staying: set[int] = set()
    sides: dict[str, str] = {}
    columns = ("number", "split_group", "root_task")
    for number, group, task in rows.sort(order, nulls_last=True).select(columns).iter_rows():
        if staying.isdisjoint(tied.get(number, ())) and sides.get(task, group) == group:
            staying.add(number)
            if task is not None:
                sides[task] = group
    gone = np.zeros(episodes.height, dtype=np.bool_)
    gone[[number for number in numbers if number not in staying]] = True
    return gone


def near_pairs(
    source: Store, episodes: pl.DataFrame, threshold: float, folder: Path
) -> Iterator[tuple[int, int]]:
    """Give pairs of rows that are near copies and have different groups, each verified.

    `episodes` are in the order of the parts. In a bucket of more than `BUCKET_HEAD` the rest is
    compared with that many.
    """
    common, _ = boilerplate(source, Recipe(), Workers(1))
    parts = source.parts()
    sizes = [np.zeros(0, dtype=np.int64)]
    with (
        BandFile(folder / "bands", episodes.height, threshold) as bands,
        SetFiles(episodes.height) as sets,
        connect(folder) as base,
    ):
        for part in parts:
            for piece in slices(source, part, Recipe()):
                found = piece.sets(common)
                bands.add(signatures(found))
                sizes.append(found.counts())
        comparable = np.flatnonzero(np.concatenate(sizes) >= MIN_TIED_SHINGLES)
        _fill_buckets(base, bands, episodes, comparable)
        pairs = pl.DataFrame(base.sql(_CANDIDATES).to_arrow_table())
        _write_sets(source, common, episodes, pairs, sets, folder)
        for (left,), group in pairs.group_by("left_", maintain_order=True):
            own = int(str(left))
            others = group["right_"].to_list()
            exact = similarities(sets.read(own), [sets.read(other) for other in others])
            for other, likeness in zip(others, exact.tolist(), strict=True):
                if likeness >= threshold:
                    yield own, other


_CANDIDATES = f"""
    with numbered as (
        select key, number, family,
               row_number() over (partition by key, family order by number) as nth
        from buckets),
    placed as (
        select key, number, family,
               row_number() over (partition by key order by nth, number) as place
        from numbered)
    select distinct least(a.number, b.number) as left_, greatest(a.number, b.number) as right_
    from placed a join placed b on a.key = b.key and a.place < b.place
    where a.place <= {BUCKET_HEAD} and a.family <> b.family
    order by left_, right_"""


def _fill_buckets(
    base: duckdb.DuckDBPyConnection, bands: BandFile, episodes: pl.DataFrame, comparable: Numbers
) -> None:
    """Put into a table what shares a key of a band with another group."""
    families = episodes["split_group"].rank("dense").cast(pl.Int64)
    base.execute("create table buckets (key ubigint, number bigint, family bigint)")
    for keys in bands.bands():
        band = pl.DataFrame(
            {
                "key": keys[comparable],
                "number": comparable,
                "family": families.gather(comparable),
            }
        ).filter(pl.col("family").n_unique().over("key") > 1)
        base.register("band", band.to_arrow())
        base.execute("insert into buckets select * from band")
        base.unregister("band")


def _write_sets(
    source: Store,
    common: npt.NDArray[np.uint64],
    episodes: pl.DataFrame,
    pairs: pl.DataFrame,
    sets: SetFiles,
    folder: Path,
) -> None:
    """Put the sets of all candidates on disk."""
    wanted = np.union1d(pairs["left_"].to_numpy(), pairs["right_"].to_numpy()).astype(np.int64)
    chosen = episodes[wanted].with_columns(number=pl.Series(wanted))
    for (part,), group in chosen.group_by("part", maintain_order=True):
        first = int(group["number"][0]) - int(group["row"][0])
        rows = group["row"].to_numpy().astype(np.int64)
        for place, piece in enumerate(slices(source, str(part), Recipe(), rows)):
            path = folder / f"{part}-{place}.sets"
            sizes = write_sets(path, iter([piece.sets(common)]))
            sets.add(path, first + piece.rows, sizes)
