"""Copies are found, near copies are verified, everything else stays."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from chats import chat, ingested
from hypothesis import given
from hypothesis import strategies as st

from trajkit.dedup import bands_and_rows, dedup, shingles
from trajkit.errors import TrajkitError
from trajkit.store import Store


def words(seed: int, n: int = 300) -> list[str]:
    rng = random.Random(seed)
    return [f"w{rng.randrange(10_000)}" for _ in range(n)]


def changed(text: list[str], share: float, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [f"x{rng.randrange(10_000)}" if rng.random() < share else word for word in text]


def episode(text: list[str], **columns: Any) -> dict[str, Any]:
    half = len(text) // 2
    turns = [("get", {"n": n}, " ".join(part)) for n, part in enumerate((text[:half], text[half:]))]
    return chat(turns, **columns)


def run(tmp_path: Path, rows: list[Any], **options: Any) -> Store:
    ingested(tmp_path, rows)
    dedup(tmp_path / "raw", tmp_path / "out", overwrite=True, quiet=True, **options)
    return Store(tmp_path / "out")


def kept_tasks(store: Store) -> set[str]:
    return {task for part in store.parts() for task in store.read("trajectories", part)["task"]}


def test_an_exact_copy_goes_and_a_different_episode_stays(tmp_path: Path) -> None:
    store = run(tmp_path, [episode(words(1)), episode(words(1)), episode(words(2))])
    assert store.manifest.dropped == {"exact_duplicate": 1}
    assert store.manifest.rows["trajectories"] == 2


def test_case_and_white_space_do_not_hide_a_copy(tmp_path: Path) -> None:
    text = words(1)
    other = ["\r\n " + word.upper() for word in text]
    store = run(tmp_path, [episode(text), episode(other)])
    assert store.manifest.dropped == {"exact_duplicate": 1}


def test_a_near_copy_goes_and_its_pair_is_on_disk(tmp_path: Path) -> None:
    text = words(1)
    store = run(tmp_path, [episode(text, task="a"), episode(changed(text, 0.01, 2), task="b")])
    assert store.manifest.dropped == {"near_duplicate": 1}
    pairs = pl.read_parquet(store.path / "duplicates.parquet")
    assert pairs["method"].to_list() == ["near"]
    assert 0.8 <= pairs["exact_similarity"][0] < 1
    assert abs(pairs["exact_similarity"][0] - pairs["estimated_similarity"][0]) < 0.15


def test_a_shared_prompt_and_tools_do_not_make_episodes_copies(tmp_path: Path) -> None:
    prompt = " ".join(words(99, 2_000))
    tools = [{"type": "function", "function": {"name": "get", "description": prompt}}]
    rows = [episode(words(n, 60), system=prompt, tools=tools, task=str(n)) for n in range(6)]
    store = run(tmp_path, rows)
    assert store.manifest.dropped == {}


def test_short_episodes_never_collide_unless_they_are_equal(tmp_path: Path) -> None:
    rows = [chat([("get", {"n": n}, ""), ("get", {}, "ok")], task=str(n)) for n in range(5)]
    store = run(tmp_path, rows)
    assert store.manifest.dropped == {}


def test_a_chain_of_similar_episodes_is_not_one_cluster(tmp_path: Path) -> None:
    chain = [words(1)]
    for n in range(4):
        previous = list(chain[-1])
        # Each link replaces another tenth of the text.
        previous[n * 60 : n * 60 + 24] = words(1_000 + n, 24)
        chain.append(previous)
    rows = [episode(text, task=str(n)) for n, text in enumerate(chain)]
    results = set()
    for seed in range(4):
        random.Random(seed).shuffle(rows)
        store = run(tmp_path, rows)
        pairs = pl.read_parquet(store.path / "duplicates.parquet")
        assert (pairs["exact_similarity"] >= 0.8).all()
        assert set(pairs["kept_id"]).isdisjoint(pairs["trajectory_id"])
        results.add(len(kept_tasks(store)))
    assert min(results) >= 2


def test_the_kept_episodes_do_not_depend_on_order(tmp_path: Path) -> None:
    base = [words(n) for n in range(4)]
    texts = [changed(text, share, 7) for text in base for share in (0.0, 0.01, 0.5)]
    rows = [episode(text, task=str(n)) for n, text in enumerate(texts)]
    counts = set()
    for seed in range(3):
        random.Random(seed).shuffle(rows)
        counts.add(run(tmp_path, rows).manifest.rows["trajectories"])
    assert counts == {8}


def test_parts_without_a_drop_are_linked_not_copied(tmp_path: Path) -> None:
    store = run(tmp_path, [episode(words(1)), episode(words(2))])
    ours = store.files("steps")[0]
    assert ours.samefile(tmp_path / "raw" / "steps" / ours.name)


def test_a_threshold_outside_its_range_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrajkitError, match=r"--threshold: 1.5 is outside"):
        dedup(tmp_path, tmp_path / "out", threshold=1.5, quiet=True)


def test_the_bands_find_nearly_every_pair_over_the_threshold() -> None:
    """Recall of the banding alone, from its own formula, at 0.85 and the default threshold."""
    n_bands, n_rows = bands_and_rows(0.8)
    assert 1 - (1 - 0.85**n_rows) ** n_bands >= 0.98


@given(texts=st.lists(st.text(alphabet="ab ", max_size=60), min_size=1, max_size=8))
def test_shingles_of_many_texts_are_those_of_each_alone(texts: list[str]) -> None:
    together = shingles(pl.Series(texts))
    for number, text in enumerate(texts):
        alone = shingles(pl.Series([text]))
        assert np.array_equal(together.of(number), alone.of(0))
        tokens = "".join(c if c.isalnum() else " " for c in text).split()
        assert len(alone.of(0)) == len({tuple(tokens[k : k + 5]) for k in range(len(tokens) - 4)})


def test_the_recorded_copies_are_found(unique_store: Path) -> None:
    dropped = Store(unique_store).manifest.dropped
    assert dropped["exact_duplicate"] >= 2
    assert dropped["near_duplicate"] >= 1
