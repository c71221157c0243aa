"""Render an episode as a world model sees it: system prompt, actions, observations.

The agent's own prompt and thoughts are never rendered. Control tokens inside the log are broken up
(`trajkit.control_tokens`) and counted, so that they stay text for every tokenizer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from trajkit import domains
from trajkit.control_tokens import escape
from trajkit.domains.base import OBSERVATION_MARK, Domain, action_turn
from trajkit.domains.templates import system_prompt
from trajkit.trainers import Message


@dataclass(frozen=True, slots=True)
class Turn:
    """One step, its log text escaped."""

    step_index: int
    number: int
    """1-based number shown to the model."""
    agent_turn: int
    """Turn of the agent; parallel calls share it."""
    action: str
    observation: str | None
    """Null when nothing came."""
    loss: bool
    """Whether the observation carries loss."""
    target: bool
    """Whether the step may be a training target."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """One episode, ready to be laid out."""

    domain: Domain
    system: str
    task: str | None
    initial_state: str | None
    turns: tuple[Turn, ...]
    n_control_tokens: int
    """Control tokens of the log that were broken up."""

    def user_text(self, turn: Turn, *, first: bool) -> str:
        """Return the user side of a turn; the first one of a prompt carries task and state."""
        if not first:
            return action_turn(self.domain, turn.number, turn.action)
        return action_turn(
            self.domain,
            turn.number,
            turn.action,
            task=self.task,
            initial_state=self.initial_state,
        )


@dataclass(slots=True)
class _Escaper:
    n_found: int = field(default=0)

    def __call__(self, text: str | None) -> str | None:
        if text is None:
            return None
        text, n = escape(text)
        self.n_found += n
        return text


def render(
    episode: Mapping[str, Any],
    steps: Sequence[Mapping[str, Any]],
    variant: str,
    *,
    instruction: str | None = None,
) -> Rendered:
    """Return an episode rendered with one system-prompt variant.

    `episode` is a row of `trajectories`, `steps` are its rows as `episodes` gives them.
    `instruction` stands in for the simulation instruction of the log where that has none.
    """
    domain: Domain = domains.load(episode["domain"])
    clean = _Escaper()
    task, initial = clean(episode["task"]), clean(_shown(domain, episode["initial_state"]))
    system = system_prompt(
        domain,
        variant,
        task=task,
        action_space=clean(episode["action_space"]),
        initial_state=initial,
        instruction=clean(episode["simulation_instruction"] or instruction),
    )
    turns = tuple(
        Turn(
            step_index=step["step_index"],
            number=number,
            agent_turn=step["turn"],
            action=step["shown_action"],
            observation=step["shown_observation"],
            loss=step["loss"],
            target=step["target"],
        )
        for number, step in enumerate(steps, 1)
    )
    n_found = clean.n_found + sum(step["n_control_tokens"] for step in steps)
    return Rendered(domain, system, task, initial, turns, n_found)


def instructed(
    rendered: Rendered, episode: Mapping[str, Any], variant: str, instruction: str
) -> Rendered:
    """Return the same episode with another simulation instruction in its system prompt."""
    clean = _Escaper()
    system = system_prompt(
        rendered.domain,
        variant,
        task=rendered.task,
        action_space=clean(episode["action_space"]),
        initial_state=rendered.initial_state,
        instruction=clean(instruction),
    )
    return replace(rendered, system=system)


def _shown(domain: Domain, text: str | None) -> str | None:
    return None if text is None else domain.shown(text)


def chat(rendered: Rendered, upto: int | None = None, *, skip: int = 0) -> list[Message]:
    """Return messages: system, then action and observation in turn; observations bear the loss.

    `upto` ends with the action of that step index and leaves its observation out, and with it the
    other calls of the same agent turn: they were under way at the same time, and their answers may
    have come later. `skip` leaves out that many of the oldest turns, never task and initial state.
    A step that nothing answered is joined to the next action, so that roles alternate.
    """
    messages = [Message(role="system", content=rendered.system)]
    pending: list[str] = []
    shown = rendered.turns[skip:]
    if upto is not None:
        (target,) = (turn for turn in shown if turn.step_index == upto)
        shown = tuple(t for t in shown if t.agent_turn < target.agent_turn or t is target)
    for place, turn in enumerate(shown):
        pending.append(rendered.user_text(turn, first=place == 0))
        if turn.step_index == upto:
            break
        if turn.observation is not None:
            messages.append(Message(role="user", content="\n\n".join(pending)))
            content = OBSERVATION_MARK + turn.observation
            messages.append(Message(role="assistant", content=content, loss=turn.loss))
            pending = []
    if pending and upto is not None:
        messages.append(Message(role="user", content="\n\n".join(pending)))
    return messages


def text(rendered: Rendered) -> tuple[str, list[list[int]]]:
    """Return an episode as one text, and the character spans that carry loss.

    A span is `[start, end)`: the observation and the line end that closes it. Actions after the
    last observation are left out: nothing follows from them.
    """
    answered = [n for n, turn in enumerate(rendered.turns, 1) if turn.observation is not None]
    pieces = [rendered.system, "\n"]
    spans: list[list[int]] = []
    position = sum(len(piece) for piece in pieces)
    for place, turn in enumerate(rendered.turns[: max(answered, default=0)]):
        pieces.append(rendered.user_text(turn, first=place == 0) + "\n\n")
        if turn.observation is not None:
            pieces += [OBSERVATION_MARK, turn.observation + "\n", "\n"]
            start = position + len(pieces[-4]) + len(OBSERVATION_MARK)
            if turn.loss:
                spans.append([start, start + len(pieces[-2])])
            position = start + len(pieces[-2]) + 1
        else:
            position += len(pieces[-1])
    return "".join(pieces), spans
