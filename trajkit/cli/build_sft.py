"""`trajkit build-sft`."""

from __future__ import annotations

import click

from trajkit.cli import options


@click.command("build-sft")
@click.argument("store", type=click.Path())
@options.output
@click.option("--rationale", default="none", show_default=True, help="none, rollout or hindsight.")
@options.world_model
@click.option(
    "--rollouts",
    "n_rollouts",
    default=3,
    show_default=True,
    help="Answers a query; with hindsight, tries at most.",
)
@click.option("--judge", metavar="SPEC", help="A model that scores and compares good rollouts.")
@click.option(
    "--min-score",
    default=3.0,
    show_default=True,
    help="Least mean of the judge's five axes, 1 to 5.",
)
@click.option(
    "--thresholds", type=click.Path(), help="TOML file of the gate's least scores, by domain."
)
@click.option(
    "--target",
    default="recorded",
    show_default=True,
    help="What a row teaches: the recorded observation, or the rollout's own (predicted).",
)
@click.option("--gain", is_flag=True, help="Measure what each rationale does for the observation.")
@click.option("--min-gain", type=float, help="Least gain over none, in nats a token; measures it.")
@click.option(
    "--turns",
    default="all",
    show_default=True,
    help="Targets of an episode that get a row: all, last or sample:N.",
)
@click.option(
    "--per-domain", type=click.IntRange(min=1), help="At most this many targets a domain."
)
@options.instructions
@click.option(
    "--history",
    default="full",
    show_default=True,
    help="full, or window: what the agent's own context held, where the log tells.",
)
@click.option(
    "--max-prompt-chars",
    default=200_000,
    show_default=True,
    help="Longest prompt; oldest whole turns are left out.",
)
@click.option(
    "--tokenizer",
    metavar="SPEC",
    help="Counts --max-length: embedded, a tokenizer.json, or the folder of one.",
)
@click.option(
    "--max-length",
    type=click.IntRange(min=1),
    help="Longest row in tokens, prompt and completion; what a trainer would cut is left out.",
)
@click.option(
    "--max-tokens",
    type=click.IntRange(min=1),
    show_default="4096; embedded: 300",
    help="Longest answer of a model, thoughts included.",
)
@click.option("--temperature", default=0.6, show_default=True, help="Sampling temperature.")
@click.option("--seed", default=0, show_default=True, help="Seed of draws and sampling.")
@click.option(
    "--trainer",
    default="trl",
    show_default=True,
    help="Whose columns the rows have: trl, llamafactory, axolotl, swift, prime-rl or verl.",
)
@options.splits
@click.option("--jsonl", is_flag=True, help="Write JSON lines beside the Parquet files.")
@options.quiet
def command(
    store: str, out: str, overwrite: bool, quiet: bool, human: bool | None, **chosen: object
) -> None:
    """Write supervised fine-tuning rows, with rationales.

    One transition a row: prompt (system, history, action) and completion (rationale, next
    observation). A rollout answers without seeing the recorded observation, and its rationale is
    kept only when the fidelity gate accepts the answer. Hindsight explains the recorded
    observation, and is kept only when it gives nothing of it away.

    \b
    Example:
      trajkit build-sft build/transitions -o build/sft
      trajkit build-sft build/transitions -o build/short --turns sample:2 \\
          --tokenizer embedded --max-length 8192 --trainer axolotl
      trajkit build-sft build/transitions -o build/told --instructions derived
      trajkit build-sft build/transitions -o build/cot --rationale rollout \\
          --world-model embedded
      trajkit build-sft build/transitions -o build/why --rationale hindsight --min-gain 0 \\
          --world-model http://127.0.0.1:8000/v1#my-model
    """
    from trajkit.builders.sft import Options, build_sft

    engine = chosen.pop("engine")
    options_ = Options(**chosen)  # type: ignore[arg-type]  # click has checked them
    report = build_sft(
        store,
        out,
        options=options_,
        engine=engine,  # type: ignore[arg-type]  # an EngineOptions, made by the decorator
        overwrite=overwrite,
        quiet=quiet,
    )
    options.print_report(report, human)
