"""The middle form of a training row, and what a trainer's file must say.

A builder makes messages; a trainer's file turns them into the columns that this trainer reads. No
trainer is imported here: rows are plain data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

Role = Literal["system", "user", "assistant"]
Kind = Literal["text", "messages", "tokens", "sft", "rl"]
"""What rows are: one of the layouts of pre-training, fine-tuning, or RL prompts."""
MESSAGE = (pa.field("role", pa.string()), pa.field("content", pa.large_string()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a conversation; control tokens of the log are broken up."""

    role: Role
    """Roles alternate after an optional system message, and the last one is the assistant's."""
    content: str
    reasoning: str | None = None
    """What the assistant thinks first; null for none, never empty."""
    loss: bool = False
    """Whether the message is trained on; assistant messages only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One prompt of RL, and what its answers are rewarded by (`trajkit.reward`)."""

    domain: str
    trajectory_id: str
    step_index: int
    side: str
    """Train, validation or test."""
    messages: Sequence[Message]
    """Closed by the question."""
    recorded: str
    """What the environment said, control tokens broken up; it stands in no message."""
    verifiers: str
    """JSON text: a list of `trajkit.verifiers`, empty where nothing is settled beforehand."""
    secret: str
    """What the agent is to find out by itself, so that no answer gives it away; may be empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What a builder wrote, for the files that stand beside the rows."""

    name: str
    """Name of the output folder."""
    kind: Kind
    splits: tuple[str, ...]
    """Those that hold rows."""
    has_reasoning: bool = False
    """Whether answers have reasoning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trainer:
    """How one trainer wants its rows."""

    name: str
    """Name in `--trainer`."""
    title: str
    """What a person would call it."""
    sft: Callable[[Sequence[Message]], dict[str, Any]] | None = None
    """Columns of a fine-tuning row, whose last message alone is trained on; null when there is no
    such row."""
    sft_columns: Callable[[bool], list[pa.Field]] | None = None
    """Their types; the flag says whether rows have reasoning."""
    layouts: frozenset[Kind] = frozenset()
    """Layouts of pre-training rows that it reads."""
    messages: Callable[[Sequence[Message]], dict[str, Any]] | None = None
    """Columns of a pre-training row as messages with a flag each; null when the trainer knows no
    such flag."""
    messages_columns: list[pa.Field] = field(default_factory=list)
    """Their types."""
    rl: Callable[[Prompt], dict[str, Any]] | None = None
    """Columns of a row for RL; null when there is no such row."""
    rl_columns: list[pa.Field] = field(default_factory=list)
    """Their types."""
    files: Callable[[Built], Mapping[str, bytes]] | None = None
    """Files that the trainer reads beside the rows, by name; null for none."""


def think_inline(message: Message) -> str:
    """Return an assistant's content with its reasoning in front between `<think>` tags.

    Without reasoning there is no tag: an empty one teaches a model not to think.

    >>> think_inline(Message(role="assistant", content="x", reasoning="y"))
    '<think>\\ny\\n</think>\\n\\nx'
    """
    if message.reasoning is None:
        return message.content
    return f"<think>\n{message.reasoning}\n</think>\n\n{message.content}"
