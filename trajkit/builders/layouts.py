"""Lay whole episodes out as text, in columns: long observations never become Python strings.

The text is that of `render.text`, which a test holds: system prompt, then action and observation
in turn. Actions after the last observation are left out: nothing follows from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from trajkit.builders import render
from trajkit.builders.loss_spans import Spans
from trajkit.domains.base import OBSERVATION_MARK, action_turn


@dataclass(frozen=True, slots=True)
class LaidOut:
    """A block of episodes."""

    steps: pl.DataFrame
    """Rows as `shown_columns` gives them up to the last answer of each `episode`, with `before`
    (all text between the observation before and this one) and `n_chars` (of the observation and
    the line end that closes it; 0 when none came)."""
    n_control_tokens: int
    """Control tokens of the log that were broken up."""


def answered_steps(steps: pl.DataFrame) -> pl.DataFrame:
    """Return the steps of each `episode` up to the last one with an observation."""
    place = pl.int_range(pl.len()).over("episode")
    last = pl.when(pl.col("observation").is_not_null()).then(pl.int_range(pl.len())).max()
    return steps.filter(place <= last.over("episode"))


def lay_out(rows: Sequence[Mapping[str, Any]], steps: pl.DataFrame, variant: str) -> LaidOut:
    """Return episodes laid out; `steps` are their rows, those of an episode in one run."""
    n_control_tokens = int(steps["n_control_tokens"].sum())
    actions = iter(steps["shown_action"].to_list())
    answered = iter(steps["shown_observation"].is_not_null().to_list())
    befores: list[str] = []
    for row, n_steps in zip(rows, steps["episode"].rle().struct.field("len"), strict=True):
        episode = render.render(row, (), variant)
        n_control_tokens += episode.n_control_tokens
        head = episode.system + "\n"
        shown = {"task": episode.task, "initial_state": episode.initial_state}
        for number in range(1, n_steps + 1):
            turn = action_turn(
                episode.domain, number, next(actions), **(shown if number == 1 else {})
            )
            is_answered = next(answered)
            befores.append(f"{head}{turn}\n\n{OBSERVATION_MARK if is_answered else ''}")
            head = "\n" if is_answered else ""
    n_chars = pl.col("shown_observation").str.len_chars().cast(pl.Int64) + 1
    laid = steps.with_columns(
        before=pl.Series(befores, dtype=pl.String), n_chars=n_chars.fill_null(0)
    )
    return LaidOut(laid, n_control_tokens)


def texts_of(laid: LaidOut) -> pa.LargeStringArray:
    """Return the text of each episode."""
    # A line end closes each observation and one more stands between it and what follows; the
    # last one of an episode is followed by nothing, so it gets its own here.
    steps = laid.steps
    is_last = pl.col("episode") != pl.col("episode").shift(-1, fill_value=len(steps))
    piece = pl.concat_str(
        "before",
        pl.col("shown_observation").fill_null(""),
        pl.when(pl.col("n_chars") == 0)
        .then(pl.lit(""))
        .when(is_last)
        .then(pl.lit("\n\n"))
        .otherwise(pl.lit("\n")),
    )
    pieces = steps.select(piece=piece)["piece"].rechunk().to_arrow().cast(pa.large_string())
    offsets = np.frombuffer(pieces.buffers()[1], dtype=np.int64, count=len(pieces) + 1)
    # The pieces of an episode lie one after the other in memory: its text is all of them.
    bounds = offsets[np.concatenate([_starts(steps), [len(steps)]])]
    return pa.LargeStringArray.from_buffers(
        len(bounds) - 1, pa.py_buffer(np.ascontiguousarray(bounds)), pieces.buffers()[2]
    )


def span_lists(laid: LaidOut, spans: Spans) -> pa.ListArray:
    """Return the loss spans of each episode as `[start, end)` characters of its text."""
    steps = laid.steps
    n_before = steps["before"].str.len_chars().cast(pl.Int64).to_numpy()
    n_all = n_before + steps["n_chars"].to_numpy()
    starts = _starts(steps)
    ends = np.cumsum(n_all)
    begun = (ends - n_all)[starts]
    offset = ends - steps["n_chars"].to_numpy() - begun[steps["episode"].to_numpy()]
    pairs = np.stack([spans.start, spans.end], axis=1) + offset[spans.step][:, None]
    inner = pa.ListArray.from_arrays(
        pa.array(np.arange(0, 2 * len(pairs) + 1, 2, dtype=np.int32)), pa.array(pairs.reshape(-1))
    )
    outer = np.searchsorted(spans.step, np.concatenate([starts, [len(steps)]])).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(outer), inner)


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of text that no token may cross."""

    text: str
    loss: bool
    category: str | None = None
    """Of an observation; null for context."""


def segments_of(laid: LaidOut, spans: Spans) -> Iterator[list[Segment]]:
    """Give the segments of each episode, context and observations in turn."""
    bounds: dict[int, list[tuple[int, int]]] = {}
    pairs = zip(spans.step.tolist(), spans.start.tolist(), spans.end.tolist(), strict=True)
    for step, start, end in pairs:
        bounds.setdefault(step, []).append((start, end))
    found: list[Segment] = []
    context = ""
    episode = 0
    columns = laid.steps.select("episode", "before", "shown_observation", "counted_as")
    for place, (number, before, observation, category) in enumerate(columns.iter_rows()):
        if number != episode:
            yield [*found, Segment("\n", loss=False)]
            found, context, episode = [], "", number
        context += before
        if observation is not None:
            found.append(Segment(context, loss=False))
            found += _pieces(observation + "\n", bounds.get(place, []), category)
            context = ""
    yield [*found, Segment("\n", loss=False)]


def _pieces(text: str, spans: Sequence[tuple[int, int]], category: str | None) -> Iterator[Segment]:
    done = 0
    for start, end in spans:
        if start > done:
            yield Segment(text[done:start], loss=False, category=category)
        yield Segment(text[start:end], loss=True, category=category)
        done = end
    if done < len(text):
        yield Segment(text[done:], loss=False, category=category)


def _starts(steps: pl.DataFrame) -> Any:
    lengths = steps["episode"].rle().struct.field("len").to_numpy().astype(np.int64)
    return np.cumsum(lengths) - lengths
