"""Rewrites the expected files beside the raw cases: `python tests/golden/update.py [adapter...]`.

The raw file goes through the reader and the detection of `ingest`, as a person's file would. What
comes out is written down in full, but for fields that have their default. The diff is the review.
"""

from __future__ import annotations

import json
import sys
from dataclasses import MISSING, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from trajkit.extraction import Account, known, read_unit, units
from trajkit.inputs import list_inputs
from trajkit.marks import finished
from trajkit.model import Reject, Trajectory

FOLDER = Path(__file__).parent


def raw_files() -> list[Path]:
    """Return the raw file (or folder, for a bundle) of every case, in a fixed order."""
    return sorted([*FOLDER.glob("*/*.raw.*"), *FOLDER.glob("*/*.raw")])


def case_name(raw: Path) -> str:
    """Return the name of a case."""
    return raw.name.removesuffix(".raw").split(".raw.")[0]


def expected_file(raw: Path) -> Path:
    """Return the place of the expected file of a case."""
    return raw.with_name(case_name(raw) + ".expected.json")


def read_case(raw: Path) -> list[Trajectory | Reject]:
    """Return everything `ingest` finds in a case, before it looks at domains and the schema."""
    outcomes, _ = account_of(raw)
    return outcomes


def account_of(raw: Path) -> tuple[list[Trajectory | Reject], Account]:
    """Return everything found in a case, and where its events went."""
    account = Account()
    candidates = known("auto")
    found = [
        found.outcome
        for unit in units(list_inputs((str(raw),)), candidates)
        for found in read_unit(unit, candidates, account)
    ]
    return [_in_folder(outcome, raw) for outcome in found], account


def _in_folder(outcome: Trajectory | Reject, raw: Path) -> Trajectory | Reject:
    """Return the outcome with the adapter's name before its path, as a reader of the diff wants."""
    if isinstance(outcome, Trajectory):
        outcome = finished(outcome)
    path = f"{raw.parent.name}/{outcome.origin.path}"
    return replace(outcome, origin=replace(outcome.origin, path=path))


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
