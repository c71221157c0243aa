"""Continual pre-training rows: whole episodes, loss on observations only.

Source: Qwen-AgentWorld report, section 3.2; the system prompt is variant v1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from trajkit.builders import render
from trajkit.builders.examples import (
    MESSAGE,
    ExampleWriter,
    episodes,
    example_schema,
    shared_values,
)
from trajkit.errors import TrajkitError, alternatives
from trajkit.progress import Progress
from trajkit.report import Report, under
from trajkit.store import Store, inputs_of, iterate_parts, open_writer

VARIANT = "v1"
LAYOUTS: dict[str, list[pa.Field]] = {
    "text": [
        pa.field("text", pa.large_string()),
        pa.field("loss_spans", pa.list_(pa.list_(pa.int64()))),
    ],
    "messages": [
        pa.field("messages", pa.list_(pa.struct([*MESSAGE, pa.field("loss", pa.bool_())])))
    ],
}


def build_cpt(
    store: str | Path,
    out: str | Path,
    *,
    layout: str = "text",
    validation: float = 0.05,
    jsonl: bool = False,
    overwrite: bool = False,
    quiet: bool = False,
) -> Report:
    """Return the report of writing one row for each episode that has something to learn.

    An episode with no observation in the loss is dropped as `no_loss`: such rows train in silence
    at zero loss. Holds one part at a time.

    Raises TrajkitError for an unknown layout or a store without transitions.
    """
    if layout not in LAYOUTS:
        raise TrajkitError("--layout", f"no layout {layout!r}", f"one of {alternatives(LAYOUTS)}")
    source = Store(store).require("trajectories", "steps", "transitions")
    report = Report("build-cpt", out)
    options: dict[str, Any] = {"layout": layout, "validation": validation, "jsonl": jsonl}
    writer = open_writer(
        out,
        kind="examples",
        stage="build-cpt",
        options=options,
        inputs=inputs_of(source),
        overwrite=overwrite,
    )
    examples = ExampleWriter(writer, example_schema(*LAYOUTS[layout]), validation, jsonl)
    parts = source.parts()
    with Progress("build-cpt", len(parts), "parts", quiet=quiet) as progress:
        for part in iterate_parts(source, writer):
            counts = {"read": 0, "kept": 0, "loss_chars": 0, "chars": 0, "control_tokens": 0}
            for episode, steps in episodes(source, part):
                counts["read"] += 1
                if not any(step["loss"] for step in steps):
                    continue
                counts["kept"] += 1
                rendered = render.render(episode, steps, VARIANT)
                text, spans = render.text(rendered)
                counts["chars"] += len(text)
                counts["loss_chars"] += sum(end - start for start, end in spans)
                counts["control_tokens"] += rendered.n_control_tokens
                row = shared_values(episode, None, steps[0]["split_group"])
                if layout == "text":
                    row |= {"text": text, "loss_spans": spans}
                else:
                    row["messages"] = render.chat(rendered)
                examples.add(row)
            writer.mark(part, counts | examples.write(part))
            progress.advance()
    totals = writer.counts
    report.read = totals["read"]
    report.kept = report.written = totals["kept"]
    if report.read > report.kept:
        report.dropped["no_loss"] = report.read - report.kept
    report.extra["splits"] = under(totals, "split")
    report.extra["chars"] = totals["chars"]
    report.extra["chars_in_loss"] = totals["loss_chars"]
    report.extra["control_tokens_escaped"] = totals["control_tokens"]
    return report.finish(writer)
