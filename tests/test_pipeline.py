"""Whole flows from a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from chats import chat, write_rows
from test_ingest import digest

from trajkit.errors import TrajkitError
from trajkit.pipeline import run

FLOW = """
[variables]
logs = "{logs}"
out = "{out}"
[[stage]]
command = "ingest"
paths = ["${{logs}}"]
out = "${{out}}/raw"
domain = "mcp"
[[stage]]
command = "validate"
paths = ["${{out}}/raw"]
[[stage]]
command = "filter"
store = "${{out}}/raw"
out = "${{out}}/filtered"
[[stage]]
command = "transitions"
store = "${{out}}/filtered"
out = "${{out}}/transitions"
keep_ratios = {{ echo = 1.0 }}
[[stage]]
command = "build-cpt"
store = "${{out}}/transitions"
out = "${{out}}/cpt"
[show]
cpt = "${{out}}/cpt"
next = ["trajkit show ${{out}}/raw"]
"""


@pytest.fixture
def flow(tmp_path: Path) -> Path:
    rows = [chat([("get", {"n": n}, f"value {n} of many")] * 3, task=str(n)) for n in range(4)]
    write_rows(tmp_path / "rows.jsonl", [*rows, {"odd": 1}])
    path = tmp_path / "flow.toml"
    path.write_text(FLOW.format(logs=tmp_path / "rows.jsonl", out=tmp_path / "out"))
    return path


def test_a_pipeline_runs_shows_its_account_and_is_taken_up(
    flow: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(str(flow))
    first = capsys.readouterr()
    assert "ingest               5        4  unknown_format 1" in first.out
    assert "[5/5] build-cpt" in first.err
    assert "the loss stands in ⟦ ⟧" in first.out
    assert f"trajkit show {flow.parent}/out/raw" in first.out
    before = digest(flow.parent / "out")
    run(str(flow))
    second = capsys.readouterr()
    assert second.err.count("up to date") == 4
    assert second.out == first.out
    assert digest(flow.parent / "out") == before
    run(str(flow), overwrite=True)
    assert digest(flow.parent / "out") == before


def test_a_variable_can_be_set_from_outside(flow: Path) -> None:
    other = flow.parent / "elsewhere"
    run(str(flow), (f"out={other}",), quiet=True)
    assert (other / "cpt" / "manifest.json").exists()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('command = "filter"', 'command = "fliter"', r"stage 3: no command 'fliter'\nHint: one of"),
        ("keep_ratios", "keep_ratio", r"stage 4: transitions has no argument 'keep_ratio'"),
        ('out = "${out}/cpt"', 'out = "${ot}/cpt"', r"stage 5: unknown variable in '\$\{ot\}/cpt'"),
        ("[variables]", "[variables", r"is not TOML"),
        ("[[stage]]", "[[steps]]", r"has no \[\[stage\]\]"),
    ],
)
def test_a_mistake_in_the_file_names_the_stage_and_the_right_words(
    flow: Path, old: str, new: str, message: str
) -> None:
    flow.write_text(flow.read_text().replace(old, new))
    with pytest.raises(TrajkitError, match=message):
        run(str(flow), quiet=True)


def test_an_unknown_setting_lists_the_variables(flow: Path) -> None:
    with pytest.raises(TrajkitError, match="no variable 'ouput'\nHint: KEY=VALUE with logs, out"):
        run(str(flow), ("ouput=x",), quiet=True)
