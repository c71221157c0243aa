"""Tables on disk: declared columns, and writers that hold no more than a row group.

Parquet, zstd. Heterogeneous values are JSON text, since nested columns would invent keys; long text
is `large_string`, since one column of a part may pass 2 GiB.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from trajkit.model import Reject

MAX_ROW_GROUP_BYTES = 16 << 20
MAX_PART_BYTES = 128 << 20
MAX_REJECT_TEXTS = 100


def _columns(text: str) -> pa.Schema:
    """Return an Arrow schema from lines of `name type`; a trailing `!` means never null."""
    types = {
        "text": pa.large_string(),
        "name": pa.string(),
        "int": pa.int64(),
        "float": pa.float64(),
        "bool": pa.bool_(),
    }
    columns = []
    for line in text.split("\n"):
        if line.strip():
            name, kind = line.split()
            columns.append(pa.field(name, types[kind.rstrip("!")], nullable="!" not in kind))
    return pa.schema(columns)


TABLES: dict[str, pa.Schema] = {
    "trajectories": _columns("""
        trajectory_id name!
        content_hash name!
        domain name!
        source name!
        adapter name!
        format_version name
        origin_path name!
        origin_line int
        origin_key name
        agent name
        model name
        task text
        agent_system_prompt text
        action_space text
        initial_state text
        simulation_instruction text
        outcome_status name!
        reward float
        exit_status name
        license name
        parent_id name
        started_at name
        meta text
        n_steps int!"""),
    "steps": _columns("""
        trajectory_id name!
        step_index int!
        domain name!
        turn int!
        thought text
        action_kind name!
        action_name name
        action text!
        action_valid bool!
        call_id name
        observation text
        observation_kind name!
        observation_source name!
        error text
        exit_code int
        truncated bool!
        media text
        time name
        skip_reason name"""),
    "transitions": _columns("""
        trajectory_id name!
        step_index int!
        domain name!
        action_kind name!
        action_name name
        n_action_chars int!
        n_observation_chars int!
        overlap float!
        novelty float!
        jaccard float!
        length_ratio float!
        category name!
        loss bool!
        target bool!
        skip_reason name
        split_group name!"""),
    "rejects": _columns("""
        origin_path name!
        origin_line int
        origin_key name
        reason name!
        pointer name
        message text!
        record text
        n_record_chars int"""),
    "loss": _columns("""
        origin_path name!
        adapter name!
        records int!
        episodes int!
        events int!
        action int!
        observation int!
        thought int!
        context int!
        n_left_out int!
        left_out text!"""),
    "duplicates": _columns("""
        trajectory_id name!
        kept_id name!
        level name!
        method name!
        estimated_similarity float!
        exact_similarity float!
        step_index int
        kept_step_index int"""),
    "contamination": _columns("""
        trajectory_id name!
        benchmark name!
        instance_id name!
        method name!
        similarity float!
        ours_where name!
        ours_start int!
        ours_end int!
        ours_text text!
        theirs_where name!
        theirs_start int!
        theirs_end int!
        theirs_text text!"""),
    "verdicts": _columns("""
        trajectory_id name!
        step_index int!
        domain name!
        passed bool!
        reason name
        format float!
        factuality float!
        consistency float!
        realism float!
        quality float!
        findings text!"""),
}


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file in hex; streams."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that it is either old or new, never half."""
    temporary = path.with_name(f".{path.name}.tmp")
    with open(temporary, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(path)


def write_table(path: Path, table: pa.Table) -> None:
    """Write one Parquet file atomically, zstd, in row groups of bounded bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    bytes_a_row = max(1, table.nbytes // max(1, table.num_rows))
    rows = max(1, min(1 << 17, MAX_ROW_GROUP_BYTES // bytes_a_row))
    pq.write_table(table, temporary, compression="zstd", row_group_size=rows)
    temporary.replace(path)


def to_arrow(name: str, frame: pl.DataFrame) -> pa.Table:
    """Return a frame with the declared columns and types of a table, in their order."""
    return _cast(frame, TABLES[name])


_POLARS_TYPES = {
    pa.large_string(): pl.String,
    pa.string(): pl.String,
    pa.int64(): pl.Int64,
    pa.float64(): pl.Float64,
    pa.bool_(): pl.Boolean,
}


def rows_table(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    """Return rows as a table of a flat schema; keys beside the schema are left out."""
    return _cast(rows_frame(rows, schema), schema)


def rows_frame(rows: list[dict[str, Any]], schema: pa.Schema) -> pl.DataFrame:
    """Return rows as a frame with the columns of a flat schema.

    polars takes Python lists faster than pyarrow and does not load pandas.
    """
    types = {column.name: _POLARS_TYPES[column.type] for column in schema}
    columns = zip(*map(itemgetter(*schema.names), rows), strict=True)
    data = dict(zip(schema.names, columns, strict=True)) if rows else {}
    return pl.DataFrame(data, schema=types)


def _cast(frame: pl.DataFrame, schema: pa.Schema) -> pa.Table:
    table = frame.select(schema.names).to_arrow()
    columns = [table.column(column.name).cast(column.type) for column in schema]
    return pa.table(columns, schema=schema)


def rejects_table(rejects: Iterable[Reject]) -> pa.Table:
    """Return rejects as a table."""
    rows = []
    for reject in rejects:
        row = asdict(reject)
        origin = row.pop("origin")
        rows.append({f"origin_{name}": value for name, value in origin.items()} | row)
    return rows_table(rows, TABLES["rejects"])


class RejectSink:
    """Writes rejects to a file as they come; holds a thousand at most. A context manager.

    After the first hundred of one file and reason the raw text is left out: a huge file of an
    unknown format would fill the disk with itself.
    """

    def __init__(self, path: Path) -> None:
        self.reasons: Counter[str] = Counter()
        self._path = path
        self._rows: list[Reject] = []
        self._file: pq.ParquetWriter | None = None
        self._texts: Counter[str] = Counter()

    @property
    def n_written(self) -> int:
        """Return how many rejects were added."""
        return self.reasons.total()

    def __enter__(self) -> RejectSink:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self._flush()
        if self._file is not None:
            self._file.close()

    def add(self, reject: Reject) -> None:
        """Keep one reject."""
        self.reasons[reject.reason] += 1
        place = f"{reject.reason}:{reject.origin.path}"
        if self._texts[place] >= MAX_REJECT_TEXTS:
            reject = replace(reject, record=None)
        else:
            self._texts[place] += 1
        self._rows.append(reject)
        if len(self._rows) >= 1_000:
            self._flush()

    def extend(self, rejects: Iterable[Reject]) -> None:
        """Keep several."""
        for reject in rejects:
            self.add(reject)

    def _flush(self) -> None:
        if self._rows:
            if self._file is None:
                schema = TABLES["rejects"]
                self._file = pq.ParquetWriter(self._path, schema, compression="zstd")
            self._file.write_table(rejects_table(self._rows))
            self._rows.clear()


def gather_into(target: Path, sources: list[Path], schema: pa.Schema) -> None:
    """Write row groups of several files into one, a row group at a time."""
    temporary = target.with_name(f".{target.name}.tmp")
    with pq.ParquetWriter(temporary, schema, compression="zstd") as file:
        for source in sources:
            with pq.ParquetFile(source) as part:
                for number in range(part.num_row_groups):
                    file.write_table(part.read_row_group(number))
    temporary.replace(target)


class EpisodeSink:
    """Writes the two tables of a part side by side, one row group at a time; a context manager.

    `finish` has a last look at the rows of a group, given the name of their table.

    A part that grows past `MAX_PART_BYTES` of text goes on as `part-00000-001` and so forth.
    """

    def __init__(
        self,
        folder: Path,
        part: str,
        finish: Callable[[str, pl.DataFrame], pl.DataFrame] | None = None,
    ) -> None:
        self._folder = folder
        self._part = part
        self._finish = finish
        self._rows: dict[str, list[dict[str, Any]]] = {"trajectories": [], "steps": []}
        self._files: dict[str, pq.ParquetWriter] = {}
        self._group_bytes = 0
        self._part_bytes = 0
        self._n_overflow = 0

    def __enter__(self) -> EpisodeSink:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self._close()

    def add(self, document: dict[str, Any]) -> None:
        """Add one episode: a flat document with `steps`."""
        row = dict(document)
        steps = row.pop("steps")
        both = {name: row[name] for name in ("trajectory_id", "domain")}
        self._rows["trajectories"].append(row)
        self._rows["steps"].extend(both | step for step in steps)
        size = (
            sum(
                len(step["action"]) + len(step["observation"] or "") + len(step["thought"] or "")
                for step in steps
            )
            + len(row["agent_system_prompt"] or "")
            + len(row["initial_state"] or "")
        )
        self._group_bytes += size
        self._part_bytes += size
        if self._group_bytes >= MAX_ROW_GROUP_BYTES:
            self._flush()
        if self._part_bytes >= MAX_PART_BYTES:
            self._close()
            self._n_overflow += 1
            self._part_bytes = 0

    def _flush(self) -> None:
        if not self._rows["trajectories"]:
            return
        for name, rows in self._rows.items():
            if name not in self._files:
                self._files[name] = pq.ParquetWriter(
                    self._path(name, temporary=True), TABLES[name], compression="zstd"
                )
            frame = rows_frame(rows, TABLES[name])
            if self._finish is not None:
                frame = self._finish(name, frame)
            self._files[name].write_table(to_arrow(name, frame))
            rows.clear()
        self._group_bytes = 0

    def _close(self) -> None:
        self._flush()
        for name, file in self._files.items():
            file.close()
            self._path(name, temporary=True).replace(self._path(name, temporary=False))
        self._files.clear()

    def _path(self, table: str, *, temporary: bool) -> Path:
        name = self._part + (f"-{self._n_overflow:03d}" if self._n_overflow else "")
        folder = self._folder / table
        folder.mkdir(parents=True, exist_ok=True)
        return folder / (f".{name}.tmp" if temporary else f"{name}.parquet")
