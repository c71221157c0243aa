"""Fold a conversation into one question and one answer.

For trainers that train on every message of the assistant and know no flag for one of them: in a
fold the answer is the only such message.
"""

from __future__ import annotations

from collections.abc import Sequence

from trajkit.trainers.base import Message


def single_turn(messages: Sequence[Message]) -> list[Message]:
    """Return the system message, one user message that holds all of the rest, and the answer.

    The text of the messages stays as it is, so turn numbers and observation marks say who speaks.
    The answer is the last message.

    >>> turns = [("system", "s"), ("user", "a1"), ("assistant", "o1"), ("user", "a2")]
    >>> asked = [Message(role=role, content=content) for role, content in turns]
    >>> [(one.role, one.content) for one in single_turn([*asked, Message(role="assistant",
    ...     content="o2", loss=True)])]
    [('system', 's'), ('user', 'a1\\n\\no1\\n\\na2'), ('assistant', 'o2')]
    """
    *asked, answer = messages
    system = [message for message in asked if message.role == "system"]
    history = [message.content for message in asked if message.role != "system"]
    return [*system, Message(role="user", content="\n\n".join(history)), answer]
