"""Single pieces of the Model Context Protocol: params, results, errors and content parts alone.

Specifications, documentation and test suites keep such pieces as files of their own. Without the
message around it a piece belongs to no call, so each is the reject `single_protocol_message`. Only
shapes that nothing else has are taken: params with protocol fields in `_meta` (2026-07-28), results
of a tool with `resultType`, `isError` or `structuredContent`, JSON-RPC errors by their code, links
to resources, and `tool_use` and `tool_result` content as sampling has it.

Smallest shape: {"code": -32700, "message": "..."}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trajkit.adapters import Adapter
from trajkit.model import Record, Reject, Trajectory

_RESULT = {"content", "structuredContent", "isError", "resultType", "_meta"}
_OWN = "io.modelcontextprotocol/"


def detect(value: Any) -> bool:
    """Return whether a value is one piece of the protocol."""
    if not isinstance(value, dict) or "jsonrpc" in value:
        return False
    keys = value.keys()
    if keys <= {"code", "message", "data"} and "message" in keys:
        return type(value.get("code")) is int and -32768 <= value["code"] <= -32000
    if isinstance(value.get("content"), list) and keys <= _RESULT and len(keys) > 1:
        return keys != {"content", "_meta"}
    kind = value.get("type")
    if kind == "resource_link":
        return {"uri", "name"} <= keys
    if kind == "tool_result":
        return "toolUseId" in keys
    if kind == "tool_use":
        return keys == {"type", "id", "name", "input"}
    meta = value.get("_meta")
    return isinstance(meta, dict) and any(str(key).startswith(_OWN) for key in meta)


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the reject of a piece."""
    record.ledger.expect([0])
    yield Reject(
        origin=record.origin,
        reason="single_protocol_message",
        message="a piece of one protocol message is no episode",
    )


ADAPTER = Adapter(
    name="mcp-fragment",
    title="Pieces of MCP messages (known, never an episode)",
    domains=("mcp",),
    detect=detect,
    extract=extract,
    generic=True,
)
