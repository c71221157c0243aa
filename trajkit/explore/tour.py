"""What a finished pipeline has to show: one example of each kind, as it will be trained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from trajkit.builders.splits import SPLITS
from trajkit.explore.show import printable
from trajkit.store import Store

MAX_EXAMPLE_CHARS = 2_400
_DIM, _BOLD, _PLAIN = "\x1b[2m", "\x1b[1m", "\x1b[0m"


def tour(show: Mapping[str, Any], *, color: bool) -> Iterator[str]:
    """Give the lines that close a pipeline: a CPT row, an SFT row, and what to try next.

    `show` may hold `cpt` and `sft` (folders) and `next` (commands).
    """
    if "cpt" in show:
        yield from _title("One CPT example", color)
        yield from cpt_example(show["cpt"], color=color)
    if "sft" in show:
        yield from _title("One SFT example", color)
        yield from sft_example(show["sft"])
    if show.get("next"):
        yield from _title("Next", color)
        yield from (f"  {command}" for command in show["next"])


def _title(text: str, color: bool) -> Iterator[str]:
    yield ""
    yield f"{_BOLD}{text}{_PLAIN}" if color else f"== {text}"


def _rows(folder: str | Path) -> pl.LazyFrame:
    store = Store(folder)
    files = [file for split in SPLITS for file in store.files(split)]
    return pl.scan_parquet(files)


def cpt_example(folder: str | Path, *, color: bool) -> Iterator[str]:
    """Give a short `text` row; what is outside the loss is dimmed, or the loss stands in ⟦ ⟧."""
    row = (
        _rows(folder)
        .filter(pl.col("loss_spans").list.len() >= 2)
        .sort(pl.col("text").str.len_chars(), "trajectory_id")
        .head(1)
        .collect()
    )
    if row.is_empty():
        yield "(no row has two observations in the loss)"
        return
    text, spans = row["text"][0], row["loss_spans"][0].to_list()
    yield (
        f"{row['domain'][0]}, {len(text):,} characters, "
        f"{sum(end - start for start, end in spans):,} in the loss; "
        + ("the dim part is context" if color else "the loss stands in ⟦ ⟧")
    )
    open_mark, close_mark = (_PLAIN, _DIM) if color else ("⟦", "⟧")
    start = max(0, spans[0][0] - MAX_EXAMPLE_CHARS // 3)
    pieces = [_DIM if color else "", "…" if start else ""]
    position = start
    for begin, end in spans:
        pieces += [printable(text[position:begin]), open_mark]
        pieces += [printable(text[begin:end].removesuffix("\n")), close_mark, "\n"]
        position = end
        if position - start > MAX_EXAMPLE_CHARS:
            pieces.append("…")
            break
    pieces.append(_PLAIN if color else "")
    yield from "".join(pieces).split("\n")


def sft_example(folder: str | Path) -> Iterator[str]:
    """Give a kept row with its scores; when the gate kept none, the best refused one."""
    kept = _rows(folder).head(1).collect() if _has_rows(folder) else pl.DataFrame()
    if not kept.is_empty():
        row = kept.row(0, named=True)
        yield f"kept: {row['domain']}, {row['trajectory_id']} step {row['step_index']}"
        yield from _cut("action", row["prompt"][-1]["content"])
        completion = row["completion"][0]
        if completion.get("reasoning_content"):
            yield from _cut("rationale", completion["reasoning_content"])
        yield from _cut("target", completion["content"])
        if row.get("fidelity"):
            yield "verdict: passed; " + _scores(row["fidelity"])
        return
    yield "the gate kept none of the rationales; this is the best refused one"
    yield from refused_example(folder)


def refused_example(folder: str | Path) -> Iterator[str]:
    """Give the refused prediction with the highest factuality."""
    store = Store(folder)
    if not store.files("verdicts"):  # Hindsight predicts nothing.
        yield "(there is none)"
        return
    verdicts = pl.concat([pl.read_parquet(file) for file in store.files("verdicts")])
    worst = verdicts.filter(~pl.col("passed")).sort("factuality", "trajectory_id", descending=True)
    if worst.is_empty():
        yield "(there is none)"
        return
    row = worst.row(0, named=True)
    for file in sorted((store.path / "predictions").glob("*.jsonl")):
        for line in file.read_bytes().split(b"\n"):
            said = orjson.loads(line) if line else {}
            if all(said.get(key) == row[key] for key in ("trajectory_id", "step_index")):
                yield from _cut("rationale", said["rationale"])
                yield from _cut("prediction", said["prediction"])
    yield f"verdict: refused ({row['reason']}); " + _scores(row)


def _has_rows(folder: str | Path) -> bool:
    rows = Store(folder).manifest.rows
    return any(rows.get(split) for split in SPLITS)


def _scores(row: Mapping[str, Any]) -> str:
    axes = ("format", "factuality", "consistency", "realism", "quality")
    return ", ".join(f"{axis} {row[axis]:.2f}" for axis in axes)


def _cut(name: str, text: str, max_chars: int = 900) -> Iterator[str]:
    shown = printable(text if len(text) <= max_chars else text[:max_chars] + " …")
    yield f"{name}:"
    yield from ("  " + line for line in shown.split("\n"))
