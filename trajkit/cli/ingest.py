"""`trajkit ingest`."""

from __future__ import annotations

from pathlib import Path

import click

from trajkit.cli import options


@click.command("ingest")
@click.argument("paths", nargs=-1, required=True)
@options.output
@click.option(
    "--format",
    "format_",
    default="auto",
    show_default=True,
    help="Adapter, auto, or package.module:Class for your own.",
)
@click.option("--domain", help="Domain of every episode (default: told from its content).")
@click.option("--source", help="Name of the corpus (default: name of the given root).")
@click.option("--license", "license_", help="Licence of the source, kept with each episode.")
@click.option(
    "--loss-report",
    "loss",
    type=click.Path(dir_okay=False),
    help="Write what each event of each file became, as JSON.",
)
@click.option("--strict", is_flag=True, help="Exit 1 when anything was rejected.")
@options.workers
@options.quiet
def command(
    paths: tuple[str, ...],
    out: str,
    overwrite: bool,
    format_: str,
    domain: str | None,
    source: str | None,
    license_: str | None,
    loss: str | None,
    strict: bool,
    workers: int,
    quiet: bool,
    human: bool | None,
) -> None:
    """Read raw agent logs of any known format into a store.

    PATHS are files, folders, or - for standard input; .gz and .zst are read as they are. What
    cannot be read goes to rejects.parquet with file, line and reason; the table `loss` says for
    each file how many of its events became action, observation, thought or context.

    \b
    Example:
      trajkit ingest ~/logs more.jsonl.zst -o build/raw --source my-agents
    """
    from trajkit.ingest import Options, ingest

    report = ingest(
        paths,
        out,
        options=Options(format=format_, domain=domain, source=source, license=license_),
        workers=workers,
        overwrite=overwrite,
        quiet=quiet,
    )
    if loss is not None:
        from trajkit.loss import write_loss_report
        from trajkit.store import Store

        write_loss_report(Store(out), Path(loss))
    options.print_report(report, human)
    n_rejected = sum(report.dropped.values())
    where = f'Hint: trajkit sql {out} "select reason, origin_path, message from rejects"'
    if strict and n_rejected:
        raise click.ClickException(f"--strict: {n_rejected} records were rejected\n{where}")
    if n_rejected and not quiet:
        click.echo(f"{n_rejected} of {report.read} records were rejected\n{where}", err=True)
