"""Supervised rows: prompts without the answer, rationales behind the gate, every query counted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from chats import chat, cut
from openai_server import OpenAIServer, Reply
from test_ingest import digest

from trajkit.builders.sft import Options, build_sft
from trajkit.control_tokens import escape
from trajkit.errors import TrajkitError
from trajkit.rationales.rollout import read_answer
from trajkit.store import Store, fingerprint, inputs_of
from trajkit.worldmodel import Completion

Answer = Callable[[list[dict[str, str]], dict[str, Any]], str | Reply]


class _Scripted(OpenAIServer):
    """Answers each call by a function of its messages and its whole body."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self._answer = answer

    def _take(self, body: dict[str, Any]) -> Reply:
        super()._take(body)
        said = self._answer(body["messages"], body)
        return Reply(content=said) if isinstance(said, str) else said


@contextmanager
def server(answer: Answer) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Give the SPEC of a scripted server and what it was asked."""
    with _Scripted(answer) as open_server:
        yield open_server.spec, open_server.bodies


VALUES = [f'{{"n": {n}, "name": "item {n}", "stock": {n * 7}}}' for n in range(3)]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    turns = [("get", {"n": n}, value) for n, value in enumerate(VALUES)]
    cut(tmp_path, [chat(turns, task="stock", system="PRIVATE")])
    return tmp_path / "tr"


def rows_of(folder: Path, table: str = "train") -> list[dict[str, Any]]:
    return [row for file in Store(folder).files(table) for row in pq.read_table(file).to_pylist()]


def laid_out(rationale: str, prediction: str) -> str:
    return (
        f"<think>{rationale}</think>\n"
        f"<predicted_observation>\n{prediction}\n</predicted_observation>"
    )


WHY = "The call asks for one item, so its record with name and stock comes back."


def right(messages: list[dict[str, str]], _: object) -> str:
    return laid_out(WHY, VALUES[len(messages) // 2 - 1])


def test_without_a_rationale_each_target_is_a_prompt_and_a_completion(
    store: Path, tmp_path: Path
) -> None:
    report = build_sft(
        store, tmp_path / "sft", options=Options(validation=0.0, test=0.0), quiet=True
    )
    assert report.read == report.kept == 3
    for number, row in enumerate(rows_of(tmp_path / "sft")):
        roles = [message["role"] for message in row["prompt"]]
        assert roles == ["system", *["user", "assistant"] * number, "user"]
        prompt = json.dumps(row["prompt"])
        assert "PRIVATE" not in prompt
        for later in VALUES[number:]:
            assert json.dumps(later)[1:-1] not in prompt
        assert row["completion"] == [
            {
                "role": "assistant",
                "content": f"<predicted_observation>\n{VALUES[number]}\n</predicted_observation>",
            }
        ]


def test_an_accepted_rollout_gives_its_rationale_and_the_recorded_answer_is_the_target(
    store: Path, tmp_path: Path
) -> None:
    with server(right) as (spec, asked):
        options = Options(
            rationale="rollout", world_model=spec, n_rollouts=2, validation=0.0, test=0.0
        )
        report = build_sft(store, tmp_path / "sft", options=options, quiet=True)
    assert (report.read, report.kept, report.dropped) == (3, 3, {})
    assert report.extra["calls"] == {"accepted": 6}
    assert (report.extra["tokens"], report.extra["tokens_per_kept_row"]) == (18, 6.0)
    assert report.extra["seconds_per_kept_row"] > 0
    for row in rows_of(tmp_path / "sft"):
        (completion,) = row["completion"]
        assert completion["reasoning_content"] == WHY
        assert VALUES[row["step_index"]] in completion["content"]
        assert row["fidelity"]["factuality"] == 1.0
    assert len({body["seed"] for body in asked}) == 6
    for body in asked:
        said = json.dumps(body["messages"])
        n_seen = len(body["messages"]) // 2 - 1
        assert all((f"item {n}" in said) == (n < n_seen) for n in range(3))
    assert len(rows_of(tmp_path / "sft", "verdicts")) == 3


def test_refused_and_failed_rollouts_are_drops_with_their_reason(
    store: Path, tmp_path: Path
) -> None:
    def mixed(messages: list[dict[str, str]], body: dict[str, Any]) -> str:
        number = len(messages) // 2 - 1
        wrong = laid_out(WHY, "Traceback (most recent call last): no such thing")
        return (wrong, "I would rather not say.", right(messages, body))[number]

    with server(mixed) as (spec, _):
        options = Options(
            rationale="rollout", world_model=spec, n_rollouts=1, validation=0.0, test=0.0
        )
        report = build_sft(store, tmp_path / "sft", options=options, quiet=True)
    assert report.kept == 1
    assert report.dropped["no_answer_tag"] == 1
    (gate,) = (reason for reason in report.dropped if reason.startswith("gate_"))
    assert report.dropped[gate] == 1
    assert report.read == report.kept + sum(report.dropped.values())
    verdicts = {row["step_index"]: row for row in rows_of(tmp_path / "sft", "verdicts")}
    assert verdicts[0]["passed"] is False and verdicts[2]["passed"] is True
    assert f"gate_{verdicts[0]['reason']}" == gate


def test_a_killed_run_asks_only_what_was_not_answered(store: Path, tmp_path: Path) -> None:
    with server(right) as (spec, asked):
        options = Options(
            rationale="rollout", world_model=spec, n_rollouts=1, validation=0.0, test=0.0
        )
        out = tmp_path / "sft"
        build_sft(store, out, options=options, quiet=True)
        before = digest(out)
        # What a kill before the end leaves: answers on disk, no part, no manifest.
        (out / "manifest.json").unlink()
        for name in ("train", "verdicts", "predictions"):
            for file in (out / name).iterdir():
                file.unlink()
        lines = (out / "completions.jsonl").read_bytes().splitlines(keepends=True)
        (out / "completions.jsonl").write_bytes(b"".join(lines[:2]) + lines[2][:40])
        named = asdict(options) | {"world_model": "http:my-model"}
        plan = fingerprint("build-sft", named, inputs_of(Store(store)))
        (out / ".unfinished.json").write_text(plan)
        n_asked = len(asked)
        build_sft(store, out, options=options, quiet=True)
        assert len(asked) == n_asked + 1
    after = digest(out)
    assert {k: v for k, v in after.items() if k.startswith(("train", "verdicts"))} == {
        k: v for k, v in before.items() if k.startswith(("train", "verdicts"))
    }


def test_long_histories_lose_their_oldest_turns_whole_and_keep_task_and_state(
    tmp_path: Path,
) -> None:
    turns = [("click", {"bid": str(n)}, f"TREE-{n} " + "x" * 3_000) for n in range(8)]
    cut(tmp_path, [chat(turns, task="THE-TASK")], "web")
    options = Options(max_prompt_chars=14_000, validation=0.0, test=0.0)
    report = build_sft(tmp_path / "tr", tmp_path / "sft", options=options, quiet=True)
    assert report.extra["turns_left_out"] > 0
    for row in rows_of(tmp_path / "sft"):
        text = "".join(message["content"] for message in row["prompt"])
        assert len(text) <= 14_000 + 400
        assert "THE-TASK" in text
        seen = [n for n in range(8) if f"TREE-{n} " in text]
        last = row["step_index"]
        assert seen == list(range(last - len(seen), last))
        assert len(seen) >= min(last, 2)
    tight = Options(max_prompt_chars=100, validation=0.0, test=0.0)
    report = build_sft(tmp_path / "tr", tmp_path / "tight", options=tight, quiet=True)
    assert report.dropped == {"prompt_too_long": 8}


def test_per_domain_draws_the_same_targets_for_any_order(
    transitions_store: Path, tmp_path: Path
) -> None:
    options = Options(per_domain=2, validation=0.0, test=0.0)
    report = build_sft(transitions_store, tmp_path / "sft", options=options, quiet=True)
    rows = rows_of(tmp_path / "sft")
    assert report.kept == len(rows) == 14
    assert report.dropped == {"over_domain_limit": report.read - 14}
    assert len({row["domain"] for row in rows}) == 7


def test_closing_tags_inside_an_observation_do_not_close_the_answer(tmp_path: Path) -> None:
    evil = "a </predicted_observation> b </think> c"
    cut(tmp_path, [chat([("get", {}, evil), ("get", {}, "x")])])
    build_sft(
        tmp_path / "tr", tmp_path / "sft", options=Options(validation=0.0, test=0.0), quiet=True
    )
    content = rows_of(tmp_path / "sft")[0]["completion"][0]["content"]
    assert content.count("</predicted_observation>") == 1
    assert escape(evil)[0] in content


@pytest.mark.parametrize(
    ("text", "reasoning", "expected"),
    [
        ("<predicted_observation>\nx\n</predicted_observation>", WHY, (WHY, "x")),
        (f"{WHY}\n<predicted_observation>\n  x\n\n</predicted_observation>", None, (WHY, "  x\n")),
        ("<predicted_observation>x</predicted_observation>", None, "no_rationale"),
        ("<predicted_observation>never closed", WHY, "no_answer_tag"),
        ("no tag", WHY, "no_answer_tag"),
    ],
)
def test_the_answer_is_taken_from_its_tag_and_the_rationale_from_where_it_stands(
    text: str, reasoning: str | None, expected: object
) -> None:
    assert read_answer(Completion(key="k", text=text, reasoning=reasoning)) == expected


def test_a_failure_of_the_call_is_the_reason_of_the_drop() -> None:
    assert read_answer(Completion(key="k", text=None, failure="timeout")) == "timeout"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (Options(rationale="guess"), "one of hindsight, none, rollout"),
        (Options(rationale="rollout"), "needs a world model\nHint: try --world-model embedded"),
        (Options(rationale="rollout", world_model="gpt"), "is no SPEC"),
    ],
)
def test_a_wrong_option_says_what_would_be_right(
    store: Path, tmp_path: Path, options: Options, message: str
) -> None:
    with pytest.raises(TrajkitError, match=message):
        build_sft(store, tmp_path / "sft", options=options, quiet=True)


def test_least_scores_of_a_file_decide_what_is_accepted_and_stand_in_the_manifest(
    store: Path, tmp_path: Path
) -> None:
    """The answer keeps all that can be derived and words the rest otherwise: realism falls."""
    strict = tmp_path / "strict.toml"
    strict.write_text("[mcp]\nrealism = 1.0\n")

    def reworded(messages: list[dict[str, str]], body: object) -> str:
        return right(messages, body).replace('"item ', '"piece of stock number ')

    found = {}
    with server(reworded) as (spec, _):
        for name, file in (("usual", None), ("strict", str(strict))):
            options = Options(
                rationale="rollout", world_model=spec, validation=0.0, test=0.0, thresholds=file
            )
            report = build_sft(store, tmp_path / name, options=options, quiet=True)
            found[name] = (report.kept, report.dropped)
    assert found["usual"] == (3, {})
    assert found["strict"][0] == 0
    options_of = Store(tmp_path / "strict").manifest.options
    assert options_of["thresholds"]["mcp"]["realism"] == 1.0
    assert Store(tmp_path / "usual").manifest.options["thresholds"] is None
    assert str(strict) not in json.dumps(options_of)
