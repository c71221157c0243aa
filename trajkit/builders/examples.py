"""Write training rows: `DIR/{train,validation}/part-*.parquet` with explicit features."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
import polars as pl
import pyarrow as pa

from trajkit.errors import TrajkitError
from trajkit.store import Store, StoreWriter
from trajkit.tables import write_atomically, write_table

SPLITS = ("train", "validation")
SHARED_COLUMNS = [
    pa.field("trajectory_id", pa.string()),
    pa.field("step_index", pa.int64()),
    pa.field("domain", pa.string()),
    pa.field("source", pa.string()),
    pa.field("split_group", pa.string()),
]
MESSAGE = [pa.field("role", pa.string()), pa.field("content", pa.large_string())]


def example_schema(*columns: pa.Field) -> pa.Schema:
    """Return the schema of example rows, with the features that `datasets` reads from it."""
    from datasets import Features

    schema = pa.schema([*SHARED_COLUMNS, *columns])
    metadata = Features.from_arrow_schema(schema).arrow_schema.metadata
    return schema.with_metadata(metadata)


@dataclass
class ExampleWriter:
    """Sorts rows into splits by their group and writes them part by part."""

    writer: StoreWriter
    schema: pa.Schema
    validation: float
    jsonl: bool
    _rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the share.

        Raises TrajkitError when it is outside [0, 1).
        """
        if not 0 <= self.validation < 1:
            raise TrajkitError(
                "--validation", f"{self.validation} is outside [0, 1)", "0.05 is the default"
            )

    def add(self, row: dict[str, Any]) -> None:
        """Take one row."""
        split = split_of(row["split_group"], self.validation)
        self._rows.setdefault(split, []).append(row)

    def write(self, part: str) -> Counter[str]:
        """Return the rows by split after writing one part."""
        counts: Counter[str] = Counter()
        for split, rows in self._rows.items():
            counts[f"split.{split}"] = len(rows)
            table = pa.Table.from_pylist(rows, schema=self.schema)
            write_table(self.writer.path / split / f"{part}.parquet", table)
            if self.jsonl:
                lines = b"".join(orjson.dumps(row) + b"\n" for row in rows)
                write_atomically(self.writer.path / split / f"{part}.jsonl", lines)
        self._rows.clear()
        return counts


def split_of(split_group: str, validation: float) -> str:
    """Return the side of the split a group stands on; depends on the group's name alone.

    >>> split_of("0123456789abcdef", 0.05), split_of("f123456789abcdef", 0.05)
    ('validation', 'train')
    """
    share = int(split_group[:13], 16) / 16**13
    # Low hashes go to validation, so raising the share only ever moves groups one way.
    return "validation" if share < validation and validation > 0 else "train"


def episodes(source: Store, part: str) -> Iterator[tuple[Mapping[str, Any], list[dict[str, Any]]]]:
    """Give the episodes of a part, each with its steps joined with their transitions."""
    columns = ["trajectory_id", "step_index", "category", "loss", "target", "split_group"]
    steps = (
        source.read("steps", part)
        .join(
            source.read("transitions", part).select(columns),
            on=["trajectory_id", "step_index"],
            maintain_order="left",
        )
        .partition_by("trajectory_id", as_dict=True, maintain_order=True)
    )
    for episode in source.read("trajectories", part).iter_rows(named=True):
        frame: pl.DataFrame = steps[(episode["trajectory_id"],)]
        yield episode, frame.to_dicts()


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
