"""Turn files into decoded values, and account for every byte that could not be decoded.

Files are cut at byte 0x0A and nowhere else: U+2028 and its kin are ordinary characters inside
JSON strings. What JSON cannot hold (lone surrogates, NaN, invalid UTF-8) is mended in one stated
way and counted; what cannot be mended becomes a `Reject` with its place.
"""

from __future__ import annotations

import codecs
import io
import itertools
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal, cast

import orjson

from trajkit.archives import Archive, ArchiveError, open_archive
from trajkit.inputs import InputFile
from trajkit.json_arrays import elements
from trajkit.json_text import DuplicateKeyError, decode, ends_early, split_glued
from trajkit.model import Bundle, Origin, Reject
from trajkit.streams import open_decompressed, parquet_rows, refusal

MAX_RECORD_CHARS = 64_000
MAX_TEXT_BYTES = 256 << 20
LARGE_ARRAY_BYTES = 32 << 20
_SNIFF_BYTES = 4096
_SNIFF_LINES = 20


@dataclass(slots=True)
class Value:
    """One decoded value and the 1-based line it began on (null for a whole document)."""

    value: Any
    line: int | None


class FileReader:
    """Decodes one file; gathers rejects and repairs on the way. Iterating gives `Value`s in order.

    `kind` says what they are once the first came: one JSON `document`, JSON `lines`, the
    `elements` of an array (or rows of a table) too large to hold, the `text` of a file that is no
    JSON, or an `archive` as a `Bundle`.
    """

    def __init__(self, file: InputFile, data: bytes | None = None) -> None:
        self.file = file
        self.rejects: list[Reject] = []
        self.repairs: Counter[str] = Counter()
        self.kind: Literal["document", "lines", "elements", "text", "archive"] = "lines"
        self._data = data

    @property
    def is_document(self) -> bool:
        """Return whether the file is one JSON document."""
        return self.kind == "document"

    def __iter__(self) -> Iterator[Value]:
        try:
            yield from self._values()
        except (OSError, EOFError) as error:
            # zstandard and gzip raise these for torn archives; what came before is kept.
            self._reject(None, "unreadable_file", f"{type(error).__name__}: {error}", None)

    def content(self) -> Any:
        """Return the whole file: a document or text, or a list of lines; null if there is none."""
        values = [value.value for value in self]
        if self.kind in ("lines", "elements"):
            return values or None
        return values[0] if values else None

    def take_rejects(self) -> list[Reject]:
        """Return the rejects since the last time, and forget them."""
        taken, self.rejects = self.rejects, []
        return taken

    def _reject(self, line: int | None, reason: str, message: str, raw: bytes | None) -> None:
        text = None if raw is None else raw.decode("utf-8", "replace").replace("\x00", "\ufffd")
        self.rejects.append(
            Reject(
                origin=Origin(path=self.file.origin_path, line=line),
                reason=reason,
                message=message,
                record=None if text is None else text[:MAX_RECORD_CHARS],
                n_record_chars=None if text is None else len(text),
            )
        )

    def _values(self) -> Iterator[Value]:
        if self.file.size_bytes == 0:
            self._reject(None, "empty_file", "the file is empty", None)
            return
        with self._open() as stream:
            head = stream.peek(_SNIFF_BYTES)[:_SNIFF_BYTES]
            if head.startswith(b"PK\x03\x04") and self._data is None:
                yield from self._archive()
                return
            if head.startswith(b"PAR1") and self._data is None:
                self.kind = "elements"
                yield from (Value(row, None) for row in parquet_rows(self.file.path))
                return
            refused = refusal(head)
            if refused is not None:
                self._reject(None, *refused, head[:200])
                return
            source: BinaryIO = cast(BinaryIO, stream)
            if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                self.repairs["utf16"] += 1
                text = stream.read().decode("utf-16", "replace")
                source = io.BytesIO(text.encode("utf-8", "replace"))
                head = text[:_SNIFF_BYTES].encode("utf-8", "replace")
            elif head.startswith(codecs.BOM_UTF8):
                self.repairs["byte_order_mark"] += 1
                stream.read(len(codecs.BOM_UTF8))
                head = head.removeprefix(codecs.BOM_UTF8)
            first = head.lstrip(b"\x00 \t\r\n")[:1]
            if first not in (b"{", b"[", b"") and not _is_lines_name(self.file.origin_path):
                yield from self._text(source)
            elif _is_text_name(self.file.origin_path):
                yield from self._text_or_json(source)
            elif first == b"[":
                yield from self._array(source)
            elif head.lstrip().partition(b"\n")[0].strip() == b"{":
                yield from self._printed(source)
            else:
                yield from self._split(source)

    def _open(self) -> Any:
        if self._data is not None:
            return nullcontext(io.BufferedReader(cast(io.RawIOBase, io.BytesIO(self._data))))
        return open_decompressed(self.file.path)

    def _archive(self) -> Iterator[Value]:
        try:
            archive = open_archive(self.file.path)
        except ArchiveError as error:
            self._reject(None, error.reason, error.message, None)
            return
        self.kind = "archive"
        yield Value(Bundle(_Members(self, archive)), None)

    def _text(self, stream: BinaryIO) -> Iterator[Value]:
        raw = stream.read(MAX_TEXT_BYTES + 1)
        if len(raw) > MAX_TEXT_BYTES:
            self._reject(None, "text_too_large", "text, no JSON, of more than 256 MiB", raw[:200])
            return
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError:
            text = raw.decode("utf-8", "replace")
            self.repairs["invalid_utf8"] += 1
        self.kind = "text"
        yield Value(text, None)

    def _text_or_json(self, stream: BinaryIO) -> Iterator[Value]:
        """Read a file named as text that begins like JSON: a screen or a list of keys may."""
        raw = stream.read(MAX_TEXT_BYTES + 1)
        lines = [line for line in raw.split(b"\n", _SNIFF_LINES) if line.strip()][:2]
        try:
            is_json = all(map(_stands_alone, lines)) or decode(raw, Counter()) is not None
        except DuplicateKeyError:
            is_json = True
        except ValueError:
            is_json = False
        yield from (self._split if is_json else self._text)(io.BytesIO(raw))

    def _printed(self, stream: BinaryIO) -> Iterator[Value]:
        """Try a document that is printed over many lines as a whole, before looking for lines."""
        whole = stream.read(MAX_TEXT_BYTES)
        try:
            value = self._decode(whole)
        except ValueError:
            yield from self._split(itertools.chain(_lines(whole, stream), stream))
        else:
            self.kind = "document"
            yield Value(value, None)

    def _array(self, stream: BinaryIO) -> Iterator[Value]:
        """Hold a small array whole; give a large one element by element."""
        block = stream.read(LARGE_ARRAY_BYTES)
        rest = stream.peek(1) if isinstance(stream, io.BufferedReader) else b""
        line, _, _ = block.partition(b"\n")
        if not rest:
            yield from self._split(io.BytesIO(block))
        elif len(line) < len(block) and _stands_alone(line, b"["):
            yield from self._split(itertools.chain(_lines(block, stream), stream))
        else:
            self.kind = "elements"
            for piece in elements(block, stream):
                if piece.fault is not None:
                    self._reject(None, *piece.fault, piece.raw)
                else:
                    yield from self._piece(piece.raw, None)

    def _split(self, lines: Iterable[bytes]) -> Iterator[Value]:
        """Tell a document from JSON lines by whether the first line stands alone."""
        numbered = ((number, raw) for number, raw in enumerate(lines, 1) if not raw.isspace())
        first = next(numbered, None)
        if first is None:
            self._reject(None, "empty_file", "the file holds only white space", None)
            return
        try:
            value = self._decode(first[1])
        except ValueError:
            yield from self._after_a_broken_line(first, numbered)
            return
        try:
            second = next(numbered, None)
        except (OSError, EOFError):
            yield Value(value, first[0])
            raise
        if second is None:
            named_lines = _is_lines_name(self.file.origin_path)
            if isinstance(value, list) or not named_lines:
                self.kind = "document"
            yield Value(value, None if self.is_document else first[0])
            return
        yield Value(value, first[0])
        for number, raw in itertools.chain([second], numbered):
            try:
                value = decode(raw, self.repairs)
            except ValueError:
                yield from self._line(raw, number)
            else:
                yield Value(value, number)

    def _after_a_broken_line(
        self, first: tuple[int, bytes], numbered: Iterator[tuple[int, bytes]]
    ) -> Iterator[Value]:
        """Read on after a first line that is no value: torn, or the opening of a document.

        A document that is printed over many lines opens with a short one. After a long line, one
        line that stands alone tells JSON lines.
        """
        head = [first, *itertools.islice(numbered, _SNIFF_LINES)]
        opening = first[1].strip()
        alone = any(_stands_alone(raw) for _, raw in head)
        torn = len(head) == 1 and _is_lines_name(self.file.origin_path)
        if (alone and len(opening) > 2) or torn:
            for number, raw in itertools.chain(head, numbered):
                yield from self._line(raw, number)
            return
        rest = [*head, *numbered]
        whole = b"".join(raw for _, raw in rest)
        try:
            document = self._decode(whole)
        except DuplicateKeyError as error:
            self._reject(None, "duplicate_key", str(error), whole)
        except ValueError as error:
            yield from self._no_document(rest, whole, str(error))
        else:
            self.kind = "document"
            yield Value(document, None)

    def _no_document(
        self, rest: list[tuple[int, bytes]], whole: bytes, message: str
    ) -> Iterator[Value]:
        """Read lines when some stand alone, else documents that follow one another."""
        if any(_stands_alone(raw) for _, raw in rest[: _SNIFF_LINES + 1]):
            for number, raw in rest:
                yield from self._line(raw, number)
            return
        pieces, leftovers = split_glued(whole)
        if whole.lstrip()[:1] not in (b"{", b"["):
            self._reject(None, "not_json", f"no JSON ({message})", whole)
        elif not pieces:
            slug = "truncated_document" if ends_early(whole) else "invalid_json"
            self._reject(None, slug, f"not one JSON document ({message}) nor lines", whole)
        else:
            place = 0
            ends = list(itertools.accumulate(len(raw) for _, raw in rest))
            for piece in pieces:
                place = whole.index(piece, place)
                yield from self._piece(piece, rest[bisect_right(ends, place)][0])
                place += len(piece)
            for leftover in leftovers:
                self._reject(None, "invalid_json", f"not JSON: {message}", leftover)

    def _line(self, raw: bytes, line_number: int) -> Iterator[Value]:
        """Give the value of a line; whole objects out of a line that was torn or glued."""
        if b"\x00" in raw:
            # What a crash leaves of a block that was allocated and never written.
            self.repairs["nul_run"] += 1
            for part in filter(bytes.strip, re.split(b"\x00+", raw)):
                yield from self._line(part, line_number)
            return
        try:
            yield Value(self._decode(raw), line_number)
            return
        except DuplicateKeyError as error:
            self._reject(line_number, "duplicate_key", str(error), raw)
            return
        except ValueError as error:
            message = str(error)
        pieces, leftovers = split_glued(raw)
        for piece in pieces:
            yield from self._piece(piece, line_number)
        for leftover in leftovers:
            torn_tail = not raw.endswith(b"\n") and raw.rstrip().endswith(leftover)
            reason = "truncated_line" if torn_tail else "invalid_json"
            self._reject(line_number, reason, f"not JSON: {message}", leftover)

    def _piece(self, raw: bytes, line: int | None) -> Iterator[Value]:
        try:
            yield Value(self._decode(raw), line)
        except DuplicateKeyError as error:
            self._reject(line, "duplicate_key", str(error), raw)
        except ValueError as error:
            self._reject(line, "invalid_json", f"not JSON: {error}", raw)

    def _decode(self, raw: bytes) -> Any:
        return decode(raw, self.repairs)


class _Members(Mapping[str, Any]):
    """The members of an archive, decoded at each look-up: an archive may be far larger than memory.

    What cannot be decoded is counted once, at the reader of the archive.
    """

    def __init__(self, reader: FileReader, archive: Archive) -> None:
        self._reader = reader
        self._archive = archive
        self._names = dict.fromkeys(archive.names(), False)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, name: str) -> Any:
        file = self._reader.file
        seen = self._names[name]
        self._names[name] = True
        try:
            data = self._archive.read(name)
        except ArchiveError as error:
            if not seen:
                self._reader._reject(None, error.reason, f"{name}: {error.message}", None)
            return None
        inside = InputFile(file.path, f"{file.origin_path}/{name}", len(data))
        reader = FileReader(inside, data)
        content = reader.content()
        if not seen:
            self._reader.repairs.update(reader.repairs)
            self._reader.rejects.extend(reader.rejects)
        return content


def _lines(block: bytes, stream: BinaryIO) -> list[bytes]:
    """Return the lines of a block, the last one read to its end."""
    lines = io.BytesIO(block).readlines()
    if not lines[-1].endswith(b"\n"):
        lines[-1] += stream.readline()
    return lines


def _is_text_name(name: str) -> bool:
    return re.search(r"\.(txt|log|md|html?|xml)(\.(gz|zst))?$", name) is not None


def _is_lines_name(name: str) -> bool:
    return re.search(r"\.(jsonl|ndjson)(\.(gz|zst))?$", name) is not None


def _stands_alone(line: bytes, opening: bytes = b"{") -> bool:
    if not line.lstrip().startswith(opening):
        return False
    try:
        orjson.loads(line)
    except ValueError:
        return False
    return True
