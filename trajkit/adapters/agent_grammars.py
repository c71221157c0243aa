"""The text grammars of AgentBench's descendants: `Thought:` and `Action:` in an agent's words.

AgentInstruct and AgentGym write the same environments in nearly the same words, so what an agent's
text calls, what an opening message asks, and which turns are only a lesson is read here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from trajkit.adapters.chat_rows import Turn, heard
from trajkit.adapters.json_calls import unparsed
from trajkit.adapters.messages import Call, Message, make_call, raw_call
from trajkit.adapters.text_calls import code_fences, labelled
from trajkit.ledger import Ledger
from trajkit.model import ActionKind, Domain

ENVIRONMENTS: dict[str, Domain | None] = {
    "os": "terminal",
    "db": "mcp",
    "kg": "mcp",
    "webshop": "web",
    "mind2web": "web",
    "alfworld": None,
}
"""Environments with a grammar of their own, and the domain of each."""

_LABELS = ("Thought", "Think", "Action", "Act", "Action Input", "Observation", "Final Answer")
_KINDS: dict[str, ActionKind] = {"os": "code", "db": "tool_call", "kg": "tool_call"}
_SAID = ("Thought", "Think", "Observation")
_ANSWERS = ("finish", "answer", "done")
_VERB = re.compile(r"\s*([A-Za-z_]\w*)\s*[(\[]")
_FUNCTION = re.compile(r"\s*([A-Za-z_]\w*)\((.*)\)\s*\Z", re.DOTALL)
_NEW_TASK = re.compile(
    r"\ANow, I will start a new problem in a new OS\. My problem is:\s*|\AA new question: "
)
_OPENING = re.compile(r"\A(?:Here is your task\. )?(.*)\nYour task is to: (.*)\Z", re.DOTALL)
_SHOP = re.compile(r"\bInstruction: \[SEP\] (.*?) \[SEP\]", re.DOTALL)
_OBSERVATION = re.compile(r"\A(?:The output of the OS:\n|Observation:(?: |\n))")
_CUT = "[truncated because the output is too long]"


@dataclass(frozen=True, slots=True)
class Talk:
    """A row's talk: its messages, and what its opening turn shows beside the task."""

    messages: list[Message]
    """Rules, task, and the turns from there on."""
    opening: str
    """The turn that sets the task, as it is; empty when nobody asks."""
    state: str | None
    """The first state, where the opening turn shows one."""


def read_talk(found: list[Turn], environment: str, ledger: Ledger) -> Talk:
    """Return the talk of a row without the lesson before its task."""
    first = first_turn(found)
    if first is None:
        return Talk(list(messages(found, environment)), "", None)
    task, state = task_and_state(found[first].text)
    told = [
        *lesson(found, first, ledger),
        heard(found[first], text=task),
        *messages(found[first + 1 :], environment),
    ]
    return Talk(told, found[first].text, state)


def first_turn(found: list[Turn]) -> int | None:
    """Return the index of the turn that sets the real task; the turns before it are a lesson.

    A lesson is a worked example that ends where a new problem is announced, else the turns before
    the first reply that data says to learn from (`loss`), else a reply that acts on nothing
    (`OK`), with the rules before it.
    """
    asks = [number for number, turn in enumerate(found) if turn.role == "user"]
    for number in reversed(asks):
        if _NEW_TASK.match(found[number].text):
            return number
    flags = [n for n, turn in enumerate(found) if turn.fields.get("loss") is True]
    replies = [n for n, turn in enumerate(found) if turn.role == "assistant"]
    target = flags[0] if flags else replies[0] if replies else 0
    if not flags and len(replies) > 1 and not is_act(found[replies[0]].text):
        target = replies[1]
    return max((number for number in asks if number < target), default=None)


def lesson(found: list[Turn], first: int, ledger: Ledger) -> Iterator[Message]:
    """Give the rules that stand before the task as system text, and leave the lesson out."""
    rules = next((turn for turn in found[:first] if turn.role == "user"), None)
    for turn in found[:first]:
        if turn.role == "system" or turn is rules:
            yield heard(turn, role="system")
        else:
            short = turn.role == "assistant" and not is_act(turn.text)
            ledger.left_out(turn.number, "acknowledgement" if short else "demonstration")


def is_act(text: str) -> bool:
    """Return whether an agent's text holds an action or a final answer.

    >>> is_act("OK"), is_act("THOUGHT: a"), is_act("ACTION: go"), is_act("Final Answer: #1")
    (False, False, True, True)
    """
    known = ("Action", "Act", "Final Answer")
    return any(label in known for label, _ in labelled(text, *_LABELS))


def task_and_state(text: str) -> tuple[str, str | None]:
    """Return the task of an opening message, and the first state where the message shows one.

    >>> task_and_state("Here is your task. You see a bed 1.\\nYour task is to: find a pen.")
    ('find a pen.', 'You see a bed 1.')
    """
    text = _NEW_TASK.sub("", _OBSERVATION.sub("", text))
    if match := _OPENING.match(text):
        return match[2], match[1]
    if match := _SHOP.search(text):
        return match[1], text
    return text, None


def messages(found: list[Turn], environment: str) -> Iterator[Message]:
    """Give the turns from the task on as messages; the first one asks.

    Nobody but the environment and its harness speaks to the agent. Words without a label are an
    action that could not be parsed, but for the last ones and for a mere thought.
    """
    last = max((turn.number for turn in found if turn.role == "assistant"), default=-1)
    message = None
    for turn in found:
        if turn.role == "assistant":
            message = acting(turn, environment, is_last=turn.number == last)
            yield message
        elif message is not None and turn.role in ("user", "result"):
            text = _OBSERVATION.sub("", turn.text)
            waits = any(call.kind != "message" for call in message.calls)
            told = _OBSERVATION.match(turn.text) or all(call.valid for call in message.calls)
            yield heard(
                turn,
                role="result" if waits else "user",
                text=text,
                source="environment" if told else "harness",
                truncated=_CUT in text,
            )
        else:
            yield heard(turn)


def acting(turn: Turn, environment: str, *, is_last: bool) -> Message:
    """Return an agent's turn with the call in it; words before the first label are thought too."""
    labels = (*_LABELS, "Answer", "Value") if environment == "mind2web" else _LABELS
    parts = labelled(turn.text, *labels)
    acts = {label: part for label, part in parts if label is not None and label not in _SAID}
    call = _call(acts, turn.text, environment)
    if call is None:
        thinks = any(label in _SAID for label, _ in parts)
        if is_last or thinks:
            return heard(turn)
        kind = _KINDS.get(environment, "gui")
        return heard(turn, text=None, calls=(unparsed(turn.text, kind=kind),))
    said = (
        part if label in (None, "Thought", "Think") else f"{label}:{part}"
        for label, part in parts
        if label in (None, *_SAID)
    )
    thought = "\n\n".join(part.strip() for part in said if part.strip()) or None
    return heard(turn, text=None, thought=thought, calls=(call,))


def _call(acts: dict[str, str], text: str, environment: str) -> Call | None:
    action = next((acts[label].strip() for label in ("Action", "Act") if label in acts), None)
    if "Final Answer" in acts:
        return Call(action=acts["Final Answer"].strip(), name="answer", kind="message")
    if action is None:
        return None
    if "Action Input" in acts:
        return make_call(action, acts["Action Input"].strip())
    name, with_input, given = action.partition(" with Action Input:")
    if with_input:
        return make_call(name, given.strip())
    if environment in ("os", "db"):
        return _code(action, environment)
    if environment == "mind2web":
        start = max(text.rfind("Answer:"), 0)
        return Call(action=text[start:].strip(), name=action, kind="gui")
    if environment == "kg":
        function = _FUNCTION.match(action)
        return raw_call(function[1], function[2]) if function else unparsed(action)
    verb = _VERB.match(action)
    return Call(action=action, name=verb[1] if verb else None, kind="gui", valid=bool(action))


def _code(action: str, environment: str) -> Call:
    """Return the code of the first fence, or the answer that ends the task."""
    word = (re.match(r"\w*", action) or [""])[0]
    if word.lower() in _ANSWERS:
        return Call(action=action, name=word.lower(), kind="message")
    fences = code_fences("bash", "sh", "shell", "sql", "mysql", "")(action)
    code = next((call for span in fences for call in span.calls if call.valid), None)
    if code is None:
        return unparsed(action, kind=_KINDS[environment])
    if environment == "db":
        return raw_call(word or "sql", code.action)
    return Call(action=code.action, name=word or "bash", kind="code")
