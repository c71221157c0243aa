"""Adapters: one file per raw log format, one line in the table below.

An adapter is a pure function of one decoded record. To add one: write the file, add the line, put
a case under `tests/golden/<name>/`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Literal

from trajkit.errors import TrajkitError, alternatives, quote
from trajkit.model import Record, Reject, Trajectory

TABLE: dict[str, str] = {
    "androidcontrol": "trajkit.adapters.androidcontrol",
    "atif": "trajkit.adapters.atif",
    "browsergym": "trajkit.adapters.browsergym",
    "claude-code": "trajkit.adapters.claude_code",
    "mcp-jsonrpc": "trajkit.adapters.mcp_jsonrpc",
    "mini-swe-agent": "trajkit.adapters.mini_swe_agent",
    "nnetnav": "trajkit.adapters.nnetnav",
    "openai-chat": "trajkit.adapters.openai_chat",
    "swe-agent": "trajkit.adapters.swe_agent",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """How one raw log format is told apart and read."""

    name: str
    """Name in the table and in `--format`."""
    title: str
    """The format in a few words, with its versions."""
    domains: tuple[str, ...]
    """Domains its episodes can belong to."""
    detect: Callable[[Any], bool]
    """Whether one decoded value (document, line or array element) has this format."""
    extract: Callable[[Record], Iterator[Trajectory | Reject]]
    """All episodes of one record, a parent before its sub-agents."""
    unit: Literal["value", "rows", "session"] = "value"
    """What a record is: one value, a run of values with one `row_key`, or the whole file."""
    row_key: Callable[[Any], str] | None = None
    """For `rows`: values of one key that follow each other make one record."""
    bundle: Callable[[str], str | None] | None = None
    """Which files belong together, told by their paths alone: the name of the bundle that a path
    belongs to (most often its folder), or null. Files of one bundle become one `Bundle`, given to
    `detect` and, if that takes it, to `extract`; else each file is read by itself."""
    generic: bool = False
    """Whether another adapter that takes the same value knows it better."""


@cache
def load(name: str) -> Adapter:
    """Return the adapter of a name.

    Raises TrajkitError that lists the names when there is none.
    """
    if name not in TABLE:
        raise TrajkitError(
            "--format", f"no adapter {quote(name)}", f"one of auto, {alternatives(TABLE)}"
        )
    adapter: Adapter = import_module(TABLE[name]).ADAPTER
    return adapter


@cache
def all_adapters() -> tuple[Adapter, ...]:
    """Return every adapter, in the order of the table."""
    return tuple(load(name) for name in TABLE)


def claims(value: Any, adapters: tuple[Adapter, ...]) -> list[Adapter]:
    """Return the adapters that take a decoded value for their own; generic ones stand back."""
    owners = [adapter for adapter in adapters if adapter.detect(value)]
    if len(owners) > 1:
        owners = [owner for owner in owners if not owner.generic] or owners
    return owners
