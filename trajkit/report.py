"""Reports: what a stage read, kept and dropped, on one line of JSON."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from trajkit.store import StoreWriter


class Report:
    """The account of one stage: `read == kept + sum(dropped)`, checked when it is finished."""

    def __init__(self, stage: str, out: str | Path | None = None) -> None:
        self.stage = stage
        self.out = None if out is None else str(out)
        self.read = 0
        self.kept = 0
        self.written = 0
        self.dropped: dict[str, int] = {}
        self.extra: dict[str, Any] = {}
        self.warnings: list[str] = []
        self._start = time.monotonic()
        self._seconds = 0.0

    def finish(self, writer: StoreWriter | None = None) -> Report:
        """Return the report itself, closed; writes the manifest of `writer` when given.

        Raises AssertionError when rows are unaccounted for: that is a bug, not a user's mistake.
        """
        if self.read != self.kept + sum(self.dropped.values()):
            raise AssertionError(
                f"{self.stage}: {self.read} read, {self.kept} kept, {self.dropped}"
            )
        self._seconds = round(time.monotonic() - self._start, 2)
        if writer is not None:
            writer.finish(self.as_dict(), self.dropped)
        return self

    def as_dict(self) -> dict[str, Any]:
        """Return the fixed fields first, then the stage's own."""
        fixed: dict[str, Any] = {
            "stage": self.stage,
            "read": self.read,
            "kept": self.kept,
            "dropped": self.dropped,
            "written": self.written,
            "out": self.out,
            "seconds": self._seconds,
        }
        return fixed | self.extra | ({"warnings": self.warnings} if self.warnings else {})

    def to_json(self) -> str:
        """Return one line of JSON."""
        return orjson.dumps(self.as_dict()).decode()

    def to_table(self) -> str:
        """Return lines for a person at a terminal."""
        return render(self.as_dict())


def under(counts: Mapping[str, int], prefix: str) -> dict[str, int]:
    """Return the counts whose names begin with a prefix and a dot, without it, sorted.

    >>> under({"split.train": 2, "kept": 5}, "split")
    {'train': 2}
    """
    return {
        name.removeprefix(prefix + "."): count
        for name, count in sorted(counts.items())
        if name.startswith(prefix + ".")
    }


def render(fields: Mapping[str, Any], depth: int = 0) -> str:
    """Return `name value` lines; mappings are laid out below their name, deep ones in one line.

    >>> print(render({"read": 3, "dropped": {"empty_file": 1}}))
    read     3
    dropped
      empty_file  1
    >>> print(render({"loss": {"mcp": {"echo": {"kept": {"turns": 1}}}}}))
    loss
      mcp
        echo  kept (turns 1)
    """
    shown = {name: value for name, value in fields.items() if value not in (None, {}, [])}
    width = max((len(name) for name in shown), default=0) + 2
    lines = []
    for name, value in shown.items():
        if isinstance(value, Mapping) and depth < 2:
            lines.append(name)
            lines.extend("  " + line for line in render(value, depth + 1).split("\n"))
        elif isinstance(value, list):
            lines.append(name)
            lines.extend(f"  {item}" for item in value)
        else:
            lines.append(f"{name:<{width}}{_in_line(value)}")
    return "\n".join(lines)


def _in_line(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(
            f"{name} ({_in_line(inner)})"
            if isinstance(inner, Mapping)
            else f"{name} {_in_line(inner)}"
            for name, inner in value.items()
        )
    return f"{value:,}" if isinstance(value, int) else str(value)
