"""ms-swift: flags, what is left out behind the last of them, and its settings."""

from __future__ import annotations

import pyarrow as pa
import yaml
from trainer_rows import faults, turns

from trajkit import trainers
from trajkit.control_tokens import BREAK
from trajkit.trainers import Built, Kind, Message

SWIFT = trainers.load("swift")


def conversation(*flags: bool) -> list[Message]:
    """Return a system message and a question and an answer for each flag."""
    messages = [Message(role="system", content="rules")]
    for number, loss in enumerate(flags):
        messages.append(Message(role="user", content=f"act {number}"))
        messages.append(Message(role="assistant", content=f"see {number}", loss=loss))
    return messages


def settings(kind: Kind, splits: tuple[str, ...] = ("train", "validation", "test")) -> str:
    """Return the text of `train.yaml`."""
    assert SWIFT.files is not None
    return SWIFT.files(Built(name="out", kind=kind, splits=splits))["train.yaml"].decode()


def test_a_fine_tuning_row_trains_on_its_last_message_alone() -> None:
    assert SWIFT.sft is not None
    row = SWIFT.sft(conversation(True, False, True))
    assert [flag for _, _, flag in turns(row)] == [False] * 6 + [True]
    assert faults("swift", row) == []


def test_a_row_of_messages_ends_with_the_last_one_that_is_trained_on() -> None:
    assert SWIFT.messages is not None
    row = SWIFT.messages(conversation(True, False, True, False))
    assert [text for _, text, flag in turns(row) if flag] == ["see 0", "see 2"]
    assert turns(row)[-1] == ("assistant", "see 2", True)
    assert faults("swift", row) == []


def test_reasoning_stands_inline_and_none_leaves_no_tag() -> None:
    assert SWIFT.sft is not None
    *asked, answer = conversation(True)
    thought = Message(role="assistant", content=answer.content, reasoning="so", loss=True)
    assert turns(SWIFT.sft([*asked, thought]))[-1][1] == "<think>\nso\n</think>\n\nsee 0"
    assert turns(SWIFT.sft([*asked, answer]))[-1][1] == "see 0"


def test_a_slot_of_its_templates_in_an_action_is_broken_up() -> None:
    assert SWIFT.sft is not None
    action = Message(role="user", content="{{ROUND0}} {{ROUND1}} {{ROUND2}} {{QUERY}}")
    answer = Message(role="assistant", content="{{ROUND0}}", loss=True)
    (_, asked, _), (_, said, _) = turns(SWIFT.sft([action, answer]))
    # Answers stay as they are: only the text of a user is filled in after a slot for the number.
    assert said == answer.content
    assert asked == f"{{{BREAK}{{ROUND0}}}} {{{BREAK}{{ROUND1}}}} {{{{ROUND2}}}} {{{{QUERY}}}}"


def test_columns_have_explicit_types() -> None:
    assert SWIFT.messages_columns == [
        pa.field(
            "messages",
            pa.list_(
                pa.struct(
                    [("role", pa.string()), ("content", pa.large_string()), ("loss", pa.bool_())]
                )
            ),
        )
    ]


def test_settings_name_the_folders_and_keep_the_empty_thought_out_of_the_loss() -> None:
    for kind in ("sft", "messages"):
        assert yaml.safe_load(settings(kind)) == {
            "loss_scale": "ignore_empty_think",
            "dataset": ["./train"],
            "val_dataset": ["./validation"],
            "strict": True,
            "max_length": 131072,
        }
    text = yaml.safe_load(settings("text", ("train",)))
    assert text == {"dataset": ["./train"], "strict": True, "max_length": 131072}


def test_there_are_no_settings_for_token_rows_since_it_reads_none() -> None:
    assert SWIFT.files is not None
    assert SWIFT.files(Built(name="out", kind="tokens", splits=("train",))) == {}
