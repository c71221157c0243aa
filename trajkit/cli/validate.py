"""`trajkit validate`."""

from __future__ import annotations

import click

from trajkit.cli import options


@click.command("validate")
@click.argument("paths", nargs=-1, required=True, type=click.Path())
@click.option("--schema", help="Schema of the documents in FILEs (default: by their keys).")
@options.quiet
def command(paths: tuple[str, ...], schema: str | None, quiet: bool, human: bool | None) -> None:
    """Check stores and files against the schemas.

    Stores are checked row by row, with ids, step order and counts; FILEs are JSON or JSON lines of
    trajectories, predictions or any other schema's documents. Exits 1 when a fault was found.

    \b
    Example:
      trajkit validate build/raw
      trajkit validate predictions.jsonl --schema prediction
    """
    from trajkit.validate import validate

    report = validate(paths, schema_name=schema, quiet=quiet)
    options.print_report(report, human)
    if report.dropped:
        raise click.ClickException(f"{sum(report.dropped.values())} faults were found")
