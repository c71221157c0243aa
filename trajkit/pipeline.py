"""Run whole flows from a TOML file, stage after stage, and take up what is finished."""

from __future__ import annotations

import inspect
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from string import Template
from typing import Any, cast, get_type_hints

import click

from trajkit.errors import TrajkitError, alternatives, quote
from trajkit.report import Report
from trajkit.store import AlreadyDoneError, Store

STAGES: dict[str, str] = {
    "ingest": "trajkit.ingest:ingest",
    "validate": "trajkit.validate:validate",
    "scrub": "trajkit.scrub:scrub",
    "filter": "trajkit.filters:filter_episodes",
    "dedup": "trajkit.dedup:dedup",
    "transitions": "trajkit.transitions:transitions",
    "build-cpt": "trajkit.builders.cpt:build_cpt",
    "build-sft": "trajkit.builders.sft:build_sft",
    "build-rl": "trajkit.builders.rl:build_rl",
    "check": "trajkit.fidelity.check:check",
    "eval": "trajkit.evaluate:evaluate",
}
"""Commands a pipeline can name, and their functions."""


def run(
    pipeline: str, settings: tuple[str, ...] = (), *, overwrite: bool = False, quiet: bool = False
) -> list[Report | Mapping[str, Any]]:
    """Return the report of each stage after running a pipeline file.

    A file has a table `[variables]`, a list of tables `[[stage]]` (each with `command` and the
    arguments of that stage's function) and perhaps `[show]`. `${name}` stands for a variable.

    Raises TrajkitError for a missing or faulty file, an unknown command, argument or variable.
    """
    plan = _load(pipeline)
    variables = dict(plan.get("variables", {})) | _settings(settings, plan.get("variables", {}))
    reports: list[Report | Mapping[str, Any]] = []
    stages = plan["stage"]
    for number, table in enumerate(stages, 1):
        where = f"{pipeline}: stage {number}"
        arguments = _filled(table, variables, where)
        command = arguments.pop("command", None)
        call, arguments = _resolve(command, arguments, where)
        _say(f"[{number}/{len(stages)}] {command}", quiet)
        if "overwrite" in inspect.signature(call).parameters:
            arguments["overwrite"] = overwrite
        report = _run_stage(call, arguments, quiet)
        reports.append(report)
        if isinstance(report, Report) and command == "validate" and report.dropped:
            raise TrajkitError(where, f"validation found faults: {report.extra['faults'][0]}")
    click.echo(summary(reports))
    if show := _filled(plan.get("show", {}), variables, f"{pipeline}: [show]"):
        from trajkit.explore.tour import tour

        for line in tour(show, color=sys.stdout.isatty()):
            click.echo(line)
    return reports


def _say(text: str, quiet: bool) -> None:
    if not quiet:
        click.echo(text, err=True)


def _load(pipeline: str) -> dict[str, Any]:
    try:
        plan = tomllib.loads(Path(pipeline).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise TrajkitError(pipeline, "no such file", "check the path") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TrajkitError(pipeline, f"is not TOML: {error}", "see pipelines/demo.toml") from None
    if not plan.get("stage"):
        raise TrajkitError(pipeline, "has no [[stage]]", "see pipelines/demo.toml")
    return plan


def _settings(settings: tuple[str, ...], known: Mapping[str, Any]) -> dict[str, str]:
    chosen = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or name not in known:
            raise TrajkitError(
                "--set", f"no variable {quote(name)}", f"KEY=VALUE with {alternatives(known)}"
            )
        chosen[name] = value
    return chosen


def _filled(value: Any, variables: Mapping[str, Any], where: str) -> Any:
    """Return a value of the plan with its variables put in."""
    if isinstance(value, str):
        try:
            return Template(value).substitute(variables)
        except (KeyError, ValueError) as error:
            raise TrajkitError(
                where, f"unknown variable in {quote(value)} ({error})", alternatives(variables)
            ) from None
    if isinstance(value, list):
        return [_filled(item, variables, where) for item in value]
    if isinstance(value, dict):
        return {name: _filled(item, variables, where) for name, item in value.items()}
    return value


def _resolve(
    command: Any, arguments: dict[str, Any], where: str
) -> tuple[Callable[..., Report], dict[str, Any]]:
    """Return the function of a command, and its arguments with an Options object made of them."""
    if command not in STAGES:
        raise TrajkitError(where, f"no command {quote(command)}", f"one of {alternatives(STAGES)}")
    module, _, name = STAGES[command].partition(":")
    call: Callable[..., Report] = getattr(import_module(module), name)
    own = inspect.signature(call).parameters
    hint = get_type_hints(call).get("options")
    kind = next((t for t in getattr(hint, "__args__", ()) if is_dataclass(t)), None)
    inner = {field.name for field in fields(kind)} if kind is not None else set()
    known = (set(own) | inner) - {"options", "overwrite", "quiet"}
    for key in arguments:
        if key not in known:
            raise TrajkitError(
                where, f"{command} has no argument {quote(key)}", f"one of {alternatives(known)}"
            )
    arguments = {
        key: tuple(value) if isinstance(value, list) else value for key, value in arguments.items()
    }
    if kind is not None:
        chosen = {key: arguments.pop(key) for key in list(arguments) if key in inner}
        arguments["options"] = cast(Any, kind)(**chosen)
    return call, arguments


def _run_stage(
    call: Callable[..., Report], arguments: dict[str, Any], quiet: bool
) -> Report | Mapping[str, Any]:
    try:
        return call(**arguments, quiet=quiet)
    except AlreadyDoneError:
        _say(f"    up to date: {arguments['out']}", quiet)
        return Store(arguments["out"]).manifest.report | {"out": str(arguments["out"])}


def summary(reports: list[Report | Mapping[str, Any]]) -> str:
    """Return a table of what each stage read, kept and dropped, with the reasons."""
    lines = [f"{'stage':<13}{'read':>9}{'kept':>9}  dropped"]
    for report in reports:
        row = report.as_dict() if isinstance(report, Report) else report
        reasons = ", ".join(f"{reason} {n:,}" for reason, n in row["dropped"].items()) or "-"
        lines.append(f"{row['stage']:<13}{row['read']:>9,}{row['kept']:>9,}  {reasons}")
    return "\n".join(lines)
