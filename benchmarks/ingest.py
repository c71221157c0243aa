"""Speed and memory of reading logs, as ratios to a bare JSON pass over the same bytes in one run.

The machine may be shared and noisy, so the ratio counts, not the seconds.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_INGEST = """
import sys
from trajkit.ingest import ingest
if __name__ == "__main__":
    ingest((sys.argv[1],), sys.argv[2], workers=int(sys.argv[3]), quiet=True)
"""
_BARE = """
import sys
from pathlib import Path
import orjson
for path in sorted(Path(sys.argv[1]).iterdir()):
    for line in path.open("rb"):
        orjson.loads(line)
"""


def main() -> None:
    """Print one table: seconds, MB a second, ratio to the bare pass, peak memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=200)
    megabytes = parser.parse_args().megabytes
    with tempfile.TemporaryDirectory() as folder:
        logs = Path(folder, "logs")
        size = _write_logs(logs, megabytes * 1_000_000)
        script = Path(folder, "run.py")
        runs: dict[str, tuple[str, list[str]]] = {
            "bare orjson pass": (_BARE, [str(logs)]),
            "ingest, 1 worker": (_INGEST, [str(logs), f"{folder}/one", "1"]),
            "ingest, 2 workers": (_INGEST, [str(logs), f"{folder}/two", "2"]),
        }
        bare = None
        print(f"{size / 1e6:.0f} MB of chat rows")
        print(f"{'run':<20}{'seconds':>9}{'MB/s':>8}{'ratio':>8}{'peak MB':>9}")
        for name, (code, arguments) in runs.items():
            script.write_text(code)
            start = time.monotonic()
            subprocess.run([sys.executable, str(script), *arguments], check=True)
            seconds = time.monotonic() - start
            bare = bare or seconds
            peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3
            speed, ratio = size / 1e6 / seconds, seconds / bare
            print(f"{name:<20}{seconds:>9.1f}{speed:>8.1f}{ratio:>8.1f}{peak:>9.0f}")


def _write_logs(folder: Path, n_bytes: int) -> int:
    """Return the bytes written: chat rows of some 40 kB in files of about 20 MB."""
    rng = random.Random(0)
    words = [f"word{n}" for n in range(5_000)]
    folder.mkdir()
    size = 0
    number = 0
    while size < n_bytes:
        with (folder / f"{number:03d}.jsonl").open("w") as file:
            written = 0
            while written < 20_000_000 and size + written < n_bytes:
                written += file.write(json.dumps(_row(rng, words)) + "\n")
        size += written
        number += 1
    return size


def _row(rng: random.Random, words: list[str]) -> dict[str, object]:
    messages: list[dict[str, object]] = [
        {"role": "user", "content": " ".join(rng.sample(words, 20))}
    ]
    for n in range(20):
        call = {
            "name": "bash",
            "arguments": json.dumps({"command": " ".join(rng.sample(words, 8))}),
        }
        messages.append({"role": "assistant", "tool_calls": [{"id": f"c{n}", "function": call}]})
        answer = "\n".join(" ".join(rng.sample(words, 12)) for _ in range(20))
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": answer})
    return {"messages": messages, "tools": [{"function": {"name": "bash"}}]}


if __name__ == "__main__":
    main()
