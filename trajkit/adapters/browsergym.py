"""BrowserGym episodes as JSON: AgentLab exports, and the cleaned runs of AgentRewardBench.

Three forms are read; AgentLab's own pickles are never loaded.
- One document an episode, as AgentRewardBench cleans AgentLab runs: `goal` and `steps`, the end and
  the reward in `summary_info` or at the top.
- One document an episode whose steps are AgentLab's `StepInfo` records, with the state in `obs`.
- A folder of such records, `step_0.json`, `step_1.json`, ..., beside `summary_info.json` and maybe
  `goal_object.json`: one bundle. A `summary_info.json` alone holds no action (`metadata_only`).

Drift handled here: `goal` as text or as a list of parts (`goal_object`), at the top or in the first
state; `reasoning` or `think`, in the step or in its `agent_info`; the tree as `axtree`,
`axtree_txt`, only `axtree_pruned`, or only the browser's own `axtree_object` (kept as JSON text);
screenshots as paths.

A step holds the state that the agent saw and the action that it then took. States are shifted: the
first is the initial state, the observation of step k is the state of step k+1, and the last state,
whose action is null, is an observation only. Where a step of the folder is missing, the action
before it has no observation. An action's error is the next state's `last_action_error`.

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
from trajkit.adapters.fields import first_text, integer, mapping, mappings, quantity
from trajkit.adapters.screens import media_text, named_picture
from trajkit.model import Bundle, OutcomeStatus, Record, Reject, Step, Trajectory, to_json_text

_TREES = ("axtree", "axtree_txt", "axtree_pruned")
_STATES = (*_TREES, "axtree_object", "obs")
_READ = ("goal", "goal_object", "agent", "model", "steps", "cum_reward", "task_info")
_SUMMARY = ("n_steps", "cum_reward", "err_msg", "terminated", "truncated")
_NAME = re.compile(r"\s*([A-Za-z_]\w*)\s*\(")
_STEP_FILE = re.compile(r"step_(\d+)\.json\Z")
_FILES = re.compile(r"(.+)/(?:step_\d+|summary_info|goal_object)\.json\Z")


def bundle(path: str) -> str | None:
    """Return the folder of an experiment."""
    found = _FILES.match(path)
    return found.group(1) if found else None


def detect(value: Any) -> bool:
    """Return whether a value is an episode, one step or the summary of it, or a folder of steps."""
    if isinstance(value, Bundle):
        return any(_STEP_FILE.match(name) and _is_step(value.files[name]) for name in value.files)
    if not isinstance(value, dict) or "schema_version" in value:
        return False
    if "stack_trace" in value and {"n_steps", "cum_reward", "err_msg"} <= value.keys():
        return True
    if _is_step(value):
        return "step" in value and "obs" in value
    steps = value.get("steps")
    if not isinstance(steps, list) or not steps:
        return False
    return _is_step(steps[0]) and ("goal" in value or _goal(value, steps[0]) is not None)


def _is_step(value: Any) -> bool:
    return isinstance(value, dict) and "action" in value and any(name in value for name in _STATES)


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the one episode of a document or folder."""
    document = _document(record)
    if not document["steps"]:
        message = "the summary of an episode, without its steps"
        yield Reject(origin=record.origin, reason="metadata_only", message=message)
        return
    steps = [_flat(step) for step in mappings(document["steps"])]
    record.ledger.expect(range(len(steps)))
    for place, step in enumerate(steps):
        acted = step.get("action") is not None
        record.ledger.became(place, "action" if acted else "observation")
    summary = mapping(document.get("summary_info")) or document
    meta = {key: item for key, item in document.items() if key not in _READ}
    yield Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        domain="web",
        agent=_text(document.get("agent")),
        model=_text(document.get("model")),
        task=_goal(document, steps[0]),
        initial_state=_state(steps[0]),
        outcome_status=_outcome(summary),
        reward=quantity(summary.get("cum_reward")),
        exit_status=_end(summary),
        meta=to_json_text(meta),
        steps=tuple(_steps(steps)),
    )


def _document(record: Record) -> dict[str, Any]:
    """Return any form of an episode as one document; the summary alone as one without steps."""
    value = record.value
    if not isinstance(value, Bundle):
        if "steps" in value:
            return dict(value)
        return {"steps": [value] if _is_step(value) else []}
    numbered: list[tuple[int, Any]] = []
    document: dict[str, Any] = {}
    for name in sorted(value.files):
        content = value.files[name]
        if found := _STEP_FILE.match(name):
            numbered.append((int(found.group(1)), content))
        else:
            key = name.removesuffix(".json")
            document[key] = content
            record.ledger.expect([name])
            record.ledger.became(name, "context")
    numbered.sort(key=lambda pair: pair[0])
    steps = [{"step": place, **mapping(content)} for place, content in numbered]
    return document | {"steps": [step for step in steps if len(step) > 1]}


def _flat(step: dict[str, Any]) -> dict[str, Any]:
    """Return a step with the fields of its state beside its action."""
    if not isinstance(step.get("obs"), dict):
        return step
    info = mapping(step.get("agent_info"))
    outer = {key: step[key] for key in ("step", "action", "reasoning", "think") if key in step}
    return {**step["obs"], "think": info.get("think"), **outer}


def _goal(document: dict[str, Any], first: dict[str, Any]) -> str | None:
    for place in (document, mapping(first.get("obs")), first):
        for key in ("goal", "goal_object"):
            if place.get(key):
                return content_text(place[key])[0]
    return None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _end(summary: dict[str, Any]) -> str | None:
    return next((word for word in ("terminated", "truncated") if summary.get(word) is True), None)


def _outcome(summary: dict[str, Any]) -> OutcomeStatus:
    """Return success for the full reward, failure for none at an end that was reached."""
    reward = quantity(summary.get("cum_reward"))
    if reward is None or _end(summary) is None:
        return "unknown"
    if reward >= 1:
        return "success"
    return "failure" if reward <= 0 else "unknown"


def _steps(logged: list[dict[str, Any]]) -> Iterator[Step]:
    for turn, raw in enumerate(logged):
        following = logged[turn + 1] if turn + 1 < len(logged) else None
        if following is not None and _skips(raw, following):
            following = None
        action = raw.get("action")
        if action is None and turn == len(logged) - 1:
            return
        observation = None if following is None else _state(following)
        text = content_text(action)[0] or ""
        name = _NAME.match(text)
        yield Step(
            action=text,
            action_kind="gui" if text.strip() else "none",
            action_name=name.group(1) if name else None,
            action_valid=bool(text.strip()),
            turn=turn,
            thought=first_text([raw], "reasoning", "think"),
            observation=observation,
            observation_kind="none" if observation is None else "tree",
            error=_text(following.get("last_action_error")) if following else None,
            media=media_text(named_picture(following.get("screenshot_path")))
            if following
            else None,
        )


def _skips(raw: dict[str, Any], following: dict[str, Any]) -> bool:
    """Return whether a numbered step lies between two that follow each other."""
    places = [integer(step.get("step", step.get("num"))) for step in (raw, following)]
    return None not in places and places[1] != (places[0] or 0) + 1


def _state(raw: dict[str, Any]) -> str | None:
    """Return the state as text, or null when the log has neither page nor tree."""
    lines: list[str] = []
    tabs = raw.get("open_pages_urls")
    active = raw.get("active_page_index")
    if isinstance(active, list):
        active = active[0] if active else None
    for place, url in enumerate(tabs if isinstance(tabs, list) else []):
        lines.append(f"Tab {place}{' (current)' if place == active else ''}: {url}")
    for label, key in (
        ("URL", "url"),
        ("Title", "title"),
        ("Focused element", "focused_element_bid"),
        ("Focused element", "focused_element"),
    ):
        if _text(raw.get(key)) is not None:
            lines.append(f"{label}: {raw[key]}")
    if _text(raw.get("last_action_error")) is not None:
        lines.append(f"Error from last action: {raw['last_action_error']}")
    tree = next((raw[name] for name in _TREES if isinstance(raw.get(name), str)), None)
    if tree is None and raw.get("axtree_object"):
        tree = to_json_text(raw["axtree_object"])
    if tree is None:
        return "\n".join(lines) or None
    return "\n".join([*lines, "", tree]) if lines else tree


ADAPTER = Adapter(
    name="browsergym",
    title="BrowserGym episodes as JSON (AgentLab exports, AgentRewardBench)",
    domains=("web",),
    detect=detect,
    extract=extract,
    bundle=bundle,
)
