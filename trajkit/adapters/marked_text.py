"""One growing text in which marks part what an agent called from what it was given.

Search agents that call tools in the middle of a sentence are logged as a single string: thought,
`<search>` query, `<information>` result, thought and so on. A `Mark` tells what stands between its
two ends; each stretch between marks is an event of the ledger.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from trajkit.adapters.json_calls import unparsed
from trajkit.adapters.messages import Message, make_call
from trajkit.adapters.text_calls import thought_text
from trajkit.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Mark:
    """The two ends of a stretch, and what stands between them."""

    opening: str
    """How it begins."""
    closing: str
    """How it ends."""
    what: Literal["thought", "call", "result", "answer", "feedback", "view"]
    """A `view` is a call without arguments whose result stands between the ends. `feedback` is
    the harness's own sentence, ends included, about words that were no call."""
    name: str = ""
    """For calls and views: the tool."""
    argument: str = ""
    """For calls: the name of the one argument."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of a text; joined, `raw` of all stretches is the text."""

    mark: Mark | None
    """Its mark, null between marks."""
    raw: str
    """The stretch as written, ends with it."""
    inner: str
    """What stands between the ends."""
    closed: bool = True
    """False when the second end is missing."""


def stretches(text: str, marks: Iterable[Mark]) -> Iterator[Stretch]:
    """Give a text cut at its marks.

    What a call or a thought holds ends at the next opening of any mark, since the agent left its
    mark open; a result may hold anything but its own end.

    >>> ask = Mark("<ask>", "</ask>", "call", "ask", "query")
    >>> [stretch.raw for stretch in stretches("a<ask>b</ask>c", [ask])]
    ['a', '<ask>b</ask>', 'c']
    """
    by_opening = {mark.opening: mark for mark in marks}
    opening = re.compile("|".join(map(re.escape, by_opening)))
    at = 0
    while (found := opening.search(text, at)) is not None:
        if found.start() > at:
            yield _plain(text[at : found.start()])
        mark = by_opening[found[0]]
        limit = len(text)
        if mark.what in ("call", "thought", "answer"):
            following = opening.search(text, found.end())
            limit = following.start() if following else limit
        end = text.find(mark.closing, found.end(), limit)
        stop = end if end >= 0 else limit
        at = stop + len(mark.closing) if end >= 0 else stop
        inner = text[found.end() : stop]
        yield Stretch(mark, text[found.start() : at], inner, closed=end >= 0)
    if at < len(text):
        yield _plain(text[at:])


def _plain(raw: str) -> Stretch:
    return Stretch(None, raw, raw)


def marked_messages(
    text: str, marks: Iterable[Mark], ledger: Ledger, name: str
) -> Iterator[Message]:
    """Give a marked text as messages; its events are `(name, 0)`, `(name, 1)` and so on."""
    pending: list[tuple[tuple[str, int], str]] = []
    told = (stretch for stretch in stretches(text, marks) if not _is_blank(stretch))
    for number, stretch in enumerate(told):
        event = (name, number)
        ledger.expect([event])
        what = stretch.mark.what if stretch.mark else "thought"
        if what == "thought":
            pending.append((event, thought_text(stretch.inner)))
            continue
        if what == "result":
            if pending:
                yield _agent(pending)
                pending = []
            cut = not stretch.closed
            yield Message(role="result", text=stretch.inner, truncated=cut, event=event)
            continue
        if what == "feedback":
            if pending:
                yield _failed(pending)
            yield Message(role="result", text=stretch.raw, source="harness", event=event)
        elif stretch.mark is not None:
            yield from _acts(stretch, stretch.mark, event, pending)
        pending = []
    if pending:
        yield _agent(pending)


def _is_blank(stretch: Stretch) -> bool:
    """Return whether a stretch says nothing; an empty result says that nothing was found."""
    thinks = stretch.mark is None or stretch.mark.what == "thought"
    return thinks and not thought_text(stretch.inner)


def _acts(
    stretch: Stretch, mark: Mark, event: tuple[str, int], pending: list[tuple[tuple[str, int], str]]
) -> Iterator[Message]:
    also = tuple((thought_event, "thought") for thought_event, _ in pending)
    thought = "\n\n".join(words for _, words in pending) or None
    if mark.what == "answer":
        answer = stretch.inner.strip()
        yield Message(role="assistant", text=answer, thought=thought, event=event, also=also)
        return
    call = make_call(mark.name, {mark.argument: stretch.inner.strip()} if mark.argument else {})
    if not stretch.closed and mark.what == "call":
        call = unparsed(stretch.raw, mark.name)
    yield Message(role="assistant", thought=thought, calls=(call,), event=event, also=also)
    if mark.what == "view":
        yield Message(role="result", text=stretch.inner, truncated=not stretch.closed, event=event)


def _agent(pending: list[tuple[tuple[str, int], str]]) -> Message:
    *before, (event, words) = pending
    return Message(
        role="assistant",
        text=words,
        thought="\n\n".join(thought for _, thought in before) or None,
        event=event,
        also=tuple((thought_event, "thought") for thought_event, _ in before),
    )


def _failed(pending: list[tuple[tuple[str, int], str]]) -> Message:
    """Return words that the harness took for a call and could not read."""
    *before, (event, _) = pending
    return Message(
        role="assistant",
        calls=(unparsed("\n\n".join(words for _, words in pending)),),
        event=event,
        also=tuple((earlier, "action") for earlier, _ in before),
    )
