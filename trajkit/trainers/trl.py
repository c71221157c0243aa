"""TRL: `prompt` and `completion` as message lists, reasoning in a key of its own.

`SFTTrainer` knows no `loss_spans`: rows of the layout `text` are trained on from end to end, masks
need the layout `tokens`. There it keeps `labels`, and keeps the documents of a row apart by
`seq_lengths`, with `padding_free=True, max_length=None`; or build with `--packing none` and let it
pack. Chat templates differ in whether they show `reasoning_content`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from trajkit.trainers import rl_rows
from trajkit.trainers.base import MESSAGE, Message, Trainer


def as_dict(message: Message) -> dict[str, Any]:
    """Return a message as chat templates take it, with `reasoning_content` where there is any."""
    plain: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.reasoning is not None:
        plain["reasoning_content"] = message.reasoning
    return plain


def sft(messages: Sequence[Message]) -> dict[str, Any]:
    """Return a conversation as `prompt` and `completion`; the answer is the last message."""
    *prompt, answer = messages
    return {
        "prompt": [{"role": message.role, "content": message.content} for message in prompt],
        "completion": [as_dict(answer)],
    }


def sft_columns(has_reasoning: bool) -> list[pa.Field]:
    """Return the types of `prompt` and `completion`."""
    answer = list(MESSAGE)
    if has_reasoning:
        answer.append(pa.field("reasoning_content", pa.large_string()))
    return [
        pa.field("prompt", pa.list_(pa.struct(list(MESSAGE)))),
        pa.field("completion", pa.list_(pa.struct(answer))),
    ]


TRAINER = Trainer(
    name="trl",
    title="TRL",
    layouts=frozenset({"text", "tokens"}),
    sft=sft,
    sft_columns=sft_columns,
    rl=rl_rows.trl_row,
    rl_columns=rl_rows.TRL_COLUMNS,
)
