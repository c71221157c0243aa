"""Harbor's export of trials as `traces`: chat rows, one for each call of the model.

Written by Harbor (`traces export`, also onto the Hub) from the trajectories of its agents. The rows
`episode-0`, `episode-1`, ... of one trial follow each other, and each repeats the talk so far: the
longest is kept, the others are left out as `repeated_prefix`. A history that was shortened begins a
new talk, another trajectory whose key is its episode.

Traps. All that is not the agent is of role `user`: where several such turns stand at the beginning,
the first is the system prompt, the second the task, what follows the harness's; the first of a
Terminus is both. Thoughts stand in
`<think>`, calls in `<tool_call>`; a reply of Terminus is the JSON it wrote, and its batch of
keystrokes the action. A reply it could not read is talk that the harness answers. `result` is the
reward as number or text, or the class of the exception.

Smallest shape: {"conversations": [{"role": "user", "content": "..."}, {"role": "assistant",
"content": "<tool_call>\\n{\\"name\\": \\"f\\", \\"arguments\\": {}}\\n</tool_call>"}], "agent":
"openhands", "model": "m", "task": "hello-world", "episode": "episode-0", "run_id": "...",
"trial_name": "...", "result": null}
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import Any

from trajkit.adapters import Adapter, terminus
from trajkit.adapters.content import content_text
from trajkit.adapters.fields import meta_text, quantity, text
from trajkit.adapters.messages import Message, fold, is_message_list, tools_text
from trajkit.adapters.prefixes import longest
from trajkit.adapters.terminus import split_terminus_task
from trajkit.adapters.text_calls import agent_message, tool_call_tags
from trajkit.model import (
    ObservationSource,
    OutcomeStatus,
    Record,
    Reject,
    Step,
    Trajectory,
    to_json_text,
)

_KEYS = {"agent", "conversations", "episode", "trial_name"}


def detect(value: Any) -> bool:
    """Return whether a value is a row of the export."""
    return (
        isinstance(value, dict)
        and value.keys() >= _KEYS
        and is_message_list(value["conversations"], ("system", "user", "assistant", "tool"))
    )


def _row_key(row: Any) -> str:
    return f"{row.get('run_id')}/{row.get('trial_name')}" if isinstance(row, dict) else ""


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the longest talk of each family of rows."""
    rows = record.value if isinstance(record.value, list) else [record.value]
    kept = longest([[to_json_text(turn) for turn in row["conversations"]] for row in rows])
    numbers = sorted(set(kept))
    for i, row in enumerate(rows):
        record.ledger.expect((i, j) for j in range(len(row["conversations"])))
        if kept[i] != i:
            record.ledger.left_out(i, "repeated_prefix")
            for j in range(len(row["conversations"])):
                record.ledger.left_out((i, j), "repeated_prefix")
        elif isinstance(record.value, list):
            record.ledger.became(i, "context")
    for i in numbers:
        origin = record.origin
        if len(numbers) > 1:
            origin = replace(origin, key=f"{origin.key or '$'}/{rows[i]['episode']}~{i}")
        folded = fold(_messages(rows[i], i), record.ledger)
        if not folded.acts:
            message = "a trace in which the agent does nothing"
            yield Reject(origin=origin, reason="no_action", message=message)
            continue
        row = rows[i]
        prompt, task, state = split_terminus_task(folded.task)
        reward = _reward(row.get("result"))
        outcome: OutcomeStatus = "unknown"
        if reward is not None and not 0 < reward < 1:
            outcome = "success" if reward >= 1 else "failure"
        yield Trajectory(
            origin=origin,
            adapter=ADAPTER.name,
            agent=text(row["agent"]),
            model=text(row.get("model")),
            task=task,
            agent_system_prompt=folded.agent_system_prompt or prompt,
            action_space=tools_text(row.get("tool_definitions")),
            initial_state=state,
            outcome_status=outcome,
            reward=reward,
            exit_status=text(row.get("result")) if reward is None else None,
            started_at=text(row.get("date")),
            meta=meta_text(
                folded,
                task_name=text(row.get("task")),
                run_id=text(row.get("run_id")),
                trial_name=text(row["trial_name"]),
                episode=text(row["episode"]),
                n_calls=sum(holder == i for holder in kept),
            ),
            steps=tuple(map(_finished, folded.steps)),
        )


def _reward(result: Any) -> float | None:
    try:
        return float(result) if isinstance(result, str) else quantity(result)
    except ValueError:
        return None


def _messages(row: dict[str, Any], i: int) -> Iterator[Message]:
    turns = row["conversations"]
    roles = [turn["role"] for turn in turns]
    n_before = roles.index("assistant") if "assistant" in roles else len(roles)
    # The opening message of Terminus holds prompt and task.
    own_task = bool(turns) and split_terminus_task(content_text(turns[0].get("content"))[0])[0]
    waiting = 0
    for j, turn in enumerate(turns):
        said, media = content_text(turn.get("content"))
        event: Hashable = (i, j)
        if turn["role"] == "assistant":
            message = agent_message(said, tool_call_tags, event=event)
            if not message.calls:
                message = replace(message, calls=terminus.raw_batch(message.text))
            waiting = len(message.calls)
            yield message
        elif j < n_before:
            is_prompt = turn["role"] == "system" or (n_before > 1 and j == 0 and not own_task)
            source: ObservationSource | None = "harness" if j > (not own_task) else None
            yield Message(
                role="system" if is_prompt else "user", text=said, source=source, event=event
            )  # fmt: skip
        elif waiting:
            waiting -= 1
            own: ObservationSource | None = "harness" if terminus.is_feedback(said) else None
            yield Message(role="result", text=said, source=own, media=media, event=event)
        else:
            yield Message(role="user", text=said, source="harness", media=media, event=event)


def _finished(step: Step) -> Step:
    """Return a step with what only the pair of action and observation tells."""
    if step.action_kind == "message" and (step.observation or "").startswith(terminus.UNPARSED):
        return replace(step, action_valid=False)
    if step.action_kind == "keystrokes" and step.observation_source == "environment":
        return replace(step, observation_kind="screen" if step.observation is not None else "none")
    return step


ADAPTER = Adapter(
    name="harbor-traces",
    title="Harbor traces: chat rows, one for each call of the model",
    domains=("terminal", "swe", "mcp", "web"),
    detect=detect,
    extract=extract,
    unit="rows",
    row_key=_row_key,
)
