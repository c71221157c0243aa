"""Progress on standard error: a bar on a terminal, plain lines elsewhere, nothing when quiet."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_LINE_EVERY_SECONDS = 5.0


class Progress:
    """Shows how far a stage has come; use it as a context manager."""

    def __init__(self, stage: str, total: int, unit: str, *, quiet: bool = False) -> None:
        self._stage = stage
        self._total = total
        self._unit = unit
        self._quiet = quiet
        self._done = 0
        self._next_line = time.monotonic() + _LINE_EVERY_SECONDS
        self._bar: Any = None

    def __enter__(self) -> Progress:
        if not self._quiet and sys.stderr.isatty():
            from tqdm import tqdm

            self._bar = tqdm(total=self._total, desc=self._stage, unit=f" {self._unit}")
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
        elif not self._quiet:
            self._line()

    def advance(self, n: int = 1) -> None:
        """Count `n` more units as done."""
        self._done += n
        if self._bar is not None:
            self._bar.update(n)
        elif not self._quiet and time.monotonic() >= self._next_line:
            self._line()
            self._next_line = time.monotonic() + _LINE_EVERY_SECONDS

    def _line(self) -> None:
        print(f"{self._stage}: {self._done}/{self._total} {self._unit}", file=sys.stderr)


def without_bar(connection: DuckDBPyConnection) -> None:
    """Keep DuckDB from drawing a bar of its own on standard output, where the report belongs."""
    import duckdb

    # In a notebook it has none to draw, and says so.
    with suppress(duckdb.InvalidInputException):
        connection.execute("set enable_progress_bar = false")
