"""Rows of `examples/logs` through verl's own data code: what passed, one line each.

`make trainers` installs verl below build/ and names the folder to this script, and that of the
tests. Ray is imported, not started. Every check raises when it fails.
"""

from __future__ import annotations

import asyncio
import pickle
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from chat_templates import CHATML, LOOKS_BACK
from omegaconf import OmegaConf
from tensordict import TensorDict
from transformers import AutoTokenizer
from verl import DataProto
from verl.experimental.reward_loop.reward_manager.naive import NaiveRewardManager as RewardLoop
from verl.utils.dataset.multiturn_sft_dataset import MultiTurnSFTDataset
from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn
from verl.utils.import_utils import load_extern_object
from verl.workers.reward_manager.naive import NaiveRewardManager

from trajkit import trainers
from trajkit.builders import rl, rl_turns, sft
from trajkit.dedup import dedup
from trajkit.domains.base import ANSWER_CLOSE, ANSWER_OPEN
from trajkit.ingest import ingest
from trajkit.reward import compute_score
from trajkit.store import Store
from trajkit.trainers import Message
from trajkit.transitions import transitions
from trajkit.worldmodel.embedded import model_folder

ROOT = Path(__file__).parent.parent
THOUGHT = "It lists two files."


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ingest((str(ROOT / "examples" / "logs"),), folder / "raw", quiet=True)
        dedup(folder / "raw", folder / "unique", quiet=True)
        transitions(folder / "unique", folder / "transitions", quiet=True)
        tokenizer = AutoTokenizer.from_pretrained(model_folder())
        fine_tuning(folder, tokenizer)
        reinforcement(folder, tokenizer)


def files(store: Path) -> list[str]:
    return [str(file) for file in Store(store).files("train")]


def fine_tuning(folder: Path, tokenizer: Any) -> None:
    options = sft.Options(trainer="verl", per_domain=8, validation=0.0, test=0.0)
    sft.build_sft(folder / "transitions", folder / "sft", options=options, quiet=True)
    plain = files(folder / "sft")
    thinking = [str(with_reasoning(Path(file), folder)) for file in plain]
    config = OmegaConf.create({"pad_mode": "no_padding", "max_length": 1 << 20})
    own: Any = load_extern_object("pkg://trajkit.trainers.verl_dataset", "AnswerDataset")
    assert issubclass(own, MultiTurnSFTDataset)
    assert pickle.loads(pickle.dumps(own)) is own
    for what, paths in (("plain", plain), ("with reasoning", thinking)):
        for template in (CHATML, LOOKS_BACK):
            tokenizer.chat_template = template
            kind = "ChatML" if template is CHATML else "looks back"
            for dataset in (MultiTurnSFTDataset, own):
                rows = dataset(list(paths), tokenizer, config)
                if template is LOOKS_BACK and dataset is MultiTurnSFTDataset:
                    # Refused, not trained in silence: AnswerDataset is there for this.
                    refused(rows)
                    continue
                checked = [answer_alone(rows, number, tokenizer) for number in range(len(rows))]
                print(
                    f"{dataset.__name__}, {kind}, {what}: {len(checked)} rows, "
                    f"{sum(checked)} tokens in the loss, all of answers"
                )


def refused(rows: Any) -> None:
    try:
        rows[0]
    except AssertionError:
        return
    raise AssertionError("the stock dataset takes a template that looks back")


def answer_alone(rows: Any, number: int, tokenizer: Any) -> int:
    """Return how many tokens of a row bear loss: those of the last answer, or it raises."""
    row = rows[number]
    messages = rows.messages[number]
    prompt = ids(tokenizer, messages[:-1], add_generation_prompt=True)
    whole = ids(tokenizer, messages)
    assert whole[: len(prompt)] == prompt
    assert row["input_ids"].tolist() == whole
    assert row["loss_mask"].tolist() == [0] * len(prompt) + [1] * (len(whole) - len(prompt))
    target = tokenizer.decode(whole[len(prompt) :])
    assert target.endswith("<|im_end|>\n")
    assert (THOUGHT in target) == (messages[-1].get("reasoning_content") is not None)
    return len(whole) - len(prompt)


def ids(tokenizer: Any, messages: list[dict[str, Any]], **options: Any) -> list[int]:
    found: list[int] = tokenizer.apply_chat_template(messages, **options)["input_ids"]
    return found


def with_reasoning(path: Path, folder: Path) -> Path:
    """Return a file with the same rows, their answers thought about."""
    trainer = trainers.load("verl")
    assert trainer.sft is not None and trainer.sft_columns is not None
    rows = []
    for row in pq.read_table(path).to_pylist():
        *asked, answer = (Message(role=m["role"], content=m["content"]) for m in row["messages"])
        said = Message(role="assistant", content=answer.content, reasoning=THOUGHT, loss=True)
        rows.append(trainer.sft([*asked, said]))
    out = folder / f"thinking-{path.name}"
    pq.write_table(pa.Table.from_pylist(rows, schema=pa.schema(trainer.sft_columns(True))), out)
    return out


def reinforcement(folder: Path, tokenizer: Any) -> None:
    options = rl_turns.Options(trainer="verl", verified_only=True, validation=0.0, test=0.0)
    rl.build_rl(folder / "transitions", folder / "rl", options=options, quiet=True)
    paths = files(folder / "rl")
    written = [row for path in paths for row in pq.read_table(path).to_pylist()]
    tokenizer.chat_template = CHATML
    config = OmegaConf.create(
        {"cache_dir": str(folder / "cache"), "max_prompt_length": 1 << 17, "prompt_key": "prompt"}
    )
    rows = RLHFDataset(list(paths), tokenizer, config)
    assert len(rows) == len(written) > 0
    batch = collate_fn([rows[number] for number in range(len(rows))])
    for number, row in enumerate(written):
        assert batch["raw_prompt"][number] == row["prompt"]
        assert batch["reward_model"][number] == row["reward_model"]
        assert batch["extra_info"][number] == row["extra_info"]
        assert batch["index"][number] == row["extra_info"]["index"]
        # What an agent loop hands to the model.
        assert ids(tokenizer, batch["raw_prompt"][number], add_generation_prompt=True)
    print(f"RLHFDataset: {len(rows)} rows as written")
    managers(written, batch, tokenizer)
    right_answers(written)


def managers(written: list[dict[str, Any]], batch: Mapping[str, Any], tokenizer: Any) -> None:
    """Show that the reward managers hand a row over whole, and take what comes back."""
    said = [
        f"<predicted_observation>\n{number}\n</predicted_observation>"
        for number in range(len(written))
    ]
    answers = [torch.tensor(tokenizer(text)["input_ids"]) for text in said]
    width = max(map(len, answers))
    padded = torch.nn.utils.rnn.pad_sequence(answers, batch_first=True)
    masks = torch.stack([torch.arange(width) < len(answer) for answer in answers]).long()
    prompt = torch.ones((len(answers), 1), dtype=torch.long)
    data = DataProto(
        batch=TensorDict(
            {
                "prompts": prompt,
                "responses": padded,
                "attention_mask": torch.cat([prompt, masks], dim=1),
            },
            batch_size=len(answers),
        ),
        non_tensor_batch={
            name: np.array(values, dtype=object)
            for name, values in batch.items()
            if name in ("data_source", "reward_model", "extra_info")
        },
    )
    seen: list[dict[str, Any]] = []

    def compute_score(**given: Any) -> dict[str, float]:
        seen.append(given)
        return {"score": float(len(seen)), "rule": 0.0}

    scores = NaiveRewardManager(tokenizer, num_examine=0, compute_score=compute_score)(data)
    assert scores.sum(dim=1).tolist() == list(range(1, len(written) + 1))
    handed_over(seen, written, said)
    seen.clear()

    async def loop() -> list[float]:
        manager = RewardLoop(OmegaConf.create({}), tokenizer, compute_score)
        return [
            (await manager.run_single(data[number : number + 1]))["reward_score"]
            for number in range(len(written))
        ]

    assert asyncio.run(loop()) == list(range(1, len(written) + 1))
    handed_over(seen, written, said)
    print(f"both naive reward managers: {len(written)} answers reach compute_score with their row")


def right_answers(written: list[dict[str, Any]]) -> None:
    """Show that the real reward gives all there is for what was recorded."""
    for row in written:
        found = compute_score(
            row["data_source"],
            f"{ANSWER_OPEN}\n{row['reward_model']['ground_truth']}\n{ANSWER_CLOSE}",
            row["reward_model"]["ground_truth"],
            row["extra_info"],
        )
        assert found["score"] == 25.0
    print(f"compute_score: 25 of 25 for {len(written)} recorded observations")


def handed_over(seen: list[dict[str, Any]], written: list[dict[str, Any]], said: list[str]) -> None:
    for given, row, text in zip(seen, written, said, strict=True):
        assert given["data_source"] == row["data_source"]
        assert given["solution_str"] == text
        assert given["ground_truth"] == row["reward_model"]["ground_truth"]
        assert row["extra_info"].items() <= given["extra_info"].items()


if __name__ == "__main__":
    main()
