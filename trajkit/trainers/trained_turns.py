"""What of a conversation bears on its loss."""

from __future__ import annotations

from collections.abc import Sequence

from trajkit.trainers.base import Message


def trained_turns(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages up to the last one that is trained on; all when none is.

    What comes after changes no loss. Left in, it costs tokens, and ms-swift trains on the
    end-of-turn token of a row's last message whatever its flag says.

    >>> turns = [Message(role="assistant", content=c, loss=c in "ab") for c in "abc"]
    >>> [message.content for message in trained_turns(turns)]
    ['a', 'b']
    """
    trained = [place for place, message in enumerate(messages, 1) if message.loss]
    return messages[: trained[-1]] if trained else messages
