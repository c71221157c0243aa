"""Statistics, categories, the draw of the loss, split groups."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from chats import chat, ingested
from hypothesis import given
from hypothesis import strategies as st

from trajkit.errors import TrajkitError
from trajkit.store import Store
from trajkit.transitions import (
    KEEP_RATIOS,
    THRESHOLDS,
    category,
    overlap_statistics,
    transitions,
    uniform_draws,
)

TURNS = [("get", {"n": n}, f"answer number {n} and more words") for n in range(3)]


def statistics(action: str, observation: str | None) -> dict[str, object]:
    frame = pl.DataFrame(
        {"action": [action], "observation": [observation]},
        schema={"action": pl.String, "observation": pl.String},
    )
    return overlap_statistics(frame).with_columns(category=category()).row(0, named=True)


@pytest.mark.parametrize(
    ("action", "observation", "expected"),
    [
        ('think("go north now")', '{"thought": "go north now"}', "echo"),
        ("save the file now please", "the file now: done ok", "boilerplate"),
        ("a very long input with many words in one line of text " * 3, "in one", "transform"),
        (
            "fetch page one",
            "fetch page one: " + "title body links words more text here and on",
            "expansion",
        ),
        ("read it", "completely different contents of a longer document", "retrieval"),
        ("send the message to the whole team at once", "delivered", "action"),
        ("mkdir a", "", "other"),
        ("mkdir a", None, "other"),
    ],
)
def test_the_first_signature_that_fits_names_the_category(
    action: str, observation: str | None, expected: str
) -> None:
    assert statistics(action, observation)["category"] == expected


@given(action=st.text(max_size=80), observation=st.text(max_size=80) | st.none())
def test_statistics_are_shares_and_every_turn_has_a_category(
    action: str, observation: str | None
) -> None:
    row = statistics(action, observation)
    for name in ("overlap", "novelty", "jaccard"):
        assert 0.0 <= row[name] <= 1.0  # type: ignore[operator]
    assert row["length_ratio"] >= 0.0  # type: ignore[operator]
    assert row["category"] in KEEP_RATIOS


def build(tmp_path: Path, rows: list[object], name: str = "out", **options: object) -> pl.DataFrame:
    ingested(tmp_path, rows)
    transitions(tmp_path / "raw", tmp_path / name, overwrite=True, quiet=True, **options)  # type: ignore[arg-type]
    store = Store(tmp_path / name)
    return pl.concat(store.read("transitions", part) for part in store.parts())


def test_there_is_one_transition_for_each_step_and_none_without_an_answer_is_a_target(
    transitions_store: Path,
) -> None:
    store = Store(transitions_store)
    for part in store.parts():
        steps, rows = store.read("steps", part), store.read("transitions", part)
        assert rows["step_index"].to_list() == steps["step_index"].to_list()
        joined = rows.join(
            steps.select("trajectory_id", "step_index", "observation", "observation_source"),
            on=["trajectory_id", "step_index"],
        )
        targets = joined.filter("target")
        assert targets["observation"].null_count() == 0
        assert set(targets["observation_source"]) == {"environment"}
        assert joined.filter("loss")["target"].all()
        assert joined.filter(~pl.col("target"))["skip_reason"].null_count() == 0


def test_keep_ratios_of_one_and_zero_keep_all_and_none(tmp_path: Path) -> None:
    rows = [chat(TURNS, task=str(n)) for n in range(5)]
    everything = build(tmp_path, rows, keep_ratios=dict.fromkeys(KEEP_RATIOS, 1.0))
    nothing = build(tmp_path, rows, keep_ratios=dict.fromkeys(KEEP_RATIOS, 0.0))
    assert everything["loss"].all()
    assert not nothing["loss"].any()


def test_the_draw_follows_content_and_seed_not_order(tmp_path: Path) -> None:
    rows = [chat(TURNS, task=str(n)) for n in range(30)]
    half = dict.fromkeys(KEEP_RATIOS, 0.5)

    def drawn(rows: list[object], seed: int) -> dict[tuple[str, int], bool]:
        frame = build(tmp_path, rows, keep_ratios=half, seed=seed)
        hashes = pl.concat(
            Store(tmp_path / "out").read("trajectories", part)
            for part in Store(tmp_path / "out").parts()
        ).select("trajectory_id", "content_hash")
        joined = frame.join(hashes, on="trajectory_id")
        return {
            (r[0], r[1]): r[2] for r in joined.select("content_hash", "step_index", "loss").rows()
        }

    forward = drawn(rows, 0)
    assert forward == drawn(rows[::-1], 0)
    assert forward != drawn(rows, 1)
    assert 0.3 < sum(forward.values()) / len(forward) < 0.7


def test_draws_are_uniform() -> None:
    hashes = pl.Series([f"{n:016x}" + "0" * 16 for n in range(20_000)])
    draws = uniform_draws(hashes, pl.Series([0] * 20_000), 0)
    assert abs(float(np.mean(draws)) - 0.5) < 0.01
    assert abs(float(np.mean(draws < 0.05)) - 0.05) < 0.005


def test_episodes_of_one_task_share_a_split_group_and_others_do_not(tmp_path: Path) -> None:
    rows = [chat(TURNS, task="Fix  it"), chat(TURNS[:2], task="fix it"), chat(TURNS, task="other")]
    frame = build(tmp_path, rows)
    groups = frame.group_by("trajectory_id").agg(pl.col("split_group").first())
    assert groups["split_group"].n_unique() == 2


def test_an_unknown_category_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(TrajkitError, match="one of action, boilerplate, echo"):
        transitions(tmp_path, tmp_path / "out", keep_ratios={"boring": 0.5}, quiet=True)


def test_a_store_without_steps_names_the_stage_to_run(tmp_path: Path, raw_store: Path) -> None:
    from trajkit.builders.cpt import build_cpt

    with pytest.raises(TrajkitError, match="run `trajkit transitions` first"):
        build_cpt(raw_store, tmp_path / "out", quiet=True)


def test_every_threshold_has_the_value_of_the_report() -> None:
    assert THRESHOLDS == {
        "echo.overlap": 0.7,
        "echo.novelty": 0.3,
        "boilerplate.overlap": 0.5,
        "boilerplate.novelty": 0.5,
        "transform.novelty": 0.5,
        "transform.ratio": 1.0,
        "expansion.overlap": 0.5,
        "expansion.novelty": 0.5,
        "expansion.ratio": 1.5,
        "retrieval.novelty": 0.6,
        "retrieval.ratio": 1.0,
        "action.novelty": 0.5,
        "action.ratio": 1.0,
        "action.short": 200.0,
    }


@pytest.mark.parametrize(
    ("overlap", "novelty", "ratio", "n_chars", "expected"),
    [
        (0.7, 0.29, 5.0, 900, "echo"),
        (0.69, 0.29, 5.0, 900, "boilerplate"),
        (0.7, 0.3, 0.5, 900, "boilerplate"),
        (0.49, 0.49, 0.99, 900, "transform"),
        (0.5, 0.5, 1.51, 900, "expansion"),
        (0.5, 0.6, 1.5, 900, "retrieval"),
        (0.0, 0.6, 1.01, 900, "retrieval"),
        (0.0, 0.6, 1.0, 900, "action"),
        (0.0, 0.59, 9.0, 200, "action"),
        (0.0, 0.59, 9.0, 201, "other"),
        (0.0, 0.49, 1.0, 900, "other"),
        (1.0, 0.0, 0.0, 0, "other"),
    ],
)
def test_each_threshold_lies_where_the_table_says(
    overlap: float, novelty: float, ratio: float, n_chars: int, expected: str
) -> None:
    columns = {"overlap": overlap, "novelty": novelty, "length_ratio": ratio}
    frame = pl.DataFrame([columns | {"n_observation_chars": n_chars}])
    assert frame.select(named=category())["named"].to_list() == [expected]


def test_another_threshold_moves_a_turn_to_another_category(tmp_path: Path) -> None:
    echo = [("think", {"thought": "go north"}, "go north"), ("get", {"n": 1}, "something else")]
    assert build(tmp_path, [chat(echo)], "a")["category"].to_list()[0] == "transform"
    moved = build(tmp_path, [chat(echo)], "b", signatures={"echo.overlap": 0.3})
    assert moved["category"].to_list()[0] == "echo"
    assert Store(tmp_path / "b").manifest.options["signatures"]["echo.overlap"] == 0.3


def test_an_unknown_threshold_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(TrajkitError, match=r"one of action\.novelty, action\.ratio, action\.short"):
        transitions(tmp_path, tmp_path / "out", signatures={"echo.length": 1.0}, quiet=True)
