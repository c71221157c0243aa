"""Mind2Web episodes: people's browsing with a snapshot of the page before each action.

Defined by the Mind2Web data set. Two forms are read: a row an episode with its `actions`, and the
multimodal release's row an action (`operation` and candidates as JSON text), where rows of one
`annotation_id` follow each other and `target_action_index` gives their order.

Pages stand before the action and are shifted: the first `cleaned_html` is the initial state, the
last action has no observation. `raw_html` and the candidates that were not meant are not kept. The
action is JSON text: the operation as logged, then `element` (tag and `backend_node_id` of the
element meant, as found in the page; null where cleaning took it out and `pos_candidates` is empty)
and `text`, the data set's line for the action. People acted, so there is no model.

Smallest shape: {"annotation_id": "...", "confirmed_task": "...", "action_reprs": ["[link] A ->
CLICK"], "actions": [{"cleaned_html": "<html ...", "operation": {"op": "CLICK", "value": ""},
"pos_candidates": []}]}
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import orjson

from trajkit.adapters import Adapter
from trajkit.adapters.fields import mapping, mappings, text
from trajkit.adapters.screens import media_text, named_picture
from trajkit.model import Record, Reject, Step, Trajectory, to_json_text

_KEPT = ("annotation_id", "website", "domain", "subdomain")


def detect(value: Any) -> bool:
    """Return whether a value is an episode, or a row of one action."""
    return (
        isinstance(value, dict)
        and "confirmed_task" in value
        and isinstance(value.get("annotation_id"), str)
        and (isinstance(value.get("actions"), list) or "cleaned_html" in value)
    )


def row_key(value: Any) -> str:
    """Return the id that rows of one episode share."""
    return str(value["annotation_id"])


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the episodes of rows of one id."""
    rows = record.value if isinstance(record.value, list) else [record.value]
    ledger = record.ledger
    single: list[tuple[Any, dict[str, Any]]] = []
    n_found = 0
    for number, row in enumerate(rows):
        if not isinstance(row.get("actions"), list):
            single.append((number, row))
            continue
        actions = [((number, n), action) for n, action in enumerate(mappings(row["actions"]))]
        ledger.expect(event for event, _ in actions)
        ledger.became(number, "context")
        yield _episode(record, row, actions, row.get("action_reprs"), n_found)
        n_found += 1
    if single:
        single.sort(key=lambda found: int(found[1].get("target_action_index") or 0))
        row = single[0][1]
        yield _episode(record, row, single, None, n_found)


def _episode(
    record: Record,
    row: dict[str, Any],
    actions: list[tuple[Any, dict[str, Any]]],
    lines: Any,
    n_before: int,
) -> Trajectory:
    listed = lines if isinstance(lines, list) and len(lines) == len(actions) else None
    pages = [text(action.get("cleaned_html")) for _, action in actions] + [None]
    steps: list[Step] = []
    for number, (event, action) in enumerate(actions):
        record.ledger.became(event, "action")
        follows = actions[number + 1][1] if number + 1 < len(actions) else {}
        operation = _operation(action.get("operation"))
        line = listed[number] if listed else action.get("target_action_reprs")
        done = operation | {"element": _element(action.get("pos_candidates")), "text": line}
        steps.append(
            Step(
                action=to_json_text(done),
                action_kind="gui",
                action_name=text(operation.get("op")),
                turn=number,
                observation=pages[number + 1],
                observation_kind="none" if pages[number + 1] is None else "html",
                media=media_text(named_picture(mapping(follows.get("screenshot")).get("path"))),
            )
        )
    meta = {key: row[key] for key in _KEPT if key in row}
    place = record.origin
    if n_before:
        place = replace(place, key=f"{row['annotation_id']}#{n_before + 1}")
    return Trajectory(
        origin=place,
        adapter=ADAPTER.name,
        domain="web",
        agent="human",
        task=text(row.get("confirmed_task")),
        initial_state=pages[0],
        meta=to_json_text(meta),
        steps=tuple(steps),
    )


def _decoded(value: Any) -> Any:
    """Return the value of JSON text; anything else as it is."""
    if not isinstance(value, str):
        return value
    try:
        return orjson.loads(value)
    except ValueError:
        return value


def _operation(value: Any) -> dict[str, Any]:
    found = _decoded(value)
    return found if isinstance(found, dict) else {"op": None, "value": found}


def _element(candidates: Any) -> dict[str, Any] | None:
    """Return the element that was meant: the original target if it is there, else the first."""
    decoded = _decoded(candidates)
    listed = mappings([_decoded(item) for item in decoded] if isinstance(decoded, list) else None)
    meant = [item for item in listed if item.get("is_original_target") is True] or listed
    if not meant:
        return None
    return {key: meant[0].get(key) for key in ("tag", "backend_node_id")}


ADAPTER = Adapter(
    name="mind2web",
    title="Mind2Web episodes and multimodal rows",
    domains=("web",),
    detect=detect,
    extract=extract,
    unit="rows",
    row_key=row_key,
)
