"""The main job as a person runs it: real logs, the real embedded model through vLLM, the gate."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
from conftest import ROOT

from trajkit.builders.splits import SPLITS
from trajkit.model import DOMAINS
from trajkit.store import Store

SMALL = """
per_domain = 1
n_rollouts = 1
max_prompt_chars = 12000
max_tokens = 288
"""


def test_the_demo_pipeline_runs_from_raw_logs_to_judged_rationales(
    tmp_path: Path, embedded_cache: tuple[Path, list[str]]
) -> None:
    assert os.environ["TRAJKIT_CACHE"] == str(embedded_cache[0])
    flow = (ROOT / "pipelines" / "demo.toml").read_text(encoding="utf-8")
    head, rest = flow.split("# A model of 135M parameters", 1)
    small = tmp_path / "small.toml"
    small.write_text(head + SMALL + rest[rest.index("[show]") :], encoding="utf-8")
    command = [
        *(sys.executable, "-m", "trajkit", "run", str(small)),
        *("--set", f"logs={ROOT / 'examples' / 'logs'}", "--set", f"out={tmp_path / 'out'}"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stderr[-2_000:]
    stages = re.findall(r'^command = "(.+)"$', flow, re.MULTILINE)
    assert len(stages) == 9
    for stage in stages:
        assert any(line.startswith(f"{stage} ") for line in done.stdout.split("\n"))
    assert "One CPT example" in done.stdout
    assert "One SFT example" in done.stdout
    assert "verdict: " in done.stdout

    sft = Store(tmp_path / "out" / "sft")
    report = sft.manifest.report
    assert report["world_model"] == "embedded:SmolLM2-135M-Instruct"
    assert report["read"] == report["kept"] + sum(report["dropped"].values())
    assert report["read"] - report["dropped"]["over_domain_limit"] == len(DOMAINS)
    lines = (sft.path / "completions.jsonl").read_bytes().split(b"\n")
    answered = [json.loads(line) for line in lines if line]
    n_asked = sum(n for name, n in report["calls"].items() if name != "tokens")
    assert len(answered) == n_asked >= 5
    verdicts = pq.read_table(sft.files("verdicts")).to_pylist()
    assert len(verdicts) >= 3, report
    assert {row["passed"] for row in verdicts} <= {True, False}
    rows = [
        row
        for split in SPLITS
        for file in sft.files(split)
        for row in pq.read_table(file).to_pylist()
    ]
    assert len(rows) == report["kept"] == sum(row["passed"] for row in verdicts)

    before = {file: file.read_bytes() for file in sorted((tmp_path / "out").rglob("*.parquet"))}
    again = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    assert again.stderr.count("up to date") == len(stages) - 1
    assert {file: file.read_bytes() for file in before} == before
