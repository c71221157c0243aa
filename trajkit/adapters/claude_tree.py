"""The lines of a Claude Code session file as trees: which of them belong to one conversation.

Used by the `claude-code` adapter, whose docstring says what the format is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from trajkit.adapters.content import content_text
from trajkit.ledger import Ledger

_SPEAKS = ("user", "assistant")
# Lines that tell of the program, not of the talk; a type that is not named here is new.
_REASONS = dict.fromkeys(
    (
        *("agent-color", "agent-name", "agent-setting", "ai-title", "attribution-snapshot"),
        *("auth_status", "content-replacement", "control_request", "control_response"),
        *("custom-title", "file-history-snapshot", "frame-link", "keep_alive", "last-prompt"),
        *("mode", "permission-mode", "pr-link", "prompt_suggestion", "queue-operation"),
        *("rate_limit_event", "relocated", "result", "started", "system", "tag"),
        *("tool_use_summary", "worktree-state"),
    ),
    "bookkeeping",
) | {
    "attachment": "attachment",
    "progress": "progress",
    "stream_event": "partial_message",
    "tool_progress": "progress",
}


@dataclass(slots=True)
class Line:
    """One line that can stand in a tree."""

    number: int
    """Its place among the lines of the file."""
    raw: dict[str, Any]
    """The line as logged."""
    id: str
    """Its uuid, or a name made from its number."""
    parent: str | None
    """The line it goes on from; always an earlier one of the file."""
    side_chain: bool
    """Whether a sub-agent wrote it."""
    event: Hashable
    """Its name in the ledger."""
    message: dict[str, Any] = field(init=False)
    """The message of a line that speaks, else an empty object."""
    blocks: list[dict[str, Any]] = field(init=False)
    """The content blocks of the message; plain text is one block."""
    reply_id: str | None = field(init=False)
    """The id that all lines of one reply of the model share."""
    answers: frozenset[str] = field(init=False)
    """The ids of the calls whose results it holds."""

    def __post_init__(self) -> None:
        """Take the message apart once: a line is looked at from many sides."""
        self.message = self.raw["message"] if speaks(self.raw) else {}
        content = self.message.get("content")
        parts = [content] if isinstance(content, str) else content or ()
        self.blocks = [
            {"type": "text", "text": part} if isinstance(part, str) else part
            for part in parts
            if isinstance(part, str | dict)
        ]
        kind = self.raw.get("type")
        self.reply_id = text_of(self.message.get("id")) if kind == "assistant" else None
        ids = [
            text_of(block.get("tool_use_id"))
            for block in (self.blocks if kind == "user" else ())
            if block.get("type") == "tool_result"
        ]
        self.answers = frozenset(filter(None, ids))

    @property
    def session(self) -> str | None:
        """The session that wrote it."""
        return text_of(self.raw.get("sessionId")) or text_of(self.raw.get("session_id"))

    @property
    def agent(self) -> str | None:
        """The sub-agent that wrote it; the printed stream only knows the call that began it."""
        return text_of(self.raw.get("agentId")) or text_of(self.raw.get("parent_tool_use_id"))

    @property
    def detail(self) -> dict[str, Any]:
        """What the program knows of a result beside the text; an empty object if nothing."""
        detail = self.raw.get("toolUseResult", self.raw.get("tool_use_result"))
        return detail if isinstance(detail, dict) else {}


@dataclass(slots=True)
class SessionFile:
    """A session file taken apart."""

    lines: list[Line] = field(default_factory=list)
    """Lines that stand in a tree, in file order."""
    counts: Counter[str] = field(default_factory=Counter)
    """Other lines by type, and what had to be mended in the links."""
    summaries: dict[str, str] = field(default_factory=dict)
    """Titles of conversations by the uuid of their last line."""
    gaps: list[dict[str, str | None]] = field(default_factory=list)
    """Lines whose parent is not in the file: its id, theirs, and that of the line before."""
    spawned: dict[str, str] = field(default_factory=dict)
    """The call that ran each sub-agent."""
    init: dict[str, Any] = field(default_factory=dict)
    """First line of a printed stream: tools, model, folder."""
    result: dict[str, Any] = field(default_factory=dict)
    """Last line of a printed stream: outcome, cost."""


def text_of(value: Any) -> str | None:
    """Return a value that is text and not empty, else null."""
    return value if isinstance(value, str) and value else None


def speaks(line: dict[str, Any]) -> bool:
    """Return whether a line holds a message of a person, the agent or a tool."""
    message = line.get("message")
    return (
        line.get("type") in _SPEAKS
        and isinstance(message, dict)
        and message.get("role") == line["type"]
        and isinstance(message.get("content"), str | list)
    )


def is_init(line: dict[str, Any]) -> bool:
    """Return whether a line begins a printed stream."""
    return (line.get("type"), line.get("subtype")) == ("system", "init") and "session_id" in line


def is_result(line: dict[str, Any]) -> bool:
    """Return whether a line ends a printed stream."""
    return (
        line.get("type") == "result"
        and isinstance(line.get("subtype"), str)
        and "session_id" in line
        and ("num_turns" in line or "total_cost_usd" in line)
    )


def read(
    value: Any, ledger: Ledger, *, name: str | None = None, all_side: bool = False
) -> SessionFile:
    """Return the lines of a file with their links mended, and account for all others.

    A line without a parent in a file that has such links begins a tree. A parent that is missing
    or comes later is replaced by the line before, of the same chain. An event of the ledger is the
    number of a line, with the name of the file if it has one. `all_side` is for the file of a
    sub-agent, whatever its lines say.
    """
    file = SessionFile()
    raws = list(_flat(value if isinstance(value, list) else [value]))
    events = [number if name is None else (name, number) for number in range(len(raws))]
    ledger.expect(events)
    ids = {raw["uuid"] for raw in raws if isinstance(raw.get("uuid"), str)}
    linked = any(isinstance(raw.get("parentUuid"), str) for raw in raws)
    before: dict[tuple[Any, ...], str] = {}
    seen: set[str] = set()
    for number, (raw, event) in enumerate(zip(raws, events, strict=True)):
        id_ = text_of(raw.get("uuid"))
        if not speaks(raw):
            _account(raw, event, ids, file, ledger)
            if id_ is None:
                continue
        line = Line(number, raw, id_ or f"line {number}", None, all_side, event)
        if line.id in seen:
            file.counts["repeated_uuid"] += 1
            ledger.left_out(event, "repeated_uuid")
            continue
        line.side_chain |= raw.get("isSidechain") is True
        line.side_chain |= text_of(raw.get("parent_tool_use_id")) is not None
        chain = (line.side_chain, line.agent, None if linked else line.session)
        parent = text_of(raw.get("parentUuid")) or text_of(raw.get("logicalParentUuid"))
        is_boundary = raw.get("subtype") == "compact_boundary"
        if not linked or (is_boundary and parent is None):
            parent = before.get(chain)
        elif parent is not None and parent not in seen:
            file.counts["later_parent" if parent in ids else "missing_parent"] += 1
            if parent not in ids:
                gap = {"missing": parent, "after": before.get(chain), "before": line.id}
                file.gaps.append(gap)
            parent = before.get(chain)
        line.parent = parent
        if (agent := text_of(line.detail.get("agentId"))) is not None:
            file.spawned.update((agent, call) for call in line.answers)
        seen.add(line.id)
        before[chain] = line.id
        file.lines.append(line)
    return file


def _account(
    raw: dict[str, Any], event: Hashable, ids: set[str], file: SessionFile, ledger: Ledger
) -> None:
    """Note what becomes of a line that holds no message."""
    kind = text_of(raw.get("type"))
    if is_init(raw) or is_result(raw):
        (file.init if kind == "system" else file.result).update(raw)
        ledger.became(event, "context")
        return
    file.counts[str(kind)] += 1
    if kind == "summary" and isinstance(raw.get("leafUuid"), str):
        if raw["leafUuid"] in ids:
            file.summaries[raw["leafUuid"]] = content_text(raw.get("summary"))[0] or ""
            ledger.became(event, "context")
        else:
            ledger.left_out(event, "foreign_summary")
    elif kind in _SPEAKS or kind is None:
        ledger.left_out(event, "malformed_event")
    elif raw.get("subtype") == "compact_boundary":
        ledger.became(event, "context")
    else:
        ledger.left_out(event, _REASONS.get(kind, "unknown_event"))


def _flat(values: Iterable[Any]) -> Iterator[dict[str, Any]]:
    for value in values:
        if not isinstance(value, dict):
            yield {}
        elif isinstance(value.get("loglines"), list):
            yield from (line if isinstance(line, dict) else {} for line in value["loglines"])
        else:
            yield value


def _roots(lines: Sequence[Line]) -> dict[str, str]:
    """Return the root of every line; a parent of another chain ends the way."""
    roots: dict[str, str] = {}
    for line in lines:
        roots[line.id] = roots.get(line.parent or "", line.id)
    return roots


def by_session(lines: list[Line]) -> dict[str | None, list[Line]]:
    """Return whole trees by the session of their last message: two sessions may share a file."""
    roots = _roots(lines)
    session_of = {roots[line.id]: line.session for line in lines if line.message}
    groups: dict[str | None, list[Line]] = {}
    for line in lines:
        groups.setdefault(session_of.get(roots[line.id]), []).append(line)
    return groups


def by_agent(lines: list[Line]) -> dict[str, list[Line]]:
    """Return side chains by their agent, or by their root where no agent is named."""
    roots = _roots(lines)
    groups: dict[str, list[Line]] = {}
    for line in lines:
        groups.setdefault(line.agent or roots[line.id], []).append(line)
    return groups


def ways(lines: list[Line]) -> Iterator[tuple[list[Line], list[Line]]]:
    """Give each way through a tree with the lines that an earlier way already had.

    The first way leads to the last message of the file: the live one. Lines are in file order.
    """
    tree = _Tree(lines)
    taken: set[str] = set()
    for leaf in reversed([line for line in lines if line.message]):
        if leaf.id in taken:
            continue
        way = tree.way_to(leaf)
        shared = [line for line in way if line.id in taken]
        taken |= {line.id for line in way}
        yield way, shared


class _Tree:
    """Lines by what leads to them: their id, their reply, the calls they answer."""

    def __init__(self, lines: list[Line]) -> None:
        self.by_id = {line.id: line for line in lines}
        self.by_reply: dict[str, list[Line]] = {}
        self.by_call: dict[str, list[Line]] = {}
        for line in lines:
            if line.reply_id is not None:
                self.by_reply.setdefault(line.reply_id, []).append(line)
            for call in line.answers:
                self.by_call.setdefault(call, []).append(line)

    def way_to(self, leaf: Line) -> list[Line]:
        """Return the lines from the root to a leaf, whole replies and their answers included."""
        chosen: dict[str, Line] = {}
        line: Line | None = leaf
        while line is not None:
            chosen[line.id] = line
            for part in self.by_reply.get(line.reply_id or "", ()):
                chosen[part.id] = part
            line = self.by_id.get(line.parent or "")
        agent = [line for line in chosen.values() if line.raw.get("type") == "assistant"]
        calls = {text_of(block.get("id")) for line in agent for block in line.blocks} - {None}
        for call in calls:
            for line in self.by_call.get(call or "", ()):
                if line.answers <= calls:
                    chosen[line.id] = line
        return sorted(chosen.values(), key=lambda line: line.number)
