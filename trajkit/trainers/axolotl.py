"""axolotl 0.19: `messages` with a flag `train` each, reasoning in a key of its own.

Its strategy `chat_template` trains on a message where the flag is true, end-of-turn token
included, and on no other. Text is read by `completion`, which trains on all of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from trajkit.trainers.base import MESSAGE, Built, Message, Trainer
from trajkit.trainers.trained_turns import trained_turns

_FLAG = pa.field("train", pa.bool_())
_REASONING = pa.field("reasoning_content", pa.large_string())
_HEAD = """\
# Data settings for axolotl: start it in this folder, or put the folder's path before each `./`.
# Add the settings of the model and of training.
"""
_CHAT = """\
    type: chat_template
    chat_template: tokenizer_default
    field_messages: messages
    message_field_training: train
    train_on_eos: turn
"""
_THOUGHTS = """\
    field_thinking: reasoning_content
    template_thinking_key: reasoning_content
"""
_FORMS = {
    "text": "    type: completion\n    field: text\n",
    "messages": _CHAT,
    "sft": _CHAT,
    "tokens": "    type:\n",
}
_LENGTH = """\
# A longer row stops the run; without these lines it is left out.
sequence_len: 131072
excess_length_strategy: raise
"""
_CUT = """\
# Longer texts are cut into rows of this length.
sequence_len: 131072
"""
_ABOUT_TEXT = """\
# All of the text is trained on: completion has no masks, and loss_spans is not read.
"""
_ABOUT_TURNS = """\
# Where the chat template ends a turn with another token than the eos_token, name it, or no answer
# learns to end: eot_tokens: ["<|im_end|>"]
"""
_ABOUT_TOKENS = """\
# Token rows are taken for such when they have an attention mask. Add it once, in this folder:
#   import os
#   from datasets import load_dataset
#   def attend(row):
#       return {"attention_mask": [1] * len(row["input_ids"])}
#   rows = load_dataset(os.getcwd()).map(attend)
#   rows = rows.select_columns(["input_ids", "attention_mask", "labels", "position_ids"])
#   rows.save_to_disk("../SAVED")
# Leave sample_packing off: it numbers the positions of a row afresh, and with that goes where its
# documents begin. Only flash attention keeps documents apart by their positions.
"""
_ABOUT_THOUGHTS = """\
# The chat template must show reasoning_content, as that of Qwen3 does; chatml leaves it out.
"""


def _row(messages: Sequence[Message], trained: Sequence[bool]) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for message, train in zip(messages, trained, strict=True):
        row: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.reasoning is not None:
            row["reasoning_content"] = message.reasoning
        rows.append(row | {"train": train})
    return {"messages": rows}


def _sft(messages: Sequence[Message]) -> dict[str, Any]:
    return _row(messages, [False] * (len(messages) - 1) + [True])


def _messages(messages: Sequence[Message]) -> dict[str, Any]:
    kept = trained_turns(messages)
    return _row(kept, [message.loss for message in kept])


def _columns(has_reasoning: bool) -> list[pa.Field]:
    keys = [*MESSAGE, *([_REASONING] if has_reasoning else []), _FLAG]
    return [pa.field("messages", pa.list_(pa.struct(keys)))]


def _files(built: Built) -> Mapping[str, bytes]:
    form = _FORMS[built.kind]
    chat = built.kind in ("messages", "sft")
    lines = [_HEAD]
    # Beside this folder: what reads its rows would take saved ones for more of them.
    saved = re.sub(r"[^0-9A-Za-z_-]+", "_", built.name) + "_saved"
    if built.kind == "text":
        lines.append(_ABOUT_TEXT)
    if chat:
        lines.append(_ABOUT_TURNS)
    if built.kind == "tokens":
        lines.append(_ABOUT_TOKENS.replace("SAVED", saved))
    if built.has_reasoning:
        lines.append(_ABOUT_THOUGHTS)
        form += _THOUGHTS
    where = f"../{saved}/" if built.kind == "tokens" else "./"
    for key, split in (("datasets", "train"), ("test_datasets", "validation")):
        if split in built.splits:
            # The rows of one folder are a split `train` for the loader, whatever it is called.
            lines.append(f"{key}:\n  - path: {where}{split}\n    split: train\n{form}")
    lines.append(_CUT if built.kind == "text" else _LENGTH)
    return {"train.yaml": "".join(lines).encode()}


TRAINER = Trainer(
    name="axolotl",
    title="axolotl",
    layouts=frozenset({"text", "messages", "tokens"}),
    sft=_sft,
    sft_columns=_columns,
    messages=_messages,
    messages_columns=_columns(False),
    files=_files,
)
