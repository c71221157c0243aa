"""The gate as a stage, on predictions made elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from chats import chat, cut, write_rows

from trajkit.builders.examples import episodes
from trajkit.builders.render import chat as chat_messages
from trajkit.builders.render import render
from trajkit.domains import ORDER
from trajkit.errors import TrajkitError
from trajkit.fidelity.check import case, check
from trajkit.fidelity.thresholds import shipped
from trajkit.store import Store


def predictions_of(store: Store, change: Any) -> list[dict[str, Any]]:
    rows = []
    for part in store.parts():
        for step in store.read("steps", part).iter_rows(named=True):
            if step["observation"] is not None and step["observation_source"] == "environment":
                rows.append(
                    {
                        "trajectory_id": step["trajectory_id"],
                        "step_index": step["step_index"],
                        "prediction": change(step["observation"]),
                    }
                )
    return rows


def test_the_recorded_observations_of_every_domain_are_accepted(
    raw_store: Path, tmp_path: Path
) -> None:
    rows = predictions_of(Store(raw_store), lambda text: text)
    write_rows(tmp_path / "p.jsonl", rows)
    report = check(raw_store, [str(tmp_path / "p.jsonl")], tmp_path / "out", quiet=True)
    assert report.read == report.kept == len(rows) >= 300
    assert report.extra["passed"] == len(rows), report.extra["failed"]
    table = pq.read_table(tmp_path / "out" / "verdicts")
    assert len(set(table["domain"].to_pylist())) == 7
    assert all(json.loads(text) is not None for text in table["findings"].to_pylist())


def test_unrelated_text_is_refused_nearly_everywhere(raw_store: Path, tmp_path: Path) -> None:
    rows = predictions_of(Store(raw_store), lambda _: "I am sorry, I cannot know what happens.")
    write_rows(tmp_path / "p.jsonl", rows)
    report = check(raw_store, [str(tmp_path / "p.jsonl")], tmp_path / "out", quiet=True)
    assert report.extra["passed"] <= 0.02 * len(rows)
    assert sum(report.extra["failed"].values()) + report.extra["passed"] == len(rows)


def test_least_scores_of_a_file_decide_and_stand_in_the_manifest(
    raw_store: Path, tmp_path: Path
) -> None:
    rows = predictions_of(Store(raw_store), lambda text: text.replace("tt", "t"))
    write_rows(tmp_path / "p.jsonl", rows)
    given = [str(tmp_path / "p.jsonl")]
    strict = tmp_path / "strict.toml"
    strict.write_text("".join(f"[{domain}]\noverall = 1.0\n" for domain in ORDER))
    usual = check(raw_store, given, tmp_path / "usual", quiet=True)
    asked = check(raw_store, given, tmp_path / "asked", thresholds=strict, quiet=True)
    assert asked.extra["passed"] < usual.extra["passed"]
    options = Store(tmp_path / "asked").manifest.options
    assert options["thresholds"]["swe"]["overall"] == 1.0
    assert options["thresholds"]["swe"]["format"] == shipped()["swe"]["format"]


def test_every_line_that_cannot_be_judged_is_counted_with_its_reason(
    raw_store: Path, tmp_path: Path
) -> None:
    rows: list[Any] = predictions_of(Store(raw_store), lambda text: text)[:2]
    rows.append({**rows[0], "step_index": 9_999})
    rows.append({**rows[0], "trajectory_id": "0" * 24})
    rows.append({"prediction": "lonely"})
    path = write_rows(tmp_path / "p.jsonl", rows)
    path.write_bytes(path.read_bytes() + b'{"torn": ')
    report = check(raw_store, [str(path)], tmp_path / "out", quiet=True)
    assert report.dropped == {
        "schema_violation": 1,
        "truncated_line": 1,
        "unknown_step": 1,
        "unknown_trajectory": 1,
    }
    assert report.read == report.kept + sum(report.dropped.values()) == 6
    rejects = pq.read_table(tmp_path / "out" / "rejects.parquet").to_pylist()
    assert {row["origin_line"] for row in rejects} == {3, 4, 5, 6}


def test_a_missing_predictions_file_is_a_clear_error(raw_store: Path, tmp_path: Path) -> None:
    with pytest.raises(TrajkitError, match=r"none\.jsonl: no such file"):
        check(raw_store, [str(tmp_path / "none.jsonl")], tmp_path / "out", quiet=True)


def test_neither_prompt_nor_case_holds_the_future_or_a_parallel_answer(tmp_path: Path) -> None:
    """Law 3: what stands in a later observation, or beside it in the same turn, is not seen."""
    row = chat([("get", {"n": n}, f"SEEN-{n}") for n in range(4)])
    parallel = row["messages"][3]
    parallel["tool_calls"].append(
        {"id": "p", "type": "function", "function": {"name": "get", "arguments": "{}"}}
    )
    row["messages"].insert(4, {"role": "tool", "tool_call_id": "p", "content": "PARALLEL"})
    store = Store(cut(tmp_path, [row]))
    ((episode, steps),) = episodes(store, store.parts()[0])
    assert [step["turn"] for step in steps] == [0, 1, 1, 2, 3]
    rendered = render(episode, steps, "v0")
    for step in steps:
        prompt = str(chat_messages(rendered, step["step_index"]))
        judged = case(episode, steps, step["step_index"], "")
        past = json.dumps([turn.observation for turn in judged.history])
        for other in steps:
            seen = other["turn"] < step["turn"]
            assert (other["observation"] in prompt) == seen
            assert (other["observation"] in past) == seen
