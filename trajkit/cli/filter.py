"""`trajkit filter`."""

from __future__ import annotations

import click

from trajkit.cli import options


@click.command("filter")
@click.argument("store", type=click.Path())
@options.output
@click.option("--keep", multiple=True, metavar="REASON", help="Switch a reason off; repeatable.")
@click.option(
    "--min-turns", type=int, default=2, show_default=True, help="Turns an episode must have."
)
@click.option(
    "--max-missing-states",
    type=float,
    default=0.0,
    show_default=True,
    help="Share of a GUI run's screens that may be missing.",
)
@click.option(
    "--max-blocked-pages",
    type=float,
    default=0.5,
    show_default=True,
    help="Share of a search run's answers that may be CAPTCHAs or HTTP errors.",
)
@click.option(
    "--retry-similarity",
    type=float,
    default=60.0,
    show_default=True,
    help="How much alike (0 to 100) a failed action and its retry are.",
)
@click.option(
    "--leaks-in",
    type=click.Choice(["solved", "unless_failed"]),
    default="solved",
    show_default=True,
    help="Runs to mark when they read their answer.",
)
@options.quiet
def command(
    store: str,
    out: str,
    keep: tuple[str, ...],
    min_turns: int,
    max_missing_states: float,
    max_blocked_pages: float,
    retry_similarity: float,
    leaks_in: str,
    overwrite: bool,
    quiet: bool,
    human: bool | None,
) -> None:
    """Drop episodes and mark steps by the recipe's filters.

    Dropped episodes stand in rejects.parquet with their reason. Marked steps stay in the history;
    steps.skip_reason says why they are no training targets. Where a run read its answer,
    trajectories.meta has the evidence in leaked_answer.

    \b
    Reasons to drop: never_ran, too_short, undeclared_tool, missing_state,
      no_observation, captcha_or_http_error
    Reasons to mark: leaked_answer, harness_feedback, user_reply, empty_action,
      final_without_reply, missing_observation, truncated_observation,
      captcha_or_http_error, no_change, retry_cycle

    \b
    Example:
      trajkit filter build/raw -o build/clean --keep too_short
    """
    from trajkit.filters import filter_episodes

    report = filter_episodes(
        store,
        out,
        keep=keep,
        min_turns=min_turns,
        max_missing_states=max_missing_states,
        max_blocked_pages=max_blocked_pages,
        retry_similarity=retry_similarity,
        leaks_in=leaks_in,
        overwrite=overwrite,
        quiet=quiet,
    )
    options.print_report(report, human)
