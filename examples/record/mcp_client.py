"""Record MCP episodes: a real client session talks to `mcp_server.py` over stdio.

Client and server are built with the package `mcp` (2.3.0). Each episode starts a new server on a
new database and runs a scripted series of calls; every JSON-RPC message is logged as it passes
between the transport and the session, one a line, with its direction and the time. The first line
names the task. Two files differ, as files do in the wild: one holds bare messages without the
envelope, and one has lost its end in the middle of a message.

(The name is not `mcp.py`, since that would hide the package from this program and its server.)
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import anyio
from mcp import ClientSession, MCPError, StdioServerParameters, stdio_client
from mcp.types import CallToolResult, EmptyResult, Implementation, Request

BOX = Path("/tmp/box/inventory")
SERVER = Path(__file__).absolute().parent / "mcp_server.py"

Lines = list[dict[str, Any]]


class Caller:
    """The session as an episode sees it: short ways to call, errors left in the log."""

    def __init__(self, session: ClientSession) -> None:
        self.session = session

    async def call(self, tool: str, /, **arguments: Any) -> str:
        """Call a tool and return the text of its answer, an error's text too."""
        result = await self.session.call_tool(tool, arguments)
        assert isinstance(result, CallToolResult)
        return "".join(getattr(part, "text", "") for part in result.content)

    async def call_with_progress(self, tool: str, /, **arguments: Any) -> None:
        """Call a tool and ask it to tell how far it is."""

        async def ignore(done: float, total: float | None, message: str | None) -> None:
            """The log has the notification; the policy has no use for it."""

        await self.session.call_tool(tool, arguments, progress_callback=ignore)

    async def together(self, *calls: Callable[[], Awaitable[Any]]) -> None:
        """Have all calls under way at once, sent in the order given."""
        async with anyio.create_task_group() as group:
            for call in calls:
                group.start_soon(call)
                await anyio.sleep(0.02)

    async def request(self, method: str, params: dict[str, Any] | None) -> None:
        """Send a request that the server may refuse on the level of JSON-RPC."""
        request = Request[dict[str, Any] | None, str](method=method, params=params)
        with suppress(MCPError):
            await self.session.send_request(request, EmptyResult)


async def restock(caller: Caller, sku: str, n_pieces: int) -> None:
    await caller.call("list_items", category="all")
    await caller.call("get_item", sku=sku)
    await caller.call("change_stock", sku=sku, change=n_pieces)
    await caller.call("get_item", sku=sku)
    await caller.call("change_stock", sku="LVL-055", change=-4)
    await caller.call("get_item", sku="LVL-550")
    await caller.call("get_item", sku="LVL-055")
    await caller.call("stock_value")


async def repair_tickets(caller: Caller) -> None:
    await caller.call("search_items", text="saw")
    opened = await caller.call("open_ticket", sku="SAW-340", note="blade holder is loose")
    await caller.call("open_ticket", sku="DRL-400", note="battery does not charge")
    await caller.call("list_tickets")
    number = int(opened.split()[1])
    await caller.call("close_ticket", number=number)
    await caller.call("close_ticket", number=number)
    await caller.call("list_tickets", status="open")
    await caller.call("list_tickets", status="closed")


async def new_item(caller: Caller) -> None:
    wanted = {"name": "wood chisel", "category": "hand", "quantity": 12, "price": 15.4}
    await caller.call("add_item", sku="HAM-100", **wanted)
    await caller.call("add_item", sku="chs-12", **wanted)
    await caller.call("add_item", sku="CHS-012", **(wanted | {"price": -15.4}))
    await caller.call("add_item", sku="CHS-012", **wanted)
    await caller.call("list_items", category="hand")
    await caller.call("change_stock", sku="CHS-012", change=-13)
    await caller.call("change_stock", sku="CHS-012", change=-2)
    await caller.call("search_items", text="chisel")
    await caller.call("search_items", text="anvil")


async def shelf_count(caller: Caller) -> None:
    await caller.together(
        lambda: caller.call_with_progress("count_shelf", category="measure", seconds_per_item=0.4),
        lambda: caller.call_with_progress("count_shelf", category="hand", seconds_per_item=0.15),
        lambda: caller.call("get_item", sku="TAP-008"),
        lambda: caller.call("get_item", sku="XYZ-999"),
    )
    await caller.call("change_stock", sku="TAP-008", change=-1)
    await caller.together(
        lambda: caller.call_with_progress("count_shelf", category="measure", seconds_per_item=0.2),
        lambda: caller.call("list_items", category="measure"),
    )


async def refused_requests(caller: Caller) -> None:
    await caller.session.send_ping()
    await caller.call("get_item", sku="SAW-210")
    await caller.request("inventory/burn", {"sku": "SAW-210"})
    await caller.request("tools/call", {"arguments": {"sku": "SAW-210"}})
    await caller.call("drop_items", sku="SAW-210")
    await caller.call("change_stock", sku="SAW-210", change="two")
    await caller.call("change_stock", sku="SAW-210", change=2)
    await caller.call("get_item", sku="SAW-210")


async def stock_taking(caller: Caller) -> None:
    await caller.call("list_items", category="power")
    await caller.call("change_stock", sku="DRL-400", change=-2)
    await caller.call("get_item", sku="DRL-400")
    await caller.call("stock_value")
    await caller.call("list_items", category="all")


RESTOCK_TASK = "Add {1} pieces to the stock of {0}, take 4 of LVL-055, and tell the new value."
EPISODES: dict[str, tuple[str, Callable[[Caller], Awaitable[None]]]] = {
    "new-item": ("Take 12 wood chisels at 15.40 into stock, then sell 2.", new_item),
    "refused-requests": ("Add 2 pieces to the stock of SAW-210.", refused_requests),
    "repair-tickets": (
        "Open tickets for the jigsaw and the drill driver, then close the first.",
        repair_tickets,
    ),
    "restock": (
        RESTOCK_TASK.format("SAW-210", 10),
        lambda caller: restock(caller, "SAW-210", 10),
    ),
    "restock-other": (
        RESTOCK_TASK.format("SAW-210", 12),
        lambda caller: restock(caller, "SAW-210", 12),
    ),
    "shelf-count": ("Count two shelves at once, sell one tape, count again.", shelf_count),
    "stock-taking": ("Sell the last drill drivers and list what is left.", stock_taking),
}
BARE = {"refused-requests"}
CUT = {"stock-taking"}


@asynccontextmanager
async def logged_session(lines: Lines) -> AsyncIterator[ClientSession]:
    """Start a server and give a session whose messages are added to `lines` both ways."""
    shutil.rmtree(BOX, ignore_errors=True)
    BOX.mkdir(parents=True)
    parameters = StdioServerParameters(
        command=sys.executable,
        args=[str(SERVER), str(BOX / "inventory.db")],
        env={"HOME": str(BOX), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=BOX,
    )

    async def carry(
        direction: Literal["client_to_server", "server_to_client"], source: Any, sink: Any
    ) -> None:
        async with sink:
            async for passing in source:
                if isinstance(passing, Exception):
                    raise passing
                message = passing.message.model_dump(mode="json", by_alias=True, exclude_unset=True)
                time = datetime.now(UTC).isoformat(timespec="milliseconds")
                time = time.replace("+00:00", "Z")
                lines.append({"direction": direction, "time": time, "message": message})
                await sink.send(passing)

    with open(os.devnull, "w") as silence:
        async with stdio_client(parameters, errlog=silence) as (from_server, to_server):
            into_session, session_reads = anyio.create_memory_object_stream[Any](0)
            session_writes, out_of_session = anyio.create_memory_object_stream[Any](0)
            async with anyio.create_task_group() as group:
                group.start_soon(carry, "server_to_client", from_server, into_session)
                group.start_soon(carry, "client_to_server", out_of_session, to_server)
                client = Implementation(name="scripted", version="1.0")
                async with ClientSession(
                    session_reads, session_writes, client_info=client, read_timeout_seconds=30
                ) as session:
                    yield session
                group.cancel_scope.cancel()


async def record(run: Callable[[Caller], Awaitable[None]]) -> Lines:
    """Return all messages of one episode in the order in which they passed."""
    lines: Lines = []
    async with logged_session(lines) as session:
        await session.initialize()
        await session.list_tools()
        await run(Caller(session))
    return lines


def as_bytes(name: str, task: str, lines: Lines) -> bytes:
    """Return the file: enveloped or bare, and without its last bytes where it is to be cut."""
    if name in BARE:
        records = [line["message"] for line in lines]
    else:
        session = {"type": "session", "task": task, "agent": "scripted", "server": "inventory"}
        records = [session, *lines]
    text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    content = text.encode("utf-8")
    if name in CUT:
        last_line_at = content[:-1].rindex(b"\n") + 1
        return content[: (last_line_at + len(content)) // 2]
    return content


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out_dir", type=Path, help="gets one .jsonl file per episode")
    parser.add_argument("--only", choices=sorted(EPISODES), help="record this episode alone")
    arguments = parser.parse_args()
    arguments.out_dir.mkdir(parents=True, exist_ok=True)
    for name, (task, run) in EPISODES.items():
        if arguments.only not in (None, name):
            continue
        lines = anyio.run(record, run)
        (arguments.out_dir / f"{name}.jsonl").write_bytes(as_bytes(name, task, lines))
        n_calls = sum(line["message"].get("method") == "tools/call" for line in lines)
        print(f"{name}: {len(lines)} messages, {n_calls} tool calls", file=sys.stderr)
    shutil.rmtree(BOX, ignore_errors=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
