"""Sessions of command-line agents for tests: lines as they lie on disk, and a store of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from chats import write_rows

from trajkit.ingest import Options, ingest
from trajkit.report import Report
from trajkit.store import Store

SESSION = "c1a0de00-0000-4000-8000-000000000001"


def rows_of(store: Path, table: str) -> list[dict[str, Any]]:
    """Return all rows of a table."""
    return [row for file in Store(store).files(table) for row in pq.read_table(file).to_pylist()]


def taken_in(folder: Path, **files: Iterable[Any]) -> tuple[Report, Path]:
    """Return the report and the store of sessions, each a file of JSON lines by its name."""
    logs = folder / "logs"
    logs.mkdir(exist_ok=True)
    for name, rows in files.items():
        write_rows(logs / f"{name}.jsonl", rows)
    report = ingest((str(logs),), folder / "raw", options=Options(domain="swe"), quiet=True)
    return report, folder / "raw"


def only_session(folder: Path, rows: Iterable[Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the one episode of a file, with its metadata read, and its steps."""
    _, store = taken_in(folder, session=rows)
    (episode,) = rows_of(store, "trajectories")
    return episode | {"meta": json.loads(episode["meta"])}, rows_of(store, "steps")


def line(kind: str, content: Any, uuid: str, parent: str | None, **fields: Any) -> dict[str, Any]:
    """Return a line of a Claude Code session; text of the agent is one block."""
    if kind == "assistant" and isinstance(content, str):
        content = [{"type": "text", "text": content}]
    message = {"role": kind, "content": content} | fields.pop("message", {})
    return {
        "type": kind,
        "uuid": uuid,
        "parentUuid": parent,
        "sessionId": SESSION,
        "message": message,
    } | fields


def use(id_: str, command: str) -> dict[str, Any]:
    """Return a block that calls the shell."""
    return {"type": "tool_use", "id": id_, "name": "Bash", "input": {"command": command}}


def answer(id_: str, content: str) -> dict[str, Any]:
    """Return a block that answers a call."""
    return {"type": "tool_result", "tool_use_id": id_, "content": content}


def reply(id_: str, output_tokens: int) -> dict[str, Any]:
    """Return the fields that all lines of one reply of the model share."""
    usage = {"input_tokens": 500, "output_tokens": output_tokens}
    return {"id": id_, "type": "message", "model": "example-model", "usage": usage}


def codex(kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    """Return a line of a rollout."""
    return {"timestamp": "2026-07-01T06:00:00Z", "type": kind, "payload": payload}


def spoken(role: str, text: str) -> dict[str, Any]:
    """Return a message of a rollout."""
    part = {"type": "output_text" if role == "assistant" else "input_text", "text": text}
    return codex("response_item", {"type": "message", "role": role, "content": [part]})
