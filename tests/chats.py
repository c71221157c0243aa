"""Small chat rows for tests: an episode of tool calls in the shape of OpenAI messages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from trajkit.ingest import Options, ingest
from trajkit.transitions import transitions


def chat(
    turns: Sequence[tuple[str, dict[str, Any], str | None]],
    *,
    task: str = "do it",
    system: str | None = None,
    **columns: Any,
) -> dict[str, Any]:
    """Return a row whose turns are `(tool, arguments, answer)`; a null answer never came."""
    messages: list[dict[str, Any]] = []
    if system is not None:
        messages.append({"role": "system", "content": system})
    messages.append({"role": "user", "content": task})
    for number, (tool, arguments, answer) in enumerate(turns):
        call = {"name": tool, "arguments": json.dumps(arguments)}
        messages.append(
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"c{number}", "type": "function", "function": call}],
            }
        )
        if answer is not None:
            messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": answer})
    return {"messages": messages, **columns}


def write_rows(path: Path, rows: Iterable[Any]) -> Path:
    """Return the path after writing rows as JSON lines."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return path


def ingested(folder: Path, rows: Iterable[Any], domain: str = "mcp") -> Path:
    """Return `folder/raw`, a store of these chat rows."""
    path = write_rows(folder / "rows.jsonl", rows)
    options = Options(domain=domain)
    ingest((str(path),), folder / "raw", options=options, overwrite=True, quiet=True)
    return folder / "raw"


def cut(folder: Path, rows: Iterable[Any], domain: str = "mcp", **options: Any) -> Path:
    """Return `folder/tr`, the same with its transitions."""
    raw = ingested(folder, rows, domain)
    transitions(raw, folder / "tr", overwrite=True, quiet=True, **options)
    return folder / "tr"
