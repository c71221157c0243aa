"""SQL over stores, with DuckDB on the Parquet files themselves."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb

from trajkit.builders.splits import SPLITS
from trajkit.errors import TrajkitError
from trajkit.explore.show import printable
from trajkit.model import to_json_text
from trajkit.progress import without_bar
from trajkit.store import Store
from trajkit.tables import TABLES

MAX_CELL_CHARS = 80


def connect(stores: Sequence[str | Path]) -> duckdb.DuckDBPyConnection:
    """Return a connection with one view for each table of the stores.

    With several stores a view is their union, with the column `store`. The connection can read the
    stores' own files and nothing else on the machine.

    Raises TrajkitError when a store is missing or unfinished.
    """
    opened = [Store(path) for path in stores]
    connection = duckdb.connect()
    without_bar(connection)
    folders = [str(store.path.resolve()) for store in opened]
    for table in (*TABLES, *SPLITS):
        selects = []
        for store in opened:
            files = [str(file.resolve()) for file in store.files(table)]
            if files:
                name = f"{_literal(str(store.path))} as store, " if len(opened) > 1 else ""
                listed = ", ".join(map(_literal, files))
                selects.append(f"select {name}* from read_parquet([{listed}])")
        if selects:
            connection.execute(f"create view {table} as {' union all by name '.join(selects)}")
    connection.execute(f"set allowed_directories = [{', '.join(map(_literal, folders))}]")
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")
    return connection


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def query(stores: Sequence[str | Path], text: str, *, output: str = "table") -> str:
    """Return the result of a query as a table for a terminal, JSON lines or CSV.

    The table cuts long cells and escapes control characters; JSON and CSV hold values whole.

    Raises TrajkitError with the engine's own message when the query fails.
    """
    with connect(stores) as connection:
        try:
            cursor = connection.execute(text)
            names = [column[0] for column in cursor.description or []]
            rows = cursor.fetchall()
        except duckdb.Error as error:
            views = connection.execute(
                "select view_name from duckdb_views() where not internal order by all"
            ).fetchall()
            hint = "the tables here are " + ", ".join(name for (name,) in views)
            raise TrajkitError("query", str(error).split("\n\n")[0], hint) from error
    if output == "json":
        return "\n".join(to_json_text(dict(zip(names, row, strict=True))) for row in rows)
    if output == "csv":
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(rows)
        return buffer.getvalue().removesuffix("\n")
    return _table(names, rows)


def _table(names: list[str], rows: list[tuple[Any, ...]]) -> str:
    cells = [names, *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(names))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in cells]
    lines.insert(1, "  ".join("-" * width for width in widths))
    lines.append(f"({len(rows)} row{'' if len(rows) == 1 else 's'})")
    return "\n".join(line.rstrip() for line in lines)


def _cell(value: Any) -> str:
    text = "null" if value is None else printable(str(value).replace("\n", "⏎"))
    return text if len(text) <= MAX_CELL_CHARS else text[: MAX_CELL_CHARS - 1] + "…"
