"""Steps as a frame, for tests of what looks at steps alone."""

from __future__ import annotations

from typing import Any

import polars as pl

from trajkit.tables import TABLES

SCREEN = {"domain": "web", "action_kind": "gui", "observation_kind": "tree", "observation": "[1] a"}


def steps_frame(*steps: dict[str, Any]) -> pl.DataFrame:
    """Return steps of one terminal episode, each with its own turn, changed as given."""
    base = {
        "trajectory_id": "t",
        "domain": "terminal",
        "action_kind": "tool_call",
        "action": "x",
        "action_valid": True,
        "observation": "out",
        "observation_kind": "text",
        "observation_source": "environment",
        "truncated": False,
    }
    rows = [
        dict.fromkeys(TABLES["steps"].names) | base | {"step_index": number, "turn": number} | step
        for number, step in enumerate(steps)
    ]
    return pl.DataFrame(rows, infer_schema_length=None)
