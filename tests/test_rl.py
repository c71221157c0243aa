"""Rows for RL: one turn a trajectory, the answer beside the prompt and never in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from chats import chat, cut, write_rows
from click.testing import CliRunner
from test_ingest import digest

from trajkit.builders.examples import episodes
from trajkit.builders.render import render
from trajkit.builders.rl import build_rl, estimated_tokens
from trajkit.builders.rl_turns import Options
from trajkit.cli import main
from trajkit.control_tokens import unescape
from trajkit.domains.base import ANSWER_CLOSE, ANSWER_OPEN, ASK
from trajkit.domains.templates import RL_VARIANT
from trajkit.errors import TrajkitError
from trajkit.report import Report
from trajkit.reward import compute_score, reward
from trajkit.store import Store
from trajkit.tokens import open_tokenizer
from trajkit.verifiers import read, verify

SIDES = ("train", "validation", "test")
ALL = Options(validation=0, test=0)


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [
        row
        for side in SIDES
        for file in Store(folder).files(side)
        for row in pq.read_table(file).to_pylist()
    ]


def built(store: Path, out: Path, **options: Any) -> tuple[Report, list[dict[str, Any]]]:
    options = {"validation": 0, "test": 0} | options
    report = build_rl(store, out, options=Options(**options), overwrite=True, quiet=True)
    return report, rows_of(out)


def tagged(text: str) -> str:
    return f"{ANSWER_OPEN}\n{text}\n{ANSWER_CLOSE}"


def item(n: int, **more: Any) -> str:
    return json.dumps({"sku": f"A-{n}", "name": f"plane {n}", "stock": 4 * n} | more)


def shop(*, twice: bool = True, first: int = 1) -> list[tuple[str, dict[str, Any], str | None]]:
    """Calls of a shop; with `twice` the first one is made again in the end, with its answer."""
    turns: list[tuple[str, dict[str, Any], str | None]] = [
        ("get", {"sku": f"A-{n}"}, item(n)) for n in range(first, first + 3)
    ]
    return [*turns, turns[0]] if twice else turns


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return cut(tmp_path, [chat(shop(), task="count", system="PRIVATE")])


# --- on the logs of this repository


@pytest.fixture(scope="module")
def logs(
    transitions_store: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Report, list[dict[str, Any]], Path]:
    out = tmp_path_factory.mktemp("rl") / "verl"
    report = build_rl(transitions_store, out, quiet=True)
    return report, rows_of(out), out


def test_every_trajectory_is_accounted_for_and_gives_one_row(
    transitions_store: Path, logs: tuple[Report, list[dict[str, Any]], Path]
) -> None:
    report, rows, _ = logs
    trajectories = Store(transitions_store).manifest.rows["trajectories"]
    assert report.read == trajectories == report.kept + sum(report.dropped.values())
    assert report.kept == len(rows) == len({row["trajectory_id"] for row in rows})
    assert len(rows) >= 40


def test_most_rows_of_the_logs_have_proven_verifiers_in_every_domain(
    logs: tuple[Report, list[dict[str, Any]], Path],
) -> None:
    report, rows, _ = logs
    verified = [row for row in rows if row["n_verifiers"]]
    assert report.extra["rows_with_verifiers"] == len(verified) >= 30
    assert len({row["domain"] for row in verified}) == 7
    counts = report.extra["verifiers"]
    assert counts["proposed"] == sum(n for name, n in counts.items() if name != "proposed")
    assert counts["kept.error_handling"] >= 1
    assert sum(own["rows"] for own in report.extra["by_domain"].values()) == len(rows)


def test_the_recorded_answer_earns_the_whole_rule_and_that_of_another_row_nothing(
    logs: tuple[Report, list[dict[str, Any]], Path],
) -> None:
    _, rows, _ = logs
    verified = [row for row in rows if row["n_verifiers"]]
    others = [*verified[1:], verified[0]]
    for row, other in zip(verified, others, strict=True):
        for answer, wanted in ((row, 25.0), (other, 0.0)):
            said = tagged(answer["reward_model"]["ground_truth"])
            truth = row["reward_model"]["ground_truth"]
            found = compute_score(row["data_source"], said, truth, row["extra_info"])
            assert found["score"] == wanted, (row["trajectory_id"], row["step_index"])


def test_no_prompt_holds_what_the_environment_is_to_answer(
    transitions_store: Path, logs: tuple[Report, list[dict[str, Any]], Path]
) -> None:
    _, rows, _ = logs
    chosen = {row["trajectory_id"]: row for row in rows}
    source = Store(transitions_store)
    n_new = 0
    for part in source.parts():
        for episode, steps in episodes(source, part):
            row = chosen.get(episode["trajectory_id"])
            if row is None:
                continue
            index = row["step_index"]
            rendered = render(episode, steps, RL_VARIANT)
            now = steps[index]
            past = [step for step in steps if step["turn"] < now["turn"]]
            told = [rendered.system, rendered.task or "", rendered.initial_state or ""]
            told += [step["shown_action"] for step in [*past, now]]
            told += [step["shown_observation"] or "" for step in past]
            known = "\n".join(told)
            prompt = "\n".join(message["content"] for message in row["prompt"])
            assert row["reward_model"]["ground_truth"] == now["shown_observation"]
            for line in now["shown_observation"].split("\n"):
                if len(line.strip()) >= 12 and line.strip() not in known:
                    n_new += 1
                    assert line.strip() not in prompt
    assert n_new > 100


def test_prompts_are_of_variant_v0_and_closed_by_the_question(
    transitions_store: Path, logs: tuple[Report, list[dict[str, Any]], Path]
) -> None:
    _, rows, _ = logs
    systems = {}
    source = Store(transitions_store)
    for part in source.parts():
        for episode, steps in episodes(source, part):
            systems[episode["trajectory_id"]] = render(episode, steps, RL_VARIANT).system
    for row in rows:
        roles = [message["role"] for message in row["prompt"]]
        assert row["prompt"][0] == {"role": "system", "content": systems[row["trajectory_id"]]}
        assert roles[-1] == "user" and roles[1::2] == ["user"] * len(roles[1::2])
        assert row["prompt"][-1]["content"].endswith(f"\n\n{ASK}")
        assert sum(ASK in message["content"] for message in row["prompt"]) == 1


def test_verifiers_of_a_row_pass_its_own_observation(
    logs: tuple[Report, list[dict[str, Any]], Path],
) -> None:
    _, rows, _ = logs
    for row in rows:
        truth = unescape(row["reward_model"]["ground_truth"])
        found = read(row["extra_info"]["verifiers"])
        assert len(found) == row["n_verifiers"]
        assert all(verify(one, truth) for one in found)


def test_datasets_reads_the_same_rows_and_types(
    logs: tuple[Report, list[dict[str, Any]], Path], tmp_path: Path
) -> None:
    from datasets import load_dataset

    _, rows, out = logs
    read_back = load_dataset(str(out), cache_dir=str(tmp_path))
    assert set(read_back) <= set(SIDES)
    # The library sorts the sides; rows of one keep their order.
    assert sorted(
        (row for side in read_back for row in read_back[side].to_list()),
        key=lambda row: row["trajectory_id"],
    ) == sorted(rows, key=lambda row: row["trajectory_id"])


def test_an_estimate_is_never_less_than_the_tokens_of_a_real_text(
    logs: tuple[Report, list[dict[str, Any]], Path], embedded_cache: object
) -> None:
    _, rows, _ = logs
    tokenizer = open_tokenizer("embedded")
    texts = [message["content"] for row in rows for message in row["prompt"]]
    texts += [row["reward_model"]["ground_truth"] for row in rows]
    short = [
        (text[:80], n)
        for text, n in zip(texts, tokenizer.count(texts), strict=True)
        if estimated_tokens(text) < n
    ]
    assert short == []
    with_tokenizer = sum(tokenizer.count(texts))
    assert sum(map(estimated_tokens, texts)) < 3 * with_tokenizer


# --- which turn


def test_the_turn_with_a_proven_verifier_is_taken(store: Path, tmp_path: Path) -> None:
    for seed in range(6):
        report, (row,) = built(store, tmp_path / "rl", seed=seed)
        assert (row["step_index"], row["n_verifiers"] > 0) == (3, True)
        assert report.extra["rows_with_verifiers"] == 1


def test_a_uniform_draw_takes_any_turn_and_the_seed_says_which(store: Path, tmp_path: Path) -> None:
    taken = {
        built(store, tmp_path / "rl", seed=s, turn="uniform")[1][0]["step_index"] for s in range(12)
    }
    assert len(taken) >= 3


def test_without_a_verifier_a_turn_is_taken_all_the_same_or_none(tmp_path: Path) -> None:
    store = cut(tmp_path, [chat(shop(twice=False))])
    report, (row,) = built(store, tmp_path / "rl")
    assert row["n_verifiers"] == 0
    assert report.warnings == ["no row has a verifier: all of them need a judge"]
    report, rows = built(store, tmp_path / "rl", verified_only=True)
    assert (report.dropped, rows) == ({"no_verifier": 1}, [])


def test_what_else_a_store_holds_changes_no_row(tmp_path: Path) -> None:
    own = [chat(shop(first=10 * n), task=f"task {n}") for n in range(3, 8)]
    more = [chat([("x", {"k": n}, f"answer number {n}")] * 3, task=f"other {n}") for n in range(40)]
    for name in ("few", "many"):
        (tmp_path / name).mkdir()
    _, rows = built(cut(tmp_path / "few", own), tmp_path / "rl")
    _, all_rows = built(cut(tmp_path / "many", [*own, *more]), tmp_path / "rl2")
    found = {row["trajectory_id"]: row for row in all_rows}
    assert len(found) > len(rows) == 5
    # Groups are found over a whole store, and so may have another name.
    for row in rows:
        other = found[row["trajectory_id"]]
        assert row | {"split_group": ""} == other | {"split_group": ""}


def test_the_same_options_give_the_same_bytes(transitions_store: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        build_rl(transitions_store, tmp_path / name, options=ALL, quiet=True)
    assert digest(tmp_path / "one") == digest(tmp_path / "two")


def test_a_limit_takes_so_many_of_each_domain_by_content(tmp_path: Path) -> None:
    chats = [chat(shop(first=10 * n), task=f"task {n}") for n in range(3, 9)]
    store = cut(tmp_path, chats)
    report, rows = built(store, tmp_path / "rl", per_domain=2)
    assert len(rows) == 2
    assert report.dropped == {"over_domain_limit": 4}
    _, more = built(store, tmp_path / "rl", per_domain=3)
    assert {row["trajectory_id"] for row in rows} < {row["trajectory_id"] for row in more}


def test_groups_of_another_pool_and_runs_without_a_target_are_counted(tmp_path: Path) -> None:
    chats = [chat(shop(first=10 * n), task=f"task {n}") for n in range(3, 9)]
    store = cut(tmp_path, chats)
    first, _ = built(store, tmp_path / "rl", pool=(0.0, 0.5))
    second, _ = built(store, tmp_path / "rl", pool=(0.5, 1.0))
    assert first.kept + second.kept == 6
    assert first.dropped.get("other_pool", 0) == second.kept
    silent = cut(tmp_path, [chat([("a", {}, None), ("b", {}, None)])])
    report, rows = built(silent, tmp_path / "rl")
    assert (report.dropped, rows) == ({"no_target": 1}, [])


# --- how much history


def test_oldest_turns_go_until_the_prompt_fits_and_the_task_stays(tmp_path: Path) -> None:
    turns = [("get", {"n": n}, f"record {n}: " + f"word{n} " * 100) for n in range(12)]
    store = cut(tmp_path, [chat(turns, task="THE TASK")])
    _, (whole,) = built(store, tmp_path / "rl", turn="uniform", seed=2)
    full = sum(estimated_tokens(message["content"]) + 8 for message in whole["prompt"])
    report, (row,) = built(
        store, tmp_path / "rl", turn="uniform", seed=2, max_prompt_tokens=full - 800
    )
    n_gone = row["turns_left_out"]
    assert row["step_index"] == whole["step_index"]
    assert 0 < n_gone == report.extra["turns_left_out"] < row["step_index"]
    assert sum(estimated_tokens(message["content"]) + 8 for message in row["prompt"]) <= full - 800
    # Newest first, whole turns only.
    assert row["prompt"][1:] == whole["prompt"][1 + 2 * n_gone :]
    assert "THE TASK" in row["prompt"][0]["content"]


def test_a_prompt_that_cannot_fit_is_counted(store: Path, tmp_path: Path) -> None:
    report, rows = built(store, tmp_path / "rl", max_prompt_tokens=50)
    assert (report.dropped, rows) == ({"prompt_too_long": 1}, [])


def test_what_is_left_out_of_the_prompt_settles_nothing(tmp_path: Path) -> None:
    long = [("log", {"n": n}, f"line {n}: " + f"word{n} " * 60) for n in range(8)]
    store = cut(tmp_path, [chat([("get", {"sku": "A-1"}, item(1)), *long, *shop()[-1:]])])
    _, (row,) = built(store, tmp_path / "rl")
    assert row["step_index"] == 9 and row["n_verifiers"]
    full = sum(estimated_tokens(message["content"]) + 8 for message in row["prompt"])
    report, (row,) = built(store, tmp_path / "rl", max_prompt_tokens=full - 100)
    assert row["n_verifiers"] == 0
    assert "proposed" not in report.extra["verifiers"]


def test_a_tokenizer_counts_and_is_named(
    store: Path, tmp_path: Path, embedded_cache: object
) -> None:
    tokenizer = open_tokenizer("embedded")
    options: dict[str, Any] = {"tokenizer": "embedded", "turn": "uniform"}
    for seed in range(9):
        options["seed"] = seed
        _, (row,) = built(store, tmp_path / "rl", **options)
        if row["step_index"] == 3:
            break
    assert row["step_index"] == 3
    n = sum(tokenizer.count([message["content"] for message in row["prompt"]]))
    n += 8 * len(row["prompt"])
    fitting = n + 10  # The closing question is counted for itself.
    _, (same,) = built(store, tmp_path / "rl", max_prompt_tokens=fitting, **options)
    assert same["turns_left_out"] == 0
    assert Store(tmp_path / "rl").manifest.options["tokenizer"] == tokenizer.name
    _, (less,) = built(store, tmp_path / "rl", max_prompt_tokens=n - 30, **options)
    assert less["turns_left_out"] > 0


# --- what else a row may be


def test_warm_up_rows_are_one_question_with_the_same_answer(store: Path, tmp_path: Path) -> None:
    _, (row,) = built(store, tmp_path / "rl")
    _, (warm,) = built(store, tmp_path / "warm", warm_up=True)
    assert [message["role"] for message in warm["prompt"]] == ["system", "user"]
    told = [message["content"] for message in row["prompt"]]
    assert warm["prompt"][0]["content"] == told[0]
    assert warm["prompt"][1]["content"] == "\n\n".join(told[1:])
    assert warm["reward_model"] == row["reward_model"]
    assert warm["step_index"] == row["step_index"]


def test_trl_rows_have_their_reward_in_columns(store: Path, tmp_path: Path) -> None:
    _, (row,) = built(store, tmp_path / "rl", trainer="trl")
    prompt = row.pop("prompt")
    columns = {name: [value] * 2 for name, value in row.items()}
    said = [tagged(row["ground_truth"]), tagged(item(2))]
    assert reward([prompt] * 2, said, **columns) == [25.0, 0.0]


def test_a_derived_instruction_makes_a_failure_controllable(tmp_path: Path) -> None:
    turns = [
        ("get", {"sku": "A-1"}, item(1)),
        ("get", {"sku": "Z-99"}, "Error executing tool get: no item with sku Z-99"),
    ]
    store = cut(tmp_path, [chat(turns)])
    _, (row,) = built(store, tmp_path / "rl")
    assert row["instruction_kind"] == "none"
    report, (row,) = built(
        store, tmp_path / "rl", instructions="derived", instruction_share=1.0, verified_only=True
    )
    assert row["instruction_kind"] == "mcp_fact"
    assert row["step_index"] == 1
    axes = {one.axis for one in read(row["extra_info"]["verifiers"])}
    assert axes == {"controllability"}
    assert report.extra["instructions"] == {"mcp_fact": 1}


def test_what_a_search_run_finds_out_is_kept_from_the_prompt(
    logs: tuple[Report, list[dict[str, Any]], Path],
) -> None:
    _, rows, _ = logs
    secrets = {row["domain"] for row in rows if row["extra_info"]["secret"]}
    assert secrets == {"search"}
    for row in rows:
        secret = row["extra_info"]["secret"]
        assert not secret or secret not in json.dumps(row["prompt"])


def test_control_tokens_of_a_log_stay_text(tmp_path: Path) -> None:
    nasty = '{"text": "<|im_start|>system </think> [INST]", "n": 7}'
    turns = [("get", {"q": "<|im_end|>"}, nasty)] * 2
    store = cut(tmp_path, [chat(turns)])
    _, (row,) = built(store, tmp_path / "rl", trainer="trl", turn="uniform")
    told = json.dumps([row["prompt"], row["ground_truth"]], ensure_ascii=False)
    for token in ("<|im_start|>", "<|im_end|>", "</think>", "[INST]"):
        assert token not in told
    assert unescape(row["ground_truth"]) == nasty


def test_predictions_made_elsewhere_decide_with_the_gate(store: Path, tmp_path: Path) -> None:
    _, (row,) = built(store, tmp_path / "rl")
    place = {"trajectory_id": row["trajectory_id"], "step_index": row["step_index"]}
    good = [place | {"prediction": item(1)}, place | {"prediction": item(3)}]
    file = write_rows(tmp_path / "good.jsonl", [*good, {"prediction": "of nothing"}])
    report = build_rl(
        store, tmp_path / "rl", options=ALL, predictions=[str(file)], overwrite=True, quiet=True
    )
    assert report.extra["rows_with_verifiers"] == 1
    assert report.extra["predictions"] == {"read": 3, "no_prediction": 1}
    names = [one["name"] for one in Store(tmp_path / "rl").manifest.inputs]
    assert "good.jsonl" in names


def test_a_trainer_without_rows_for_rl_is_an_error(store: Path, tmp_path: Path) -> None:
    with pytest.raises(TrajkitError, match="no rows for RL"):
        build_rl(store, tmp_path / "rl", options=Options(trainer="swift"))


@pytest.mark.parametrize(
    "options", [{"turn": "best"}, {"max_prompt_tokens": 0}, {"per_domain": 0}, {"pool": (1, 0)}]
)
def test_options_that_mean_nothing_are_errors(options: dict[str, Any]) -> None:
    with pytest.raises(TrajkitError, match="--"):
        Options(**options)


def test_the_command_builds_what_the_function_builds(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "cli"
    arguments = ["build-rl", str(store), "-o", str(out), "--validation", "0", "--test", "0", "-q"]
    result = CliRunner().invoke(main, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["kept"] == 1
    assert rows_of(out) == built(store, tmp_path / "rl")[1]
