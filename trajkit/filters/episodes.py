"""Reasons to leave a whole episode out, each with the place where it shows."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import polars as pl

from trajkit.filters.pages import MAX_PAGE_CHARS, SIGNS, blocked_page
from trajkit.filters.tools import declared_tools, undeclared
from trajkit.filters.turns import GUI, is_empty_action
from trajkit.terminal_text import shown

TRAJECTORY_REASONS = {
    "never_ran": "no agent acted",
    "too_short": "too few turns",
    "undeclared_tool": "calls a tool that its action space does not declare",
    "missing_state": "screens are missing before the end, or are pictures only",
    "no_observation": "the environment never answered",
    "captcha_or_http_error": "shows a CAPTCHA or an HTTP error page",
}
"""Reasons of drops, in the order in which they are asked: an episode has one."""

_NOT_STARTED = (
    r"(?i)^agent_?never_?ran$|agent_?(?:install|set_?up)\w*?(?:fail|error|timeout)"
    r"|environment_?(?:start|build|set_?up)\w*?(?:fail|error|timeout)"
)
_AGENTS = frozenset(
    {"mini", "mini-swe-agent", "claude", "codex", "goose", "aider", "opencode", "gemini", "qwen"}
    | {"cursor-agent", "openhands", "sweagent", "droid", "copilot", "amp", "crush", "kimi", "grok"}
    | {"cline", "hermes", "openclaw", "pi", "auggie", "acli", "forge", "junie"}
)
_NOT_FOUND = re.compile(r"(?:^|: )(?P<name>[\w./-]+): (?:command )?not found\b", re.MULTILINE)
_SETUP = re.compile(
    r"install(?:ed)?-agent|agent[\w-]*/(?:setup|install)"
    r"|\A\W*(?:\"?keystrokes\W+)?(?:source|export|clear|cd)\b"
)
_ONLY_PICTURES = r"^(?:\s*<picture:[^<>]*>)+\s*$"


def blocked_pages(steps: pl.DataFrame) -> pl.DataFrame:
    """Return `row, trajectory_id, domain, step_index, kind` of answers that are walls or errors.

    Looks at GUI and search runs. An address that does not exist is an honest answer of a search
    tool, which is asked for any address; on a screen it is an error page.
    """
    rows = (
        steps.select("trajectory_id", "domain", "step_index", "observation", "observation_source")
        .with_row_index("row")
        .filter(
            pl.col("domain").is_in([*GUI, "search"])
            & (pl.col("observation_source") == "environment")
            & (pl.col("observation").str.len_bytes() <= 4 * MAX_PAGE_CHARS)
        )
        .filter(pl.col("observation").str.contains_any(list(SIGNS), ascii_case_insensitive=True))
    )
    kinds = [blocked_page(text) for text in rows["observation"]]
    return (
        rows.select("row", "trajectory_id", "domain", "step_index")
        .with_columns(kind=pl.Series(kinds, dtype=pl.String))
        .filter(
            pl.col("kind").is_not_null()
            & ~((pl.col("domain") == "search") & (pl.col("kind") == "not_found"))
        )
    )


def drop_reasons(
    episodes: pl.DataFrame,
    steps: pl.DataFrame,
    walls: pl.DataFrame,
    *,
    keep: Collection[str] = (),
    min_turns: int = 2,
    max_missing_states: float = 0.0,
    max_blocked_pages: float = 0.5,
) -> pl.DataFrame:
    """Return `trajectory_id, reason, detail, pointer` of the episodes to drop.

    The first reason that holds is given; those in `keep` are not looked for. `walls` comes from
    `blocked_pages`. `max_missing_states` is the share of turns, the last left out, whose screen may
    be missing; `max_blocked_pages` the share of a search run's answers that may shut it out.
    """
    facts = _facts(steps).join(_wall_facts(walls), on="trajectory_id", how="left")
    facts = (
        episodes.select("trajectory_id", "domain", "exit_status")
        .join(facts, on="trajectory_id", how="left", maintain_order="left")
        .join(_undeclared(episodes, steps), on="trajectory_id", how="left", maintain_order="left")
        .join(_absent_agents(steps), on="trajectory_id", how="left", maintain_order="left")
        .with_columns(
            pl.col("n_turns", "n_states", "n_lost", "n_due", "n_answers", "n_walls").fill_null(0)
        )
    )
    gui = pl.col("domain").is_in(GUI)
    checks = {
        "never_ran": pl.col("exit_status").str.contains(_NOT_STARTED)
        | (pl.col("n_turns") == 0)
        | pl.col("absent").is_not_null(),
        "too_short": pl.col("n_turns") < min_turns,
        "undeclared_tool": pl.col("undeclared").is_not_null(),
        "missing_state": gui
        & ((pl.col("n_states") == 0) | (pl.col("n_lost") > max_missing_states * pl.col("n_due"))),
        "no_observation": ~gui & (pl.col("n_answers") == 0),
        "captcha_or_http_error": (pl.col("n_walls") > 0)
        & (
            gui
            | (
                (pl.col("domain") == "search")
                & (pl.col("n_walls") > max_blocked_pages * pl.col("n_answers"))
            )
        ),
    }
    looked_for = [
        pl.when(holds).then(pl.lit(reason))
        for reason, holds in checks.items()
        if reason not in keep
    ]
    reason = pl.coalesce(*looked_for, pl.lit(None, pl.String))
    dropped = facts.with_columns(reason=reason).filter(pl.col("reason").is_not_null())
    rows = [
        (row["trajectory_id"], row["reason"], *_detail(row))
        for row in dropped.iter_rows(named=True)
    ]
    names = ["trajectory_id", "reason", "detail", "pointer"]
    return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")


def _detail(row: dict[str, Any]) -> tuple[str, str | None]:
    """Return the evidence in words, and the JSON path of the step it stands in."""
    match row["reason"]:
        case "never_ran":
            if row["absent"]:
                return f"{row['absent']} was not found", None
            return (row["exit_status"] if row["n_turns"] else "not one step does anything"), None
        case "undeclared_tool":
            return row["undeclared"], None
        case "missing_state":
            n_there = row["n_due"] - row["n_lost"]
            return f"{n_there} of {row['n_due']} screens as text", None
        case "captcha_or_http_error":
            return f"{row['wall']}, {row['n_walls']} in all", f"$.steps[{row['wall_step']}]"
    return f"turns: {row['n_turns']}", None


def _facts(steps: pl.DataFrame) -> pl.DataFrame:
    """Return what the steps of each episode say, counted by turns.

    Parallel actions of one turn share a screen. Talk needs none, nor does the end of a run.
    """
    text = pl.col("observation")
    is_screen = (
        (pl.col("observation_source") == "environment")
        & (text.str.strip_chars() != "")
        & ~(text.str.starts_with("<picture:") & text.str.contains(_ONLY_PICTURES))
    ).fill_null(value=False)
    acts = ~is_empty_action()
    turns = steps.group_by("trajectory_id", "turn", maintain_order=True).agg(
        acts=acts.any(),
        on_screen=(acts & (pl.col("action_kind") != "message")).any(),
        is_screen=is_screen.any(),
        is_other=(text.is_not_null() & (pl.col("observation_source") != "environment")).any(),
        n_answers=(text.is_not_null() & (pl.col("observation_source") == "environment")).sum(),
    )
    last = pl.col("turn") == pl.col("turn").filter("on_screen").max().over("trajectory_id")
    due = pl.col("on_screen") & (~last | pl.col("is_screen")).fill_null(value=False)
    return (
        turns.with_columns(due=due)
        .group_by("trajectory_id", maintain_order=True)
        .agg(
            n_turns=pl.col("acts").sum(),
            n_states=pl.col("is_screen").sum(),
            n_due=pl.col("due").sum(),
            n_lost=(pl.col("due") & ~pl.col("is_screen") & ~pl.col("is_other")).sum(),
            n_answers=pl.col("n_answers").sum(),
        )
    )


def _wall_facts(walls: pl.DataFrame) -> pl.DataFrame:
    return walls.group_by("trajectory_id", maintain_order=True).agg(
        n_walls=pl.len(), wall=pl.col("kind").first(), wall_step=pl.col("step_index").first()
    )


def _undeclared(episodes: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Return `trajectory_id, undeclared` of mcp and swe episodes that call what is not declared."""
    rows = []
    declared = episodes.filter(
        pl.col("domain").is_in(("mcp", "swe")) & pl.col("action_space").is_not_null()
    )
    called = dict(
        steps.filter((pl.col("action_kind") == "tool_call") & pl.col("action_name").is_not_null())
        .join(declared.select("trajectory_id"), on="trajectory_id", how="semi")
        .group_by("trajectory_id", maintain_order=True)
        .agg(pl.col("action_name").unique())
        .iter_rows()
    )
    columns = declared.select("trajectory_id", "action_space", "adapter")
    for id_, text, adapter in columns.iter_rows():
        names = declared_tools(text) if id_ in called else set()
        missing = undeclared(called[id_], names, adapter) if names else []
        if missing:
            rows.append((id_, ", ".join(missing)[:200]))
    schema = {"trajectory_id": pl.String, "undeclared": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _absent_agents(steps: pl.DataFrame) -> pl.DataFrame:
    """Return `trajectory_id, absent`: the agent that a terminal could not find.

    That is so when the last command is an agent's name that the screen says is not found, and all
    commands before it only set things up. The only command of a run may be an agent of any name.
    """
    acting = steps.filter((pl.col("domain") == "terminal") & ~is_empty_action()).with_columns(
        n=pl.len().over("trajectory_id")
    )
    last = acting.group_by("trajectory_id", maintain_order=True).last()
    rows = []
    suspects = last.filter(pl.col("observation").str.contains("not found", literal=True))
    for id_, action, seen, n in suspects.select(
        "trajectory_id", "action", "observation", "n"
    ).iter_rows():
        names = {match["name"] for match in _NOT_FOUND.finditer(shown(seen))}
        started = sorted(name for name in names if _starts(name, action))
        if not started or not (n == 1 or _AGENTS.intersection(started)):
            continue
        before = acting.filter(pl.col("trajectory_id") == id_)["action"][:-1]
        if all(_SETUP.search(text) for text in before):
            rows.append((id_, started[0]))
    schema = {"trajectory_id": pl.String, "absent": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _starts(name: str, action: str) -> bool:
    return re.search(rf'(?:^|["\s;&]){re.escape(name)}\s', action) is not None
