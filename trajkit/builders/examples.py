"""Write training rows: `DIR/{train,validation,test}/part-*.parquet` with explicit features."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from trajkit.builders.splits import Splits
from trajkit.control_tokens import escape_column
from trajkit.store import EXTRA_OUTPUTS, Store, StoreWriter
from trajkit.tables import MAX_ROW_GROUP_BYTES, write_atomically
from trajkit.trainers import Built, Kind, Trainer
from trajkit.transitions import as_shown

SHARED_COLUMNS = [
    pa.field("trajectory_id", pa.string()),
    pa.field("step_index", pa.int64()),
    pa.field("domain", pa.string()),
    pa.field("source", pa.string()),
    pa.field("split_group", pa.string()),
]
_READ_ALWAYS = ("trajectory_id", "step_index", "domain", "turn", "action", "observation")
_JOINED = ("trajectory_id", "step_index", "category", "loss", "target", "split_group")
_EPISODES_AT_A_TIME = 64
MESSAGE = [pa.field("role", pa.string()), pa.field("content", pa.large_string())]


def example_schema(*columns: pa.Field) -> pa.Schema:
    """Return the schema of example rows, with the features that `datasets` reads from it."""
    from datasets import Features

    schema = pa.schema([*SHARED_COLUMNS, *columns])
    metadata = Features.from_arrow_schema(schema).arrow_schema.metadata
    return schema.with_metadata(metadata)


class ExampleWriter:
    """Sorts rows into splits by their group and writes them as row groups fill.

    What is being written lies with what only resume needs, so that a killed run leaves nothing.
    """

    def __init__(self, writer: StoreWriter, schema: pa.Schema, splits: Splits, jsonl: bool) -> None:
        self._writer = writer
        self._schema = schema
        self._splits = splits
        self._jsonl = jsonl
        self._sides: dict[str, _Side] = {}

    def add(self, row: dict[str, Any]) -> None:
        """Take one row; its group must be in the pool."""
        split = self._splits.side(row["split_group"])
        if split is None:
            raise AssertionError(f"group {row['split_group']} is of another pool")
        self.add_to(split, row)

    def add_to(self, split: str, row: dict[str, Any]) -> None:
        """Take one row whose split is known: it may be made of several groups."""
        self._side(split).add(row)

    def add_table(self, split: str, table: pa.Table) -> None:
        """Take rows of one split that were made as columns, in the order of the schema."""
        if table.num_rows:
            self._side(split).add_table(table)

    def _side(self, split: str) -> _Side:
        if split not in self._sides:
            unfinished = self._writer.marks / f"{split}.{os.getpid()}"
            self._sides[split] = _Side(unfinished, self._schema, self._jsonl)
        return self._sides[split]

    def write(self, part: str) -> Counter[str]:
        """Return the rows by split after writing one part."""
        counts: Counter[str] = Counter()
        for split, side in sorted(self._sides.items()):
            counts[f"split.{split}"] = side.n_rows
            side.close(self._writer.path, split, part)
        self._sides.clear()
        return counts


class _Side:
    """The rows of one split and part: a file that grows by row groups, and lines beside it."""

    def __init__(self, path: Path, schema: pa.Schema, jsonl: bool) -> None:
        self.n_rows = 0
        self._path = path
        self._schema = schema
        self._rows: list[dict[str, Any]] = []
        self._tables: list[pa.Table] = []
        self._n_bytes = 0
        self._file: pq.ParquetWriter | None = None
        self._lines = path.with_name(path.name + ".jsonl") if jsonl else None

    def add(self, row: dict[str, Any]) -> None:
        self._rows.append(row)
        self.n_rows += 1
        self._n_bytes += _size(row)
        if self._n_bytes >= MAX_ROW_GROUP_BYTES:
            self._flush()

    def add_table(self, table: pa.Table) -> None:
        self._rows_to_table()
        self._tables.append(table)
        self.n_rows += table.num_rows
        self._n_bytes += table.nbytes
        if self._n_bytes >= MAX_ROW_GROUP_BYTES:
            self._flush()

    def close(self, folder: Path, split: str, part: str) -> None:
        self._flush()
        assert self._file is not None
        self._file.close()
        (folder / split).mkdir(exist_ok=True)
        self._path.replace(folder / split / f"{part}.parquet")
        if self._lines is not None:
            self._lines.replace(folder / split / f"{part}.jsonl")

    def _rows_to_table(self) -> None:
        if self._rows:
            self._tables.append(pa.Table.from_pylist(self._rows, schema=self._schema))
            self._rows.clear()

    def _flush(self) -> None:
        self._rows_to_table()
        if not self._tables:
            return
        table = pa.concat_tables(self._tables).cast(self._schema)
        mode = "wb" if self._file is None else "ab"
        if self._file is None:
            # Long texts do not repeat: looking for it costs more than writing them.
            short = [column.name for column in SHARED_COLUMNS]
            self._file = pq.ParquetWriter(
                self._path,
                self._schema,
                compression="zstd",
                use_dictionary=short,
                write_statistics=short,
            )
        self._file.write_table(table, row_group_size=table.num_rows)
        if self._lines is not None:
            with open(self._lines, mode) as lines:
                for batch in table.to_batches(max_chunksize=_EPISODES_AT_A_TIME):
                    lines.writelines(orjson.dumps(row) + b"\n" for row in batch.to_pylist())
        self._tables.clear()
        self._n_bytes = 0


def _size(value: Any) -> int:
    """Return about how many bytes a value will take in a file."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(map(_size, value.values()))
    if isinstance(value, list) and value and isinstance(value[0], dict | str | list):
        return sum(map(_size, value))
    return int(getattr(value, "nbytes", 8 * len(value) if isinstance(value, list) else 8))


def write_trainer_files(
    writer: StoreWriter,
    trainer: Trainer,
    kind: Kind,
    splits: Sequence[str],
    *,
    has_reasoning: bool = False,
) -> list[str]:
    """Return the names of the files written beside the rows: what the trainer reads to find them.

    `splits` are those that hold rows. To be called before the report is finished.
    """
    if trainer.files is None:
        return []
    built = Built(
        name=writer.path.name, kind=kind, splits=tuple(splits), has_reasoning=has_reasoning
    )
    files = trainer.files(built)
    for name, content in files.items():
        if name not in EXTRA_OUTPUTS:
            raise AssertionError(f"{trainer.name}: {name} is no known output")
        write_atomically(writer.path / name, content)
    return sorted(files)


def episodes(
    source: Store,
    part: str,
    columns: Sequence[str] | None = None,
    episode_columns: Sequence[str] | None = None,
) -> Iterator[tuple[Mapping[str, Any], list[dict[str, Any]]]]:
    """Give the episodes of a part, each with its steps joined with their transitions.

    A step also has what `shown_columns` adds. `columns` of the table `steps` and `episode_columns`
    of `trajectories` are read where not all are wanted. Holds a row group at a time.
    """
    for rows, steps in episode_blocks(source, part, columns, episode_columns):
        grouped = groupby(
            shown_columns(steps).iter_rows(named=True), key=itemgetter("trajectory_id")
        )
        for row, (_, group) in zip(rows, grouped, strict=True):
            yield row, list(group)


def episode_blocks(
    source: Store,
    part: str,
    columns: Sequence[str] | None = None,
    episode_columns: Sequence[str] | None = None,
) -> Iterator[tuple[list[dict[str, Any]], pl.DataFrame]]:
    """Give the episodes of a part and their steps joined with their transitions, some at a time.

    A block is about a row group of steps and ends where an episode does; the column `episode` of a
    step is the place of its episode in the block.
    """
    episode_rows = _episode_rows(source, part, episode_columns)
    pointers = source.read("transitions", part, _JOINED)
    keys = ["trajectory_id", "step_index"]
    for steps in _step_blocks(source, part, columns):
        ids = steps["trajectory_id"].rle().struct.field("value")
        rows = list(islice(episode_rows, len(ids)))
        # Both tables of a part hold the same episodes in the same order.
        if ids.to_list() != [row["trajectory_id"] for row in rows]:
            raise AssertionError(f"{source.path}: {part}: steps and episodes are out of order")
        joined = steps.join(pointers, on=keys, maintain_order="left")
        yield rows, joined.with_columns(episode=pl.col("trajectory_id").rle_id())


def _episode_rows(
    source: Store, part: str, columns: Sequence[str] | None
) -> Iterator[dict[str, Any]]:
    wanted = None if columns is None else sorted({"trajectory_id", *columns})
    with pq.ParquetFile(source.path / "trajectories" / f"{part}.parquet") as file:
        for batch in file.iter_batches(batch_size=_EPISODES_AT_A_TIME, columns=wanted):
            yield from pl.DataFrame(batch).iter_rows(named=True)


def _step_blocks(source: Store, part: str, columns: Sequence[str] | None) -> Iterator[pl.DataFrame]:
    wanted = None if columns is None else sorted({*_READ_ALWAYS, *columns})
    held: list[pl.DataFrame] = []
    with pq.ParquetFile(source.path / "steps" / f"{part}.parquet") as file:
        for number in range(file.num_row_groups):
            group = pl.DataFrame(file.read_row_group(number, columns=wanted))
            # The last episode may go on in the next row group.
            n_open = int(group["trajectory_id"].rle().struct.field("len")[-1])
            held.append(group.head(group.height - n_open))
            if held[-1].height:
                yield pl.concat(held)
                held = []
            held.append(group.tail(n_open))
    if held:
        yield pl.concat(held)


def shown_columns(steps: pl.DataFrame) -> pl.DataFrame:
    """Return steps with `shown_action` and `shown_observation`: what a model sees of them.

    Raw terminal output becomes the screen it draws, control tokens are broken up, and
    `n_control_tokens` says how many there were in both.
    """
    observations = as_shown(steps)["observation"]
    action, n_in_action = escape_column(steps["action"])
    observation, n_in_observation = escape_column(observations)
    return steps.with_columns(
        shown_action=action,
        shown_observation=observation,
        n_control_tokens=n_in_action + n_in_observation,
    )


def shared_values(
    episode: Mapping[str, Any], step_index: int | None, split_group: str
) -> dict[str, Any]:
    """Return the columns that every example row carries."""
    return {
        "trajectory_id": episode["trajectory_id"],
        "step_index": step_index,
        "domain": episode["domain"],
        "source": episode["source"],
        "split_group": split_group,
    }
