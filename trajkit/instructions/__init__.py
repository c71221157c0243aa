"""Simulation instructions: what a world model is told of its world beyond the history.

An instruction controls one answer. It names a fact of the recorded world and what follows from it
(a program that is not installed, a path that does not exist, a key that the server does not know),
or, for search, the question behind the run, its reference answer, and that nothing may leak it.

What may be in one, and what may not. The fact is read from the recorded outcome of the very step
that is asked about, on purpose: it is what makes the answer controllable, and a column says of
which kind it is, so that rows with one can be told from rows without. It holds no more of the
observation than names and one short phrase of an error or value (`MAX_QUOTE_CHARS`), never its
content; and nothing of any later step but a search run's final answer, which it forbids to tell.
Text of the log stands between backticks that it cannot close; control tokens in it are broken up
where it is rendered.

Source: Qwen-AgentWorld report, section 3.1 (every search run carries one, and a part of the runs
of state-heavy domains does); the wording and the kinds of facts are ours.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trajkit.errors import TrajkitError, alternatives
from trajkit.fidelity.check import case
from trajkit.instructions import mcp, search, terminal
from trajkit.instructions.facts import MAX_QUOTE_CHARS, Fact

__all__ = ["MAX_QUOTE_CHARS", "MODES", "Instruction", "Options", "choose", "derive"]

MODES = ("none", "recorded", "derived")
MAX_FACTS = 3
"""Facts in one instruction: an answer should follow from a fact or two, not be spelt out."""
_FACTS = {"terminal": terminal.facts, "mcp": mcp.facts}


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One instruction, and what it says."""

    text: str
    """As the world model reads it; control tokens of the log still whole."""
    kind: str
    """`recorded`, `terminal_fact`, `mcp_fact` or `search_target`."""
    facts: tuple[str, ...] = ()
    """Slugs of the facts it names, such as `command_not_found`."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Which rows carry an instruction.

    Raises TrajkitError for a mode that is none, or a share outside [0, 1].
    """

    instructions: str = "recorded"
    """`none`, `recorded` (those that the log itself carries), or `derived`: those, and made ones
    where the log has none and one can be made."""
    instruction_share: float = 0.3
    """Share of terminal and mcp targets that get a made one where facts are found; search runs
    always do."""

    def __post_init__(self) -> None:
        if self.instructions not in MODES:
            raise TrajkitError(
                "--instructions", f"no mode {self.instructions!r}", f"one of {alternatives(MODES)}"
            )
        if not 0 <= self.instruction_share <= 1:
            raise TrajkitError(
                "--instruction-share",
                f"{self.instruction_share} is outside [0, 1]",
                "0.3 is the default",
            )


def choose(
    episode: Mapping[str, Any],
    steps: Sequence[Mapping[str, Any]],
    upto: int,
    options: Options,
    seed: int,
) -> Instruction | None:
    """Return the instruction that the prompt of one step carries, null for none.

    The draw for the share depends on content, step and seed alone, and on no other draw.
    """
    if options.instructions == "none":
        return None
    if episode["simulation_instruction"]:
        return Instruction(text=episode["simulation_instruction"], kind="recorded")
    if options.instructions == "recorded":
        return None
    if episode["domain"] != "search":
        place = f"{episode['content_hash']}:{upto}"
        if _share(f"instruction:{seed}:{place}") >= options.instruction_share:
            return None
    return derive(episode, steps, upto, seed)


def derive(
    episode: Mapping[str, Any], steps: Sequence[Mapping[str, Any]], upto: int, seed: int
) -> Instruction | None:
    """Return an instruction that controls the answer to one step; null when none can be made.

    `steps` are all of the episode's; `upto` is the index of the step that is asked about. The same
    step and seed always give the same instruction: of more than `MAX_FACTS` facts the seed says
    which.
    """
    domain = episode["domain"]
    if steps[upto]["observation"] is None:
        return None
    if domain == "search":
        made = search.instruction(episode, steps)
        return made and Instruction(text=made[0], kind="search_target", facts=made[1])
    if domain not in _FACTS:
        return None
    told: dict[str, Fact] = {}
    for one in _FACTS[domain](case(episode, steps, upto, "")):
        if one is not None:
            told.setdefault(one.text, one)
    drawn = sorted(told, key=lambda text: _share(f"fact:{seed}:{text}"))[:MAX_FACTS]
    chosen = [told[text] for text in told if text in drawn]
    if not chosen:
        return None
    return Instruction(
        text="\n".join(one.text for one in chosen),
        kind=f"{domain}_fact",
        facts=tuple(one.slug for one in chosen),
    )


def _share(text: str) -> float:
    """Return a number in [0, 1) that depends on a text alone."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") / 2**64
