"""Cases of software-engineering agents: versions of one run, condensed streams, repeated talks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from trajkit import adapters
from trajkit.extraction import Account, extract, known, read_unit, units
from trajkit.inputs import list_inputs
from trajkit.model import Origin, Record, Reject, Step, Trajectory

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff"
SHOWN = "<returncode>0</returncode>\n<output>\nmain.c\n</output>"
HEAD = [
    {"role": "system", "content": "One command at a time."},
    {"role": "user", "content": "Name the source files."},
]


def _fenced(command: str) -> dict[str, Any]:
    return {"role": "assistant", "content": f"THOUGHT: I look.\n\n```bash\n{command}\n```"}


def _called(command: str, call_id: str) -> dict[str, Any]:
    function = {"name": "bash", "arguments": json.dumps({"command": command})}
    return {
        "role": "assistant",
        "content": "THOUGHT: I look.",
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
        "extra": {"actions": [{"command": command, "tool_call_id": call_id}]},
    }


BARE = [*HEAD, _fenced("ls"), {"role": "user", "content": SHOWN}, _fenced(SUBMIT)]
FIRST = {
    "trajectory_format": "mini-swe-agent-1",
    "info": {"exit_status": "Submitted", "submission": "a patch"},
    "messages": [*BARE, {"role": "user", "content": "a patch"}],
}
SECOND = {
    "trajectory_format": "mini-swe-agent-1.1",
    "info": {"exit_status": "Submitted"},
    "messages": [
        *HEAD,
        _called("ls", "k1"),
        {"role": "tool", "tool_call_id": "k1", "content": SHOWN, "extra": {"returncode": 0}},
        _called(SUBMIT, "k2"),
        {
            "role": "exit",
            "content": "a patch",
            "extra": {"exit_status": "Submitted", "submission": "a patch"},
        },
    ],
}


def _read(value: Any) -> list[Trajectory | Reject]:
    """Return what the one adapter that takes a value makes of it."""
    owners = adapters.claims(value, adapters.all_adapters())
    return list(extract(owners, Record(value=value, origin=Origin(path="run.json"))))


def _episode(value: Any) -> Trajectory:
    (found,) = _read(value)
    assert isinstance(found, Trajectory)
    return found


def _told(step: Step) -> tuple[Any, ...]:
    return step.action_kind, step.action_name, step.action, step.observation, step.exit_code


def _ingested(folder: Path) -> list[Trajectory | Reject]:
    """Return everything that is found in a folder, in the way of `ingest`."""
    account, candidates = Account(), known("auto")
    groups = units(list_inputs((str(folder),)), candidates)
    return [one.outcome for unit in groups for one in read_unit(unit, candidates, account)]


# FM11: one run, written by three versions of an agent.


@pytest.mark.parametrize("written", [BARE, FIRST, SECOND], ids=["bare", "first", "second"])
def test_each_version_of_a_run_gives_the_same_commands_answers_and_exit_codes(written: Any) -> None:
    steps = _episode(written).steps
    assert [_told(step) for step in steps] == [
        ("code", "bash", "ls", "main.c", 0),
        ("code", "bash", SUBMIT, None, None),
    ]


def test_the_version_of_a_run_is_told_where_the_file_says_it() -> None:
    assert [_episode(run).format_version for run in (BARE, FIRST, SECOND)] == [None, "1", "1.1"]


def test_the_message_that_ends_a_run_is_neither_a_turn_nor_an_observation() -> None:
    found = _episode(SECOND)
    assert found.exit_status == "Submitted"
    assert found.steps[-1].turn == 1
    assert orjson.loads(found.meta or "")["submission"] == "a patch"


def test_a_version_that_nobody_knows_is_refused() -> None:
    (found,) = _read(SECOND | {"trajectory_format": "mini-swe-agent-9"})
    assert isinstance(found, Reject)
    assert found.reason == "unknown_version"


# FM12: an event stream with notes, and with a condensation that hides events.


def _event(id_: int, source: str, **fields: Any) -> dict[str, Any]:
    return {"id": id_, "source": source, "message": "for the eye", **fields}


def _condensed(condensation: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        _event(3, "user", action="message", args={"content": "Count the tests."}),
        _event(4, "agent", action="run", args={"command": "ls tests", "thought": "I look."}),
        _event(
            6,
            "agent",
            observation="run",
            cause=4,
            content="test_one.py",
            extras={"metadata": {"exit_code": 0}},
        ),
        _event(
            7,
            "environment",
            observation="agent_state_changed",
            content="",
            extras={"agent_state": "running"},
        ),
        _event(8, "environment", observation="null", content="", extras={}),
        _event(9, "agent", action="condensation", args={"summary": "There is one."} | condensation),
        _event(12, "agent", action="finish", args={"final_thought": "One test."}),
    ]


RANGE = {"forgotten_events_start_id": 4, "forgotten_events_end_id": 6}
LISTED = {"forgotten_event_ids": [4, 6]}


def _seen_by_the_agent(found: Trajectory, before: int) -> list[str | None]:
    """Return the observations that the agent still saw when it took a step."""
    hidden = {
        step
        for one in orjson.loads(found.meta or "")["condensations"]
        if one["summary_step"] < before
        for step in one["forgotten_steps"]
    }
    return [step.observation for i, step in enumerate(found.steps[:before]) if i not in hidden]


@pytest.mark.parametrize("condensation", [RANGE, LISTED], ids=["range", "list"])
def test_a_condensed_stream_keeps_its_steps_and_says_what_the_agent_no_longer_saw(
    condensation: dict[str, Any],
) -> None:
    found = _episode(_condensed(condensation))
    assert [step.action_name for step in found.steps] == ["run", None, "finish"]
    assert found.steps[0].observation == "test_one.py"
    assert found.steps[1].observation_source == "harness"
    assert _seen_by_the_agent(found, 1) == ["test_one.py"]
    assert _seen_by_the_agent(found, 2) == ["There is one."]


def test_an_observation_belongs_to_its_cause_and_the_last_action_has_none() -> None:
    found = _episode(_condensed(RANGE))
    assert [step.observation for step in found.steps if step.action_kind == "tool_call"] == [
        "test_one.py",
        None,
    ]
    assert orjson.loads(found.meta or "")["linked_by"] == {"id": 1, "unanswered": 1}


def test_notes_of_a_stream_are_left_out_with_their_reason() -> None:
    record = Record(value=_condensed(RANGE), origin=Origin(path="run.json"))
    list(adapters.load("openhands").extract(record))
    assert dict(record.ledger.reasons()) == {"bookkeeping": 2}
    assert record.ledger.fates().total() == 5


# Folders and negatives.


def test_a_folder_with_one_file_for_each_event_is_one_episode_in_the_order_of_numbers(
    tmp_path: Path,
) -> None:
    events = tmp_path / "session" / "events"
    events.mkdir(parents=True)
    for raw in _condensed(LISTED):
        (events / f"{raw['id']}.json").write_text(json.dumps(raw))
    (found,) = _ingested(tmp_path)
    assert isinstance(found, Trajectory)
    assert [step.action_name for step in found.steps] == ["run", None, "finish"]


def test_predictions_for_a_benchmark_are_no_episodes(tmp_path: Path) -> None:
    row = {"instance_id": "o__r-1", "model_patch": "diff --git", "model_name_or_path": "demo"}
    (tmp_path / "preds.json").write_text(json.dumps([row, row | {"instance_id": "o__r-2"}]))
    assert [getattr(found, "reason", None) for found in _ingested(tmp_path)] == [
        "unknown_format",
        "unknown_format",
    ]


def test_a_trajectory_of_another_format_in_a_trial_is_left_to_its_own_adapter(
    tmp_path: Path,
) -> None:
    trial = tmp_path / "sort__1"
    (trial / "agent").mkdir(parents=True)
    (trial / "agent" / "trajectory.json").write_text(json.dumps(SECOND))
    result = {"task_name": "sort", "trial_name": "sort__1", "verifier_result": None}
    (trial / "result.json").write_text(json.dumps(result | {"exception_info": None}))
    found = _ingested(tmp_path)
    assert {getattr(one, "adapter", None) or getattr(one, "reason", None) for one in found} == {
        "mini-swe-agent",
        "metadata_only",
    }


def test_a_call_in_tags_of_a_harbor_trace_is_answered_by_the_next_turn() -> None:
    call = '<tool_call>\n{"name": "run", "arguments": {"command": "ls"}}\n</tool_call>'
    said = ["You help.", "List the files.", f"I look.\n{call}", "main.c"]
    roles = ["user", "user", "assistant", "user"]
    talk = [{"role": role, "content": text} for role, text in zip(roles, said, strict=True)]
    facts = {"agent": "openhands", "trial_name": "t", "run_id": "r", "result": "0.0"}
    rows = [
        facts | {"episode": f"episode-{n}", "conversations": turns}
        for n, turns in enumerate([talk[:3], talk])
    ]
    record = Record(value=rows, origin=Origin(path="traces.jsonl"))
    (found,) = adapters.load("harbor-traces").extract(record)
    assert isinstance(found, Trajectory)
    assert (found.agent_system_prompt, found.task) == ("You help.", "List the files.")
    assert (found.outcome_status, found.reward) == ("failure", 0.0)
    assert [(step.action_name, step.observation) for step in found.steps] == [("run", "main.c")]
    assert dict(record.ledger.reasons()) == {"repeated_prefix": 4}
