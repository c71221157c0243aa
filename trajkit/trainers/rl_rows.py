"""Rows for RL: the prompt, and beside it what `trajkit.reward` needs to reward an answer.

TRL hands every column to a reward function by its name, and the prompt too. verl hands over
`data_source`, `reward_model.ground_truth` and `extra_info` alone: there the history stands a
second time, as JSON text. What differs from row to row in its form is JSON text throughout.

Source: TRL 1.16 (`GRPOTrainer`), verl 0.9.1 (`RLHFDataset`, the reward managers).
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from trajkit.model import to_json_text
from trajkit.trainers.base import MESSAGE, Prompt

_PROMPT = pa.field("prompt", pa.list_(pa.struct(list(MESSAGE))))

TRL_COLUMNS = [
    _PROMPT,
    pa.field("ground_truth", pa.large_string()),
    pa.field("verifiers", pa.large_string()),
    pa.field("secret", pa.large_string()),
]
VERL_COLUMNS = [
    pa.field("data_source", pa.string()),
    _PROMPT,
    pa.field("ability", pa.string()),
    pa.field(
        "reward_model",
        pa.struct([pa.field("style", pa.string()), pa.field("ground_truth", pa.large_string())]),
    ),
    pa.field(
        "extra_info",
        pa.struct(
            [
                pa.field("index", pa.int64()),
                pa.field("split", pa.string()),
                pa.field("trajectory_id", pa.string()),
                pa.field("step_index", pa.int64()),
                pa.field("verifiers", pa.large_string()),
                pa.field("secret", pa.large_string()),
                pa.field("history", pa.large_string()),
            ]
        ),
    ),
]


def trl_row(prompt: Prompt) -> dict[str, Any]:
    """Return the columns for TRL's GRPO."""
    return {
        "prompt": _plain(prompt),
        "ground_truth": prompt.recorded,
        "verifiers": prompt.verifiers,
        "secret": prompt.secret,
    }


def verl_row(prompt: Prompt) -> dict[str, Any]:
    """Return the columns for verl.

    `index` is made from the ids, so that it is the same whatever else the folder holds; `style`
    says that a function gives the reward, which is what verl calls a rule.
    """
    messages = _plain(prompt)
    return {
        "data_source": f"trajkit/{prompt.domain}",
        "prompt": messages,
        "ability": prompt.domain,
        "reward_model": {"style": "rule", "ground_truth": prompt.recorded},
        "extra_info": {
            # 52 bits: a number that every reader keeps exactly.
            "index": int(prompt.trajectory_id[:13], 16),
            "split": prompt.side,
            "trajectory_id": prompt.trajectory_id,
            "step_index": prompt.step_index,
            "verifiers": prompt.verifiers,
            "secret": prompt.secret,
            "history": to_json_text(messages),
        },
    }


def _plain(prompt: Prompt) -> list[dict[str, str]]:
    return [{"role": message.role, "content": message.content} for message in prompt.messages]
