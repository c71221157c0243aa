"""Look for secrets and personal data in finished rows, and tell how many, never which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from trajkit.model import to_json_text
from trajkit.progress import Progress
from trajkit.secrets.masking import mask

_ROWS = 64


def secrets_in(files: Iterable[Path], *, quiet: bool = True) -> Counter[str]:
    """Return how many places of Parquet files hold what may not be published, by kind.

    Every column of text is read, nested ones as JSON text; numbers hold nothing. Holds a few rows.
    """
    found: Counter[str] = Counter()
    listed = list(files)
    with Progress("secrets", len(listed), "files", quiet=quiet) as progress:
        for path in listed:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(batch_size=_ROWS):
                    for masked in mask([_texts(row) for row in batch.to_pylist()]):
                        found.update(masked.replaced)
            progress.advance()
    return found


def _texts(row: dict[str, Any]) -> list[str | None]:
    return [
        value if isinstance(value, str) else to_json_text(value)
        for value in row.values()
        if isinstance(value, str | list | dict) and not _is_numbers(value)
    ]


def _is_numbers(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], int | float)
