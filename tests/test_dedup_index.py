"""The index: what earlier runs kept counts as kept, and no run meets its own episodes."""

from __future__ import annotations

from pathlib import Path

import pytest
from dedup_corpus import Maker, Steps, kept_ids, write_corpus, write_episodes

from trajkit.dedup import dedup
from trajkit.errors import TrajkitError
from trajkit.report import Report


def run(tmp_path: Path, name: str, episodes: dict[str, Steps]) -> tuple[set[str], Report]:
    """Return kept ids and report of a run with the index of the test."""
    write_episodes(tmp_path / name, list(episodes.items()))
    out = tmp_path / f"{name}-out"
    report = dedup(tmp_path / name, out, index=tmp_path / "index", overwrite=True, quiet=True)
    return kept_ids(out), report


def test_a_later_run_leaves_out_what_an_earlier_one_kept(tmp_path: Path) -> None:
    maker = Maker(3)
    old, new, longer = maker.episode(), maker.episode(), maker.episode()
    assert run(tmp_path, "first", {"old": old, "begun": longer[:4]})[0] == {"old", "begun"}
    later = {
        "same": maker.again(old),
        "near": maker.changed(old, 0.95),
        "start": old[:5],
        "new": new,
        "longer": longer,
    }
    kept, report = run(tmp_path, "second", later)
    # The longer episode is new, though its beginning is not: its first steps are marked.
    assert kept == {"new", "longer"}
    assert report.dropped == {"exact_duplicate": 1, "near_duplicate": 1, "prefix_duplicate": 1}
    assert report.extra["steps_marked"] == {"duplicate_transition": 4}
    assert report.extra["index_episodes"] == 2


def test_a_run_made_anew_does_not_meet_its_own_episodes(tmp_path: Path) -> None:
    episodes = {str(n): Maker(n).episode() for n in range(3)}
    first = run(tmp_path, "first", episodes)
    again = run(tmp_path, "first", episodes)
    assert first[0] == again[0] == set(episodes)
    assert len(list((tmp_path / "index").glob("run-*"))) == 1


def test_a_generation_that_was_not_finished_is_not_read(tmp_path: Path) -> None:
    run(tmp_path, "first", {"a": Maker(1).episode()})
    generation = next((tmp_path / "index").glob("run-*"))
    generation.rename(generation.with_name(f".{generation.name}"))
    kept, report = run(tmp_path, "second", {"b": Maker(1).episode()})
    assert kept == {"b"}
    assert report.extra["index_episodes"] == 0


def test_an_index_of_other_settings_or_another_folder_is_refused(tmp_path: Path) -> None:
    run(tmp_path, "first", {"a": Maker(1).episode()})
    with pytest.raises(TrajkitError, match="made with other settings: plain False, not True"):
        dedup(tmp_path / "first", tmp_path / "x", index=tmp_path / "index", keys="plain")
    with pytest.raises(TrajkitError, match="is no index of dedup"):
        dedup(tmp_path / "first", tmp_path / "x", index=tmp_path / "first")


def test_two_runs_with_an_index_keep_what_one_run_keeps_of_both(tmp_path: Path) -> None:
    write_corpus(tmp_path / "raw", 300, seed=8, n_chars=1_500, prompt=False)
    dedup(tmp_path / "raw", tmp_path / "one", index=tmp_path / "index", quiet=True)
    write_corpus(tmp_path / "again", 300, seed=8, n_chars=1_500, prompt=False)
    # Another name, so another input: nothing of it is new.
    report = dedup(tmp_path / "again", tmp_path / "two", index=tmp_path / "index", quiet=True)
    assert report.kept == 0
    assert report.read == sum(report.dropped.values())
