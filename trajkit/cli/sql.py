"""`trajkit sql`."""

from __future__ import annotations

import click


@click.command("sql")
@click.argument("stores_and_query", nargs=-1, required=True, metavar='STORE... "QUERY"')
@click.option(
    "--output", type=click.Choice(["table", "json", "csv"]), default="table", show_default=True
)
def command(stores_and_query: tuple[str, ...], output: str) -> None:
    """Ask a store with SQL.

    Each table of the store is a view of its name: trajectories, steps, transitions, rejects,
    duplicates, verdicts, and train and validation of built folders. With several stores the
    views are unions, with a column store. The query cannot read or write anything else.

    \b
    Example:
      trajkit sql build/raw "select domain, count(*), sum(n_steps) from trajectories group by all"
    """
    from trajkit.explore.query import query

    *stores, text = stores_and_query
    if not stores:
        raise click.UsageError('give STORE and "QUERY", as in trajkit sql build/raw "select 1"')
    click.echo(query(stores, text, output=output))
