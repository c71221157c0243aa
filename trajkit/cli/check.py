"""`trajkit check`."""

from __future__ import annotations

import click

from trajkit.cli import options


@click.command("check")
@click.argument("store", type=click.Path())
@click.option(
    "--predictions",
    required=True,
    type=click.Path(),
    multiple=True,
    help="JSON lines of trajectory_id, step_index, prediction; may be repeated.",
)
@click.option(
    "--thresholds",
    metavar="FILE",
    type=click.Path(),
    help="TOML of least scores by domain that differ from those of the package.",
)
@options.output
@options.quiet
def command(
    store: str,
    predictions: tuple[str, ...],
    thresholds: str | None,
    out: str,
    overwrite: bool,
    quiet: bool,
    human: bool | None,
) -> None:
    """Judge predictions with the fidelity gate.

    The predictions may come from any model. The table verdicts holds five rule scores and every
    finding with what was expected and what came.

    \b
    Example:
      trajkit check build/transitions --predictions mine.jsonl -o build/verdicts
    """
    from trajkit.fidelity.check import check

    report = check(store, predictions, out, thresholds=thresholds, overwrite=overwrite, quiet=quiet)
    options.print_report(report, human)
