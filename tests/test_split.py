"""Groups never stand on both sides, and whatever arrives, nobody changes sides."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pytest
from chats import chat, cut, ingested, write_rows
from hypothesis import given, settings
from hypothesis import strategies as st

from trajkit.builders.cpt import build_cpt
from trajkit.builders.splits import Splits
from trajkit.errors import TrajkitError
from trajkit.ingest import Options, ingest
from trajkit.split import BRIDGE, left_out, split
from trajkit.store import Store
from trajkit.transitions import transitions

SHARES = (0.05, 0.2, 0.5, 0.8)


def words(seed: int, n: int = 300) -> list[str]:
    rng = random.Random(seed)
    return [f"w{rng.randrange(10_000)}" for _ in range(n)]


def reworded(text: list[str], start: int, n: int, seed: int) -> list[str]:
    """Return a text with some neighbouring words replaced: 40 of 300 leave 0.74 alike."""
    return [*text[:start], *words(seed, n), *text[start + n :]]


def episode(text: Sequence[str], **columns: Any) -> dict[str, Any]:
    half = len(text) // 2
    return chat(
        [("get", {"n": n}, " ".join(part)) for n, part in enumerate((text[:half], text[half:]))],
        **columns,
    )


def groups(folder: Path, rows: list[Any], **options: Any) -> dict[str, tuple[str, bool]]:
    """Return group and whether it is left out, by task."""
    store = Store(ingested(folder, rows))
    tasks = pl.concat(store.read("trajectories", part) for part in store.parts())
    found = tasks.join(split(store, **options).groups, on="trajectory_id")
    return {
        task: (group, bridge)
        for task, group, bridge in found.select("task", "split_group", "is_bridge").iter_rows()
    }


def test_two_runs_of_one_task_have_one_group_whatever_its_layout(tmp_path: Path) -> None:
    rows = [
        episode(words(1), task="Fix the login; it fails!"),
        episode(words(2), task="fix  the LOGIN, it fails"),
        episode(words(3), task="add a flag"),
    ]
    found = groups(tmp_path, rows)
    assert len({group for group, _ in found.values()}) == 2
    assert not any(bridge for _, bridge in found.values())


def test_one_more_run_moves_no_old_one_and_no_task_is_on_both_sides(tmp_path: Path) -> None:
    """Case CT03."""
    tasks = ["repair the login", "repair the login", "add a flag", "port the build"]
    rows = [episode(words(n), task=task) for n, task in enumerate(tasks)]
    before = sides(tmp_path / "a", rows)
    after = sides(tmp_path / "b", [*rows, episode(words(9), task="write the docs")])
    assert before.keys() < after.keys()
    for validation in SHARES:
        assert {k: Splits(validation=validation).side(g) for k, (g, _) in before.items()} == {
            k: Splits(validation=validation).side(after[k][0]) for k in before
        }
        by_task = defaultdict(set)
        for group, task in after.values():
            by_task[task].add(Splits(validation=validation).side(group))
        assert all(len(found) == 1 for found in by_task.values())


def sides(folder: Path, rows: list[Any]) -> dict[str, tuple[str, str]]:
    """Return group and task by content, as the stage writes them."""
    folder.mkdir()
    store = Store(cut(folder, rows))
    frames = [
        store.read("transitions", part).join(
            store.read("trajectories", part).select("trajectory_id", "task", "content_hash"),
            on="trajectory_id",
        )
        for part in store.parts()
    ]
    found = pl.concat(frames).select("content_hash", "split_group", "task")
    return {row[0]: (row[1], row[2]) for row in found.iter_rows()}


def test_of_near_copies_with_different_tasks_one_is_left_out(tmp_path: Path) -> None:
    text = words(1)
    rows = [episode(text, task="one"), episode(reworded(text, 20, 40, 2), task="two")]
    found = groups(tmp_path, [*rows, episode(words(3), task="three")])
    assert sorted(bridge for _, bridge in found.values()) == [False, False, True]
    assert not found["three"][1]
    apart = groups(tmp_path, rows, near_threshold=0.8)
    assert not any(bridge for _, bridge in apart.values())


def test_near_copies_of_one_task_both_stay(tmp_path: Path) -> None:
    text = words(1)
    rows = [episode(text, task="One"), episode(reworded(text, 20, 40, 2), task="one")]
    assert not any(bridge for _, bridge in groups(tmp_path, rows).values())


def test_short_episodes_tie_nothing(tmp_path: Path) -> None:
    rows = [episode(words(1, 30), task=str(n)) for n in range(4)]
    assert not any(bridge for _, bridge in groups(tmp_path, rows).values())


def test_an_episode_between_two_groups_is_left_out_and_both_groups_stay(tmp_path: Path) -> None:
    middle = words(1)
    ends = [reworded(middle, start, 40, start) for start in (10, 200)]
    for name in ("a", "b", "c", "d"):
        old = [episode(text, task=f"{name} {n}") for n, text in enumerate(ends)]
        before = groups(tmp_path, old)
        after = groups(tmp_path, [episode(middle, task=f"{name} new"), *old])
        assert not any(bridge for _, bridge in before.values())
        assert after.pop(f"{name} new")[1]
        assert after == before


def test_a_bridge_is_in_neither_split_and_counted(tmp_path: Path) -> None:
    text = words(1)
    rows = [episode(text, task="one"), episode(reworded(text, 20, 40, 2), task="two")]
    raw = ingested(tmp_path, rows)
    report = transitions(raw, tmp_path / "tr", quiet=True)
    assert report.extra["split"] == {
        "groups": 2,
        "largest_group": 1,
        "orphans": 0,
        "ties": 1,
        BRIDGE: 1,
    }
    table = Store(tmp_path / "tr").read("transitions", "part-00000")
    assert sorted(table["skip_reason"].to_list(), key=str) == [None, None, BRIDGE, BRIDGE]
    assert table.filter(pl.col("skip_reason") == BRIDGE)["target"].any() is False
    written = build_cpt(tmp_path / "tr", tmp_path / "cpt", quiet=True)
    assert (written.kept, written.dropped) == (1, {"no_loss": 1})


def test_what_had_a_side_before_keeps_it_against_whoever_is_new(tmp_path: Path) -> None:
    text = words(1)
    for number in range(6):
        folder = tmp_path / str(number)
        folder.mkdir()
        old = episode(text, task=f"old {number}")
        new = episode(reworded(text, 20, 40, number + 2), task=f"new {number}")
        cut(folder, [old])
        earlier = Store(folder / "tr")
        found = groups(folder, [new, old], earlier=earlier)
        assert found == {
            f"old {number}": (earlier.read("transitions", "part-00000")["split_group"][0], False),
            f"new {number}": (found[f"new {number}"][0], True),
        }


def test_a_left_out_episode_of_the_earlier_store_had_no_side(tmp_path: Path) -> None:
    text = words(1)
    rows = [episode(text, task="one"), episode(reworded(text, 20, 40, 2), task="two")]
    cut(tmp_path, rows)
    found = groups(tmp_path, rows, earlier=Store(tmp_path / "tr"))
    assert sorted(bridge for _, bridge in found.values()) == [False, True]


def family(folder: Path, parents: dict[str, str | None]) -> Store:
    """Return a store whose episodes (by task) have these parents, in parts of their own."""
    logs = folder / "logs"
    logs.mkdir()
    for number, task in enumerate(parents):
        write_rows(logs / f"{number}.jsonl", [episode(words(number), task=task)])
    ingest((str(logs),), folder / "raw", options=Options(domain="mcp"), quiet=True)
    store = Store(folder / "raw")
    for part in store.parts():
        rows = store.read("trajectories", part)
        ids = {task: id_ for id_, task in rows.select("trajectory_id", "task").iter_rows()}
        named = [
            None if (up := parents[task]) is None else ids.get(up, up) for task in rows["task"]
        ]
        rows = rows.with_columns(parent_id=pl.Series(named, dtype=pl.String))
        rows.write_parquet(store.path / "trajectories" / f"{part}.parquet")
    return store


def test_a_whole_family_has_the_group_of_its_top_and_orphans_of_one_parent_one(
    tmp_path: Path,
) -> None:
    parents = {"top": None, "child": "top", "grandchild": "child", "x": "gone", "y": "gone"}
    store = family(tmp_path, parents | {"ring a": "ring b", "ring b": "ring a"})
    found = split(store)
    tasks = pl.concat(store.read("trajectories", part) for part in store.parts())
    joined = tasks.join(found.groups, on="trajectory_id").select("task", "split_group")
    by_task = dict(joined.iter_rows())
    assert by_task["top"] == by_task["child"] == by_task["grandchild"]
    assert by_task["x"] == by_task["y"] != by_task["top"]
    assert by_task["ring a"] == by_task["ring b"]
    assert found.n_orphans == 2


def test_by_place_episodes_of_one_repository_or_site_have_one_group(tmp_path: Path) -> None:
    def row(number: int, instance: str) -> dict[str, Any]:
        return episode(words(number), task=f"task {number}", instance_id=instance)

    rows = [row(1, "acme__widget-1"), row(2, "acme__widget-22"), row(3, "acme__gadget-3")]
    store = Store(ingested(tmp_path, rows, domain="swe"))
    assert split(store, by="place").groups["split_group"].n_unique() == 2
    assert split(store).groups["split_group"].n_unique() == 3
    sites = [
        chat([("open", {"url": f"https://www.{host}/{n}"}, "page")] * 2, task=f"look {n}")
        for n, host in enumerate(("shop.example", "shop.example", "news.example"))
    ]
    store = Store(ingested(tmp_path, sites, domain="web"))
    assert split(store, by="place").groups["split_group"].n_unique() == 2


def test_by_place_one_task_in_two_repositories_keeps_to_one_side(tmp_path: Path) -> None:
    rows = [
        episode(words(n), task="fix the failing test", instance_id=f"acme__{name}-1")
        for n, name in enumerate(("widget", "gadget", "gizmo"))
    ]
    found = split(Store(ingested(tmp_path, rows, domain="swe")), by="place").groups
    assert found["split_group"].n_unique() == 3
    assert found.filter(~pl.col("is_bridge")).height == 1


def test_an_unknown_way_and_a_threshold_outside_its_range_are_refused(tmp_path: Path) -> None:
    store = Store(ingested(tmp_path, [episode(words(1))]))
    with pytest.raises(TrajkitError, match="one of place, task"):
        split(store, by="colour")
    with pytest.raises(TrajkitError, match=r"--split-near: 0 is outside \(0, 1\]"):
        split(store, near_threshold=0)
    with pytest.raises(TrajkitError, match="one of place, task"):
        transitions(store.path, tmp_path / "cut", split_by="colour", quiet=True)
    assert not (tmp_path / "cut").exists()


@st.composite
def graphs(draw: st.DrawFn) -> tuple[pl.DataFrame, dict[int, set[int]], set[str]]:
    n = draw(st.integers(2, 12))
    times = draw(st.lists(st.sampled_from([None, "2026-01", "2026-02"]), min_size=n, max_size=n))
    families = draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
    pairs = draw(st.sets(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))))
    tied: dict[int, set[int]] = defaultdict(set)
    for left, right in pairs:
        if families[left] != families[right]:
            tied[left].add(right)
            tied[right].add(left)
    names = [f"id{number}" for number in range(n)]
    frame = pl.DataFrame(
        {
            "trajectory_id": names,
            "content_hash": names,
            "started_at": pl.Series(times, dtype=pl.String),
            "split_group": [str(family) for family in families],
            "root_task": [str(family) for family in families],
        }
    )
    return frame, dict(tied), draw(st.sets(st.sampled_from(names)))


@given(graph=graphs())
def test_law_8_no_tie_stays_and_nobody_is_left_out_without_one(
    graph: tuple[pl.DataFrame, dict[int, set[int]], set[str]],
) -> None:
    frame, tied, had_side = graph
    gone = left_out(frame, tied, had_side)
    for number, others in tied.items():
        if gone[number]:
            assert any(not gone[other] for other in others)
        else:
            assert all(gone[other] for other in others)
    assert not any(gone[number] for number in range(frame.height) if number not in tied)
    names = frame["trajectory_id"].to_list()
    for number, others in tied.items():
        rivals = [other for other in others if names[other] in had_side]
        if names[number] in had_side and not rivals:
            assert not gone[number]


@given(graph=graphs(), seed=st.integers(0, 100))
def test_who_is_left_out_does_not_depend_on_the_order_of_rows(
    graph: tuple[pl.DataFrame, dict[int, set[int]], set[str]], seed: int
) -> None:
    frame, tied, had_side = graph
    order = list(range(frame.height))
    random.Random(seed).shuffle(order)
    place = {number: index for index, number in enumerate(order)}
    shuffled = {place[a]: {place[b] for b in others} for a, others in tied.items()}
    gone = left_out(frame, tied, had_side)
    again = left_out(frame[order], shuffled, had_side)
    assert gone[order].tolist() == again.tolist()


TEXTS = [
    reworded(words(base), start, 40, 7 * base + start) if start else words(base)
    for base in (1, 2)
    for start in (0, 10, 60, 150, 220)
]


@settings(max_examples=15)
@given(
    old=st.lists(st.tuples(st.sampled_from(TEXTS), st.integers(0, 5)), min_size=1, max_size=6),
    new=st.lists(st.tuples(st.sampled_from(TEXTS), st.integers(0, 5)), max_size=5),
)
def test_law_8_whatever_arrives_nobody_changes_sides_and_no_copy_is_on_both(
    old: list[tuple[list[str], int]], new: list[tuple[list[str], int]]
) -> None:
    with TemporaryDirectory() as folder:
        rows = [episode(text, task=f"task number {task}") for text, task in old]
        more = [episode(text, task=f"task number {task}") for text, task in new]
        before, after = (groups(Path(folder), some) for some in (rows, [*more, *rows]))
        for task, (group, _) in before.items():
            assert after[task][0] == group
        store = Store(Path(folder) / "raw")
        found = split(store).groups
        texts = pl.concat(store.read("steps", part) for part in store.parts())
        kept = found.filter(~pl.col("is_bridge")).join(
            texts.group_by("trajectory_id").agg(pl.col("observation").sort_by("step_index")),
            on="trajectory_id",
        )
        for validation in SHARES:
            on_side = defaultdict(list)
            for _, group, _, seen in kept.iter_rows():
                on_side[Splits(validation=validation).side(group)].append(shingled(seen))
            for ours in on_side["train"]:
                for theirs in on_side["validation"]:
                    assert len(ours & theirs) / len(ours | theirs) < 0.75


def shingled(texts: Sequence[str]) -> set[tuple[str, ...]]:
    tokens = [text.split() for text in texts]
    return {tuple(text[k : k + 5]) for text in tokens for k in range(len(text) - 4)}
