"""The recipe's filters: whole episodes out by reason, single steps marked, history never cut.

Source: Qwen-AgentWorld report, section 3.1.2; what it leaves open is decided by cause and told at
each rule. A step that is marked stays in the history of the steps after it; it only ceases to be a
training target. A run that read its answer (`leaks`) is not dropped: all its steps are marked, and
the evidence stands in `meta.leaked_answer`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from trajkit.errors import TrajkitError, alternatives, quote
from trajkit.filters.episodes import TRAJECTORY_REASONS, blocked_pages, drop_reasons
from trajkit.filters.leaks import find_leaks
from trajkit.filters.tools import declared_tools
from trajkit.filters.turns import STEP_REASONS, mark_steps
from trajkit.model import Origin, Reject, to_json_text
from trajkit.progress import Progress
from trajkit.report import Report, under
from trajkit.store import Store, StoreWriter, inputs_of, iterate_parts, open_writer

__all__ = [
    "REASONS",
    "STEP_REASONS",
    "TRAJECTORY_REASONS",
    "declared_tools",
    "filter_episodes",
    "mark_steps",
]

REASONS = (*TRAJECTORY_REASONS, *(name for name in STEP_REASONS if name not in TRAJECTORY_REASONS))
"""All that can be switched off."""
SOLVED = {"solved": ("success",), "unless_failed": ("success", "unknown")}
"""Outcomes whose runs are marked when they read their answer; evidence is noted for all."""


def filter_episodes(
    store: str | Path,
    out: str | Path,
    *,
    keep: tuple[str, ...] = (),
    min_turns: int = 2,
    max_missing_states: float = 0.0,
    max_blocked_pages: float = 0.5,
    retry_similarity: float = 60.0,
    leaks_in: str = "solved",
    overwrite: bool = False,
    quiet: bool = False,
) -> Report:
    """Return the report of filtering a store into a new one.

    Dropped episodes go to `rejects.parquet` of the new store; `steps.skip_reason` of the kept
    ones says which steps are context only. Reasons in `keep` are switched off. `min_turns` counts
    turns in which the agent acts; `max_missing_states` is the share of a GUI run's screens that may
    be missing, `max_blocked_pages` the share of a search run's answers that may be walls;
    `retry_similarity` (0 to 100) is how much alike an action and its retry are. Holds one part at a
    time; what stays as it is is hard-linked.

    Raises TrajkitError for an unknown reason or a threshold out of range.
    """
    options = {
        "keep": sorted(set(keep)),
        "min_turns": min_turns,
        "max_missing_states": max_missing_states,
        "max_blocked_pages": max_blocked_pages,
        "retry_similarity": retry_similarity,
        "leaks_in": leaks_in,
    }
    _check(options)
    source = Store(store).require("trajectories", "steps")
    report = Report("filter", out)
    writer = open_writer(
        out,
        kind="store",
        stage="filter",
        options=options,
        inputs=inputs_of(source),
        overwrite=overwrite,
    )
    parts = source.parts()
    with Progress("filter", len(parts), "parts", quiet=quiet) as progress:
        for part in iterate_parts(source, writer):
            writer.mark(part, _filter_part(source, part, writer, options))
            progress.advance()
    counts = writer.counts
    report.read = counts["read"]
    report.kept = report.written = counts["kept"]
    report.dropped = under(counts, "dropped")
    report.extra["steps"] = counts["steps"]
    report.extra["steps_marked"] = under(counts, "marked")
    report.extra["leaks"] = under(counts, "leaks")
    report.extra["dropped_by_domain"] = _nested(under(counts, "dropped_in"))
    report.extra["steps_marked_by_domain"] = _nested(under(counts, "marked_in"))
    return report.finish(writer)


def _check(options: Mapping[str, Any]) -> None:
    for reason in options["keep"]:
        if reason not in REASONS:
            raise TrajkitError(
                "--keep", f"no reason {quote(reason)}", f"one of {alternatives(REASONS)}"
            )
    ranges = {"min_turns": (0, 1 << 31), "retry_similarity": (0, 100)}
    ranges |= dict.fromkeys(("max_missing_states", "max_blocked_pages"), (0, 1))
    for name, (least, most) in ranges.items():
        if not least <= options[name] <= most:
            where = "--" + name.replace("_", "-")
            raise TrajkitError(where, f"{options[name]} is out of range", f"{least} to {most}")
    if (chosen := options["leaks_in"]) not in SOLVED:
        raise TrajkitError(
            "--leaks-in", f"no choice {quote(chosen)}", f"one of {alternatives(SOLVED)}"
        )


def _filter_part(
    source: Store, part: str, writer: StoreWriter, options: Mapping[str, Any]
) -> dict[str, int]:
    """Write one part and return its counts."""
    episodes, steps = source.read("trajectories", part), source.read("steps", part)
    keep = options["keep"]
    walls = blocked_pages(steps)
    thresholds = {
        name: options[name] for name in ("min_turns", "max_missing_states", "max_blocked_pages")
    }
    reasons = drop_reasons(episodes, steps, walls, keep=keep, **thresholds)
    kept, kept_steps, is_wall = episodes, steps, _rows(walls, steps.height)
    if reasons.height:
        ids = reasons["trajectory_id"].implode()
        stays = ~steps["trajectory_id"].is_in(ids)
        kept = episodes.filter(~pl.col("trajectory_id").is_in(ids))
        kept_steps, is_wall = steps.filter(stays), is_wall.filter(stays)
    leaks = find_leaks(kept, kept_steps)
    solved = kept.filter(pl.col("outcome_status").is_in(SOLVED[options["leaks_in"]]))
    leaked = set(leaks["trajectory_id"]) & set(solved["trajectory_id"])
    marked = mark_steps(
        kept_steps,
        keep=keep,
        retry_similarity=options["retry_similarity"],
        initial_states=kept.select("trajectory_id", "domain", "initial_state"),
        leaked=leaked,
        walls=is_wall & (kept_steps["domain"] == "search"),
    )
    if leaks.height:
        kept = _with_evidence(kept, leaks)
    same_steps = marked["skip_reason"].equals(steps["skip_reason"], null_equal=True)
    for table, frame, is_same in (
        ("trajectories", kept, not reasons.height and not leaks.height),
        ("steps", marked, not reasons.height and same_steps),
    ):
        if is_same:
            writer.link(source, table, part)
        else:
            writer.write(table, part, frame)
    dropped = episodes.join(reasons, on="trajectory_id", maintain_order="left")
    with writer.reject_sink(part) as rejects:
        rejects.extend(_reject(row) for row in dropped.iter_rows(named=True))
    kinds = leaks.select("trajectory_id", "kind").unique()
    counts = Counter({"read": episodes.height, "kept": kept.height, "steps": marked.height})
    counts.update(_counted(dropped, "dropped", ["reason"]))
    counts.update(_counted(dropped, "dropped_in", ["domain", "reason"]))
    marked = marked.filter(pl.col("skip_reason").is_not_null())
    counts.update(_counted(marked, "marked", ["skip_reason"]))
    counts.update(_counted(marked, "marked_in", ["domain", "skip_reason"]))
    counts.update(_counted(kinds, "leaks", ["kind"]))
    return counts


def _rows(walls: pl.DataFrame, height: int) -> pl.Series:
    is_wall = [False] * height
    for row in walls["row"]:
        is_wall[row] = True
    return pl.Series(is_wall, dtype=pl.Boolean)


def _counted(frame: pl.DataFrame, name: str, columns: list[str]) -> dict[str, int]:
    rows = frame.group_by(columns).len().iter_rows()
    return {".".join((name, *values)): n for *values, n in rows}


def _nested(counts: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Return counts named `domain.reason` as one mapping for each domain."""
    nested: dict[str, dict[str, int]] = {}
    for name, count in counts.items():
        domain, _, reason = name.partition(".")
        nested.setdefault(domain, {})[reason] = count
    return nested


def _with_evidence(episodes: pl.DataFrame, leaks: pl.DataFrame) -> pl.DataFrame:
    """Return the episodes with `meta.leaked_answer` where there is evidence."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in leaks.iter_rows(named=True):
        found.setdefault(row.pop("trajectory_id"), []).append(row)
    metas = []
    for id_, meta in episodes.select("trajectory_id", "meta").iter_rows():
        if id_ in found:
            known = orjson.loads(meta) if meta else {}
            known = known if isinstance(known, dict) else {"value": known}
            meta = to_json_text(known | {"leaked_answer": found[id_]})
        metas.append(meta)
    return episodes.with_columns(meta=pl.Series(metas, dtype=pl.String))


def _reject(row: Mapping[str, Any]) -> Reject:
    return Reject(
        origin=Origin(path=row["origin_path"], line=row["origin_line"], key=row["origin_key"]),
        reason=row["reason"],
        pointer=row["pointer"],
        message=f"{TRAJECTORY_REASONS[row['reason']]}: {row['detail']} ({row['trajectory_id']})",
    )
