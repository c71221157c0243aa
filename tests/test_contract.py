"""The shape of the project itself: schemas, imports, names, help pages."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import click
import pytest

from trajkit import schema
from trajkit.cli import COMMANDS, main
from trajkit.model import Origin, Reject, Step, Trajectory
from trajkit.tables import TABLES

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "trajkit"
MODULES = sorted(PACKAGE.rglob("*.py"))


def test_dataclass_schema_and_parquet_columns_of_a_trajectory_are_equal() -> None:
    given_at_ingest = {"trajectory_id", "content_hash", "source", "license", "parent_id", "n_steps"}
    from_origin = {f"origin_{f.name}" for f in fields(Origin)}
    not_stored = {"origin", "parent_key", "names", "step_keys", "steps"}
    own = {f.name for f in fields(Trajectory)} - not_stored
    declared = set(schema.load("trajectory")["properties"])
    assert own | from_origin | given_at_ingest | {"steps"} == declared
    assert [*TABLES["trajectories"].names, "steps"] == list(schema.load("trajectory")["properties"])


def test_dataclass_schema_and_parquet_columns_of_a_step_are_equal() -> None:
    declared = schema.load("trajectory")["properties"]["steps"]["items"]["properties"]
    own = {f.name for f in fields(Step)}
    assert own | {"step_index"} == set(declared)
    assert set(TABLES["steps"].names) == set(declared) | {"trajectory_id", "domain"}


def test_dataclass_schema_and_parquet_columns_of_a_reject_are_equal() -> None:
    own = {f.name for f in fields(Reject)} - {"origin"} | {
        f"origin_{f.name}" for f in fields(Origin)
    }
    assert own == set(TABLES["rejects"].names) == set(schema.load("reject")["properties"])


@pytest.mark.parametrize(("table", "name"), sorted(schema.TABLE_SCHEMAS.items()))
def test_nullability_and_types_of_a_table_are_those_of_its_schema(table: str, name: str) -> None:
    json_types = {
        "large_string": "string",
        "string": "string",
        "int64": "integer",
        "double": "number",
        "bool": "boolean",
    }
    properties = schema.load(name)["properties"]
    for column in TABLES[table]:
        declared = properties[column.name]
        kinds = declared.get("type", "string")
        kinds = [kinds] if isinstance(kinds, str) else kinds
        assert json_types[str(column.type)] in kinds, column.name
        assert column.nullable == ("null" in kinds), column.name


@pytest.mark.parametrize("name", schema.names())
def test_every_property_of_a_schema_is_described(name: str) -> None:
    document = schema.load(name)
    assert document["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    pending = [document]
    while pending:
        node = pending.pop()
        for property_name, child in node.get("properties", {}).items():
            assert child["description"].endswith("."), f"{name}.{property_name}"
            pending.append(child)
        if "items" in node:
            pending.append(node["items"])


LAYERS = [
    {"errors", "ledger", "model", "control_tokens", "json_text", "terminal_text"},
    {"archives", "inputs", "json_arrays", "pictures", "streams", "terminal_text"},
    {"schema", "tables", "store", "readers", "parallel", "progress", "report"},
    {"adapters", "domains", "worldmodel", "fidelity", "judges", "trainers"},
    {"extraction", "instructions", "lineage", "marks", "rationales", "tokens", "verifiers"},
    {
        "ingest",
        "loss",
        "validate",
        "filters",
        "scrub",
        "secrets",
        "dedup",
        "decontaminate",
        "split",
        "transitions",
        "builders",
        "evaluate",
        "publish",
        "reward",
        "card",
        "explore",
    },
    {"pipeline"},
    {"cli", "__main__"},
]


def test_imports_point_one_way() -> None:
    rank = {name: number for number, layer in enumerate(LAYERS) for name in layer}
    for path in MODULES:
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if parts == ("__init__",):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("trajkit"):
                names = (node.module or "").split(".")[1:2] or [a.name for a in node.names]
                for name in names:
                    if name in rank:
                        assert rank[name] <= rank[parts[0]], f"{path.name} imports {name}"


def test_every_module_has_a_layer() -> None:
    known = set().union(*LAYERS) | {"__init__"}
    assert {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in MODULES} <= known


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_a_file_is_short_documented_and_named_for_what_it_does(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= 420
    assert path.stem not in {"utils", "helpers", "common", "misc", "util"}
    assert ast.get_docstring(ast.parse(text))


def test_public_functions_say_what_comes_back() -> None:
    silent = []
    for path in MODULES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if (
                isinstance(node, ast.FunctionDef | ast.ClassDef)
                and not node.name.startswith("_")
                and not ast.get_docstring(node)
            ):
                silent.append(f"{path.name}:{node.name}")
    assert silent == []


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_commands_first_help_line_is_the_one_in_the_list_and_it_has_an_example(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None and command.help is not None
    assert command.help.split("\n")[0] == COMMANDS[name]
    assert "Example:\n" in command.help
    assert f"trajkit {name}" in command.help


def test_importing_the_command_line_pulls_in_nothing_heavy() -> None:
    code = "import sys, trajkit.cli; print(sorted(m for m in sys.modules if '.' not in m))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    for heavy in ("polars", "pyarrow", "duckdb", "numpy", "datasets", "torch", "vllm", "openai"):
        assert f"'{heavy}'" not in loaded


def test_the_help_page_lists_every_command() -> None:
    page = subprocess.run(
        [sys.executable, "-m", "trajkit", "--help"], capture_output=True, text=True, check=True
    ).stdout
    for name, line in COMMANDS.items():
        assert name in page
        assert " ".join(line.split()[:3]) in " ".join(page.split())


def test_the_readme_names_every_command_and_only_real_ones() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    named = {word.split()[1] for word in re.findall(r"trajkit [a-z][a-z-]+", text)}
    assert named - {"is", "turns", "reads"} <= set(COMMANDS)
    assert set(COMMANDS) <= named


def test_manifests_and_schemas_are_plain_json() -> None:
    for path in (ROOT / "schemas").glob("*.json"):
        assert json.loads(path.read_text(encoding="utf-8"))["$id"].startswith("trajkit:")


def test_every_stage_of_a_pipeline_is_a_command() -> None:
    stages = import_module("trajkit.pipeline").STAGES
    assert set(stages) <= set(COMMANDS)
