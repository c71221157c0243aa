"""`trajkit build-rl`."""

from __future__ import annotations

import click

from trajkit.cli import options


@click.command("build-rl")
@click.argument("store", type=click.Path())
@options.output
@click.option("--trainer", default="verl", show_default=True, help="Whose columns: verl or trl.")
@click.option(
    "--turn",
    default="verified",
    show_default=True,
    help="uniform, or verified: one with a proven verifier where a trajectory has any.",
)
@click.option("--verified-only", is_flag=True, help="No row without a verifier.")
@click.option("--warm-up", is_flag=True, help="Fold the history into one message of the user.")
@click.option(
    "--predictions",
    multiple=True,
    type=click.Path(),
    help="Answers made elsewhere; a verifier must say of them what the gate says.",
)
@click.option("--per-domain", type=click.IntRange(min=1), help="At most so many rows a domain.")
@click.option(
    "--max-prompt-tokens",
    type=click.IntRange(min=1),
    default=131_072,
    show_default=True,
    help="Longest prompt; oldest whole turns are left out.",
)
@click.option(
    "--tokenizer",
    metavar="SPEC",
    help="What counts them: embedded, a tokenizer.json or a model's folder. Else a high estimate.",
)
@options.instructions
@click.option("--seed", default=0, show_default=True, help="Seed of draws.")
@options.splits
@click.option("--jsonl", is_flag=True, help="Write JSON lines beside the Parquet files.")
@options.quiet
def command(
    store: str,
    out: str,
    predictions: tuple[str, ...],
    overwrite: bool,
    quiet: bool,
    human: bool | None,
    **chosen: object,
) -> None:
    """Write prompts for RL, with what answers are rewarded by.

    One turn of each trajectory. Beside the prompt stand the recorded observation and verifiers:
    what action and history settle, tried on right and wrong answers. trajkit.reward reads them:
    compute_score for verl, reward for TRL.

    \b
    Example:
      trajkit build-rl build/transitions -o build/rl
      trajkit build-rl build/transitions -o build/grpo --trainer trl --verified-only
    """
    from trajkit.builders.rl import build_rl
    from trajkit.builders.rl_turns import Options

    report = build_rl(
        store,
        out,
        options=Options(**chosen),  # type: ignore[arg-type]  # click has checked them
        predictions=predictions,
        overwrite=overwrite,
        quiet=quiet,
    )
    options.print_report(report, human)
