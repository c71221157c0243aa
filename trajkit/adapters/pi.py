"""Pi coding agent sessions: JSON lines in `~/.pi/agent/sessions/`, versions 1 to 3.

Defined by the agent's session documentation. The first line is a header; every other line is an
entry of a type. Version 1 has no links between entries and is read in order. Since version 2 an
entry has `id` and `parentId`, so that going back begins a new branch in the same file: the way to
the last message is the live one, each other way with actions is a trajectory marked `meta.branch`.
Version 3 renamed the role `hookMessage` to `custom`; both are read.

Entries of extensions (`custom_message`) and the summaries of compactions and of left branches are
text of the program, put before the model as if a person had said it. Nothing is cut at a
compaction. A `bashExecution` is a command that a person ran: it becomes an observation of the
harness, as JSON text. A reply that failed before it said anything counts as `failed_reply`. A
result's `isError` is the tool's word; its exit code is read only where `details` has it. A forked
session repeats entries of the first one under their old ids, which mark the copies.

Smallest shape: {"type": "session", "version": 3, "id": "s", "timestamp": "...", "cwd": "/"} and
then {"type": "message", "id": "a", "parentId": null, "timestamp": "...", "message": {"role":
"user", "content": "..."}}
"""

from __future__ import annotations

from collections.abc import Iterator

from trajkit.adapters import Adapter
from trajkit.adapters.pi_session import is_header, read
from trajkit.model import Record, Reject, Trajectory


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the live branch of a session, then those that were left."""
    yield from read(record, adapter="pi")


ADAPTER = Adapter(
    name="pi",
    title="Pi coding agent sessions, versions 1 to 3, with branches",
    domains=("swe", "terminal", "mcp", "search"),
    detect=is_header,
    extract=extract,
    unit="session",
    generic=True,
)
