"""Rows for prime-rl by the rules of its data code; `make trainers` shows them to its renderers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from folded_rows import Rows, check_folds, conversation, rows_for, with_reasoning
from jsonschema import validate

TEXT = {"type": "string", "minLength": 1}


def _message(*roles: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"role": {"enum": [*roles]}, "content": TEXT, **more},
        "required": ["role", "content"],
        "additionalProperties": False,
    }


# `messages` would be taken first, and columns of tools or template options would be read.
NOT_OURS = ("messages", "tools", "tool_defs", "chat_template_kwargs")
SCHEMA = {
    "type": "object",
    "properties": {
        "prompt": {"type": "array", "items": _message("system", "user"), "minItems": 1},
        "completion": {
            "type": "array",
            "items": _message("assistant", reasoning_content=TEXT),
            "minItems": 1,
            "maxItems": 1,
        },
        **dict.fromkeys(NOT_OURS, False),
    },
    "required": ["prompt", "completion"],
}
LOSS_MASK = {"system": False, "user": False, "assistant": True, "tool": False}
"""The default of prime-rl: which roles bear loss."""


@pytest.fixture(scope="module")
def rows(transitions_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    return rows_for("prime-rl", transitions_store, tmp_path_factory.mktemp("prime-rl"))


def test_history_is_folded_so_that_the_default_mask_trains_the_answer_alone(
    rows: Rows, transitions_store: Path, tmp_path: Path
) -> None:
    plain = rows_for("trl", transitions_store, tmp_path)
    check_folds(rows, plain)
    for row, unfolded in zip(rows, plain, strict=True):
        validate(row, SCHEMA)
        trained = [message for message in conversation(row) if LOSS_MASK[message["role"]]]
        assert trained == row["completion"] == unfolded["completion"]


def test_reasoning_stands_in_the_key_that_renderers_read(rows: Rows) -> None:
    thought = with_reasoning("prime-rl", rows[0], "It lists two files.")
    validate(thought, SCHEMA)
    assert thought["completion"][0]["reasoning_content"] == "It lists two files."
