"""Which targets become rows, what their prompts hold, and whose columns they have."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from chats import chat, cut, ingested
from click.testing import CliRunner
from test_cases_sessions import COMPACTED
from test_sft import rows_of

from trajkit import tokens, trainers
from trajkit.builders.history import window_start, windows
from trajkit.builders.prompts import MESSAGE_TOKENS, variant_of
from trajkit.builders.sft import Options, build_sft
from trajkit.cli import main
from trajkit.domains.base import ASK
from trajkit.domains.templates import SFT_VARIANTS
from trajkit.errors import TrajkitError
from trajkit.ingest import ingest
from trajkit.report import Report
from trajkit.store import Store
from trajkit.transitions import transitions

ALL_TRAIN = {"validation": 0.0, "test": 0.0}
Place = tuple[str, int]


def built(store: Path, out: Path, **chosen: Any) -> Report:
    """The report of a build, with every target accounted for."""
    options = Options(**(ALL_TRAIN | chosen))
    report = build_sft(store, out, options=options, overwrite=True, quiet=True)
    transitions_of = rows_of(store, "transitions")
    assert report.read == sum(row["target"] for row in transitions_of)
    assert report.read == report.kept + sum(report.dropped.values())
    return report


def all_rows(folder: Path) -> list[dict[str, Any]]:
    return [row for split in ("train", "validation", "test") for row in rows_of(folder, split)]


def places(folder: Path) -> list[Place]:
    return sorted((row["trajectory_id"], row["step_index"]) for row in all_rows(folder))


def targets_of(store: Path) -> dict[str, list[int]]:
    """Step indices of the targets of each episode."""
    found: dict[str, list[int]] = {}
    for row in rows_of(store, "transitions"):
        if row["target"]:
            found.setdefault(row["trajectory_id"], []).append(row["step_index"])
    return found


def test_last_takes_the_last_target_of_each_episode(
    transitions_store: Path, tmp_path: Path
) -> None:
    report = built(transitions_store, tmp_path / "sft", turns="last")
    expected = sorted((id_, max(steps)) for id_, steps in targets_of(transitions_store).items())
    assert places(tmp_path / "sft") == expected
    assert report.dropped == {"not_drawn": report.read - len(expected)}


def test_a_sample_takes_so_many_of_each_episode_by_seed_and_grows_without_change(
    transitions_store: Path, tmp_path: Path
) -> None:
    targets = targets_of(transitions_store)
    drawn = {}
    for name, chosen in {
        "one": {"turns": "sample:1"},
        "three": {"turns": "sample:3"},
        "again": {"turns": "sample:3"},
        "other": {"turns": "sample:3", "seed": 1},
    }.items():
        report = built(transitions_store, tmp_path / name, **chosen)
        drawn[name] = set(places(tmp_path / name))
        size = 1 if name == "one" else 3
        counts = Counter(id_ for id_, _ in drawn[name])
        assert counts == {id_: min(size, len(steps)) for id_, steps in targets.items()}
        assert set(report.dropped) == {"not_drawn"}
    assert drawn["one"] < drawn["three"] == drawn["again"] != drawn["other"]


# CT03
def test_samples_keep_every_group_on_one_side_and_old_rows_where_they_are(tmp_path: Path) -> None:
    def runs(n_tasks: int) -> list[Any]:
        return [
            chat(
                [("get", {"n": n, "run": run}, f"{task} {run} {n} " + "y" * n) for n in range(5)],
                task=f"task {task} {hashlib.sha256(str(task).encode()).hexdigest()}",
            )
            for task in range(n_tasks)
            for run in range(2)
        ]

    sides: list[dict[Place, tuple[str, str]]] = []
    for n_tasks in (12, 13):
        store = cut(tmp_path, runs(n_tasks), split_near=None)
        built(store, tmp_path / "sft", turns="sample:2", validation=0.25, test=0.25)
        sides.append(
            {
                (row["trajectory_id"], row["step_index"]): (split, row["split_group"])
                for split in ("train", "validation", "test")
                for row in rows_of(tmp_path / "sft", split)
            }
        )
        by_group: dict[str, set[str]] = {}
        for split, group in sides[-1].values():
            by_group.setdefault(group, set()).add(split)
        assert all(len(splits) == 1 for splits in by_group.values())
        assert len(by_group) == n_tasks
    assert set().union(*by_group.values()) == {"train", "validation", "test"}
    assert sides[0].items() < sides[1].items()


def test_the_draw_inside_an_episode_does_not_favour_long_ones_under_a_limit(
    tmp_path: Path,
) -> None:
    rows = [
        chat([("get", {"n": n}, f"{run} {n}") for n in range(n_steps)], task=f"{run}")
        for run, n_steps in enumerate([1, 30] * 60)
    ]
    store = cut(tmp_path, rows, split_near=None)
    built(store, tmp_path / "sft", turns="sample:1", per_domain=60)
    lengths = Counter(len(targets_of(store)[id_]) for id_, _ in places(tmp_path / "sft"))
    assert lengths.total() == 60
    assert 18 <= lengths[1] <= 42


def test_targets_of_another_pool_are_counted_not_built(
    transitions_store: Path, tmp_path: Path
) -> None:
    pools = [(0.0, 0.5), (0.5, 1.0)]
    halves = []
    for number, pool in enumerate(pools):
        report = built(transitions_store, tmp_path / str(number), pool=pool)
        halves.append({row["split_group"] for row in all_rows(tmp_path / str(number))})
        assert report.dropped == {"other_pool": report.read - report.kept}
    assert all(halves) and not halves[0] & halves[1]


@pytest.mark.parametrize(
    "turns", ["first", "sample", "sample:0", "sample:x", "sample:-1", "last:2"]
)
def test_another_choice_of_turns_is_refused(turns: str) -> None:
    with pytest.raises(TrajkitError, match="one of all, last, sample:N"):
        Options(turns=turns)


def test_variants_are_uniform_and_depend_on_content_and_seed_alone() -> None:
    hashes = [hashlib.sha256(str(n).encode()).hexdigest() for n in range(5_000)]
    drawn = [variant_of({"content_hash": one}, 0) for one in hashes]
    counts = Counter(drawn)
    assert set(counts) == set(SFT_VARIANTS) and len(SFT_VARIANTS) == 10
    # 500 each; four standard deviations of a binomial are 85.
    assert all(415 <= n <= 585 for n in counts.values())
    backwards = [variant_of({"content_hash": one}, 0) for one in reversed(hashes)]
    assert backwards[::-1] == drawn
    other = [variant_of({"content_hash": one}, 1) for one in hashes]
    same = sum(a == b for a, b in zip(drawn, other, strict=True))
    assert 400 <= same <= 600


def test_a_row_names_its_variant_and_its_prompt_is_of_it(
    transitions_store: Path, tmp_path: Path
) -> None:
    built(transitions_store, tmp_path / "sft")
    seen: dict[tuple[str, str], set[str]] = {}
    for row in all_rows(tmp_path / "sft"):
        assert row["variant"] in SFT_VARIANTS
        first_line = row["prompt"][0]["content"].split("\n")[0]
        seen.setdefault((row["domain"], row["variant"]), set()).add(first_line)
    assert all(len(lines) == 1 for lines in seen.values())
    assert len({variant for _, variant in seen}) >= 8


@pytest.mark.parametrize("name", trainers.NAMES)
def test_rows_have_the_columns_of_their_trainer_and_no_empty_thought(
    name: str, transitions_store: Path, tmp_path: Path
) -> None:
    """FM08: a row without a rationale holds no block for one."""
    report = built(transitions_store, tmp_path / "sft", trainer=name, turns="last", jsonl=True)
    rows = all_rows(tmp_path / "sft")
    trainer = trainers.load(name)
    assert trainer.sft_columns is not None
    own = {field.name for field in trainer.sft_columns(False)}
    assert len(rows) == report.kept > 30 and own <= set(rows[0])
    for row in rows:
        text = json.dumps(row)
        assert "<think>" not in text and '"reasoning_content"' not in text
        assert text.count("<predicted_observation>") >= 2
    # What Parquet says, JSON lines say.
    (file,) = Store(tmp_path / "sft").files("train")
    lines = [*(tmp_path / "sft").glob("**/*.jsonl")]
    (line_file,) = [path for path in lines if "train" in path.parts]
    told = [json.loads(line) for line in line_file.read_bytes().split(b"\n") if line]
    assert [set(one) for one in told] == [set(pq.read_schema(file).names)] * len(told)
    for name_ in report.extra.get("trainer_files", []):
        assert (tmp_path / "sft" / name_).is_file()


@cache
def embedded_tokenizer() -> tokens.TextTokenizer:
    return tokens.open_tokenizer("embedded")


def sizes(row: dict[str, Any]) -> tuple[int, int]:
    """Tokens of prompt and completion as the build counts them."""
    tokenizer = embedded_tokenizer()

    def count(messages: Sequence[dict[str, str]]) -> int:
        texts = [message["content"] for message in messages]
        return sum(tokenizer.count(texts)) + MESSAGE_TOKENS * len(texts)

    return count(row["prompt"]), count(row["completion"])


def counted(folder: Path) -> dict[int, tuple[int, int, int]]:
    """Step index -> tokens of prompt, of completion, and turns left out."""
    return {row["step_index"]: (*sizes(row), row["turns_left_out"]) for row in all_rows(folder)}


# TC12
def test_rows_that_a_trainer_would_cut_are_left_out_by_what_would_be_lost(tmp_path: Path) -> None:
    turns: list[tuple[str, dict[str, Any], str | None]] = [
        ("get", {"n": 1}, "yes"),
        ("get", {"text": "word " * 2_000}, "yes"),
        ("get", {"n": 3}, "step " * 2_000),
    ]
    store = cut(tmp_path, [chat(turns)])
    built(store, tmp_path / "whole")
    whole = counted(tmp_path / "whole")
    length = sum(whole[0][:2]) + 600
    report = built(store, tmp_path / "sft", tokenizer="embedded", max_length=length)
    assert report.dropped == {"no_target": 1, "cut_target": 1}
    (row,) = all_rows(tmp_path / "sft")
    assert row["step_index"] == 0
    manifest = Store(tmp_path / "sft").manifest.options
    assert manifest["max_length"] == length
    assert manifest["tokenizer"] == embedded_tokenizer().name


def test_the_oldest_whole_turns_go_before_a_row_does_and_each_row_says_how_many(
    tmp_path: Path,
) -> None:
    turns = [("get", {"n": n}, f"OLD-{n} " + "word " * 400) for n in range(9)]
    store = cut(tmp_path, [chat(turns, task="THE-TASK")])
    built(store, tmp_path / "whole")
    whole = counted(tmp_path / "whole")
    length = sum(whole[3][:2])
    report = built(store, tmp_path / "sft", tokenizer="embedded", max_length=length)
    assert report.kept == 9
    rows = {row["step_index"]: row for row in all_rows(tmp_path / "sft")}
    for index, (n_prompt, n_completion, n_left_out) in counted(tmp_path / "sft").items():
        assert n_prompt + n_completion <= length
        text = json.dumps(rows[index]["prompt"])
        assert "THE-TASK" in text
        assert [n for n in range(9) if f"OLD-{n} " in text] == list(range(n_left_out, index))
        if n_left_out:
            # One turn more would not fit.
            more = whole[n_left_out][0] - whole[n_left_out - 1][0]
            assert n_prompt + n_completion + more > length
    assert rows[3]["turns_left_out"] == 0
    assert report.extra["turns_left_out"] == sum(row["turns_left_out"] for row in rows.values())


def test_a_length_by_characters_is_exact(tmp_path: Path) -> None:
    turns = [("get", {"n": n}, f"OLD-{n} " + "x" * 500) for n in range(6)]
    store = cut(tmp_path, [chat(turns)])
    built(store, tmp_path / "whole")

    def size(row: dict[str, Any]) -> int:
        return sum(len(message["content"]) for message in row["prompt"])

    limit = next(size(row) for row in all_rows(tmp_path / "whole") if row["step_index"] == 3)
    for room, n_whole in ((limit, 4), (limit - 1, 3)):
        built(store, tmp_path / "sft", max_prompt_chars=room)
        rows = all_rows(tmp_path / "sft")
        assert all(size(row) <= room for row in rows)
        assert sum(row["turns_left_out"] == 0 for row in rows) == n_whole


@pytest.mark.parametrize(
    "chosen",
    [
        {"tokenizer": "embedded"},
        {"max_length": 100},
        {"history": "some"},
    ],
)
def test_options_that_mean_nothing_alone_are_refused(chosen: dict[str, Any]) -> None:
    with pytest.raises(TrajkitError, match="Hint"):
        Options(**chosen)


# FM04
def test_history_as_the_model_saw_it_begins_with_its_own_window(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    log = tmp_path / "log" / "session.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in COMPACTED))
    ingest((str(log),), tmp_path / "raw", quiet=True)
    transitions(tmp_path / "raw", tmp_path / "tr", quiet=True)
    prompts = {}
    for history in ("full", "window"):
        built(tmp_path / "tr", tmp_path / history, history=history)
        rows = {row["step_index"]: row for row in all_rows(tmp_path / history)}
        assert sorted(rows) == [0, 2]
        prompts[history] = json.dumps(rows[2]["prompt"])
        assert rows[0]["turns_left_out"] == 0
        assert rows[2]["turns_left_out"] == (0 if history == "full" else 1)
        assert "build the shed" in prompts[history]
    assert "sawn" in prompts["full"].replace("the wood is sawn", "")
    assert "sawn" not in prompts["window"].replace("the wood is sawn", "")
    assert "About a boat" not in prompts["full"]


@pytest.mark.parametrize(
    ("meta", "starts", "ranges"),
    [
        (None, [0, 0, 0, 0, 0], [(0, 5)]),
        ("{}", [0, 0, 0, 0, 0], [(0, 5)]),
        ('{"context_windows": null}', [0, 0, 0, 0, 0], [(0, 5)]),
        ('{"context_windows": [0, 2, 4]}', [0, 0, 2, 2, 4], [(0, 2), (2, 4), (4, 5)]),
        ('{"context_windows": [3, "x", true, -1, 9]}', [0, 0, 0, 3, 3], [(0, 3), (3, 5)]),
    ],
)
def test_windows_cover_an_episode_once(
    meta: str | None, starts: list[int], ranges: list[tuple[int, int]]
) -> None:
    episode = {"meta": meta}
    assert [window_start(episode, step) for step in range(5)] == starts
    assert windows(episode, 5) == [range(*pair) for pair in ranges]


def test_derived_instructions_stand_in_the_prompt_and_in_a_column(
    transitions_store: Path, tmp_path: Path
) -> None:
    report = built(
        transitions_store, tmp_path / "sft", instructions="derived", instruction_share=1.0
    )
    kinds = Counter(row["instruction_kind"] for row in all_rows(tmp_path / "sft"))
    assert report.extra["instructions"] == kinds
    assert set(kinds) == {"none", "terminal_fact", "mcp_fact", "search_target"}
    for row in all_rows(tmp_path / "sft"):
        system = row["prompt"][0]["content"]
        leaks = "Do not leak the reference answer." in system
        assert leaks == (row["instruction_kind"] == "search_target")
    built(transitions_store, tmp_path / "plain")
    plain = {(row["trajectory_id"], row["step_index"]): row for row in all_rows(tmp_path / "plain")}
    assert {row["instruction_kind"] for row in plain.values()} == {"none"}
    for row in all_rows(tmp_path / "sft"):
        before = plain[row["trajectory_id"], row["step_index"]]
        assert before["completion"] == row["completion"]
        assert before["prompt"][1:] == row["prompt"][1:]
        assert (before["prompt"] == row["prompt"]) == (row["instruction_kind"] == "none")


def test_rows_do_not_depend_on_parts_or_order(tmp_path: Path) -> None:
    rows = [
        chat([("get", {"n": n, "run": run}, f"{run} {n}") for n in range(6)], task=f"task {run}")
        for run in range(10)
    ]
    made = []
    for order in (rows, rows[::-1]):
        shutil.rmtree(tmp_path / "raw", ignore_errors=True)
        store = cut(tmp_path, order, split_near=None)
        built(store, tmp_path / "sft", turns="sample:2", per_domain=11)
        made.append(
            sorted(
                json.dumps([row["prompt"], row["completion"], row["variant"]])
                for row in all_rows(tmp_path / "sft")
            )
        )
    assert made[0] == made[1] and len(made[0]) == 11


def test_the_command_takes_every_option_and_its_help_shows_an_example(
    transitions_store: Path, tmp_path: Path
) -> None:
    runner = CliRunner()
    out = tmp_path / "sft"
    arguments = ["build-sft", str(transitions_store), "-o", str(out), "-q", "--json"]
    arguments += ["--turns", "sample:1", "--tokenizer", "embedded", "--max-length", "8192"]
    arguments += ["--instructions", "derived", "--instruction-share", "1", "--history", "window"]
    result = runner.invoke(main, arguments)
    assert result.exit_code == 0, result.output
    report = json.loads(result.output)
    assert report["read"] == report["kept"] + sum(report["dropped"].values())
    assert set(report["dropped"]) <= {"not_drawn", "no_target", "cut_target"}
    assert all(row["prompt"][-1]["content"].endswith(ASK) for row in all_rows(out))


def test_an_unknown_tokenizer_is_named_in_the_error(tmp_path: Path) -> None:
    store = ingested(tmp_path, [chat([("get", {}, "x")])])
    transitions(store, tmp_path / "tr", quiet=True)
    with pytest.raises(TrajkitError):
        build_sft(
            tmp_path / "tr",
            tmp_path / "sft",
            options=Options(tokenizer=str(tmp_path / "nothing"), max_length=10),
            quiet=True,
        )
