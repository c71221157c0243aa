"""`trajkit build-bench`."""

from __future__ import annotations

from typing import Any

import click

from trajkit.cli import options


@click.command("build-bench")
@click.argument("store", type=click.Path())
@options.output
@click.option("--per-episode", type=click.IntRange(min=1), help="Rows of an episode at most.")
@click.option(
    "--sides",
    default="all",
    show_default=True,
    help="Groups to take: all, held-out (validation and test), train, validation or test.",
)
@options.splits
@options.quiet
def command(
    store: str,
    out: str,
    overwrite: bool,
    per_episode: int | None,
    sides: str,
    quiet: bool,
    human: bool | None,
    **splits: Any,
) -> None:
    """Write benchmark rows in the form of AgentWorldBench.

    One row for each turn that may be a target, in one file for each domain.

    \b
    Example:
      trajkit build-bench build/transitions -o build/bench --per-episode 3 --sides held-out
    """
    from trajkit.builders.agentworldbench import build_bench
    from trajkit.builders.splits import Splits

    report = build_bench(
        store,
        out,
        per_episode=per_episode,
        sides=sides,
        splits=Splits(**splits),
        overwrite=overwrite,
        quiet=quiet,
    )
    options.print_report(report, human)
