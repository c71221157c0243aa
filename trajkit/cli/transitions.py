"""`trajkit transitions`."""

from __future__ import annotations

import click

from trajkit.cli import options


@click.command("transitions")
@click.argument("store", type=click.Path())
@options.output
@click.option(
    "--keep",
    "keep_ratios",
    multiple=True,
    callback=options.pairs,
    metavar="CATEGORY=RATIO",
    help="Share of a category's turns in the loss; may be repeated.",
)
@click.option(
    "--signature",
    "signatures",
    multiple=True,
    callback=options.pairs,
    metavar="CATEGORY.STATISTIC=VALUE",
    help="Another threshold of a category, as in echo.overlap=0.8; may be repeated.",
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
    signatures: dict[str, float],
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

    Words are lower-cased runs of letters and digits, each counted once. overlap: share of the
    action's words in the observation; novelty: share of the observation's words not in the action;
    ratio: characters of the observation for one of the action; short: characters of the
    observation. The first line that fits names the category, echo before boilerplate because it
    lies inside, boilerplate before transform because it keeps less:

    \b
      empty observation                                          other        1
      echo.overlap>=0.7, echo.novelty<0.3                        echo         0.05
      boilerplate.overlap>=0.5, boilerplate.novelty<0.5          boilerplate  0.1
      transform.novelty<0.5, transform.ratio<1                   transform    0.5
      expansion.overlap>=0.5, .novelty>=0.5, .ratio>1.5          expansion    1
      retrieval.novelty>=0.6, retrieval.ratio>1                  retrieval    1
      action.novelty>=0.5, action.ratio<=1 or action.short<=200  action       1
      anything else                                              other        1

    \b
    Example:
      trajkit transitions build/unique -o build/transitions --keep boilerplate=0.2
    """
    from trajkit.transitions import transitions

    report = transitions(
        store,
        out,
        keep_ratios=keep_ratios,
        signatures=signatures,
        seed=seed,
        split_by=split_by,
        split_near=split_near,
        split_from=split_from,
        overwrite=overwrite,
        quiet=quiet,
    )
    options.print_report(report, human)
