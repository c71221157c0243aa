"""Adapters: one file per raw log format, one line in the table below.

An adapter is a pure function of one decoded record. To add one: write the file, add the line, put
a case under `tests/golden/<name>/`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from dataclasses import fields as fields_of
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from trajkit.errors import TrajkitError, alternatives, quote
from trajkit.model import DOMAINS, Record, Reject, Trajectory

TABLE: dict[str, str] = {
    "adp": "trajkit.adapters.adp",
    "agentgym": "trajkit.adapters.agentgym",
    "agentinstruct": "trajkit.adapters.agentinstruct",
    "agentnet": "trajkit.adapters.agentnet",
    "agentnet-recording": "trajkit.adapters.agentnet_recording",
    "agentworldbench": "trajkit.adapters.agentworldbench",
    "aider": "trajkit.adapters.aider",
    "aitw": "trajkit.adapters.aitw",
    "aitz": "trajkit.adapters.aitz",
    "amex": "trajkit.adapters.amex",
    "androidcontrol": "trajkit.adapters.androidcontrol",
    "androidlab": "trajkit.adapters.androidlab",
    "anthropic": "trajkit.adapters.anthropic",
    "antigravity": "trajkit.adapters.antigravity",
    "asciinema": "trajkit.adapters.asciinema",
    "atif": "trajkit.adapters.atif",
    "bfcl": "trajkit.adapters.bfcl",
    "browser-use": "trajkit.adapters.browser_use",
    "browsergym": "trajkit.adapters.browsergym",
    "claude-code": "trajkit.adapters.claude_code",
    "cline": "trajkit.adapters.cline",
    "codeact": "trajkit.adapters.codeact",
    "codex": "trajkit.adapters.codex",
    "copilot-cli": "trajkit.adapters.copilot_cli",
    "cursor": "trajkit.adapters.cursor",
    "droid": "trajkit.adapters.droid",
    "gemini": "trajkit.adapters.gemini",
    "gemini-cli": "trajkit.adapters.gemini_cli",
    "goose": "trajkit.adapters.goose",
    "grok-cli": "trajkit.adapters.grok_cli",
    "gui-odyssey": "trajkit.adapters.gui_odyssey",
    "harbor-traces": "trajkit.adapters.harbor_traces",
    "hermes": "trajkit.adapters.hermes",
    "hermes-agent": "trajkit.adapters.hermes_agent",
    "inspect": "trajkit.adapters.inspect",
    "kimi-cli": "trajkit.adapters.kimi_cli",
    "langchain": "trajkit.adapters.langchain",
    "langfuse": "trajkit.adapters.langfuse",
    "langsmith": "trajkit.adapters.langsmith",
    "litellm-log": "trajkit.adapters.litellm_log",
    "mcp-fragment": "trajkit.adapters.mcp_fragment",
    "mcp-jsonrpc": "trajkit.adapters.mcp_jsonrpc",
    "mcpmark": "trajkit.adapters.mcpmark",
    "mind2web": "trajkit.adapters.mind2web",
    "mini-swe-agent": "trajkit.adapters.mini_swe_agent",
    "miro": "trajkit.adapters.miro",
    "nnetnav": "trajkit.adapters.nnetnav",
    "omniact": "trajkit.adapters.omniact",
    "openai-chat": "trajkit.adapters.openai_chat",
    "openclaw": "trajkit.adapters.openclaw",
    "opencode": "trajkit.adapters.opencode",
    "openhands": "trajkit.adapters.openhands",
    "openhands-sdk": "trajkit.adapters.openhands_sdk",
    "osworld": "trajkit.adapters.osworld",
    "otel-genai": "trajkit.adapters.otel_genai",
    "pi": "trajkit.adapters.pi",
    "qwen-code": "trajkit.adapters.qwen_code",
    "responses": "trajkit.adapters.responses",
    "screenagent": "trajkit.adapters.screenagent",
    "sharegpt": "trajkit.adapters.sharegpt",
    "smolagents": "trajkit.adapters.smolagents",
    "swe-agent": "trajkit.adapters.swe_agent",
    "swe-gym": "trajkit.adapters.swe_gym",
    "swe-smith": "trajkit.adapters.swe_smith",
    "synatra": "trajkit.adapters.synatra",
    "tagged-search": "trajkit.adapters.tagged_search",
    "tau-bench": "trajkit.adapters.tau_bench",
    "tau2": "trajkit.adapters.tau2",
    "terminal-bench": "trajkit.adapters.terminal_bench",
    "toolathlon": "trajkit.adapters.toolathlon",
    "toolbench": "trajkit.adapters.toolbench",
    "turkingbench": "trajkit.adapters.turkingbench",
    "webarena": "trajkit.adapters.webarena",
    "weblinx": "trajkit.adapters.weblinx",
    "webshop-human": "trajkit.adapters.webshop_human",
    "webthinker": "trajkit.adapters.webthinker",
    "webvoyager": "trajkit.adapters.webvoyager",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
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
    """Return the adapter of a name, or a person's own, named as `package.module:Class`.

    A class of one's own has the fields of `Adapter` as attributes and methods; only `detect` and
    `extract` are needed. The current folder is searched too.

    Raises TrajkitError that lists the names when there is none, and when a class cannot be used.
    """
    if ":" in name:
        return _own(name)
    if name not in TABLE:
        raise TrajkitError(
            "--format",
            f"no adapter {quote(name)}",
            f"one of auto, {alternatives(TABLE)}, or package.module:Class",
        )
    adapter: Adapter = import_module(TABLE[name]).ADAPTER
    return adapter


def _own(name: str) -> Adapter:
    module, _, attribute = name.partition(":")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    try:
        found = getattr(import_module(module), attribute)
        value = found() if isinstance(found, type) else found
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise TrajkitError(
            "--format",
            f"cannot load {quote(name)}: {quote(str(error))}",
            "give package.module:Class, a class that needs no arguments",
        ) from error
    if isinstance(value, Adapter):
        return value
    if not all(callable(getattr(value, method, None)) for method in ("detect", "extract")):
        raise TrajkitError(
            "--format",
            f"{quote(name)} has no methods `detect` and `extract`",
            "docs/adapters.md shows an adapter in 40 lines",
        )
    given = {f.name: getattr(value, f.name) for f in fields_of(Adapter) if hasattr(value, f.name)}
    return Adapter(**{"name": attribute, "title": attribute, "domains": DOMAINS} | given)


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
