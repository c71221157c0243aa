"""Read rows with a trainer's own data code and put what it would train on back into text.

`python read_by_trainers.py TRAINER FOLDERS TOKENIZER OUT`, with that trainer on the path: started
by trainers_others.py, which says what the folders hold. OUT gets the lines of the table as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import yaml

IGNORED = -100
START, END = "<|im_start|>", "<|im_end|>"
EMPTY_THOUGHT = "<think>\n\n</think>\n\n"
SPLITS = ("train", "validation")
Pair = tuple[str, list[str]]
"""A row as text, and its stretches that are trained on."""
Rows = list[dict[str, Any]]


def chatml(messages: Rows, thought: str = "") -> str:
    """Return a conversation in ChatML; `thought` stands before the last answer."""
    pieces = [f"{START}{m['role']}\n{m['content']}{END}\n" for m in messages]
    last = messages[-1]
    pieces[-1] = f"{START}{last['role']}\n{thought}{last['content']}{END}\n"
    return "".join(pieces)


def flagged(rows: Rows, flag: str, end: str, thought: str = "") -> list[Pair]:
    """Return what rows of messages must become; `end` is trained on behind each answer."""
    return [
        (
            chatml(row["messages"], thought),
            [m["content"] + end for m in row["messages"] if m[flag]],
        )
        for row in rows
    ]


def plain(rows: Rows) -> list[Pair]:
    """Return what rows of text must become: trained on whole, with a token that ends them."""
    return [(row["text"] + END, [row["text"] + END]) for row in rows]


def packed(rows: Rows) -> list[Any]:
    """Return what token rows must stay."""
    return [(row["input_ids"], row["labels"]) for row in rows]


def back(ids: list[int], labels: list[int], tokenizer: Any) -> Pair:
    """Return a tokenised row as text, and its stretches in the loss."""
    if any(label not in (IGNORED, id_) for id_, label in zip(ids, labels, strict=True)):
        raise AssertionError("a label is not its own token")
    kept = groupby(zip(ids, labels, strict=True), key=lambda pair: pair[1] != IGNORED)
    stretches = [[id_ for id_, _ in run] for trained, run in kept if trained]
    return tokenizer.decode(ids), [tokenizer.decode(stretch) for stretch in stretches]


def written(folder: Path) -> Rows:
    """Return the rows of a folder as plain Parquet, those for testing aside."""
    files = [file for split in SPLITS for file in sorted((folder / split).glob("*.parquet"))]
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def settings(folder: Path) -> dict[str, Any]:
    """Return `train.yaml` from inside its folder, after running the Python in its comments."""
    os.chdir(folder)
    text = Path("train.yaml").read_text(encoding="utf-8")
    code = [line[4:] for line in text.splitlines() if line.startswith("#   ")]
    if code:
        subprocess.run([sys.executable, "-c", "\n".join(code)], check=True)
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


def outcome(check: str, expected: list[Any], got: list[Any]) -> dict[str, Any]:
    """Return one line of the table."""
    ours, theirs = (Counter(json.dumps(row) for row in rows) for rows in (expected, got))
    wrong = [f"missing: {row}" for row in (ours - theirs).elements()]
    wrong += [f"instead: {row}" for row in (theirs - ours).elements()]
    wrong += ["a row without a trained token" for row in got if not row[1]]
    return {"check": check, "rows": len(expected), "read": len(got), "wrong": wrong}


def turned_away(folders: Path, tried: Callable[[dict[str, Any]], int]) -> dict[str, Any]:
    """Return a line of the table: rows that break the rules must leave nothing to train on.

    `tried` gives how many trained tokens a trainer makes of a row; it may raise.
    """
    rows = json.loads((folders / "broken.json").read_text(encoding="utf-8"))
    # A good row first: what fails for any row would turn away the broken ones too.
    wrong = [] if tried(written(folders / "sft")[0]) else ["a good row"]
    for row in rows:
        try:
            n_tokens = tried(row)
        except Exception as error:  # what a trainer raises for a bad row is its own affair
            print(f"{type(error).__name__}: {error}")
            n_tokens = 0
        wrong += [f"{n_tokens} tokens from {row}"] * bool(n_tokens)
    return {"check": "broken, turned away", "rows": len(rows), "read": 0, "wrong": wrong}


Outcomes = Iterator[dict[str, Any]]


def llamafactory(folders: Path, tokenizer_folder: str) -> Outcomes:
    """Give the outcomes of `get_train_args` and `get_dataset`."""
    os.environ["DISABLE_VERSION_CHECK"] = "1"  # its pins are older than this environment
    from datasets import Dataset
    from llamafactory.data import get_dataset, get_template_and_fix_tokenizer
    from llamafactory.data.collator import SFTDataCollatorWith4DAttentionMask
    from llamafactory.data.converter import align_dataset
    from llamafactory.data.mm_plugin import get_mm_plugin
    from llamafactory.data.parser import DatasetAttr
    from llamafactory.data.processor import SupervisedDatasetProcessor
    from llamafactory.hparams import get_train_args
    from transformers import AutoTokenizer

    def read(name: str, template_name: str) -> tuple[Any, ...]:
        given = settings(folders / name) | {"template": template_name, "do_train": True}
        given |= {"model_name_or_path": tokenizer_folder, "output_dir": "out"}
        model, data, training, tuning, _ = get_train_args(given)
        tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
        template = get_template_and_fix_tokenizer(tokenizer, data)
        sets = get_dataset(template, model, data, training, tuning.stage, tokenizer)
        return [row for rows in sets.values() for row in rows], tokenizer, template, data, training

    def turns(row: dict[str, Any]) -> Rows:
        roles = {"human": "user", "gpt": "assistant"}
        spoken = [{"role": roles[m["from"]], "content": m["value"]} for m in row["conversations"]]
        return [{"role": "system", "content": row["system"]}, *spoken]

    for name in ("sft", "hostile", "thinking"):
        for template_name in ("chatml", "qwen3"):
            bare = template_name == "qwen3" and name != "thinking"
            # A template that may think puts the empty thought before the answer, out of the loss.
            expected = [
                (
                    chatml(turns(row), EMPTY_THOUGHT if bare else ""),
                    [row["conversations"][-1]["value"] + END + "\n"],
                )
                for row in written(folders / name)
            ]
            rows, tokenizer, template, data, training = read(name, template_name)
            got = [back(row["input_ids"], row["labels"], tokenizer) for row in rows]
            yield outcome(f"{name}, {template_name}", expected, got)

    def tried(row: dict[str, Any]) -> int:
        info = json.loads((folders / "sft" / "dataset_info.json").read_text(encoding="utf-8"))
        attributes = DatasetAttr("file", dataset_name="broken")
        attributes.join(info["sft_train"])
        aligned = align_dataset(Dataset.from_list([row]), attributes, data, training)
        processor = SupervisedDatasetProcessor(template, tokenizer, None, data)
        made = processor.preprocess_dataset(aligned.to_dict())
        return sum(label != IGNORED for labels in made.get("labels", []) for label in labels)

    plugin = get_mm_plugin("qwen2_vl", image_token="<|image_pad|>", video_token="<|video_pad|>")
    hostile = [turns(row) for row in written(folders / "hostile")]
    for messages in hostile:
        plugin._validate_messages(messages, [], [], [])  # raises for a placeholder of a picture
    yield outcome("hostile, no pictures", [[1, 1]] * len(hostile), [[1, 1]] * len(hostile))
    yield turned_away(folders, tried)
    rows, tokenizer, *_ = read("text", "chatml")
    got = [back(row["input_ids"], row["input_ids"], tokenizer) for row in rows]
    yield outcome("text", plain(written(folders / "text")), got)
    rows, tokenizer, template, *_ = read("tokens", "chatml")
    got = [(row["input_ids"], row["labels"]) for row in rows]
    yield outcome("tokens", packed(written(folders / "tokens")), got)
    tokenizer.padding_side = "right"
    collator = SFTDataCollatorWith4DAttentionMask(
        template=template, tokenizer=tokenizer, block_diag_attn=True, attn_implementation="eager"
    )
    batch = collator(rows[:2])
    n_documents = [len(row["seq_lengths"]) for row in written(folders / "tokens")[:2]]
    # A token sees another of its own document only: as many blocks as there are documents.
    seen = (batch["attention_mask"][:, 0] == 0).sum(dim=2)
    blocks = [int((line == 1).sum()) for line in seen]
    yield outcome(
        "tokens, documents apart", [[n, 1] for n in n_documents], [[n, 1] for n in blocks]
    )


def axolotl(folders: Path, tokenizer_folder: str) -> Outcomes:
    """Give the outcomes of `validate_config` and the loader of datasets."""
    from axolotl.prompt_strategies.chat_template import load
    from axolotl.utils.config import validate_config
    from axolotl.utils.data.sft import _load_and_process_single_dataset
    from axolotl.utils.dict import DictDefault
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)

    def read(name: str, template: str) -> Rows:
        given = settings(folders / name)
        for dataset in (*given["datasets"], *given["test_datasets"]):
            if dataset["type"] == "chat_template":
                dataset["chat_template"] = template
        given |= {"base_model": tokenizer_folder, "micro_batch_size": 1, "num_epochs": 1}
        given |= {"gradient_accumulation_steps": 1, "learning_rate": 1e-5}
        config = validate_config(DictDefault(given))
        rows: Rows = []
        for dataset in [*config.datasets, *config.test_datasets]:
            rows += list(
                _load_and_process_single_dataset(dataset, config, tokenizer, "train", 0)[0]
            )
        return rows

    def tried(row: dict[str, Any]) -> int:
        keys = {"message_field_training": "train", "chat_template": "chatml"}
        strategy = load(tokenizer, DictDefault(sequence_len=131072), keys)
        made = strategy.tokenize_prompt(row)
        return sum(label not in (IGNORED, tokenizer.eos_token_id) for label in made["labels"])

    yield turned_away(folders, tried)
    for name in ("sft", "hostile", "messages"):
        got = [back(row["input_ids"], row["labels"], tokenizer) for row in read(name, "chatml")]
        yield outcome(f"{name}, chatml", flagged(written(folders / name), "train", END), got)
    bare = [back(row["input_ids"], row["labels"], tokenizer) for row in read("sft", "qwen3")]
    rows = written(folders / "sft")
    yield outcome("sft, qwen3", flagged(rows, "train", END, EMPTY_THOUGHT), bare)
    expected = []
    for row in written(folders / "thinking"):
        answer = row["messages"][-1]
        rest = f"{answer['reasoning_content']}\n</think>\n\n"
        # The tag that opens the thought belongs to the prompt here.
        whole = chatml(row["messages"], f"<think>\n{rest}")
        expected.append((whole, [rest + answer["content"] + END]))
    got = [back(row["input_ids"], row["labels"], tokenizer) for row in read("thinking", "qwen3")]
    yield outcome("thinking, qwen3", expected, got)
    got = [back(row["input_ids"], row["labels"], tokenizer) for row in read("text", "chatml")]
    yield outcome("text", plain(written(folders / "text")), got)
    rows = read("tokens", "chatml")
    got = [(row["input_ids"], row["labels"]) for row in rows]
    yield outcome("tokens", packed(written(folders / "tokens")), got)
    kept = [[row["position_ids"], 1] for row in rows]
    positions = [[row["position_ids"], 1] for row in written(folders / "tokens")]
    yield outcome("tokens, positions", positions, kept)


def swift(folders: Path, tokenizer_folder: str) -> Outcomes:
    """Give the outcomes of `load_dataset` and `Template.encode`."""
    os.environ["MODELSCOPE_CACHE"] = str(folders / "cache")
    from datasets import Dataset
    from swift import get_template, load_dataset
    from swift.dataset import MessagesPreprocessor
    from swift.model import get_processor
    from swift.template import Template
    from swift.template.template_inputs import StdTemplateInputs

    tokenizer = get_processor(tokenizer_folder, model_type="qwen2")

    def read(name: str, template_name: str, **more: Any) -> list[Pair]:
        given = settings(folders / name)
        template = get_template(
            tokenizer,
            template_type=template_name,
            loss_scale=given.get("loss_scale", "all"),
            max_length=given["max_length"],
            truncation_strategy="raise",
            **more,
        )
        template.set_mode("train")
        rows: list[Pair] = []
        for part in (given["dataset"], given["val_dataset"]):
            for row in load_dataset(part, strict=given["strict"], remove_unused_columns=True)[0]:
                encoded = template.encode(row)
                # The first token is never a target: nothing comes before it.
                labels = [*encoded["input_ids"][:1], *encoded["labels"][1:]]
                rows.append(
                    back(encoded["input_ids"], labels if more else encoded["labels"], tokenizer)
                )
        return rows

    def tried(row: dict[str, Any]) -> int:
        template = get_template(tokenizer, template_type="chatml")
        template.set_mode("train")
        made = list(MessagesPreprocessor()(Dataset.from_list([row]), strict=True))
        return sum(label != IGNORED for one in made for label in template.encode(one)["labels"])

    yield turned_away(folders, tried)
    end = END + "\n"
    for name in ("sft", "hostile", "messages", "thinking"):
        rows = written(folders / name)
        yield outcome(f"{name}, chatml", flagged(rows, "loss", end), read(name, "chatml"))
    rows = written(folders / "sft")
    expected = []
    for row in rows:
        # This template puts an empty thought before each answer, those of the past included.
        spoken = [
            m | {"content": EMPTY_THOUGHT * (m["role"] == "assistant") + m["content"]}
            for m in row["messages"]
        ]
        expected.append((chatml(spoken), [row["messages"][-1]["content"] + end]))
    yield outcome("sft, qwen3", expected, read("sft", "qwen3"))
    hostile = written(folders / "hostile")
    after = []
    for row in hostile:
        inputs = StdTemplateInputs.from_dict({"messages": row["messages"]})
        Template._replace_image_tags(inputs)
        after.append([[m["content"] for m in inputs.messages], 1 + len(inputs.images)])
    before = [[[m["content"] for m in row["messages"][1:]], 1] for row in hostile]
    yield outcome("hostile, no pictures", before, after)
    got = read("text", "chatml", use_chat_template=False)
    yield outcome("text", plain(written(folders / "text")), got)


READERS: dict[str, Callable[[Path, str], Outcomes]] = {
    "llamafactory": llamafactory,
    "axolotl": axolotl,
    "swift": swift,
}

if __name__ == "__main__":
    name, folders, tokenizer_folder, out = sys.argv[1:]
    found = list(READERS[name](Path(folders), tokenizer_folder))
    Path(out).write_text(json.dumps(found), encoding="utf-8")
