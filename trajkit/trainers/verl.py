"""verl: `messages`, the history folded into one user message, reasoning in a key of its own.

Its fine-tuning dataset trains on every message of the assistant, and renders each one on its own
before it checks the whole, so the answer is the only such message. Templates that render a lone
answer otherwise than one that follows a question (Qwen3) fail its check: `verl_dataset.py` says
what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from trajkit.trainers import rl_rows
from trajkit.trainers.base import MESSAGE, Message, Trainer
from trajkit.trainers.single_turn import single_turn
from trajkit.trainers.trl import as_dict


def _sft(messages: Sequence[Message]) -> dict[str, Any]:
    return {"messages": [as_dict(message) for message in single_turn(messages)]}


def _sft_columns(has_reasoning: bool) -> list[pa.Field]:
    message = list(MESSAGE)
    if has_reasoning:
        message.append(pa.field("reasoning_content", pa.large_string()))
    return [pa.field("messages", pa.list_(pa.struct(message)))]


TRAINER = Trainer(
    name="verl",
    title="verl",
    sft=_sft,
    sft_columns=_sft_columns,
    rl=rl_rows.verl_row,
    rl_columns=rl_rows.VERL_COLUMNS,
)
