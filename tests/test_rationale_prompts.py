"""Rationales and the prompts they are written for: length, and instructions that must not leak."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chats import chat, cut
from test_rationale_rows import Messages, number_of, options
from test_sft import VALUES, WHY, laid_out, right, rows_of, server, store

from trajkit.builders.sft import build_sft

__all__ = ["store"]


def test_a_row_that_only_its_rationale_makes_too_long_is_left_out(
    store: Path, tmp_path: Path
) -> None:
    """One answer explains itself at length; room for a usual one is kept free beforehand."""

    def chatty(messages: Messages, body: dict[str, Any]) -> str:
        long = " ".join(f"Point {n} of many." for n in range(1_000))
        thoughts = f"{WHY} {long}" if number_of(messages) == 1 else WHY
        return laid_out(thoughts, VALUES[number_of(messages)])

    with server(chatty) as (spec, _):
        chosen = options(
            spec, tokenizer="embedded", max_length=4_000, max_tokens=200, n_rollouts=1, test=0.0
        )
        report = build_sft(store, tmp_path / "sft", options=chosen, quiet=True)
    assert (report.read, report.kept, report.dropped) == (3, 2, {"cut_target": 1})
    assert {row["step_index"] for row in rows_of(tmp_path / "sft")} == {0, 2}


def test_a_query_that_cannot_become_a_row_is_never_asked(store: Path, tmp_path: Path) -> None:
    with server(right) as (spec, asked):
        chosen = options(spec, tokenizer="embedded", max_length=50, test=0.0)
        report = build_sft(store, tmp_path / "sft", options=chosen, quiet=True)
    assert (report.kept, report.dropped, asked) == (0, {"no_target": 3}, [])


def test_a_search_rollout_that_leaks_the_answer_it_was_told_is_refused(tmp_path: Path) -> None:
    page = "[1] http://a.example/korvand\nTitle: Korvand\nSnippet: A town with a bridge."
    row = chat([("web_search", {"query": q}, page) for q in ("Korvand", "Korvand river")])
    row["messages"][0]["content"] = "Which river runs through Korvand?"
    row["messages"].append({"role": "assistant", "content": "The Ashel Water."})
    cut(tmp_path, [row | {"outcome": "success"}], "search")

    def tempted(messages: Messages, body: dict[str, Any]) -> str:
        assert "Reference answer: `The Ashel Water.`" in messages[0]["content"]
        leaking = page.replace("a bridge", "a bridge over the Ashel Water")
        return laid_out(WHY, leaking if number_of(messages) == 0 else page)

    with server(tempted) as (spec, asked):
        chosen = options(spec, instructions="derived", test=0.0)
        report = build_sft(tmp_path / "tr", tmp_path / "sft", options=chosen, quiet=True)
    assert len(asked) == 2
    assert report.dropped == {"gate_answer_leaked": 1}
    (kept,) = rows_of(tmp_path / "sft")
    assert (kept["step_index"], kept["instruction_kind"]) == (1, "search_target")
