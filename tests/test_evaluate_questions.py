"""What a benchmark asks: official rows, reused ids, what is no question, too long prompts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from chats import chat, cut
from openai_server import Reply
from scripted_environment import Scripted, measure, results, tagged

from trajkit.control_tokens import escape
from trajkit.domains.base import ASK
from trajkit.errors import TrajkitError
from trajkit.evaluate import Options, evaluate
from trajkit.evaluate.questions import Question, open_bench, shortened
from trajkit.model import Reject


def official(domain: str, **changes: Any) -> dict[str, Any]:
    """A row as the benchmark ships it."""
    actions = [f'### Turn {n}\n**Action:**\n```json\n{{"n": {n}}}\n```\n' for n in (1, 2)]
    ask = "\nReply inside <predicted_observation></predicted_observation>, e.g.\n```\nx\n```\n"
    marked = [f"**Environment Observation:**\nseen {n} \u2028 <|im_end|>" for n in (1, 2)]
    row = {
        "task": domain,
        "id": 7,
        "prompt": [actions[0], actions[1] + ask],
        "response": marked,
        "current_prompt": actions[1],
        "system_str": "Simulate. Use <predicted_observation>. <|im_start|>",
        "turn_idx": 2,
        "total_turns": 2,
    }
    return row | changes


def write(path: Path, rows: list[Any]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows), "utf-8")


def test_an_official_row_is_asked_as_its_script_asks_with_tokens_broken_up(tmp_path: Path) -> None:
    write(tmp_path / "b" / "mcp_test.jsonl", [official("mcp"), official("mcp", turn_idx=1)])
    second, first = open_bench(tmp_path / "b").read([])
    assert [m["role"] for m in second.messages] == ["system", "user", "assistant", "user"]
    token = escape("<|im_end|>")[0]
    assert second.messages[2]["content"] == f"**Environment Observation:**\nseen 1 \u2028 {token}"
    assert second.messages[3]["content"].count("<predicted_observation>") == 1
    assert "<predicted_observation>" in second.messages[0]["content"]
    assert "<|im_start|>" not in second.messages[0]["content"]
    assert ASK not in second.messages[3]["content"]
    assert second.case.recorded == "seen 2 \u2028 <|im_end|>"
    assert second.case.action.action == '{"n": 2}'
    assert [turn.observation for turn in second.case.history] == ["seen 1 \u2028 <|im_end|>"]
    assert [m["role"] for m in first.messages] == ["system", "user"]
    assert first.messages[-1]["content"].endswith(ASK)
    assert "seen" not in str(first.messages) and first.case.history == ()
    assert first.trajectory == second.trajectory and first.key != second.key


def test_reused_ids_and_repeated_rows_are_questions_of_their_own(tmp_path: Path) -> None:
    other = official("android", system_str="Another phone.")
    rows = [official("android"), other, official("android")]
    write(tmp_path / "b" / "android_test.jsonl", rows)
    found = list(open_bench(tmp_path / "b").read([]))
    assert len({one.key for one in found}) == 3
    assert found[0].trajectory == found[2].trajectory != found[1].trajectory
    write(tmp_path / "c" / "android_test.jsonl", rows[::-1])
    again = open_bench(tmp_path / "c").read([])
    assert {one.key for one in again} == {one.key for one in found}


def test_what_is_no_question_is_counted_with_its_place(tmp_path: Path) -> None:
    rows = [
        official("mcp"),
        official("mcp", turn_idx=3),
        official("mcp", turn_idx=0),
        official("mcp", turn_idx="2"),
        official("mcp", prompt="x"),
        official("mcp", response=[None, None]),
        {"task": "mcp"},
        17,
    ]
    write(tmp_path / "b" / "mcp_test.jsonl", rows)
    with (tmp_path / "b" / "mcp_test.jsonl").open("a") as file:
        file.write('{"task": "mcp", "pro')
    rejects: list[Reject] = []
    assert len(list(open_bench(tmp_path / "b").read(rejects))) == 1
    assert [reject.reason for reject in rejects] == ["invalid_row"] * 7 + ["truncated_line"]
    assert [reject.origin.line for reject in rejects] == list(range(2, 10))
    with Scripted(lambda system, last: tagged("seen 2 \u2028 <|im_end|>")) as server:
        options = Options(world_model=server.spec)
        report = evaluate(tmp_path / "b", tmp_path / "out", options=options, quiet=True)
    assert (report.read, report.kept) == (9, 1)
    assert report.dropped == {"invalid_row": 7, "truncated_line": 1}
    assert pl.read_parquet(tmp_path / "out" / "rejects.parquet").height == 8
    assert measure(results(tmp_path / "out"), "mcp")["score"] == 100


def test_a_folder_that_asks_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    options = Options(world_model="embedded")
    with pytest.raises(TrajkitError, match="is no benchmark"):
        evaluate(tmp_path / "empty", tmp_path / "out", options=options, quiet=True)
    with pytest.raises(TrajkitError, match="no such store"):
        evaluate(tmp_path / "nowhere", tmp_path / "out", options=options, quiet=True)
    with pytest.raises(TrajkitError, match="no world model"):
        evaluate(tmp_path / "empty", tmp_path / "out", quiet=True)


GUI = [
    {"role": "system", "content": "S"},
    {
        "role": "user",
        "content": "### Turn 1\n\n**Task Instruction:**\nOpen mail.\n\n**Current State:**\ntree\n\n"
        "**Action:**\n```\nclick(1)\n```",
    },
    {"role": "assistant", "content": "one"},
    {"role": "user", "content": "### Turn 2\n\n**Action:**\n```\nclick(2)\n```"},
    {"role": "assistant", "content": "two"},
    {"role": "user", "content": "### Turn 3\n\n**Action:**\n```\nclick(3)\n```\n\nask"},
]


def test_shorter_prompts_lose_whole_oldest_turns_but_not_task_and_state(tmp_path: Path) -> None:
    write(tmp_path / "b" / "mcp_test.jsonl", [official("mcp")])
    (one,) = open_bench(tmp_path / "b").read([])
    assert shortened(one, 1).messages == (one.messages[0], one.messages[3])
    assert shortened(one, 0).messages == one.messages
    with pytest.raises(IndexError):
        shortened(one, 2)
    values = {name: getattr(one, name) for name in one.__dataclass_fields__}
    gui = Question(**values | {"messages": tuple(GUI)})
    for n_turns, turn in ((1, 2), (2, 3)):
        system, first, *_ = shortened(gui, n_turns).messages
        assert system == GUI[0]
        assert first["content"].startswith(
            f"### Turn {turn}\n\n**Task Instruction:**\nOpen mail.\n\n**Current State:**\ntree\n\n"
            f"**Action:**\n```\nclick({turn})"
        )


def test_a_prompt_that_is_too_long_is_asked_again_with_fewer_turns_and_counted(
    tmp_path: Path,
) -> None:
    turns = [("get", {"n": n}, "v" * 1_000 + str(n)) for n in range(9)]
    cut(tmp_path, [chat(turns)])

    class Small(Scripted):
        def _take(self, body: dict[str, Any]) -> Reply:
            super()._take(body)
            if len(json.dumps(body)) > 8_000:
                return Reply(status=400, error="exceeds the maximum model length")
            return tagged("v")

    with Small(lambda system, last: tagged("v")) as server:
        options = Options(world_model=server.spec)
        report = evaluate(tmp_path / "tr", tmp_path / "out", options=options, quiet=True)
    assert report.kept == report.read == 9 and report.dropped == {}
    frame = pl.read_parquet(tmp_path / "out" / "rows.parquet")
    left_out = frame["turns_left_out"].to_list()
    assert left_out[0] == 0 < left_out[-1] <= 8 and left_out == sorted(left_out)
    assert report.extra["turns_left_out"] == sum(left_out)
