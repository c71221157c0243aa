"""Stores: folders of Parquet tables in parts, with `manifest.json` written last.

A part is the unit of parallel work, of memory and of resume: `steps/part-00003.parquet` holds the
steps of the episodes in `trajectories/part-00003.parquet`. A folder without a manifest is
unfinished; the same stage with the same inputs and options takes it up again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from trajkit import __version__
from trajkit.errors import TrajkitError, alternatives
from trajkit.tables import (
    TABLES,
    RejectSink,
    file_sha256,
    gather_into,
    to_arrow,
    write_atomically,
    write_table,
)

SCHEMA_VERSION = "1"
MANIFEST = "manifest.json"
_PLAN = ".unfinished.json"
_MARKS = ".marks"
EXTRA_OUTPUTS = (
    *("train", "validation", "test", "predictions", "completions.jsonl", "judgements.jsonl"),
    *("results.json", "rows", "report.html", "dataset_info.json", "train.yaml"),
)
"""What builders write beside tables."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a finished folder says of itself; the chain of inputs leads back to the raw logs."""

    kind: str
    """`store`, `examples` or `verdicts`."""
    stage: str
    """The stage that wrote it."""
    options: dict[str, Any]
    """The stage's options."""
    inputs: list[dict[str, str]]
    """`{"name", "sha256"}` of each input manifest or raw file."""
    rows: dict[str, int]
    """Rows by table."""
    dropped: dict[str, int]
    """Drops by reason."""
    parts: dict[str, str]
    """SHA-256 by file, relative to the folder."""
    report: dict[str, Any]
    """The stage's report without times and places."""
    schema_version: str = SCHEMA_VERSION
    trajkit_version: str = __version__


class AlreadyDoneError(TrajkitError):
    """The output is complete and was made from the same input with the same options."""


class Store:
    """A finished folder, open for reading.

    Raises TrajkitError when the folder is missing, unfinished or of another schema version.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        manifest = self.path / MANIFEST
        if not self.path.exists():
            raise TrajkitError(str(path), "no such store", "check the path")
        if not manifest.exists():
            what, hint = "is no store: it has no manifest.json", "make one with `trajkit ingest`"
            if (self.path / _PLAN).exists():
                what, hint = "is unfinished", "run the stage that was writing it again"
            raise TrajkitError(str(path), what, hint)
        self.manifest = Manifest(**orjson.loads(manifest.read_bytes()))
        if self.manifest.schema_version != SCHEMA_VERSION:
            raise TrajkitError(
                str(path),
                f"has schema version {self.manifest.schema_version}, not {SCHEMA_VERSION}",
                "make it again with this version of trajkit",
            )

    @property
    def manifest_sha256(self) -> str:
        """Return the hash that names this very content."""
        return file_sha256(self.path / MANIFEST)

    def parts(self, table: str = "trajectories") -> list[str]:
        """Return the names of the parts, in order."""
        return sorted(path.stem for path in (self.path / table).glob("part-*.parquet"))

    def tables(self) -> list[str]:
        """Return the tables that are there, in contract order."""
        return [
            name
            for name in TABLES
            if (self.path / name).is_dir() or (self.path / f"{name}.parquet").is_file()
        ]

    def files(self, table: str) -> list[Path]:
        """Return the Parquet files of a table."""
        single = self.path / f"{table}.parquet"
        return [single] if single.is_file() else sorted((self.path / table).glob("part-*.parquet"))

    def read(self, table: str, part: str, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Return one part of a table, or some of its columns; loads it whole."""
        path = self.path / table / f"{part}.parquet"
        return pl.read_parquet(path, columns=None if columns is None else list(columns))

    def require(self, *tables: str) -> Store:
        """Return the store itself if it has the tables.

        Raises TrajkitError that names the stage to run.
        """
        makers = {"transitions": "transitions", "trajectories": "ingest", "steps": "ingest"}
        for table in tables:
            if table not in self.tables():
                raise TrajkitError(
                    str(self.path),
                    f"has no table {table!r} (it has {alternatives(self.tables())})",
                    f"run `trajkit {makers.get(table, 'ingest')}` first",
                )
        return self


@dataclass
class StoreWriter:
    """Writes a folder part by part; `finish` makes it complete.

    Made by `open_writer`. A part is done when its mark is on disk; the mark is written after the
    files and holds the part's counts.
    """

    path: Path
    kind: str
    stage: str
    options: dict[str, Any]
    inputs: list[dict[str, str]]
    counts: Counter[str] = field(default_factory=Counter)
    """Sum of the counts of all parts done so far."""

    def done(self, part: str) -> bool:
        """Return whether a part is complete from an earlier run, and add up its counts if so."""
        mark = self.path / _MARKS / f"{part}.json"
        if not mark.exists():
            return False
        self.counts.update(orjson.loads(mark.read_bytes()))
        return True

    @property
    def marks(self) -> Path:
        """Return the folder of what only resume needs; it goes when the folder is complete."""
        return self.path / _MARKS

    def mark(self, part: str, counts: Mapping[str, int]) -> None:
        """Make a part complete."""
        counts = {key: count for key, count in sorted(counts.items()) if count}
        write_atomically(self.path / _MARKS / f"{part}.json", orjson.dumps(counts))
        self.counts.update(counts)

    def write(self, table: str, part: str, rows: pl.DataFrame | pa.Table) -> None:
        """Write one part of a declared table."""
        data = to_arrow(table, rows) if isinstance(rows, pl.DataFrame) else rows
        write_table(self.path / table / f"{part}.parquet", data)

    def reject_sink(self, part: str) -> RejectSink:
        """Return what keeps a part's rejects on disk until `finish` gathers them."""
        return RejectSink(self.path / _MARKS / f"{part}.rejects.parquet")

    def link(self, source: Store, table: str, part: str | None = None) -> None:
        """Take over an unchanged table (or one part of it) by hard link, else by copy."""
        for file in source.files(table):
            if part is not None and file.stem != part:
                continue
            target = self.path / file.relative_to(source.path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            try:
                os.link(file, target)
            except OSError:
                shutil.copyfile(file, target)

    def finish(self, report: Mapping[str, Any], dropped: Mapping[str, int]) -> Manifest:
        """Gather rejects, write the manifest last, and remove what only resume needed."""
        if self.kind == "store":
            sources = sorted((self.path / _MARKS).glob("*.rejects.parquet"))
            gather_into(self.path / "rejects.parquet", sources, TABLES["rejects"])
        files = sorted(
            file
            for file in self.path.rglob("*")
            if file.is_file() and not any(p.startswith(".") for p in file.parts[-2:])
        )
        parts = {file.relative_to(self.path).as_posix(): file for file in files}
        rows: Counter[str] = Counter()
        for name, file in parts.items():
            if name.endswith(".parquet"):
                table = name.split("/")[0].removesuffix(".parquet")
                rows[table] += pq.read_metadata(file).num_rows
        unstable = ("seconds", "out")
        manifest = Manifest(
            kind=self.kind,
            stage=self.stage,
            options=self.options,
            inputs=self.inputs,
            rows=dict(sorted(rows.items())),
            dropped=dict(sorted(dropped.items())),
            parts={name: file_sha256(file) for name, file in parts.items() if name != MANIFEST},
            report={key: value for key, value in report.items() if key not in unstable},
        )
        text = orjson.dumps(asdict(manifest), option=orjson.OPT_INDENT_2) + b"\n"
        write_atomically(self.path / MANIFEST, text)
        _clear_resume(self.path)
        return manifest


def _remove_own(path: Path) -> None:
    """Remove what trajkit writes, and nothing a person may have put beside it."""
    if (path / MANIFEST).exists():
        try:
            Manifest(**orjson.loads((path / MANIFEST).read_bytes()))
        except (ValueError, TypeError):
            raise TrajkitError(
                str(path / MANIFEST), "is not a manifest of trajkit", "give another folder to -o"
            ) from None
        (path / MANIFEST).unlink()
    for name in (*TABLES, *EXTRA_OUTPUTS):
        shutil.rmtree(path / name, ignore_errors=True)
        for suffix in ("", ".parquet"):
            if (path / f"{name}{suffix}").is_file():
                (path / f"{name}{suffix}").unlink()
    _clear_resume(path)


def _clear_resume(path: Path) -> None:
    shutil.rmtree(path / _MARKS, ignore_errors=True)
    (path / _PLAN).unlink(missing_ok=True)


def fingerprint(stage: str, options: Mapping[str, Any], inputs: list[dict[str, str]]) -> str:
    """Return a hash of what decides a stage's output."""
    plan = [stage, __version__, SCHEMA_VERSION, options, inputs]
    return hashlib.sha256(orjson.dumps(plan, option=orjson.OPT_SORT_KEYS)).hexdigest()


def open_writer(
    out: str | Path,
    *,
    kind: str,
    stage: str,
    options: dict[str, Any],
    inputs: list[dict[str, str]],
    overwrite: bool,
) -> StoreWriter:
    """Return a writer on a new folder, or on an unfinished one of the same plan.

    An unfinished folder of another plan is begun afresh: it was never complete.

    Raises TrajkitError when the folder is complete and `overwrite` is not set, or when it holds
    something that trajkit did not write.
    """
    path = Path(out)
    if path.exists() and not path.is_dir():
        raise TrajkitError(str(out), "is a file, not a folder", "give a folder to -o")
    plan = fingerprint(stage, options, inputs).encode()
    plan_file = path / _PLAN
    if path.exists() and any(path.iterdir()):
        if not (path / MANIFEST).exists() and not plan_file.exists():
            raise TrajkitError(
                str(out), "holds files that trajkit did not write", "give a new or empty folder"
            )
        if (path / MANIFEST).exists() and not overwrite:
            done = Store(path).manifest
            if fingerprint(done.stage, done.options, done.inputs).encode() == plan:
                raise AlreadyDoneError(
                    str(out),
                    "is complete, from the same input with the same options",
                    "use it as it is, or pass --overwrite",
                )
            raise TrajkitError(
                str(out), "exists and is complete", "give another folder, or pass --overwrite"
            )
        same = plan_file.exists() and plan_file.read_bytes() == plan
        if not same or (path / MANIFEST).exists():
            _remove_own(path)
    path.mkdir(parents=True, exist_ok=True)
    (path / _MARKS).mkdir(exist_ok=True)
    write_atomically(plan_file, plan)
    return StoreWriter(path, kind, stage, options, inputs)


def inputs_of(store: Store) -> list[dict[str, str]]:
    """Return a store as an entry of another manifest's inputs."""
    return [{"name": store.path.name, "sha256": store.manifest_sha256}]


def iterate_parts(source: Store, writer: StoreWriter, table: str = "trajectories") -> Iterator[str]:
    """Give the parts that are not done yet."""
    for part in source.parts(table):
        if not writer.done(part):
            yield part
