"""`trajkit build-cpt`."""

from __future__ import annotations

from typing import Any

import click

from trajkit.cli import options


@click.command("build-cpt")
@click.argument("store", type=click.Path())
@options.output
@click.option(
    "--layout",
    default="text",
    show_default=True,
    help="text (with loss spans), messages (with loss flags) or tokens (with labels).",
)
@click.option(
    "--trainer",
    show_default="messages: swift",
    help="Whose flags the messages have (axolotl, swift); whose files stand beside the rows.",
)
@click.option(
    "--keep",
    multiple=True,
    callback=options.pairs,
    metavar="CATEGORY=RATIO",
    help="Share of a category in the loss; may be repeated. Default: as in the transitions.",
)
@click.option(
    "--keep-by",
    default="turn",
    show_default=True,
    help="turn: whole turns are drawn; token: of each turn the share is drawn, word by word.",
)
@click.option("--seed", type=int, show_default="as in the transitions", help="Seed of the draw.")
@click.option("--masks/--no-masks", default=True, help="--no-masks: every target bears loss.")
@click.option(
    "--history",
    default="full",
    show_default=True,
    help="full, or window: a row for each window of the agent's own context.",
)
@click.option(
    "--tokenizer",
    default="embedded",
    show_default=True,
    metavar="SPEC",
    help="tokens: embedded, a tokenizer.json, or the folder of a model.",
)
@click.option("--fast-tokenizer", is_flag=True, help="tokens: equal ids, faster made.")
@click.option(
    "--max-tokens", type=int, default=8192, show_default=True, help="tokens: length of a window."
)
@click.option(
    "--packing",
    default="best-fit",
    show_default=True,
    help="tokens: best-fit (several documents a window) or none (one).",
)
@click.option(
    "--mix",
    multiple=True,
    type=click.Path(),
    metavar="FILE",
    help="Single-turn text to add: JSON lines, Parquet or plain text; may be repeated.",
)
@options.splits
@click.option("--jsonl", is_flag=True, help="Write JSON lines beside the Parquet files.")
@options.workers
@options.quiet
def command(
    store: str,
    out: str,
    overwrite: bool,
    mix: tuple[str, ...],
    workers: int,
    quiet: bool,
    human: bool | None,
    **chosen: Any,
) -> None:
    """Write continual pre-training rows.

    One row an episode (layout tokens: a window of documents); the loss lies on observations,
    low-information turns stay as context. Which turns those are says `trajkit transitions --help`;
    shares of 1, 0.5 (transform), 0.1 (boilerplate) and 0.05 (echo) bear loss unless another was
    given there or here. The draw follows from content and seed, never from order.

    A row of --mix has text, or prompt and completion, or messages of one user and one assistant
    turn; the loss lies on what comes last.

    \b
    Example:
      trajkit build-cpt build/transitions -o build/cpt --keep boilerplate=0.2 --layout messages
    """
    from trajkit.builders.cpt import Options, build_cpt

    report = build_cpt(
        store,
        out,
        options=Options(**chosen),
        mix=mix,
        workers=workers,
        overwrite=overwrite,
        quiet=quiet,
    )
    options.print_report(report, human)
