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
@options.quiet
def command(
    store: str,
    out: str,
    overwrite: bool,
    keep_ratios: dict[str, float],
    seed: int,
    quiet: bool,
    human: bool | None,
) -> None:
    """Cut episodes into transitions with statistics.

    Adds the table transitions: word overlap of action and observation, category, whether the
    observation carries loss, whether the step may be a target, and the split group.

    \b
    Example:
      trajkit transitions build/unique -o build/transitions --keep boilerplate=0.2
    """
    from trajkit.transitions import transitions

    report = transitions(
        store, out, keep_ratios=keep_ratios, seed=seed, overwrite=overwrite, quiet=quiet
    )
    options.print_report(report, human)
