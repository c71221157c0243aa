"""What moved against an earlier evaluation, with the interval of the difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from trajkit import schema
from trajkit.errors import TrajkitError, alternatives
from trajkit.evaluate.answers import Outcome
from trajkit.evaluate.results import MEASURED, prefixes, scored_rows
from trajkit.evaluate.statistics import Estimate, difference, estimate, macro
from trajkit.model import DOMAINS


def load_baseline(path: str | Path, scorer: str) -> dict[str, Any]:
    """Return an earlier `results.json`.

    Raises TrajkitError when it is none, or was scored by others: scores of different judges do
    not compare.
    """
    try:
        document: Any = orjson.loads(Path(path).read_bytes())
    except (OSError, ValueError) as error:
        raise TrajkitError(
            str(path), f"cannot be read: {error}", "give the results.json of an earlier evaluation"
        ) from None
    if not schema.is_valid("evaluation", document):
        pointer, message = schema.explain("evaluation", document) or ("$", "")
        raise TrajkitError(
            str(path), f"{pointer}: {message}", "give the results.json of an earlier evaluation"
        )
    known = {row["scorer"] for row in document["measures"]}
    if scorer not in known:
        raise TrajkitError(
            str(path),
            f"was not scored by {scorer} but by {alternatives(known)}",
            "scores of different judges do not compare: use the same --judge for both",
        )
    return dict(document)


def compare(
    path: str | Path,
    document: Mapping[str, Any],
    outcomes: Sequence[Outcome],
    measured: Sequence[Mapping[str, Any]],
    scorer: str,
) -> dict[str, Any]:
    """Return the differences by domain and axis, failures counted 0 on both sides.

    When `rows.parquet` lies beside the baseline and holds the same questions, differences are
    taken row by row, which is far sharper; else the two runs count as independent.
    """
    before = _rows_before(Path(path).with_name("rows.parquet"), document, outcomes, scorer)
    moved = []
    for axis in MEASURED:
        parts: list[Estimate] = []
        for domain in (*DOMAINS, "macro", "micro"):
            if before is None:
                found = _unpaired(document["measures"], measured, (scorer, domain, axis))
            elif domain == "macro":
                found = macro(parts)
            else:
                found = estimate(
                    (f"{one.domain}:{one.trajectory}", score - before[one.key][axis])
                    for one, score in scored_rows(outcomes, scorer, axis)
                    if (one.domain == domain or domain == "micro") and one.key in before
                )
                if found is not None and domain != "micro":
                    parts.append(found)
            moved.append({"domain": domain, "axis": axis, **_interval(found)})
    return {
        "bench": document["bench"]["name"],
        "world_model": document["world_model"]["name"],
        "scorer": scorer,
        "paired": before is not None,
        "moved": moved,
    }


def _interval(found: Estimate | None) -> dict[str, Any]:
    interval = None if found is None else found.interval()
    low, high = interval or (None, None)
    return {
        "difference": None if found is None else found.mean,
        "low": low,
        "high": high,
        "clear": low is not None and high is not None and not low <= 0 <= high,
    }


def _unpaired(
    before: Sequence[Mapping[str, Any]],
    after: Sequence[Mapping[str, Any]],
    place: tuple[str, str, str],
) -> Estimate | None:
    sides = []
    for rows in (after, before):
        for row in rows:
            if (row["scorer"], row["domain"], row["axis"]) == place and row["score"] is not None:
                sides.append(
                    Estimate(
                        mean=row["score"],
                        standard_error=row["standard_error"],
                        degrees=row["degrees"],
                        n_rows=row["rows"],
                        n_trajectories=row["trajectories"],
                    )
                )
    return difference(*sides) if len(sides) == 2 else None


def _rows_before(
    path: Path, document: Mapping[str, Any], outcomes: Sequence[Outcome], scorer: str
) -> dict[str, dict[str, float]] | None:
    """Return the earlier scores by question, null when the questions are not the same."""
    if not path.is_file():
        return None
    prefix = prefixes([judge["name"] for judge in document["judges"]]).get(scorer)
    wanted = ["key", "failure", *(f"{prefix}_{axis}" for axis in MEASURED)]
    try:
        frame = pl.read_parquet(path, columns=wanted)
    except (OSError, pl.exceptions.PolarsError):
        return None
    if set(frame["key"]) != {one.key for one in outcomes}:
        return None
    before = {}
    for key, failure, *scores in frame.iter_rows():
        if failure is not None:
            scores = [0.0] * len(MEASURED)
        if None not in scores:
            before[key] = dict(zip(MEASURED, scores, strict=True))
    return before
