"""Rewrites the expected files beside the raw cases: `python tests/golden/update.py [adapter...]`.

The raw file goes through the reader and the detection of `ingest`, as a person's file would. What
comes out is written down in full, but for fields that have their default. The diff is the review.
"""

from __future__ import annotations

import json
import sys
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

from trajkit.ingest import Options, _episodes
from trajkit.model import Reject, Trajectory
from trajkit.readers import FileReader, InputFile

FOLDER = Path(__file__).parent


def raw_files() -> list[Path]:
    """Return the raw file of every case, in a fixed order."""
    return sorted(FOLDER.glob("*/*.raw.*"))


def expected_file(raw: Path) -> Path:
    """Return the place of the expected file of a case."""
    return raw.with_name(raw.name.split(".raw.")[0] + ".expected.json")


def read_case(raw: Path) -> list[Trajectory | Reject]:
    """Return everything `ingest` finds in a file, before it looks at domains and the schema."""
    name = f"{raw.parent.name}/{raw.name}"
    reader = FileReader(InputFile(raw, name, raw.stat().st_size))
    return [*_episodes(reader, Options()), *reader.rejects]


def as_value(found: Any) -> Any:
    """Return a dataclass as JSON values, without what has its default."""
    if isinstance(found, tuple):
        return [as_value(item) for item in found]
    if not is_dataclass(found):
        return found
    values: dict[str, Any] = {}
    if isinstance(found, Trajectory | Reject):
        values["is"] = type(found).__name__.lower()
    for item in fields(found):
        value = getattr(found, item.name)
        if item.default is MISSING or value != item.default:
            values[item.name] = as_value(value)
    return values


def main(adapters: list[str]) -> None:
    for raw in raw_files():
        if adapters and raw.parent.name not in adapters:
            continue
        value = [as_value(found) for found in read_case(raw)]
        text = json.dumps(value, indent=1, ensure_ascii=False) + "\n"
        expected_file(raw).write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
