"""The trainers whose rows trajkit writes: one file each, looked up here by name."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from trajkit.errors import TrajkitError, alternatives
from trajkit.trainers.base import Built, Kind, Message, Prompt, Role, Trainer, think_inline

NAMES = ("trl", "llamafactory", "axolotl", "swift", "prime-rl", "verl")

__all__ = ["NAMES", "Built", "Kind", "Message", "Prompt", "Role", "Trainer", "load", "think_inline"]


@cache
def load(name: str) -> Trainer:
    """Return a trainer by name.

    Raises TrajkitError for a name that is none.
    """
    if name not in NAMES:
        raise TrajkitError("--trainer", f"no trainer {name!r}", f"one of {alternatives(NAMES)}")
    module = import_module(f"trajkit.trainers.{name.replace('-', '_')}")
    trainer: Trainer = module.TRAINER
    return trainer
