"""Read one huge JSON array element by element, in memory that only the largest element decides."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

MAX_ELEMENT_CHARS = 64 << 20
_BLOCK_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Element:
    """The bytes of one element, or of what is none with a reason and a message."""

    raw: bytes
    fault: tuple[str, str] | None = None


def elements(head: bytes, stream: BinaryIO) -> Iterator[Element]:
    """Give the elements of an array whose first bytes were read already.

    A fault ends the array: after it no comma is sure to stand between two elements. What could not
    be read is one element with its fault.

    >>> import io
    >>> [element.raw for element in elements(b'[{"a": 1}', io.BytesIO(b', "b"]'))]
    [b'{"a": 1}', b'"b"']
    """
    text = _Text(head, stream)
    text.skip("[", n_times=1)
    while True:
        text.skip(",")
        if text.at_end():
            yield Element(b"", ("truncated_document", "the array is not closed"))
            return
        if text.buffer[text.position] == "]":
            text.position += 1
            text.skip("")
            if not text.at_end():
                message = "there is more after the end of the array"
                yield Element(text.rest(), ("invalid_json", message))
            return
        raw = text.value()
        if raw is None:
            reason = "truncated_document" if text.ended else "invalid_json"
            yield Element(text.rest(), (reason, "the array cannot be read from here on"))
            return
        yield Element(raw)


class _Text:
    """A window on the text of a stream."""

    def __init__(self, head: bytes, stream: BinaryIO) -> None:
        self._stream = stream
        self._codec = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._decoder = json.JSONDecoder()
        self.buffer = self._codec.decode(head)
        self.position = 0
        self.ended = False

    def _more(self) -> bool:
        """Read as much again as is held, so that a long element is tried few times."""
        if self.ended:
            return False
        self.buffer = self.buffer[self.position :]
        self.position = 0
        block = self._stream.read(max(_BLOCK_BYTES, len(self.buffer)))
        self.ended = not block
        self.buffer += self._codec.decode(block, final=self.ended)
        return True

    def at_end(self) -> bool:
        """Return whether nothing is left."""
        while self.position >= len(self.buffer):
            if not self._more():
                return True
        return False

    def skip(self, also: str, *, n_times: int = 1 << 30) -> None:
        """Pass over white space, and up to so many of another character."""
        while not self.at_end():
            character = self.buffer[self.position]
            if character == also and n_times:
                n_times -= 1
            elif character not in " \t\r\n\x00":
                return
            self.position += 1

    def value(self) -> bytes | None:
        """Return the bytes of the value that begins here, and step behind it."""
        while True:
            try:
                _, end = self._decoder.raw_decode(self.buffer, self.position)
            except (ValueError, RecursionError):
                end = len(self.buffer)
                whole = False
            else:
                # A number at the very end may go on.
                whole = end < len(self.buffer) or self.ended
            if whole:
                raw = self.buffer[self.position : end].encode("utf-8", "surrogateescape")
                self.position = end
                return raw
            too_long = len(self.buffer) - self.position > MAX_ELEMENT_CHARS
            if too_long or not self._more():
                return None

    def rest(self) -> bytes:
        """Return the start of what is left, for a person to look at."""
        left = self.buffer[self.position : self.position + (1 << 16)]
        return left.encode("utf-8", "surrogateescape")
