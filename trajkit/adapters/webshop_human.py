"""WebShop demonstrations by people: the pages that a browser asked for, one a line.

Defined by WebShop, whose server logs each page it gives: `page` (index, search_results, item_page,
item_sub_page, done), its `url`, the `goal`, and in `content` what the page was made of. AgentGym
ships these files as `all_trajs`.

The log holds requests, not clicks: the action is the address that was asked for and the
observation the `content` of that page as JSON text, since the page itself is not in the log. The
first line is the page at which the person began, and is the initial state. A page logged twice
in a row (a reload) is two requests. People acted, so there is no model and no thought. The last
page has the reward.

Smallest shape: {"page": "index", "url": "...", "goal": {"instruction_text": "..."}} then {"page":
"search_results", "url": "...", "goal": {...}, "content": {"keywords": ["..."]}}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trajkit.adapters import Adapter
from trajkit.adapters.fields import mapping, quantity, text
from trajkit.model import Record, Reject, Step, Trajectory, to_json_text


def detect(value: Any) -> bool:
    """Return whether a value is one page of a shop with its goal."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("page"), str)
        and isinstance(value.get("url"), str)
        and isinstance(value.get("goal"), dict)
        and isinstance(value["goal"].get("instruction_text"), str)
    )


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the one episode of a file."""
    record.ledger.expect(range(len(record.value)))
    pages = [(number, page) for number, page in enumerate(record.value) if detect(page)]
    for number, page in enumerate(record.value):
        if not detect(page):
            record.ledger.left_out(number, "unknown_event")
    (start, first), rest = pages[0], pages[1:]
    record.ledger.became(start, "context")
    if not rest:
        yield Reject(
            origin=record.origin, reason="no_action", message="only the first page was asked for"
        )
        return
    for number, _ in rest:
        record.ledger.became(number, "action")
    rewards = [p["reward"] for _, p in rest if quantity(p.get("reward")) is not None]
    yield Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        domain="web",
        task=first["goal"]["instruction_text"],
        initial_state=_state(first),
        reward=float(rewards[-1]) if rewards else None,
        exit_status=rest[-1][1]["page"],
        meta=to_json_text(
            {"goal": first["goal"], "reward_info": mapping(rest[-1][1].get("reward_info")) or None}
        ),
        steps=tuple(
            Step(
                action=page["url"],
                action_kind="gui",
                action_name=text(page["page"]),
                turn=turn,
                observation=_state(page),
                observation_kind="json",
            )
            for turn, (_, page) in enumerate(rest)
        ),
    )


def _state(page: dict[str, Any]) -> str:
    return to_json_text({key: page[key] for key in ("page", "content") if key in page})


ADAPTER = Adapter(
    name="webshop-human",
    title="WebShop demonstrations by people, page by page",
    domains=("web",),
    detect=detect,
    extract=extract,
    unit="session",
)
