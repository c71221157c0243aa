"""What is in a benchmark is flagged with the text that says so; what only looks like it is not."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pytest
from chats import chat, ingested, write_rows
from hypothesis import given, settings
from hypothesis import strategies as st

from trajkit.decontaminate import find, flags
from trajkit.decontaminate.benchmarks import inputs_of_benchmarks, read_benchmark
from trajkit.dedup import dedup
from trajkit.errors import TrajkitError
from trajkit.ingest import Options, ingest
from trajkit.store import Store
from trajkit.tables import TABLES

TURNS = [("look", {"at": n}, f"seen {n}") for n in range(2)]
STATEMENT = (
    "Teach the parser to accept dates that leave out the year, and let it take the current one "
    "unless the option --base-year names another; a date before March then belongs to next year."
)


def prose(seed: int, n: int) -> str:
    rng = random.Random(seed)
    return " ".join(f"word{rng.randrange(20_000)}" for _ in range(n))


def flagged(folder: Path, rows: list[Any], benchmark: Any, **options: Any) -> pl.DataFrame:
    """Return the flags of chat rows with their tasks, against rows of a task list or a path."""
    against = benchmark
    if isinstance(benchmark, list):
        against = str(write_rows(folder / "bench.jsonl", benchmark))
    store = Store(ingested(folder, rows))
    found = flags(store, [against], **options)
    tasks = pl.concat(store.read("trajectories", part) for part in store.parts())
    return found.join(tasks.select("trajectory_id", "task"), on="trajectory_id", how="left")


def test_copies_are_known_by_id_and_by_text_and_others_stay(tmp_path: Path) -> None:
    benchmark = [
        {
            "bench": "b",
            "instance_id": "orbit__lander-88",
            "text": "A leg may fold twice, not thrice",
        },
        {
            "bench": "b",
            "instance_id": "toy-3",
            "text": "return the largest odd number of a list as text, or nothing when all are even",
        },
    ]
    rows = [
        chat(TURNS, task="A leg may fold", instance_id="orbit__lander-88"),
        chat(
            TURNS,
            task="Return the LARGEST odd number of a list,\n as text; or nothing when all are even!"
            " Thank you.",
            instance_id="ours-1",
        ),
        chat(TURNS, task="Plant a tree", instance_id="ours-2"),
        chat(TURNS, task="renamed", instance_id="Orbit/Lander#88.v3"),
    ]
    found = flagged(tmp_path, rows, benchmark)
    ways = set(found.select("task", "instance_id", "method").rows())
    assert {(task[:8], item, method) for task, item, method in ways} == {
        ("A leg ma", "orbit__lander-88", "id"),
        ("Return t", "toy-3", "task"),
        ("renamed", "orbit__lander-88", "id"),
    }
    renamed = found.filter(pl.col("task") == "renamed").row(0, named=True)
    assert renamed["ours_text"] == "Orbit/Lander#88"
    assert renamed["ours_where"] == "meta.instance_id"
    by_text = found.filter(pl.col("method") == "task").row(0, named=True)
    assert by_text["ours_text"] == by_text["task"][by_text["ours_start"] : by_text["ours_end"]]
    assert by_text["ours_text"].endswith("all are even")
    assert by_text["theirs_text"] == benchmark[1]["text"]


def test_nothing_to_check_against_is_a_warning(tmp_path: Path) -> None:
    store = Store(ingested(tmp_path, [chat(TURNS)]))
    assert find(store, []).warnings == ["no benchmark was given: nothing was checked"]
    empty = tmp_path / "none.jsonl"
    empty.write_text("")
    found = find(store, [str(empty)])
    assert found.warnings == ["none.jsonl is empty: nothing was checked against it"]
    assert found.trajectory_ids == []


def test_an_id_in_a_path_counts_and_a_longer_number_is_another_id(tmp_path: Path) -> None:
    rows = [chat(TURNS, task=f"task {n}") for n in range(2)]
    for name, path in (("one", "runs/x/acme__widget-101/log"), ("two", "runs/acme__widget-1013")):
        (tmp_path / name).mkdir()
        store = Store(ingested(tmp_path / name, rows[:1]))
        file = store.files("trajectories")[0]
        pl.read_parquet(file).with_columns(origin_path=pl.lit(path)).write_parquet(file)
        bench = write_rows(tmp_path / "bench.jsonl", [{"instance_id": "Acme__Widget-101"}])
        found = flags(store, [str(bench)])
        assert found["ours_where"].to_list() == (["origin_path"] if name == "one" else [])


def test_ids_that_every_benchmark_has_are_not_matched_but_told(tmp_path: Path) -> None:
    rows = [chat(TURNS, task="t", task_id=17), chat(TURNS, task="u", instance_id="task-3")]
    benchmark = [{"task_id": 17, "intent": "x"}, {"task_id": "task-3", "intent": "y"}]
    assert flagged(tmp_path, rows, benchmark).is_empty()
    told = find(Store(tmp_path / "raw"), [str(tmp_path / "bench.jsonl")]).checked[0]
    assert (told["ids"], told["weak_ids"], told["weak_statements"]) == (0, 2, 2)


def test_a_name_of_words_counts_only_where_a_log_names_its_task(tmp_path: Path) -> None:
    rows = [
        chat(TURNS, task="a", task_id="hello-world.2-of-5.x"),
        chat(TURNS, task="print hello world", task_id="other-thing"),
        chat(TURNS, task="c", task_id="hello-world-again"),
    ]
    found = flagged(tmp_path, rows, [{"task_id": "hello-world", "instruction": "greet"}])
    assert found["task"].to_list() == ["a"]


def test_a_statement_is_found_inside_a_prompt_with_both_spans(tmp_path: Path) -> None:
    prompt = f"<uploaded_files>\n/repo\n</uploaded_files>\n{STATEMENT.upper()}\n\nWork in /repo."
    rows = [chat(TURNS, task=prompt), chat(TURNS, task="else", system=f"You solve: {STATEMENT}")]
    found = flagged(tmp_path, rows, [{"id": 1, "instruction": f"  {STATEMENT}"}])
    assert found["method"].to_list() == ["task", "task"]
    assert set(found["ours_where"]) == {"task", "agent_system_prompt"}
    for row in found.iter_rows(named=True):
        assert row["ours_text"].lower() == row["theirs_text"].lower() == STATEMENT.lower()[:-1]
        assert row["theirs_start"] == 2


def test_a_short_statement_must_be_the_whole_task(tmp_path: Path) -> None:
    rows = [
        chat(TURNS, task="Turn the lights off now."),
        chat(TURNS, task="turn the lights off now and open the door"),
        chat(TURNS, task="Fix it"),
    ]
    benchmark = [{"id": "a", "goal": "turn the lights off now"}, {"id": "b", "goal": "fix it"}]
    assert flagged(tmp_path, rows, benchmark)["task"].to_list() == ["Turn the lights off now."]


def test_a_reworded_statement_is_found_by_its_runs_of_words(tmp_path: Path) -> None:
    text = prose(1, 120).split()
    ours = " ".join(["please", *text[:50], "instead", *text[51:100], "thanks"])
    found = flagged(
        tmp_path, [chat(TURNS, task=ours)], [{"id": "a", "instruction": " ".join(text)}]
    ).row(0, named=True)
    assert found["method"] == "ngram"
    assert found["similarity"] == pytest.approx((38 + 37) / 108)
    assert found["ours_text"] == found["theirs_text"] == " ".join(text[:50])[:500]
    assert found["ours_end"] - found["ours_start"] == len(" ".join(text[:50]))


def test_text_that_many_items_or_many_of_our_tasks_share_is_no_evidence(tmp_path: Path) -> None:
    form = prose(1, 80)
    theirs = [{"id": f"i{n}", "instruction": f"{form} {prose(100 + n, 9)}"} for n in range(8)]
    assert flagged(tmp_path, [chat(TURNS, task=f"{form} mine")], theirs).is_empty()
    one = [{"id": "a", "instruction": f"{prose(5, 9)} {form} {prose(6, 9)}"}]
    few = [chat(TURNS, task=f"{form} my own {n}") for n in range(3)]
    assert set(flagged(tmp_path, few, one)["method"]) == {"ngram"}
    many = [chat(TURNS, task=f"{form} my own {n}") for n in range(30)]
    assert flagged(tmp_path, many, one).is_empty()


def test_many_runs_of_one_task_are_no_boilerplate(tmp_path: Path) -> None:
    text = prose(1, 90)
    rows = [chat([("go", {"n": n}, prose(n, 30))] * 2, task=f"x {text} y") for n in range(40)]
    benchmark = [{"id": "a", "instruction": f"{prose(3, 5)} {text} {prose(4, 5)}"}]
    assert len(flagged(tmp_path, rows, benchmark)) == 40


def test_rulers_and_tables_are_no_evidence(tmp_path: Path) -> None:
    ruler = " ".join(random.Random(1).choices("012345", k=100))
    rows = [chat([("show", {}, f"{ruler} {prose(1, 20)}")] * 2, task="t")]
    assert flagged(
        tmp_path, rows, [{"id": "a", "instruction": f"{ruler} {prose(2, 3)}"}]
    ).is_empty()


def test_a_statement_read_by_the_agent_is_found_in_its_observation(tmp_path: Path) -> None:
    text = prose(1, 60)
    rows = [chat([("read", {}, "ok"), ("read", {"f": 1}, f"TASK: {text}")], task="work")]
    found = flagged(tmp_path, rows, [{"id": "a", "problem_statement": text}])
    assert found["ours_where"].to_list() == ["steps[1].observation"]
    assert found["ours_start"].to_list() == [len("TASK: ")]


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


def test_sub_agents_are_flagged_with_the_run_that_spawned_them(tmp_path: Path) -> None:
    store = Store(
        ingested(tmp_path, [chat(TURNS, task=task) for task in (STATEMENT, "b", "c", "d")])
    )
    file = store.files("trajectories")[0]
    rows = pl.read_parquet(file)
    top, child, grandchild, other = rows["trajectory_id"].to_list()
    parents = pl.Series([None, top, child, None], dtype=pl.String)
    rows.with_columns(parent_id=parents).write_parquet(file)
    bench = write_rows(tmp_path / "bench.jsonl", [{"id": "a", "instruction": STATEMENT}])
    found = find(store, [str(bench)])
    assert set(found.trajectory_ids) == {top, child, grandchild}
    where = dict(found.flags.select("trajectory_id", "ours_where").iter_rows())
    assert where == {top: "task", child: f"{top}: task", grandchild: f"{child}: {top}: task"}
    assert other not in where


def test_the_table_has_its_columns_and_evidence_of_at_most_500_characters(tmp_path: Path) -> None:
    text = prose(1, 200)
    store = Store(ingested(tmp_path, [chat(TURNS, task=text)]))
    bench = write_rows(tmp_path / "bench.jsonl", [{"instruction": text}])
    found = find(store, [str(bench)])
    found.write(tmp_path)
    table = pl.read_parquet(tmp_path / "contamination.parquet")
    assert table.columns == TABLES["contamination"].names
    row = table.row(0, named=True)
    assert row["instance_id"] == "row 1"
    assert row["benchmark"] == "bench.jsonl"
    assert row["ours_text"] == row["theirs_text"] == text[:500]
    assert (row["ours_start"], row["ours_end"]) == (0, len(text))


def test_a_manifest_names_what_was_checked_by_its_content(tmp_path: Path) -> None:
    file = write_rows(tmp_path / "b.jsonl", [{"id": 1}])
    before = inputs_of_benchmarks([str(file), str(ingested(tmp_path, [chat(TURNS)]))])
    assert [entry["name"] for entry in before] == ["b.jsonl", "raw"]
    write_rows(file, [{"id": 2}])
    after = inputs_of_benchmarks([str(file), str(tmp_path / "raw")])
    assert before[0] != after[0]
    assert before[1] == after[1]


def test_logs_of_this_repository_are_not_taken_for_one_another(raw_store: Path) -> None:
    """Against themselves each is flagged, by itself or by one whose task it holds."""
    store = Store(raw_store)
    found = find(store, [str(raw_store)]).flags
    tasks = pl.concat(store.read("trajectories", part) for part in store.parts())
    by_id = {row["trajectory_id"]: row for row in tasks.iter_rows(named=True)}
    assert set(found["trajectory_id"]) == set(by_id)
    for ours, theirs in (
        found.filter(pl.col("method") == "task").select("trajectory_id", "instance_id").iter_rows()
    ):
        words = [" ".join(str(by_id[one]["task"]).lower().split()) for one in (ours, theirs)]
        assert words[0] == words[1] or words[1].strip(" .?!") in words[0]


@settings(max_examples=20)
@given(
    seed=st.integers(0, 1_000),
    before=st.integers(0, 30),
    planted=st.lists(st.booleans(), min_size=1, max_size=8),
    shuffle=st.integers(0, 100),
)
def test_what_is_planted_is_flagged_nothing_else_and_in_any_order(
    seed: int, before: int, planted: list[bool], shuffle: int
) -> None:
    benchmark = [{"id": f"i{n}", "instruction": prose(5_000 + seed + n, 12 + n)} for n in range(8)]
    rows = []
    for number, is_planted in enumerate(planted):
        inside = benchmark[number]["instruction"].title() if is_planted else ""
        task = f"{prose(seed + number, before)} {inside}. {prose(90_000 + seed + number, 20)}"
        rows.append(chat([("go", {}, prose(200_000 + number, 40))] * 2, task=task))
    with TemporaryDirectory() as folder:
        first = flagged(Path(folder), rows, benchmark)
        random.Random(shuffle).shuffle(rows)
        random.Random(shuffle).shuffle(benchmark)
        again = flagged(Path(folder), rows, benchmark)
    assert len(first) == sum(planted)
    assert first["method"].to_list() == ["task"] * sum(planted)
    assert set(first["instance_id"]) == {f"i{n}" for n, one in enumerate(planted) if one}
    content = [name for name in first.columns if name != "trajectory_id"]
    assert first.select(content).sort(content).equals(again.select(content).sort(content))


def test_dedup_drops_what_is_in_a_benchmark_with_its_evidence(tmp_path: Path) -> None:
    statement = (
        "The dates of the harvest calendar come out one day early whenever the clocks change in"
        " autumn; make the calendar count days and not hours, and keep the public functions."
    )
    poem = "Write a poem about pears, in three verses, and save it to a file."
    rows = [
        chat([("bash", {"command": "cat calendar.py"}, "import datetime\n")], task=statement),
        chat([("bash", {"command": "cat > poem.txt"}, "")], task=poem),
    ]
    write_rows(tmp_path / "rows.jsonl", rows)
    options = Options(domain="terminal")
    ingest((str(tmp_path / "rows.jsonl"),), tmp_path / "raw", options=options, quiet=True)
    tasks = [{"instance_id": "orchard__calendar-17", "problem_statement": statement}]
    write_rows(tmp_path / "tasks.jsonl", tasks)
    against = (str(tmp_path / "tasks.jsonl"),)
    report = dedup(tmp_path / "raw", tmp_path / "clean", against=against, quiet=True)
    assert report.dropped == {"contaminated": 1}
    clean = Store(tmp_path / "clean")
    (kept,) = clean.read("trajectories", "part-00000")["task"].to_list()
    assert kept == poem
    (flag,) = pl.read_parquet(tmp_path / "clean" / "contamination.parquet").to_dicts()
    assert flag["instance_id"] == "orchard__calendar-17"
    assert statement[:40].lower() in flag["ours_text"].lower()
    assert "contamination" in clean.tables()
