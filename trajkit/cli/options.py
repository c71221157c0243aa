"""Options that several commands share, and the one way a report is printed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
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


def print_report(report: Report, human: bool | None) -> None:
    """Print a report to standard output and its warnings to standard error."""
    if human is None:
        human = sys.stdout.isatty()
    click.echo(report.to_table() if human else report.to_json())
    for warning in report.warnings:
        click.echo(f"Warning: {warning}", err=True)
