"""Synatra rows: one page, an objective and the next browser action, as prompt and response.

Defined by the Synatra data set, which writes tutorials as if they were browsing. `prompt` is Python
with `website`, `observation` (tab line and accessibility tree), `objective` and past actions;
`response` holds comments, one call such as `click(element_id="93")` and a `# step summary`.

A row is one step and not an episode: rows of one tutorial are not marked as such, and the ids of
past actions belong to pages that are not in the row. So the page is the initial state, the call the
only action, and nothing was observed after it; past actions stay in `meta`.

Smallest shape: {"prompt": "...observation = \\"\\"\\"...\\"\\"\\"\\n\\n# objective\\nobjective =
\\"...\\"\\n\\n# past actions\\n...", "response": "# step 1: ...\\nclick(element_id=\\"1\\")"}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from trajkit.adapters import Adapter
from trajkit.model import Record, Reject, Step, Trajectory, to_json_text

_PROMPT = re.compile(
    r'website = "(?P<site>.*?)"\n.*?\nobservation = """(?P<page>.*)"""\n\n# objective\n'
    r'objective = "(?P<task>.*?)"\n\n# past actions\n(?P<past>.*)\Z',
    re.DOTALL,
)
_CALL = re.compile(r"^[ \t]*([a-z_]{2,40})\(.*\)[ \t]*$", re.MULTILINE)


def detect(value: Any) -> bool:
    """Return whether a value is a row with the prompt's three parts."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("response"), str)
        and isinstance(value.get("prompt"), str)
        and 'observation = """' in value["prompt"]
        and "\n# objective\nobjective = " in value["prompt"]
    )


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the one step of a row as an episode, or a reject when the prompt is no such Python."""
    row, ledger = record.value, record.ledger
    ledger.expect(("prompt", "response"))
    prompt = _PROMPT.search(row["prompt"])
    if prompt is None:
        ledger.leave_the_rest("malformed_record")
        yield Reject(
            origin=record.origin,
            reason="malformed_record",
            message="page, objective and past actions do not follow each other in the prompt",
            pointer="$.prompt",
        )
        return
    ledger.became("prompt", "context")
    ledger.became("response", "action")
    response = row["response"]
    calls = list(_CALL.finditer(response))
    words = _CALL.sub("", response).strip()
    yield Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        domain="web",
        task=prompt["task"],
        initial_state=prompt["page"],
        meta=to_json_text({"website": prompt["site"], "past_actions": prompt["past"]}),
        steps=(
            Step(
                action="\n".join(call[0].strip() for call in calls) if calls else response,
                action_kind="gui",
                action_name=calls[0][1] if calls else None,
                action_valid=bool(calls),
                turn=0,
                thought=(words or None) if calls else None,
                observation_kind="none",
            ),
        ),
    )


ADAPTER = Adapter(
    name="synatra",
    title="Synatra rows, one browser step each",
    domains=("web",),
    detect=detect,
    extract=extract,
)
