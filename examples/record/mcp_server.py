"""An MCP server over stdio that keeps a small stock of tools and its repair tickets in SQLite.

Usage: `python mcp_server.py DATABASE`. A missing database is made and filled. The tools answer in
the shapes that real servers mix: structured content, CSV, plain text, and errors of the tool.
"""

from __future__ import annotations

import argparse
import csv
import io
import sqlite3
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel, Field

STOCK = [
    ("HAM-100", "claw hammer", "hand", 14, 18.5),
    ("SAW-210", "tenon saw", "hand", 3, 27.0),
    ("SAW-340", "jigsaw", "power", 6, 89.9),
    ("DRL-400", "drill driver", "power", 2, 129.0),
    ("LVL-055", "spirit level, 60 cm", "measure", 9, 21.25),
    ("TAP-008", 'tape "long", 8 m', "measure", 25, 9.75),
]
Sku = Annotated[str, Field(pattern=r"^[A-Z]{3}-[0-9]{3}$", description="Such as HAM-100.")]

server = MCPServer(
    "inventory", version="1.0", instructions="Look an item up before you change its stock."
)
database: sqlite3.Connection


class Item(BaseModel):
    """One kind of tool in stock."""

    sku: str
    name: str
    category: str
    quantity: int
    price: float


class StockChange(BaseModel):
    """How a change of stock came out."""

    sku: str
    before: int
    after: int


def open_database(path: Path) -> sqlite3.Connection:
    """Return the open database, made and filled first when the file is new."""
    is_new = not path.exists()
    # The package runs each plain tool in a thread of its pool; SQLite itself takes turns.
    opened = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    if is_new:
        opened.execute(
            "CREATE TABLE items (sku TEXT PRIMARY KEY, name TEXT, category TEXT, "
            "quantity INTEGER, price REAL)"
        )
        opened.execute(
            "CREATE TABLE tickets (number INTEGER PRIMARY KEY, sku TEXT, note TEXT, "
            "status TEXT, opened TEXT)"
        )
        opened.executemany("INSERT INTO items VALUES (?, ?, ?, ?, ?)", STOCK)
    return opened


def as_csv(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a table as CSV text with a header line."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return out.getvalue()


def find(sku: str) -> Item:
    """Return the item, or raise the error that the client shall see."""
    row = database.execute("SELECT * FROM items WHERE sku = ?", (sku,)).fetchone()
    if row is None:
        raise ToolError(f"no item with sku {sku}")
    sku, name, category, quantity, price = row
    return Item(sku=sku, name=name, category=category, quantity=quantity, price=price)


@server.tool(structured_output=False)
def list_items(category: Literal["all", "hand", "power", "measure"] = "all") -> str:
    """List the items of a category as CSV, sorted by sku."""
    rows = database.execute(
        "SELECT * FROM items WHERE ? IN ('all', category) ORDER BY sku", (category,)
    )
    return as_csv(Item.model_fields, rows)


@server.tool()
def get_item(sku: Sku) -> Item:
    """Look one item up."""
    return find(sku)


@server.tool()
def search_items(text: Annotated[str, Field(min_length=2)]) -> list[Item]:
    """Find the items whose name holds a text."""
    rows = database.execute(
        "SELECT sku FROM items WHERE instr(name, ?) ORDER BY sku", (text,)
    ).fetchall()
    return [find(sku) for (sku,) in rows]


@server.tool()
def add_item(
    sku: Sku,
    name: str,
    category: Literal["hand", "power", "measure"],
    quantity: Annotated[int, Field(ge=0)],
    price: Annotated[float, Field(gt=0)],
) -> Item:
    """Take a new kind of item into stock."""
    try:
        database.execute(
            "INSERT INTO items VALUES (?, ?, ?, ?, ?)", (sku, name, category, quantity, price)
        )
    except sqlite3.IntegrityError as error:
        raise ToolError(f"sku {sku} is taken") from error
    return find(sku)


@server.tool()
def change_stock(sku: Sku, change: int) -> StockChange:
    """Add to the stock of an item, or take from it with a negative number."""
    before = find(sku).quantity
    if before + change < 0:
        raise ToolError(f"only {before} of {sku} in stock, cannot take {-change}")
    database.execute("UPDATE items SET quantity = quantity + ? WHERE sku = ?", (change, sku))
    return StockChange(sku=sku, before=before, after=find(sku).quantity)


@server.tool(structured_output=False)
def stock_value() -> str:
    """Give the number of items and their value for each category, as CSV."""
    rows = database.execute(
        "SELECT category, SUM(quantity), ROUND(SUM(quantity * price), 2) FROM items "
        "GROUP BY category ORDER BY category"
    )
    return as_csv(("category", "quantity", "value"), rows)


@server.tool(structured_output=False)
def open_ticket(sku: Sku, note: str) -> str:
    """Open a repair ticket for an item."""
    find(sku)
    opened = datetime.now(UTC).isoformat(timespec="seconds")
    cursor = database.execute(
        "INSERT INTO tickets (sku, note, status, opened) VALUES (?, ?, 'open', ?)",
        (sku, note, opened),
    )
    return f"Ticket {cursor.lastrowid} opened for {sku} at {opened}."


@server.tool(structured_output=False)
def list_tickets(status: Literal["open", "closed"] = "open") -> str:
    """List the tickets of a status as lines of text."""
    rows = database.execute(
        "SELECT number, sku, note FROM tickets WHERE status = ? ORDER BY number", (status,)
    ).fetchall()
    return "\n".join(f"#{number} {sku}: {note}" for number, sku, note in rows) or f"No {status}."


@server.tool(structured_output=False)
def close_ticket(number: int) -> str:
    """Close an open ticket."""
    cursor = database.execute(
        "UPDATE tickets SET status = 'closed' WHERE number = ? AND status = 'open'", (number,)
    )
    if cursor.rowcount == 0:
        raise ToolError(f"no open ticket {number}")
    return f"Ticket {number} closed."


@server.tool(structured_output=False)
async def count_shelf(
    category: Literal["hand", "power", "measure"],
    seconds_per_item: Annotated[float, Field(ge=0, le=1)],
    context: Context,
) -> str:
    """Count a category item by item, telling the progress, and say whether the books agree."""
    rows = database.execute(
        "SELECT sku, quantity FROM items WHERE category = ? ORDER BY sku", (category,)
    ).fetchall()
    for done, (sku, quantity) in enumerate(rows, 1):
        await anyio.sleep(seconds_per_item)
        await context.report_progress(done, len(rows), f"{sku}: {quantity}")
    n_pieces = sum(quantity for _, quantity in rows)
    return f"{category}: {len(rows)} kinds, {n_pieces} pieces, the books agree"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("database", type=Path)
    database = open_database(parser.parse_args().database)
    server.run("stdio")
