"""Rows of `examples/logs` through `renderers`, the package that makes prime-rl's tokens and masks.

prime-rl itself is on no package index; its fine-tuning data joins `prompt` and `completion`, drops
null fields and hands the messages to `renderers.base.build_training_sample` with one flag for each
role, by default the assistant's alone. Every check raises when it fails. `make trainers` installs
the package below build/ and names the folder to this script.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from renderers import Qwen3Renderer, Qwen35Renderer
from renderers.base import build_training_sample
from transformers import AutoTokenizer

from trajkit.builders.sft import Options, build_sft
from trajkit.dedup import dedup
from trajkit.ingest import ingest
from trajkit.store import Store
from trajkit.transitions import transitions
from trajkit.worldmodel.embedded import model_folder

ROOT = Path(__file__).parent.parent
THOUGHT = "It lists two files."
# Structure of Qwen3's vocabulary that the embedded model's lacks.
QWEN_TOKENS = (
    "<think> </think> <tool_call> </tool_call> <tool_response> </tool_response> <|vision_start|> "
    "<|vision_end|> <|image_pad|> <|video_pad|>"
)


def main() -> None:
    tokenizer = AutoTokenizer.from_pretrained(model_folder())
    # The embedded model's stands for what its vocabulary lacks; Qwen's lacks nothing.
    tokenizer.unk_token = None
    tokenizer.add_tokens(QWEN_TOKENS.split(), special_tokens=True)
    written = rows()
    for renderer in (Qwen3Renderer(tokenizer), Qwen35Renderer(tokenizer)):
        name = type(renderer).__name__
        for thought in (None, THOUGHT):
            trained = [check(renderer, tokenizer, row, thought) for row in written]
            what = "plain" if thought is None else "with reasoning"
            print(f"{name}, {what}: {len(trained)} rows, {sum(trained)} tokens in the loss")


def rows() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ingest((str(ROOT / "examples" / "logs"),), folder / "raw", quiet=True)
        dedup(folder / "raw", folder / "unique", quiet=True)
        transitions(folder / "unique", folder / "transitions", quiet=True)
        options = Options(trainer="prime-rl", per_domain=8, validation=0.0, test=0.0)
        build_sft(folder / "transitions", folder / "sft", options=options, quiet=True)
        files = Store(folder / "sft").files("train")
        return [row for file in files for row in pq.read_table(file).to_pylist()]


def check(renderer: Any, tokenizer: Any, row: dict[str, Any], thought: str | None) -> int:
    """Return how many tokens bear loss: those of the answer alone, or it raises."""
    (answer,) = row["completion"]
    messages = [
        *row["prompt"],
        answer if thought is None else answer | {"reasoning_content": thought},
    ]
    sample = build_training_sample(
        renderer, messages, role_to_mask=lambda message: message["role"] == "assistant"
    )
    trained = [
        token for token, bears in zip(sample.token_ids, sample.loss_mask, strict=True) if bears
    ]
    # One run at the end of the row: nothing of the history, and the end-of-turn token in it.
    first = list(sample.loss_mask).index(True)
    end = first + len(trained)
    assert all(sample.loss_mask[first:end]) and not any(sample.loss_mask[end:])
    text = tokenizer.decode(trained)
    assert text.endswith(f"{answer['content']}<|im_end|>"), text
    assert (THOUGHT in text) == (thought is not None)
    assert (
        tokenizer.decode(sample.token_ids[:first])
        .rstrip()
        .endswith(("<|im_start|>assistant", "<think>"))
    )
    return len(trained)


if __name__ == "__main__":
    main()
