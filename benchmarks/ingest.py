"""Speed and memory of reading logs, as ratios to bare JSON passes over the same bytes in one run.

The machine may be shared and noisy, so the ratios count, not the seconds. The corpus is made from
real logs (`corpus.py`); peers are `datasets.load_dataset("json")`, for Claude Code and Codex with
`teich`, which it uses to read agent traces (`make bench` puts that package into build/peers).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

from corpus import Corpus

PEERS = Path(__file__).parent.parent / "build" / "peers"
KINDS = ("claude-code", "codex", "chat", "documents")

_INGEST = """
import sys
from trajkit.ingest import ingest
if __name__ == "__main__":
    workers, out, *paths = sys.argv[1:]
    report = ingest(tuple(paths), out, workers=int(workers), quiet=True)
    print(report.kept, report.dropped, file=sys.stderr)
"""
_BARE = """
import sys
from multiprocessing import Pool
from pathlib import Path
import orjson

def read(path):
    data = path.read_bytes()
    if path.suffix == ".json":
        orjson.loads(data)
        return
    for line in data.split(b"\\n"):
        if line:
            orjson.loads(line)

if __name__ == "__main__":
    workers, _, *roots = sys.argv[1:]
    files = sorted(path for root in roots for path in Path(root).rglob("*.json*"))
    if workers == "1":
        for file in files:
            read(file)
    else:
        with Pool(int(workers)) as pool:
            for _ in pool.imap_unordered(read, files, chunksize=1):
                pass
"""
_DATASETS = """
import sys
from pathlib import Path
from datasets import load_dataset
if __name__ == "__main__":
    _, out, *roots = sys.argv[1:]
    files = sorted(str(path) for root in roots for path in Path(root).rglob("*.json*"))
    rows = load_dataset("json", data_files=files, split="train", cache_dir=out)
    print(rows.num_rows, rows.column_names, file=sys.stderr)
"""


def main() -> None:
    """Print one table for the whole corpus, one by kind of log, and one beside the peers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1_000, help="Size of the corpus.")
    parser.add_argument("--peer-megabytes", type=int, default=20, help="Size for the peers.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        corpus = Corpus()
        sizes = corpus.write(folder / "all", options.megabytes * 1_000_000)
        small = corpus.write(folder / "small", options.peer_megabytes * 4_000_000)
        run = Runner(folder)
        every = [folder / "all" / kind for kind in KINDS]
        total = sum(sizes.values())
        print(f"{total / 1e6:.0f} MB, a quarter each: {', '.join(KINDS)}")
        run.head()
        bare = run("bare orjson, 1 process", _BARE, 1, every, total)
        one = run("ingest, 1 worker", _INGEST, 1, every, total, bare)
        bare_two = run("bare orjson, 2 processes", _BARE, 2, every, total)
        two = run("ingest, 2 workers", _INGEST, 2, every, total, bare_two)
        print(f"two workers: {one / two:.2f} times one\n")
        run.head()
        for kind in KINDS:
            bare = run(f"{kind}: bare", _BARE, 1, [folder / "all" / kind], sizes[kind])
            run(f"{kind}: ingest", _INGEST, 1, [folder / "all" / kind], sizes[kind], bare)
        print()
        run.head()
        traces = [folder / "small" / kind for kind in ("claude-code", "codex")]
        size = small["claude-code"] + small["codex"]
        own = run("traces: ingest", _INGEST, 1, traces, size)
        for kind, path in (("claude-code", traces[:1]), ("codex", traces[1:])):
            run(
                f"{kind}: datasets + teich",
                _DATASETS,
                1,
                path,
                small[kind],
                own * small[kind] / size,
            )
        own = run("chat: ingest", _INGEST, 1, [folder / "small" / "chat"], small["chat"])
        run("chat: datasets", _DATASETS, 1, [folder / "small" / "chat"], small["chat"], own)


class Runner:
    """Runs scripts in processes of their own and prints a line for each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = 0

    def head(self) -> None:
        """Print the names of the columns."""
        print(f"{'run':<28}{'seconds':>9}{'MB/s':>8}{'ratio':>8}{'peak MB':>9}")

    def __call__(
        self,
        name: str,
        code: str,
        workers: int,
        roots: list[Path],
        size: int,
        bare: float | None = None,
    ) -> float:
        """Return the seconds of one run; the ratio printed is to the seconds given."""
        self._number += 1
        script = self._folder / f"run{self._number}.py"
        script.write_text(textwrap.dedent(code))
        out = self._folder / f"out{self._number}"
        arguments = [sys.executable, str(script), str(workers), str(out), *map(str, roots)]
        environment = os.environ | {"PYTHONPATH": str(PEERS), "HF_HUB_OFFLINE": "1"}
        log = self._folder / f"log{self._number}"
        with log.open("wb") as errors:
            start = time.monotonic()
            process = subprocess.Popen(arguments, stderr=errors, stdout=errors, env=environment)
            _, status, usage = os.wait4(process.pid, 0)
            seconds = time.monotonic() - start
        if status:
            print(f"{name:<28}  failed: {log.read_text(errors='replace').strip()[-300:]}")
            return seconds
        ratio = f"{seconds / bare:8.1f}" if bare else " " * 8
        peak = usage.ru_maxrss / 1e3
        print(
            f"{name:<28}{seconds:>9.1f}{size / 1e6 / seconds:>8.1f}{ratio}{peak:>9.0f}", flush=True
        )
        return seconds


if __name__ == "__main__":
    main()
