"""The recorded logs of `examples/logs` as episodes, for tests that look at real data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from trajkit import adapters
from trajkit.inputs import list_inputs
from trajkit.model import Origin, Record, Trajectory
from trajkit.readers import FileReader

LOGS = Path(__file__).parent.parent / "examples" / "logs"


def logged() -> Iterator[tuple[str, Trajectory]]:
    """Give the folder and the episode of every recorded log that is read value by value."""
    known = adapters.all_adapters()
    for file in list_inputs((str(LOGS),)):
        for value in FileReader(file):
            documents = value.value if isinstance(value.value, list) else [value.value]
            for document in documents:
                record = Record(value=document, origin=Origin(path=file.origin_path))
                for adapter in adapters.claims(document, known):
                    found = adapter.extract(record) if adapter.unit == "value" else ()
                    for episode_found in found:
                        if isinstance(episode_found, Trajectory):
                            folder = file.origin_path.split("/")[1]
                            yield folder, replace(episode_found, domain=None)
