"""What files tell of each other: parents in other files, and histories that are copies."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from trajkit import ingest as ingest_module
from trajkit import lineage
from trajkit.ingest import Options, ingest
from trajkit.store import Store

ADAPTER = '''
from trajkit.adapters.messages import Call, Message, fold
from trajkit.model import Trajectory


class Runs:
    """{"run": id, "parent": id or null, "did": [[key, action, answer], ...]}"""

    domains = ("terminal",)

    def detect(self, value):
        return isinstance(value, dict) and "did" in value

    def extract(self, record):
        messages = []
        for key, action, answer in record.value["did"]:
            call = Call(action=action, name=None, kind="code")
            messages.append(Message(role="assistant", calls=(call,), key=key))
            messages.append(Message(role="result", text=answer))
        folded = fold(messages)
        yield Trajectory(
            origin=record.origin, adapter="runs", domain="terminal", steps=folded.steps,
            step_keys=folded.step_keys, names=(record.value["run"],),
            parent_key=record.value["parent"], task=record.value["run"],
        )
'''


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four files: a run, one that resumed it, a whole copy, and a child of the run."""
    (tmp_path / "runlogs.py").write_text(ADAPTER)
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "logs"
    folder.mkdir()
    did = [[f"k{n}", f"do {n}", f"done {n}"] for n in range(6)]
    files = {
        "a": {"run": "r1", "parent": None, "did": did[:4]},
        "b": {"run": "r2", "parent": None, "did": did},
        "c": {"run": "r3", "parent": None, "did": did[1:3]},
        "d": {"run": "r4", "parent": "r2", "did": [["x", "help", "helped"]]},
        "e": {"run": "r5", "parent": "nobody", "did": [[None, "do 0", "done 0"]]},
    }
    for name, value in files.items():
        (folder / f"{name}.json").write_bytes(pl.Series([value]).struct.json_encode()[0].encode())
    return folder


def told(store: Path) -> dict[str, tuple[str | None, list[str | None]]]:
    """Return the parent's task and the skip reasons of each run."""
    rows = pl.read_parquet(store / "trajectories" / "*.parquet")
    steps = pl.read_parquet(store / "steps" / "*.parquet").sort("step_index")
    tasks = dict(zip(rows["trajectory_id"], rows["task"], strict=True))
    return {
        row["task"]: (
            tasks.get(row["parent_id"]),
            steps.filter(pl.col("trajectory_id") == row["trajectory_id"])["skip_reason"].to_list(),
        )
        for row in rows.iter_rows(named=True)
    }


EXPECTED = {
    "r1": (None, [None] * 4),
    "r2": (None, [lineage.COPIED] * 4 + [None] * 2),
    "r4": ("r2", [None]),
    "r5": (None, [None]),
}


@pytest.mark.parametrize("shard_bytes", [1, 1 << 20], ids=["a part a file", "one part"])
def test_copies_are_no_targets_again_and_children_find_their_parents(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shard_bytes: int
) -> None:
    monkeypatch.setattr(ingest_module, "SHARD_BYTES", shard_bytes)
    options = Options(format="runlogs:Runs")
    report = ingest((str(runs),), tmp_path / "store", options=options, quiet=True)
    assert told(tmp_path / "store") == EXPECTED
    assert (report.read, report.kept) == (5, 4)
    assert report.dropped == {lineage.HISTORY: 1}
    assert report.extra["steps"] == 12
    rejects = pl.read_parquet(tmp_path / "store" / "rejects.parquet")
    assert rejects["origin_path"].to_list() == ["logs/c.json"]
    assert Store(tmp_path / "store").manifest.rows["trajectories"] == 4


def test_a_pass_that_was_killed_gives_the_same_store(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest_module, "SHARD_BYTES", 1)
    options = Options(format="runlogs:Runs")
    ingest((str(runs),), tmp_path / "whole", options=options, quiet=True)
    real = lineage.write_table
    calls = []

    def stops(path: Path, table: object) -> None:
        calls.append(path)
        if len(calls) == stop_at:
            raise KeyboardInterrupt
        real(path, table)  # type: ignore[arg-type]

    stop_at = 0
    monkeypatch.setattr(lineage, "write_table", stops)
    ingest((str(runs),), tmp_path / "counted", options=options, quiet=True)
    for stop_at in range(1, len(calls) + 1):
        out = tmp_path / f"stopped{stop_at}"
        calls.clear()
        with pytest.raises(KeyboardInterrupt):
            ingest((str(runs),), out, options=options, quiet=True)
        calls.clear()
        stopped, stop_at = stop_at, 0
        report = ingest((str(runs),), out, options=options, quiet=True)
        stop_at = stopped
        assert told(out) == EXPECTED
        assert (report.read, report.kept) == (5, 4)
        assert Store(out).manifest.parts == Store(tmp_path / "whole").manifest.parts
