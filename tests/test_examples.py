"""The recorded logs hold what the demo and the tests rely on."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
from conftest import LOGS, ROOT

from trajkit.store import Store


def table(store: Path, name: str) -> pl.DataFrame:
    return pl.concat(Store(store).read(name, part) for part in Store(store).parts())


def test_failed_and_solved_runs_are_both_there(raw_store: Path) -> None:
    episodes = table(raw_store, "trajectories")
    counts = dict(episodes["outcome_status"].value_counts().iter_rows())
    assert counts["failure"] >= 5
    assert counts["success"] >= 15


def test_a_progress_bar_with_carriage_returns_and_a_redrawn_screen_are_there(
    raw_store: Path,
) -> None:
    steps = table(raw_store, "steps")
    text = steps["observation"].fill_null("")
    assert text.str.contains(r"\r[^\n]").any()
    assert text.str.contains("\x1b[", literal=True).any()
    assert text.str.starts_with("Current Terminal Screen:").sum() >= 3


def test_a_file_cut_in_the_middle_keeps_what_came_before(raw_store: Path) -> None:
    rejects = pl.read_parquet(raw_store / "rejects.parquet")
    assert rejects["reason"].to_list() == ["truncated_line"]
    cut = rejects["origin_path"][0]
    episode = table(raw_store, "trajectories").filter(pl.col("origin_path") == cut)
    assert episode["n_steps"].to_list() == [5]
    steps = table(raw_store, "steps").join(episode.select("trajectory_id"), on="trajectory_id")
    assert steps["observation"].null_count() == 1


def test_constructed_episodes_are_labelled_so() -> None:
    for episode in json.loads((LOGS / "android" / "episodes.json").read_text()):
        assert episode["constructed"] is True
    assert "Constructed, not recorded" in (ROOT / "examples" / "README.md").read_text()


def test_no_log_tells_of_the_machine_it_was_recorded_on() -> None:
    private = re.compile(r"/(?:root|work|farm|home/(?!agent|box)\w+)/|site-packages|\.pyenv")
    for path in LOGS.rglob("*"):
        if path.is_file():
            assert private.search(path.read_text(encoding="utf-8")) is None, path
