"""`trajkit scrub`."""

from __future__ import annotations

import click

from trajkit.cli import options


@click.command("scrub")
@click.argument("store", type=click.Path())
@options.output
@options.workers
@options.quiet
def command(
    store: str, out: str, overwrite: bool, workers: int, quiet: bool, human: bool | None
) -> None:
    """Take secrets and personal data out of every text.

    Keys, passwords, tokens, addresses, account names and phone numbers become <secret:1>,
    <email:1>, <user:1>, <phone:1>: the same value is the same placeholder in all steps of an
    episode. JSON stays JSON. The report counts by kind; no value is ever shown. Works offline.

    \b
    Example:
      trajkit scrub build/raw -o build/scrubbed
    """
    from trajkit.scrub import scrub

    report = scrub(store, out, workers=workers, overwrite=overwrite, quiet=quiet)
    options.print_report(report, human)
