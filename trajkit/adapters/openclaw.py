"""OpenClaw sessions: JSON lines in the Pi session format, version 3, with entries of its own.

OpenClaw runs the Pi agent core, so a session file has the shape that the `pi` adapter describes and
is read by the same reader. What tells it apart are entries whose `customType` or `provider` begins
with `openclaw`, and the entry `model-snapshot`. A gateway puts its own context before a turn
(`openclaw.runtime-context`): text of the program, never a task. An answer may name the call as its
`parentId` instead of the line that holds the call. Contexts that hang beside the talk count as
`branch_without_action`.

Smallest shape: {"type": "session", "version": 3, "id": "s", "timestamp": "...", "cwd": "/"}, then
{"type": "custom", "customType": "openclaw.state", "data": {}, "id": "c", "parentId": "s",
"timestamp": "..."} and messages as in `pi`
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trajkit.adapters import Adapter
from trajkit.adapters.pi_session import read
from trajkit.model import Record, Reject, Trajectory

_KINDS = ("custom", "custom_message", "model_change")


def detect(value: Any) -> bool:
    """Return whether a value is an entry that only OpenClaw writes."""
    if not isinstance(value, dict) or value.get("type") not in _KINDS or "parentId" not in value:
        return False
    kind, provider = value.get("customType"), value.get("provider")
    return (
        kind == "model-snapshot"
        or (isinstance(kind, str) and kind.startswith("openclaw"))
        or (isinstance(provider, str) and provider.startswith("openclaw"))
    )


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the live branch of a session, then those that were left."""
    yield from read(record, adapter="openclaw")


ADAPTER = Adapter(
    name="openclaw",
    title="OpenClaw sessions (Pi session format 3)",
    domains=("swe", "terminal", "mcp", "search"),
    detect=detect,
    extract=extract,
    unit="session",
)
