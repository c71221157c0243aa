"""The recipe's filters: whole episodes out by reason, single steps marked, history never cut.

Source: Qwen-AgentWorld report, section 3.1.2. A step that is marked stays in the history of the
steps after it; it only ceases to be a training target.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import polars as pl
from rapidfuzz import fuzz

from trajkit.model import Origin, Reject
from trajkit.progress import Progress
from trajkit.report import Report, under
from trajkit.store import Store, inputs_of, iterate_parts, open_writer

GUI = ("web", "os", "android")
BLOCKED_PAGE = (
    r"(?i)\bcaptcha\b|are you a (?:human|robot)|unusual traffic from your"
    r"|\b(?:403 forbidden|404 not found|429 too many requests|500 internal server error"
    r"|502 bad gateway|503 service unavailable|504 gateway time-?out)\b"
)
SHELL_FAILURE = (
    r"(?m)(?:command not found|No such file or directory|[Ss]yntax error|Permission denied"
    r"|not recognized|invalid option|Traceback \(most recent call last\))"
)
RETRY_SIMILARITY = 60.0
TRAJECTORY_REASONS = {
    "too_short": "under two turns",
    "undeclared_tool": "calls a tool that its action space does not declare",
    "missing_state": "a screen is missing before the end",
    "captcha_or_http_error": "shows a CAPTCHA or an HTTP error page",
    "no_observation": "the environment never answered",
}
STEP_REASONS = (
    "harness_feedback",
    "user_reply",
    "empty_action",
    "final_without_reply",
    "missing_observation",
    "truncated_observation",
    "no_change",
    "retry_cycle",
)


def filter_episodes(
    store: str | Path, out: str | Path, *, overwrite: bool = False, quiet: bool = False
) -> Report:
    """Return the report of filtering a store into a new one.

    Dropped episodes go to `rejects.parquet` of the new store; `steps.skip_reason` of the kept
    ones says which steps are context only. Holds one part at a time.
    """
    source = Store(store).require("trajectories", "steps")
    report = Report("filter", out)
    writer = open_writer(
        out,
        kind="store",
        stage="filter",
        options={},
        inputs=inputs_of(source),
        overwrite=overwrite,
    )
    parts = source.parts()
    with Progress("filter", len(parts), "parts", quiet=quiet) as progress:
        for part in iterate_parts(source, writer):
            episodes, steps = source.read("trajectories", part), source.read("steps", part)
            reasons = _drop_reasons(episodes, steps)
            kept = episodes.join(reasons, on="trajectory_id", how="anti", maintain_order="left")
            kept_steps = mark_steps(
                steps.join(reasons, on="trajectory_id", how="anti", maintain_order="left")
            )
            writer.write("trajectories", part, kept)
            writer.write("steps", part, kept_steps)
            dropped = episodes.join(reasons, on="trajectory_id", maintain_order="left")
            with writer.reject_sink(part) as rejects:
                rejects.extend(_reject(row) for row in dropped.iter_rows(named=True))
            counts = {"read": episodes.height, "kept": kept.height, "steps": kept_steps.height}
            counts |= {f"dropped.{k}": n for k, n in _value_counts(dropped["reason"]).items()}
            skips = _value_counts(kept_steps["skip_reason"].drop_nulls())
            counts |= {f"skipped.{k}": n for k, n in skips.items()}
            writer.mark(part, counts)
            progress.advance()
    report.read = writer.counts["read"]
    report.kept = report.written = writer.counts["kept"]
    report.dropped = under(writer.counts, "dropped")
    report.extra["steps"] = writer.counts["steps"]
    report.extra["steps_marked"] = under(writer.counts, "skipped")
    return report.finish(writer)


def _reject(row: Mapping[str, Any]) -> Reject:
    return Reject(
        origin=Origin(path=row["origin_path"], line=row["origin_line"], key=row["origin_key"]),
        reason=row["reason"],
        message=f"{TRAJECTORY_REASONS[row['reason']]} ({row['trajectory_id']})",
    )


def _value_counts(values: pl.Series) -> dict[str, int]:
    return dict(values.value_counts().iter_rows())


def _drop_reasons(episodes: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Return `trajectory_id, reason` of the episodes to drop; the first reason that holds."""
    from_environment = pl.col("observation").is_not_null() & (
        pl.col("observation_source") == "environment"
    )
    is_last = pl.col("step_index") == pl.col("step_index").max().over("trajectory_id")
    facts = steps.group_by("trajectory_id", maintain_order=True).agg(
        too_short=pl.col("turn").n_unique() < 2,
        no_observation=~from_environment.any(),
        state_gap=(
            (pl.col("observation").is_null() | (pl.col("observation").str.strip_chars() == ""))
            & ~is_last
            & (pl.col("observation_source") == "environment")
        ).any(),
        blocked=(
            pl.col("observation").str.contains(BLOCKED_PAGE).fill_null(value=False)
            & (pl.col("observation_source") == "environment")
        ).any(),
    )
    undeclared = _undeclared(episodes, steps)
    gui = pl.col("domain").is_in(GUI)
    checks = {
        "too_short": pl.col("too_short"),
        "undeclared_tool": pl.col("trajectory_id").is_in(undeclared),
        "no_observation": pl.col("no_observation"),
        "missing_state": gui & pl.col("state_gap"),
        "captcha_or_http_error": gui & pl.col("blocked"),
    }
    reason = pl.coalesce(pl.when(holds).then(pl.lit(reason)) for reason, holds in checks.items())
    return (
        episodes.select("trajectory_id", "domain")
        .join(facts, on="trajectory_id", maintain_order="left")
        .select("trajectory_id", reason=reason)
        .drop_nulls()
    )


def _undeclared(episodes: pl.DataFrame, steps: pl.DataFrame) -> list[str]:
    """Return ids of mcp and swe episodes that call a tool missing from a declared action space."""
    found = []
    declared = episodes.filter(
        pl.col("domain").is_in(("mcp", "swe")) & pl.col("action_space").is_not_null()
    )
    called = dict(
        steps.filter((pl.col("action_kind") == "tool_call") & pl.col("action_name").is_not_null())
        .group_by("trajectory_id", maintain_order=True)
        .agg(pl.col("action_name").unique())
        .iter_rows()
    )
    for id_, text in declared.select("trajectory_id", "action_space").iter_rows():
        names = declared_tools(text)
        if names and not set(called.get(id_, ())) <= names:
            found.append(id_)
    return found


def declared_tools(action_space: str) -> set[str]:
    """Return the tool names of an action space; empty when it is not a list of schemas.

    >>> sorted(declared_tools('[{"function": {"name": "a"}}, {"name": "b"}]'))
    ['a', 'b']
    """
    try:
        tools = orjson.loads(action_space)
    except ValueError:
        return set()
    names = set()
    for tool in tools if isinstance(tools, list) else []:
        if isinstance(tool, dict):
            inner = tool.get("function")
            name = inner.get("name") if isinstance(inner, dict) else tool.get("name")
            if isinstance(name, str):
                names.add(name)
    return names


def mark_steps(steps: pl.DataFrame) -> pl.DataFrame:
    """Return the steps with `skip_reason` set where a step must not be a training target.

    A reason that is already there stays. An empty keystroke is a legal wait in a terminal, and a
    silent command answers with an empty text: neither is marked.
    """
    last = pl.col("step_index") == pl.col("step_index").max().over("trajectory_id")
    no_answer = pl.col("observation").is_null()
    before = pl.col("observation").shift(1).over("trajectory_id")
    gui = pl.col("domain").is_in(GUI)
    rules: dict[str, pl.Expr | pl.Series] = {
        "harness_feedback": pl.col("observation_source") == "harness",
        "user_reply": pl.col("observation_source") == "user",
        "empty_action": (pl.col("action_kind") == "none")
        | ((pl.col("action").str.strip_chars() == "") & (pl.col("action_kind") != "keystrokes")),
        "final_without_reply": no_answer & last,
        "missing_observation": no_answer,
        "truncated_observation": pl.col("truncated"),
        "no_change": gui & (pl.col("observation") == before).fill_null(value=False),
        "retry_cycle": pl.Series(_retry_cycles(steps), dtype=pl.Boolean),
    }
    reason = pl.coalesce(
        pl.col("skip_reason"),
        *(pl.when(holds).then(pl.lit(reason)) for reason, holds in rules.items()),
    )
    return steps.with_columns(skip_reason=reason)


def _retry_cycles(steps: pl.DataFrame) -> list[bool]:
    """Return for each step whether it failed and the very next one repeats it, put right."""
    failed = (
        pl.col("error").is_not_null()
        | (pl.col("exit_code").fill_null(0) != 0)
        | (
            (pl.col("domain") == "terminal")
            & pl.col("observation").str.contains(SHELL_FAILURE).fill_null(value=False)
        )
    )
    view = steps.select(
        "action",
        failed=failed,
        next_action=pl.col("action").shift(-1).over("trajectory_id"),
        same_name=(
            pl.col("action_name").eq_missing(pl.col("action_name").shift(-1)).over("trajectory_id")
        ),
    ).with_columns(next_failed=pl.col("failed").shift(-1))
    return [
        bool(
            failed_here
            and same
            and following is not None
            and fuzz.ratio(_body(action), _body(following)) >= RETRY_SIMILARITY
        )
        for action, failed_here, following, same, _ in view.iter_rows()
    ]


def _body(action: str) -> str:
    """Return an action without the frame that all calls of one tool share."""
    return re.sub(r'^\{"name": "[^"]*", "arguments": |^\[?\{"keystrokes":', "", action)
