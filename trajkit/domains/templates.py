"""System prompts: twelve variants a domain, as files with slots, and how the slots are filled.

A template is `prompts/DOMAIN/vN.md`. `{{slot}}` is filled; what stands between the lines
`{{?slot}}` and `{{/slot}}` goes when the slot is empty. Text of a log stands in a fence that
nothing inside it can close, so it never reads as a part of the template.

Source: Qwen-AgentWorld report, section 3.1 (v0 for RL, v1 for continual pre-training, v2 to v11
for fine-tuning); the wording is ours.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import get_args

from trajkit.domains.base import Domain, fenced
from trajkit.model import Domain as DomainName

VARIANTS = tuple(f"v{number}" for number in range(12))
RL_VARIANT, CPT_VARIANT, SFT_VARIANTS = VARIANTS[0], VARIANTS[1], VARIANTS[2:]
SLOTS = ("task", "action_space", "initial_state", "demonstrations", "instruction")
_SLOT = re.compile(r"\{\{(" + "|".join(SLOTS) + r")\}\}")
_OPTIONAL = re.compile(r"\{\{\?(\w+)\}\}\n(.*?)\{\{/\1\}\}\n", re.DOTALL)


@cache
def template(domain: DomainName, variant: str) -> str:
    """Return the text of a template with its slots open."""
    if domain not in get_args(DomainName) or variant not in VARIANTS:
        raise KeyError(f"{domain}/{variant}")
    path = files("trajkit.domains") / "prompts" / domain / f"{variant}.md"
    return path.read_text(encoding="utf-8")


def system_prompt(
    domain: Domain,
    variant: str,
    *,
    task: str | None,
    action_space: str | None,
    initial_state: str | None,
    instruction: str | None,
) -> str:
    """Return the system prompt of an episode: a template with its slots filled in one pass.

    GUI domains show task and initial state in the first turn, so here those are left out. An
    episode that declares no action space gets the domain's own.
    """
    in_turn = domain.state_mark is not None
    values = {
        "task": None if in_turn else _quoted(task),
        "action_space": _quoted(action_space) or domain.action_space,
        "initial_state": None if in_turn else _quoted(initial_state),
        "demonstrations": domain.demonstrations,
        "instruction": _quoted(instruction),
    }
    return (
        "".join(
            piece if number % 2 == 0 else values[piece] or ""
            for slot, pieces in _parsed(domain.name, variant)
            if slot is None or values[slot]
            for number, piece in enumerate(pieces)
        ).strip()
        + "\n"
    )


@cache
def _parsed(domain: DomainName, variant: str) -> tuple[tuple[str | None, tuple[str, ...]], ...]:
    """Return the blocks of a template: the slot that it hangs on, and text and slots in turn."""
    # Blocks outside any slot come first and then in turn with (slot, text) of the optional ones.
    parts = _OPTIONAL.split(template(domain, variant))
    blocks: list[tuple[str | None, str]] = [(None, parts[0])]
    for slot, inside, outside in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        blocks += [(slot, inside), (None, outside)]
    return tuple((slot, tuple(_SLOT.split(text))) for slot, text in blocks)


def _quoted(text: str | None) -> str | None:
    """Return text of a log in a fence, null for none."""
    return fenced(text, "") if text else None
