"""Check stores and files against the schemas and against what a schema cannot say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from trajkit import schema
from trajkit.errors import TrajkitError, alternatives
from trajkit.inputs import list_inputs
from trajkit.progress import Progress
from trajkit.readers import FileReader
from trajkit.report import Report
from trajkit.store import MANIFEST, Store
from trajkit.tables import TABLES, file_sha256

MAX_SHOWN = 20


def validate(
    paths: tuple[str, ...], *, schema_name: str | None = None, quiet: bool = False
) -> Report:
    """Return the report of checking stores and files; `dropped` counts what is faulty, by kind.

    A store counts its episodes, a file its documents. The first faults are in `faults`, each with
    its place.

    Raises TrajkitError when a path does not exist or a schema is unknown.
    """
    report = Report("validate")
    faults: list[str] = []
    counts: Counter[str] = Counter()
    for path in paths:
        if (Path(path) / MANIFEST).exists():
            found = _store_faults(Store(path), counts, quiet)
        elif Path(path).is_dir():
            Store(path)
            continue
        else:
            found = _file_faults(path, schema_name, counts)
        bad: set[str] = set()
        for place, kind, message in found:
            if place not in bad:
                bad.add(place)
                report.dropped[kind] = report.dropped.get(kind, 0) + 1
            if len(faults) < MAX_SHOWN:
                faults.append(f"{place}: {message}")
    report.read = counts["read"] + counts["read_beside"]
    report.kept = report.read - sum(report.dropped.values())
    report.extra["faults"] = faults
    return report.finish()


def _store_faults(
    store: Store, counts: Counter[str], quiet: bool
) -> Iterator[tuple[str, str, str]]:
    for name, expected in store.manifest.parts.items():
        file = store.path / name
        if not file.is_file():
            counts["read_beside"] += 1
            yield str(file), "missing_part", "the manifest lists it, but it is not there"
        elif file_sha256(file) != expected:
            counts["read_beside"] += 1
            yield str(file), "changed_part", "is not the file the manifest lists"
        elif name.endswith(".parquet") and (table := name.split("/")[0]) in TABLES:
            columns = pq.read_schema(file).remove_metadata()
            if not columns.equals(TABLES[table]):
                counts["read_beside"] += 1
                yield str(file), "wrong_columns", "its columns are not those of the contract"
    if "trajectories" not in store.tables():
        return
    parts = store.parts()
    yield from _repeated_ids(store, counts)
    with Progress("validate", len(parts), "parts", quiet=quiet) as progress:
        for part in parts:
            yield from _part_faults(store, part, counts)
            progress.advance()


def _repeated_ids(store: Store, counts: Counter[str]) -> Iterator[tuple[str, str, str]]:
    """Give the ids that are there more than once; DuckDB spills when they outgrow memory."""
    from trajkit.explore.query import connect

    with connect([store.path]) as connection:
        repeated = connection.execute(
            "select trajectory_id from trajectories group by all having count(*) > 1 order by all"
        ).fetchall()
    for (id_,) in repeated:
        counts["read_beside"] += 1
        yield f"{store.path}/{id_}", "repeated_id", "the id is there more than once"


def _part_faults(store: Store, part: str, counts: Counter[str]) -> Iterator[tuple[str, str, str]]:
    episodes = store.read("trajectories", part)
    steps = store.read("steps", part)
    grouped = steps.partition_by("trajectory_id", as_dict=True, maintain_order=True)
    unknown = {key[0] for key in grouped} - set(episodes["trajectory_id"])
    for id_ in sorted(unknown):
        counts["read_beside"] += 1
        yield f"{store.path}/{part}/{id_}", "orphan_steps", "steps of an episode that is not there"
    for row in episodes.iter_rows(named=True):
        counts["read"] += 1
        id_ = row["trajectory_id"]
        place = f"{store.path}/{part}/{id_}"
        own = grouped.get((id_,), steps.clear())
        document = row | {"steps": own.drop("trajectory_id", "domain").to_dicts()}
        if own["step_index"].to_list() != list(range(row["n_steps"])):
            yield place, "wrong_step_order", f"its steps are not numbered 0 to {row['n_steps'] - 1}"
        elif (own["domain"] != row["domain"]).any():
            yield place, "wrong_domain", "its steps are of another domain"
        elif not schema.is_valid("trajectory", document):
            pointer, message = schema.explain("trajectory", document) or ("$", "does not fit")
            yield f"{place}: {pointer}", "schema_violation", message
    if "transitions" in store.tables():
        pointers = store.read("transitions", part).select("trajectory_id", "step_index")
        missing = pointers.join(
            steps.select("trajectory_id", "step_index"),
            on=["trajectory_id", "step_index"],
            how="anti",
        )
        for id_, index in missing.iter_rows():
            counts["read_beside"] += 1
            place = f"{store.path}/{part}/{id_}[{index}]"
            yield place, "dangling_transition", "points to a step that is not there"


def _file_faults(
    path: str, schema_name: str | None, counts: Counter[str]
) -> Iterator[tuple[str, str, str]]:
    for file in list_inputs((path,)):
        reader = FileReader(file)
        for value in reader:
            elements = value.value if isinstance(value.value, list) else [value.value]
            for number, document in enumerate(elements):
                counts["read"] += 1
                place = f"{path}:{value.line}" if value.line else f"{path}[{number}]"
                name = schema_name or _schema_of(document, place)
                if not schema.is_valid(name, document):
                    pointer, message = schema.explain(name, document) or ("$", "does not fit")
                    yield f"{place}: {pointer}", "schema_violation", message
        for reject in reader.rejects:
            counts["read"] += 1
            line = "" if reject.origin.line is None else f":{reject.origin.line}"
            yield f"{path}{line}", reject.reason, reject.message


def _schema_of(document: Any, place: str) -> str:
    """Return the schema whose required keys a document has."""
    if isinstance(document, dict):
        for name in ("trajectory", "verdict", "transition", "prediction", "duplicate", "reject"):
            if set(schema.load(name)["required"]) <= set(document):
                return name
    raise TrajkitError(
        place,
        "its keys fit no schema",
        f"pass --schema with one of {alternatives(schema.names())}",
    )
