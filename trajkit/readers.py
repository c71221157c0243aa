"""Turn files into decoded values, and account for every byte that could not be decoded.

Files are cut at byte 0x0A and nowhere else: U+2028 and its kin are ordinary characters inside
JSON strings. What JSON cannot hold (lone surrogates, NaN, invalid UTF-8) is mended in one stated
way and counted; what cannot be mended becomes a `Reject` with its place.
"""

from __future__ import annotations

import codecs
import gzip
import io
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import orjson

from trajkit.errors import TrajkitError
from trajkit.json_text import decode, ends_early, split_glued
from trajkit.model import Origin, Reject

MAX_RECORD_CHARS = 64_000
_SNIFF_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Value:
    """One decoded JSON value and the 1-based line it began on (null for a whole document)."""

    value: Any
    line: int | None


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file to read and the name it has in origins."""

    path: Path
    origin_path: str
    size_bytes: int
    is_temporary: bool = False


def list_inputs(paths: tuple[str, ...]) -> list[InputFile]:
    """Return every file under the given paths, sorted by origin path.

    `-` reads standard input into a temporary file. Links to folders are not followed. Two roots
    of one name get as many parent folders as tell them apart.

    Raises TrajkitError when a path does not exist or nothing is there to read.
    """
    roots: dict[Path, str] = {}
    files: list[InputFile] = []
    for given in dict.fromkeys(paths):
        if given == "-":
            spooled = _spool_standard_input()
            files.append(InputFile(spooled, "stdin", spooled.stat().st_size, is_temporary=True))
            continue
        path = Path(given)
        if not path.exists():
            raise TrajkitError(given, "no such file or folder", "check the path")
        roots[path.resolve()] = ""
    for root, name in _distinct_names(list(roots)).items():
        files.extend(_walk(root, name))
    if not files:
        raise TrajkitError(", ".join(paths), "holds no file", "give a file or a folder of logs")
    return sorted(files, key=lambda file: file.origin_path)


def _spool_standard_input() -> Path:
    import tempfile

    with tempfile.NamedTemporaryFile(prefix="trajkit-stdin-", delete=False) as spool:
        while block := sys.stdin.buffer.read(1 << 20):
            spool.write(block)
    return Path(spool.name)


def _distinct_names(roots: list[Path]) -> dict[Path, str]:
    """Return the shortest path suffix of each root that no other root shares."""
    names: dict[Path, str] = {}
    for root in roots:
        others = [other for other in roots if other != root]
        n_parts = 1
        while n_parts < len(root.parts) - 1 and any(
            other.parts[-n_parts:] == root.parts[-n_parts:] for other in others
        ):
            n_parts += 1
        names[root] = "/".join(root.parts[-n_parts:]).lstrip("/")
    return names


def _walk(root: Path, name: str) -> Iterator[InputFile]:
    if root.is_file():
        yield InputFile(root, name, root.stat().st_size)
        return
    for folder, folders, file_names in os.walk(root):
        folders.sort()
        for file_name in sorted(file_names):
            path = Path(folder, file_name)
            if path.is_file():
                inside = path.relative_to(root).as_posix()
                yield InputFile(path, f"{name}/{inside}", path.stat().st_size)


class FileReader:
    """Decodes one file; gathers rejects and repairs on the way.

    Iterating gives `Value`s in file order. `is_document` is True when the file is one JSON
    document, False when it is JSON lines.
    """

    def __init__(self, file: InputFile) -> None:
        self.file = file
        self.rejects: list[Reject] = []
        self.repairs: Counter[str] = Counter()
        self.is_document = False

    def __iter__(self) -> Iterator[Value]:
        try:
            yield from self._values()
        except (OSError, EOFError) as error:
            # zstandard and gzip raise these for torn archives; what came before is kept.
            self._reject(None, "unreadable_file", f"{type(error).__name__}: {error}", None)

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
        with _open_decompressed(self.file.path) as stream:
            head = stream.peek(_SNIFF_BYTES)[:_SNIFF_BYTES]
            refusal = _refusal(head, named_lines=_is_lines_name(self.file.origin_path))
            if refusal is not None:
                self._reject(None, *refusal, head[:200])
                return
            lines: Iterator[bytes] = stream
            if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                self.repairs["utf16"] += 1
                text = stream.read().decode("utf-16", "replace")
                lines = io.BytesIO(text.encode("utf-8", "replace"))
            elif head.startswith(codecs.BOM_UTF8):
                self.repairs["byte_order_mark"] += 1
                stream.read(len(codecs.BOM_UTF8))
            yield from self._split(lines)

    def _split(self, lines: Iterator[bytes]) -> Iterator[Value]:
        """Tell a document from JSON lines by whether the first line stands alone."""
        numbered = ((number, raw) for number, raw in enumerate(lines, 1) if raw.strip())
        first = next(numbered, None)
        if first is None:
            self._reject(None, "empty_file", "the file holds only white space", None)
            return
        number, raw = first
        named_lines = _is_lines_name(self.file.origin_path)
        try:
            value = self._decode(raw)
        except ValueError:
            # A pretty-printed document opens with a short line; a torn log line is long.
            if named_lines and len(raw.strip()) > 2:
                yield from self._line(raw, number)
                for number, raw in numbered:
                    yield from self._line(raw, number)
            else:
                yield from self._document(raw, numbered, number)
            return
        try:
            second = next(numbered, None)
        except (OSError, EOFError):
            yield Value(value, number)
            raise
        if second is None:
            self.is_document = isinstance(value, list) or not named_lines
            yield Value(value, None if self.is_document else number)
            return
        yield Value(value, number)
        yield from self._line(second[1], second[0])
        for number, raw in numbered:
            yield from self._line(raw, number)

    def _document(
        self, first: bytes, numbered: Iterator[tuple[int, bytes]], number: int
    ) -> Iterator[Value]:
        """Read the whole file as one document, else as lines when some line stands alone."""
        rest = [(number, first), *numbered]
        whole = b"".join(raw for _, raw in rest)
        try:
            document = self._decode(whole)
        except ValueError as error:
            if any(_stands_alone(raw) for _, raw in rest[:20]):
                for number, raw in rest:
                    yield from self._line(raw, number)
            else:
                slug = "not_json"
                if whole.lstrip()[:1] in (b"{", b"["):
                    slug = "truncated_document" if ends_early(whole) else "invalid_json"
                self._reject(None, slug, f"not one JSON document ({error}) nor lines", whole)
            return
        self.is_document = True
        yield Value(document, None)

    def _line(self, raw: bytes, line_number: int) -> Iterator[Value]:
        try:
            yield Value(self._decode(raw), line_number)
            return
        except ValueError as error:
            message = str(error)
        pieces, leftovers = split_glued(raw)
        for piece in pieces:
            yield Value(self._decode(piece), line_number)
        for leftover in leftovers:
            torn_tail = not raw.endswith(b"\n") and raw.rstrip().endswith(leftover)
            reason = "truncated_line" if torn_tail else "invalid_json"
            self._reject(line_number, reason, f"not JSON: {message}", leftover)

    def _decode(self, raw: bytes) -> Any:
        return decode(raw, self.repairs)


def _is_lines_name(name: str) -> bool:
    return re.search(r"\.(jsonl|ndjson)(\.(gz|zst))?$", name) is not None


def _stands_alone(line: bytes) -> bool:
    if not line.lstrip().startswith(b"{"):
        return False
    try:
        orjson.loads(line)
    except ValueError:
        return False
    return True


def _refusal(head: bytes, *, named_lines: bool) -> tuple[str, str] | None:
    """Return reason and message when the first bytes show that this is no JSON text.

    A file named as lines may open with a line of another kind; the lines after it still count.
    """
    if head.startswith(b"version https://git-lfs"):
        return "git_lfs_pointer", "a git-lfs pointer, not the data; fetch it with `git lfs pull`"
    if head.startswith(b"PK\x03\x04"):
        return "unsupported_container", "a ZIP archive; no adapter reads it"
    if head.startswith((b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")):
        return "pickle_refused", "a Python pickle, which runs code when loaded; export it as JSON"
    is_utf16 = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if b"\x00" in head and not is_utf16:
        return "binary_file", "holds NUL bytes, so it is no text"
    first = head.removeprefix(codecs.BOM_UTF8).lstrip()[:1]
    if not is_utf16 and not named_lines and first not in (b"{", b"[", b""):
        return "not_json", f"does not begin like JSON (first bytes {head[:20]!r})"
    return None


@contextmanager
def _open_decompressed(path: Path) -> Iterator[io.BufferedReader]:
    """Give the bytes of a file, gzip and zstd undone, as a stream that can peek."""
    with open(path, "rb") as raw:
        magic = raw.peek(4)[:4]
        if magic.startswith(b"\x1f\x8b"):
            with gzip.open(raw, "rb") as unzipped:
                yield io.BufferedReader(cast(io.RawIOBase, unzipped), 1 << 20)
        elif magic == b"\x28\xb5\x2f\xfd":
            yield io.BufferedReader(cast(io.RawIOBase, _ZstdFrames(raw)), 1 << 20)
        else:
            yield raw


class _ZstdFrames(io.RawIOBase):
    """The content of one or more zstd frames; a cut or damaged one raises OSError.

    zstandard's own stream reader ends a cut frame as if it were whole, so lines would be lost in
    silence where the cut falls between two of them.
    """

    def __init__(self, raw: BinaryIO) -> None:
        import zstandard

        self._raw = raw
        self._decompressor = zstandard.ZstdDecompressor()
        self._frame: Any = None
        self._input = b""
        self._output = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        import zstandard

        while not self._output:
            self._input = self._input or self._raw.read(1 << 16)
            if not self._input:
                if self._frame is not None:
                    raise OSError("the zstd frame is cut")
                return 0
            self._frame = self._frame or self._decompressor.decompressobj()
            try:
                self._output = self._frame.decompress(self._input)
            except zstandard.ZstdError as error:
                raise OSError(str(error)) from error
            self._input = self._frame.unused_data if self._frame.eof else b""
            if self._frame.eof:
                self._frame = None
        n_bytes = min(len(buffer), len(self._output))
        buffer[:n_bytes] = self._output[:n_bytes]
        self._output = self._output[n_bytes:]
        return n_bytes
