"""Fine-tuning rows of one store for TRL and, folded, for a trainer that trains by role."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from trajkit import trainers
from trajkit.builders.sft import Options, build_sft
from trajkit.store import Store
from trajkit.trainers import Message

Rows = list[dict[str, Any]]


def rows_for(trainer: str, store: Path, folder: Path) -> Rows:
    """Return the rows for a trainer, three of each domain, by trajectory and step."""
    options = Options(trainer=trainer, per_domain=3, validation=0.0, test=0.0)
    build_sft(store, folder / trainer, options=options, quiet=True)
    files = Store(folder / trainer).files("train")
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    return sorted(rows, key=lambda row: (row["trajectory_id"], row["step_index"]))


def conversation(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all messages of a row."""
    messages: list[dict[str, Any]] = row.get("messages") or [*row["prompt"], *row["completion"]]
    return messages


def check_folds(folded: Rows, rows: Rows) -> None:
    """Check that folds hold every text of the conversations, and the answer as the only answer."""
    assert any(len(conversation(row)) > 3 for row in rows)
    for fold, row in zip(folded, rows, strict=True):
        system, question, answer = conversation(fold)
        first, *history, last = conversation(row)
        assert [system["role"], question["role"], answer["role"]] == ["system", "user", "assistant"]
        assert (system, answer) == (first, last)
        assert question["content"] == "\n\n".join(message["content"] for message in history)


def with_reasoning(trainer: str, row: dict[str, Any], reasoning: str) -> dict[str, Any]:
    """Return the columns of a row whose answer was thought about."""
    make = trainers.load(trainer).sft
    assert make is not None
    *asked, answer = (Message(role=m["role"], content=m["content"]) for m in conversation(row))
    said = Message(role="assistant", content=answer.content, reasoning=reasoning, loss=True)
    return make([*asked, said])
