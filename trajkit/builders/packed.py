"""Token rows: documents as ids and labels, packed into windows.

Labels are -100 outside the loss and on the first token of each document, which nothing before it
predicts. The end token of a document bears loss where the document's last character does: an
episode ends because an agent stopped, not because the environment said so, and its row ends with
context; a text ends because it is complete.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajkit.builders.examples import ExampleWriter
from trajkit.builders.layouts import Segment
from trajkit.tokens import TextTokenizer, pack

PACKINGS = ("best-fit", "none")
NO_LOSS = -100
_IDS = pa.list_(pa.int32())
COLUMNS = [
    *(pa.field(name, _IDS) for name in ("input_ids", "labels", "position_ids", "seq_lengths")),
    pa.field("trajectory_ids", pa.list_(pa.string())),
]
_CHARS_AT_A_TIME = 1 << 20
_TOKENS_AT_A_TIME = 1 << 22
_WINDOWS_AT_A_TIME = 32

Ids = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A whole episode or text before it is tokenised."""

    shared: dict[str, Any]
    """The columns that every row carries."""
    split: str
    segments: Sequence[Segment]


@dataclass(frozen=True, slots=True)
class _Window:
    """A document, or a piece of one longer than a window."""

    shared: dict[str, Any]
    ids: Ids
    labels: Ids


@dataclass
class TokenRows:
    """Takes documents and writes packed rows; holds a few million tokens of each split."""

    examples: ExampleWriter
    tokenizer: TextTokenizer
    max_tokens: int
    packing: str
    counts: Counter[str]
    """Gets `kept`, `dropped.no_trainable_token`, `tokens`, `cut_documents` and so on."""
    _waiting: list[Document] = field(default_factory=list)
    _n_chars: int = 0
    _windows: dict[str, list[_Window]] = field(default_factory=dict)
    _n_tokens: Counter[str] = field(default_factory=Counter)

    def add(self, document: Document) -> None:
        """Take one document; the order of documents decides how they are packed."""
        self._waiting.append(document)
        self._n_chars += sum(len(segment.text) for segment in document.segments)
        if self._n_chars >= _CHARS_AT_A_TIME:
            self._tokenise()

    def flush(self) -> None:
        """Write what is left."""
        self._tokenise()
        for split in sorted(self._windows):
            self._pack(split)

    def _tokenise(self) -> None:
        # What is waiting is tokenised in one call, so that the tokenizer can use its threads.
        encoded = iter(
            self.tokenizer.encode([s.text for document in self._waiting for s in document.segments])
        )
        for document in self._waiting:
            ids = [next(encoded) for _ in document.segments]
            labels = [
                part if segment.loss else np.full_like(part, NO_LOSS)
                for part, segment in zip(ids, document.segments, strict=True)
            ]
            if self.tokenizer.end_id is not None:
                end = np.array([self.tokenizer.end_id], dtype=np.int32)
                ids.append(end)
                labels.append(end if document.segments[-1].loss else np.full_like(end, NO_LOSS))
            windows = self._cut(document, np.concatenate(ids), np.concatenate(labels))
            if not windows:
                self.counts["dropped.no_trainable_token"] += 1
                continue
            self.counts["kept"] += 1
            for segment, part in zip(document.segments, ids, strict=False):
                if segment.category is not None:
                    kept = "kept" if segment.loss else "masked"
                    domain = document.shared["domain"]
                    self.counts[f"loss.{domain}.{segment.category}.{kept}.tokens"] += len(part)
            self._windows.setdefault(document.split, []).extend(windows)
            self._n_tokens[document.split] += sum(len(window.ids) for window in windows)
            enough = max(_TOKENS_AT_A_TIME, _WINDOWS_AT_A_TIME * self.max_tokens)
            if self._n_tokens[document.split] >= enough:
                self._pack(document.split)
        self._waiting.clear()
        self._n_chars = 0

    def _cut(self, document: Document, ids: Ids, labels: Ids) -> list[_Window]:
        """Return the windows of a document that have something to learn.

        The pieces of a long one overlap by a token, so that the first token of a piece, which
        nothing predicts there, is learned in the piece before.
        """
        windows: list[_Window] = []
        if not len(ids):
            return windows
        last_start = max(len(ids) - 1, 1)
        for start in range(0, last_start, self.max_tokens - 1):
            stop = start + self.max_tokens
            window = _Window(document.shared, ids[start:stop], labels[start:stop].copy())
            window.labels[0] = NO_LOSS
            if (window.labels != NO_LOSS).any():
                windows.append(window)
            else:
                self.counts["windows_without_loss"] += len(ids) > self.max_tokens
        self.counts["cut_documents"] += len(ids) > self.max_tokens
        return windows

    def _pack(self, split: str) -> None:
        windows = self._windows.pop(split)
        del self._n_tokens[split]
        if self.packing == "none":
            bins = [[place] for place in range(len(windows))]
        else:
            bins = pack([len(window.ids) for window in windows], self.max_tokens)
        for places in bins:
            row = _row([windows[place] for place in places])
            self.counts["rows"] += 1
            self.counts["tokens"] += len(row["input_ids"])
            self.counts["loss_tokens"] += int((row["labels"] != NO_LOSS).sum())
            self.examples.add_to(split, row)


def _row(windows: Sequence[_Window]) -> dict[str, Any]:
    lengths = [len(window.ids) for window in windows]
    # A row of several documents has the values that they have in common.
    shared = {
        name: value if all(w.shared[name] == value for w in windows) else None
        for name, value in windows[0].shared.items()
    }
    return shared | {
        "input_ids": np.concatenate([window.ids for window in windows]),
        "labels": np.concatenate([window.labels for window in windows]),
        "position_ids": np.concatenate([np.arange(n, dtype=np.int32) for n in lengths]),
        "seq_lengths": np.array(lengths, dtype=np.int32),
        "trajectory_ids": [window.shared["trajectory_id"] for window in windows],
    }
