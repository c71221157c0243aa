"""The public JSON Schemas (draft 2020-12): load, validate fast, explain slowly."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from trajkit.errors import TrajkitError, alternatives, quote

_PACKAGED = Path(__file__).parent / "schemas"
# An editable install has the schemas where the repository has them.
FOLDER = _PACKAGED if _PACKAGED.is_dir() else Path(__file__).parent.parent / "schemas"

TABLE_SCHEMAS = {
    "trajectories": "trajectory",
    "transitions": "transition",
    "rejects": "reject",
    "duplicates": "duplicate",
    "verdicts": "verdict",
}
"""Schema that describes the rows of each table (`steps` lie inside `trajectory`)."""


def names() -> list[str]:
    """Return the names of all schemas, sorted."""
    return sorted(path.name.removesuffix(".schema.json") for path in FOLDER.glob("*.schema.json"))


@cache
def load(name: str) -> dict[str, Any]:
    """Return one schema as a dict.

    Raises TrajkitError that lists the names when there is none of that name.
    """
    path = FOLDER / f"{name}.schema.json"
    if not path.is_file():
        hint = f"one of {alternatives(names())}"
        raise TrajkitError("--schema", f"no schema {quote(name)}", hint)
    schema: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return schema


@cache
def _validator(name: str) -> Any:
    import jsonschema_rs

    return jsonschema_rs.Draft202012Validator(load(name))


def is_valid(name: str, document: Any) -> bool:
    """Return whether a decoded document fits a schema; the fast pass."""
    valid: bool = _validator(name).is_valid(document)
    return valid


def explain(name: str, document: Any) -> tuple[str, str] | None:
    """Return the JSON path and message of the most telling fault, or None when it fits."""
    import jsonschema

    validator = jsonschema.Draft202012Validator(load(name))
    fault = jsonschema.exceptions.best_match(validator.iter_errors(document))
    if fault is None:
        return None
    if fault.validator == "required":
        return fault.json_path, str(fault.message)
    rule = f"{fault.validator} = {quote(fault.validator_value)}"
    return fault.json_path, f"{quote(fault.instance)} does not fit {rule}"
