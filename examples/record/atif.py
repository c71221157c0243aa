"""A small writer of ATIF-v1.7 files, shared by the recording programs.

The format: one JSON object with `schema_version`, `agent` and `steps`. A step has a number, a
source (`system`, `user` or `agent`), a message, and, for the agent, `tool_calls` and the
`observation` that came back. Only the standard library is used.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

SCHEMA_VERSION = "ATIF-v1.7"


def now() -> str:
    """Return the present moment as ISO 8601 text in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass
class Episode:
    """One run, filled step by step while it happens, then written once."""

    agent_name: str
    tool_definitions: Sequence[Mapping[str, Any]] = ()
    """What the agent may call, each in the form `{"type": "function", "function": {...}}`."""
    agent_version: str = "1.0"
    model_name: str = "scripted-policy"
    session_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    steps: list[dict[str, Any]] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)

    def add_message(self, source: str, message: str, observation: str | None = None) -> None:
        """Add a step of the user, the system, or of an agent that only speaks.

        `observation` is what the environment shows at that moment; only a system step may have one.
        """
        step: dict[str, Any] = {"source": source, "message": message}
        if observation is not None:
            step["observation"] = {"results": [{"content": observation}]}
        self._add(step)

    def add_action(
        self,
        message: str,
        calls: Sequence[tuple[str, Mapping[str, Any]]],
        results: Sequence[str] | None,
        *,
        linked: bool = True,
        reasoning: str | None = None,
        time: str | None = None,
    ) -> None:
        """Add an agent step: what it said, what it called, and what came back.

        `linked` gives the n-th result the id of the n-th call. Without it the results carry no id,
        as where one screen answers a whole batch of keystrokes. `results=None` says that the
        environment gave no answer. `time` is the moment of the action, by default this one.
        """
        number = len(self.steps) + 1
        step: dict[str, Any] = {"source": "agent", "message": message}
        if reasoning is not None:
            step["reasoning_content"] = reasoning
        ids = [f"call_{number}_{index}" for index in range(1, len(calls) + 1)]
        step["tool_calls"] = [
            {"tool_call_id": call_id, "function_name": name, "arguments": dict(arguments)}
            for call_id, (name, arguments) in zip(ids, calls, strict=True)
        ]
        if results is not None and linked:
            step["observation"] = {
                "results": [
                    {"source_call_id": call_id, "content": content}
                    for call_id, content in zip(ids, results, strict=True)
                ]
            }
        elif results is not None:
            step["observation"] = {"results": [{"content": content} for content in results]}
        self._add(step, time)

    def _add(self, step: dict[str, Any], time: str | None = None) -> None:
        numbered = {"step_id": len(self.steps) + 1, "timestamp": time or now()}
        self.steps.append(numbered | step)

    def as_record(self) -> dict[str, Any]:
        """Return the whole file as one JSON object, keys in the order of the format."""
        agent: dict[str, Any] = {
            "name": self.agent_name,
            "version": self.agent_version,
            "model_name": self.model_name,
        }
        if self.tool_definitions:
            agent["tool_definitions"] = [dict(tool) for tool in self.tool_definitions]
        record: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "session_id": self.session_id,
            "agent": agent,
            "steps": self.steps,
        }
        if self.extra:
            record["extra"] = self.extra
        return record

    def write(self, path: Path) -> None:
        """Write the file as UTF-8 with two spaces of indent, making its folder when needed."""
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.as_record(), ensure_ascii=False, indent=2)
        path.write_text(text + "\n", encoding="utf-8")
