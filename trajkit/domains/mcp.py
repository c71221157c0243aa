"""MCP and other tool servers: one JSON tool call, answered by the raw tool response."""

from __future__ import annotations

from trajkit.domains.base import Domain
from trajkit.fidelity.mcp import check
from trajkit.model import Trajectory

ACTION_SPACE = """\
The action is one tool call: a JSON object with `name` and `arguments`. Which tools exist, and what
their arguments mean, is shown by the calls of the episode itself."""

DEMONSTRATIONS = """\
### Turn 1

**Action:**
```json
{"name": "create_ticket", "arguments": {"title": "Lamp flickers", "priority": "low"}}
```

**Environment Observation:**
{"id": 412, "title": "Lamp flickers", "priority": "low", "state": "open"}

### Turn 2

**Action:**
```json
{"name": "get_ticket", "arguments": {"id": 999}}
```

**Environment Observation:**
{"error": {"code": "not_found", "message": "no ticket with id 999"}}"""


def claims(trajectory: Trajectory) -> bool:
    """Return whether any step calls a tool: asked last, so no other domain wanted the episode."""
    return any(step.action_kind == "tool_call" for step in trajectory.steps)


DOMAIN = Domain(
    name="mcp",
    title="Tool servers (MCP)",
    claims=claims,
    fence="json",
    action_space=ACTION_SPACE,
    demonstrations=DEMONSTRATIONS,
    check=check,
)
