"""`trajkit show`."""

from __future__ import annotations

import click


@click.command("show")
@click.argument("store", type=click.Path())
@click.argument("id_", metavar="[ID]", required=False)
@click.option("--limit", default=20, show_default=True, help="Episodes listed.")
@click.option("--full", is_flag=True, help="Whole observations, not their first lines.")
def command(store: str, id_: str | None, limit: int, full: bool) -> None:
    """List the episodes of a store, or show one.

    ID may be the first characters of a trajectory_id. Control characters of a log are shown as
    escapes, never sent to the terminal.

    \b
    Example:
      trajkit show build/raw
      trajkit show build/raw 3fa9
    """
    from trajkit.explore.show import list_episodes, show_episode

    lines = list_episodes(store, limit) if id_ is None else show_episode(store, id_, full=full)
    for line in lines:
        click.echo(line)
