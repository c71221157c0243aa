"""LLaMA-Factory 0.9.5: `conversations` in ShareGPT form, `dataset_info.json`, reasoning inline.

Its converter wants `human` and `gpt` in turn and drops a row that is otherwise with a warning. It
knows no flag for a message: `mask_history` trains on the last turn alone, so fine-tuning rows end
with their target, and there are no pre-training rows as messages. Its pre-training stage trains on
all text; masks need the `tokens` layout.

`dataset_info.json` names each split as a folder under `script_url`: read that way, parts come in
the order of their names, and JSON lines beside them do no harm (`file_name` refuses a folder of
both).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa

from trajkit.control_tokens import BREAK
from trajkit.trainers.base import Built, Message, Trainer, think_inline

# Its templates put the number of the turn here, also where the text of a user says so.
_SLOT = "{{idx}}"
_BROKEN_SLOT = _SLOT[0] + BREAK + _SLOT[1:]
_TURN = pa.struct([pa.field("from", pa.string()), pa.field("value", pa.large_string())])
_COLUMNS = [pa.field("conversations", pa.list_(_TURN)), pa.field("system", pa.large_string())]
_FORMS: dict[str, dict[str, Any]] = {
    "text": {"formatting": "alpaca", "columns": {"prompt": "text"}},
    "sft": {
        "formatting": "sharegpt",
        "columns": {"messages": "conversations", "system": "system"},
        "tags": {
            "role_tag": "from",
            "content_tag": "value",
            "user_tag": "human",
            "assistant_tag": "gpt",
        },
    },
}
_HEAD = """\
# Data settings for LLaMA-Factory: start it in this folder, or name the folder in dataset_dir.
# Add the settings of the model and of training.
dataset_dir: .
"""
_LENGTH = """\
# Longer rows are cut without a word, and without this line at 2048 tokens.
cutoff_len: 131072
"""
_SETTINGS = {
    "text": """\
# All of the text is trained on: this stage has no masks, and loss_spans is not read.
stage: pt
# Packing joins rows, cuts them to blocks and leaves out the rest of each thousand rows.
packing: false
""",
    "sft": """\
stage: sft
# The last turn of a row is its target. Without this line the turns before it are trained on too.
mask_history: true
""",
    "tokens": """\
# Token rows are read from a folder that datasets has saved, with their documents numbered in the
# attention mask. Make it once, in this folder:
#   import os
#   from datasets import load_dataset
#   def number(row):
#       lengths = enumerate(row["seq_lengths"], 1)
#       return {"attention_mask": [n for n, length in lengths for _ in range(length)]}
#   rows = load_dataset(os.getcwd()).map(number)
#   rows.select_columns(["input_ids", "attention_mask", "labels"]).save_to_disk("../SAVED")
stage: sft
tokenized_path: ../SAVED
neat_packing: true
""",
}
_NO_REASONING = """\
# The rows hold no reasoning: true would put an empty thought before each answer and train on it.
enable_thinking: false
"""


def _sft(messages: Sequence[Message]) -> dict[str, Any]:
    system = "".join(message.content for message in messages if message.role == "system")
    turns = [
        {"from": "human", "value": message.content.replace(_SLOT, _BROKEN_SLOT)}
        if message.role == "user"
        else {"from": "gpt", "value": think_inline(message)}
        for message in messages
        if message.role != "system"
    ]
    return {"conversations": turns, "system": system}


def _files(built: Built) -> Mapping[str, bytes]:
    # Commas part the names in a list of them, so little but letters is safe.
    name = re.sub(r"[^0-9A-Za-z_-]+", "_", built.name)
    sets = {split: f"{name}_{split}" for split in built.splits}
    form = _FORMS.get(built.kind, {})
    info = {sets[split]: {"script_url": split} | form for split in built.splits}
    lines = [_HEAD]
    for key, split in (("dataset", "train"), ("eval_dataset", "validation")):
        if split in sets:
            lines.append(f"{key}: {sets[split]}\n")
    # Beside this folder: what reads its rows would take saved ones for more of them.
    lines.append(_SETTINGS[built.kind].replace("SAVED", f"{name}_saved"))
    if built.kind != "tokens":
        lines.append(_LENGTH)
    if built.kind == "sft" and not built.has_reasoning:
        lines.append(_NO_REASONING)
    return {
        "dataset_info.json": orjson.dumps(info, option=orjson.OPT_INDENT_2) + b"\n",
        "train.yaml": "".join(lines).encode(),
    }


TRAINER = Trainer(
    name="llamafactory",
    title="LLaMA-Factory",
    layouts=frozenset({"text", "tokens"}),
    sft=_sft,
    sft_columns=lambda has_reasoning: _COLUMNS,
    files=_files,
)
