r"""What one scripted episode of `terminal.py` is made of.

A call is `"text\n"` with the usual wait, or a pair of text and seconds. The thoughts and the
keystrokes are the policy's; nothing in a script says what the terminal answers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

KEY_NAMES = {"C-c", "C-d", "Escape", "Space"}
WAIT_SECONDS = 0.5


@dataclass(frozen=True)
class Turn:
    """What the agent says and the batch of keystrokes it sends, each with its wait."""

    message: str
    calls: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Script:
    """One episode: how it starts, what the agent does, and how success is told."""

    task: str
    prepare: Callable[[Path], object]
    turns: list[Turn]
    check: Callable[[Path], bool]
    last_words: str
    gives_up: bool = False
    ran_twice: bool = False


def turn(message: str, *calls: str | tuple[str, float]) -> Turn:
    """Return a turn; a call given as plain text waits `WAIT_SECONDS`."""
    pairs = [(call, WAIT_SECONDS) if isinstance(call, str) else call for call in calls]
    return Turn(message, tuple(pairs))


def text_of(path: Path) -> str:
    """Return the text of a file, or an empty text where there is none."""
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def write(path: Path, text: str) -> None:
    """Write a starting file, making its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
