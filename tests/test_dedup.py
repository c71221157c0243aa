"""Copies are found, near copies are verified, everything else stays."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from chats import chat, ingested
from dedup_corpus import (
    Maker,
    Steps,
    exact_similarity,
    kept_ids,
    quality,
    read_steps,
    write_corpus,
    write_episodes,
)
from peaks import peak_bytes

from trajkit.dedup import dedup
from trajkit.errors import TrajkitError
from trajkit.report import Report
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


def made(
    tmp_path: Path,
    episodes: dict[str, Steps],
    columns: dict[str, Any] | None = None,
    **options: Any,
) -> tuple[set[str], pl.DataFrame, Report]:
    """Return kept ids, pairs and report of episodes written straight into a store."""
    write_episodes(tmp_path / "raw", list(episodes.items()), **(columns or {}))
    report = dedup(tmp_path / "raw", tmp_path / "out", overwrite=True, quiet=True, **options)
    pairs = pl.read_parquet(tmp_path / "out" / "duplicates.parquet")
    return kept_ids(tmp_path / "out"), pairs.filter(pl.col("level") == "trajectory"), report


def marks(store: Path) -> dict[tuple[str, int], str | None]:
    rows = pl.concat(Store(store).read("steps", part) for part in Store(store).parts())
    return {
        (id_, step): reason
        for id_, step, reason in rows.select("trajectory_id", "step_index", "skip_reason").rows()
    }


def kept_tasks(store: Store) -> set[str]:
    return {task for part in store.parts() for task in store.read("trajectories", part)["task"]}


def plain(n_words: int, seed: int) -> Steps:
    """Return three steps of random words."""
    text = words(seed, n_words)
    third = n_words // 3
    return [(f"get part{n}of{seed}", " ".join(text[n * third : (n + 1) * third])) for n in range(3)]


def test_an_exact_copy_goes_and_a_different_episode_stays(tmp_path: Path) -> None:
    store = run(tmp_path, [episode(words(1)), episode(words(1)), episode(words(2))])
    assert store.manifest.dropped == {"exact_duplicate": 1}
    assert store.manifest.rows["trajectories"] == 2


def test_case_layout_and_clock_do_not_hide_a_copy_from_normalised_keys(tmp_path: Path) -> None:
    steps = [("run it", f"line {n} at 10:00:0{n}\n" + " ".join(words(n, 60))) for n in range(3)]
    other = [(a, o.replace("\n", "  \r\n").replace("10:00", "23:59").upper()) for a, o in steps]
    kept, pairs, report = made(tmp_path, {"a": steps, "b": other})
    assert len(kept) == 1
    assert pairs["method"].to_list() == ["exact"]
    assert made(tmp_path, {"a": steps, "b": other}, keys="plain")[2].dropped == {}
    assert report.dropped == {"exact_duplicate": 1}


def test_a_near_copy_goes_and_its_pair_is_on_disk(tmp_path: Path) -> None:
    text = words(1)
    store = run(tmp_path, [episode(text, task="a"), episode(changed(text, 0.01, 2), task="b")])
    assert store.manifest.dropped == {"near_duplicate": 1}
    pairs = pl.read_parquet(store.path / "duplicates.parquet")
    assert pairs["method"].to_list() == ["near"]
    assert 0.8 <= pairs["exact_similarity"][0] < 1
    assert abs(pairs["exact_similarity"][0] - pairs["estimated_similarity"][0]) < 0.15


def test_a_shared_prompt_and_tools_do_not_make_episodes_copies(tmp_path: Path) -> None:
    """Case DD01: six different short episodes and one copy under a long common prompt."""
    prompt = " ".join(words(99, 2_000))
    tools = [{"type": "function", "function": {"name": "get", "description": prompt}}]
    rows = [episode(words(n % 6, 60), system=prompt, tools=tools, task=str(n)) for n in range(7)]
    store = run(tmp_path, rows)
    assert store.manifest.dropped == {"exact_duplicate": 1}
    assert store.manifest.report["removed_share"] == {"rows.jsonl": pytest.approx(1 / 7, abs=1e-4)}


def banner_corpus(n: int = 60) -> dict[str, Steps]:
    banner = " ".join(words(7, 400))
    return {f"{k:03d}": [(a, f"{banner}\n{o}") for a, o in plain(90, 100 + k)] for k in range(n)}


def test_what_a_harness_says_in_most_episodes_is_no_likeness(tmp_path: Path) -> None:
    """Case DD01 with the template inside the observations: it is found from the data."""
    episodes = banner_corpus()
    copy = [(a, o[:-3]) for a, o in episodes["007"]]
    assert exact_similarity(episodes["001"], episodes["002"]) > 0.6
    kept, pairs, report = made(tmp_path, episodes | {"copy": copy})
    assert len(kept) == 60
    assert {*pairs["trajectory_id"], *pairs["kept_id"]} == {"007", "copy"}
    assert report.extra["boilerplate_shingles"]["made"] >= 390


def test_rollouts_of_one_task_are_no_boilerplate(tmp_path: Path) -> None:
    episodes = {k: [(a, o) for a, o in steps] for k, steps in banner_corpus().items()}
    columns = {"task": "the same for all"}
    assert made(tmp_path, episodes, columns)[2].extra["boilerplate_shingles"] == {}


def test_a_run_that_removes_most_of_a_source_warns_or_stops(tmp_path: Path) -> None:
    episodes = {f"{k:03d}": plain(90, k % 5) for k in range(25)}
    _, _, report = made(tmp_path, episodes)
    assert report.extra["removed_share"] == {"made": 0.8}
    assert "20 of 25 episodes of source 'made' are copies" in report.warnings[0]
    with pytest.raises(TrajkitError, match=r"20 of 25 episodes would be left out"):
        dedup(tmp_path / "raw", tmp_path / "stopped", max_removal=0.5, quiet=True)
    assert not (tmp_path / "stopped" / "manifest.json").exists()


def test_short_episodes_never_collide_unless_they_are_equal(tmp_path: Path) -> None:
    rows = [chat([("get", {"n": n}, ""), ("get", {}, "ok")], task=str(n)) for n in range(5)]
    assert run(tmp_path, rows).manifest.dropped == {}
    assert run(tmp_path, [*rows, rows[0]]).manifest.dropped == {"exact_duplicate": 1}


def test_episodes_without_a_word_are_no_copies(tmp_path: Path) -> None:
    kept, _, _ = made(tmp_path, {"a": [("", ""), ("", "")], "b": [("", ""), ("", "")]})
    assert kept == {"a", "b"}


def chain(n: int) -> dict[str, Steps]:
    """Windows over one long text: neighbours share four fifths, the ends far less."""
    text = words(5, 600)
    return {
        str(k): [("get", " ".join(text[40 * k : 40 * k + 200])), ("get", "x")] for k in range(n)
    }


def test_a_chain_of_similar_episodes_is_not_one_cluster_in_any_order(tmp_path: Path) -> None:
    """Case DD02: whoever goes is over the threshold with the one that stays for it."""
    texts = chain(6)
    assert exact_similarity(texts["0"], texts["1"]) >= 0.6
    assert exact_similarity(texts["0"], texts["5"]) < 0.3
    results = set()
    for seed in range(10):
        order = list(texts.items())
        random.Random(seed).shuffle(order)
        kept, pairs, _ = made(tmp_path, dict(order), threshold=0.6)
        for gone, stays, exact in pairs.select(
            "trajectory_id", "kept_id", "exact_similarity"
        ).rows():
            assert stays in kept
            assert exact == pytest.approx(exact_similarity(texts[gone], texts[stays]))
            assert exact >= 0.6
        results.add(frozenset(kept))
    assert len(results) == 1
    assert 2 <= len(results.pop()) < 6


def test_every_order_hash_seed_and_number_of_workers_gives_the_same_bytes(tmp_path: Path) -> None:
    """Case DD05: thirty texts, each two of them at about 0.43."""
    shared = words(1, 120)
    texts = {
        f"{k:02d}": [("get", " ".join([*shared, *words(50 + k, 78)])), ("get", "x")]
        for k in range(30)
    }
    assert 0.3 < exact_similarity(texts["00"], texts["01"]) < 0.5
    write_corpus(tmp_path / "raw", 2_500, n_chars=400, prompt=False)
    hashes = set()
    for seed, workers in (("0", "1"), ("3", "2"), ("17", "4")):
        out = tmp_path / f"out{seed}"
        command = [sys.executable, "-m", "trajkit", "dedup", str(tmp_path / "raw"), "-o", str(out)]
        subprocess.run(
            [*command, "--threshold", "0.4", "--workers", workers, "-q"],
            env=os.environ | {"PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        )
        hashes.add(tree_hash(out))
    assert len(hashes) == 1
    kept = {
        frozenset(made(tmp_path / "few", dict(order), threshold=0.3)[0])
        for order in (list(texts.items()), list(reversed(texts.items())))
    }
    assert len(kept) == 1


def tree_hash(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            digest.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


def test_a_run_killed_at_work_is_taken_up_and_gives_the_same_bytes(tmp_path: Path) -> None:
    write_corpus(tmp_path / "raw", 8_000, seed=6, n_chars=300, prompt=False)
    command = [sys.executable, "-m", "trajkit", "dedup", "--workers", "1", str(tmp_path / "raw")]
    out = tmp_path / "out"
    process = subprocess.Popen([*command, "-o", str(out), "-q"], stdout=subprocess.DEVNULL)
    while not (out / ".marks" / "part-00001.episodes").exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert not (out / "manifest.json").exists()
    dedup(tmp_path / "raw", out, quiet=True)
    dedup(tmp_path / "raw", tmp_path / "undisturbed", quiet=True)
    assert tree_hash(out) == tree_hash(tmp_path / "undisturbed")


def test_a_copy_of_a_near_copy_names_the_one_that_stays(tmp_path: Path) -> None:
    text = plain(300, 1)
    near = [text[0], text[1], (text[2][0], text[2][1] + " a few words more than that one")]
    kept, pairs, _ = made(tmp_path, {"a": text, "b": text, "c": near})
    assert kept == {"c"}
    assert set(pairs["kept_id"]) == {"c"}
    assert pairs["exact_similarity"].n_unique() == 1


def test_of_logs_that_begin_alike_the_longest_stays(tmp_path: Path) -> None:
    """Case FM05: a log for each call, and a fork that goes another way."""
    whole = [(f"step {n}", " ".join(words(n, 40))) for n in range(8)]
    fork = [*whole[:4], ("other way", " ".join(words(77, 400))), ("done", "x y z")]
    calls = {f"call{n}": whole[:n] for n in (1, 3, 5)}
    kept, pairs, report = made(tmp_path, {"whole": whole, "fork": fork, **calls})
    assert kept == {"whole", "fork"}
    assert report.dropped == {"prefix_duplicate": 3}
    stays = dict(pairs.select("trajectory_id", "kept_id").rows())
    assert stays == {"call1": "whole", "call3": "whole", "call5": "whole"}
    assert 0 < pairs["exact_similarity"].min() < 1  # type: ignore[operator]


def test_a_log_that_waits_for_its_last_answer_is_a_beginning(tmp_path: Path) -> None:
    whole = [(f"step {n}", " ".join(words(n, 40))) for n in range(4)]
    waiting: Any = [*whole[:2], (whole[2][0], None)]
    last: Any = [*whole[:3], (whole[3][0], None)]
    kept, _, report = made(tmp_path, {"whole": whole, "waiting": waiting, "last": last})
    assert kept == {"whole"}
    assert report.dropped == {"prefix_duplicate": 2}


def test_a_repeated_transition_is_marked_and_stays_as_history(tmp_path: Path) -> None:
    first = [("ls", "a.txt b.txt"), ("cat a.txt", "hello you"), ("date", "one two three")]
    other = [("ls", "a.txt b.txt"), ("cat a.txt", "hello you"), ("rm a.txt", "")]
    third = [("pwd", "/home/me"), ("cat a.txt", "hello you"), ("rm a.txt", "")]
    _, _, report = made(tmp_path, {"a": first, "b": other, "c": third})
    marked = {place for place, reason in marks(tmp_path / "out").items() if reason}
    assert len(marks(tmp_path / "out")) == 9
    assert marked in ({("b", 0), ("b", 1)}, {("a", 0), ("a", 1)})
    assert report.extra["steps_marked"] == {"duplicate_transition": 2}
    _, _, report = made(tmp_path, {"a": first, "b": other, "c": third}, context_steps=0)
    assert report.extra["steps_marked"] == {"duplicate_transition": 3}


def test_a_step_that_is_no_target_never_stands_for_one_that_is(tmp_path: Path) -> None:
    same = [("ls", "a.txt b.txt"), ("cat a.txt", "hello you")]
    episodes = {"a": [*same, ("x", "one")], "b": [*same, ("y", "two")]}
    columns = {"skip_reason": {"a": ["retry_cycle", None, None]}}
    made(tmp_path, episodes, columns)
    found = marks(tmp_path / "out")
    assert found["a", 0] == "retry_cycle"
    assert found["b", 0] is None
    assert sorted([found["a", 1] or "", found["b", 1] or ""]) == ["", "duplicate_transition"]


def test_no_transition_ceases_to_be_taught_because_another_episode_held_it(
    tmp_path: Path,
) -> None:
    """Case FM05: ingest marked the copied history in the resumed file, whose original goes."""
    whole = [(f"step {n}", " ".join(words(n, 40))) for n in range(5)]
    copied = {"skip_reason": {"new": ["copied_context"] * 3 + [None] * 2}}
    kept, _, report = made(tmp_path, {"old": whole[:3], "new": whole}, copied)
    assert kept == {"new"}
    assert set(marks(tmp_path / "out").values()) == {None}
    assert report.extra["steps_unmarked"] == 3


def test_a_planted_corpus_is_cleaned_with_precision_one_and_full_recall(tmp_path: Path) -> None:
    planted = write_corpus(tmp_path / "raw", 1_500, seed=4)
    dedup(tmp_path / "raw", tmp_path / "out", quiet=True)
    found = quality(tmp_path / "raw", tmp_path / "out", planted)
    kept = kept_ids(tmp_path / "out")
    assert found["near_pairs"] > 80
    assert found["pairs_over_085"] > 50
    assert found["precision"] == 1
    assert found["recall"] >= 0.97
    assert found["worst_error"] < 1e-9
    for one, other in planted.again:
        assert not {one, other} <= kept
    for one, whole in planted.begun:
        assert one not in kept
        assert whole in kept
    texts = read_steps(tmp_path / "raw")
    for one, _, end in planted.chains:
        if exact_similarity(texts[one], texts[end]) < 0.8:
            assert kept.intersection((one, end)) or {one, end}.isdisjoint(kept)
    assert all(kept.intersection(chain) for chain in planted.chains)


def test_a_full_bucket_is_taken_up_again_until_nothing_more_is_found(tmp_path: Path) -> None:
    """Two hundred near copies share every bucket, more than are paired at once."""
    maker = Maker(9, 3_000)
    base = maker.episode()
    episodes = {f"{k:03d}": maker.changed(base, 0.97) for k in range(200)}
    # One task for all: else what they share would be the template of their source.
    kept, pairs, report = made(tmp_path, episodes, {"task": "one"})
    assert len(kept) + pairs.height == 200
    for one in kept:
        for other in kept - {one}:
            assert exact_similarity(episodes[one], episodes[other]) < 0.8
    assert report.extra["near_verified"] < 200 * 20


def test_memory_for_an_episode_is_bounded_at_a_low_threshold(tmp_path: Path) -> None:
    """Case DD04: at a low threshold there are more bands, whose keys lie on disk.

    Under 1 kB was measured; the bound leaves room for noise.
    """
    peaks = []
    for n in (2_000, 8_000):
        write_corpus(tmp_path / f"raw{n}", n, n_chars=300, prompt=False)
        code = (
            "import sys\nfrom trajkit.dedup import dedup\n"
            "dedup(sys.argv[1], sys.argv[2], threshold=0.5, quiet=True)\n"
        )
        peak, _ = peak_bytes(code, tmp_path / f"raw{n}", tmp_path / f"out{n}")
        peaks.append(peak)
    assert (peaks[1] - peaks[0]) / 6_000 < 4_000


def test_parts_without_a_change_are_linked_not_copied(tmp_path: Path) -> None:
    store = run(tmp_path, [episode(words(1)), episode(words(2))])
    ours = store.files("steps")[0]
    assert ours.samefile(tmp_path / "raw" / "steps" / ours.name)


def test_the_stage_works_on_an_empty_store(tmp_path: Path) -> None:
    write_episodes(tmp_path / "raw", [])
    assert dedup(tmp_path / "raw", tmp_path / "out", quiet=True).read == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": 1.5}, "--threshold: 1.5 is outside"),
        ({"keys": "rough"}, "--keys: no keys 'rough'"),
        ({"context_steps": -1}, "--context-steps: -1 is outside"),
        ({"max_removal": 2}, "--max-removal: 2 is outside"),
    ],
)
def test_a_value_outside_its_range_is_refused(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(TrajkitError, match=message):
        dedup(tmp_path, tmp_path / "out", quiet=True, **options)


def test_the_recorded_copies_are_found(unique_store: Path) -> None:
    report = Store(unique_store).manifest.report
    assert sum(report["dropped"].values()) >= 3
    assert json.dumps(report["removed_share"]) != "{}"
