"""The embedded model, unpacked and started once for all tests that want it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from trajkit.worldmodel import WorldModel, open_world_model

_UNPACK = "from trajkit.worldmodel.embedded import model_folder; print(model_folder())"


@pytest.fixture(scope="session")
def embedded_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[str]]]:
    """A cache folder for all that follows, and where two racing processes found the model."""
    cache = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAJKIT_CACHE", str(cache))
        # What a process killed while it unpacked leaves behind.
        (cache / "SmolLM2-135M-Instruct.unfinished").mkdir()
        (cache / "SmolLM2-135M-Instruct.unfinished" / "model.safetensors").write_bytes(b"torn")
        command = [sys.executable, "-c", _UNPACK]
        racers = [
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
            for _ in range(2)
        ]
        found = [racer.communicate(timeout=300)[0].strip() for racer in racers]
        yield cache, found


@pytest.fixture(scope="session")
def embedded_world_model(embedded_cache: tuple[Path, list[str]]) -> Iterator[WorldModel]:
    """`embedded`; its engine starts with the first request and serves the whole session."""
    model = open_world_model("embedded")
    yield model
    model.close()
