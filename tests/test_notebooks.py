"""The notebooks run from top to bottom."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


# The kernel's own libraries warn about event loops and sockets when they shut down.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_runs_from_top_to_bottom(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": path.parent}}).execute()
    printed = "".join(
        output.get("text", "") or str(output.get("data", {}))
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
    )
    for domain in ("android", "mcp", "os", "search", "swe", "terminal", "web"):
        assert domain in printed
    assert all(
        not cell.outputs
        for cell in nbformat.read(path, as_version=4).cells
        if cell.cell_type == "code"
    )
