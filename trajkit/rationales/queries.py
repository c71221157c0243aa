"""Queries put to a world model, and the account of the calls they took."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from trajkit.fidelity.findings import Case, Verdict
from trajkit.trainers.base import Message
from trajkit.worldmodel import Completion, Request, Sampling, WorldModel

Messages = tuple[dict[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One transition that wants a rationale."""

    trajectory_id: str
    step_index: int
    messages: Messages
    """Prompt up to the action, without the closing question; control tokens broken up."""
    recorded: str
    """The recorded observation as a model sees it, control tokens broken up."""
    case: Case
    """What the gate needs; its prediction is filled in for each rollout."""
    n_left_out: int = 0
    """Oldest turns that are not shown."""
    shorter: Callable[[], Query | None] = field(compare=False, repr=False)
    """Gives the same query with fewer turns, null when only the last action is left."""

    @property
    def key(self) -> str:
        """Unique in a store."""
        return f"{self.trajectory_id}:{self.step_index}"

    def asking(self, question: str) -> Messages:
        """Return the prompt closed by a question."""
        *history, last = self.messages
        return (*history, {"role": "user", "content": f"{last['content']}\n\n{question}"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """What a rationale does for the recorded observation, in nats per token."""

    over_none: float | None = None
    """Against no rationale."""
    over_other: float | None = None
    """Against the rationale of another step of the domain; null when there is no other."""
    failure: str | None = None
    """Why the text could not be scored, null when it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One rationale, with all that is known of it."""

    rationale: str
    prediction: str | None = None
    """The rollout's own answer; null with hindsight."""
    verdict: Verdict | None = None
    """The gate's verdict on that answer; null with hindsight."""
    judge_score: float | None = None
    """Mean of the judge's five axes, 1 to 5; null without a judge."""
    gain: Gain | None = None
    """Null when it was not asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A query with its best candidate, or the reason why there is none."""

    query: Query
    """As it was asked in the end: perhaps with fewer turns."""
    best: Candidate | None
    reason: str | None
    """Null when the best candidate may be used."""


@dataclass(slots=True)
class Calls:
    """How queries are put to a world model, and the account of it."""

    model: WorldModel
    sampling: Sampling
    on_done: Callable[[], None]
    """Called once for each query that is through, so that progress can be shown."""
    counts: Counter[str] = field(default_factory=Counter)
    """`calls.OUTCOME`, `tokens` and whatever else the roads count."""

    def ask(
        self,
        queries: Iterable[Query],
        prompt: Callable[[Query], Messages],
        *,
        numbers: range,
        pattern: str | None = None,
    ) -> Iterator[tuple[Query, list[Completion]]]:
        """Yield each query with its completions, one for each number, as they come.

        Requests are handed over in the order of the queries, all of one query in a row, so that
        prefixes are found in the cache of the engine. A prompt that turns out too long is asked
        again with fewer turns: the engine alone knows its tokens, and a recording of it replays
        the same way. Queries are read as the engine takes them.
        """
        waiting = queries
        while True:
            too_long: list[Query] = []
            for query, completions in self._round(waiting, prompt, numbers, pattern):
                shorter = None
                if any(one.failure == "prompt_too_long" for one in completions):
                    shorter = query.shorter()
                if shorter is None:
                    yield query, completions
                else:
                    self.counts["calls.prompt_too_long"] += len(completions)
                    too_long.append(shorter)
            if not too_long:
                return
            waiting = too_long

    def _round(
        self,
        queries: Iterable[Query],
        prompt: Callable[[Query], Messages],
        numbers: range,
        pattern: str | None,
    ) -> Iterator[tuple[Query, list[Completion]]]:
        flying: dict[str, tuple[Query, list[Completion]]] = {}

        def requests() -> Iterator[Request]:
            for query in queries:
                flying[query.key] = (query, [])
                messages = prompt(query)
                for number in numbers:
                    key = f"{query.key}:{number}"
                    sampling = replace(self.sampling, seed=_seed(self.sampling.seed, key))
                    yield Request(
                        key=key, messages=messages, sampling=sampling, answer_pattern=pattern
                    )

        for completion in self.model.generate(requests()):
            self.counts["tokens"] += completion.n_completion_tokens or 0
            key = completion.key.rpartition(":")[0]
            query, completions = flying[key]
            completions.append(completion)
            if len(completions) == len(numbers):
                del flying[key]
                yield query, sorted(completions, key=_number)


def plain(messages: Iterable[Message]) -> Messages:
    """Return messages as a model is asked with them."""
    return tuple({"role": message.role, "content": message.content} for message in messages)


def _number(completion: Completion) -> int:
    return int(completion.key.rpartition(":")[2])


def _seed(seed: int, key: str) -> int:
    """Return a seed of this call alone, so that no answer depends on what was asked before."""
    digest = hashlib.sha256(f"{seed}:{key}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
