"""Calls that an agent wrote into its text: tags, labels and fences, read into `Call`s.

A grammar is a function that finds the calls of one notation in a text. `pieces` cuts a text by
the grammars it is given; the pieces joined are the text again, so the raw words are never lost.
`agent_message` makes a `Message` of them for `fold`.

What cannot be parsed as its notation wants is still a call: its action is the text as written,
and it is not valid. Nothing is repaired. Every reader takes time linear in the text, since the
text is anybody's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from trajkit.adapters.json_calls import framed, json_calls, literal, unparsed
from trajkit.adapters.messages import Call, Message, make_call
from trajkit.model import ActionKind

_FUNCTION = re.compile(r"<function=([^<>\n]{1,200})>")
_PARAMETER = re.compile(r"\s*<parameter=([^<>\n]{1,200})>")
_CHILD = re.compile(r"\s*<([A-Za-z_][\w-]{0,80})>")
_FENCE = re.compile(r"^(`{3,})([^\s`]*)[^\n`]*\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Span:
    """Where calls stand in a text."""

    start: int
    """First character, tags and labels with it."""
    end: int
    """Character after the last."""
    calls: tuple[Call, ...]
    """What is called there; more than one where a notation holds a list."""


Grammar = Callable[[str], Iterator[Span]]
"""Gives the calls of one notation in order, none over another."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of an agent's text."""

    kind: Literal["text", "thought", "call"]
    """What the stretch is."""
    raw: str
    """The stretch as written, tags with it."""
    calls: tuple[Call, ...] = ()
    """For a call: what is called."""


def pieces(text: str, *grammars: Grammar) -> tuple[Piece, ...]:
    """Return a text cut into thoughts, calls and the rest; joined they are the text.

    Thoughts are `<think>` blocks and hide what looks like a call in them. Of calls that overlap,
    the one that begins first counts; of those, the one of the first grammar.

    >>> [piece.raw for piece in pieces("<think>a</think>b<function=f>", function_tags)]
    ['<think>a</think>', 'b', '<function=f>']
    """
    found: list[Piece] = []
    for thinks, part in _split_thoughts(text, _spans(text, grammars)):
        if thinks:
            found.append(Piece("thought", part))
            continue
        at = 0
        for span in _spans(part, grammars):
            if span.start > at:
                found.append(Piece("text", part[at : span.start]))
            found.append(Piece("call", part[span.start : span.end], span.calls))
            at = span.end
        if at < len(part):
            found.append(Piece("text", part[at:]))
    return tuple(found)


def _spans(text: str, grammars: tuple[Grammar, ...]) -> list[Span]:
    """Return the calls of all grammars in order, none over another."""
    spans: list[Span] = []
    for span in sorted((s for g in grammars for s in g(text)), key=lambda span: span.start):
        if not spans or span.start >= spans[-1].end:
            spans.append(span)
    return spans


def _split_thoughts(text: str, spans: list[Span]) -> Iterator[tuple[bool, str]]:
    """Give stretches with whether they are thoughts; a template may have eaten the first tag.

    A tag inside a call that can be parsed is the call's own text.
    """
    calls = [(s.start, s.end) for s in spans if all(call.valid for call in s.calls)]
    at = n_passed = 0
    end = text.find("</think>")
    inside = any(start < end < stop for start, stop in calls)
    if end >= 0 and not inside and "<think>" not in text[:end]:
        at = end + len("</think>")
        yield True, text[:at]
    begin = at
    while (start := text.find("<think>", at)) >= 0:
        while n_passed < len(calls) and calls[n_passed][1] <= start:
            n_passed += 1
        if n_passed < len(calls) and at <= calls[n_passed][0] < start:
            at = calls[n_passed][1]
            continue
        if start > begin:
            yield False, text[begin:start]
        end = text.find("</think>", start)
        begin = at = len(text) if end < 0 else end + len("</think>")
        yield True, text[start:at]
    if begin < len(text):
        yield False, text[begin:]


def agent_message(text: str | None, *grammars: Grammar, **fields: Any) -> Message:
    """Return an agent's text as a message: thought, visible text and the calls in it.

    Text and thought lose the blank space around them, calls lose nothing. `fields` are further
    fields of the message (`event`, `time`, `key`).

    >>> message = agent_message("Look. <function=ls></function>", function_tags)
    >>> message.text, [call.action for call in message.calls]
    ('Look.', ['{"name": "ls", "arguments": {}}'])
    """
    cut = pieces(text or "", *grammars)
    thoughts = [thought_text(piece.raw) for piece in cut if piece.kind == "thought"]
    said = "".join(piece.raw for piece in cut if piece.kind == "text").strip()
    calls = tuple(call for piece in cut for call in piece.calls)
    thought = "\n\n".join(thought for thought in thoughts if thought)
    fields = {"thought": thought or None} | fields
    return Message(role="assistant", text=said or None, calls=calls, **fields)


def thought_text(raw: str) -> str:
    """Return the words of a `<think>` block, whichever of its tags is there."""
    return raw.strip().removeprefix("<think>").removesuffix("</think>").strip()


def blocks(text: str, tag: str) -> Iterator[tuple[int, int, str, bool]]:
    """Give start, end and inner text of each `<tag>` block, and whether it is closed.

    A block that is never closed goes to the end of the text: a model or a limit stopped there.

    >>> list(blocks("a<q>b</q><q>c", "q"))
    [(1, 9, 'b', True), (9, 13, 'c', False)]
    """
    opening, closing = f"<{tag}>", f"</{tag}>"
    at = 0
    while (start := text.find(opening, at)) >= 0:
        inner = start + len(opening)
        end = text.find(closing, inner)
        closed = end >= 0
        at = end + len(closing) if closed else len(text)
        yield start, at, text[inner : end if closed else at], closed


def results(text: str, tag: str = "tool_response") -> list[str] | None:
    """Return the results that a message opens with, or null when it is something else.

    A tag inside a result stays in it: only a closing tag before an opening one parts two results.
    So do words behind the last closing tag, that tag with them; `split_results` takes them off.

    >>> results("<tool_response>\\n1\\n</tool_response>\\n<tool_response>\\n2\\n</tool_response>")
    ['1', '2']
    >>> results("Thanks!") is None
    True
    """
    found, rest = split_results(text, tag)
    if rest and found:
        found[-1] += f"\n</{tag}>\n{rest}"
    return found or None


def split_results(text: str, tag: str = "tool_response") -> tuple[list[str], str]:
    """Return the results that a message opens with, and the words behind the last of them.

    >>> split_results("<tool_response>1</tool_response>\\nGo on.")
    (['1'], 'Go on.')
    """
    opening, closing = f"<{tag}>", f"</{tag}>"
    inner = text.strip()
    if not inner.startswith(opening):
        return [], text
    inner, closed, rest = inner.removeprefix(opening).rpartition(closing)
    if not closed:
        inner, rest = rest, ""
    between = rf"{re.escape(closing)}\s*{re.escape(opening)}"
    return [framed(part) for part in re.split(between, inner)], rest.strip()


# Notations.


def function_tags(text: str) -> Iterator[Span]:
    """Give calls such as `<function=run><parameter=command>ls</parameter></function>`.

    Values are text, without the line breaks next to their tags. The last closing tag may be
    missing, since harnesses stop the model there. A parameter that is cut or named twice, or text
    between the parameters, makes the call invalid.
    """
    at = 0
    while (opening := _FUNCTION.search(text, at)) is not None:
        end = text.find("</function>", opening.end())
        at = len(text) if end < 0 else end + len("</function>")
        body = text[opening.end() : end if end >= 0 else at]
        call = _function(opening[1].strip(), body, text[opening.start() : at])
        yield Span(opening.start(), at, (call,))


def _function(name: str, body: str, raw: str) -> Call:
    values: dict[str, str] = {}
    at = 0
    while (opening := _PARAMETER.match(body, at)) is not None:
        end = body.find("</parameter>", opening.end())
        if end < 0 or opening[1] in values:
            return unparsed(raw, name)
        values[opening[1]] = framed(body[opening.end() : end])
        at = end + len("</parameter>")
    if body[at:].strip() not in ("", "</", "</function"):
        return unparsed(raw, name)
    return make_call(name, values)


def tool_call_tags(text: str) -> Iterator[Span]:
    """Give calls in `<tool_call>`: JSON, a Python literal, JSON with `<code>`, or function tags."""
    for start, end, inner, _ in blocks(text, "tool_call"):
        yield Span(start, end, _tagged(inner))


def _tagged(inner: str) -> tuple[Call, ...]:
    functions = list(function_tags(inner))
    if functions and not inner[: functions[0].start].strip():
        return tuple(call for span in functions for call in span.calls)
    coded = next(blocks(inner, "code"), None)
    if coded is not None:
        start, _, code, closed = coded
        head = literal(inner[:start])
        if closed and isinstance(head, dict) and isinstance(head.get("arguments") or {}, dict):
            arguments = {**(head.get("arguments") or {}), "code": framed(code)}
            return (make_call(head.get("name"), arguments),)
    return json_calls(inner)


def mcp_tool_tags(text: str) -> Iterator[Span]:
    """Give calls in `<use_mcp_tool>` with `<server_name>`, `<tool_name>`, `<arguments>` inside.

    The name of the call is `server/tool`.
    """
    for start, end, inner, _ in blocks(text, "use_mcp_tool"):
        parts = {
            tag: next((part for *_, part, closed in blocks(inner, tag) if closed), None)
            for tag in ("server_name", "tool_name", "arguments")
        }
        server, tool, arguments = parts.values()
        if server is None or tool is None or arguments is None:
            call = unparsed(text[start:end], tool.strip() if tool else None)
        else:
            call = make_call(f"{server.strip()}/{tool.strip()}", framed(arguments))
        yield Span(start, end, (call,))


def tool_tags(*names: str) -> Grammar:
    """Return the grammar of calls such as `<read_file><path>a</path></read_file>`.

    Tags inside a call are its arguments, as text; the last closing tag of an argument counts, so
    that a file may hold the same tag. A tool without argument tags is given its text as `text`.

    >>> [span.calls[0].action for span in tool_tags("read")("<read><path>a</path></read>")]
    ['{"name": "read", "arguments": {"path":"a"}}']
    """
    opening = re.compile(f"<({'|'.join(map(re.escape, sorted(names, reverse=True)))})>")

    def grammar(text: str) -> Iterator[Span]:
        at = 0
        while (start := opening.search(text, at)) is not None:
            end = text.find(f"</{start[1]}>", start.end())
            at = len(text) if end < 0 else end + len(start[1]) + 3
            raw = text[start.start() : at]
            if end < 0:
                yield Span(start.start(), at, (unparsed(raw, start[1]),))
            else:
                arguments = _children(text[start.end() : end])
                call = make_call(start[1], arguments) if arguments is not None else None
                yield Span(start.start(), at, (call or unparsed(raw, start[1]),))

    return grammar


def _children(body: str) -> dict[str, str] | None:
    if body.strip() and _CHILD.match(body) is None:
        return {"text": framed(body)}
    values: dict[str, str] = {}
    at = 0
    while (opening := _CHILD.match(body, at)) is not None:
        closing = f"</{opening[1]}>"
        end = body.rfind(closing, opening.end())
        if end < 0 or opening[1] in values:
            return None
        values[opening[1]] = framed(body[opening.end() : end])
        at = end + len(closing)
    return None if body[at:].strip() else values


def code_tags(tag: str, name: str | None = None, kind: ActionKind = "code") -> Grammar:
    """Return the grammar of code between tags, such as `<execute>print(1)</execute>`.

    The action is the code itself. A block that is never closed is not valid.
    """

    def grammar(text: str) -> Iterator[Span]:
        for start, end, inner, closed in blocks(text, tag):
            call = Call(action=framed(inner), name=name, kind=kind, valid=closed)
            yield Span(start, end, (call,))

    return grammar


def code_fences(*languages: str, name: str | None = None) -> Grammar:
    """Return the grammar of fenced blocks in these languages; the action is the code itself.

    A fence of any other language is skipped as a whole. The name of the call is the language,
    unless one is given. A fence that is never closed is not valid.

    >>> [span.calls[0].action for span in code_fences("bash")("A:\\n```bash\\nls -a\\n```\\n")]
    ['ls -a']
    """

    def grammar(text: str) -> Iterator[Span]:
        at = 0
        while (opening := _FENCE.search(text, at)) is not None:
            closing = text.find("\n" + opening[1], opening.end() - 1)
            inner = text[opening.end() : max(closing, opening.end()) if closing >= 0 else len(text)]
            at = len(text) if closing < 0 else closing + 1 + len(opening[1])
            if opening[2] in languages:
                called = name or opening[2] or None
                call = Call(action=inner, name=called, kind="code", valid=closing >= 0)
                yield Span(opening.start(), at, (call,))

    return grammar


def labelled(text: str, *labels: str) -> list[tuple[str | None, str]]:
    """Return the parts of a text by the label that opens them, as `Thought:` at a line's start.

    The words before the first label have the label null. A part is as written, without its label
    and the colon. Labels are told by their letters, not by case.

    >>> labelled("So.\\nThought: a\\nACTION:\\nb c\\n", "Thought", "Action")
    [(None, 'So.\\n'), ('Thought', ' a\\n'), ('Action', '\\nb c\\n')]
    """
    return [(label, text[inner:end]) for label, _, inner, end in _parts(text, labels)]


def _parts(text: str, labels: tuple[str, ...]) -> list[tuple[str | None, int, int, int]]:
    """Return label, start, start of the words after it, and end of each part."""
    known = {label.lower(): label for label in labels}
    options = "|".join(re.escape(label) for label in sorted(labels, key=len, reverse=True))
    opening = re.compile(rf"^[ \t]*({options})[ \t]*:", re.MULTILINE | re.IGNORECASE)
    marks = [(known[m[1].lower()], m.start(), m.end()) for m in opening.finditer(text)]
    ends = [start for _, start, _ in marks[1:]] + [len(text)]
    parts: list[tuple[str | None, int, int, int]] = []
    if (first := marks[0][1] if marks else len(text)) > 0:
        parts.append((None, 0, 0, first))
    for (label, start, inner), end in zip(marks, ends, strict=False):
        parts.append((label, start, inner, end))
    return parts


def labelled_tools(text: str) -> Iterator[Span]:
    """Give calls such as `Action: search` with `Action Input: {"q": 1}` in the lines after it.

    An action without an input has no arguments; the input ends at the next label.

    >>> text = 'Thought: t\\nAction: search\\nAction Input: {"q": 1}\\nObservation:'
    >>> [span.calls[0].action for span in labelled_tools(text)]
    ['{"name": "search", "arguments": {"q": 1}}']
    """
    parts = _parts(text, ("Thought", "Action", "Action Input", "Observation", "Final Answer"))
    for number, (label, start, inner, end) in enumerate(parts):
        if label != "Action":
            continue
        arguments = None
        follows = parts[number + 1] if number + 1 < len(parts) else None
        if follows is not None and follows[0] == "Action Input":
            arguments = text[follows[2] : follows[3]].strip()
            end_of_call = follows[3]
        else:
            end_of_call = end
        yield Span(start, end_of_call, (make_call(text[inner:end].strip(), arguments),))
