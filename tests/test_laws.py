"""Laws of the design that need a process of their own: killed runs, bounded memory, other seeds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from chats import chat, write_rows
from conftest import LOGS
from peaks import peak_bytes
from test_ingest import digest

STAGES = """
import sys
import trajkit.ingest as m
from trajkit.builders.cpt import Options, build_cpt
from trajkit.dedup import dedup
from trajkit.filters import filter_episodes
from trajkit.scrub import scrub
from trajkit.transitions import transitions
m.SHARD_FILES = int(sys.argv[3])
if __name__ == "__main__":
    logs, out, _, workers = sys.argv[1:]
    m.ingest((logs,), out + "/raw", workers=int(workers), quiet=True)
    scrub(out + "/raw", out + "/scrubbed", workers=int(workers), quiet=True)
    filter_episodes(out + "/scrubbed", out + "/filtered", quiet=True)
    dedup(out + "/filtered", out + "/unique", workers=int(workers), quiet=True)
    transitions(out + "/unique", out + "/transitions", quiet=True)
    build_cpt(
        out + "/transitions", out + "/cpt", options=Options(validation=0.2), quiet=True
    )
"""


def stages(script: Path, *arguments: object, seed: str = "0") -> subprocess.Popen[bytes]:
    script.write_text(STAGES)
    return subprocess.Popen(
        [sys.executable, str(script), *map(str, arguments)],
        env=os.environ | {"PYTHONHASHSEED": seed},
    )


def test_law_4_every_stage_writes_the_same_bytes_for_any_workers_and_hash_seed(
    tmp_path: Path,
) -> None:
    for seed, workers in (("1", 1), ("2", 2)):
        run = stages(tmp_path / "s.py", LOGS, tmp_path / seed, 9, workers, seed=seed)
        assert run.wait() == 0
    one, two = digest(tmp_path / "1"), digest(tmp_path / "2")
    assert len(one) > 20
    assert one == two


def test_law_5_a_run_killed_at_any_moment_ends_in_the_bytes_of_an_undisturbed_one(
    tmp_path: Path,
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    for number in range(24):
        rows = [
            chat(
                [("get", {"n": k}, f"{number} {k} " * 400) for k in range(6)], task=f"{number} {n}"
            )
            for n in range(20)
        ]
        write_rows(logs / f"{number:02d}.jsonl", rows)
    assert stages(tmp_path / "s.py", logs, tmp_path / "calm", 2, 1).wait() == 0
    n_killed = 0
    for table in ("raw/.marks", "filtered/.marks", "transitions/.marks"):
        run = stages(tmp_path / "s.py", logs, tmp_path / "harried", 2, 1)
        while run.poll() is None and not list((tmp_path / "harried" / table).glob("*.json")):
            time.sleep(0.002)
        if run.poll() is None:
            run.send_signal(signal.SIGKILL)
            n_killed += run.wait() == -signal.SIGKILL
        clear_finished(tmp_path / "harried")
    assert n_killed >= 1
    run = stages(tmp_path / "s.py", logs, tmp_path / "harried", 2, 1)
    assert run.wait() == 0
    assert digest(tmp_path / "harried") == digest(tmp_path / "calm")


def clear_finished(out: Path) -> None:
    """Remove complete stores, so that the next run makes them again and meets unfinished ones."""
    for manifest in out.glob("*/manifest.json"):
        subprocess.run(["rm", "-r", str(manifest.parent)], check=True)


def test_law_6_memory_of_ingest_does_not_grow_with_the_file(tmp_path: Path) -> None:
    code = (
        "import sys; from trajkit.ingest import ingest\n"
        "ingest((sys.argv[1],), sys.argv[2], quiet=True)\n"
    )
    peaks = []
    for name, n_rows in (("small", 900), ("big", 3_600)):
        rows = (chat([("get", {"n": n}, f"{n} " * 8_000)] * 2, task=str(n)) for n in range(n_rows))
        path = write_rows(tmp_path / f"{name}.jsonl", rows)
        peak, _ = peak_bytes(code, path, tmp_path / name)
        peaks.append(peak / 1e6)
    assert (tmp_path / "big.jsonl").stat().st_size > 150_000_000
    assert peaks[1] - peaks[0] < 60, f"peak memory in MB: {peaks}"
