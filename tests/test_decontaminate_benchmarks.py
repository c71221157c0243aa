"""Task lists, folders of tasks, AgentWorldBench rows and stores are read as benchmarks."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from chats import chat, ingested, write_rows
from contaminated import STATEMENT, TURNS, flagged, prose

from trajkit.decontaminate import find
from trajkit.decontaminate.benchmarks import inputs_of_benchmarks, read_benchmark
from trajkit.errors import TrajkitError
from trajkit.store import Store


def test_rows_of_agentworldbench_are_found_in_episodes(tmp_path: Path) -> None:
    seen = prose(1, 120)
    row = {
        "task": "terminal",
        "id": 7,
        "prompt": [
            "### Turn 1\n**Action:**\n```\nls\n```",
            "### Turn 2\n**Action:**\n```\ncat\n```",
        ],
        "response": ["**Environment Observation:**\na", f"**Environment Observation:**\n{seen}"],
        "current_prompt": "",
        "system_str": prose(2, 200),
        "turn_idx": 2,
        "total_turns": 2,
    }
    folder = tmp_path / "bench"
    folder.mkdir()
    write_rows(folder / "terminal_test.jsonl", [row | {"turn_idx": 1}, row])
    rows = [
        chat([("sh", {"c": "cat"}, f"$ {seen} $"), ("sh", {}, "x")], task="mine"),
        chat([("sh", {"c": "cat"}, prose(3, 120)), ("sh", {}, "x")], task="else"),
        chat(TURNS, task="same simulator", system=prose(2, 200)),
    ]
    found = flagged(tmp_path, rows, str(folder))
    assert found.select("task", "method", "theirs_where").rows() == [
        ("mine", "ngram", "turns[1].observation")
    ]
    assert read_benchmark(str(folder)).texts["item"].n_unique() == 1


def test_a_store_as_benchmark_finds_equal_episodes_wherever_they_were_read(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    held_out = ingested(tmp_path / "other", [chat([("n", {}, "1")], task="x"), chat(TURNS)])
    rows = [chat(TURNS, task=f"t {n}") for n in range(3)]
    found = flagged(tmp_path, [*rows, chat([("n", {}, "1")], task="x")], str(held_out))
    assert found.select("task", "method", "ours_where").rows() == [("x", "id", "content_hash")]


ITEM = {"instance_id": "acme__widget-101", "problem_statement": STATEMENT}


def as_json(path: Path) -> Path:
    file = path / "tasks.json"
    file.write_text(json.dumps([ITEM]))
    return file


def as_mapping(path: Path) -> Path:
    file = path / "tasks.json"
    file.write_text(json.dumps({ITEM["instance_id"]: {"problem_statement": STATEMENT}}))
    return file


def as_wrapped_rows(path: Path) -> Path:
    file = path / "tasks.json"
    file.write_text(json.dumps({"features": [], "rows": [{"row_idx": 0, "row": ITEM}]}))
    return file


def as_csv(path: Path) -> Path:
    file = path / "tasks.csv"
    with file.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(ITEM))
        writer.writeheader()
        writer.writerow(ITEM | {"problem_statement": STATEMENT.replace(", ", ",\n")})
    return file


def as_parquet(path: Path) -> Path:
    pl.DataFrame([ITEM]).write_parquet(path / "tasks.parquet")
    return path / "tasks.parquet"


def as_folder(path: Path) -> Path:
    (path / "chrome").mkdir()
    item = {"id": ITEM["instance_id"], "instruction": STATEMENT}
    (path / "chrome" / "one.json").write_text(json.dumps(item))
    return path / "chrome"


@pytest.mark.parametrize(
    "write", [as_json, as_mapping, as_wrapped_rows, as_csv, as_parquet, as_folder]
)
def test_task_lists_of_every_form_are_read(tmp_path: Path, write: Any) -> None:
    (tmp_path / "lists").mkdir()
    rows = [chat(TURNS, task=STATEMENT), chat(TURNS, task="x", instance_id="acme__widget-101")]
    found = flagged(tmp_path, rows, str(write(tmp_path / "lists")))
    assert sorted(found["method"]) == ["id", "task"]


def test_a_list_of_ids_by_program_is_read(tmp_path: Path) -> None:
    name = "0123abcd-4567-89ab-cdef-0123456789ab"
    file = tmp_path / "test_all.json"
    file.write_text(json.dumps({"chrome": [name], "gimp": []}))
    rows = [chat(TURNS, task=f"results/{name}/run"), chat(TURNS, task="x")]
    assert flagged(tmp_path, rows, str(file))["ours_text"].to_list() == [name]


@pytest.mark.parametrize(
    ("row", "columns"),
    [
        (
            {"instance_id": "a", "repo": "o/r", "problem_statement": "p"},
            "instance_id+problem_statement",
        ),
        ({"task_id": "a", "instruction": "p", "difficulty": "hard"}, "task_id+instruction"),
        ({"id": "a", "instruction": "p", "snapshot": "x"}, "id+instruction"),
        ({"task": "AddContact", "template": "Add {x}"}, "task+template"),
        ({"name": "AddContact", "goal": "Add x"}, "name+goal"),
        ({"sites": ["map"], "task_id": 3, "intent": "p", "eval": {}}, "task_id+intent"),
        ({"task": "AddContact"}, "task"),
    ],
)
def test_the_columns_of_known_benchmarks_are_told_apart(
    tmp_path: Path, row: dict[str, Any], columns: str
) -> None:
    file = write_rows(tmp_path / "b.jsonl", [row])
    assert read_benchmark(str(file)).columns == {columns: 1}


def test_a_template_is_found_with_its_blanks_filled(tmp_path: Path) -> None:
    rows = [
        chat(TURNS, task="Create a new contact for Ada Byron. Their number is +44 20 7946."),
        chat(TURNS, task="Create a new contact for the office."),
    ]
    template = "Create a new contact for {name}. Their number is {number}."
    found = flagged(tmp_path, rows, [{"task": "ContactsAddContact", "template": template}])
    assert found["task"].to_list() == [rows[0]["messages"][0]["content"]]


def test_what_is_no_benchmark_is_refused_with_a_hint(tmp_path: Path) -> None:
    store = Store(ingested(tmp_path, [chat(TURNS)]))
    with pytest.raises(
        TrajkitError, match=r"(?s)swe-bench: no such store.*benchmarks are not fetch"
    ):
        find(store, ["swe-bench"])
    file = write_rows(tmp_path / "b.jsonl", [{"colour": "red"}])
    with pytest.raises(TrajkitError, match=r"(?s)it holds colour.*need an id \(id, instance_id"):
        find(store, [str(file)])
    file = write_rows(tmp_path / "b.jsonl", [{"colour": "red"}, {"id": "acme__w-12"}])
    assert find(store, [str(file)]).warnings == ["b.jsonl: 1 rows hold neither id nor statement"]


def test_a_manifest_names_what_was_checked_by_its_content(tmp_path: Path) -> None:
    file = write_rows(tmp_path / "b.jsonl", [{"id": 1}])
    before = inputs_of_benchmarks([str(file), str(ingested(tmp_path, [chat(TURNS)]))])
    assert [entry["name"] for entry in before] == ["b.jsonl", "raw"]
    write_rows(file, [{"id": 2}])
    after = inputs_of_benchmarks([str(file), str(tmp_path / "raw")])
    assert before[0] != after[0]
    assert before[1] == after[1]


def test_a_folder_of_tasks_is_read_by_the_names_of_its_folders(tmp_path: Path) -> None:
    folder = tmp_path / "terminal-bench"
    for name in ("prune-orchard.7", "sort-pears.3", "no-task.1"):
        (folder / name / "tests").mkdir(parents=True)
        (folder / name / "Dockerfile").write_text("FROM scratch")
        (folder / name / "tests" / "answers.json").write_text('{"id": "tests-are-not-read"}')
    first = "instruction: |-\n  " + STATEMENT + "\ndifficulty: easy\ntags:\n  - dates\n"
    (folder / "prune-orchard.7" / "task.yaml").write_text(first)
    (folder / "sort-pears.3" / "task.toml").write_text("version = '1.0'")
    (folder / "sort-pears.3" / "instruction.md").write_text(prose(11, 60))
    (folder / "no-task.1" / "task.yaml").write_text("instruction: [\n")
    rows = [
        chat(TURNS, task=f"{prose(11, 60)} Begin now."),
        chat(TURNS, task=STATEMENT),
        chat(TURNS, task="x", task_id="sort-pears.3"),
    ]
    found = flagged(tmp_path, rows, str(folder))
    assert set(found.select("task", "instance_id", "method").rows()) == {
        (rows[0]["messages"][0]["content"], "sort-pears.3", "task"),
        (STATEMENT, "prune-orchard.7", "task"),
        ("x", "sort-pears.3", "id"),
    }
    read = read_benchmark(str(folder))
    assert (read.texts["item"].n_unique(), read.n_unread) == (2, 1)
    assert read.columns == {"id+instruction": 2}
