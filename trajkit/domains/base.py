"""What a domain file must say, and the layout all seven share.

The layout is AgentWorldBench's: a user turn `### Turn N` / `**Action:**` / fence, an answer that
begins with `**Environment Observation:**`; web, os and android put the task and the first state
into the first turn.

Source: Qwen-AgentWorld report, section 3.1, and the row format of its benchmark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trajkit.model import Domain as DomainName
from trajkit.model import Step, Trajectory

if TYPE_CHECKING:
    from trajkit.fidelity.findings import Case, Finding

OBSERVATION_MARK = "**Environment Observation:**\n"
ANSWER_OPEN = "<predicted_observation>"
ANSWER_CLOSE = "</predicted_observation>"
ASK = (
    "Predict what the environment answers to this action. Put the observation, and nothing else, "
    f"between {ANSWER_OPEN} and {ANSWER_CLOSE}."
)
# Calls that only keep an agent's own books say nothing about the environment it works in.
_BOOKKEEPING_NAMES = (
    "think finish submit done exit task_tracker todowrite todo_write todoread update_plan "
    "exitplanmode enterplanmode askuserquestion ask_user task agent mark_task_complete "
    "attempt_completion complete_task final_answer toolsearch skill save_memory"
)
_BOOKKEEPING = frozenset(_BOOKKEEPING_NAMES.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """One of the seven environment families."""

    name: DomainName
    """Name in columns and options."""
    title: str
    """What a person would call it."""
    claims: Callable[[Trajectory], bool]
    """Whether an episode, by its tools and actions, belongs here."""
    fence: str
    """Language of the fence around an action: `json`, `python` or empty."""
    action_space: str
    """Actions of the domain, for episodes that declare none."""
    demonstrations: str
    """Invented examples of action and observation, the same for every episode."""
    check: Callable[[Case], Iterator[Finding]]
    """The domain's own rule checks of a prediction."""
    shown: Callable[[str], str] = str
    """What a model sees of an observation or first state that the log holds in another form."""
    state_mark: str | None = None
    """For GUI domains the mark of the first state in the first turn; else null."""


def acting_steps(trajectory: Trajectory) -> list[Step]:
    """Return the steps that act on the environment: no talk, no bookkeeping of the agent."""
    return [
        step
        for step in trajectory.steps
        if step.action_kind not in ("message", "none")
        and (step.action_name or "").lower() not in _BOOKKEEPING
    ]


def acting_share(trajectory: Trajectory, owns: Callable[[Step], bool]) -> float:
    """Return which share of the acting steps `owns` takes; 0.0 when nothing acts."""
    steps = acting_steps(trajectory)
    return sum(map(owns, steps)) / len(steps) if steps else 0.0


def fenced(text: str, language: str) -> str:
    """Return text in a fence that no run of backticks inside can close.

    >>> print(fenced("a ``` b", "json"))
    ````json
    a ``` b
    ````
    """
    ticks = "```"
    if ticks in text:
        ticks = "`" * (max(map(len, re.findall("`{3,}", text))) + 1)
    return f"{ticks}{language}\n{text}\n{ticks}"


def action_turn(
    domain: Domain,
    number: int,
    action: str,
    *,
    task: str | None = None,
    initial_state: str | None = None,
) -> str:
    """Return the user turn of one action; `number` is 1-based.

    GUI domains show task and initial state in the first turn of a prompt: give them for that turn
    only. Other domains have them in the system prompt and ignore them here.
    """
    parts = [f"### Turn {number}"]
    if domain.state_mark is not None:
        if task:
            parts.append(f"**Task Instruction:**\n{task}")
        if initial_state:
            parts.append(f"{domain.state_mark}\n{initial_state}")
    # Logs of one domain mix tool calls and bare commands; a command is no JSON.
    is_bare = domain.fence == "json" and action.lstrip()[:1] not in ("{", "[")
    language = "" if is_bare else domain.fence
    parts.append(f"**Action:**\n{fenced(action, language)}")
    return "\n\n".join(parts)
