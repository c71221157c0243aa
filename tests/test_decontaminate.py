"""What is in a benchmark is flagged with the text that says so; what only looks like it is not."""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from chats import chat, ingested, write_rows
from contaminated import STATEMENT, TURNS, flagged, prose
from hypothesis import given, settings
from hypothesis import strategies as st

from trajkit.decontaminate import find, flags
from trajkit.dedup import dedup
from trajkit.ingest import Options, ingest
from trajkit.store import Store
from trajkit.tables import TABLES


def test_copies_are_known_by_id_and_by_text_and_others_stay(tmp_path: Path) -> None:
    """Case CT02."""
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


def test_half_of_an_item_is_evidence_and_less_is_not(tmp_path: Path) -> None:
    """Of an item's 188 runs of thirteen words an episode holds just over half, or just under."""
    item = prose(21, 200).split()
    rows = [
        chat([("go", {}, " ".join(item[:n_words]))] * 2, task=f"{n_words}")
        for n_words in (108, 104)
    ]
    found = flagged(tmp_path, rows, [{"id": "a", "instruction": " ".join(item)}])
    assert found["task"].to_list() == ["108"]


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
