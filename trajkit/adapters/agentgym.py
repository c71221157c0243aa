"""AgentGym and ETO rows: one environment's talk as `from`/`value` turns, with a reward.

Defined by the AgentGym project (AgentTraj-L, its evaluation logs) and by ETO. Drift handled here:
AgentGym names the environment in `item_id` (`webshop_12`) and flags turns with `loss`; ETO has
`id`, `reward` and `source`; evaluation logs add `reward` and `success`. An agent's turn is
`Thought:` with `Action:`, for tools with `Action Input:` as JSON in the next line or behind `with`;
the answer may open with `Observation:`, which is the harness's word and not part of it.

Traps: the first human turn holds the rules and the first reply is a warm-up (`OK`), so the task
is what the second human turn asks. A reward is the environment's score, not a success: only
`success` tells the outcome. A row without any turn is a question of the evaluation set.

Smallest shape: {"id": "webshop_1", "reward": 1.0, "conversations": [{"from": "human", "value":
"..."}, {"from": "gpt", "value": "Thought: ...\\nAction: search[...]"}]}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from trajkit.adapters import Adapter, agent_grammars
from trajkit.adapters.agent_grammars import ENVIRONMENTS
from trajkit.adapters.chat_rows import episode, head, read, said
from trajkit.adapters.fields import first_text, quantity, text
from trajkit.model import OutcomeStatus, Record, Reject, Trajectory

_LISTS = ("conversations",)
_ENVIRONMENT = re.compile(r"\A([A-Za-z]+)")
_DOMAINS = ENVIRONMENTS | {
    "intercode": "mcp",
    "sqlgym": "mcp",
    "bird": "mcp",
    "weather": "mcp",
    "movie": "mcp",
    "academia": "mcp",
    "todo": "mcp",
    "sheet": "mcp",
    "lmrlgym": None,
}


def detect(value: Any) -> bool:
    """Return whether a value is a row with a reward or an item id whose agent writes actions."""
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("item_id"), str) and value.get("conversations") == []:
        return True
    named = first_text([value], "item_id", "id") is not None
    found = head(value, _LISTS)
    return (
        named
        and ("item_id" in value or "reward" in value)
        and any(agent_grammars.is_act(text) for text in said(found, "assistant"))
    )


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the one episode of a row, or the reject of a question."""
    row, found = record.value, read(record, _LISTS)
    if not found:
        yield Reject(
            origin=record.origin, reason="question_only", message="a question of an evaluation set"
        )
        return
    name = first_text([row], "item_id", "id") or ""
    match = _ENVIRONMENT.match(name)
    environment = match[1].lower() if match else ""
    talk = agent_grammars.read_talk(found, environment, record.ledger)
    reward = row.get("reward")
    yield from episode(
        record,
        ADAPTER.name,
        talk.messages,
        domain=_DOMAINS.get(environment),
        model=text(row.get("model")),
        initial_state=talk.state,
        outcome_status=_outcome(row.get("success")),
        reward=float(reward) if quantity(reward) is not None else None,
        meta={"id": name, "source": text(row.get("source")), "game_file": row.get("game_file")},
    )


def _outcome(success: Any) -> OutcomeStatus | None:
    if success in (True, False):
        return "success" if success else "failure"
    return None


ADAPTER = Adapter(
    name="agentgym",
    title="AgentGym and ETO rows, with a reward",
    domains=("web", "mcp", "terminal"),
    detect=detect,
    extract=extract,
)
