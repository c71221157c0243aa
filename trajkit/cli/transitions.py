"""`trajkit transitions`."""

from __future__ import annotations

import click

from trajkit.cli import options


def _ratios(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[str, float]:
    ratios = {}
    for pair in given:
        name, equals, number = pair.partition("=")
        try:
            ratios[name] = float(number if equals else "")
        except ValueError:
            raise click.BadParameter(f"{pair!r} is not CATEGORY=RATIO, as in echo=0.05") from None
    return ratios


@click.command("transitions")
@click.argument("store", type=click.Path())
@options.output
@click.option(
    "--keep",
    "keep_ratios",
    multiple=True,
    callback=_ratios,
    metavar="CATEGORY=RATIO",
    help="Share of a category's turns in the loss; may be repeated.",
)
@click.option("--seed", default=0, show_default=True, help="Seed of the draw.")
@click.option(
    "--split-by",
    type=click.Choice(["task", "place"]),
    default="task",
    show_default=True,
    help="What keeps episodes on one side: the task, or also its repository or site.",
)
@click.option(
    "--split-near",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.7,
    show_default=True,
    help="Similarity from which two episodes may not stand on two sides; 1 for equal ones only.",
)
@click.option(
    "--split-from",
    type=click.Path(),
    help="A store made before: its episodes keep their side.",
)
@options.quiet
def command(
    store: str,
    out: str,
    overwrite: bool,
    keep_ratios: dict[str, float],
    seed: int,
    split_by: str,
    split_near: float,
    split_from: str | None,
    quiet: bool,
    human: bool | None,
) -> None:
    """Cut episodes into transitions with statistics.

    Adds the table transitions: word overlap of action and observation, category, whether the
    observation carries loss, whether the step may be a target, and the split group. A group is
    never on both sides of train and validation; of two near copies on two sides one is no target.

    \b
    Example:
      trajkit transitions build/unique -o build/transitions --keep boilerplate=0.2
    """
    from trajkit.transitions import transitions

    report = transitions(
        store,
        out,
        keep_ratios=keep_ratios,
        seed=seed,
        split_by=split_by,
        split_near=split_near,
        split_from=split_from,
        overwrite=overwrite,
        quiet=quiet,
    )
    options.print_report(report, human)
