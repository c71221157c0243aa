"""`trajkit dedup`."""

from __future__ import annotations

import click

from trajkit.cli import options


@click.command("dedup")
@click.argument("store", type=click.Path())
@options.output
@click.option("--threshold", default=0.8, show_default=True, help="Jaccard similarity of copies.")
@options.quiet
def command(
    store: str, out: str, overwrite: bool, threshold: float, quiet: bool, human: bool | None
) -> None:
    """Leave out exact and verified near copies of episodes.

    Every pair is in duplicates.parquet, with estimated and exact similarity.

    \b
    Example:
      trajkit dedup build/clean -o build/unique
    """
    from trajkit.dedup import dedup

    report = dedup(store, out, threshold=threshold, overwrite=overwrite, quiet=quiet)
    options.print_report(report, human)
