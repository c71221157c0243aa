"""The loss report: every event has one fate, and none is left out without a reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from chats import chat, write_rows
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from test_fuzz import PLACES

from trajkit.cli import main
from trajkit.ingest import ingest
from trajkit.ledger import FATES, Ledger
from trajkit.loss import loss_report
from trajkit.store import Store


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """All raw logs at hand in one store."""
    folder = tmp_path_factory.mktemp("loss")
    ingest(tuple(map(str, PLACES)), folder / "store", quiet=True)
    return Store(folder / "store")


def test_no_adapter_leaves_out_more_than_one_event_in_a_hundred_for_no_reason(
    everything: Store,
) -> None:
    account = loss_report(everything)
    assert len(account["adapters"]) > 60
    careless = {
        name: numbers
        for name, numbers in account["adapters"].items()
        if numbers["left_out"].get("other", 0) > numbers["events"] / 100
    }
    assert careless == {}


def test_the_fates_of_a_file_add_up_and_the_files_to_the_whole(everything: Store) -> None:
    account = loss_report(everything)
    for numbers in [account["total"], *account["adapters"].values(), *account["files"]]:
        assert numbers["n_left_out"] == sum(numbers["left_out"].values())
        assert numbers["events"] == sum(numbers[fate] for fate in FATES) + numbers["n_left_out"]
        assert numbers["events"] > 0
    for name in ("records", "episodes", "events", *FATES):
        assert account["total"][name] == sum(file[name] for file in account["files"])


def test_every_episode_of_a_store_has_an_account(everything: Store) -> None:
    account = loss_report(everything)
    n_dropped = everything.manifest.dropped
    late = ("copied_history", "schema_violation", "unknown_domain", "no_steps")
    n_late = sum(n_dropped.get(reason, 0) for reason in late)
    n_kept = everything.manifest.rows["trajectories"]
    assert n_kept <= account["total"]["episodes"] <= n_kept + n_late


def test_the_command_writes_the_report_beside_the_store(tmp_path: Path) -> None:
    write_rows(tmp_path / "a.jsonl", [chat([("peek", {}, "x")]), {"what": "is this"}])
    arguments = ["ingest", str(tmp_path / "a.jsonl"), "-o", str(tmp_path / "store")]
    arguments += ["--domain", "mcp", "--loss-report", str(tmp_path / "loss.json")]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    account = json.loads((tmp_path / "loss.json").read_text())
    assert account["adapters"]["openai-chat"] == {
        "records": 1,
        "episodes": 1,
        "events": 3,
        "action": 1,
        "observation": 1,
        "thought": 0,
        "context": 1,
        "n_left_out": 0,
        "left_out": {},
    }
    assert account["adapters"]["none"]["left_out"] == {"unknown_format": 1}


@given(
    st.integers(0, 6),
    st.lists(
        st.tuples(st.integers(0, 9), st.sampled_from([*FATES, "bookkeeping", "progress"])),
        max_size=20,
    ),
)
def test_a_ledger_counts_each_event_once(n_expected: int, notes: list[tuple[int, str]]) -> None:
    ledger = Ledger()
    ledger.expect(range(n_expected))
    for event, what in notes:
        if what in FATES:
            ledger.became(event, what)  # type: ignore[arg-type]
        else:
            ledger.left_out(event, what)
    events = {*range(n_expected), *(event for event, _ in notes)}
    assert ledger.fates().total() + ledger.reasons().total() == len(events)
    silent = set(range(n_expected)) - {event for event, _ in notes}
    assert ledger.reasons()["other"] == len(silent)
