"""ms-swift 4.6: `messages` with a flag `loss` each, reasoning inline.

A flag decides about an answer and its end-of-turn token; what is no answer is decided by
`loss_scale`. Text is taken for an answer to nothing. It reads no token rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from trajkit.control_tokens import BREAK
from trajkit.trainers.base import MESSAGE, Built, Message, Trainer, think_inline
from trajkit.trainers.trained_turns import trained_turns

# Its templates put the number of the turn here, also where the text of a user says so.
_SLOT = re.compile(r"\{(?=\{ROUND[01]\}\})")
_COLUMNS = [pa.field("messages", pa.list_(pa.struct([*MESSAGE, pa.field("loss", pa.bool_())])))]
_HEAD = """\
# Data settings for ms-swift: start it in this folder, or put the folder's path before each `./`.
# Add the settings of the model and of training.
"""
_CHAT = """\
# For `swift sft`. The loss_scale of `swift pt` also trains on actions and system prompts.
# Templates of models that think or do not put an empty thought before an answer without one; this
# keeps it out of the loss.
loss_scale: ignore_empty_think
"""
_FORMS = {
    "text": """\
# For `swift pt`, which trains on all of the text: loss_spans is not read.
""",
    "messages": _CHAT,
    "sft": _CHAT,
}
_CHECKS = """\
# A row that cannot be read stops the run; without this line it is left out.
strict: true
"""
_LENGTH = """\
# Longer rows are left out.
max_length: 131072
"""


def _row(messages: Sequence[Message], trained: Sequence[bool]) -> dict[str, Any]:
    return {
        "messages": [
            {"role": message.role, "content": _content(message), "loss": loss}
            for message, loss in zip(messages, trained, strict=True)
        ]
    }


def _content(message: Message) -> str:
    if message.role == "user":
        return _SLOT.sub("{" + BREAK, message.content)
    return think_inline(message)


def _sft(messages: Sequence[Message]) -> dict[str, Any]:
    return _row(messages, [False] * (len(messages) - 1) + [True])


def _messages(messages: Sequence[Message]) -> dict[str, Any]:
    kept = trained_turns(messages)
    return _row(kept, [message.loss for message in kept])


def _files(built: Built) -> Mapping[str, bytes]:
    if built.kind not in _FORMS:
        return {}
    lines = [_HEAD, _FORMS[built.kind]]
    for key, split in (("dataset", "train"), ("val_dataset", "validation")):
        if split in built.splits:
            lines.append(f"{key}: [./{split}]\n")
    lines += [_CHECKS, _LENGTH]
    return {"train.yaml": "".join(lines).encode()}


TRAINER = Trainer(
    name="swift",
    title="ms-swift",
    layouts=frozenset({"text", "messages"}),
    sft=_sft,
    sft_columns=lambda has_reasoning: _COLUMNS,
    messages=_messages,
    messages_columns=_COLUMNS,
    files=_files,
)
