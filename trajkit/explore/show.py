"""Episodes as text for a terminal; log content is escaped, never interpreted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from trajkit.errors import TrajkitError, quote
from trajkit.store import Store

MAX_LINES = 8
MAX_LINE_CHARS = 160
# C0 and C1 controls but tab and newline, and the marks that reorder text on a screen.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def printable(text: str) -> str:
    r"""Return the text with control characters as escapes.

    >>> printable("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    return _UNSAFE.sub(lambda match: match.group().encode("unicode_escape").decode(), text)


def list_episodes(store: str | Path, limit: int) -> Iterator[str]:
    """Give one line for each of the first episodes."""
    source = Store(store).require("trajectories")
    yield f"{'trajectory_id':<26}{'domain':<10}{'steps':>5}  {'outcome':<9}{'adapter':<16}task"
    n_shown = 0
    for part in source.parts():
        for row in source.read("trajectories", part).iter_rows(named=True):
            if n_shown == limit:
                yield f"... of {source.manifest.rows['trajectories']:,}; --limit shows more"
                return
            task = printable(" ".join((row["task"] or "").split()))[:60]
            yield (
                f"{row['trajectory_id']:<26}{row['domain']:<10}{row['n_steps']:>5}  "
                f"{row['outcome_status']:<9}{row['adapter']:<16}{task}"
            )
            n_shown += 1


def show_episode(store: str | Path, id_: str, *, full: bool = False) -> Iterator[str]:
    """Give the lines of one episode, found by the first characters of its id.

    Raises TrajkitError when no episode, or more than one, begins like that.
    """
    source = Store(store).require("trajectories", "steps")
    found: list[tuple[str, dict[str, Any]]] = []
    for part in source.parts():
        rows = source.read("trajectories", part).filter(
            pl.col("trajectory_id").str.starts_with(id_)
        )
        found += [(part, row) for row in rows.iter_rows(named=True)]
    if len(found) != 1:
        what = (
            f"{len(found)} episodes begin with {quote(id_)}"
            if found
            else f"no episode {quote(id_)}"
        )
        raise TrajkitError(str(store), what, "`trajkit show STORE` lists them")
    part, episode = found[0]
    for name, value in episode.items():
        if value is not None:
            yield from _field(name, str(value), full)
    steps = source.read("steps", part).filter(pl.col("trajectory_id") == episode["trajectory_id"])
    for step in steps.iter_rows(named=True):
        mark = f"  [{step['skip_reason']}]" if step["skip_reason"] else ""
        yield ""
        yield f"--- step {step['step_index']} (turn {step['turn']}){mark}"
        for name in ("thought", "action", "observation", "error", "exit_code"):
            if step[name] is not None:
                yield from _field(name, str(step[name]), full)


def _field(name: str, value: str, full: bool) -> Iterator[str]:
    lines = printable(value).split("\n")
    shown = lines if full else lines[:MAX_LINES]
    for number, line in enumerate(shown):
        label = f"{name}: " if number == 0 else "  "
        cut = line if full or len(line) <= MAX_LINE_CHARS else line[:MAX_LINE_CHARS] + "…"
        yield label + cut
    if len(lines) > len(shown):
        yield f"  … {len(lines) - len(shown)} more lines; --full shows them"
