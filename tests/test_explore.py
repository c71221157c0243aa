"""SQL and plain text views of a store; log content never reaches a terminal raw."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from chats import chat, write_rows

from trajkit.errors import TrajkitError
from trajkit.explore.query import query
from trajkit.explore.show import list_episodes, printable, show_episode
from trajkit.ingest import Options, ingest
from trajkit.model import DOMAINS
from trajkit.store import Store

PER_DOMAIN = "select domain, count(*) n, sum(n_steps) s from trajectories group by all order by all"


def test_the_documented_query_names_all_seven_domains(raw_store: Path) -> None:
    rows = [json.loads(line) for line in query([raw_store], PER_DOMAIN, output="json").split("\n")]
    assert [row["domain"] for row in rows] == sorted(DOMAINS)
    table = query([raw_store], PER_DOMAIN)
    assert table.split("\n")[0].split() == ["domain", "n", "s"]
    assert table.endswith("(7 rows)")
    parsed = list(csv.DictReader(io.StringIO(query([raw_store], PER_DOMAIN, output="csv"))))
    assert [int(row["n"]) for row in parsed] == [row["n"] for row in rows]


def test_several_stores_are_one_view_with_a_column_for_the_store(
    raw_store: Path, filtered_store: Path
) -> None:
    text = "select store, count(*) n from trajectories group by all order by n desc"
    rows = [
        json.loads(line)
        for line in query([raw_store, filtered_store], text, output="json").split("\n")
    ]
    assert [row["store"] for row in rows] == [str(raw_store), str(filtered_store)]
    assert rows[0]["n"] == Store(raw_store).manifest.rows["trajectories"]


def test_a_query_can_read_nothing_but_the_store(raw_store: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    for text in (
        f"select * from read_csv('{secret}')",
        f"copy (select 1) to '{tmp_path / 'out.csv'}'",
        "set enable_external_access = true",
        f"attach '{tmp_path / 'x.db'}'",
    ):
        with pytest.raises(TrajkitError, match="query: "):
            query([raw_store], text)
    assert not (tmp_path / "out.csv").exists()


def test_a_wrong_query_names_the_tables(raw_store: Path) -> None:
    with pytest.raises(TrajkitError, match=r"Hint: the tables here are loss, rejects, steps, traj"):
        query([raw_store], "select * from trajectory")


def test_a_folder_that_is_no_store_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(TrajkitError, match=r"no manifest\.json"):
        query([tmp_path], "select 1")


def test_control_characters_of_a_log_are_shown_as_escapes(tmp_path: Path) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\u202etxt\r\nplain"
    write_rows(tmp_path / "a.jsonl", [chat([("get", {}, evil), ("get", {}, "x")], task=evil)])
    options = Options(domain="mcp")
    ingest((str(tmp_path / "a.jsonl"),), tmp_path / "store", options=options, quiet=True)
    listed = "\n".join(list_episodes(tmp_path / "store", 10))
    id_ = Store(tmp_path / "store").read("trajectories", "part-00000")["trajectory_id"][0]
    shown = "\n".join(show_episode(tmp_path / "store", id_[:6], full=True))
    table = query([tmp_path / "store"], "select observation from steps")
    for text in (listed, shown, table):
        assert not any(c in text for c in "\x1b\x07\u202e\r")
    assert "\\x1b[2J" in shown
    assert "plain" in shown


def test_an_episode_is_found_by_the_start_of_its_id(raw_store: Path) -> None:
    with pytest.raises(TrajkitError, match="no episode 'zzz'"):
        list(show_episode(raw_store, "zzz"))
    with pytest.raises(TrajkitError, match="episodes begin with ''"):
        list(show_episode(raw_store, ""))


def test_a_long_list_says_how_to_see_more(raw_store: Path) -> None:
    lines = list(list_episodes(raw_store, 3))
    assert len(lines) == 5
    assert "--limit shows more" in lines[-1]


def test_printable_keeps_ordinary_text() -> None:
    text = "naïve ☕ 漢字\n\ttab"
    assert printable(text) == text
