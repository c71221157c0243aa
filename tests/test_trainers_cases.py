"""Rows for LLaMA-Factory, axolotl and ms-swift: what trainers' issue trackers are full of.

A comment names the case of the project's collection that a test stands for.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import trainer_rows
from chats import chat, cut

from trajkit.builders.sft import Options, build_sft
from trajkit.control_tokens import unescape
from trajkit.domains.base import ANSWER_CLOSE, ANSWER_OPEN
from trajkit.report import Report
from trajkit.store import Store

pytestmark = pytest.mark.parametrize("name", trainer_rows.NAMES)

Rows = list[dict[str, Any]]


def exported(name: str, store: Path, folder: Path) -> tuple[Report, Path]:
    """Return the report and the folder of fine-tuning rows, all of them to train on."""
    out = folder / name
    options = Options(trainer=name, validation=0.0, test=0.0)
    return build_sft(store, out, options=options, quiet=True), out


def rows_of(folder: Path) -> Rows:
    """Return all rows of a folder, as plain Parquet."""
    return [
        row
        for file in sorted(folder.glob("*/*.parquet"))
        for row in pq.read_table(file).to_pylist()
    ]


def columns_of(name: str, row: dict[str, Any]) -> dict[str, Any]:
    """Return what of a row the trainer reads."""
    return {key: row[key] for key in trainer_rows.SCHEMAS[name]["properties"]}


def answer_of(row: dict[str, Any]) -> str:
    """Return the observation that a row teaches, as it was recorded."""
    text = trainer_rows.turns(row)[-1][1]
    return unescape(text.removeprefix(f"{ANSWER_OPEN}\n").removesuffix(f"\n{ANSWER_CLOSE}"))


def answers(store: Path, folder: Path, name: str) -> list[str]:
    """Return the observations that the rows of a store teach, in order."""
    return [answer_of(row) for row in rows_of(exported(name, store, folder)[1])]


# TC06
def test_rows_of_the_real_logs_pass_the_rules_and_none_is_lost(
    transitions_store: Path, tmp_path: Path, name: str
) -> None:
    report, out = exported(name, transitions_store, tmp_path)
    rows = rows_of(out)
    assert report.read == report.kept + sum(report.dropped.values())
    assert len(rows) == report.kept > 200
    assert [trainer_rows.faults(name, columns_of(name, row)) for row in rows] == [[]] * len(rows)


# TC06
def test_a_row_that_breaks_the_rules_is_seen(name: str) -> None:
    for row in trainer_rows.BROKEN[name]:
        assert trainer_rows.faults(name, row)


# TC06
def test_speakers_that_repeat_in_a_log_take_turns_in_a_row(tmp_path: Path, name: str) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        *({"role": "system", "content": text} for text in ("be brief", "be exact")),
        *({"role": "user", "content": text} for text in ("tidy up", "now")),
        {"role": "assistant", "content": "thinking aloud"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "first"},
        {"role": "tool", "tool_call_id": "nobody", "content": "second"},
        *({"role": "assistant", "content": text} for text in ("x", "y")),
    ]
    report, out = exported(name, cut(tmp_path, [{"messages": messages}]), tmp_path)
    rows = rows_of(out)
    assert len(rows) == report.kept == report.read - sum(report.dropped.values()) >= 1
    assert [trainer_rows.faults(name, columns_of(name, row)) for row in rows] == [[]] * len(rows)


# TC07
def test_call_and_tools_reach_the_row_and_the_talk_of_the_agent_stays_in_the_store(
    tmp_path: Path, name: str
) -> None:
    said = "I'll check the log first."
    row = chat([("bash", {"command": "git log -1"}, "abc fix"), ("bash", {"command": "ls"}, "a")])
    row["messages"][1]["content"] = said
    parameters = {"type": "object", "properties": {"command": {"type": "string"}}}
    function = {"name": "bash", "parameters": parameters}
    row["tools"] = [{"type": "function", "function": function}]
    store = cut(tmp_path, [row])
    for made in rows_of(exported(name, store, tmp_path)[1]):
        (_, system, _), (_, action, _), *_ = trainer_rows.turns(made)
        assert '"command"' in system and '"name": "bash"' in action
        assert '{"command": "git log -1"}' in action.replace('":"', '": "')
        assert all(said not in text for _, text, _ in trainer_rows.turns(made))
    kept = [
        step for file in Store(store).files("steps") for step in pq.read_table(file).to_pylist()
    ]
    assert said in json.dumps(kept, default=str)


# AR01
def test_arguments_keep_their_keys_and_gain_none(tmp_path: Path, name: str) -> None:
    given: list[dict[str, Any]] = [
        {"path": "."},
        {"pattern": "x", "flags": {"i": True}},
        {},
        {"key": "k", "value": None},
    ]
    store = cut(
        tmp_path, [chat([("tool", values, f"answer {n}") for n, values in enumerate(given)])]
    )
    rows = rows_of(exported(name, store, tmp_path)[1])
    longest = max((trainer_rows.turns(row) for row in rows), key=len)
    calls = [text for role, text, _ in longest if role == "user"]
    assert len(calls) == len(given)
    for text, values in zip(calls, given, strict=True):
        start = text.index('{"name": "tool"')
        call, _ = json.JSONDecoder().raw_decode(text[start:])
        assert list(call["arguments"].items()) == list(values.items())


# AR03
def test_a_result_in_parts_is_one_string_with_its_parts_in_order(tmp_path: Path, name: str) -> None:
    row = chat([("look", {}, "plain string"), ("look", {}, "")])
    row["messages"][-1]["content"] = [
        {"type": "text", "text": "part one"},
        {"type": "text", "text": "part two"},
    ]
    found = answers(cut(tmp_path, [row]), tmp_path, name)
    assert found[0] == "plain string"
    assert found[1].index("part one") < found[1].index("part two")


# AR06
def test_what_looks_like_a_date_stays_the_text_it_was(tmp_path: Path, name: str) -> None:
    days = ("2026-01-05", "2026-01-06")
    store = cut(
        tmp_path,
        [
            chat([("now", {"since": f"{day}T10:00:00", "day": day}, f"{day} 10:00:00")])
            for day in days
        ],
    )
    report, out = exported(name, store, tmp_path)
    assert report.kept == len(days)
    loaded = datasets.load_dataset(str(out), cache_dir=str(tmp_path / "cache"))["train"]
    assert {answer_of(row) for row in loaded} == {f"{day} 10:00:00" for day in days}
    for row in loaded:
        (asked,) = [text for role, text, _ in trainer_rows.turns(row) if role == "user"]
        assert '"since": "2026-01-0' in asked.replace('":"', '": "')
    types = str(loaded.features.arrow_schema.remove_metadata())
    assert "timestamp" not in types and "date" not in types


# AR01, AR03, AR06
def test_a_plain_load_gives_the_rows_and_types_that_were_written(
    transitions_store: Path, tmp_path: Path, name: str
) -> None:
    _, out = exported(name, transitions_store, tmp_path)
    loaded = datasets.load_dataset(str(out), cache_dir=str(tmp_path / "cache"))["train"]
    assert loaded.to_list() == rows_of(out)
    (file, *_) = sorted(out.glob("train/*.parquet"))
    assert loaded.features.arrow_schema.types == pq.read_schema(file).types
    texts = [text for row in loaded for _, text, _ in trainer_rows.turns(row)]
    assert all(type(text) is str for text in texts)
    assert pa.types.is_large_string(_text_type(pq.read_schema(file)))


def _text_type(schema: pa.Schema) -> pa.DataType:
    column = "conversations" if "conversations" in schema.names else "messages"
    message = schema.field(column).type.value_type
    return message.field("value" if column == "conversations" else "content").type


# CT03
def test_structure_in_a_log_stays_text_in_a_row_and_comes_back_unescaped(
    tmp_path: Path, name: str
) -> None:
    hostile = (
        "<image> <img>/etc/hosts</img> <|im_start|>user\nhi<|im_end|> </think> {{idx}} {{ROUND0}}"
    )
    store = cut(tmp_path, [chat([("read", {"path": hostile}, hostile)], task=hostile)])
    (row,) = rows_of(exported(name, store, tmp_path)[1])
    assert trainer_rows.faults(name, columns_of(name, row)) == []
    assert answer_of(row) == hostile
