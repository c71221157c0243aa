"""AgentInstruct rows (AgentTuning): six AgentBench environments as conversations.

Defined by the AgentInstruct data set; the environment is in the id (`os_12`, `db_`, `kg_`,
`alfworld_`, `webshop_`, `mind2web_`) and has a grammar of its own: `Think:`/`Act: bash` with a
fence, `Action: Operation` with one SQL fence, `Action: get_relations(...)`, `ACTION: go to ...`,
`search[...]` and `click[...]`, `Answer: C.` with `Action: CLICK`. Drift handled here: turns of
`from`/`value` with a `loss` flag, and of `role`/`content` without, as later copies have them.

Traps: the rules come in the first user turn, then a reply that does nothing (`Ok.`) or a whole
worked example in another machine, until `Now, I will start a new problem` or `A new question:`. The
rules are kept as system prompt, the example and that reply are left out (`demonstration`,
`acknowledgement`), and the task is the one asked last. `The output of the OS:` and `Observation:`
are the harness's words around an observation and are not part of it; an observation that ends in
`[truncated because the output is too long]` is truncated. A Mind2Web row is one choice on one page,
with no answer. ALFWorld's household is none of the seven domains, so its rows need `--domain`.

Smallest shape: {"id": "os_1", "conversations": [{"from": "human", "value": "..."}, {"from": "gpt",
"loss": true, "value": "Think: ...\\n\\nAct: bash\\n\\n```bash\\nls\\n```"}]}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from trajkit.adapters import Adapter, agent_grammars
from trajkit.adapters.agent_grammars import ENVIRONMENTS
from trajkit.adapters.chat_rows import episode, head, read
from trajkit.model import Record, Reject, Trajectory

_LISTS = ("conversations",)
_ID = re.compile(rf"\A({'|'.join(ENVIRONMENTS)})_\d+\Z")
_PAGE = re.compile(
    r"\A'''\n(.*)\n'''\n\nBased on the HTML webpage above, try to complete the following task:\n"
    r"Task: ([^\n]*)\n",
    re.DOTALL,
)


def detect(value: Any) -> bool:
    """Return whether a value is a row whose id names one of the environments."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("id"), str)
        and _ID.match(value["id"]) is not None
        and not {"reward", "item_id"} & value.keys()
        and bool(head(value, _LISTS))
    )


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the one episode of a row, without the example before it."""
    row = record.value
    match = _ID.match(row["id"])
    environment = match[1] if match else ""
    talk = agent_grammars.read_talk(read(record, _LISTS), environment, record.ledger)
    page = _PAGE.match(talk.opening) if environment == "mind2web" else None
    n_lesson = record.ledger.reasons()["demonstration"] or None
    yield from episode(
        record,
        ADAPTER.name,
        talk.messages,
        domain=ENVIRONMENTS[environment],
        task=page[2] if page else None,
        initial_state=talk.opening if page else talk.state,
        meta={"id": row["id"], "n_demonstration_turns": n_lesson},
    )


ADAPTER = Adapter(
    name="agentinstruct",
    title="AgentInstruct rows (AgentTuning): OS, DB, KG, ALFWorld, WebShop, Mind2Web",
    domains=("terminal", "mcp", "web"),
    detect=detect,
    extract=extract,
)
