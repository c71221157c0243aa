"""Prompts of single targets: their template, their instruction, and the history that fits."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trajkit import instructions, tokens
from trajkit.builders import render
from trajkit.builders.examples import shared_values
from trajkit.builders.history import HISTORIES, fit, window_start
from trajkit.domains.base import ANSWER_CLOSE, ANSWER_OPEN, ASK, OBSERVATION_MARK
from trajkit.domains.templates import SFT_VARIANTS
from trajkit.errors import TrajkitError, alternatives
from trajkit.fidelity.check import case
from trajkit.rationales.queries import Messages, Query, plain
from trajkit.trainers.window import fate

MESSAGE_TOKENS = 8
"""What a chat template puts around a message, counted high: ChatML, Llama 3, Mistral and Gemma
take 3 to 6 tokens."""

MAX_SIZES = 20_000
"""Messages whose length is remembered."""


@dataclass(frozen=True, kw_only=True)
class Options(instructions.Options):
    """What a person may decide about prompts.

    Raises TrajkitError for what is no way to choose a history, or a length without a tokenizer.
    """

    history: str = "full"
    """`full`, or `window`: only what the agent's own context held, where the log tells."""
    max_prompt_chars: int = 200_000
    """Longest prompt; the oldest whole turns are left out until it fits. One that is still too
    long for the world model loses more of them."""
    tokenizer: str | None = None
    """Tokenizer that `max_length` is counted with; in the manifest by its name alone."""
    max_length: int | None = None
    """Longest row in tokens, prompt and completion together: what a trainer cuts at."""

    def __post_init__(self) -> None:
        instructions.Options.__post_init__(self)
        if self.history not in HISTORIES:
            raise TrajkitError(
                "--history", f"no history {self.history!r}", f"one of {alternatives(HISTORIES)}"
            )
        if (self.tokenizer is None) != (self.max_length is None):
            raise TrajkitError(
                "--tokenizer, --max-length",
                "one means nothing without the other",
                "as in --tokenizer embedded --max-length 8192",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One target, and its prompt or the reason why it has none."""

    shared: Mapping[str, Any]
    """The columns that every row has."""
    variant: str
    """System-prompt template."""
    instruction_kind: str
    """Kind of its simulation instruction, `none` for none."""
    recorded: str
    """What the environment said, control tokens broken up."""
    messages: Messages = ()
    """The prompt without the closing question."""
    n_left_out: int = 0
    """Turns of the history that are not shown."""
    query: Query | None = None
    """The same as a world model is asked it; only where rationales are wanted."""
    reason: str | None = None
    """Why there is no prompt."""


class Prompts:
    """Makes the prompts of the targets of an episode."""

    def __init__(self, options: Options, *, seed: int, room: int | None) -> None:
        """Open the tokenizer that the options name.

        `room` is how many tokens a rationale may take; null when none is wanted.
        """
        self._options = options
        self._seed = seed
        self._asks = room is not None
        self._room = room or 0
        self._tokenizer = None
        if options.tokenizer is not None:
            self._tokenizer = tokens.open_tokenizer(options.tokenizer)
        self.written: dict[str, Any] = {
            "tokenizer": None if self._tokenizer is None else self._tokenizer.name
        }
        """What a manifest holds of the options that are no plain values."""
        self._sizes: dict[str, int] = {}

    def of(
        self,
        episode: Mapping[str, Any],
        steps: Sequence[Mapping[str, Any]],
        indices: Collection[int],
    ) -> Iterator[Target]:
        """Give the targets of an episode whose step indices are wanted, in order."""
        self._sizes.clear()
        variant = variant_of(episode, self._seed)
        bare = render.render({**episode, "simulation_instruction": None}, steps, variant)
        rendered, told = bare, None
        if self._tokenizer is not None:
            self._learn(_texts(bare))
        for turn in bare.turns:
            if turn.step_index not in indices or not turn.target:
                continue
            chosen = instructions.choose(episode, steps, turn.step_index, self._options, self._seed)
            if chosen is None:
                rendered, told = bare, None
            elif chosen.text != told:
                told = chosen.text
                rendered = render.instructed(bare, episode, variant, told)
            # The gate reads the reference answer of a search run from its instruction.
            kind = "none" if chosen is None else chosen.kind
            seen = {**episode, "simulation_instruction": told} if chosen else episode
            yield self._target(seen, steps, rendered, turn, variant, kind)

    def _target(
        self,
        episode: Mapping[str, Any],
        steps: Sequence[Mapping[str, Any]],
        rendered: render.Rendered,
        turn: render.Turn,
        variant: str,
        kind: str,
    ) -> Target:
        skip = self._skip(episode, rendered, turn)
        recorded = turn.observation or ""
        messages: Messages = ()
        query, reason = None, None
        if skip is None:
            reason = "prompt_too_long"
        else:
            messages = _messages(rendered, turn, skip)
            # A row that cannot fit even without a rationale is not worth a call.
            reason = self.fate(messages, answer_of(recorded), None)
            while reason is not None and skip < turn.number - 1:
                # Texts joined to one message may take a token more than the two of them alone.
                skip += 1
                messages = _messages(rendered, turn, skip)
                reason = self.fate(messages, answer_of(recorded), None)
            if self._asks and reason is None:
                query = _query(episode, steps, rendered, turn, skip)
        return Target(
            shared=shared_values(episode, turn.step_index, steps[turn.step_index]["split_group"]),
            variant=variant,
            instruction_kind=kind,
            recorded=recorded,
            messages=messages,
            n_left_out=_n_left_out(rendered, turn, skip or 0),
            query=query,
            reason=reason,
        )

    def _skip(
        self, episode: Mapping[str, Any], rendered: render.Rendered, turn: render.Turn
    ) -> int | None:
        """Return how few of the oldest turns must go; null when the prompt is too long anyway."""
        skip = fit(rendered, turn, self._options.max_prompt_chars - len(f"\n\n{ASK}"))
        if skip is None:
            return None
        if self._options.history == "window":
            start = window_start(episode, turn.step_index)
            skip = max(skip, sum(past.step_index < start for past in rendered.turns))
        if self._options.max_length is not None:
            room = self._options.max_length - self._size(answer_of(turn.observation or ""))
            room -= self._size(f"\n\n{ASK}") - MESSAGE_TOKENS + self._room
            fitting = fit(rendered, turn, room, self._size)
            # With no room at all the last action alone may still do.
            skip = turn.number - 1 if fitting is None else max(skip, fitting)
        return skip

    def fate(self, messages: Messages, answer: str, rationale: str | None) -> str | None:
        """Return why a row would be cut by its trainer, null when it fits or no length was set."""
        if self._options.max_length is None:
            return None
        *history, last = (message["content"] for message in messages)
        n_prompt = sum(map(self._size, [*history, f"{last}\n\n{ASK}"]))
        n_completion = sum(self._size(text) for text in (answer, rationale) if text)
        return fate(n_prompt, n_completion, self._options.max_length)

    def _size(self, text: str) -> int:
        """Return the tokens of a message with what stands around it."""
        if text not in self._sizes:
            self._learn([text])
        return self._sizes[text]

    def _learn(self, texts: Iterable[str]) -> None:
        assert self._tokenizer is not None
        if len(self._sizes) > MAX_SIZES:
            self._sizes.clear()
        new = list(dict.fromkeys(text for text in texts if text not in self._sizes))
        for text, n in zip(new, self._tokenizer.count(new), strict=True):
            self._sizes[text] = n + MESSAGE_TOKENS


def variant_of(episode: Mapping[str, Any], seed: int) -> str:
    """Return the system-prompt variant of an episode, uniform over v2 and later by content.

    One for all of its rows: a world model that is asked for them then shares their beginning.
    """
    digest = hashlib.sha256(f"variant:{seed}:{episode['content_hash']}".encode()).digest()
    return SFT_VARIANTS[int.from_bytes(digest[:8], "big") % len(SFT_VARIANTS)]


def answer_of(observation: str) -> str:
    """Return an answer as rows teach it: the observation between its tags.

    >>> answer_of("ok")
    '<predicted_observation>\\nok\\n</predicted_observation>'
    """
    return f"{ANSWER_OPEN}\n{observation}\n{ANSWER_CLOSE}"


def _messages(rendered: render.Rendered, turn: render.Turn, skip: int) -> Messages:
    return plain(render.chat(rendered, turn.step_index, skip=skip))


def _n_left_out(rendered: render.Rendered, turn: render.Turn, skip: int) -> int:
    """Return how many of the turns left out would be shown if there were room."""
    return sum(past.agent_turn < turn.agent_turn for past in rendered.turns[:skip])


def _texts(rendered: render.Rendered) -> Iterator[str]:
    """Give the messages of an episode's turns, as `fit` measures them."""
    for turn in rendered.turns:
        yield rendered.user_text(turn, first=False)
        if turn.observation is not None:
            yield OBSERVATION_MARK + turn.observation


def _query(
    episode: Mapping[str, Any],
    steps: Sequence[Mapping[str, Any]],
    rendered: render.Rendered,
    turn: render.Turn,
    skip: int,
) -> Query:
    """Return the query of a turn with that many of the oldest turns left out."""
    n_shown = turn.number - 1 - skip

    def shorter() -> Query | None:
        # A third at a time: few rounds, and little more lost than must be.
        more = skip + -(-n_shown // 3)
        return _query(episode, steps, rendered, turn, more) if n_shown else None

    return Query(
        trajectory_id=episode["trajectory_id"],
        step_index=turn.step_index,
        messages=_messages(rendered, turn, skip),
        recorded=turn.observation or "",
        case=case(episode, steps, turn.step_index, ""),
        n_left_out=_n_left_out(rendered, turn, skip),
        shorter=shorter,
    )
