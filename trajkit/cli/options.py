"""Options that several commands share, and the one way a report is printed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from trajkit.report import Report

_F = TypeVar("_F", bound=Callable[..., Any])


def output(function: _F) -> _F:
    """Add `-o` and `--overwrite`."""
    function = click.option("--overwrite", is_flag=True, help="Replace a complete output folder.")(
        function
    )
    return click.option("-o", "--out", required=True, type=click.Path(), help="Folder to write.")(
        function
    )


def quiet(function: _F) -> _F:
    """Add `-q` and `--human`."""
    function = click.option(
        "--human/--json",
        default=None,
        help="Report as a table or as one JSON line (default: table on a terminal).",
    )(function)
    return click.option("-q", "--quiet", is_flag=True, help="No progress.")(function)


def workers(function: _F) -> _F:
    """Add `--workers`."""
    return click.option(
        "--workers",
        type=click.IntRange(min=1),
        default=os.cpu_count() or 1,
        show_default="all cores",
        help="Processes; never changes the output.",
    )(function)


def world_model(function: _F) -> _F:
    """Add `--world-model`, and how engines run: given to the command as `world_model`, `engine`."""
    chosen = (
        click.option(
            "--world-model",
            metavar="SPEC",
            help="embedded, vllm:MODEL, http://HOST:PORT/v1#MODEL (several servers of one model:"
            " http://A/v1,http://B/v1#MODEL) or replay:FILE.",
        ),
        click.option(
            "--max-model-len",
            type=click.IntRange(min=1),
            show_default="the model's own; embedded: 4096",
            help="Tokens of prompt and answer together.",
        ),
        click.option(
            "--concurrency",
            type=click.IntRange(min=1),
            default=32,
            show_default=True,
            help="Servers: requests under way, over all servers.",
        ),
        click.option(
            "--timeout",
            "timeout_seconds",
            type=click.FloatRange(min=0, min_open=True),
            default=600.0,
            show_default=True,
            help="Servers: seconds to wait for one answer.",
        ),
        click.option(
            "--retries",
            "max_retries",
            type=click.IntRange(min=0),
            default=8,
            show_default=True,
            help="Servers: further tries of one request; dead servers are waited for as long.",
        ),
        click.option(
            "--pattern-field",
            type=click.Choice(["structured_outputs", "guided_regex", "regex", "none"]),
            default="structured_outputs",
            show_default=True,
            help="Servers: what takes an answer pattern (vLLM, vLLM before 0.12, SGLang, nothing).",
        ),
        click.option(
            "--batch-size",
            type=click.IntRange(min=1),
            show_default="256; embedded: 64",
            help="vllm, embedded: requests with the engine at a time.",
        ),
        click.option(
            "--tensor-parallel-size",
            type=click.IntRange(min=1),
            default=1,
            show_default=True,
            help="vllm: GPUs that share one copy of the model.",
        ),
        click.option(
            "--data-parallel-size",
            type=click.IntRange(min=1),
            default=1,
            show_default=True,
            help="vllm: copies of the model, where vLLM takes more than one in a process.",
        ),
    )

    @wraps(function)
    def command(**given: Any) -> Any:
        from dataclasses import fields

        from trajkit.worldmodel import EngineOptions

        engine = {field.name: given.pop(field.name) for field in fields(EngineOptions)}
        return function(engine=EngineOptions(**engine), **given)

    decorated: Any = command
    for option in reversed(chosen):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]


def _range(_: click.Context, __: click.Parameter, given: str) -> tuple[float, float]:
    start, colon, end = given.partition(":")
    try:
        return float(start), float(end if colon else "")
    except ValueError:
        raise click.BadParameter(f"{given!r} is not START:END, as in 0:0.7") from None


def pairs(
    context: click.Context, option: click.Parameter, given: tuple[str, ...]
) -> dict[str, float]:
    """Return what was given as `NAME=NUMBER`, the last one of a name."""
    numbers = {}
    for pair in given:
        name, equals, number = pair.partition("=")
        try:
            numbers[name] = float(number if equals else "")
        except ValueError:
            wanted = option.make_metavar(context)
            raise click.BadParameter(f"{pair!r} is not {wanted}, as in echo=0.05") from None
    return numbers


def splits(function: _F) -> _F:
    """Add `--validation`, `--test` and `--pool`: the fields of `Splits`."""
    for option in (
        click.option(
            "--pool",
            default="0:1",
            show_default=True,
            metavar="START:END",
            callback=_range,
            help="Range of groups to use; ranges that do not meet share no group.",
        ),
        click.option("--test", default=0.05, show_default=True, help="Share of groups in test."),
        click.option(
            "--validation", default=0.05, show_default=True, help="Share of groups in validation."
        ),
    ):
        function = option(function)
    return function


def instructions(function: _F) -> _F:
    """Add `--instructions` and `--instruction-share`: the fields of `instructions.Options`."""
    for option in (
        click.option(
            "--instruction-share",
            type=click.FloatRange(0, 1),
            default=0.3,
            show_default=True,
            help="derived: share of terminal and mcp targets with one, where facts are found.",
        ),
        click.option(
            "--instructions",
            default="recorded",
            show_default=True,
            help="none, recorded (those in the log) or derived (also made from recorded facts).",
        ),
    ):
        function = option(function)
    return function


def print_report(report: Report, human: bool | None) -> None:
    """Print a report to standard output and its warnings to standard error."""
    if human is None:
        human = sys.stdout.isatty()
    click.echo(report.to_table() if human else report.to_json())
    for warning in report.warnings:
        click.echo(f"Warning: {warning}", err=True)
