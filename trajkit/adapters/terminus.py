"""What Terminus, Harbor's own agent, writes into a log: its prompt, its replies, its feedback.

Used by the adapters `atif` and `harbor-traces`.
"""

from __future__ import annotations

import re

import orjson

from trajkit.adapters.messages import Call
from trajkit.model import to_json_text

UNPARSED = "Previous response had parsing errors"
"""How the harness answers a reply that it could not read."""

_TASK = re.compile(
    r"(.*?)(?:^|\n)Task Description:\n(.*?)\n+Current terminal state:\n(.*)\Z", re.DOTALL
)
_FEEDBACK = re.compile(
    r"^(Previous response had (parsing errors|warnings)|Current terminal state:)", re.MULTILINE
)


def split_terminus_task(text: str | None) -> tuple[str | None, str | None, str | None]:
    """Return prompt, task and first screen of the opening message; another text is a task.

    >>> split_terminus_task("Rules.\\n\\nTask Description:\\nx\\n\\nCurrent terminal state:\\n$ ")
    ('Rules.', 'x', '$ ')
    """
    match = _TASK.match(text or "")
    if match is None:
        return None, text, None
    prompt, task, state = match.groups()
    return prompt.strip() or None, task.strip(), state


def is_feedback(text: str | None) -> bool:
    """Return whether a text is the harness speaking, and no screen."""
    return text is not None and _FEEDBACK.match(text) is not None


def raw_batch(text: str | None) -> tuple[Call, ...]:
    """Return the batch of a reply as written: an object with `commands` of keystrokes.

    One screen answers the whole batch, so the batch is the action.

    >>> raw_batch('{"commands": [{"keystrokes": "ls\\\\n"}]}')[0].action
    '[{"keystrokes":"ls\\\\n"}]'
    """
    if text is None or not text.lstrip().startswith("{"):
        return ()
    try:
        commands = orjson.loads(text)["commands"]
    except (ValueError, KeyError):
        return ()
    if not isinstance(commands, list) or not all(
        isinstance(command, dict) and "keystrokes" in command for command in commands
    ):
        return ()
    return (Call(action=to_json_text(commands), name=None, kind="keystrokes"),)
