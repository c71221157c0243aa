"""One turn of a trajectory for RL: which one, its prompt, its verifiers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import polars as pl

from trajkit import instructions
from trajkit.builders import render
from trajkit.builders.examples import shared_values
from trajkit.builders.history import fit
from trajkit.builders.splits import Splits
from trajkit.domains.base import ASK
from trajkit.domains.templates import RL_VARIANT
from trajkit.errors import TrajkitError, alternatives
from trajkit.fidelity.check import case
from trajkit.fidelity.findings import Case
from trajkit.trainers import Message, Prompt, Trainer
from trajkit.trainers.single_turn import single_turn
from trajkit.transitions import uniform_draws
from trajkit.verifiers import AXES, Proven, prove, written

TURNS = ("verified", "uniform")
MAX_PROMPT_TOKENS = 131_072
MAX_TRIED = 50
"""Targets of one trajectory that are searched for a proven verifier, in the order drawn."""


@dataclass(frozen=True, kw_only=True)
class Options(instructions.Options, Splits):
    """What a person may decide about the rows; part of the manifest.

    Raises TrajkitError for what is no way to choose a turn, or a length that is none.
    """

    trainer: str = "verl"
    """Whose columns the rows have."""
    turn: str = "verified"
    """Which target of a trajectory: `uniform`, or `verified`: the same draw among those with a
    proven verifier, and among all where none of the first `MAX_TRIED` has one."""
    verified_only: bool = False
    """Whether trajectories without a proven verifier get no row: for training without a judge."""
    warm_up: bool = False
    """Whether the history is folded into one message."""
    per_domain: int | None = None
    """At most this many trajectories a domain, drawn by content; null means all."""
    max_prompt_tokens: int = MAX_PROMPT_TOKENS
    """Longest prompt in tokens; the oldest whole turns are left out until it fits."""
    tokenizer: str | None = None
    """What counts them; null means `estimated_tokens`."""
    seed: int = 0
    """Seed of all draws."""
    jsonl: bool = False
    """Whether JSON lines are written beside the Parquet files."""

    def __post_init__(self) -> None:
        instructions.Options.__post_init__(self)
        Splits.__post_init__(self)
        if self.turn not in TURNS:
            raise TrajkitError(
                "--turn", f"no choice {self.turn!r}", f"one of {alternatives(TURNS)}"
            )
        for name, number in (
            ("--max-prompt-tokens", self.max_prompt_tokens),
            ("--per-domain", self.per_domain),
        ):
            if number is not None and number < 1:
                raise TrajkitError(name, f"{number} is too few", "give 1 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One target whose prompt fits."""

    turn: render.Turn
    rendered: render.Rendered
    skip: int
    """Oldest steps that are left out."""
    case: Case
    """What the gate knows: no more of the history than the prompt shows."""
    instruction: instructions.Instruction | None


@dataclass(slots=True)
class TurnMaker:
    """Makes the row of a trajectory."""

    options: Options
    measure: Callable[[str], int]
    """Tokens of a message with what stands around it."""
    rollouts: Mapping[tuple[str, int], list[str]]
    """Predictions made elsewhere, by trajectory and step."""
    _sizes: dict[str, int] = field(default_factory=dict)
    """Of the messages of one trajectory: its targets share most of them."""

    def size(self, text: str) -> int:
        """Return what a message takes."""
        if text not in self._sizes:
            self._sizes[text] = self.measure(text)
        return self._sizes[text]

    def row(
        self,
        episode: Mapping[str, Any],
        steps: Sequence[Mapping[str, Any]],
        trainer: Trainer,
        counts: Counter[str],
    ) -> dict[str, Any] | None:
        """Return the row of a trajectory, null when it gets none; counted in either case."""
        first: tuple[Candidate, Proven] | None = None
        chosen: tuple[Candidate, Proven] | None = None
        self._sizes.clear()
        for candidate in islice(self._candidates(episode, steps), MAX_TRIED):
            found = self._prove(candidate, episode, steps, counts)
            first = first or (candidate, found)
            if found.kept:
                chosen = candidate, found
            if found.kept or self.options.turn == "uniform":
                break
        chosen = chosen or first
        if chosen is None:
            counts["dropped.prompt_too_long"] += 1
            return None
        candidate, found = chosen
        if self.options.verified_only and not found.kept:
            counts["dropped.no_verifier"] += 1
            return None
        return self._row(episode, steps, candidate, found, trainer, counts)

    def _candidates(
        self, episode: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]
    ) -> Iterator[Candidate]:
        """Give the targets whose prompt fits, in an order that content and seed decide."""
        options = self.options
        bare = render.render({**episode, "simulation_instruction": None}, steps, RL_VARIANT)
        targets = [turn for turn in bare.turns if turn.target]
        places = pl.Series([turn.step_index for turn in targets], dtype=pl.Int64)
        hashes = pl.Series([episode["content_hash"]] * len(targets), dtype=pl.String)
        drawn = zip(uniform_draws(hashes, places, options.seed), targets, strict=True)
        for _, turn in sorted(drawn, key=lambda pair: (pair[0], pair[1].step_index)):
            told = instructions.choose(episode, steps, turn.step_index, options, options.seed)
            rendered, seen = bare, episode
            if told is not None:
                rendered = render.instructed(bare, episode, RL_VARIANT, told.text)
                # The gate reads the reference answer of a search run from its instruction.
                seen = {**episode, "simulation_instruction": told.text}
            room = options.max_prompt_tokens - self.size(f"\n\n{ASK}")
            skip = fit(rendered, turn, room, self.size)
            if skip is not None:
                known = case(seen, steps, turn.step_index, "")
                n_hidden = sum(past.agent_turn < turn.agent_turn for past in bare.turns[:skip])
                yield Candidate(
                    turn=turn,
                    rendered=rendered,
                    skip=skip,
                    case=replace(known, history=known.history[n_hidden:]),
                    instruction=told,
                )

    def _prove(
        self,
        candidate: Candidate,
        episode: Mapping[str, Any],
        steps: Sequence[Mapping[str, Any]],
        counts: Counter[str],
    ) -> Proven:
        index = candidate.turn.step_index
        # Of this episode alone, so that what else a store holds changes no row.
        others = [
            step["observation"]
            for step in steps
            if step["step_index"] != index and step["observation"] is not None
        ]
        found = prove(
            candidate.case,
            others,
            instruction=None if candidate.instruction is None else candidate.instruction.text,
            action_space=episode["action_space"],
            predictions=self.rollouts.get((episode["trajectory_id"], index), ()),
        )
        counts.update(found.counts)
        counts.update({f"by_domain.{episode['domain']}.{k}": n for k, n in found.counts.items()})
        return found

    def _row(
        self,
        episode: Mapping[str, Any],
        steps: Sequence[Mapping[str, Any]],
        candidate: Candidate,
        found: Proven,
        trainer: Trainer,
        counts: Counter[str],
    ) -> dict[str, Any]:
        turn, rendered = candidate.turn, candidate.rendered
        group = steps[turn.step_index]["split_group"]
        *history, last = render.chat(rendered, turn.step_index, skip=candidate.skip)
        messages = [*history, replace(last, content=f"{last.content}\n\n{ASK}")]
        if self.options.warm_up:
            messages = single_turn([*messages, Message(role="assistant", content="")])[:-1]
        side = self.options.side(group)
        assert trainer.rl is not None and side is not None
        prompt = Prompt(
            domain=episode["domain"],
            trajectory_id=episode["trajectory_id"],
            step_index=turn.step_index,
            side=side,
            messages=messages,
            recorded=turn.observation or "",
            verifiers=written(found.kept),
            secret=(candidate.case.answer or "") if episode["domain"] == "search" else "",
        )
        told = candidate.instruction
        kind = "none" if told is None else told.kind
        n_left_out = sum(
            past.agent_turn < turn.agent_turn for past in rendered.turns[: candidate.skip]
        )
        counts[f"instructions.{kind}"] += 1
        counts["turns_left_out"] += n_left_out
        counts["rows_with_verifiers"] += bool(found.kept)
        for axis in AXES:
            has = any(one.axis == axis for one in found.kept)
            counts[f"by_domain.{episode['domain']}.rows.{axis}"] += has
        counts[f"by_domain.{episode['domain']}.rows"] += 1
        return {
            **shared_values(episode, turn.step_index, group),
            **trainer.rl(prompt),
            "instruction_kind": kind,
            "turns_left_out": n_left_out,
            "n_verifiers": len(found.kept),
        }
