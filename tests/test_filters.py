"""Which episodes are dropped, and which steps are marked, for which reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from chats import chat, ingested
from click.testing import CliRunner

from trajkit.cli import main
from trajkit.errors import TrajkitError
from trajkit.filters import REASONS, TRAJECTORY_REASONS, filter_episodes
from trajkit.store import Store

TOOLS = [{"type": "function", "function": {"name": "get"}}]
OK = [("get", {"n": 1}, "one"), ("get", {"n": 2}, "two")]


def filtered(tmp_path: Path, rows: list[Any], domain: str = "mcp", **options: Any) -> Store:
    raw = ingested(tmp_path, rows, domain)
    filter_episodes(raw, tmp_path / "out", overwrite=True, quiet=True, **options)
    return Store(tmp_path / "out")


@pytest.mark.parametrize(
    ("row", "domain", "reason"),
    [
        (chat(OK[:1]), "mcp", "too_short"),
        (chat([*OK, ("put", {}, "x")], tools=TOOLS), "mcp", "undeclared_tool"),
        (chat([("get", {}, None), ("get", {}, None)]), "mcp", "no_observation"),
        (chat([("click", {}, None), ("click", {}, "tree")]), "web", "missing_state"),
        (chat([("click", {}, " "), ("click", {}, "tree")]), "web", "missing_state"),
        (chat([("click", {}, "<picture:ab12:99>"), ("click", {}, "tree")]), "os", "missing_state"),
        (chat([("click", {}, None), ("click", {}, None)]), "android", "missing_state"),
        (
            chat([("read", {}, "HTTP 503 Service Unavailable")] * 2),
            "search",
            "captcha_or_http_error",
        ),
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
        (chat([("read", {}, "Error: HTTP 404 Not Found"), ("read", {}, "x")]), "search"),
        (chat([("click", {"n": 1}, "a"), ("click", {"n": 2}, "How a CAPTCHA works")]), "web"),
        (chat([("bash", {"command": "cd /x"}, ""), ("bash", {"command": "ls"}, "a")]), "swe"),
    ],
)
def test_an_honest_episode_stays(tmp_path: Path, row: Any, domain: str) -> None:
    store = filtered(tmp_path, [row], domain)
    assert store.manifest.dropped == {}
    steps = store.read("steps", store.parts()[0])
    assert steps["skip_reason"].to_list() == [None] * 2


def test_the_recorded_retry_cycles_and_waits_are_told_apart(filtered_store: Path) -> None:
    report = Store(filtered_store).manifest.report
    assert report["steps_marked"]["retry_cycle"] >= 2
    steps = pl.concat(
        Store(filtered_store).read("steps", part) for part in Store(filtered_store).parts()
    )
    waits = steps.filter(pl.col("action").str.contains(r'^\[\{"keystrokes":""'))
    assert waits.height >= 3
    assert waits["skip_reason"].null_count() == waits.height


def test_a_search_run_stays_when_few_of_its_pages_shut_it_out(tmp_path: Path) -> None:
    turns = [("read", {"n": n}, text) for n, text in enumerate(["a", "b", "HTTP 403 Forbidden"])]
    store = filtered(tmp_path, [chat(turns)], "search")
    steps = store.read("steps", store.parts()[0])
    assert steps["skip_reason"].to_list() == [None, None, "captcha_or_http_error"]
    store = filtered(tmp_path, [chat(turns)], "search", max_blocked_pages=0.2)
    assert store.manifest.dropped == {"captcha_or_http_error": 1}
    assert pl.read_parquet(store.path / "rejects.parquet")["pointer"][0] == "$.steps[2]"


def test_a_share_of_missing_screens_may_be_allowed(tmp_path: Path) -> None:
    row = chat([("click", {}, "a"), ("click", {}, None), ("click", {}, "b"), ("click", {}, "c")])
    assert filtered(tmp_path, [row], "web").manifest.dropped == {"missing_state": 1}
    assert filtered(tmp_path, [row], "web", max_missing_states=0.25).manifest.dropped == {}


CUTS = [
    ("first\n... (8000 characters)", True),
    ("first\n[...truncated 71 chars...]\nlast", True),
    ("1 a\n<response clipped><NOTE>Only a part of the page is shown.</NOTE>", True),
    ("first\n<truncated 12 lines>\nlast", True),
    ("Old environment output: (9 lines omitted)", True),
    ("[... Observation truncated due to length ...]", True),
    ("a talk on why output is truncated ... at all", False),
    ("x" * 9_998, False),
]


def test_an_answer_that_a_harness_cut_is_context_only_and_prose_about_cutting_is_not(
    tmp_path: Path,
) -> None:
    turns = [("read", {"n": n}, text) for n, (text, _) in enumerate(CUTS)]
    store = filtered(tmp_path, [chat(turns)])
    steps = store.read("steps", store.parts()[0])
    assert steps["truncated"].to_list() == [cut for _, cut in CUTS]
    assert steps["observation"].to_list() == [text for text, _ in CUTS]
    assert steps["skip_reason"].to_list() == [
        "truncated_observation" if cut else None for _, cut in CUTS
    ]


def test_every_reason_can_be_switched_off(tmp_path: Path) -> None:
    rows = [chat(OK[:1]), chat([*OK, ("put", {}, "x")], tools=TOOLS), chat([("get", {}, None)] * 2)]
    store = filtered(tmp_path, rows, keep=REASONS)
    assert store.manifest.dropped == {}
    assert store.manifest.report["steps_marked"] == {}
    assert store.manifest.options["keep"] == sorted(REASONS)
    store = filtered(tmp_path, rows, keep=("too_short",))
    assert store.manifest.dropped == {"no_observation": 1, "undeclared_tool": 1}
    assert filtered(tmp_path, rows, min_turns=4).manifest.dropped == {"too_short": 3}


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"keep": ("to_short",)}, "--keep"),
        ({"min_turns": -1}, "--min-turns"),
        ({"max_missing_states": 1.5}, "--max-missing-states"),
        ({"max_blocked_pages": -0.5}, "--max-blocked-pages"),
        ({"retry_similarity": 101}, "--retry-similarity"),
        ({"leaks_in": "all"}, "--leaks-in"),
    ],
)
def test_an_unknown_reason_or_a_threshold_out_of_range_is_an_error(
    tmp_path: Path, options: dict[str, Any], place: str
) -> None:
    with pytest.raises(TrajkitError, match=place):
        filter_episodes(tmp_path, tmp_path / "out", **options)


def test_the_report_counts_by_reason_and_domain(tmp_path: Path) -> None:
    rows = [chat(OK[:1]), chat([*OK, ("get", {"n": 3}, None)])]
    report = filtered(tmp_path, rows).manifest.report
    assert report["dropped_by_domain"] == {"mcp": {"too_short": 1}}
    assert report["steps_marked_by_domain"] == {"mcp": {"final_without_reply": 1}}


def test_what_no_filter_touches_is_linked_and_not_written_again(tmp_path: Path) -> None:
    store = filtered(tmp_path, [chat(OK, tools=TOOLS)])
    for table in ("trajectories", "steps"):
        made, source = (Store(p).files(table)[0] for p in (store.path, tmp_path / "raw"))
        assert made.samefile(source)


def test_a_store_without_episodes_is_filtered_to_one_without_episodes(tmp_path: Path) -> None:
    none_left = filtered(tmp_path, [chat(OK[:1])]).path
    report = filter_episodes(none_left, tmp_path / "again", quiet=True)
    assert (report.read, report.kept) == (0, 0)


def test_the_command_switches_reasons_off_and_sets_thresholds(tmp_path: Path) -> None:
    raw = str(ingested(tmp_path, [chat(OK[:1]), chat(OK)]))
    command = ["filter", raw, "-q", "--json", "-o", str(tmp_path / "out")]
    result = CliRunner().invoke(main, [*command, "--min-turns", "3", "--keep", "too_short"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["kept"] == 2
    result = CliRunner().invoke(main, [*command, "--overwrite", "--min-turns", "3"])
    assert json.loads(result.stdout)["dropped"] == {"too_short": 2}
    assert CliRunner().invoke(main, [*command, "--keep", "nothing"]).exit_code == 1
