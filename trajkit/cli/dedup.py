"""`trajkit dedup`."""

from __future__ import annotations

import click

from trajkit.cli import options


@click.command("dedup")
@click.argument("store", type=click.Path())
@options.output
@click.option("--threshold", default=0.8, show_default=True, help="Jaccard similarity of copies.")
@click.option(
    "--keys",
    type=click.Choice(["normalised", "plain"]),
    default="normalised",
    show_default=True,
    help="Compare without case, layout, times, ids, hashes and boilerplate, or texts as they are.",
)
@click.option(
    "--context-steps",
    default=1,
    show_default=True,
    help="Steps before a transition that must be the same for it to be a copy.",
)
@click.option(
    "--index",
    type=click.Path(file_okay=False),
    help="Folder of what earlier runs kept; what this one keeps is added.",
)
@click.option(
    "--against",
    multiple=True,
    type=click.Path(),
    help="A store, AgentWorldBench rows or a benchmark's task list to keep out; may be repeated.",
)
@click.option(
    "--max-removal",
    type=float,
    help="Stop before writing when more than this share of a source would go.",
)
@options.workers
@options.quiet
def command(
    store: str,
    out: str,
    overwrite: bool,
    threshold: float,
    keys: str,
    context_steps: int,
    index: str | None,
    against: tuple[str, ...],
    max_removal: float | None,
    workers: int,
    quiet: bool,
    human: bool | None,
) -> None:
    """Leave out exact and verified near copies of episodes.

    Beginnings of longer episodes go too. A transition that repeats another, with the step before
    it, is marked duplicate_transition and stays as history. Every pair is in duplicates.parquet,
    with estimated and exact similarity. Episodes that hold a benchmark's tasks (--against) go too,
    with the matching text in contamination.parquet.

    \b
    Example:
      trajkit dedup build/clean -o build/unique
    """
    from trajkit.dedup import dedup

    report = dedup(
        store,
        out,
        threshold=threshold,
        keys=keys,
        context_steps=context_steps,
        index=index,
        against=against,
        max_removal=max_removal,
        workers=workers,
        overwrite=overwrite,
        quiet=quiet,
    )
    options.print_report(report, human)
