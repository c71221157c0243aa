"""Read what a corpus must not hold: task lists of benchmarks, AgentWorldBench rows, other stores.

A task list is JSON, JSON lines, CSV or Parquet with an id, a statement, or both. Columns are known
by name: SWE-bench `instance_id, problem_statement`, Terminal-Bench `task_id | id, instruction`,
OSWorld `id, instruction`, AndroidWorld `name | task, goal | template`, WebArena `task_id, intent`;
whichever were taken is told. A folder of tasks is one too: Terminal-Bench keeps each task in a
folder of its name with `task.yaml` (first edition) or `instruction.md` (Harbor); what else lies in
such a folder is not read. Nothing is fetched: a benchmark is a file or a folder on disk.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import polars as pl
import yaml

from trajkit.adapters import agentworldbench
from trajkit.errors import TrajkitError, alternatives
from trajkit.inputs import InputFile, list_inputs
from trajkit.model import Origin, Record, Trajectory
from trajkit.readers import FileReader
from trajkit.store import MANIFEST, Store
from trajkit.tables import file_sha256

STATEMENTS = (
    "problem_statement",
    "instruction",
    "intent",
    "goal",
    "template",
    "question",
    "statement",
    "description",
    "prompt",
    "text",
    "task",
)
"""Columns that hold what is asked, the surest first."""
IDS = ("instance_id", "task_id", "id", "name", "task", "task_name", "question_id", "uid", "uuid")
"""Columns that name a task, the surest first."""
_TASK_FILES = ("task.yaml", "instruction.md")
_LISTS = ("data", "rows", "instances", "tasks", "examples", "test")
_MAX_ID_CHARS = 300
_SCHEMA = {
    "item": pl.Int64,
    "instance_id": pl.String,
    "where": pl.String,
    "text": pl.String,
    "is_statement": pl.Boolean,
    "is_template": pl.Boolean,
    "is_named": pl.Boolean,
}


@dataclass(frozen=True, slots=True)
class Benchmark:
    """The tasks or episodes of one thing to check against."""

    name: str
    """File or folder name, as given."""
    kind: str
    """`tasks`, `agentworldbench` or `store`."""
    texts: pl.DataFrame
    """`item, instance_id, where, text, is_statement, is_template, is_named`: an item may have
    several texts; `is_named` says that the id is one to look for."""
    columns: dict[str, int] = field(default_factory=dict)
    """Rows by the columns that were taken as id and statement."""
    n_unread: int = 0
    """Rows that hold neither, and pieces of files that could not be decoded."""


def inputs_of_benchmarks(against: Iterable[str]) -> list[dict[str, str]]:
    """Return the things to check against as entries of a manifest's inputs, in the order given.

    Raises TrajkitError when one is not there.
    """
    entries = []
    for given in against:
        if (Path(given) / MANIFEST).is_file():
            entries.append({"name": Path(given).name, "sha256": Store(given).manifest_sha256})
            continue
        files = [[file.origin_path, file_sha256(file.path)] for file in _files(given)]
        digest = sha256("\n".join(" ".join(pair) for pair in files).encode()).hexdigest()
        entries.append({"name": Path(given).name, "sha256": digest})
    return entries


def _files(given: str) -> list[InputFile]:
    if not Path(given).exists():
        raise TrajkitError(
            given,
            "no such store, file or folder",
            "--against takes a path; benchmarks are not fetched, so save their task list first",
        )
    files = list_inputs((given,))
    folders = {file.path.parent for file in files if file.path.name in _TASK_FILES}
    return [
        file
        for file in files
        if file.path.name in _TASK_FILES or folders.isdisjoint(file.path.parents)
    ]


def read_benchmark(given: str) -> Benchmark:
    """Return the items of a store, of AgentWorldBench files, or of a task list; loads their texts.

    Raises TrajkitError when nothing in it is known.
    """
    path = Path(given)
    if (path / MANIFEST).is_file():
        return _store(Store(path).require("trajectories", "steps"))
    items: list[list[dict[str, Any]]] = []
    columns: Counter[str] = Counter()
    foreign: set[str] = set()
    n_unread = n_episode_rows = 0
    for file in _files(given):
        longest: dict[str, Any] = {}
        for value in _values(file):
            if agentworldbench.detect(value):
                n_episode_rows += 1
                key = agentworldbench.row_key(value)
                if key not in longest or len(value["prompt"]) > len(longest[key]["prompt"]):
                    longest[key] = value
            elif (task := _task(value)) is not None:
                names, row = task
                columns[names] += 1
                items.append([row])
            else:
                n_unread += 1
                foreign.update(value if isinstance(value, dict) else (type(value).__name__,))
        items.extend(_episode_rows(value) for value in longest.values())
    if n_unread and not items:
        raise TrajkitError(
            given,
            f"is no benchmark that is known: it holds {alternatives(sorted(foreign)[:12])}",
            f"rows need an id ({alternatives(IDS)}) or a statement ({alternatives(STATEMENTS)})",
        )
    return Benchmark(
        name=path.name,
        kind="agentworldbench" if n_episode_rows else "tasks",
        texts=pl.DataFrame(
            [{"item": number} | row for number, rows in enumerate(items) for row in rows],
            schema=_SCHEMA,
        ),
        columns=dict(sorted(columns.items())),
        n_unread=n_unread,
    )


def _values(file: InputFile) -> Iterator[Any]:
    """Give the rows of a file, out of whichever lists it wraps them in."""
    if file.path.name in _TASK_FILES:
        yield _task_of_folder(file.path)
        return
    if file.path.suffix.lower() in (".csv", ".tsv"):
        text = file.path.read_bytes().decode("utf-8-sig", "replace")
        separator = "\t" if file.path.suffix.lower() == ".tsv" else ","
        # Statements are longer than the 128 kB at which the csv module stops.
        csv.field_size_limit(1 << 30)
        yield from csv.DictReader(io.StringIO(text, newline=""), delimiter=separator)
        return
    reader = FileReader(file)
    for read in reader:
        yield from _unwrapped(read.value)
    for reject in reader.rejects:
        if reject.reason != "empty_file":
            yield reject.reason


def _task_of_folder(path: Path) -> Any:
    """Return the task of a Terminal-Bench folder, or what its file holds instead."""
    text: Any = path.read_bytes().decode("utf-8-sig", "replace")
    if path.suffix == ".yaml":
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError:
            return "not_yaml"
        if not isinstance(value, dict):
            return value
        text = value.get("instruction")
    return {"id": path.parent.name, "instruction": text}


def _unwrapped(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for one in value:
            yield from _unwrapped(one)
    elif isinstance(value, dict) and isinstance(value.get("row"), dict):
        yield value["row"]
    elif isinstance(value, dict) and not _task(value):
        inner = next((value[name] for name in _LISTS if isinstance(value.get(name), list)), None)
        if inner is not None:
            yield from _unwrapped(inner)
        elif value and all(isinstance(one, list) for one in value.values()):
            # OSWorld's index: ids by the program they are about.
            yield from ({"id": one} for ids in value.values() for one in ids)
        elif value and all(isinstance(one, dict) for one in value.values()):
            yield from ({"id": key} | one for key, one in value.items())
        else:
            yield value
    else:
        yield value


def _task(value: Any) -> tuple[str, dict[str, Any]] | None:
    """Return the names of the columns taken, and the item; null when it is no task."""
    if not isinstance(value, dict):
        return None
    said = next((name for name in STATEMENTS if _said(value.get(name))), None)
    named = next((name for name in IDS if name != said and _id(value.get(name))), None)
    if named is None and said == "task":
        said = None
        named = "task" if _id(value["task"]) else None
    if said is None and named is None:
        return None
    text = None if said is None else value[said]
    names = "+".join(name for name in (named, said) if name is not None)
    return names, _row(_id(value.get(named or "")), said or "id", text)


def _said(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _id(value: Any) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if _said(value) and len(value) <= _MAX_ID_CHARS else None


def _row(
    instance_id: str | None, where: str, text: str | None, *, is_statement: bool = True
) -> dict[str, Any]:
    return {
        "instance_id": instance_id,
        "where": where,
        "text": text,
        "is_statement": is_statement,
        "is_template": where == "template",
        "is_named": instance_id is not None,
    }


def _episode_rows(value: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the texts of an AgentWorldBench row; its template of a system text is left out."""
    record = Record(value=[value], origin=Origin(path="row"))
    rows = []
    for found in agentworldbench.extract(record):
        if isinstance(found, Trajectory):
            name = None if value.get("id") is None else str(value["id"])
            rows.append(_row(name, "task", found.task))
            for number, step in enumerate(found.steps):
                place = f"turns[{number}]"
                rows.append(_row(name, f"{place}.action", step.action, is_statement=False))
                seen = step.observation
                rows.append(_row(name, f"{place}.observation", seen, is_statement=False))
    return rows


def _store(store: Store) -> Benchmark:
    """Return the tasks and steps of a store; an item is named by its trajectory id."""
    frames = []
    n_episodes = 0
    for part in store.parts():
        episodes = store.read("trajectories", part).with_row_index("item", n_episodes)
        n_episodes += episodes.height
        name = pl.col("trajectory_id").alias("instance_id")
        place = pl.lit("task").alias("where")
        said = {"is_statement": True, "is_named": False}
        frames.append(episodes.select("item", name, place, text="task", **said))
        ids = {"id": _logged_id(episodes["meta"]), "content_hash": episodes["content_hash"]}
        for place_of_id, named in ids.items():
            told = episodes.select(
                "item",
                instance_id=named,
                where=pl.lit(place_of_id),
                text=pl.lit(None, dtype=pl.String),
                is_statement=True,
                is_named=True,
            )
            frames.append(told.drop_nulls("instance_id"))
        steps = store.read("steps", part).join(
            episodes.select("item", "trajectory_id"), on="trajectory_id", maintain_order="left"
        )
        for column in ("action", "observation"):
            place = pl.format("steps[{}]." + column, "step_index").alias("where")
            seen = {"is_statement": False, "is_named": False}
            frames.append(steps.select("item", name, place, text=column, **seen))
    whole = pl.col("item").cast(pl.Int64)
    texts = [frame.with_columns(whole, is_template=False).select(*_SCHEMA) for frame in frames]
    return Benchmark(
        name=store.path.name,
        kind="store",
        texts=pl.concat(texts) if texts else pl.DataFrame(schema=_SCHEMA),
        columns={"trajectory_id+task": n_episodes},
    )


def _logged_id(meta: pl.Series) -> pl.Series:
    """Return the task's id as the log of each episode names it."""
    named = [pl.Series(meta).str.json_path_match(f"$.{name}") for name in IDS[:2]]
    return named[0].zip_with(named[0].is_not_null(), named[1])
