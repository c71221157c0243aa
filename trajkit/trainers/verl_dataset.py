"""`AnswerDataset`: verl's own fine-tuning dataset for templates that look back from the answer.

The dataset that verl uses by default renders each message on its own, and refuses rows where that
is another text than the whole: Qwen3's template shows reasoning, even an empty one, only behind a
question. Name this one in verl's configuration:

    data.custom_cls.path=pkg://trajkit.trainers.verl_dataset data.custom_cls.name=AnswerDataset

It trains on the last message alone, so it also takes conversations that are not folded. verl is
imported when the class is first asked for.

Source: `verl/utils/dataset/multiturn_sft_dataset.py` of verl 0.9.1.
"""

from __future__ import annotations

from functools import cache
from typing import Any


def __getattr__(name: str) -> Any:
    if name == "AnswerDataset":
        return _answer_dataset()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def _answer_dataset() -> Any:
    import torch
    from verl.utils.dataset.multiturn_sft_dataset import MultiTurnSFTDataset

    class AnswerDataset(MultiTurnSFTDataset):  # type: ignore[misc]
        """Rows of `trajkit build-sft --trainer verl`, tokenised as at inference.

        The prompt is what a server renders from the messages before the answer; the rest of the
        whole conversation is the answer, and alone bears loss. Padding, truncation and the check
        against the whole conversation are verl's.
        """

        def _process_single_message(
            self,
            index: int,
            message: dict[str, Any],
            full_message: list[dict[str, Any]],
            tools: Any = None,
            enable_thinking: bool | None = None,
        ) -> tuple[Any, Any, Any, dict[str, Any]]:
            nothing = torch.zeros(0, dtype=torch.long)
            if index < len(full_message) - 1:
                return nothing, nothing, nothing, {}
            kwargs = dict(self.apply_chat_template_kwargs)
            if enable_thinking is not None:
                kwargs["enable_thinking"] = enable_thinking
            prompt, whole = (
                self.tokenizer.apply_chat_template(
                    messages,
                    add_generation_prompt=asks,
                    tokenize=True,
                    return_dict=True,
                    return_tensors="pt",
                    **kwargs,
                )["input_ids"][0]
                for messages, asks in ((full_message[:-1], True), (full_message, False))
            )
            if not torch.equal(whole[: len(prompt)], prompt):
                raise ValueError(
                    "the chat template renders the prompt of a row otherwise when its answer "
                    "follows, so the model would be trained on a prompt that it is never shown"
                )
            mask = torch.ones_like(whole)
            mask[: len(prompt)] = 0
            return whole, mask, torch.ones_like(whole), {}

    # What is defined in a function cannot be pickled for a worker under its own name.
    AnswerDataset.__qualname__ = "AnswerDataset"
    return AnswerDataset
