"""axolotl: a flag for each message, reasoning in a key of its own, and its settings."""

from __future__ import annotations

import pyarrow as pa
import pytest
import yaml
from trainer_rows import faults, turns

from trajkit import trainers
from trajkit.trainers import Built, Kind, Message

AXOLOTL = trainers.load("axolotl")
CHAT = {
    "split": "train",
    "type": "chat_template",
    "chat_template": "tokenizer_default",
    "field_messages": "messages",
    "message_field_training": "train",
    "train_on_eos": "turn",
}
WHOLE = {"sequence_len": 131072, "excess_length_strategy": "raise"}


def text_of_settings(kind: Kind, *, has_reasoning: bool = False) -> str:
    """Return the text of `train.yaml`."""
    assert AXOLOTL.files is not None
    built = Built(
        name="my rows",
        kind=kind,
        splits=("train", "validation", "test"),
        has_reasoning=has_reasoning,
    )
    return AXOLOTL.files(built)["train.yaml"].decode()


def asked(*flags: bool) -> list[Message]:
    """Return a question and an answer for each flag."""
    return [
        message
        for number, loss in enumerate(flags)
        for message in (
            Message(role="user", content=f"act {number}"),
            Message(role="assistant", content=f"see {number}", loss=loss),
        )
    ]


def test_a_fine_tuning_row_trains_on_its_last_message_alone() -> None:
    assert AXOLOTL.sft is not None
    row = AXOLOTL.sft(asked(True, True))
    assert [flag for _, _, flag in turns(row)] == [False, False, False, True]
    assert faults("axolotl", row) == []


def test_a_row_of_messages_carries_each_flag_up_to_the_last_trained_one() -> None:
    assert AXOLOTL.messages is not None
    row = AXOLOTL.messages(asked(False, True, False))
    assert [(text, flag) for role, text, flag in turns(row) if role == "assistant"] == [
        ("see 0", False),
        ("see 1", True),
    ]
    assert faults("axolotl", row) == []


def test_reasoning_has_its_own_key_and_none_leaves_no_key() -> None:
    assert AXOLOTL.sft is not None
    thought = Message(role="assistant", content="x", reasoning="so", loss=True)
    row = AXOLOTL.sft([*asked(True), Message(role="user", content="act"), thought])
    assert row["messages"][-1] == {
        "role": "assistant",
        "content": "x",
        "reasoning_content": "so",
        "train": True,
    }
    assert all("reasoning_content" not in message for message in row["messages"][:-1])


@pytest.mark.parametrize("has_reasoning", [False, True])
def test_there_is_a_column_for_reasoning_where_rows_have_some(has_reasoning: bool) -> None:
    assert AXOLOTL.sft_columns is not None
    (column,) = AXOLOTL.sft_columns(has_reasoning)
    names = [column.type.value_type.field(n).name for n in range(column.type.value_type.num_fields)]
    reasoning = ["reasoning_content"] if has_reasoning else []
    assert names == ["role", "content", *reasoning, "train"]
    assert column.type.value_type.field("content").type == pa.large_string()


def test_settings_of_chats_read_the_flags() -> None:
    for kind in ("sft", "messages"):
        assert yaml.safe_load(text_of_settings(kind)) == {
            "datasets": [{"path": "./train"} | CHAT],
            "test_datasets": [{"path": "./validation"} | CHAT],
            **WHOLE,
        }
    thinking = yaml.safe_load(text_of_settings("sft", has_reasoning=True))
    assert thinking["datasets"][0] == {
        "path": "./train",
        "field_thinking": "reasoning_content",
        "template_thinking_key": "reasoning_content",
        **CHAT,
    }


def test_settings_of_text_and_tokens() -> None:
    text = yaml.safe_load(text_of_settings("text"))
    assert text["datasets"] == [
        {"path": "./train", "split": "train", "type": "completion", "field": "text"}
    ]
    assert "loss_spans is not read" in text_of_settings("text")
    tokens = text_of_settings("tokens")
    assert yaml.safe_load(tokens)["datasets"] == [
        {"path": "../my_rows_saved/train", "split": "train", "type": None}
    ]
    assert 'save_to_disk("../my_rows_saved")' in tokens
