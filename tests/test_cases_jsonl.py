"""Public reports of broken readers, as inputs of our own with the value that must come out."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pyarrow.parquet as pq
import pytest
from chats import chat, write_rows
from peaks import peak_bytes

import trajkit
from trajkit import tables
from trajkit.ingest import Options, ingest
from trajkit.model import Reject, Trajectory

PACKAGE = Path(trajkit.__file__).parent


def rows(store: Path, table: str) -> list[dict[str, Any]]:
    return [
        row
        for file in sorted((store / table).glob("*.parquet"))
        for row in pq.read_table(file).to_pylist()
    ]


def ingested(path: Path, folder: Path) -> Path:
    ingest((str(path),), folder / "store", options=Options(domain="mcp"), quiet=True)
    return folder / "store"


def call_line(text: str, arguments: str = '"{}"') -> str:
    """A chat row on one line as text, so that a case may write what no JSON writer would."""
    return (
        '{"messages": [{"role": "user", "content": "look"}, {"role": "assistant", "tool_calls": '
        f'[{{"id": "c1", "function": {{"name": "peek", "arguments": {arguments}}}}}]}}, '
        f'{{"role": "tool", "tool_call_id": "c1", "content": "{text}"}}]}}'
    )


def read_text(path: Path, text: str | bytes) -> tuple[list[Trajectory], list[Reject]]:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    rejects: list[Reject] = []
    return list(trajkit.read(path, rejects=rejects)), rejects


# JL01
def test_a_lone_surrogate_becomes_one_mark_and_a_pair_stays_an_emoji(tmp_path: Path) -> None:
    lines = [
        call_line("caf\\udce9 m\\udcb2"),
        call_line("cut here \\ud83d", '{"say": "\\ud83c\\udf78", "\\ud800k": 1}'),
    ]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    store = ingested(path, tmp_path)
    manifest = orjson.loads((store / "manifest.json").read_bytes())
    assert manifest["report"]["repairs"] == {"lone_surrogate": 4}
    found = rows(store, "steps")
    assert [step["observation"] for step in found] == ["caf\ufffd m\ufffd", "cut here \ufffd"]
    assert json.loads(found[1]["action"])["arguments"] == {"say": "\U0001f378", "\ufffdk": 1}
    query = f"select observation from read_parquet('{store}/steps/*.parquet') order by 1"
    assert [text for (text,) in duckdb.sql(query).fetchall()] == sorted(
        step["observation"] for step in found
    )


# JL02
def test_line_marks_of_unicode_do_not_end_a_record(tmp_path: Path) -> None:
    texts = ["one\u2028two", "one\u2029two\x85three", "plain"]
    found, rejects = read_text(tmp_path / "a.jsonl", "\n".join(map(call_line, texts)) + "\n")
    assert [one.steps[0].observation for one in found] == texts
    assert rejects == []


def test_no_module_cuts_text_with_splitlines() -> None:
    # A file is cut at bytes 0x0A; splitlines may only cut what is no record any more.
    allowed = {"terminal_text.py"}
    users = {
        path.name
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr == "splitlines"
    }
    assert not users & {"readers.py", "streams.py", "json_text.py", "json_arrays.py", "inputs.py"}
    readers = {name for name in users if name not in allowed}
    assert not any("adapter" in name for name in readers)


# JL05
def test_a_tail_cut_inside_a_character_costs_that_line_only(tmp_path: Path) -> None:
    whole = call_line("fine").encode()
    torn = call_line("costs 5 \u20ac").encode()
    torn = torn[: torn.index("\u20ac".encode()) + 2]
    found, rejects = read_text(tmp_path / "a.jsonl", whole + b"\n" + torn)
    assert [one.steps[0].observation for one in found] == ["fine"]
    assert [(reject.reason, reject.origin.line) for reject in rejects] == [("truncated_line", 2)]


# JL06
def test_words_for_no_number_are_read_and_strict_json_is_written(tmp_path: Path) -> None:
    arguments = '{"a": NaN, "b": -Infinity, "c": 1e999, "d": 1e-400}'
    lines = [call_line("x", arguments), call_line("NaN is a word here")]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(lines) + "\n")
    store = ingested(path, tmp_path)
    found = rows(store, "steps")
    written = orjson.loads(found[0]["action"])["arguments"]
    assert written == {"a": "NaN", "b": "-Infinity", "c": "1e999", "d": 0.0}
    assert '"d":1e-400' in found[0]["action"]
    assert found[1]["observation"] == "NaN is a word here"
    query = f"select action->>'$.arguments.a' from read_parquet('{store}/steps/*.parquet') limit 1"
    assert duckdb.sql(query).fetchall() == [("NaN",)]


# JL07
def test_a_byte_order_mark_and_windows_line_ends_lose_nothing(tmp_path: Path) -> None:
    lines = [call_line(text) for text in ("a\\r\\nb", "second", "third")]
    text = "\ufeff" + "\r\n\r\n".join(lines)
    found, rejects = read_text(tmp_path / "a.jsonl", text)
    assert [one.steps[0].observation for one in found] == ["a\r\nb", "second", "third"]
    wide, more = read_text(tmp_path / "b.jsonl", "\r\n".join(lines).encode("utf-16"))
    assert [one.steps for one in wide] == [one.steps for one in found]
    assert rejects == more == []


# JL09
@pytest.mark.parametrize("spaced", [True, False])
def test_no_digit_of_an_argument_changes(tmp_path: Path, spaced: bool) -> None:
    arguments = (
        '{"offset":18446744073709551615,"mask":1180591620717411303424,"low":-9223372036854775809,'
        '"share":0.1000000000000000055511151231257827,"price":1.10,"tiny":1e-7,"hex":"0xff"}'
    )
    given = arguments.replace(":", ": ").replace(",", ", ") if spaced else arguments
    (found,), _ = read_text(tmp_path / "a.jsonl", call_line("x", given))
    assert found.steps[0].action == f'{{"name": "peek", "arguments": {arguments}}}'
    as_text, _ = read_text(tmp_path / "b.jsonl", call_line("x", json.dumps(given)))
    assert as_text[0].steps[0].action == f'{{"name": "peek", "arguments": {given}}}'


def test_a_number_that_keeps_its_text_is_still_a_number(tmp_path: Path) -> None:
    row = call_line("x")[:-1] + ', "reward": 0.50}'
    (found,), _ = read_text(tmp_path / "a.jsonl", row)
    assert (found.reward, found.outcome_status) == (0.5, "unknown")
    stores = ingested(tmp_path / "a.jsonl", tmp_path)
    assert [one["reward"] for one in rows(stores, "trajectories")] == [0.5]


def test_an_object_that_names_a_key_twice_is_refused_and_not_guessed(tmp_path: Path) -> None:
    lines = [call_line("x", '{"path": "a", "path" : "b"}'), call_line("kept")]
    found, rejects = read_text(tmp_path / "a.jsonl", "\n".join(lines))
    assert [one.steps[0].observation for one in found] == ["kept"]
    assert [(r.reason, r.origin.line) for r in rejects] == [("duplicate_key", 1)]
    assert "'path'" in rejects[0].message
    _, rejects = read_text(tmp_path / "b.json", '{\n "messages": [],\n "messages": []\n}')
    assert [reject.reason for reject in rejects] == ["duplicate_key"]


def test_runs_of_zeros_of_a_crash_are_taken_out_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    whole = call_line("a").encode()
    path.write_bytes(whole + b"\n" + bytes(4096) + b"\n" + whole[:40] + bytes(99) + whole + b"\n")
    store = ingested(path, tmp_path)
    manifest = orjson.loads((store / "manifest.json").read_bytes())
    assert manifest["report"]["kept"] == 2
    assert manifest["report"]["repairs"] == {"nul_run": 2}
    assert manifest["dropped"] == {"truncated_line": 1}


def test_documents_printed_one_after_the_other_are_all_read(tmp_path: Path) -> None:
    printed = [json.dumps(chat([("peek", {}, f"n{n}")]), indent=2) for n in range(3)]
    found, rejects = read_text(tmp_path / "a.json", "\n".join(printed) + "\n")
    assert [one.steps[0].observation for one in found] == ["n0", "n1", "n2"]
    lines = [one.origin.line for one in found]
    assert lines == [1, 1 + printed[0].count("\n") + 1, 1 + 2 * (printed[0].count("\n") + 1)]
    assert rejects == []


# JL11
def test_a_huge_array_on_one_line_is_read_in_bounded_memory(tmp_path: Path) -> None:
    row = json.dumps(chat([("peek", {"n": 1}, "o" * 48_000)]))
    path = tmp_path / "a.json"
    n_rows = 3_000
    with path.open("w") as file:
        file.write("[" + row)
        for _ in range(n_rows - 1):
            file.write("," + row)
        file.write("]")
    code = (
        "import sys; from trajkit.ingest import ingest\n"
        "print(ingest((sys.argv[1],), sys.argv[2], quiet=True).kept)\n"
    )
    peak, (kept,) = peak_bytes(code, path, tmp_path / "store")
    assert path.stat().st_size > 140_000_000
    assert int(kept) == n_rows
    assert peak < 500_000_000


def test_a_huge_array_that_breaks_off_keeps_what_came_before(tmp_path: Path) -> None:
    row = json.dumps(chat([("peek", {}, "o" * 480_000)]))
    found, rejects = read_text(tmp_path / "a.json", "[" + ",".join([row] * 80) + ',{"messages": [')
    assert len(found) == 80
    assert [one.origin.key for one in found[:2]] == ["[0]", "[1]"]
    assert [reject.reason for reject in rejects] == ["truncated_document"]


# SQ01
def test_a_record_far_larger_than_the_others_is_read_and_can_be_queried(tmp_path: Path) -> None:
    sizes = (5, 20_000_000, 5)
    path = write_rows(tmp_path / "a.jsonl", [chat([("peek", {}, "y" * n)]) for n in sizes])
    store = ingested(path, tmp_path)
    query = f"select length(observation) from read_parquet('{store}/steps/*.parquet')"
    assert sorted(n for (n,) in duckdb.sql(query).fetchall()) == sorted(sizes)


# AR05
def test_long_text_stands_in_columns_and_row_groups_that_can_hold_it(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.jsonl", [chat([("peek", {}, "z" * 3_000_000)])] * 12)
    store = ingested(path, tmp_path)
    (file,) = (store / "steps").glob("*.parquet")
    with pq.ParquetFile(file) as part:
        assert str(part.schema_arrow.field("observation").type) == "large_string"
        sizes = [part.metadata.row_group(n).total_byte_size for n in range(part.num_row_groups)]
        assert part.num_row_groups > 1
        assert max(sizes) < 2 * tables.MAX_ROW_GROUP_BYTES


# WB01
def test_pictures_as_base64_leave_a_mark_and_no_text(tmp_path: Path) -> None:
    pixels = "iVBORw0KGgo" + "A" * 250_000
    url = f"data:image/png;base64,{pixels}"
    texts = [
        json.dumps({"shot": url, "title": "Home"}),
        json.dumps({"shot": url})[:9_000],
        "a data URL begins with data:image/png;base64, and then the pixels",
        "f0e1d2c3b4a5" * 60,
    ]
    path = write_rows(tmp_path / "a.jsonl", [chat([("peek", {}, text)]) for text in texts])
    store = ingested(path, tmp_path)
    found = {row["trajectory_id"]: row for row in rows(store, "steps")}
    shown = [row["observation"] for row in found.values()]
    assert json.loads(shown[0])["title"] == "Home"
    assert json.loads(shown[0])["shot"].startswith("<picture:")
    assert shown[1].startswith('{"shot": "<picture:')
    assert shown[2:] == texts[2:]
    media = [orjson.loads(row["media"]) for row in found.values() if row["media"]]
    assert [len(pictures) for pictures in media] == [1, 1]
    manifest = orjson.loads((store / "manifest.json").read_bytes())
    assert manifest["report"]["repairs"] == {"picture_in_text": 2}


def test_rows_of_a_parquet_file_are_read_like_lines(tmp_path: Path) -> None:
    import pyarrow as pa

    chats = [chat([("peek", {}, f"n{n}")]) for n in range(70)]
    columns = {"messages": [json.dumps(one["messages"]) for one in chats], "id": list(range(70))}
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    found = list(trajkit.read(tmp_path / "rows.parquet"))
    assert [one.steps[0].observation for one in found] == [f"n{n}" for n in range(70)]
    assert found[3].origin.key == "[3]"


# SQ04
def test_questions_about_long_texts_fit_in_little_memory(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.jsonl", [chat([("peek", {}, "z" * 5_000_000)])] * 60)
    store = ingested(path, tmp_path)
    with duckdb.connect(config={"memory_limit": "300MB"}) as connection:
        for table in ("steps", "trajectories"):
            files = f"read_parquet('{store}/{table}/*.parquet')"
            connection.execute(f"create view {table} as select * from {files}")
        query = "select domain, count(*), sum(n_steps) from trajectories group by all"
        assert connection.execute(query).fetchall() == [("mcp", 60, 60)]
        query = "select count(*), sum(length(observation)) from steps where observation like 'z%'"
        assert connection.execute(query).fetchall() == [(60, 300_000_000)]
