"""The documents say what is true: their code runs, and what is made from the code is up to date."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

import trajkit
from trajkit.ingest import Options, ingest

DOCS = Path(__file__).parent.parent / "docs"


def test_the_page_of_formats_is_what_the_adapters_say() -> None:
    made = runpy.run_path(str(DOCS / "pages.py"))
    assert (DOCS / "formats.md").read_text() == made["formats_page"](), "run `make docs`"


@pytest.fixture
def shell_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The logs of docs/adapters.md, with its adapter in the current folder."""
    page = (DOCS / "adapters.md").read_text()
    record = re.search(r"```json\n(.*?)```", page, re.DOTALL)
    code = re.search(r'```python\n(""".*?)```', page, re.DOTALL)
    assert record is not None and code is not None
    assert code.group(1).count("\n") <= 41
    (tmp_path / "mylogs.py").write_text(code.group(1))
    row = record.group(1).replace("\n", " ")
    (tmp_path / "runs.jsonl").write_text(f'{row}\n{{"run": 2, "goal": "x", "log": []}}\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path / "runs.jsonl"


def test_the_adapter_of_the_page_reads_its_logs(shell_logs: Path, tmp_path: Path) -> None:
    rejects: list[trajkit.Reject] = []
    (found,) = trajkit.read(shell_logs, format="mylogs:ShellLogs", rejects=rejects)
    assert found.task == "free some disk space"
    assert [(s.action, s.observation, s.exit_code) for s in found.steps] == [
        ("ls /tmp", "a.log", 0),
        ("rm /tmp/a.log", "", 0),
    ]
    assert [reject.reason for reject in rejects] == ["no_action"]
    options = Options(format="mylogs:ShellLogs")
    report = ingest((str(shell_logs),), tmp_path / "store", options=options, workers=2)
    assert (report.kept, report.dropped) == (1, {"no_action": 1})


@pytest.mark.parametrize("name", ["mylogs:Nothing", "nowhere:X", "mylogs:Message"])
def test_a_class_that_cannot_be_used_is_a_clear_error(shell_logs: Path, name: str) -> None:
    with pytest.raises(trajkit.errors.TrajkitError, match="Hint"):
        list(trajkit.read(shell_logs, format=name))
