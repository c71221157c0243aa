"""Put an answer beside the recorded one to a model, and take its verdict or the lack of one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from trajkit.fidelity.findings import AXES
from trajkit.judges.prompts import CHOICE_PATTERN, SCORE_PATTERN, choice_messages, score_messages
from trajkit.judges.reading import Reading, read_choice, read_scores
from trajkit.worldmodel import Completion, Request, Sampling, WorldModel

LOWEST, HIGHEST = 1, 5
"""The scale of each axis."""
RETRY_TEMPERATURE = 0.6
"""The first try is greedy, so that a verdict repeats; what failed greedily needs chance."""
MAX_HISTORY_CHARS = 200_000
_OWN_FAULTS = frozenset({"empty_answer", "cut_answer"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One answer to be judged."""

    key: str
    """Unique in one call."""
    domain: str
    messages: tuple[Mapping[str, str], ...]
    """What the world model was given: system, history, the last action."""
    recorded: str
    """What the environment said."""
    prediction: str
    """What the world model said, without its thoughts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A verdict, or the reason why there is none."""

    key: str
    scores: Mapping[str, float] | None
    """1 to 5 for each of the five axes; null when no verdict could be read."""
    failure: str | None = None
    """`invalid` (said something that is no verdict, again after all tries), or the failure of the
    call itself; null with scores."""
    strengths: str = ""
    weaknesses: str = ""
    n_tries: int = 1
    n_tokens: int = 0
    """New tokens over all tries."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferred:
    """The better one of two answers, as far as a judge could tell."""

    keys: tuple[str, str]
    """Keys of the first and the second answer."""
    choice: str | None
    """`first`, `second` or `tie`; null when no choice could be read."""
    n_tokens: int = 0
    """New tokens over both orders and all tries."""


_Subject = TypeVar("_Subject")
_Meaning = TypeVar("_Meaning")


@dataclass(slots=True)
class _Call(Generic[_Subject]):
    """One question to the judge on its way, over all its tries."""

    key: str
    subject: _Subject
    room: int
    """Characters of history that may be shown."""
    pattern: str | None
    n_history_chars: int = 0
    n_tries: int = 0
    n_tokens: int = 0
    seconds: float = 0.0
    failure: str | None = field(default=None)


class Judge:
    """A model that judges.

    Answers that are no verdict are asked for again with another seed, `max_tries` in all. History
    that does not fit the model is cut to its latest turns and the question put again. A server
    that refuses to enforce a form is asked without it.
    """

    def __init__(
        self,
        model: WorldModel,
        *,
        max_tokens: int = 4096,
        max_tries: int = 3,
        max_history_chars: int = MAX_HISTORY_CHARS,
        seed: int = 0,
    ) -> None:
        """Remember the model; a cached one asks nothing twice."""
        self.model = model
        self._max_tokens = max_tokens
        self._max_tries = max_tries
        self._max_history_chars = max_history_chars
        self._seed = seed

    def score(self, asked: Iterable[Asked]) -> Iterator[Judged]:
        """Yield exactly one verdict for each answer, in any order.

        `asked` is read as the model takes requests; what must be asked again waits in memory.
        """

        def messages(one: Asked, room: int) -> tuple[tuple[dict[str, str], ...], int]:
            return score_messages(
                one.domain,
                one.messages,
                recorded=one.recorded,
                prediction=one.prediction,
                max_history_chars=room,
            )

        def read(text: str) -> Reading | None:
            return read_scores(text, AXES, low=LOWEST, high=HIGHEST)

        subjects = ((one.key, one) for one in asked)
        for call, reading in self._ask(subjects, messages, read, SCORE_PATTERN):
            spent: dict[str, Any] = {
                "n_tries": call.n_tries,
                "n_tokens": call.n_tokens,
                "seconds": call.seconds,
            }
            if reading is None:
                yield Judged(key=call.key, scores=None, failure=call.failure, **spent)
            else:
                yield Judged(
                    key=call.key,
                    scores=reading.scores,
                    strengths=reading.strengths,
                    weaknesses=reading.weaknesses,
                    **spent,
                )

    def prefer(self, first: Asked, second: Asked) -> str | None:
        """Return `first`, `second` or `tie`, null when no choice could be read.

        Both are answers to one prompt; each order is asked once, and a choice that turns with the
        order is a tie.
        """
        (preferred,) = self.prefer_all([(first, second)])
        return preferred.choice

    def prefer_all(self, pairs: Iterable[tuple[Asked, Asked]]) -> Iterator[Preferred]:
        """Yield the choice of each pair as `prefer` gives it, in any order, all under way at once.

        Each pair must be another one.
        """
        waiting: dict[tuple[str, str], dict[bool, tuple[str | None, int]]] = {}

        def subjects() -> Iterator[tuple[str, tuple[Asked, Asked, bool]]]:
            for first, second in pairs:
                for turned in (False, True):
                    key = f"{turned:d}:{len(first.key)}:{first.key}:{second.key}"
                    yield key, (first, second, turned)

        def messages(
            pair: tuple[Asked, Asked, bool], room: int
        ) -> tuple[tuple[dict[str, str], ...], int]:
            first, second, turned = pair
            shown = (first.prediction, second.prediction)
            return choice_messages(
                first.domain,
                first.messages,
                recorded=first.recorded,
                predictions=shown[::-1] if turned else shown,
                max_history_chars=room,
            )

        for call, choice in self._ask(subjects(), messages, read_choice, CHOICE_PATTERN):
            first, second, turned = call.subject
            named = {"A": ("first", "second"), "B": ("second", "first"), "tie": ("tie", "tie")}
            meant = None if choice is None else named[choice][turned]
            keys = (first.key, second.key)
            orders = waiting.setdefault(keys, {})
            orders[turned] = (meant, call.n_tokens)
            if len(orders) == 2:
                del waiting[keys]
                choices = {one for one, _ in orders.values()}
                agreed = choices.pop() if len(choices) == 1 else "tie"
                yield Preferred(
                    keys=keys,
                    choice=None if None in (agreed, *choices) else agreed,
                    n_tokens=sum(n for _, n in orders.values()),
                )

    def _ask(
        self,
        subjects: Iterable[tuple[str, _Subject]],
        messages: Callable[[_Subject, int], tuple[tuple[dict[str, str], ...], int]],
        read: Callable[[str], _Meaning | None],
        pattern: str,
    ) -> Iterator[tuple[_Call[_Subject], _Meaning | None]]:
        """Yield each call with what the judge meant, null when it failed for good.

        One round asks all; what has to be asked again goes into the next.
        """
        calls: Iterator[_Call[_Subject]] = (
            _Call(key, subject, self._max_history_chars, pattern) for key, subject in subjects
        )
        while True:
            flying: dict[str, _Call[_Subject]] = {}
            again: list[_Call[_Subject]] = []

            def requests(
                calls: Iterable[_Call[_Subject]] = calls,
                flying: dict[str, _Call[_Subject]] = flying,
            ) -> Iterator[Request]:
                for call in calls:
                    flying[call.key] = call
                    shown, call.n_history_chars = messages(call.subject, call.room)
                    yield self._request(call, shown)

            for completion in self.model.generate(requests()):
                call = flying.pop(completion.key)
                call.n_tokens += completion.n_completion_tokens or 0
                call.seconds += completion.seconds
                meaning = read(completion.text or "") if completion.failure is None else None
                if meaning is not None:
                    call.n_tries += 1
                    yield call, meaning
                elif self._ask_again(call, completion):
                    again.append(call)
                else:
                    call.failure = completion.failure or "invalid"
                    yield call, None
            if not again:
                return
            # In the order of their keys, whatever order they failed in.
            calls = iter(sorted(again, key=lambda call: call.key))

    def _ask_again(self, call: _Call[Any], completion: Completion) -> bool:
        """Return whether another try may fare better, after changing the call for it."""
        if completion.failure == "prompt_too_long" and call.n_history_chars:
            call.room = call.n_history_chars // 4
            return True
        if completion.failure == "refused_by_server" and call.pattern is not None:
            call.pattern = None
            return True
        call.n_tries += 1
        said_something = completion.failure is None or completion.failure in _OWN_FAULTS
        return said_something and call.n_tries < self._max_tries

    def _request(self, call: _Call[Any], messages: Sequence[Mapping[str, str]]) -> Request:
        place = f"{self._seed}:{call.key}:{call.n_tries}"
        digest = hashlib.sha256(place.encode("utf-8", "surrogatepass")).digest()
        return Request(
            key=call.key,
            messages=tuple(messages),
            sampling=Sampling(
                temperature=RETRY_TEMPERATURE if call.n_tries else 0.0,
                max_tokens=self._max_tokens,
                seed=int.from_bytes(digest[:4], "big") >> 1,
            ),
            answer_pattern=call.pattern,
        )
