"""The shared middle form of message logs: a list of `Message`s, folded into steps.

Chat formats differ in how they write a call and its result; once they are `Message`s, pairing,
parallel calls, orphans and late answers are the same for all of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import orjson

from trajkit.ledger import Fate, Ledger
from trajkit.model import ActionKind, ObservationKind, ObservationSource, Step, to_json_text

Linked = Literal["id", "position"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a tool inside an agent message."""

    action: str
    """Action text, as `call_text` gives it."""
    name: str | None
    """Name of the tool."""
    id: str | None = None
    """The log's id of the call; an empty id counts as none."""
    kind: ActionKind = "tool_call"
    """Form of the action."""
    valid: bool = True
    """False when the arguments could not be parsed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a log: what an agent said and called, or what came back."""

    role: Literal["system", "user", "assistant", "result"]
    """Who spoke; `result` is the answer to a call."""
    text: str | None = None
    """Visible text; for a result the observation itself."""
    thought: str | None = None
    """Reasoning the log keeps apart from the text."""
    calls: tuple[Call, ...] = ()
    """Calls of an assistant message."""
    call_id: str | None = None
    """For a result: the id of its call."""
    error: str | None = None
    """For a result: error text or class."""
    exit_code: int | None = None
    """For a result: exit code."""
    truncated: bool = False
    """For a result: whether the harness cut it."""
    source: ObservationSource | None = None
    """Who really spoke, where the role hides it (harness text in a user message)."""
    media: str | None = None
    """JSON text: pictures left out of the text."""
    time: str | None = None
    """Time as logged."""
    event: Hashable = None
    """The source event it was read from, for the ledger; null when the adapter accounts itself."""
    key: str | None = None
    """The log's global id of the event (uuid), for logs whose files may hold copies of others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """A message list as an episode."""

    task: str | None
    """First user text before the agent speaks."""
    agent_system_prompt: str | None
    """System texts before the agent speaks."""
    steps: tuple[Step, ...]
    """Steps in order."""
    step_keys: tuple[str | None, ...] = ()
    """Key of the message each step began with."""
    linked_by: dict[str, int] = field(default_factory=dict)
    """How results found their calls: counts of `id`, `position`, `orphan`, `unanswered`."""

    @property
    def acts(self) -> bool:
        """Return whether any step is more than talk."""
        return any(step.action_kind not in ("message", "none") for step in self.steps)


def call_text(name: Any, arguments: Any) -> tuple[str, bool]:
    """Return a tool call as JSON text, and whether its arguments are an object.

    Arguments that came as text are taken over character for character when they are a JSON
    object, and kept as a JSON string when they are anything else: never repaired.

    >>> call_text("read", '{"path": "a",  "n": 1.10}')
    ('{"name": "read", "arguments": {"path": "a",  "n": 1.10}}', True)
    >>> call_text("read", '{"path": "a')
    ('{"name": "read", "arguments": "{\\\\"path\\\\": \\\\"a"}', False)
    """
    valid = True
    if isinstance(arguments, str):
        stripped = arguments.strip()
        try:
            valid = isinstance(orjson.loads(stripped), dict)
        except ValueError:
            valid = False
        written = stripped if valid else to_json_text(arguments)
        if not stripped:
            written, valid = "{}", True
    elif arguments is None:
        written = "{}"
    else:
        valid = isinstance(arguments, dict)
        written = to_json_text(arguments)
    return f'{{"name": {to_json_text(name)}, "arguments": {written}}}', valid


def make_call(name: Any, arguments: Any, call_id: Any = None) -> Call:
    """Return a tool call from a log's name, arguments (text or object) and id.

    A name that is no text stands in the action as logged, and the call is not valid.
    """
    action, valid = call_text(name, arguments)
    named = isinstance(name, str)
    return Call(
        action=action,
        name=name if named else None,
        id=id_text(call_id),
        valid=valid and (named or name is None),
    )


def id_text(value: Any) -> str | None:
    """Return the id of a call as text, since some logs count with numbers; null for none.

    >>> id_text(7), id_text("c7"), id_text("")
    ('7', 'c7', None)
    """
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if is_number else value or None if isinstance(value, str) else None


def observation_kind(text: str | None) -> ObservationKind:
    """Return `json` for JSON objects and lists, `none` for null, else `text`.

    >>> observation_kind('{"a": 1}'), observation_kind("[1] http://..."), observation_kind(None)
    ('json', 'text', 'none')
    """
    if text is None:
        return "none"
    if text.lstrip()[:1] in ("{", "["):
        try:
            orjson.loads(text)
        except ValueError:
            return "text"
        return "json"
    return "text"


def fold(messages: Iterable[Message], ledger: Ledger | None = None) -> Folded:
    """Return the episode that a message list tells.

    A result belongs to the unanswered call of its id, the newest first, since ids may come back
    in a later turn; a result without an id (or with an id nobody used) belongs to the oldest
    unanswered call of the running turn. A second result of one call, and a result with no call
    at all, become a step of their own with no action. A user text that answers an agent's message
    is that message's observation; one that follows tool results is a step with no action. A system
    text after the start is the harness's, and always a step with no action. What each message
    became is written into the ledger under its `event`.
    """
    folder = _Folder(ledger or Ledger())
    for message in messages:
        folder.add(message)
    return folder.folded()


class _Folder:
    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.keys: list[str | None] = []
        self.system: list[str] = []
        self.task: list[str] = []
        self.steps: list[Step] = []
        self.turn = -1
        self.linked: dict[str, int] = {}
        self.answered: set[int] = set()
        self.waiting: list[int] = []
        self.ids: set[str] = set()

    def add(self, message: Message) -> None:
        if message.role == "assistant":
            self._agent(message)
            silent = not message.calls and not message.text
            self._became(message, "thought" if silent and message.thought else "action")
        elif message.role == "result":
            self._result(message)
            self._became(message, "observation")
        elif self.turn < 0:
            if message.text and message.source != "harness":
                (self.system if message.role == "system" else self.task).append(message.text)
            self._became(message, "context")
        elif message.text:
            self._said(message)
            self._became(message, "observation")
        elif message.event is not None:
            self.ledger.left_out(message.event, "empty_message")
        self.keys.extend([message.key] * (len(self.steps) - len(self.keys)))

    def _became(self, message: Message, fate: Fate) -> None:
        if message.event is not None:
            self.ledger.became(message.event, fate)

    def _agent(self, message: Message) -> None:
        self.turn += 1
        said = [text for text in (message.thought, message.text) if text]
        if message.calls:
            thought = "\n\n".join(said) or None
            for number, call in enumerate(message.calls):
                self.steps.append(
                    Step(
                        action=call.action,
                        action_kind=call.kind,
                        action_name=call.name,
                        action_valid=call.valid,
                        call_id=call.id,
                        turn=self.turn,
                        thought=thought if number == 0 else None,
                        observation_kind="none",
                        time=message.time,
                    )
                )
                if call.kind not in ("message", "none"):
                    self.waiting.append(len(self.steps) - 1)
                if call.id:
                    self.ids.add(call.id)
        else:
            self.steps.append(
                Step(
                    action=message.text or "",
                    action_kind="message" if message.text else "none",
                    turn=self.turn,
                    thought=message.thought,
                    observation_kind="none",
                    time=message.time,
                )
            )

    def _result(self, message: Message) -> None:
        index = self._find(message.call_id)
        if index is None:
            self._count("orphan")
            self.turn = max(self.turn, 0)
            self.steps.append(Step(action="", action_kind="none", turn=self.turn))
            index = len(self.steps) - 1
        self._answer(index, message, message.source or "environment")

    def _find(self, call_id: str | None) -> int | None:
        if call_id:
            for index in reversed(self.waiting):
                if self.steps[index].call_id == call_id:
                    self._count("id")
                    return index
            if call_id in self.ids:
                return None
        for index in self.waiting:
            step = self.steps[index]
            if step.turn == self.turn and not (call_id and step.call_id):
                self._count("position")
                return index
        return None

    def _said(self, message: Message) -> None:
        last = self.steps[-1] if self.steps else None
        index = len(self.steps) - 1
        waits = last is not None and last.action_kind == "message" and index not in self.answered
        waits = waits and message.role != "system"
        if not waits:
            self.steps.append(Step(action="", action_kind="none", turn=self.turn))
            index = len(self.steps) - 1
        heard: ObservationSource = "user" if message.role == "user" else "harness"
        self._answer(index, message, message.source or heard)

    def _answer(self, index: int, message: Message, source: ObservationSource) -> None:
        self.answered.add(index)
        if index in self.waiting:
            self.waiting.remove(index)
        text = message.text if message.text is not None else ""
        self.steps[index] = replace(
            self.steps[index],
            observation=text,
            observation_kind="message" if source == "user" else observation_kind(text),
            observation_source=source,
            error=message.error,
            exit_code=message.exit_code,
            truncated=message.truncated,
            media=message.media,
            time=message.time or self.steps[index].time,
        )

    def _count(self, how: str) -> None:
        self.linked[how] = self.linked.get(how, 0) + 1

    def folded(self) -> Folded:
        if self.waiting:
            self.linked["unanswered"] = len(self.waiting)
        return Folded(
            task="\n\n".join(self.task) or None,
            agent_system_prompt="\n\n".join(self.system) or None,
            steps=tuple(self.steps),
            step_keys=tuple(self.keys),
            linked_by=dict(sorted(self.linked.items())),
        )


def skip_first(steps: tuple[Step, ...], n_steps: int, reason: str) -> tuple[Step, ...]:
    """Return the steps with the first ones marked: another trajectory has them as targets."""
    return tuple(
        replace(step, skip_reason=reason) if number < n_steps else step
        for number, step in enumerate(steps)
    )


def tools_text(tools: Any) -> str | None:
    """Return tool schemas as JSON text; takes a list, or the JSON text some data sets store."""
    if not tools:
        return None
    if isinstance(tools, str):
        try:
            orjson.loads(tools)
        except ValueError:
            return to_json_text(tools)
        return tools
    return to_json_text(tools)


def is_message_list(value: Any, roles: Sequence[str]) -> bool:
    """Return whether a value is a non-empty list of messages with some of these roles only."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(item, dict) and item.get("role") in roles for item in value)
    )
