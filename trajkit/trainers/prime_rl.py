"""prime-rl: `prompt` and `completion`, the history folded into one user message.

Its fine-tuning data chooses what is trained on by role alone (`loss_mask`, by default every message
of the assistant) and joins `prompt` and `completion` before it does: observations of the history
would be trained on again in each row. So the answer is the only message of the assistant. The
default `loss_mask` is right for these rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trajkit.trainers import trl
from trajkit.trainers.base import Message, Trainer
from trajkit.trainers.single_turn import single_turn


def _sft(messages: Sequence[Message]) -> dict[str, Any]:
    return trl.sft(single_turn(messages))


TRAINER = Trainer(name="prime-rl", title="prime-rl", sft=_sft, sft_columns=trl.sft_columns)
