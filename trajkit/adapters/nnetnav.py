"""NNetNav rows: one row a step of a browsing episode, prompt and answer as chat messages.

Defined by the NNetNav data sets (WebArena and live sites). A row's user message holds, in this
order, `OBSERVATION:` (tabs and accessibility tree), `URL:`, `OBJECTIVE:` and `PREVIOUS ACTIONS:`,
a numbered list that begins with `1: None`. The answer stands as an `assistant` message or in
`output`, there inside the marks of a chat template; its last ``` fence is the action. Rows of one
`id` follow each other; their order is told by the length of the list.

The observation was seen before the action, so states are shifted: the first one is the initial
state, the observation of step k is the state of row k+1 (the text from tabs to `URL:` line as it
stands, which the data set may have cut to fit a prompt). The last action has none, nor has one
whose next row is missing. A previous prediction that the harness could not parse is told by its
list entry: that step is not valid.

Smallest shape: {"id": "a", "task_name": "a", "output": "... ```click [3]```", "messages": [{"role":
"user", "content": "OBSERVATION:\\n...\\nURL: u\\nOBJECTIVE: o\\nPREVIOUS ACTIONS:\\n1: None"}]}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from trajkit.adapters import Adapter
from trajkit.adapters.content import content_text
from trajkit.model import Record, Reject, Step, Trajectory, to_json_text

_OPEN = "OBSERVATION:\n"
_FENCE = re.compile(r"```(.*?)```", re.DOTALL)
_TEMPLATE = re.compile(r"<\|start_header_id\|>assistant<\|end_header_id\|>\n+|\n?<\|eot_id\|>\s*$")
_UNPARSED = "The previous prediction you issued was"


@dataclass(frozen=True, slots=True)
class _Prompt:
    """The parts of a user message."""

    state: str
    objective: str
    previous: str


@dataclass(frozen=True, slots=True)
class _Row:
    """One row taken apart."""

    state: str
    objective: str
    n_previous: int
    last_was_unparsed: bool
    answer: str
    system: str | None


def detect(value: Any) -> bool:
    """Return whether a value is a row of one step."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("id"), str)
        and isinstance(value.get("messages"), list)
        and _prompt(value["messages"]) is not None
    )


def _prompt(messages: list[Any]) -> _Prompt | None:
    """Return the user message of a row in its parts, or null when it is of another form."""
    for message in messages:
        if isinstance(message, dict) and message.get("role") == "user":
            text = message.get("content")
            if not isinstance(text, str) or not text.startswith(_OPEN):
                return None
            head, before, previous = text.partition("\nPREVIOUS ACTIONS:\n")
            state, mark, objective = head.rpartition("\nOBJECTIVE: ")
            if not before or not mark or "\nURL: " not in state:
                return None
            return _Prompt(state.removeprefix(_OPEN), objective, previous)
    return None


def row_key(value: Any) -> str:
    """Return the id that the rows of one episode share."""
    return str(value["id"])


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the episodes of the rows of one id; an id that starts anew is another run."""
    rows = record.value if isinstance(record.value, list) else [record.value]
    record.ledger.expect(range(len(rows)))
    for number in range(len(rows)):
        record.ledger.became(number, "action")
    runs: list[list[_Row]] = [[]]
    for row in map(_read, rows):
        if any(row.n_previous == other.n_previous for other in runs[-1]):
            runs.append([])
        runs[-1].append(row)
    first = rows[0]
    for number, run in enumerate(runs, 1):
        run.sort(key=lambda row: row.n_previous)
        key = record.origin.key if number == 1 else f"{first['id']}#{number}"
        steps = tuple(_steps(run))
        yield Trajectory(
            origin=replace(record.origin, key=key),
            adapter=ADAPTER.name,
            domain="web",
            task=run[0].objective,
            agent_system_prompt=run[0].system,
            initial_state=run[0].state,
            meta=to_json_text(
                {
                    "dataset": first.get("dataset"),
                    "task_name": first.get("task_name"),
                    "first_step": run[0].n_previous,
                    "missing_rows": run[-1].n_previous - run[0].n_previous + 1 - len(run),
                }
            ),
            steps=steps,
        )


def _read(row: dict[str, Any]) -> _Row:
    messages = row["messages"]
    prompt = _prompt(messages)
    if prompt is None:
        raise ValueError("a row without OBSERVATION, URL, OBJECTIVE and PREVIOUS ACTIONS")
    n_previous, last = _previous(prompt.previous)
    by_role = {item.get("role"): item.get("content") for item in messages if isinstance(item, dict)}
    answer = by_role.get("assistant") or _TEMPLATE.sub("", row.get("output") or "")
    return _Row(
        state=prompt.state,
        objective=prompt.objective,
        n_previous=n_previous,
        last_was_unparsed=last.startswith(_UNPARSED),
        answer=content_text(answer)[0] or "",
        system=content_text(by_role.get("system"))[0],
    )


def _previous(text: str) -> tuple[int, str]:
    """Return how many actions came before, and the last of them.

    Entries may hold lines of their own, so only the next expected number begins an entry.
    """
    number, start, position = 0, 0, 0
    while True:
        found = re.compile(rf"^{number + 1}: ", re.MULTILINE).search(text, position)
        if found is None:
            return max(number - 1, 0), text[start:]
        number, start, position = number + 1, found.end(), found.end()


def _steps(run: list[_Row]) -> Iterator[Step]:
    for number, row in enumerate(run):
        following = run[number + 1] if number + 1 < len(run) else None
        if following is not None and following.n_previous != row.n_previous + 1:
            following = None
        fences = list(_FENCE.finditer(row.answer))
        action = fences[-1].group(1).strip() if fences else row.answer
        refused = following is not None and following.last_was_unparsed
        around = row.answer[: fences[-1].start()] + row.answer[fences[-1].end() :] if fences else ""
        name = re.match(r"[a-z_]+", action) if fences else None
        yield Step(
            action=action,
            action_kind="gui",
            action_name=name.group() if name else None,
            action_valid=bool(fences) and not refused,
            turn=number,
            thought=around.strip() or None,
            observation=following.state if following else None,
            observation_kind="tree" if following else "none",
            error="unparsed_action" if refused else None,
        )


ADAPTER = Adapter(
    name="nnetnav",
    title="NNetNav rows, one step a row",
    domains=("web",),
    detect=detect,
    extract=extract,
    unit="rows",
    row_key=row_key,
)
