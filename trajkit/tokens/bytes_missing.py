"""Replace, in sight, the characters that a byte-level vocabulary would drop without a word."""

from __future__ import annotations

import re
from collections.abc import Iterator

_PICTURES = 0x2400
"""U+2400 + n is the visible sign of the control character n."""
_DELETE, _PICTURE_OF_DELETE = 0x7F, "\u2421"
_REPLACEMENT = "\ufffd"
_LAST = 0x10FFFF


class MissingBytes:
    """What to do with characters one of whose UTF-8 bytes has no symbol in the vocabulary.

    Control characters become their pictures (U+0004 becomes U+2404), all others U+FFFD.
    """

    def __init__(self, missing: frozenset[int]) -> None:
        """Take the bytes that the vocabulary lacks; raise ValueError when no sign is left."""
        ranges = list(_characters_with(missing))
        for sign in sorted({_sign(chr(first)) for first, _ in ranges}):
            if missing.intersection(sign.encode()):
                raise ValueError(f"U+{ord(sign):04X}")
        characters = "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)
        self._missing = bytes(sorted(missing))
        self._found = re.compile(f"[{characters}]") if ranges else None

    def replaced(self, text: str) -> tuple[str, int]:
        """Return the text without such characters, and how many bytes were replaced."""
        # Taking bytes out is a thousandth of the time of searching for characters by range.
        raw = text.encode()
        if self._found is None or len(raw.translate(None, self._missing)) == len(raw):
            return text, 0
        n_bytes = sum(len(found.encode()) for found in self._found.findall(text))
        return self._found.sub(lambda found: _sign(found.group()), text), n_bytes


def missing_bytes(symbols: dict[str, int]) -> frozenset[int]:
    """Return the bytes that have no symbol in a byte-level vocabulary.

    Such a vocabulary writes a byte as a printable character: itself, or U+0100 and up in order for
    the rest. Source: GPT-2's encoder.

    >>> sorted(missing_bytes({chr(n): n for n in range(33, 127)}))[:3]
    [0, 1, 2]
    """
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = [byte for byte in range(256) if byte not in printable]
    written = {byte: chr(byte) for byte in printable}
    written.update({byte: chr(0x100 + place) for place, byte in enumerate(others)})
    return frozenset(byte for byte, symbol in written.items() if symbol not in symbols)


def _characters_with(missing: frozenset[int]) -> Iterator[tuple[int, int]]:
    """Give the ranges of code points one of whose UTF-8 bytes is among `missing`."""
    # 64 characters share all bytes but the last.
    for block in range(0, _LAST + 1, 64):
        if 0xD800 <= block <= 0xDFFF:
            continue
        if block < 128:
            yield from ((n, n) for n in range(block, block + 64) if n in missing)
        elif missing.intersection(chr(block).encode()[:-1]):
            yield block, block + 63
        else:
            yield from ((n, n) for n in range(block, block + 64) if chr(n).encode()[-1] in missing)


def _sign(character: str) -> str:
    if ord(character) == _DELETE:
        return _PICTURE_OF_DELETE
    return chr(_PICTURES + ord(character)) if ord(character) < 32 else _REPLACEMENT
