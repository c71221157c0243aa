"""Which episodes are dropped, and which steps are marked, for which reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from chats import chat, ingested

from trajkit.filters import TRAJECTORY_REASONS, filter_episodes, mark_steps
from trajkit.store import Store
from trajkit.tables import TABLES

TOOLS = [{"type": "function", "function": {"name": "get"}}]
OK = [("get", {"n": 1}, "one"), ("get", {"n": 2}, "two")]


def filtered(tmp_path: Path, rows: list[Any], domain: str = "mcp") -> Store:
    filter_episodes(ingested(tmp_path, rows, domain), tmp_path / "out", quiet=True)
    return Store(tmp_path / "out")


@pytest.mark.parametrize(
    ("row", "domain", "reason"),
    [
        (chat(OK[:1]), "mcp", "too_short"),
        (chat([*OK, ("put", {}, "x")], tools=TOOLS), "mcp", "undeclared_tool"),
        (chat([("get", {}, None), ("get", {}, None)]), "mcp", "no_observation"),
        (chat([("click", {}, None), ("click", {}, "tree")]), "web", "missing_state"),
        (chat([("click", {}, " "), ("click", {}, "tree")]), "web", "missing_state"),
        (chat([("goto", {}, "404 Not Found"), ("click", {}, "x")]), "web", "captcha_or_http_error"),
        (
            chat([("goto", {}, "Solve the CAPTCHA"), ("click", {}, "x")]),
            "web",
            "captcha_or_http_error",
        ),
    ],
)
def test_an_episode_is_dropped_for_its_reason(
    tmp_path: Path, row: Any, domain: str, reason: str
) -> None:
    store = filtered(tmp_path, [row, chat(OK, tools=TOOLS)], domain)
    assert store.manifest.dropped == {reason: 1}
    assert store.manifest.rows["trajectories"] == 1
    rejects = pl.read_parquet(store.path / "rejects.parquet")
    assert rejects["reason"].to_list() == [reason]
    assert rejects["origin_line"].to_list() == [1]
    assert TRAJECTORY_REASONS[reason] in rejects["message"][0]


@pytest.mark.parametrize(
    ("row", "domain"),
    [
        (chat(OK, tools=TOOLS), "mcp"),
        (chat([("anything", {}, "x"), ("else", {}, "y")]), "mcp"),
        (chat([("get", {}, "404 Not Found"), ("get", {}, "x")]), "mcp"),
        (chat([("bash", {"command": "cd /x"}, ""), ("bash", {"command": "ls"}, "a")]), "swe"),
    ],
)
def test_an_honest_episode_stays(tmp_path: Path, row: Any, domain: str) -> None:
    store = filtered(tmp_path, [row], domain)
    assert store.manifest.dropped == {}
    steps = store.read("steps", store.parts()[0])
    assert steps["skip_reason"].to_list() == [None] * 2


def steps_frame(*steps: dict[str, Any]) -> pl.DataFrame:
    base = {
        "trajectory_id": "t",
        "domain": "terminal",
        "turn": 0,
        "action_kind": "tool_call",
        "action": "x",
        "action_valid": True,
        "observation": "out",
        "observation_kind": "text",
        "observation_source": "environment",
        "truncated": False,
    }
    rows = [
        dict.fromkeys(TABLES["steps"].names) | base | {"step_index": number} | step
        for number, step in enumerate(steps)
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def marks(*steps: dict[str, Any]) -> list[str | None]:
    return mark_steps(steps_frame(*steps))["skip_reason"].to_list()


def test_steps_are_marked_by_cause_and_stay() -> None:
    assert marks(
        {"action_kind": "none", "action": ""},
        {"observation_source": "harness"},
        {"observation_source": "user"},
        {"truncated": True},
        {"observation": None},
        {},
        {"observation": None},
    ) == [
        "empty_action",
        "harness_feedback",
        "user_reply",
        "truncated_observation",
        "missing_observation",
        None,
        "final_without_reply",
    ]


def test_a_terminal_wait_and_a_silent_command_are_no_empty_actions() -> None:
    wait = {"action_kind": "keystrokes", "action": '[{"keystrokes":"","duration":5.0}]'}
    assert marks(wait, {"action": "mkdir a", "observation": ""}) == [None, None]


def test_no_change_is_marked_on_screens_of_a_gui_only() -> None:
    same = {"observation": "tree", "action_kind": "gui"}
    assert marks(*({**same, "domain": "web", "action": str(n)} for n in range(2))) == [
        None,
        "no_change",
    ]
    assert marks(*({**same, "action": f"cmd{n}"} for n in range(2))) == [None, None]


def test_a_failed_call_is_marked_when_the_next_one_puts_it_right() -> None:
    wrong = {
        "action": '{"name": "read", "arguments": {"path": "/srv/notes.tx"}}',
        "error": "no file",
    }
    right = {"action": '{"name": "read", "arguments": {"path": "/srv/notes.txt"}}'}
    other = {"action": '{"name": "read", "arguments": {"query": "weather in Oslo", "n": 3}}'}
    assert marks(wrong, right) == ["retry_cycle", None]
    assert marks(wrong, other) == [None, None]
    assert marks(right, right) == [None, None]


def test_a_mark_does_not_cross_into_the_next_episode() -> None:
    wrong = {"action": "cat a.tx", "error": "no file"}
    other = {"action": "cat a.txt", "trajectory_id": "u", "step_index": 0}
    assert marks(wrong, other) == [None, None]


def test_the_recorded_retry_cycles_and_waits_are_told_apart(filtered_store: Path) -> None:
    report = Store(filtered_store).manifest.report
    assert report["steps_marked"]["retry_cycle"] >= 2
    steps = pl.concat(
        Store(filtered_store).read("steps", part) for part in Store(filtered_store).parts()
    )
    waits = steps.filter(pl.col("action").str.contains(r'^\[\{"keystrokes":""'))
    assert waits.height >= 3
    assert waits["skip_reason"].null_count() == waits.height
