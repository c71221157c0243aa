"""`trajkit build-sft`."""

from __future__ import annotations

import click

from trajkit.cli import options


@click.command("build-sft")
@click.argument("store", type=click.Path())
@options.output
@click.option("--rationale", default="none", show_default=True, help="none or rollout.")
@click.option(
    "--world-model",
    metavar="SPEC",
    help="embedded, vllm:MODEL, http://HOST:PORT/v1#MODEL or replay:FILE.",
)
@click.option("--rollouts", "n_rollouts", default=3, show_default=True, help="Answers a query.")
@click.option("--per-domain", type=int, help="At most this many targets a domain.")
@click.option(
    "--max-prompt-chars",
    default=200_000,
    show_default=True,
    help="Longest prompt; oldest whole turns are left out.",
)
@click.option("--max-tokens", default=4096, show_default=True, help="Longest answer.")
@click.option("--temperature", default=0.6, show_default=True, help="Sampling temperature.")
@click.option("--seed", default=0, show_default=True, help="Seed of draws and sampling.")
@click.option("--validation", default=0.05, show_default=True, help="Share of held-out groups.")
@click.option("--jsonl", is_flag=True, help="Write JSON lines beside the Parquet files.")
@options.quiet
def command(
    store: str, out: str, overwrite: bool, quiet: bool, human: bool | None, **chosen: object
) -> None:
    """Write supervised fine-tuning rows, with rationales.

    One transition a row: prompt (system, history, action) and completion (rationale, next
    observation). A rationale is kept only when the fidelity gate accepts its rollout.

    \b
    Example:
      trajkit build-sft build/transitions -o build/sft
      trajkit build-sft build/transitions -o build/cot --rationale rollout --world-model embedded
    """
    from trajkit.builders.sft import Options, build_sft

    options_ = Options(**chosen)  # type: ignore[arg-type]  # click has checked them
    report = build_sft(store, out, options=options_, overwrite=overwrite, quiet=quiet)
    options.print_report(report, human)
