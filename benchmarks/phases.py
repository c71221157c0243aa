"""Where reading a log spends its time: processor milliseconds a megabyte, by phase, in one run.

The same phases as in `ingest`, one after the other in one process over rows of chat; the first
line is the bare JSON pass they are measured against.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
from corpus import Corpus

from trajkit import adapters
from trajkit.extraction import extract
from trajkit.ingest import Options, document_of
from trajkit.inputs import list_inputs
from trajkit.marks import marked
from trajkit.model import Origin, Record, Trajectory
from trajkit.readers import FileReader
from trajkit.tables import EpisodeSink, file_sha256


def main() -> None:
    """Print one line for each phase."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=40)
    megabytes = parser.parse_args().megabytes
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        Corpus().write(folder / "logs", megabytes * 4_000_000)
        files = list_inputs((str(folder / "logs" / "chat"),))
        size = sum(file.size_bytes for file in files) / 1e6
        bare = 0.0

        def timed(phase: str, run: Callable[[], Any]) -> Any:
            nonlocal bare
            start = time.process_time()
            result = run()
            cost = (time.process_time() - start) / size * 1e3
            bare = bare or cost
            print(f"{phase:<34}{cost:>8.2f} ms a MB{cost / bare:>8.1f} times the bare pass")
            return result

        def decode() -> None:
            for file in files:
                with file.path.open("rb") as lines:
                    for line in lines:
                        orjson.loads(line)

        def sink() -> None:
            finish = lambda table, frame: marked(table, frame, Counter())  # noqa: E731
            with EpisodeSink(folder, "part-00000", finish) as part:
                for document in documents:
                    part.add(document)

        known = adapters.all_adapters()
        timed("bare orjson", decode)
        timed("hash of the raw files", lambda: [file_sha256(file.path) for file in files])
        values = timed(
            "decode, and prove nothing is lost",
            lambda: [value.value for file in files for value in FileReader(file)],
        )
        owned = [(adapters.claims(value, known), value) for value in values]
        found = timed(
            "adapters",
            lambda: [
                one
                for owners, value in owned
                for one in extract(owners, Record(value=value, origin=Origin(path="x")))
                if isinstance(one, Trajectory)
            ],
        )
        options = Options(domain="swe")
        documents = timed(
            "ids, hash and schema of episodes",
            lambda: [document_of(one, options)[0] for one in found],
        )
        timed("columns, marks, zstd Parquet", sink)


if __name__ == "__main__":
    main()
