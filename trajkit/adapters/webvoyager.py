"""WebVoyager runs: `task<Site>--<n>/interact_messages.json`, a list of chat messages.

Defined by the WebVoyager project. The path tells the task's id. The first user message holds
`Now given a task: ...  Please interact with <address> and get the answer.` and the first
observation; each answer is `Thought: ...` and `Action: Click [5]`, the last `ANSWER; ...`.

Before each call the runner replaces all but the latest observations by `A screenshot and some
texts. (Omitted in context.)`: those are null and marked as truncated. An observation is what stands
after the line that asks to analyse it: labelled elements, or in the text-only mode the tree. A
warning inside that line (a downloaded PDF) stays in front. Other user messages are the runner's
complaints about the answer before: they are its error, and come from the harness.

Smallest shape: [{"role": "system", "content": "..."}, {"role": "user", "content": "Now given a
task: ... Observation: ..."}, {"role": "assistant", "content": "Thought: ...\\nAction: Click [5]"}]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import orjson

from trajkit.adapters import Adapter
from trajkit.adapters.content import content_text
from trajkit.adapters.messages import is_message_list
from trajkit.model import Record, Reject, Step, Trajectory, to_json_text

_GIVEN = "Now given a task: "
_OMITTED = "(Omitted in context.)"
_ASKING = re.compile(
    r"Observation:(?P<warning>.*?) ?please analyze the (?:attached screenshot|accessibility tree)"
    r"[^\n]*(?:\n|\Z)",
    re.DOTALL,
)
_MARKS = re.compile(r"Thought:|Action:|Observation:")
_TASK_ID = re.compile(r"(?:^|/)task([^/]+?--\d+)")


def detect(value: Any) -> bool:
    """Return whether a value is a message list that opens with a task of this kind."""
    if not is_message_list(value, ("system", "user", "assistant")):
        return False
    opening = next((item.get("content") for item in value if item["role"] == "user"), None)
    said = _content(opening)[0]
    return said.startswith(_GIVEN) and "Please interact with" in said


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the one episode of a file."""
    messages = record.value
    ledger = record.ledger
    ledger.expect(range(len(messages)))
    system: list[str] = []
    task = initial = initial_media = None
    steps: list[dict[str, Any]] = []
    n_omitted = 0
    for number, message in enumerate(messages):
        said, media = _content(message.get("content"))
        role = message["role"]
        if role == "system":
            system.append(said)
            ledger.became(number, "context")
        elif role == "assistant":
            steps.append(_acted(said, len(steps)))
            ledger.became(number, "action")
        elif not steps:
            given, mark, seen_first = said.partition("Observation:")
            if said.startswith(_GIVEN):
                task = given.removeprefix(_GIVEN).rstrip()
                said = mark + seen_first
            initial, initial_media = _observed(said) or None, media
            ledger.became(number, "context")
        else:
            seen = _observed(said)
            is_omitted = seen is None
            n_omitted += is_omitted
            complains = not said.startswith("Observation:")
            steps[-1] |= {
                "observation": seen,
                "observation_kind": "none" if is_omitted else "text" if complains else "tree",
                "observation_source": "harness" if complains else "environment",
                "error": said if complains else None,
                "action_valid": steps[-1]["action_valid"] and not complains,
                "truncated": is_omitted,
                "media": media,
            }
            if is_omitted and media is None:
                ledger.left_out(number, "omitted_by_runner")
            else:
                ledger.became(number, "observation")
    found = _TASK_ID.search(record.origin.path)
    meta = {
        "task_id": found.group(1) if found else None,
        "n_omitted_observations": n_omitted,
        "initial_media": orjson.loads(initial_media) if initial_media else None,
    }
    yield Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        domain="web",
        agent="WebVoyager",
        task=task,
        agent_system_prompt="\n\n".join(system) or None,
        initial_state=initial,
        meta=to_json_text({key: item for key, item in meta.items() if item is not None}),
        steps=tuple(Step(**step) for step in steps),
    )


def _content(content: Any) -> tuple[str, str | None]:
    """Return a message's text without marks of its pictures, and the pictures."""
    if not isinstance(content, list):
        return content_text(content)[0] or "", None
    written = [part for part in content if isinstance(part, dict) and "text" in part]
    pictures = [part for part in content if part not in written]
    return content_text(written)[0] or "", content_text(pictures)[1]


def _observed(said: str) -> str | None:
    """Return what the environment showed, or null when the runner took it out."""
    if said.startswith("Observation:") and said.rstrip().endswith(_OMITTED):
        return None
    asking = _ASKING.match(said)
    if asking is None:
        return said
    warning = asking.group("warning").strip()
    shown = said[asking.end() :]
    return f"{warning}\n{shown}" if warning else shown


def _acted(said: str, turn: int) -> dict[str, Any]:
    parts = _MARKS.split(said)
    marks = _MARKS.findall(said)
    is_whole = "Thought:" in marks and "Action:" in marks
    action = parts[marks.index("Action:") + 1].strip() if "Action:" in marks else said
    thought = parts[marks.index("Thought:") + 1].strip() if "Thought:" in marks else ""
    name = re.match(r"[A-Za-z_]+", action) if is_whole else None
    return {
        "action": action,
        "action_kind": "gui" if action else "none",
        "action_name": name.group() if name else None,
        "action_valid": is_whole and bool(action),
        "turn": turn,
        "thought": thought or None,
        "observation_kind": "none",
    }


ADAPTER = Adapter(
    name="webvoyager",
    title="WebVoyager interact_messages.json",
    domains=("web",),
    detect=detect,
    extract=extract,
)
