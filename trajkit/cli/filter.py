"""`trajkit filter`."""

from __future__ import annotations

import click

from trajkit.cli import options


@click.command("filter")
@click.argument("store", type=click.Path())
@options.output
@options.quiet
def command(store: str, out: str, overwrite: bool, quiet: bool, human: bool | None) -> None:
    """Drop episodes and mark steps by the recipe's filters.

    Dropped episodes stand in rejects.parquet with their reason. Marked steps stay in the history;
    steps.skip_reason says why they are no training targets.

    \b
    Example:
      trajkit filter build/raw -o build/clean
    """
    from trajkit.filters import filter_episodes

    options.print_report(filter_episodes(store, out, overwrite=overwrite, quiet=quiet), human)
