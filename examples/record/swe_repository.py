"""The small repository that the episodes of `swe.py` work on: two modules, each with a bug.

`spans.merge` forgets how far an earlier, longer span reached; `clock.seconds` reads the last number
only. The tests are right and use `unittest`.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

SPANS = '''"""Work with spans of whole numbers, written as (first, last)."""


def merge(spans):
    """Return the spans sorted, with those that touch or overlap joined."""
    merged = []
    for first, last in sorted(spans):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], last)
        else:
            merged.append((first, last))
    return merged


def parse(text):
    """Return the spans of a text such as '1-3,7'."""
    spans = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        spans.append((int(first), int(last or first)))
    return spans


def total(spans):
    """Return how many numbers the spans cover, each counted once."""
    return sum(last - first + 1 for first, last in merge(spans))
'''

CLOCK = '''"""Read and write lengths of time such as '1h20m5s'."""

import re

UNITS = {"h": 3600, "m": 60, "s": 1}


def seconds(text):
    """Return the seconds of a length of time."""
    result = 0
    for number, unit in re.findall(r"([0-9]+)([hms])", text):
        result = int(number) * UNITS[unit]
    return result


def written(count):
    """Return a number of seconds as text, without parts that are zero."""
    parts = []
    for unit, size in UNITS.items():
        number, count = divmod(count, size)
        if number:
            parts.append(f"{number}{unit}")
    return "".join(parts) or "0s"
'''

TEST_SPANS = """import unittest

import spans


class Merge(unittest.TestCase):
    def test_touching_spans_are_joined(self):
        self.assertEqual(spans.merge([(1, 3), (4, 6)]), [(1, 6)])

    def test_an_inner_span_does_not_shorten_the_outer_one(self):
        self.assertEqual(spans.merge([(1, 9), (2, 4)]), [(1, 9)])

    def test_the_order_does_not_matter(self):
        self.assertEqual(spans.merge([(8, 9), (1, 2)]), [(1, 2), (8, 9)])


class Total(unittest.TestCase):
    def test_numbers_are_counted_once(self):
        self.assertEqual(spans.total(spans.parse("1-9,2-4")), 9)
"""

TEST_CLOCK = """import unittest

import clock


class Seconds(unittest.TestCase):
    def test_all_units_add_up(self):
        self.assertEqual(clock.seconds("1h20m5s"), 4805)

    def test_one_unit_alone(self):
        self.assertEqual(clock.seconds("90s"), 90)


class Written(unittest.TestCase):
    def test_zero_is_written(self):
        self.assertEqual(clock.written(0), "0s")


if __name__ == "__main__":
    unittest.main()
"""

PROGRESS = r'''"""Check many random spans, with a progress bar; red marks the first wrong one."""

import random
import sys
import time

import spans

dice = random.Random(5)
n_rounds = 10
for done in range(1, n_rounds + 1):
    pairs = [sorted(dice.sample(range(40), 2)) for _ in range(6)]
    expected = len({n for first, last in pairs for n in range(first, last + 1)})
    sys.stdout.write(f"\r\033[36m[{'=' * done:<{n_rounds}}]\033[0m {done}/{n_rounds}")
    sys.stdout.flush()
    time.sleep(0.05)
    got = spans.total([tuple(pair) for pair in pairs])
    if got != expected:
        print(f"\n\033[1;31mwrong\033[0m round {done}: expected {expected}, got {got}")
        sys.exit(1)
print("\n\033[32mall rounds agree\033[0m")
'''

WATCH = """import time

print("watching for changes", flush=True)
while True:
    time.sleep(0.2)
"""

HISTORY = "".join(
    f"{number:03d}  {'spans' if number % 3 else 'clock'}: change number {number} to the "
    f"{'reader' if number % 2 else 'writer'}\n"
    for number in range(1, 181)
)

FILES = {
    "README.md": "# lengths\n\nSpans of numbers and lengths of time. `python3 -m unittest`\n",
    "HISTORY.txt": HISTORY,
    "spans.py": SPANS,
    "clock.py": CLOCK,
    "test_spans.py": TEST_SPANS,
    "test_clock.py": TEST_CLOCK,
    "tools/rounds.py": PROGRESS,
    "tools/watch.py": WATCH,
}


def create(folder: Path) -> None:
    """Make the repository anew at `folder`, with one commit on branch main."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    author = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
    for command in (
        ["init", "-q", "-b", "main"],
        ["add", "."],
        [*author, "commit", "-q", "-m", "Spans and lengths of time"],
    ):
        subprocess.run(["git", *command], cwd=folder, check=True, timeout=20)
