"""What bears loss in continual pre-training rows: keep rules, by turn and by token."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from chats import chat, cut, write_rows
from hypothesis import given
from hypothesis import strategies as st
from test_cases_sessions import COMPACTED
from test_cpt import ALL, rows_of

from trajkit.builders import render
from trajkit.builders.cpt import Options, build_cpt
from trajkit.builders.examples import episodes
from trajkit.builders.loss_spans import loss_spans
from trajkit.errors import TrajkitError
from trajkit.ingest import ingest
from trajkit.store import Store
from trajkit.transitions import KEEP_RATIOS, transitions

NONE = dict.fromkeys(KEEP_RATIOS, 0.0)
LONG = [("get", {"n": n}, f"answer {n} " * 400) for n in range(4)]


def built(store: Path, out: Path, **options: Any) -> list[dict[str, Any]]:
    build_cpt(store, out, options=Options(**options), overwrite=True, quiet=True)
    return rows_of(out)


def test_the_text_made_in_columns_is_the_one_that_is_rendered_step_by_step(
    transitions_store: Path, tmp_path: Path
) -> None:
    rows = {row["trajectory_id"]: row for row in built(transitions_store, tmp_path / "cpt")}
    source = Store(transitions_store)
    compared = set()
    for part in source.parts():
        for episode, steps in episodes(source, part):
            if episode["trajectory_id"] in rows:
                text, spans = render.text(render.render(episode, steps, "v1"))
                assert rows[episode["trajectory_id"]]["text"] == text
                assert rows[episode["trajectory_id"]]["loss_spans"] == spans
                compared.add(episode["domain"])
    assert len(compared) == 7


def test_ratios_and_seed_given_to_the_build_draw_as_given_to_the_transitions(
    tmp_path: Path,
) -> None:
    half = dict.fromkeys(KEEP_RATIOS, 0.5)
    rows = [chat([("get", {"n": k}, f"v {k}") for k in range(6)], task=str(n)) for n in range(9)]
    raw = cut(tmp_path, rows, keep_ratios=ALL).with_name("raw")
    transitions(raw, tmp_path / "half", keep_ratios=half, seed=5, quiet=True)
    there = built(tmp_path / "half", tmp_path / "a")
    assert there == built(tmp_path / "tr", tmp_path / "b", keep=half, seed=5)
    assert there == built(tmp_path / "half", tmp_path / "c", keep={"echo": 0.5}, seed=5)
    assert there != built(tmp_path / "half", tmp_path / "d", seed=6)


def test_without_masks_every_target_bears_loss_and_nothing_else(
    transitions_store: Path, tmp_path: Path
) -> None:
    rows = built(transitions_store, tmp_path / "cpt", masks=False)
    source = Store(transitions_store)
    n_targets = sum(int(source.read("transitions", p)["target"].sum()) for p in source.parts())
    assert sum(len(row["loss_spans"]) for row in rows) == n_targets


def test_by_token_each_turn_keeps_about_its_share_and_the_draw_follows_content_and_seed(
    tmp_path: Path,
) -> None:
    episodes_ = [chat(LONG, task=str(n)) for n in range(6)]
    keep = dict.fromkeys(KEEP_RATIOS, 0.3)

    def drawn(episodes_: list[Any], **options: Any) -> dict[str, Any]:
        store = cut(tmp_path, episodes_)
        rows = built(store, tmp_path / "cpt", keep=keep, keep_by="token", **options)
        return {row["text"]: row["loss_spans"] for row in rows}

    found = drawn(episodes_)
    assert found == drawn(episodes_[::-1])
    assert found != drawn(episodes_, seed=1)
    assert len(found) == 6
    for text, spans in found.items():
        pieces = [text[start:end] for start, end in spans]
        learned = sum(map(len, pieces))
        assert 0.25 < learned / sum(len(answer) + 1 for _, _, answer in LONG) < 0.35
        assert len(spans) > 100
        assert all(end < start for (_, end), (start, _) in pairwise(spans))
        # No piece begins or ends in a word.
        assert all(not (text[a - 1] + text[a]).isalnum() for a, _ in spans if text[a] == " ")
        assert all(text[b - 1].isspace() or not text[b].isalnum() for _, b in spans)


@given(text=st.text(max_size=200), share=st.floats(0.01, 0.99), hash_=st.integers(0, 2**64 - 1))
def test_drawn_spans_are_disjoint_in_order_and_inside_the_observation(
    text: str, share: float, hash_: int
) -> None:
    steps = pl.DataFrame(
        {
            "share": [1.0, share, 0.0],
            "shown_observation": [text] * 3,
            "n_chars": [len(text) + 1] * 3,
            "content_hash": [f"{hash_:032x}"] * 3,
            "step_index": [0, 1, 2],
        }
    )
    spans = loss_spans(steps, 0)
    first = spans.step == 0
    assert spans.start[first].tolist() == [0] and spans.end[first].tolist() == [len(text) + 1]
    drawn = spans.step == 1
    edges = np.stack([spans.start[drawn], spans.end[drawn]], axis=1).reshape(-1)
    assert (np.diff(edges) > 0).all()
    assert not len(edges) or (edges[0] >= 0 and edges[-1] <= len(text) + 1)
    assert not (spans.step == 2).any()


def test_an_episode_of_which_no_piece_was_drawn_is_counted_not_written(tmp_path: Path) -> None:
    rows = [chat([("get", {"n": 1}, "x"), ("get", {"n": 2}, "y")], task=str(n)) for n in range(60)]
    store = cut(tmp_path, rows)
    options = Options(keep=dict.fromkeys(KEEP_RATIOS, 0.2), keep_by="token")
    report = build_cpt(store, tmp_path / "cpt", options=options, quiet=True)
    assert 10 < report.dropped["no_loss"] < 55
    written = rows_of(tmp_path / "cpt")
    assert len(written) == report.kept == 60 - report.dropped["no_loss"]
    assert all(row["loss_spans"] for row in written)


@pytest.mark.parametrize("keep_by", ["turn", "token"])
def test_the_report_accounts_for_every_character_of_an_observation(
    transitions_store: Path, tmp_path: Path, keep_by: str
) -> None:
    options = Options(keep={"retrieval": 0.5}, keep_by=keep_by)
    report = build_cpt(transitions_store, tmp_path / "cpt", options=options, quiet=True)
    sides = [
        side
        for categories in report.extra["loss"].values()
        for category in categories.values()
        for side in category.items()
    ]
    kept = sum(units["chars"] for side, units in sides if side == "kept")
    assert kept == report.extra["chars_in_loss"]
    rows = rows_of(tmp_path / "cpt")
    assert kept == sum(end - start for row in rows for start, end in row["loss_spans"])
    assert report.extra["chars"] == sum(len(row["text"]) for row in rows)
    source = Store(transitions_store)
    wanted = {row["trajectory_id"] for row in rows}
    observed = sum(
        len(step["shown_observation"]) + 1
        for part in source.parts()
        for episode, steps in episodes(source, part)
        for step in steps
        if episode["trajectory_id"] in wanted and step["shown_observation"] is not None
    )
    assert observed == sum(units.get("chars", 0) for _, units in sides)
    assert "not_target" in report.extra["loss"]["swe"]
    assert "kept" not in report.extra["loss"]["swe"]["not_target"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keep_by": "word"}, "one of token, turn"),
        ({"keep": {"boring": 0.5}}, "one of action, boilerplate"),
        ({"keep": {"echo": 2.0}}, "outside"),
        ({"keep": {"echo": 0.5}, "masks": False}, "--keep has no say"),
        ({"keep_by": "token", "layout": "messages"}, "try --layout text or tokens"),
        ({"layout": "tokens", "packing": "tight"}, "one of best-fit, none"),
        ({"layout": "tokens", "max_tokens": 1}, "leave nothing to predict"),
    ],
)
def test_options_that_do_not_go_together_say_what_does(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    store = cut(tmp_path, [chat(LONG)])
    with pytest.raises(TrajkitError, match=message):
        build_cpt(store, tmp_path / "cpt", options=Options(**options), quiet=True)


def test_workers_never_change_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trajkit.ingest.SHARD_FILES", 2)
    for number in range(6):
        rows = [chat(LONG, task=f"{number} {n}") for n in range(3)]
        (tmp_path / "logs").mkdir(exist_ok=True)
        write_rows(tmp_path / "logs" / f"{number}.jsonl", rows)
    ingest((str(tmp_path / "logs"),), tmp_path / "raw", quiet=True)
    transitions(tmp_path / "raw", tmp_path / "tr", quiet=True)
    assert len(Store(tmp_path / "tr").parts()) == 3
    for n_workers in (1, 2):
        build_cpt(tmp_path / "tr", tmp_path / str(n_workers), workers=n_workers, quiet=True)
    one, two = (Store(tmp_path / str(n)).manifest for n in (1, 2))
    assert one.parts == two.parts
    assert one.report == two.report


@pytest.mark.parametrize("layout", ["text", "messages"])
def test_with_the_history_window_each_window_of_the_agents_context_is_a_row(
    tmp_path: Path, layout: str
) -> None:
    log = tmp_path / "session.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in COMPACTED))
    ingest((str(log),), tmp_path / "raw", quiet=True)
    transitions(tmp_path / "raw", tmp_path / "tr", keep_ratios=ALL, quiet=True)
    (whole,) = built(tmp_path / "tr", tmp_path / "full", layout=layout)
    windows = built(tmp_path / "tr", tmp_path / "window", layout=layout, history="window")
    column = "text" if layout == "text" else "messages"
    assert whole["step_index"] is None
    assert [row["step_index"] for row in windows] == [0, 1]
    # What the first window alone heard; the second begins with a summary that tells it otherwise.
    assert "sawn" in str(windows[0][column])
    assert "sawn" not in str(windows[1][column]).replace("the wood is sawn", "")


def test_a_layout_that_a_trainer_cannot_read_is_refused(tmp_path: Path) -> None:
    store = cut(tmp_path, [chat(LONG)])
    with pytest.raises(TrajkitError, match="ms-swift reads no rows of the layout tokens"):
        built(store, tmp_path / "out", layout="tokens", trainer="swift")
