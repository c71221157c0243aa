"""CodeAct chats: code between `<execute>` tags in the agent's text, an answer between `<solution>`.

Defined by CodeActInstruct (its harness is MINT's). Drift handled here: `<execute_bash>` and
`<execute_ipython>` of early OpenDevin data; `role`/`content` or `from`/`value` turns.

Traps: a user turn opens with `Observation:`, which is the harness's word, while the count of steps
left at its end is a part of what the agent was told and stays. A proposed solution is answered,
too (`Your answer is wrong.`): it is a message and the answer its observation. Words without any
tag that the harness answers are an action that could not be parsed. The model's name is a part of
the id.

Smallest shape: {"id": "set/kind/task/1/model-1/max5_p2", "conversations": [{"role": "user",
"content": "Task:\\n..."}, {"role": "assistant", "content": "<execute>\\n1 + 1\\n</execute>"}]}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from trajkit.adapters import Adapter
from trajkit.adapters.chat_rows import Turn, episode, head, heard, read, said
from trajkit.adapters.fields import text
from trajkit.adapters.json_calls import unparsed
from trajkit.adapters.messages import Message
from trajkit.adapters.text_calls import agent_message, code_tags
from trajkit.model import Record, Reject, Trajectory

_TOOLS = {"execute": "python", "execute_ipython": "python", "execute_bash": "bash"}
_GRAMMARS = (
    *(code_tags(tag, name) for tag, name in _TOOLS.items()),
    code_tags("solution", "solution", "message"),
)


def detect(value: Any) -> bool:
    """Return whether a value is a chat row in which an agent writes code between the tags."""
    found = head(value)
    declared = any("<execute>" in words for words in said(found, "system"))
    return any(
        f"<{tag}>" in words or (declared and "<solution>" in words)
        for words in said(found, "assistant")
        for tag in _TOOLS
    )


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the one episode of a row, or the reject of talk."""
    name = text(record.value.get("id")) or ""
    parts = name.split("/")
    model = parts[-2] if len(parts) >= 6 and parts[-1].startswith("max") else None
    yield from episode(
        record, ADAPTER.name, _messages(read(record)), model=model, meta={"id": name or None}
    )


def _messages(found: Iterable[Turn]) -> Iterator[Message]:
    turns = list(found)
    last = max((turn.number for turn in turns if turn.role == "assistant"), default=-1)
    message = None
    for turn in turns:
        if turn.role == "assistant":
            message = agent_message(turn.text, *_GRAMMARS, event=turn.number)
            if not message.calls and turn.number != last:
                message = heard(turn, text=None, calls=(unparsed(turn.text, kind="code"),))
            yield message
        elif message is None or turn.role == "system":
            yield heard(turn, text=turn.text.removeprefix("Task:\n"))
        else:
            waits = any(call.kind != "message" for call in message.calls)
            failed = not all(call.valid for call in message.calls)
            yield heard(
                turn,
                role="result" if waits else "user",
                text=turn.text.removeprefix("Observation:\n"),
                source="harness" if failed else "environment",
            )


ADAPTER = Adapter(
    name="codeact",
    title="CodeAct chats with <execute> and <solution>",
    domains=("swe", "terminal"),
    detect=detect,
    extract=extract,
)
