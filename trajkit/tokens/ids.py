"""Ids of texts: those of `tokenizers`, and those of `fastokens` where they are the same."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from trajkit.errors import TrajkitError, quote

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Ids = np.ndarray[Any, np.dtype[np.int32]]
CHECKED_FIRST_BYTES = 2_000_000
"""Every text is checked until so much of a run has been."""
CHECKED_EVERY = 50
"""After that, one call in so many."""
_OPTION = "--fast-tokenizer"
# What splitting rules treat apart: contractions and their look-alikes under case folding, blanks of
# all kinds, digits, marks that join, signs, and letters with and without case.
_FRAGMENTS = (
    *("a", "Ab", "don't", "'S", "'ſ", "'ll", "'LL", "'ſa", "1", "23", "456", "٣", "½", "Ⅷ"),
    *(" ", "  ", "\n", "\r\n", "\n\n ", "\t", "\v", "\x1c", "\x85", "\xa0", "\u2028", "\u3000"),
    *("e\u0301", "İ", "ß", "ǅ", "中文", "ก็", "한", "\u1112\u1161", "👩\u200d👩\ufe0f", "🇩🇪"),
    *("_", "--", "/", "<", "|>", "\u200b", "\ufeff", "\x00", "\x7f", "\ue000", "\U0001f9e0"),
)
_SEEN_TO_DIFFER = ["a'ſ'LLast", "ก'ſ'LLast"]  # with the vocabulary of gpt-oss
PROBES = (
    _SEEN_TO_DIFFER
    + [left + middle + right for left, middle, right in product(_FRAGMENTS, repeat=3)][::23]
)
"""Texts on which two readings of one vocabulary are likely to differ; one in 23, to be quick."""


class ExactIds:
    """Ids as `tokenizers` gives them, no token added before or after."""

    def __init__(self, backend: Tokenizer) -> None:
        """Take the vocabulary."""
        self._backend = backend

    def __call__(self, texts: list[str]) -> list[Ids]:
        """Return the ids of each text."""
        encodings = self._backend.encode_batch_fast(texts, add_special_tokens=False)
        return [np.array(encoding.ids, dtype=np.int32) for encoding in encodings]


class FastIds:
    """Ids from `fastokens`, which stops at the first that is not that of `tokenizers`.

    It reads vocabularies about fifty times as quickly, but not all of them in the same way. So the
    first texts and one call in `CHECKED_EVERY` are read twice.
    """

    def __init__(self, backend: Tokenizer, name: str) -> None:
        """Take the vocabulary and its name for errors."""
        try:
            from fastokens import Tokenizer as FastTokenizer
        except ImportError:
            raise TrajkitError(
                _OPTION, "the package fastokens is not installed", "pip install 'trajkit[tokens]'"
            ) from None
        self._exact = ExactIds(backend)
        self._name = name
        try:
            self._fast = FastTokenizer.from_json_str(backend.to_str())
        except ValueError as error:
            raise TrajkitError(
                name, f"is not for fastokens: {quote(str(error))}", f"leave {_OPTION} out"
            ) from error
        self._n_checked_bytes = 0
        self._n_calls = 0

    def __call__(self, texts: list[str]) -> list[Ids]:
        """Return the ids of each text; raise when those that were checked differ."""
        if not texts:
            return []
        flat, bounds = self._fast.encode_batch_flat(texts, add_special_tokens=False)
        starts = np.frombuffer(bounds, dtype=np.uint64).astype(np.int64)
        arrays = np.split(np.frombuffer(flat, dtype=np.uint32).astype(np.int32), starts[1:-1])
        is_checked = (
            self._n_checked_bytes < CHECKED_FIRST_BYTES or self._n_calls % CHECKED_EVERY == 0
        )
        self._n_calls += 1
        if is_checked:
            self._n_checked_bytes += sum(len(text.encode()) for text in texts)
            for text, ids, exact in zip(texts, arrays, self._exact(texts), strict=True):
                if not np.array_equal(ids, exact):
                    raise TrajkitError(
                        self._name,
                        f"fastokens and tokenizers disagree on {quote(text)}",
                        f"leave {_OPTION} out, and write this output anew",
                    )
        return arrays
