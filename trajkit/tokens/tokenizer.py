"""A tokenizer for text of logs: whatever a text says, its ids mean text.

Three guarantees stand behind `encode`. No id of a token with a meaning (a turn boundary, a tag of
a chat template) comes from the text: such a string is broken up with an invisible character as
`trajkit.control_tokens` does it, and the ids are looked at afterwards. No byte vanishes: what the
vocabulary lacks is replaced in sight and counted. Nothing is cut, padded or left to chance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from trajkit.control_tokens import BREAK
from trajkit.errors import TrajkitError, quote
from trajkit.tokens.breaking import Breaker
from trajkit.tokens.bytes_missing import MissingBytes, missing_bytes
from trajkit.tokens.ids import ExactIds, Ids

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_MAX_REPAIRS = 8
"""Breaking one token may lay bare another inside it; deeper than this none was seen to hide."""
_SHOWN = ("{}", " {} ", "x{}x", "\n{}\n")
"""How a token is shown to a vocabulary to see whether it takes the text for it."""
_HTML_NAMES = (
    "a b bbox blockquote body br caption code div em footer h1 h2 h3 h4 h5 h6 head header hr html "
    "i iframe img li ol p pre span strong sub sup table tbody td tfoot th thead title tr u ul"
)
_HTML = frozenset(_HTML_NAMES.split())
"""Elements that some vocabularies (Gemma's) list as whole words: text, not structure."""


class TextTokenizer:
    """A tokenizer whose ids of log text are ids of text."""

    def __init__(
        self,
        backend: Tokenizer,
        *,
        name: str,
        end_id: int | None,
        ids: Callable[[list[str]], list[Ids]] | None = None,
    ) -> None:
        """Take a tokenizer of the library `tokenizers`; raise when a guarantee cannot be given.

        `ids` is another way to the same ids.
        """
        self.name = name
        """For manifests: no path, but a hash, so that equal names mean equal ids."""
        self.end_id = end_id
        """What ends a document, where the tokenizer's configuration names it."""
        self.n_vocab = 1 + max(backend.get_vocab(with_added_tokens=True).values(), default=0)
        """Every id is below this."""
        self.counts: Counter[str] = Counter()
        """Over all calls: `control_tokens` broken up, `replaced_bytes`, `unknown_tokens`."""
        self._backend = backend
        self._ids = ids or ExactIds(backend)
        self._unknown_id = _unknown_id(backend)
        structure = structure_tokens(backend)
        self._is_structure = np.zeros(self.n_vocab, dtype=bool)
        self._is_structure[list(structure.values())] = True
        if self._unknown_id is not None:
            # It also stands for characters that the vocabulary lacks: counted, not forbidden.
            self._is_structure[self._unknown_id] = False
        self._breaker = Breaker(structure)
        self._missing = _missing(backend, name)
        self.encode([shown.format(token) for token in structure for shown in _SHOWN])
        self.counts.clear()

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        """Return the ids of each text, with no token added before or after."""
        prepared = [self._prepared(text, self.counts) for text in texts]
        arrays = self._ids(prepared)
        for place, ids in enumerate(arrays):
            if self._is_structure[ids].any():
                (arrays[place],) = self._ids([self._repaired(prepared[place])])
            if self._unknown_id is not None:
                self.counts["unknown_tokens"] += int((arrays[place] == self._unknown_id).sum())
        return arrays

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return how many tokens each text has."""
        return [len(ids) for ids in self.encode(texts)]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids: what `prepare` gave, unless a normalizer changed it."""
        return str(self._backend.decode(list(map(int, ids)), skip_special_tokens=False))

    def prepare(self, text: str) -> str:
        """Return the text as `encode` hands it over: own tokens broken, missing bytes replaced."""
        return self._prepared(text, Counter())

    def restore(self, text: str) -> str:
        """Return a prepared text with the tokens whole that only this vocabulary has.

        What `control_tokens.escape` knows is left to its `unescape`.
        """
        return self._breaker.whole(text)

    def _prepared(self, text: str, counts: Counter[str]) -> str:
        text, n_replaced = self._missing.replaced(text)
        text, n_broken = self._breaker.broken(text)
        counts["replaced_bytes"] += n_replaced
        counts["control_tokens"] += n_broken
        return text

    def _repaired(self, text: str) -> str:
        """Return a text whose look-alikes are broken too: what only a normalizer makes a token."""
        spans: list[tuple[int, int]] = []
        for _ in range(_MAX_REPAIRS):
            encoding = self._backend.encode(text, add_special_tokens=False)
            spans = [
                span
                for id_, span in zip(encoding.ids, encoding.offsets, strict=True)
                if self._is_structure[id_]
            ]
            if not spans:
                return text
            for start, end in reversed(spans):
                # A token may have swallowed the blanks before it.
                blanks = len(text[start:end]) - len(text[start:end].lstrip())
                place = start + blanks + 1
                text = text[:place] + BREAK + text[place:]
            self.counts["control_tokens"] += len(spans)
        (start, end) = spans[0]
        raise TrajkitError(
            self.name,
            f"reads {quote(text[start : end + 1])} as a control token, however it is broken up",
            "take another tokenizer: text of logs could steer this one",
        )


def structure_tokens(backend: Tokenizer) -> Mapping[str, int]:
    """Return the added tokens that are more than text, with their ids.

    Special ones are; of the others, blanks and plain HTML elements are words of a vocabulary.
    """
    found: dict[str, int] = {}
    for id_, token in backend.get_added_tokens_decoder().items():
        content = token.content
        is_word = not content.replace("▁", " ").strip() or (
            content.startswith("<") and content.strip("</>") in _HTML
        )
        if token.special or not is_word:
            found[content] = id_
    return found


def _unknown_id(backend: Tokenizer) -> int | None:
    """Return the id of characters that the vocabulary lacks; null for one that takes all."""
    unknown = getattr(backend.model, "unk_token", None)
    return None if unknown is None else backend.token_to_id(unknown)


def _missing(backend: Tokenizer, name: str) -> MissingBytes:
    """Return what to do with bytes that the vocabulary lacks; raise when nothing can be done."""
    vocabulary = backend.get_vocab(with_added_tokens=False)
    if getattr(backend.model, "byte_fallback", False):
        missing = frozenset(byte for byte in range(256) if f"<0x{byte:02X}>" not in vocabulary)
    elif _is_byte_level(backend):
        missing = missing_bytes(vocabulary)
    else:
        missing = frozenset()
    try:
        return MissingBytes(missing)
    except ValueError as error:
        raise TrajkitError(
            name,
            f"lacks bytes of {error}, the sign for characters that it lacks",
            "take another tokenizer: text would vanish in this one",
        ) from None


def _is_byte_level(backend: Tokenizer) -> bool:
    return "ByteLevel" in f"{backend.pre_tokenizer!r} {backend.decoder!r}"
