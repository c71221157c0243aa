"""The shared middle form of message logs: a list of `Message`s, folded into steps.

Chat formats differ in how they write a call and its result; once they are `Message`s, pairing,
parallel calls, orphans and late answers are the same for all of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Any, Literal

import orjson

from trajkit.adapters.content import is_message_list as is_message_list
from trajkit.adapters.content import observation_kind as observation_kind
from trajkit.adapters.content import tools_text as tools_text
from trajkit.ledger import FATES, Ledger
from trajkit.model import ActionKind, ObservationKind, ObservationSource, Step, to_json_text


# Calls and messages are made by the million and read once; frozen ones take four times as long.
@dataclass(slots=True, kw_only=True)
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


@dataclass(slots=True, kw_only=True)
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
    name: str | None = None
    """For a result: the tool's name, which tells its call where the log gives no ids."""
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
    also: tuple[tuple[Hashable, str], ...] = ()
    """Further source events that went into it: each with its fate, or the reason it is left out."""
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
    step_starts: tuple[int, ...] = ()
    """Place in the list of the message each step began with."""
    linked_by: dict[str, int] = field(default_factory=dict)
    """How results found their calls: `id`, `name`, `position`. Then findings, where there are any:
    `orphan` (no such call), `answered_twice`, `unanswered` at the end or `unanswered_middle`,
    `repeated_id`, `empty_task`, `empty_message`."""

    def n_steps_of(self, n_messages: int) -> int:
        """Return how many steps began in the first so many messages."""
        return bisect_left(self.step_starts, n_messages)

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


def raw_call(name: str | None, text: str, call_id: Any = None) -> Call:
    """Return a call of a tool that takes raw text and no JSON object.

    >>> raw_call("apply_patch", "*** Begin").action
    '{"name": "apply_patch", "arguments": "*** Begin"}'
    """
    action = f'{{"name": {to_json_text(name)}, "arguments": {to_json_text(text)}}}'
    return Call(action=action, name=name, id=id_text(call_id))


def id_text(value: Any) -> str | None:
    """Return the id of a call as text, since some logs count with numbers; null for none.

    >>> id_text(7), id_text("c7"), id_text("")
    ('7', 'c7', None)
    """
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if is_number else value or None if isinstance(value, str) else None


def fold(messages: Iterable[Message], ledger: Ledger | None = None) -> Folded:
    """Return the episode that a message list tells.

    A result belongs to the unanswered call of its id, the newest turn first, since ids may come
    back later (the steps then have ids with a number behind `~`); a result without an id (or
    with an id nobody used) belongs to the oldest unanswered call of the running turn, if it can be
    to one of the tool it names. A second result of one call, and a result with no call at all,
    become a step of their own with no action. A user text that answers an agent's message is that
    message's observation; one that follows tool results is a step with no action. A system text
    after the start is the harness's, and always a step with no action. An agent's message without
    text, thought and calls is no step, but a finding. What each message became is written into the
    ledger under its `event`.
    """
    folder = _Folder(ledger or Ledger())
    for message in messages:
        folder.add(message)
    return folder.folded()


@dataclass(slots=True)
class _Draft:
    """A step that may still get its answer; the fields that a message list decides."""

    action: str
    action_kind: ActionKind
    turn: int
    action_name: str | None = None
    action_valid: bool = True
    thought: str | None = None
    call_id: str | None = None
    observation: str | None = None
    observation_kind: ObservationKind = "none"
    observation_source: ObservationSource = "environment"
    error: str | None = None
    exit_code: int | None = None
    truncated: bool = False
    media: str | None = None
    time: str | None = None


_DRAFTED = tuple(f.name for f in fields(_Draft))
_drafted = attrgetter(*_DRAFTED)


class _Folder:
    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.keys: list[str | None] = []
        self.starts: list[int] = []
        self.n_messages = 0
        self.system: list[str] = []
        self.task: list[str] = []
        self.steps: list[_Draft] = []
        self.turn = -1
        self.linked: dict[str, int] = {}
        self.answered: set[int] = set()
        self.waiting: list[int] = []
        self.ids: dict[int, str] = {}
        self.uses: dict[str, int] = {}
        self.taken: set[str] = set()
        self.asked = False

    def add(self, message: Message) -> None:
        for event, what in message.also:
            self._note(event, what)
        if message.role == "assistant":
            if message.calls or message.text or message.thought:
                self._agent(message)
                silent = not message.calls and not message.text
                self._note(message.event, "thought" if silent else "action")
            else:
                self._empty(message)
        elif message.role == "result":
            self._result(message)
            self._note(message.event, "observation")
        elif self.turn < 0:
            self._asked(message)
        elif message.text:
            self._said(message)
            self._note(message.event, "observation")
        else:
            self._empty(message)
        n_new = len(self.steps) - len(self.keys)
        if n_new:
            self.keys.extend([message.key] * n_new)
            self.starts.extend([self.n_messages] * n_new)
        self.n_messages += 1

    def _note(self, event: Hashable, what: str) -> None:
        if event is None:
            return
        if what in FATES:
            self.ledger.became(event, what)
        else:
            self.ledger.left_out(event, what)

    def _empty(self, message: Message) -> None:
        if message.event is None and message.also:
            return
        self._count("empty_message")
        self._note(message.event, "empty_message")

    def _asked(self, message: Message) -> None:
        if message.text and message.text.strip():
            if message.source != "harness":
                (self.system if message.role == "system" else self.task).append(message.text)
            self._note(message.event, "context")
        else:
            self._empty(message)
            self.asked |= message.role == "user"

    def _agent(self, message: Message) -> None:
        self.turn += 1
        if message.calls:
            said = [text for text in (message.thought, message.text) if text]
            thought = "\n\n".join(said) or None
            for number, call in enumerate(message.calls):
                if call.kind not in ("message", "none"):
                    self.waiting.append(len(self.steps))
                self.steps.append(
                    _Draft(
                        action=call.action,
                        action_kind=call.kind,
                        action_name=call.name,
                        action_valid=call.valid,
                        call_id=self._unique(call.id),
                        turn=self.turn,
                        thought=thought if number == 0 else None,
                        time=message.time,
                    )
                )
        else:
            self.steps.append(
                _Draft(
                    action=message.text or "",
                    action_kind="message" if message.text else "none",
                    turn=self.turn,
                    thought=message.thought,
                    time=message.time,
                )
            )

    def _unique(self, call_id: str | None) -> str | None:
        """Return the id of the next step's call; one that was used before gets a number."""
        if not call_id:
            return None
        self.ids[len(self.steps)] = call_id
        number = self.uses[call_id] = self.uses.get(call_id, 0) + 1
        if number > 1:
            self._count("repeated_id")
        unique = call_id
        while unique in self.taken:
            unique = f"{call_id}~{max(number, 2)}"
            number += 1
        self.taken.add(unique)
        return unique

    def _result(self, message: Message) -> None:
        index, how = self._find(message)
        self._count(how)
        if index is None:
            self.turn = max(self.turn, 0)
            self.steps.append(_Draft("", "none", self.turn))
            index = len(self.steps) - 1
        self._answer(index, message, message.source or "environment")

    def _find(self, message: Message) -> tuple[int | None, str]:
        """Return the step that waits for a result, and how it was found or why it was not."""
        call_id = message.call_id
        if call_id:
            same = [index for index in self.waiting if self.ids.get(index) == call_id]
            if same:
                newest = self.steps[same[-1]].turn
                return next(i for i in same if self.steps[i].turn == newest), "id"
            if call_id in self.uses:
                return None, "answered_twice"
        free = [
            index
            for index in self.waiting
            if self.steps[index].turn == self.turn and not (call_id and index in self.ids)
        ]
        for index in free:
            if message.name and self.steps[index].action_name == message.name:
                return index, "name"
        return (free[0], "position") if free else (None, "orphan")

    def _said(self, message: Message) -> None:
        last = self.steps[-1] if self.steps else None
        index = len(self.steps) - 1
        waits = last is not None and last.action_kind == "message" and index not in self.answered
        waits = waits and message.role != "system"
        if not waits:
            self.steps.append(_Draft("", "none", self.turn))
            index = len(self.steps) - 1
        heard: ObservationSource = "user" if message.role == "user" else "harness"
        self._answer(index, message, message.source or heard)

    def _answer(self, index: int, message: Message, source: ObservationSource) -> None:
        self.answered.add(index)
        if index in self.waiting:
            self.waiting.remove(index)
        text = message.text if message.text is not None else ""
        step = self.steps[index]
        step.observation = text
        step.observation_kind = "message" if source == "user" else observation_kind(text)
        step.observation_source = source
        step.error = message.error
        step.exit_code = message.exit_code
        step.truncated = message.truncated
        step.media = message.media
        step.time = message.time or step.time

    def _count(self, how: str) -> None:
        self.linked[how] = self.linked.get(how, 0) + 1

    def folded(self) -> Folded:
        for index in self.waiting:
            later = self.steps[index + 1 :]
            at_end = all(s.turn == self.turn and s.action_kind != "none" for s in later)
            self._count("unanswered" if at_end else "unanswered_middle")
        if self.asked and not self.task:
            self._count("empty_task")
        return Folded(
            task="\n\n".join(self.task) or None,
            agent_system_prompt="\n\n".join(self.system) or None,
            steps=tuple(Step(**dict(zip(_DRAFTED, _drafted(s), strict=True))) for s in self.steps),
            step_keys=tuple(self.keys),
            step_starts=tuple(self.starts),
            linked_by=dict(sorted(self.linked.items())),
        )


def skip_first(steps: tuple[Step, ...], n_steps: int, reason: str) -> tuple[Step, ...]:
    """Return the steps with the first ones marked: another trajectory has them as targets."""
    return tuple(
        replace(step, skip_reason=reason) if number < n_steps else step
        for number, step in enumerate(steps)
    )
