"""The folder of a Harbor trial: what its result, configuration and verifier say of the episode.

Used by the adapter `atif`, whose docstring says how the files of a trial lie.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from trajkit.adapters.fields import mapping, quantity, text
from trajkit.model import OutcomeStatus

_FILES = (
    re.compile(r"(.+)/agent/(?:.+/)?trajectory(?:\.[^/]+)?\.json"),
    re.compile(r"(.+)/verifier/reward\.(?:txt|json)"),
    re.compile(r"(.+)/(?:result|config|trajectory(?:\.[^/]+)?)\.json"),
    # Converters and tests put a name before the files of one run.
    re.compile(r"(.+\.trajectory)(?:\.[^/]+)?\.json"),
)


def bundle(path: str) -> str | None:
    """Return the trial, or the run, that a file belongs to."""
    return next((match[1] for one in _FILES if (match := one.fullmatch(path))), None)


def is_run(name: str) -> bool:
    """Return whether a file of a bundle holds a run, and not what is said of one."""
    return not name.startswith("verifier/") and name not in ("result.json", "config.json")


def is_trial(value: Any) -> bool:
    """Return whether a value is the result of a trial."""
    keys = {"trial_name", "task_name", "verifier_result", "exception_info"}
    return isinstance(value, dict) and len(keys & value.keys()) >= 3


def is_job(value: Any) -> bool:
    """Return whether a value is the result of a job, which runs many trials."""
    return isinstance(value, dict) and {"n_total_trials", "stats"} <= value.keys()


def facts(files: Mapping[str, Any], looked_at: list[str]) -> dict[str, Any]:
    """Return the columns that a trial's files fill, and `meta`; adds the names it used to a list.

    The reward is that of the result, else of the verifier's file: its `reward`, or the only one it
    gives. A reward of 1 is success, of 0 or less failure; anything between says neither.
    """
    found: dict[str, Any] = {}
    for name in ("result.json", "config.json", "verifier/reward.json", "verifier/reward.txt"):
        if name in files and files[name] is not None:
            found[name] = files[name]
            looked_at.append(name)
    result, config = mapping(found.get("result.json")), mapping(found.get("config.json"))
    rewards = mapping(result.get("verifier_result")).get("rewards")
    for name in ("verifier/reward.json", "verifier/reward.txt"):
        rewards = found.get(name) if rewards is None else rewards
    reward = _reward(rewards)
    failure = mapping(result.get("exception_info"))
    agent = mapping(result.get("agent_info"))
    meta = {
        "trial_name": text(result.get("trial_name")) or text(config.get("trial_name")),
        "task_name": text(result.get("task_name")) or text(mapping(config.get("task")).get("path")),
        "task_checksum": text(result.get("task_checksum")),
        "rewards": rewards if isinstance(rewards, dict) else None,
        "exception_message": text(failure.get("exception_message")),
    }
    return {
        "agent": text(agent.get("name")) or text(mapping(config.get("agent")).get("name")),
        "model": text(mapping(agent.get("model_info")).get("name"))
        or text(mapping(config.get("agent")).get("model_name")),
        "reward": reward,
        "outcome_status": _outcome(reward),
        "exit_status": text(failure.get("exception_type")),
        "started_at": text(result.get("started_at")),
        "meta": {name: value for name, value in meta.items() if value is not None},
    }


def _reward(rewards: Any) -> float | None:
    if isinstance(rewards, dict):
        values = [value for value in map(quantity, rewards.values()) if value is not None]
        only = values[0] if len(values) == 1 else None
        return quantity(rewards.get("reward")) if "reward" in rewards else only
    if isinstance(rewards, str):
        try:
            return float(rewards)
        except ValueError:
            return None
    return quantity(rewards)


def _outcome(reward: float | None) -> OutcomeStatus:
    if reward is None or 0 < reward < 1:
        return "unknown"
    return "success" if reward >= 1 else "failure"
