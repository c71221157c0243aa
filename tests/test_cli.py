"""The command line as a person meets it: reports, exit codes, hints, no traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from chats import chat, write_rows
from conftest import LOGS

ROWS = [
    chat([("web_search", {"queries": [str(n)]}, f"[1] http://e.example/{n}")] * 2, task=str(n))
    for n in range(3)
]


def trajkit(*arguments: object, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "trajkit", *map(str, arguments)], input=stdin, capture_output=True
    )


def test_a_report_is_one_json_line_on_standard_output(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "a.jsonl", ROWS)
    done = trajkit("ingest", rows, "-o", tmp_path / "store")
    assert done.returncode == 0
    report = json.loads(done.stdout)
    assert (report["stage"], report["read"], report["kept"]) == ("ingest", 3, 3)
    assert done.stdout.count(b"\n") == 1
    assert b"ingest: 1/1 files" in done.stderr
    assert trajkit("validate", tmp_path / "store", "-q").stderr == b""


def test_standard_input_is_a_path_called_dash(tmp_path: Path) -> None:
    data = b"".join(json.dumps(row).encode() + b"\n" for row in ROWS)
    done = trajkit("ingest", "-", "-o", tmp_path / "store", stdin=data)
    assert json.loads(done.stdout)["kept"] == 3


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["ingest", "nowhere", "-o", "out"], 1, ["nowhere: no such file", "Hint: "]),
        (["ingest", "a.jsonl", "-o", "a.jsonl"], 1, ["is a file, not a folder", "Hint: "]),
        (["ingest", "a.jsonl", "-o", "out", "--format", "x"], 1, ["no adapter 'x'", "swe-agent"]),
        (["ingest", "a.jsonl"], 2, ["--out"]),
        (["filter", "nowhere", "-o", "out"], 1, ["nowhere: no such store"]),
        (["filter", ".", "-o", "out"], 1, ["no manifest.json", "trajkit ingest"]),
        (["transitions", ".", "-o", "out", "--keep", "echo"], 2, ["CATEGORY=RATIO"]),
        (["sql", "select 1"], 2, ["STORE"]),
        (["run", "missing.toml"], 1, ["missing.toml: no such file"]),
        (["igest"], 2, ["did you mean 'ingest'"]),
    ],
)
def test_a_users_mistake_is_a_message_with_a_code_and_never_a_traceback(
    arguments: list[str],
    code: int,
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "a.jsonl", ROWS)
    done = trajkit(*arguments)
    assert done.returncode == code
    assert done.stdout == b""
    for word in words:
        assert word in done.stderr.decode()
    assert b"Traceback" not in done.stderr


def test_strict_fails_on_a_reject_and_says_where_to_look(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "a.jsonl", [*ROWS, {"not": "a log"}])
    done = trajkit("ingest", rows, "-o", tmp_path / "store", "--strict")
    assert done.returncode == 1
    assert json.loads(done.stdout)["dropped"] == {"unknown_format": 1}
    assert b"from rejects" in done.stderr


def test_validate_finds_a_changed_part_and_a_bad_document(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "a.jsonl", ROWS)
    trajkit("ingest", rows, "-o", tmp_path / "store")
    assert trajkit("validate", tmp_path / "store").returncode == 0
    part = tmp_path / "store" / "steps" / "part-00000.parquet"
    part.write_bytes(part.read_bytes() + b"x")
    # A file with bytes after its footer is no Parquet file; the manifest already says so.
    done = trajkit("validate", tmp_path / "store" / "manifest.json", "--schema", "trajectory")
    assert done.returncode == 1
    predictions = write_rows(
        tmp_path / "p.jsonl",
        [
            {"trajectory_id": "0" * 24, "step_index": 0, "prediction": "x"},
            {"trajectory_id": "0" * 24, "step_index": -1, "prediction": "x"},
            {"trajectory_id": "0" * 24, "step_index": 1},
        ],
    )
    done = trajkit("validate", predictions, "--schema", "prediction")
    report = json.loads(done.stdout)
    assert done.returncode == 1
    assert report["dropped"] == {"schema_violation": 2}
    assert "$.step_index" in report["faults"][0]
    assert "'prediction' is a required property" in report["faults"][1]


def test_formats_and_show_speak_of_what_is_there(tmp_path: Path) -> None:
    names = [json.loads(line)["name"] for line in trajkit("formats", "--json").stdout.splitlines()]
    assert {"atif", "openai-chat", "swe-agent", "claude-code", "mcp-jsonrpc"} <= set(names)
    trajkit("ingest", LOGS / "search", "-o", tmp_path / "store")
    listed = trajkit("show", tmp_path / "store").stdout.decode().split("\n")
    shown = trajkit("show", tmp_path / "store", listed[1].split()[0]).stdout.decode()
    assert "--- step 0 (turn 0)" in shown
