"""A built folder, a loopback Hub, and a push from one to the other, for the tests of publish."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from chats import chat, write_rows
from huggingface_hub import constants
from huggingface_hub.utils import close_session
from loopback_hub import TOKEN, LoopbackHub

from trajkit.builders import cpt as cpt_rows
from trajkit.builders.examples import ExampleWriter, example_schema
from trajkit.builders.splits import Splits
from trajkit.dedup import dedup
from trajkit.filters import filter_episodes
from trajkit.ingest import Options, ingest
from trajkit.publish import publish
from trajkit.report import Report
from trajkit.store import open_writer
from trajkit.transitions import transitions

NAME = "me/world-data"
HOSTILE_SOURCE = "<!-- trajkit: end default --> | [x](http://evil.example)\n# owned"
BY_HAND = """---
license: mit
language:
- no
date: 2024-05-06
configs:
- {config_name: default, data_files: [{split: train, path: data/train-*}]}
- {config_name: tools, data_files: [{split: train, path: tools/train-*}]}
dataset_info:
- {config_name: default, features: [{name: old_column, dtype: string}]}
- {config_name: tools, features: [{name: call, dtype: string}]}
---

# My corpus

Limits that I wrote by hand.
"""


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the whole way from a raw log to built rows."""
    root = tmp_path_factory.mktemp("flow")
    (root / "raw").mkdir()
    rows = []
    for number in range(8):
        turns = [
            (
                "bash",
                {"command": f"ls /{number}/{turn}"},
                f"file_{number}_{turn}.txt\n{number * 7}\n",
            )
            for turn in range(3)
        ]
        rows.append(chat(turns, task=f"Task {number}: look around"))
    write_rows(root / "raw" / "log.jsonl", rows)
    options = Options(domain="terminal", source=HOSTILE_SOURCE, license="cc-by-4.0")
    ingest((str(root / "raw"),), root / "store", options=options, quiet=True)
    filter_episodes(root / "store", root / "filtered", quiet=True)
    dedup(root / "filtered", root / "unique", quiet=True)
    transitions(root / "unique", root / "transitions", quiet=True)
    wanted = cpt_rows.Options(validation=0.4, jsonl=True)
    cpt_rows.build_cpt(root / "transitions", root / "cpt", options=wanted, quiet=True)
    return root


@pytest.fixture
def cpt(flow: Path, tmp_path: Path) -> Path:
    """Return a copy of the built rows that a test may spoil."""
    return shutil.copytree(flow / "cpt", tmp_path / "cpt")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackHub]:
    """Return an empty Hub on this machine, and a token for it."""
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    # The other transfer protocol needs a storage service behind the Hub.
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    # The tests run offline; this Hub is on the machine itself.
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with LoopbackHub() as hub:
        yield hub
        close_session()


def push(folder: Path, hub: LoopbackHub, **options: Any) -> Report:
    """Return the report of an upload."""
    given: dict[str, Any] = {"private": True, "license": None, "tag": None, "quiet": True}
    given |= options
    report, preview = publish(folder, NAME, upload=True, endpoint=hub.endpoint, **given)
    assert preview is None
    return report


def preview_of(folder: Path, name: str = NAME) -> tuple[dict[str, Any], str]:
    """Return the report and the preview of a dry run."""
    report, preview = publish(
        folder, name, upload=False, private=True, license="mit", tag="v1", quiet=True
    )
    assert preview is not None
    return report.as_dict(), preview


def header_of(card: bytes | str) -> dict[str, Any]:
    """Return the header of a card as YAML 1.1, as Python readers see it."""
    text = card.decode() if isinstance(card, bytes) else card
    header: dict[str, Any] = yaml.safe_load(text.split("---\n")[1])
    return header


def rows_of(folder: Path, split: str) -> list[dict[str, Any]]:
    """Return the rows of a split as they lie on disk."""
    files = sorted((folder / split).glob("*.parquet"))
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def build_other(folder: Path, stage: str, parts: int = 1, columns: tuple[str, ...] = ()) -> Path:
    """Return a built folder of another stage with one row of short texts in each part."""
    writer = open_writer(
        folder, kind="examples", stage=stage, options={}, inputs=[], overwrite=False
    )
    texts = ("answer", *columns)
    schema = example_schema(*(pa.field(name, pa.string()) for name in texts))
    examples = ExampleWriter(writer, schema, Splits(validation=0.0, test=0.0), jsonl=False)
    for number in range(parts):
        row = {"trajectory_id": f"t{number}", "step_index": 0, "domain": "mcp", "source": "here"}
        row |= {"split_group": "f" * 16} | {name: f"{name} {number}" for name in texts}
        examples.add(row)
        writer.mark(f"part-{number:05}", examples.write(f"part-{number:05}"))
    report = Report(stage)
    report.read = report.kept = parts
    report.finish(writer)
    return folder
