"""Rows for verl by the rules of its data code; `make trainers` runs that code itself on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from chat_templates import CHATML, LOOKS_BACK
from folded_rows import Rows, check_folds, conversation, rows_for, with_reasoning
from jinja2 import Template
from jsonschema import validate

from trajkit.builders import rl, rl_turns
from trajkit.store import Store
from trajkit.trainers import verl_dataset

TEXT = {"type": "string", "minLength": 1}
CHAT = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "role": {"enum": ["system", "user", "assistant"]},
            "content": TEXT,
            "reasoning_content": {"type": ["string", "null"], "minLength": 1},
        },
        "required": ["role", "content"],
        "additionalProperties": False,
    },
    "minItems": 2,
}
# Columns that `MultiTurnSFTDataset` and `RLHFDataset` look for by themselves must not be there.
NOT_OURS = ("images", "videos", "audios", "tools", "enable_thinking")
SFT = {
    "type": "object",
    "properties": {"messages": CHAT, **dict.fromkeys(NOT_OURS, False)},
    "required": ["messages"],
}
RL = {
    "type": "object",
    "properties": {
        "prompt": CHAT,
        "data_source": TEXT,
        "ability": TEXT,
        "reward_model": {
            "type": "object",
            "properties": {"style": {"const": "rule"}, "ground_truth": {"type": "string"}},
            "required": ["style", "ground_truth"],
        },
        # A mapping: what runs a prompt writes into it. The keys ruled out steer tools.
        "extra_info": {
            "type": "object",
            "properties": {
                "index": {"type": "integer", "minimum": 0, "maximum": 2**53},
                **dict.fromkeys(("tools_kwargs", "interaction_kwargs", "need_tools_kwargs"), False),
            },
            "required": ["index", "split"],
        },
        **dict.fromkeys(NOT_OURS, False),
    },
    "required": ["prompt", "data_source", "ability", "reward_model", "extra_info"],
}


@pytest.fixture(scope="module")
def rows(transitions_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    return rows_for("verl", transitions_store, tmp_path_factory.mktemp("verl"))


def trained(template: str, messages: list[dict[str, Any]]) -> tuple[str, str]:
    """Return what verl's dataset makes of a conversation, and what of it bears loss.

    Each message is rendered alone. Those of the assistant bear loss behind the words that ask for
    an answer.
    """
    rendered = Template(template)
    asks = rendered.render(messages=[], add_generation_prompt=True)
    whole, target = "", ""
    for message in messages:
        text = rendered.render(messages=[message], add_generation_prompt=False)
        whole += text
        if message["role"] == "assistant":
            target += text.removeprefix(asks)
    return whole, target


def test_history_is_folded_so_that_the_answer_alone_bears_loss(
    rows: Rows, transitions_store: Path, tmp_path: Path
) -> None:
    check_folds(rows, rows_for("trl", transitions_store, tmp_path))
    for row in rows:
        validate(row, SFT)
        messages = conversation(row)
        whole, target = trained(CHATML, messages)
        assert whole == Template(CHATML).render(messages=messages)
        assert target == f"{messages[-1]['content']}<|im_end|>\n"


def test_reasoning_is_trained_with_a_template_that_shows_it(rows: Rows) -> None:
    for row in rows:
        messages = with_reasoning("verl", row, "It lists two files.")["messages"]
        validate({"messages": messages}, SFT)
        assert "reasoning_content" not in messages[0]
        whole, target = trained(CHATML, messages)
        assert whole == Template(CHATML).render(messages=messages)
        assert target.startswith(
            "<think>\nIt lists two files.\n</think>\n\n<predicted_observation>"
        )


def test_a_template_that_looks_back_is_one_for_our_own_dataset(rows: Rows) -> None:
    # What verl's stock dataset compares and refuses; `AnswerDataset` never renders parts.
    messages = conversation(rows[0])
    whole, _ = trained(LOOKS_BACK, messages)
    assert whole != Template(LOOKS_BACK).render(messages=messages)


def test_the_dataset_is_the_only_name_of_its_module() -> None:
    with pytest.raises(AttributeError, match="no attribute 'OtherDataset'"):
        verl_dataset.OtherDataset  # noqa: B018


def test_prompts_for_rl_have_what_the_reward_managers_hand_over(
    transitions_store: Path, tmp_path: Path
) -> None:
    options = rl_turns.Options(trainer="verl", validation=0.0, test=0.0)
    rl.build_rl(transitions_store, tmp_path / "rl", options=options, quiet=True)
    files = Store(tmp_path / "rl").files("train")
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    assert len({row["data_source"] for row in rows}) == 7
    for row in rows:
        validate(row, RL)
        assert row["data_source"] == f"trajkit/{row['ability']}"
        assert row["prompt"][-1]["role"] == "user"
    assert len({row["extra_info"]["index"] for row in rows}) == len(rows)
