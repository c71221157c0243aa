"""Rewrites the pages that are made from the code: `python docs/pages.py [LOGS]`.

`formats.md` comes from the docstrings of the adapters. With a folder of logs, `loss.md` shows what
became of each of its events.
"""

from __future__ import annotations

import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

from trajkit.adapters import TABLE, load
from trajkit.ingest import ingest
from trajkit.ledger import FATES
from trajkit.loss import loss_report
from trajkit.store import Store

FOLDER = Path(__file__).parent


def formats_page() -> str:
    """Return the page of all formats, each with its adapter's own words."""
    parts = [
        "# Formats\n",
        "Made from the adapters by `make docs`; `docs/adapters.md` says how to add one.\n",
    ]
    parts.append("| format | what | domains |\n|---|---|---|")
    for name in TABLE:
        adapter = load(name)
        parts.append(f"| [{name}](#{name}) | {adapter.title} | {', '.join(adapter.domains)} |")
    for name in TABLE:
        text = (import_module(TABLE[name]).__doc__ or "").strip()
        parts.append(f"\n## {name}\n\n{_with_fence(text)}")
    return "\n".join(parts) + "\n"


def _with_fence(text: str) -> str:
    """Return a docstring with its example shape as a block."""
    body, mark, shape = text.partition("Smallest shape:")
    if not mark:
        return text
    return f"{body}Smallest shape:\n\n```\n{shape.strip()}\n```"


def loss_page(logs: str) -> str:
    """Return the page that shows what became of the events of some logs."""
    with tempfile.TemporaryDirectory() as folder:
        report = ingest((logs,), f"{folder}/store", quiet=True)
        account = loss_report(Store(f"{folder}/store"))
    lines = [
        "# What became of every event\n",
        f"Made by `make docs` from {report.extra['files']} public sample files that the project",
        "is tried on. An event is the smallest thing a log writes for itself: a line, a message, a",
        "step. Each is counted once. `none` stands for records that no adapter knows: some of the",
        "files are no logs, on purpose.\n",
        _row("adapter", "records", "episodes", "events", *FATES, "left out", "by reason"),
        _row("---", *["---:"] * 8, "---"),
    ]
    for name, numbers in account["adapters"].items():
        lines.append(_account_row(name, numbers))
    lines.append(_account_row("**all**", account["total"]))
    lines += ["\n## By file\n", _row("file", "adapter", "events", *FATES, "by reason")]
    lines.append(_row("---", "---", *["---:"] * 5, "---"))
    for file in account["files"]:
        numbers = [file[fate] for fate in FATES]
        path = f"`{file['origin_path']}`"
        lines.append(_row(path, file["adapter"], file["events"], *numbers, _reasons(file)))
    return "\n".join(lines) + "\n"


def _account_row(name: str, numbers: dict[str, Any]) -> str:
    counts = [numbers[key] for key in ("records", "episodes", "events", *FATES, "n_left_out")]
    return _row(name, *counts, _reasons(numbers))


def _reasons(numbers: dict[str, Any]) -> str:
    return ", ".join(f"{reason} {n}" for reason, n in numbers["left_out"].items())


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def main(arguments: list[str]) -> None:
    (FOLDER / "formats.md").write_text(formats_page(), encoding="utf-8")
    if arguments:
        (FOLDER / "loss.md").write_text(loss_page(arguments[0]), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
