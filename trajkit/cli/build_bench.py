"""`trajkit build-bench`."""

from __future__ import annotations

import click

from trajkit.cli import options


@click.command("build-bench")
@click.argument("store", type=click.Path())
@options.output
@click.option("--per-episode", type=click.IntRange(min=1), help="Rows of an episode at most.")
@click.option(
    "--validation",
    default=1.0,
    show_default=True,
    help="Share of held-out groups the training rows were built with; 1 takes all groups.",
)
@options.quiet
def command(
    store: str,
    out: str,
    overwrite: bool,
    per_episode: int | None,
    validation: float,
    quiet: bool,
    human: bool | None,
) -> None:
    """Write benchmark rows in the form of AgentWorldBench.

    One row for each turn that may be a target, in one file for each domain.

    \b
    Example:
      trajkit build-bench build/transitions -o build/bench --per-episode 3 --validation 0.05
    """
    from trajkit.builders.agentworldbench import build_bench

    report = build_bench(
        store,
        out,
        per_episode=per_episode,
        validation=validation,
        overwrite=overwrite,
        quiet=quiet,
    )
    options.print_report(report, human)
