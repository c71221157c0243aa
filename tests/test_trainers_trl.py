"""TRL's own trainers on rows of the repository's logs, with the embedded model's weights."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import datasets
import pytest
import torch
from chat_templates import CHATML, LOOKS_BACK

from trajkit import trainers
from trajkit.builders import cpt, rl, rl_turns
from trajkit.builders.sft import Options, build_sft
from trajkit.domains.base import ANSWER_CLOSE, ANSWER_OPEN
from trajkit.reward import Reward
from trajkit.store import Store
from trajkit.trainers import Message
from trajkit.trainers.window import fate

with warnings.catch_warnings():
    # TRL names the vLLM versions it knows, and torch its own old calls, when they are imported.
    warnings.filterwarnings("ignore", "TRL currently supports vLLM", UserWarning)
    warnings.filterwarnings("ignore", "`torch.jit.*` is deprecated", DeprecationWarning)
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

IGNORED = -100
WINDOW = 4096
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Small steps wait for each other's threads longer than they take, on a machine at work."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(n_threads)


@pytest.fixture(scope="module")
def folder(embedded_cache: tuple[Path, list[str]]) -> Path:
    return Path(embedded_cache[1][0])


@pytest.fixture
def tokenizer(folder: Path) -> Any:
    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    """The embedded model, its last layer free to learn: a whole step on a CPU is slow."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model.requires_grad_(False)
    model.model.layers[-1].requires_grad_(True)
    return model


@pytest.fixture(scope="module")
def sft_rows(transitions_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("trl") / "sft"
    build_sft(
        transitions_store,
        out,
        options=Options(trainer="trl", per_domain=4, validation=0.0, test=0.0),
        quiet=True,
    )
    return out


def loaded(store: Path, split: str = "train") -> Any:
    """Return the rows of a split as `datasets` reads them."""
    files = [str(file) for file in Store(store).files(split)]
    cache = str(store.parent / "cache")
    return datasets.load_dataset("parquet", data_files=files, cache_dir=cache)["train"]


@pytest.fixture
def sft(tmp_path: Path) -> Callable[..., Any]:
    """A maker of SFTTrainer on the CPU."""

    def make(model: Any, tokenizer: Any, rows: Any, **options: Any) -> Any:
        config = SFTConfig(**_base(tmp_path), **{"shuffle_dataset": False, **options})
        return SFTTrainer(model=model, args=config, train_dataset=rows, processing_class=tokenizer)

    return make


def _base(folder: Path) -> dict[str, Any]:
    return {
        "output_dir": str(folder / "out"),
        "use_cpu": True,
        "bf16": False,
        "report_to": "none",
        "disable_tqdm": True,
        "logging_steps": 1,
        "save_strategy": "no",
        "gradient_checkpointing": False,
    }


def ids(tokenizer: Any, text: str) -> list[int]:
    found: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return found


def chatml(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return what a ChatML template makes of messages, said again without one."""
    return "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)


def expected(tokenizer: Any, row: Mapping[str, Any], think: str) -> tuple[list[int], list[int]]:
    """Return token ids and labels of a row, pieced together from prompt and answer."""
    prompt = ids(tokenizer, chatml(row["prompt"]) + "<|im_start|>assistant\n")
    answer = ids(tokenizer, f"{think}{row['completion'][0]['content']}<|im_end|>\n")
    return prompt + answer, [IGNORED] * len(prompt) + answer


def batches(trainer: Any) -> Iterator[tuple[list[int], list[int]]]:
    """Give ids and labels of each row as they reach the model, padding taken off."""
    for batch in trainer.get_train_dataloader():
        for tokens, labels, mask in zip(
            batch["input_ids"], batch["labels"], batch["attention_mask"], strict=True
        ):
            length = int(mask.sum())
            assert (labels[length:] == IGNORED).all()
            yield tokens[:length].tolist(), labels[:length].tolist()


def in_order(trainer: Any) -> Any:
    """Return a trainer that takes its rows as they stand."""
    trainer._get_train_sampler = lambda *_: torch.utils.data.SequentialSampler(
        trainer.train_dataset
    )
    return trainer


def test_exactly_the_completion_bears_labels_with_its_end_of_turn_token(
    sft_rows: Path, sft: Callable[..., Any], model: Any, tokenizer: Any
) -> None:
    rows = loaded(sft_rows)
    trainer = in_order(sft(model, tokenizer, rows, max_length=None, per_device_train_batch_size=3))
    seen = list(batches(trainer))
    assert len({row["domain"] for row in rows}) == 7
    assert seen == [expected(tokenizer, row, think="") for row in rows]
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert all(labels.count(end) == 1 for _, labels in seen)


@pytest.mark.parametrize("template", [CHATML, LOOKS_BACK], ids=["keeps_all", "looks_back"])
def test_reasoning_is_trained_and_the_prompt_is_what_a_server_renders(
    template: str, sft_rows: Path, sft: Callable[..., Any], model: Any, tokenizer: Any
) -> None:
    tokenizer.chat_template = template
    rows = [with_reasoning(row) for row in loaded(sft_rows).select(range(6))]
    trainer = in_order(sft(model, tokenizer, datasets.Dataset.from_list(rows), max_length=None))
    think = "<think>\nIt lists two files.\n</think>\n\n"
    for (tokens, labels), row in zip(trained(trainer), rows, strict=True):
        assert (tokens, labels) == expected(tokenizer, row, think)
        # Case TC08: what is trained on is what is shown at inference, and then the target.
        prompt = rendered(tokenizer, row["prompt"], add_generation_prompt=True)
        whole = rendered(tokenizer, [*row["prompt"], *row["completion"]])
        target = [token for token in labels if token != IGNORED]
        assert prompt + target == whole == tokens


def with_reasoning(row: Mapping[str, Any]) -> dict[str, Any]:
    prompt = [Message(role=m["role"], content=m["content"]) for m in row["prompt"]]
    answer = row["completion"][0]["content"]
    make = trainers.load("trl").sft
    assert make is not None
    return make(
        [*prompt, Message(role="assistant", content=answer, reasoning="It lists two files.")]
    )


def trained(trainer: Any) -> list[tuple[list[int], list[int]]]:
    return [(row["input_ids"], row["labels"]) for row in trainer.train_dataset]


def rendered(tokenizer: Any, messages: Rows, **options: Any) -> list[int]:
    found: list[int] = tokenizer.apply_chat_template(messages, **options)["input_ids"]
    return found


def test_two_steps_of_fine_tuning_lower_the_loss(
    sft_rows: Path, sft: Callable[..., Any], model: Any, tokenizer: Any
) -> None:
    # Without its system prompt, which is the most of it: a step on a CPU is slow.
    rows = [{**row, "prompt": row["prompt"][1:]} for row in loaded(sft_rows)]
    row = min(rows, key=lambda row: len(str(row["prompt"])))
    trainer = sft(
        model,
        tokenizer,
        datasets.Dataset.from_list([row] * 2),
        max_length=1024,
        per_device_train_batch_size=1,
        max_steps=2,
        learning_rate=1e-3,
    )
    trainer.train()
    first, second = (line["loss"] for line in trainer.state.log_history if "loss" in line)
    assert math.isfinite(first)
    assert second < first


def test_of_three_rows_in_a_window_of_64_one_fits(
    sft: Callable[..., Any], model: Any, tokenizer: Any
) -> None:
    # Case TC12: the shapes of its three rows.
    asked = {"fits": "short", "prompt_eats_budget": "word " * 200, "cut_mid_answer": "short"}
    said = {"fits": "yes", "prompt_eats_budget": "ok", "cut_mid_answer": "step " * 100}
    rows = [
        {
            "prompt": [{"role": "user", "content": asked[name].strip()}],
            "completion": [{"role": "assistant", "content": said[name].strip()}],
        }
        for name in asked
    ]
    tokenizer.chat_template = CHATML
    fates = {}
    for name, row in zip(asked, rows, strict=True):
        prompt = rendered(tokenizer, row["prompt"], add_generation_prompt=True)
        whole = rendered(tokenizer, row["prompt"] + row["completion"])
        fates[name] = fate(len(prompt), len(whole) - len(prompt), 64)
    assert fates == {
        "fits": None,
        "prompt_eats_budget": "no_target",
        "cut_mid_answer": "cut_target",
    }
    # TRL itself drops the second without a word, and trains the third without its end.
    left = sft(model, tokenizer, datasets.Dataset.from_list(rows), max_length=64).train_dataset
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert [end in row["labels"] for row in left] == [True, False]


@pytest.fixture(scope="module")
def cpt_rows(transitions_store: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of pre-training rows: `text`, and `tokens` packed by us or not at all."""
    folder = tmp_path_factory.mktemp("trl-cpt")
    layouts = {
        "text": ("text", "none"),
        "single": ("tokens", "none"),
        "packed": ("tokens", "best-fit"),
    }
    for name, (layout, packing) in layouts.items():
        options = cpt.Options(
            layout=layout, packing=packing, max_tokens=WINDOW, validation=0.0, test=0.0
        )
        cpt.build_cpt(transitions_store, folder / name, options=options, quiet=True)
    return {name: folder / name for name in layouts}


def test_of_text_rows_every_token_is_trained_whatever_the_spans(
    cpt_rows: dict[str, Path], sft: Callable[..., Any], model: Any, tokenizer: Any
) -> None:
    # TRL knows no spans: rows whose masks matter are the token rows below.
    rows = loaded(cpt_rows["text"]).select(range(4))
    trainer = sft(model, tokenizer, rows, max_length=None)
    for (tokens, labels), row in zip(trained(trainer), rows, strict=True):
        assert tokens == labels == ids(tokenizer, row["text"] + tokenizer.eos_token)
        assert row["loss_spans"]


def test_labels_of_token_rows_survive_to_the_batch(
    cpt_rows: dict[str, Path], sft: Callable[..., Any], model: Any, tokenizer: Any
) -> None:
    rows = loaded(cpt_rows["single"])
    assert all(IGNORED in row["labels"] for row in rows)
    trainer = in_order(
        sft(model, tokenizer, rows, max_length=WINDOW, per_device_train_batch_size=2)
    )
    assert list(batches(trainer)) == [(row["input_ids"], row["labels"]) for row in rows]


def test_trl_packs_token_rows_with_their_labels(
    cpt_rows: dict[str, Path], sft: Callable[..., Any], model: Any, tokenizer: Any
) -> None:
    rows = loaded(cpt_rows["single"])
    trainer = sft(model, tokenizer, rows, max_length=WINDOW, packing=True)
    unpacked = []
    for row in trainer.train_dataset:
        for start, end in pairwise([0, *accumulate(row["seq_lengths"])]):
            unpacked.append((row["input_ids"][start:end], row["labels"][start:end]))
    assert len(trainer.train_dataset) < len(rows)
    assert sorted(unpacked) == sorted((row["input_ids"], row["labels"]) for row in rows)


APART = {"max_length": None, "padding_free": True, "per_device_train_batch_size": 2}


def test_our_packs_keep_positions_and_labels(
    cpt_rows: dict[str, Path], sft: Callable[..., Any], model: Any, tokenizer: Any
) -> None:
    rows = loaded(cpt_rows["packed"])
    assert any(len(row["seq_lengths"]) > 1 for row in rows)
    trainer = in_order(sft(model, tokenizer, rows, **APART))
    for number, batch in enumerate(trainer.get_train_dataloader()):
        both = rows[2 * number : 2 * number + 2]
        for name in ("input_ids", "labels", "position_ids"):
            assert batch[name].tolist() == [[value for row in both[name] for value in row]]


def test_documents_of_one_row_do_not_see_each_other(
    sft: Callable[..., Any], model: Any, tokenizer: Any
) -> None:
    texts = ["$ ls\nREADME.md  setup.py\n", "$ cat missing\ncat: missing: No such file\n"]
    documents = [ids(tokenizer, text) for text in texts]
    alone = [
        {"input_ids": tokens, "labels": [IGNORED] * 4 + tokens[4:], "seq_lengths": [len(tokens)]}
        for tokens in documents
    ]
    first, second = alone
    together = {
        "input_ids": first["input_ids"] + second["input_ids"],
        "labels": first["labels"] + second["labels"],
        "seq_lengths": first["seq_lengths"] + second["seq_lengths"],
    }

    def loss(rows: Rows, **options: Any) -> float:
        trainer = sft(model, tokenizer, datasets.Dataset.from_list(rows), **options)
        (batch,) = trainer.get_train_dataloader()
        with torch.no_grad():
            return float(trainer.compute_loss(trainer.model, batch))

    def bare(row: Mapping[str, Any]) -> dict[str, Any]:
        return {name: row[name] for name in ("input_ids", "labels")}

    apart = loss(alone, **APART)
    padded = loss([bare(row) for row in alone], max_length=None, per_device_train_batch_size=2)
    assert apart == pytest.approx(padded, rel=1e-4)
    assert loss([together], **APART) == pytest.approx(apart, rel=1e-4)
    # Without the column the second document goes on where the first one ends.
    assert abs(loss([bare(together)], max_length=None) - apart) > 1e-2


class Overheard(Reward):
    """trajkit's reward, with what TRL hands to it."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[dict[str, Any]] = []

    def __call__(self, prompts: Any, completions: Any, **columns: Any) -> list[float | None]:
        found = super().__call__(prompts, completions, **columns)
        self.calls.append({"prompt": prompts, "completion": completions, **columns, "found": found})
        return found


def test_grpo_rewards_answers_with_the_columns_of_their_row(
    transitions_store: Path, tmp_path: Path, model: Any, tokenizer: Any
) -> None:
    options = rl_turns.Options(
        trainer="trl", verified_only=True, per_domain=2, validation=0.0, test=0.0
    )
    rl.build_rl(transitions_store, tmp_path / "rl", options=options, quiet=True)
    written = loaded(tmp_path / "rl").to_list()
    # Without their system prompts, which are the most of them: a step on a CPU is slow.
    short = [{**row, "prompt": row["prompt"][1:]} for row in written]
    row = min(short, key=lambda row: len(str(row["prompt"])))
    reward = Overheard()
    trainer = GRPOTrainer(
        model=model,
        args=GRPOConfig(
            **_base(tmp_path),
            max_steps=1,
            per_device_train_batch_size=2,
            num_generations=2,
            max_completion_length=16,
            learning_rate=1e-3,
        ),
        reward_funcs=reward,
        train_dataset=datasets.Dataset.from_list([row]),
        processing_class=tokenizer,
    )
    trainer.train()
    (call,) = reward.calls
    assert {name: call[name] for name in row} == {name: [value] * 2 for name, value in row.items()}
    assert [answer["role"] for (answer,) in call["completion"]] == ["assistant"] * 2
    # Sixteen tokens hold no whole answer.
    assert call["found"] == [0.0, 0.0]
    (line,) = (line for line in trainer.state.log_history if "reward" in line)
    assert line["reward"] == line["rewards/trajkit_reward/mean"] == 0.0
    assert math.isfinite(line["loss"])
    # What is right earns all there is, by the columns of every row.
    columns = {name: [row[name] for row in written] for name in written[0]}
    prompts = columns.pop("prompt")
    said = [[tagged(row["ground_truth"])] for row in written]
    assert Reward()(prompts, said, **columns) == [25.0] * len(written)


def tagged(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": f"{ANSWER_OPEN}\n{text}\n{ANSWER_CLOSE}"}
