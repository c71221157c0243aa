"""`trajkit publish`."""

from __future__ import annotations

import click

from trajkit.cli import options


@click.command("publish")
@click.argument("folder", type=click.Path())
@click.argument("repository", metavar="REPO")
@click.option("--yes", is_flag=True, help="Upload. Without it nothing leaves this machine.")
@click.option("--private/--public", default=True, show_default=True, help="Of a new repository.")
@click.option("--license", "license_", help="Licence for the card.")
@click.option("--tag", help="Tag the uploaded revision.")
@click.option("--allow-secrets", is_flag=True, help="Upload although secrets were found.")
@options.quiet
def command(
    folder: str,
    repository: str,
    yes: bool,
    private: bool,
    license_: str | None,
    tag: str | None,
    allow_secrets: bool,
    quiet: bool,
    human: bool | None,
) -> None:
    """Show or upload a built folder as a Hub data set.

    Without --yes this prints the card and the files that would be uploaded. Rows are searched for
    secrets and personal data first; an upload stops when there are any. The token comes from
    HF_TOKEN or `hf auth login`.

    \b
    Example:
      trajkit publish build/cpt me/my-world-data
      trajkit publish build/cpt me/my-world-data --yes
    """
    from trajkit.publish import publish

    report, preview = publish(
        folder,
        repository,
        upload=yes,
        private=private,
        license=license_,
        tag=tag,
        allow_secrets=allow_secrets,
        quiet=quiet,
    )
    if preview is not None:
        click.echo(preview, err=True)
    options.print_report(report, human)
