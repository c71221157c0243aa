"""`trajkit eval`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trajkit.cli import options

if TYPE_CHECKING:
    from trajkit.worldmodel import EngineOptions


@click.command("eval")
@click.argument("bench", type=click.Path())
@options.output
@options.world_model
@click.option(
    "--judge",
    "judges",
    metavar="SPEC",
    multiple=True,
    help="Model that judges, as --world-model; may be repeated; none leaves it at the rules.",
)
@click.option("--per-domain", type=click.IntRange(min=1), help="At most this many a domain.")
@click.option(
    "--max-tokens",
    type=click.IntRange(min=1),
    show_default="32768; embedded: 512",
    help="Longest answer, thoughts included.",
)
@click.option(
    "--max-judge-tokens",
    type=click.IntRange(min=1),
    show_default="4096; embedded: 480",
    help="Longest verdict.",
)
@click.option(
    "--judge-tries",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="How often one verdict is asked for.",
)
@click.option("--temperature", default=0.6, show_default=True, help="Of the world model.")
@click.option("--top-p", default=0.95, show_default=True, help="Of the world model.")
@click.option("--seed", default=0, show_default=True, help="Seed of draws and sampling.")
@click.option(
    "--gate",
    metavar="NAME=SCORE,...",
    help="Exit 1 when a score is lower: min_overall, min_micro, min_AXIS, min_DOMAIN.",
)
@click.option("--baseline", type=click.Path(), help="results.json to show what moved against.")
@options.quiet
def command(
    bench: str,
    out: str,
    overwrite: bool,
    quiet: bool,
    human: bool | None,
    engine: EngineOptions,
    **chosen: object,
) -> None:
    """Score a world model on AgentWorldBench or on a store.

    BENCH is a folder with mcp_test.jsonl and so on, or a store with transitions. The rules of the
    fidelity gate always score, judges when given. Writes results.json, rows.parquet, report.html.

    \b
    Example:
      trajkit eval build/bench -o build/eval --world-model embedded --judge none
      trajkit eval AgentWorldBench -o build/eval --world-model http://127.0.0.1:8000/v1#my-model \\
          --judge http://127.0.0.1:8001/v1#my-judge \\
          --gate min_overall=55,min_factuality=50
    """
    from trajkit.evaluate import Options, evaluate

    options_ = Options(**chosen)  # type: ignore[arg-type]  # click has checked them
    report = evaluate(bench, out, options=options_, engine=engine, overwrite=overwrite, quiet=quiet)
    options.print_report(report, human)
