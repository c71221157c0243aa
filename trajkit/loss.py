"""The loss report: for each adapter and file, what its events became and why some were left out."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq

from trajkit.ledger import FATES
from trajkit.store import Store
from trajkit.tables import write_atomically

_NUMBERS = ("records", "episodes", "events", *FATES, "n_left_out")


def loss_report(store: Store) -> dict[str, Any]:
    """Return the whole account of a store: in total, by adapter, and by file.

    An event is the smallest thing a log writes down for itself (a line, a message, a step record).
    Each is counted once: `events == action + observation + thought + context + n_left_out`. The
    adapter `none` stands for records that no adapter knows.
    """
    adapters: defaultdict[str, Counter[str]] = defaultdict(Counter)
    reasons: defaultdict[str, Counter[str]] = defaultdict(Counter)
    files = []
    for path in store.files("loss"):
        for row in pq.read_table(path).to_pylist():
            row["left_out"] = orjson.loads(row["left_out"])
            files.append(row)
            adapters[row["adapter"]].update({name: row[name] for name in _NUMBERS})
            reasons[row["adapter"]].update(row["left_out"])
    total: Counter[str] = sum(adapters.values(), Counter())
    return {
        "total": _account(total, sum(reasons.values(), Counter())),
        "adapters": {name: _account(adapters[name], reasons[name]) for name in sorted(adapters)},
        "files": files,
    }


def _account(numbers: Counter[str], reasons: Counter[str]) -> dict[str, Any]:
    return {name: numbers[name] for name in _NUMBERS} | {"left_out": dict(sorted(reasons.items()))}


def write_loss_report(store: Store, path: Path) -> None:
    """Write the loss report of a store as JSON, atomically."""
    text = orjson.dumps(loss_report(store), option=orjson.OPT_INDENT_2)
    write_atomically(path, text + b"\n")
