"""Rationales with the recorded observation in view: the model explains why it follows.

Cheaper than rollouts and never wrong about the outcome; in return nothing shows that the model
could have foreseen it. So the text must not give away what it saw (`leaks`), and `gain` tells
whether it helps.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from trajkit.control_tokens import escape
from trajkit.domains.base import fenced
from trajkit.rationales.faults import fault
from trajkit.rationales.leaks import leak
from trajkit.rationales.queries import Answered, Calls, Candidate, Messages, Query
from trajkit.worldmodel import Completion

OPEN, CLOSE = "<rationale>", "</rationale>"
QUESTION = (
    "**Recorded answer:**\n{recorded}\n\n"
    "That is how this environment answered. Now write the reasoning of somebody who stands right "
    "before the answer and works it out: what the action does, which parts it fixes by itself, "
    "which parts the earlier turns settle, what form the answer takes, and what nobody could know "
    "beforehand and can only make plausible. Argue forward, in two to eight sentences. Name only "
    "paths, numbers and names that stand in the action or in earlier turns. Quote nothing of the "
    "recorded answer and do not mention that there is one. Put the reasoning, and nothing else, "
    f"between {OPEN} and {CLOSE}."
)
LAID_OUT = rf"{OPEN}\n[^<>]{{20,300}}\n{CLOSE}"
"""Shape forced on a model too weak to keep it by itself (`embedded`)."""


@dataclass(slots=True)
class Hindsight:
    """Rationales by explaining the recorded observation."""

    calls: Calls
    n_tries: int
    """How often a query is asked, each time with another seed, until a text passes the checks."""
    laid_out: bool
    """Whether the shape is forced."""

    def answer(self, queries: Iterable[Query]) -> list[Answered]:
        """Return every query with its first rationale that passes, in the order given.

        The reason of a query without one is that of its last try.
        """
        order: list[str] = []

        def first() -> Iterable[Query]:
            for query in queries:
                order.append(query.key)
                yield query

        answers: dict[str, Answered] = {}
        waiting: Iterable[Query] = first()
        for number in range(self.n_tries):
            again: list[Query] = []
            numbers = range(number, number + 1)
            pattern = LAID_OUT if self.laid_out else None
            for query, (completion,) in self.calls.ask(
                waiting, prompt, numbers=numbers, pattern=pattern
            ):
                reason, rationale = _read(completion, query)
                self.calls.counts[f"calls.{reason or 'accepted'}"] += 1
                if reason is None:
                    best = Candidate(rationale=rationale)
                    answers[query.key] = Answered(query=query, best=best, reason=None)
                elif number + 1 < self.n_tries and completion.failure != "prompt_too_long":
                    again.append(query)
                    continue
                else:
                    light = replace(query, messages=())
                    answers[query.key] = Answered(query=light, best=None, reason=reason)
                self.calls.on_done()
            if not again:
                break
            waiting = sorted(again, key=lambda query: (query.trajectory_id, query.step_index))
        return [answers[key] for key in order]


def prompt(query: Query) -> Messages:
    """Return the messages that ask for an explanation."""
    return query.asking(QUESTION.replace("{recorded}", fenced(query.recorded, "")))


def _read(completion: Completion, query: Query) -> tuple[str | None, str]:
    """Return why a completion gives no rationale, or null and the rationale."""
    if completion.failure is not None:
        return completion.failure, ""
    text = completion.text or ""
    start, end = text.find(OPEN), text.rfind(CLOSE)
    if start < 0 or end < start:
        return "refusal" if fault(text) == "refusal" else "no_rationale_tag", ""
    rationale = text[start + len(OPEN) : end].strip()
    known = "\n".join(message["content"] for message in query.messages)
    reason = fault(rationale) or leak(rationale, known, query.recorded)
    # A rationale is written between tags: it must not be able to close them.
    return reason, escape(rationale)[0]
