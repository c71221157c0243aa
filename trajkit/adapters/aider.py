"""Aider chat histories: the Markdown file `.aider.chat.history.md`, a log of all sessions there.

Written by Aider (0.1x to 0.8x); the format has no definition but its source. A session begins with
`# aider chat started at <time>`, and is a trajectory of its own, known by that time. Lines that
begin with `#### ` are a person's, `> ` marks what the program said, anything else is the agent's
reply. The writer ends its own lines with two blanks, which tells them from headings and quotations
inside a reply; a message of several lines is marked on its first one only, and runs on to the line
that ends with two blanks. In files whose blanks at line ends were trimmed, lines inside a closed
code fence are the reply's. Marks and blanks at line ends are the log's, and taken off.

The fenced blocks of a reply that edited files (SEARCH/REPLACE blocks, diffs, whole files) or ran
commands are its action, with the file name above each block, as code; the words around them are
its thought. Any other reply is a message. What the program said after a reply (`Applied edit to`,
commits, lint and test errors, questions and how they were answered) is the observation; counts of
tokens are left out as `bookkeeping`. What a command printed is in the log only where the program
said it. Slash commands and answers to the program's questions are no words of a person. There are
no ids, no times but the start, no exit codes and no outcome. A session without a request is a
reject `no_task`, one in which nothing was edited or run `no_action`.

Smallest shape: `# aider chat started at 2025-01-01 10:00:00`, `#### fix it  `, a reply with a
SEARCH/REPLACE block, `> Applied edit to a.py  `
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Literal

from trajkit.adapters import Adapter
from trajkit.adapters.anthropic_blocks import Place, unread
from trajkit.adapters.fields import meta_text
from trajkit.adapters.messages import Call, Message, fold
from trajkit.adapters.talk import injected
from trajkit.model import Record, Reject, Trajectory

_HEADER = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)[ \t]*\r?$")
_MARKS = ("> ", "#### ")
_FENCE = re.compile(r"(`{3,}|~{3,})")
_MODEL = re.compile(r"^(?:Main model|Models?): (\S+) (?:with|using) ([\w-]+) edit format", re.M)
_VERSION = re.compile(r"^Aider v(\S+)", re.M)
_QUESTION = re.compile(r"\(Y\)es/\(N\)o")
_STATUS = re.compile(r"Tokens: [\d.,]+k? sent")
_COMMAND = re.compile(r"/(?!ask\b|code\b|architect\b)\w|!")
_RUN = re.compile(r"/(run|test|git|lint)\b|!")
_DID = re.compile(r"^(Applied edit to |Running |Did not apply edit|Skipping edits)", re.M)
_FAILED = re.compile(
    r"^(The LLM did not conform to the edit format|# \d+ SEARCH/REPLACE block)", re.M
)
_EDIT = re.compile(r"^(<{5,9} SEARCH|--- \S.*\n\+\+\+ )", re.M)

_Kind = Literal["user", "tool", "agent"]


@dataclass(frozen=True, slots=True)
class _Block:
    line: int
    kind: _Kind
    text: str


def detect(value: Any) -> bool:
    """Return whether a text is a chat history."""
    return (
        isinstance(value, str)
        and _HEADER.match(value.lstrip()[:200].partition("\n")[0]) is not None
    )


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the sessions of a file in order."""
    lines = record.value.split("\n")
    starts = [number for number, line in enumerate(lines) if _HEADER.match(line)]
    keys: set[str] = set()
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        match = _HEADER.match(lines[start])
        time = match.group(1) if match else ""
        key = time
        while key in keys:
            key = f"{time}~{len(keys)}"
        keys.add(key)
        place = replace(record, origin=replace(record.origin, key=key))
        yield _session(list(_blocks(lines, start + 1, end)), time, place)


def _session(blocks: list[_Block], time: str, record: Record) -> Trajectory | Reject:
    record.ledger.expect(block.line for block in blocks)
    messages = list(_messages(blocks))
    found = fold(messages)
    if found.task is None or not found.acts:
        reason = "no_action" if found.task else "no_task"
        for block in blocks:
            record.ledger.left_out(block.line, reason)
        what = "edited or run" if found.task else "asked of the agent"
        message = f"a session in which nothing was {what}"
        return Reject(origin=record.origin, reason=reason, message=message)
    folded = fold(messages, record.ledger)
    said = "\n".join(block.text for block in blocks if block.kind == "tool")
    model, version = _MODEL.search(said), _VERSION.search(said)
    return Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        format_version=version.group(1) if version else None,
        domain="swe",
        agent="aider",
        model=model.group(1) if model else None,
        task=folded.task,
        started_at=time,
        meta=meta_text(folded, edit_format=model.group(2) if model else None),
        steps=folded.steps,
    )


def _blocks(lines: list[str], start: int, end: int) -> Iterator[_Block]:
    """Give the parts of a session: each of one speaker, one for each message of the program."""
    marked = any(
        lines[n].startswith(("> ", "#### ")) and _ends(lines[n]) for n in range(start, end)
    )
    fenced = set() if marked else set(_inside_fences(lines, start, end))
    reply: list[int] = []
    number = start
    while number < end:
        kind = _kind(lines[number], marked=marked, fenced=number in fenced, in_reply=bool(reply))
        if kind == "agent":
            if reply or lines[number].strip():
                reply.append(number)
            number += 1
            continue
        yield from _reply(lines, reply)
        reply = []
        first = number
        number += 1
        if kind == "user":
            while number < end and lines[number].startswith("####") and number not in fenced:
                number += 1
        elif marked and not _ends(lines[first]):
            while number < end and not lines[number].startswith(_MARKS):
                number += 1
                if _ends(lines[number - 1]):
                    break
        while kind == "tool" and number < end and _runs_on(lines[number]):
            number += 1
        mark = "> " if kind == "tool" else "#### "
        said = [_bare(line).removeprefix(mark) for line in lines[first:number]]
        if kind == "user":
            said = [line.removeprefix("####") for line in said]
        yield _Block(first, kind, "\n".join(said))
    yield from _reply(lines, reply)


def _kind(line: str, *, marked: bool, fenced: bool, in_reply: bool) -> _Kind:
    if fenced or (marked and in_reply and not _ends(line)):
        return "agent"
    if line.startswith("#### ") and (_ends(line) or not marked):
        return "user"
    return "tool" if line.startswith("> ") or line.rstrip() == ">" else "agent"


def _runs_on(line: str) -> bool:
    """Return whether a line goes on with what the program said: a reply begins with a blank one."""
    return bool(line.strip()) and not line.startswith(">") and not line.startswith("####")


def _ends(line: str) -> bool:
    return line.removesuffix("\r").endswith("  ")


def _bare(line: str) -> str:
    return line.removesuffix("\r").removesuffix("  ")


def _reply(lines: list[str], numbers: list[int]) -> Iterator[_Block]:
    if numbers:
        said = "\n".join(lines[n] for n in numbers).rstrip("\r\n")
        yield _Block(numbers[0], "agent", said)


def _inside_fences(lines: list[str], start: int, end: int) -> Iterator[int]:
    """Give the lines between an opening fence and its end; a fence without end is none."""
    opened: tuple[int, str] | None = None
    for number in range(start, end):
        match = _FENCE.match(lines[number])
        if match is None:
            continue
        if opened is None:
            opened = (number, match.group(1))
        elif match.group(1).startswith(opened[1]) and not lines[number].strip("`~ \t\r"):
            yield from range(opened[0], number + 1)
            opened = None


def _messages(blocks: list[_Block]) -> Iterator[Message]:
    """Give the blocks as messages: a reply is read together with what the program said to it."""
    asked = [replace(b, kind="tool") if _QUESTION.search(b.text) else b for b in blocks]
    groups = [(kind, list(group)) for kind, group in groupby(asked, key=lambda b: b.kind)]
    before = ""
    reply: Message | None = None
    for number, (kind, group) in enumerate(groups):
        if kind == "user":
            for block in group:
                command = _COMMAND.match(block.text.strip()) is not None
                before = block.text.strip() if command else ""
                place = Place(event=block.line)
                said = Message(role="user", text=block.text, event=block.line)
                yield injected(block.text, place) if command else said
        elif kind == "agent":
            answer = groups[number + 1][1] if number + 1 < len(groups) else []
            told = "\n".join(b.text for b in answer if b.kind == "tool")
            for block in group:
                reply = _agent(block, told)
                yield reply
        else:
            news = [b for b in group if b.text.strip() and not _STATUS.match(b.text)]
            yield from (unread(b.line, "bookkeeping") for b in group if b not in news)
            after = reply if reply is not None and groups[number - 1][0] == "agent" else None
            ran = reply is not None and after is None and _RUN.match(before) is not None
            if news:
                yield _observed(news, after, ran=ran, spoken=reply is not None)


def _observed(news: list[_Block], reply: Message | None, *, ran: bool, spoken: bool) -> Message:
    """Return what the program said: to a reply, to a person's command, or by itself."""
    told = "\n".join(block.text for block in news)
    acted = reply is not None and bool(reply.calls)
    return Message(
        role="result" if acted else "system" if reply is None and not ran else "user",
        text=told,
        source="environment" if acted or ran else "harness",
        error="edit_failed" if acted and _FAILED.search(told) else None,
        event=news[0].line,
        also=tuple((block.line, "observation" if spoken else "context") for block in news[1:]),
    )


def _agent(block: _Block, told: str) -> Message:
    code, words = _split(block.text)
    if not code or not (_EDIT.search(code) or _DID.search(told) or _FAILED.search(told)):
        return Message(role="assistant", text=block.text, event=block.line)
    edits = _EDIT.search(code) or "Applied edit to " in told or _FAILED.search(told)
    name = "edit" if edits else "run"
    call = Call(action=code, name=name, kind="code", valid=_FAILED.search(told) is None)
    return Message(role="assistant", text=words or None, calls=(call,), event=block.line)


def _split(reply: str) -> tuple[str, str]:
    """Return the fenced blocks of a reply with the file names above them, and the other words.

    >>> _split("Do:\\n\\na.py\\n```\\nx\\n```\\nDone.")
    ('a.py\\n```\\nx\\n```', 'Do:\\n\\nDone.')
    """
    lines = reply.split("\n")
    inside = set(_inside_fences(lines, 0, len(lines)))
    for number in sorted(inside):
        above = lines[number - 1].strip() if number and number - 1 not in inside else ""
        if above and " " not in above and "." in above.strip("`*:"):
            inside.add(number - 1)
    code = "\n".join(line for number, line in enumerate(lines) if number in inside)
    words = "\n".join(line for number, line in enumerate(lines) if number not in inside)
    return code, words.strip("\n")


ADAPTER = Adapter(
    name="aider",
    title="Aider chat histories (.aider.chat.history.md)",
    domains=("swe",),
    detect=detect,
    extract=extract,
)
