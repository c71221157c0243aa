"""What is asked of a world model and what comes back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

PatternField = Literal["structured_outputs", "guided_regex", "regex", "none"]
"""How a server takes an answer pattern: vLLM, vLLM before 0.12, SGLang, not at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How tokens are drawn. The defaults but `max_tokens` are those of AgentWorldBench."""

    temperature: float = 0.6
    top_p: float = 0.95
    max_tokens: int = 1024
    """New tokens at most, thoughts included."""
    seed: int = 0
    """Give every request its own, derived from its row, and no answer depends on row order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One prompt."""

    key: str
    """Unique in one call of `generate`; completions are joined by it, never by position."""
    messages: tuple[Mapping[str, str], ...]
    """`role` and `content`. Control tokens in a content are already broken up."""
    sampling: Sampling
    answer_pattern: str | None = None
    """A regular expression the whole answer must match, where the backend can enforce it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What became of one request: an answer, or the reason why there is none."""

    key: str
    text: str | None
    """The answer without the thoughts, white space kept; null after a failure."""
    reasoning: str | None = None
    """The thoughts, null when there were none; kept after a failure too."""
    finish_reason: str | None = None
    failure: str | None = None
    """Reason slug, null when an answer came; the closed set is `FAILURES`."""
    failure_detail: str | None = None
    n_prompt_tokens: int | None = None
    n_completion_tokens: int | None = None
    seconds: float = 0.0
    """Wall-clock time from handing the request over to its answer; batches overlap."""


FAILURES = {
    "prompt_too_long": "prompt and max_tokens together exceed the context of the model",
    "empty_prompt": "the last message says nothing, so nothing is asked",
    "empty_answer": "the model stopped without an answer",
    "cut_answer": "max_tokens ended the answer, or the thoughts before it",
    "call_failed": "the engine or server failed, again after all retries",
    "timeout": "no answer within the time allowed",
    "refused_by_server": "the server will not take this request, however often it comes",
    "not_recorded": "the recording holds no answer to this request",
}
"""Every failure slug with its meaning."""

LASTING_FAILURES = frozenset({"prompt_too_long", "empty_prompt", "empty_answer", "cut_answer"})
"""Outcomes of the model itself: the same request would meet them again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scoring:
    """A text whose probability is asked for: nothing is generated."""

    key: str
    """Unique in one call of `score`."""
    messages: tuple[Mapping[str, str], ...]
    """The prompt, as in a request."""
    prefix: str
    """What the model has said already, such as a rationale in its tags; it is not scored."""
    continuation: str
    """The text that is scored, right behind the prefix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """The log-probability of one continuation, or the reason why there is none."""

    key: str
    logprob: float | None
    """Sum over the tokens of the continuation, in nats; null after a failure."""
    n_tokens: int | None = None
    """Tokens of the continuation."""
    failure: str | None = None
    """Reason slug out of `FAILURES`, null when the text was scored."""
    failure_detail: str | None = None
    seconds: float = 0.0


class WorldModel(Protocol):
    """Anything that answers requests. Opening one is cheap; engines start on first use.

    One call at a time: a second `generate` or `score` begins when the first is read to its end
    or closed.
    """

    @property
    def name(self) -> str:
        """What goes into manifests and recordings; holds no host, path or secret."""

    @property
    def engine(self) -> str | None:
        """What computed the answers, with its version; null until known."""

    def generate(self, requests: Iterable[Request]) -> Iterator[Completion]:
        """Yield exactly one completion for each request, as they finish, in any order.

        `requests` is read as capacity allows and never held as a whole.
        """

    def score(self, scorings: Iterable[Scoring]) -> Iterator[Scored]:
        """Yield exactly one log-probability for each text, as they finish, in any order.

        The prompt is what the model sees before it speaks; prefix and continuation are tokenised
        together behind it, and a token on the border of both is scored. Where the prompt already
        opens the thoughts, the prefix need not, and a prefix without thoughts closes them.
        """

    @property
    def max_model_len(self) -> int | None:
        """How many tokens prompt and answer may have together; null when unknown."""

    def count_tokens(self, messages: Iterable[Mapping[str, str]]) -> int | None:
        """Return how many tokens a prompt has, chat template included; null when unknown.

        It fits when this and `max_tokens` are at most `max_model_len`. Starts no engine.
        """

    def close(self) -> None:
        """Give engine, threads and files back. Safe to call twice."""
