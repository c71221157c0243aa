"""`trajkit build-cpt`."""

from __future__ import annotations

import click

from trajkit.cli import options


@click.command("build-cpt")
@click.argument("store", type=click.Path())
@options.output
@click.option(
    "--layout",
    default="text",
    show_default=True,
    help="text (with loss spans) or messages (with loss flags).",
)
@click.option("--validation", default=0.05, show_default=True, help="Share of held-out groups.")
@click.option("--jsonl", is_flag=True, help="Write JSON lines beside the Parquet files.")
@options.quiet
def command(
    store: str,
    out: str,
    overwrite: bool,
    layout: str,
    validation: float,
    jsonl: bool,
    quiet: bool,
    human: bool | None,
) -> None:
    """Write continual pre-training rows.

    One row an episode; the loss lies on observations, low-information turns stay as context.

    \b
    Example:
      trajkit build-cpt build/transitions -o build/cpt --layout messages
    """
    from trajkit.builders.cpt import build_cpt

    report = build_cpt(
        store,
        out,
        layout=layout,
        validation=validation,
        jsonl=jsonl,
        overwrite=overwrite,
        quiet=quiet,
    )
    options.print_report(report, human)
