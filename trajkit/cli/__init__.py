"""The command line: one file per command, loaded only when it is called."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from trajkit import __version__

COMMANDS: dict[str, str] = {
    "ingest": "Read raw agent logs of any known format into a store.",
    "validate": "Check stores and files against the schemas.",
    "scrub": "Take secrets and personal data out of every text.",
    "filter": "Drop episodes and mark steps by the recipe's filters.",
    "dedup": "Leave out exact and verified near copies of episodes.",
    "transitions": "Cut episodes into transitions with statistics.",
    "build-bench": "Write benchmark rows in the form of AgentWorldBench.",
    "build-cpt": "Write continual pre-training rows.",
    "build-sft": "Write supervised fine-tuning rows, with rationales.",
    "build-rl": "Write prompts for RL, with what answers are rewarded by.",
    "check": "Judge predictions with the fidelity gate.",
    "eval": "Score a world model on AgentWorldBench or on a store.",
    "publish": "Show or upload a built folder as a Hub data set.",
    "sql": "Ask a store with SQL.",
    "show": "List the episodes of a store, or show one.",
    "formats": "List the log formats that can be read.",
    "run": "Run a whole pipeline from a TOML file.",
}
"""Every command and the first line of its help; a test holds both equal."""


class _LazyGroup(click.Group):
    """Lists commands without importing them, so that `--help` is quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"trajkit.cli.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            from difflib import get_close_matches

            close = get_close_matches(args[0], COMMANDS, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"one of {', '.join(COMMANDS)}"
            ctx.fail(f"no command {args[0]!r}. Hint: {hint}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        from trajkit.errors import TrajkitError

        try:
            return super().invoke(ctx)
        except TrajkitError as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="trajkit")
def main() -> None:
    """Turn raw agent logs into training data for language world models.

    Every command reads a store and writes a new one; the report goes to standard output as one
    line of JSON, progress to standard error.

    \b
    Example:
      trajkit ingest logs/ -o build/raw
      trajkit sql build/raw "select domain, count(*) from trajectories group by all"
    """
