"""AgentWorldBench rows (`<domain>_test.jsonl`): one row a turn to predict, many a trajectory.

Defined by the benchmark of Qwen-AgentWorld. `prompt` and `response` hold all turns of the
trajectory, whatever turn the row asks for (`turn_idx`, from 1), so the rows of one trajectory are
one episode: the longest is kept, and `meta` lists the turns that were asked for. A row belongs to
the trajectory of its id, system text and first prompt, since ids come back in the android file.

Traps: `prompt` and `response` may be one text; `task` may be a path whose last part is the domain;
the answer's mark and the request for `<predicted_observation>` tags are not part of turn or answer;
an action may hold fences. The rows have no agent prompt: `system_str` tells the world model what to
simulate and is kept as the simulation instruction. `trajkit build-bench` writes rows too; in those
a prompt may hold several turns, all but the last without an answer, and control tokens that were
broken up are whole again.

Smallest shape: {"task": "mcp", "id": 1, "prompt": ["### Turn 1\\n**Action:**\\n```\\n{}\\n```"],
"response": ["**Environment Observation:**\\n{}"], "current_prompt": "...", "system_str": "...",
"turn_idx": 1, "total_turns": 1}
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import orjson

from trajkit.adapters import Adapter
from trajkit.adapters.fields import integer, mapping, text
from trajkit.adapters.messages import observation_kind
from trajkit.control_tokens import unescape
from trajkit.model import (
    DOMAINS,
    ActionKind,
    Domain,
    ObservationKind,
    Record,
    Reject,
    Step,
    Trajectory,
    to_json_text,
)

_KEYS = {"task", "prompt", "response", "turn_idx", "total_turns"}
_OURS = {"trajectory_id", "step_index"}
_ANSWER = re.compile(r"\A\*\*Environment Observation:\*\*[ \t]*\n?")
_TURN = re.compile(r"^### Turn \d+[ \t]*(?:\n|\Z)", re.MULTILINE)
_TASK = re.compile(r"^\*\*Task Instruction:\*\*[ \t]*\n", re.MULTILINE)
_STATE = re.compile(r"^\*\*Current [^*\n]{0,40}State:\*\*[ \t]*\n", re.MULTILINE)
_FENCE = re.compile(r"`{3,}")
_NAME = re.compile(r"\s*(?:[\w.]+\.)?([A-Za-z_]\w*)\s*\(")
_ACTIONS: dict[str, ActionKind] = {"terminal": "keystrokes", "web": "gui", "android": "gui"}
_SEEN: dict[str, ObservationKind] = {
    "terminal": "screen",
    **dict.fromkeys(("web", "os", "android"), "tree"),
}


@dataclass(frozen=True, slots=True)
class Asked:
    """One turn of a prompt."""

    action: str
    """What the agent did."""
    task: str | None = None
    """What it was asked to do; in the first turn of GUI domains."""
    state: str | None = None
    """The first state; in the first turn of GUI domains."""


def detect(value: Any) -> bool:
    """Return whether a value is a row of the benchmark."""
    row = mapping(value)
    if not set(row) >= _KEYS or not {"system_str", "current_prompt"} & set(row):
        return False
    return all(isinstance(row[name], list | str) for name in ("prompt", "response"))


def row_key(value: Any) -> str:
    """Return what the rows of one trajectory share."""
    first = next(iter(_texts(value["prompt"])), None)
    place = [value.get("task"), value.get("id"), value.get("system_str"), first]
    return hashlib.sha256(to_json_text(place).encode()).hexdigest()[:16]


def _texts(value: Any) -> list[str]:
    listed = [value] if isinstance(value, str) else value
    return [one if isinstance(one, str) else to_json_text(one) for one in listed]


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the trajectory of some rows; another one where rows differ under one id."""
    kept: dict[str, list[int]] = {}
    rows = record.value
    order = sorted(range(len(rows)), key=lambda n: (-len(_texts(rows[n]["prompt"])), n))
    for number in order:
        prompts = _texts(rows[number]["prompt"])
        whole = next((k for k in kept if orjson.loads(k)[: len(prompts)] == prompts), None)
        kept.setdefault(whole or to_json_text(prompts), []).append(number)
    for place, numbers in enumerate(sorted(kept.values(), key=min)):
        for number in numbers:
            record.ledger.left_out(number, "repeated_prefix")
        record.ledger.became(numbers[0], "action")
        key = record.origin.key or "rows"
        origin = replace(record.origin, key=f"{key}~{place}" if place else key)
        turns = sorted(n for m in numbers if (n := integer(rows[m].get("turn_idx"))) is not None)
        yield _episode(replace(record, origin=origin), rows[numbers[0]], turns)


def _episode(record: Record, row: dict[str, Any], turns: list[int]) -> Trajectory | Reject:
    whole = unescape if set(row) >= _OURS else str
    prompts, answers = _texts(row["prompt"]), _texts(row["response"])
    named = str(row.get("task")).rsplit("/", 1)[-1]
    domain = cast(Domain, named) if named in DOMAINS else None
    steps: list[Step] = []
    first = Asked("")
    for number, prompt in enumerate(prompts):
        asked = [Asked(whole(one.action), one.task, one.state) for one in parse_prompt(prompt)]
        first = first if number else asked[0]
        steps += [_step(one.action, None, len(steps) + n, named) for n, one in enumerate(asked)]
        if number < len(answers):
            seen = whole(_ANSWER.sub("", answers[number], count=1))
            steps[-1] = _step(asked[-1].action, seen, len(steps) - 1, named)
    for answer in answers[len(prompts) :]:
        steps.append(_step("", whole(_ANSWER.sub("", answer, count=1)), len(steps), named))
    if not prompts:
        return Reject(origin=record.origin, reason="no_action", message="a row without prompts")
    meta = {
        "id": row.get("id"),
        "asked_turns": turns,
        "total_turns": row.get("total_turns"),
    }
    return Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        domain=domain,
        task=whole(first.task) if first.task else None,
        initial_state=whole(first.state) if first.state else None,
        simulation_instruction=text(row.get("system_str")),
        meta=to_json_text({name: value for name, value in meta.items() if value is not None}),
        steps=tuple(steps),
    )


def _step(action: str, observation: str | None, turn: int, domain: str) -> Step:
    seen = observation_kind(observation)
    return Step(
        action=action,
        action_kind=_kind(action, domain),
        action_name=_name(action),
        turn=turn,
        observation=observation,
        observation_kind=seen if observation is None else _SEEN.get(domain, seen),
    )


def _kind(action: str, domain: str) -> ActionKind:
    if not action.strip():
        return "none"
    is_call = action.lstrip().startswith("{") and '"name"' in action
    return _ACTIONS.get(domain, "code" if domain == "os" or not is_call else "tool_call")


def _name(action: str) -> str | None:
    """Return the name of a JSON call, or the word before the first bracket."""
    if action.lstrip()[:1] in ("{", "["):
        try:
            return text(mapping(orjson.loads(action)).get("name"))
        except ValueError:
            return None
    match = _NAME.match(action)
    return match[1] if match else None


def parse_prompt(prompt: str) -> list[Asked]:
    """Return the turns of a prompt, of which only the last has an answer.

    >>> [turn.action for turn in parse_prompt("### Turn 1\\n**Action:**\\n```\\nls\\n```\\n")]
    ['ls']
    """
    pieces: list[str] = []
    start = 0
    for match in _TURN.finditer(prompt):
        # A heading inside an action or a state opens no turn: the fence before it is not closed.
        closes = prompt.startswith("```\n\n", match.start() - 5)
        if closes and _fenced(prompt[start : match.start()].rstrip(), at_end=True) is not None:
            pieces.append(prompt[start : match.start()])
            start = match.start()
    return [_turn(piece) for piece in [*pieces, prompt[start:]]]


def _turn(piece: str) -> Asked:
    found = _fenced(piece, at_end=False)
    if found is None:
        head, mark, action = piece.rpartition("**Action:**")
        found = (head, action.strip("\n")) if mark else ("", _TURN.sub("", piece, count=1))
    head, action = found
    task, state = _TASK.search(head), _STATE.search(head)
    end = state.start() if state else len(head)
    return Asked(
        action=action,
        task=_trimmed(head[task.end() : end]) if task and task.end() <= end else None,
        state=_trimmed(head[state.end() :]) if state else None,
    )


def _trimmed(section: str) -> str:
    """Return a section without the lines that part it from the next mark."""
    return section.removesuffix("\n\n") if section.endswith("\n\n") else section.removesuffix("\n")


def _fenced(piece: str, *, at_end: bool) -> tuple[str, str] | None:
    """Return what stands before the action, and the action in its fence.

    The last fence closes it, and the nearest one above of the same length, behind the mark, opens.
    """
    lines = piece.split("\n")
    last = len(lines) - 1
    while last > 0 and not (_FENCE.fullmatch(lines[last])):
        if at_end:
            return None
        last -= 1
    ticks = lines[last]
    for place in range(last - 1, 0, -1):
        opens = lines[place].startswith(ticks) and "`" not in lines[place][len(ticks) :]
        if opens and lines[place - 1].rstrip() == "**Action:**":
            head = "\n".join(lines[: place - 1])
            return head + "\n" if place > 1 else "", "\n".join(lines[place + 1 : last])
    return None


ADAPTER = Adapter(
    name="agentworldbench",
    title="AgentWorldBench rows",
    domains=DOMAINS,
    detect=detect,
    extract=extract,
    unit="rows",
    row_key=row_key,
)
