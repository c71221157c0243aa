"""Peak memory of a piece of Python, run in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# `ru_maxrss` of a child begins with what its parent held; this is the new process's own.
_PEAK = """
import re as _re, pathlib as _pathlib
_status = _pathlib.Path("/proc/self/status").read_text()
print(_re.search(r"VmHWM:\\s+(\\d+)", _status).group(1))
"""


def peak_bytes(code: str, *arguments: str | Path) -> tuple[int, list[str]]:
    """Return the peak of resident memory, and the lines that the code printed."""
    done = subprocess.run(
        [sys.executable, "-c", code + _PEAK, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
    )
    *lines, peak = done.stdout.splitlines()
    return int(peak) * 1024, lines
