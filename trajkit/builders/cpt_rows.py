"""What continual pre-training rows are made of: blocks of episodes and single turns, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from trajkit import trainers
from trajkit.builders import layouts, packed, render
from trajkit.builders.examples import ExampleWriter, example_schema, shared_values, shown_columns
from trajkit.builders.loss_spans import Spans, loss_spans
from trajkit.builders.mix import CATEGORY, DOMAIN, SingleTurn
from trajkit.builders.packed import Document, TokenRows
from trajkit.domains.templates import CPT_VARIANT
from trajkit.store import StoreWriter
from trajkit.tokens import TextTokenizer, open_tokenizer
from trajkit.trainers import Kind

if TYPE_CHECKING:
    from trajkit.builders.cpt import Options

COLUMNS: dict[Kind, list[pa.Field]] = {
    "text": [
        pa.field("text", pa.large_string()),
        pa.field("loss_spans", pa.list_(pa.list_(pa.int64()))),
    ],
    "messages": [],
    "tokens": packed.COLUMNS,
}
"""Columns of each layout; those of `messages` are the trainer's."""


def _shared(episode: Mapping[str, Any]) -> dict[str, Any]:
    return shared_values(episode, episode.get("first_step"), episode["split_group"])


@cache
def tokenizer_of(spec: str, fast: bool) -> TextTokenizer:
    """Return a tokenizer, opened once in a process."""
    return open_tokenizer(spec, fast=fast)


class Rows:
    """Makes the rows of one part after another and counts them."""

    def __init__(self, writer: StoreWriter, options: Options) -> None:
        self.counts: Counter[str] = Counter()
        self._options = options
        self._trainer = trainers.load(options.trainer or "swift")
        columns = COLUMNS[options.layout] or self._trainer.messages_columns
        self._schema = example_schema(*columns)
        self._examples = ExampleWriter(writer, self._schema, options, options.jsonl)
        self._tokens: TokenRows | None = None
        if options.layout == "tokens":
            tokenizer = tokenizer_of(options.tokenizer, options.fast_tokenizer)
            tokenizer.counts.clear()
            self._tokens = TokenRows(
                self._examples, tokenizer, options.max_tokens, options.packing, self.counts
            )

    def add_block(
        self, split: str, episodes: Sequence[Mapping[str, Any]], steps: pl.DataFrame, seed: int
    ) -> None:
        """Take episodes (with `split_group`) of one split and their steps (with `share`)."""
        if not episodes:
            return
        steps = steps.with_columns(pl.col("episode").rle_id())
        laid = layouts.lay_out(episodes, shown_columns(steps), CPT_VARIANT)
        spans = loss_spans(laid.steps, seed)
        numbers = laid.steps["episode"]
        bear_loss = set(numbers.gather(spans.step).unique())
        if len(bear_loss) < len(episodes):
            # Where pieces are drawn, nothing of an episode may be left.
            self.counts["dropped.no_loss"] += len(episodes) - len(bear_loss)
            left = [episodes[number] for number in sorted(bear_loss)]
            kept = steps.filter(numbers.is_in(list(bear_loss)))
            self.add_block(split, left, kept, seed)
            return
        self.counts["control_tokens"] += laid.n_control_tokens
        self._count(laid.steps, spans, len(episodes))
        if self._tokens is not None:
            for episode, segments in zip(episodes, layouts.segments_of(laid, spans), strict=True):
                shared = _shared(episode)
                document = Document(shared=shared, split=split, segments=segments)
                self._tokens.add(document)
            return
        self.counts["kept"] += len(episodes)
        if self._options.layout == "messages":
            self._add_messages(split, episodes, laid.steps)
        else:
            self._add_texts(split, episodes, laid, spans)

    def add_single(self, row: SingleTurn, *, write: bool) -> int:
        """Take a single turn and return its length; without `write` it is only passed by."""
        n_chars = len(row.context) + len(row.learned)
        split = self._options.side(row.shared["split_group"])
        if not write:
            return n_chars
        if split is None:
            self.counts["dropped.other_pool"] += 1
            return n_chars
        self.counts["chars"] += n_chars
        self.counts["loss_chars"] += len(row.learned)
        self.counts["control_tokens"] += row.n_control_tokens
        kept = f"loss.{DOMAIN}.{CATEGORY}.kept"
        self.counts[f"{kept}.turns"] += 1
        self.counts[f"{kept}.chars"] += len(row.learned)
        if self._tokens is not None:
            context = [layouts.Segment(row.context, loss=False)] if row.context else []
            learned = layouts.Segment(row.learned, loss=True, category=CATEGORY)
            self._tokens.add(Document(shared=row.shared, split=split, segments=[*context, learned]))
            return n_chars
        self.counts["kept"] += 1
        if self._options.layout == "messages":
            assert self._trainer.messages is not None
            columns = self._trainer.messages(row.messages)
        else:
            span = [len(row.context), n_chars]
            columns = {"text": row.context + row.learned, "loss_spans": [span]}
        self._examples.add_to(split, row.shared | columns)
        return n_chars

    def write(self, part: str) -> Counter[str]:
        """Return the counts of a part after writing it, and begin the next one."""
        if self._tokens is not None:
            self._tokens.flush()
            of_tokenizer = self._tokens.tokenizer.counts
            for name in ("control_tokens", "replaced_bytes", "unknown_tokens"):
                self.counts[name] += of_tokenizer.pop(name, 0)
        counts = self.counts + self._examples.write(part)
        self.counts.clear()
        return counts

    def _add_texts(
        self,
        split: str,
        episodes: Sequence[Mapping[str, Any]],
        laid: layouts.LaidOut,
        spans: Spans,
    ) -> None:
        shared = [_shared(episode) for episode in episodes]
        table = pa.table(
            [
                *(
                    pa.array([row[name] for row in shared], self._schema.field(name).type)
                    for name in shared[0]
                ),
                layouts.texts_of(laid),
                layouts.span_lists(laid, spans),
            ],
            schema=self._schema,
        )
        self._examples.add_table(split, table)

    def _add_messages(
        self, split: str, episodes: Sequence[Mapping[str, Any]], steps: pl.DataFrame
    ) -> None:
        assert self._trainer.messages is not None
        steps = steps.with_columns(loss=pl.col("share") > 0)
        grouped = groupby(steps.iter_rows(named=True), key=itemgetter("episode"))
        for episode, (_, group) in zip(episodes, grouped, strict=True):
            rendered = render.render(episode, list(group), CPT_VARIANT)
            row = _shared(episode)
            row |= self._trainer.messages(render.chat(rendered))
            self._examples.add_to(split, row)

    def _count(self, steps: pl.DataFrame, spans: Spans, n_episodes: int) -> None:
        """Count characters and turns, kept and masked, by domain and category."""
        in_loss = pl.Series(spans.n_chars(steps.height))
        self.counts["loss_chars"] += int(in_loss.sum())
        n_before = int(steps["before"].str.len_chars().sum())
        self.counts["chars"] += n_before + int(steps["n_chars"].sum()) + n_episodes
        counted = (
            steps.select("domain", "counted_as", "n_chars", in_loss=in_loss)
            .filter(pl.col("n_chars") > 0)
            .group_by("domain", "counted_as")
            .agg(
                pl.col("in_loss").sum(),
                pl.col("n_chars").sum(),
                kept=(pl.col("in_loss") > 0).sum(),
                turns=pl.len(),
            )
        )
        for domain, category, in_loss, n_chars, kept, turns in counted.iter_rows():
            name = f"loss.{domain}.{category}"
            self.counts[f"{name}.kept.turns"] += kept
            self.counts[f"{name}.kept.chars"] += in_loss
            self.counts[f"{name}.masked.turns"] += turns - kept
            self.counts[f"{name}.masked.chars"] += n_chars - in_loss
