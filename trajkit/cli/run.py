"""`trajkit run`."""

from __future__ import annotations

import click


@click.command("run")
@click.argument("pipeline", type=click.Path())
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change a variable.")
@click.option("--overwrite", is_flag=True, help="Run finished stages again.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def command(pipeline: str, settings: tuple[str, ...], overwrite: bool, quiet: bool) -> None:
    """Run a whole pipeline from a TOML file.

    A stage whose output is complete and was made from the same input with the same options is not
    run again; a killed pipeline goes on where it was.

    \b
    Example:
      trajkit run pipelines/demo.toml --set out=build/demo
    """
    from trajkit.pipeline import run

    run(pipeline, settings, overwrite=overwrite, quiet=quiet)
