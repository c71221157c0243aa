"""BrowserGym episodes as JSON: the cleaned form of AgentLab runs and of AgentRewardBench.

Defined by the AgentRewardBench project, which turns AgentLab's pickled steps into one JSON file an
episode; AgentLab's own pickles are never loaded. Drift handled here: `goal` as text or as a list of
parts (`goal_object`); `reasoning` or `think`; `axtree` or only `axtree_pruned`; screenshots as
paths.

A step holds the state that the agent saw and the action that it then took. States are shifted: the
first is the initial state, the observation of step k is the state of step k+1, and the last state,
whose action is null, is an observation only. An action's error is the next state's
`last_action_error`.

Layout of a state; a line stands only where the log has its field, the tree is verbatim:

    Tab 0 (current): http://...
    Tab 1: http://...
    URL: http://...
    Title: ...
    Focused element: 12
    Error from last action: ...
    <empty line>
    <axtree>

Smallest shape: {"goal": "...", "steps": [{"url": "...", "axtree": "...", "action": "click('3')"},
{"url": "...", "axtree": "...", "action": null}]}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from trajkit.adapters import Adapter
from trajkit.adapters.content import content_text
from trajkit.model import OutcomeStatus, Record, Reject, Step, Trajectory, to_json_text

_TREES = ("axtree", "axtree_pruned")
_READ = ("goal", "agent", "model", "steps", "cum_reward")
_NAME = re.compile(r"\s*([A-Za-z_]\w*)\s*\(")


def detect(value: Any) -> bool:
    """Return whether a value is an episode with states as accessibility trees."""
    if not isinstance(value, dict) or "goal" not in value or "schema_version" in value:
        return False
    steps = value.get("steps")
    if not isinstance(steps, list) or not steps or not isinstance(steps[0], dict):
        return False
    return "action" in steps[0] and any(name in steps[0] for name in _TREES)


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the one episode of a document."""
    document = record.value
    steps = document["steps"]
    meta = {key: item for key, item in document.items() if key not in _READ}
    yield Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        domain="web",
        agent=_text(document.get("agent")),
        model=_text(document.get("model")),
        task=content_text(document["goal"])[0],
        initial_state=_state(steps[0]),
        outcome_status=_outcome(document),
        reward=_number(document.get("cum_reward")),
        exit_status=_end(document),
        meta=to_json_text(meta),
        steps=tuple(_steps(steps)),
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else None


def _end(document: dict[str, Any]) -> str | None:
    return next((word for word in ("terminated", "truncated") if document.get(word) is True), None)


def _outcome(document: dict[str, Any]) -> OutcomeStatus:
    """Return success for the full reward, failure for none at an end that was reached."""
    reward = _number(document.get("cum_reward"))
    if reward is None or _end(document) is None:
        return "unknown"
    if reward >= 1:
        return "success"
    return "failure" if reward <= 0 else "unknown"


def _steps(logged: list[dict[str, Any]]) -> Iterator[Step]:
    for number, raw in enumerate(logged):
        following = logged[number + 1] if number + 1 < len(logged) else None
        action = raw.get("action")
        if action is None and following is None:
            return
        observation = None if following is None else _state(following)
        text = content_text(action)[0] or ""
        name = _NAME.match(text)
        yield Step(
            action=text,
            action_kind="gui" if text.strip() else "none",
            action_name=name.group(1) if name else None,
            action_valid=bool(text.strip()),
            turn=number,
            thought=_text(raw.get("reasoning")) or _text(raw.get("think")),
            observation=observation,
            observation_kind="none" if observation is None else "tree",
            error=_text(following.get("last_action_error")) if following else None,
            media=_media(following),
        )


def _state(raw: dict[str, Any]) -> str | None:
    """Return the state as text, or null when the log has neither page nor tree."""
    lines: list[str] = []
    tabs = raw.get("open_pages_urls")
    active = raw.get("active_page_index")
    if isinstance(active, list):
        active = active[0] if active else None
    for number, url in enumerate(tabs if isinstance(tabs, list) else []):
        lines.append(f"Tab {number}{' (current)' if number == active else ''}: {url}")
    for label, key in (
        ("URL", "url"),
        ("Title", "title"),
        ("Focused element", "focused_element_bid"),
    ):
        if _text(raw.get(key)) is not None:
            lines.append(f"{label}: {raw[key]}")
    if _text(raw.get("last_action_error")) is not None:
        lines.append(f"Error from last action: {raw['last_action_error']}")
    tree = next((raw[name] for name in _TREES if isinstance(raw.get(name), str)), None)
    if tree is None:
        return "\n".join(lines) or None
    return "\n".join([*lines, "", tree]) if lines else tree


def _media(raw: dict[str, Any] | None) -> str | None:
    path = None if raw is None else _text(raw.get("screenshot_path"))
    if path is None:
        return None
    return to_json_text([{"mime": "image/png", "sha256": None, "bytes": None, "name": path}])


ADAPTER = Adapter(
    name="browsergym",
    title="BrowserGym episodes as JSON (cleaned AgentLab runs, AgentRewardBench)",
    domains=("web",),
    detect=detect,
    extract=extract,
)
