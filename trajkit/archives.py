"""Read the members of a ZIP archive one at a time, and refuse an archive that would do harm.

Nothing is ever written to disk and no path inside an archive is opened: a member is a name and
some bytes. Methods read: stored, deflate, and zstd (93), which the standard library of Python
learns only in 3.14; so the directory is read with `zipfile` and the members are unpacked here.

What is refused, each with a stable reason: member names that are absolute or lead upwards
(`unsafe_path`), one name twice (`duplicate_member`), passwords (`encrypted_member`), members that
unpack to more than the limits or share their bytes as in a ZIP bomb (`archive_too_large`), other
methods (`unsupported_compression`), and torn or damaged archives (`unreadable_file`).
"""

from __future__ import annotations

import re
import struct
import zipfile
import zlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

MAX_MEMBER_BYTES = 1 << 30
MAX_RATIO = 500
"""Unpacked bytes a packed byte may become. Logs that repeat their history reach about 200."""
SMALL_BYTES = 64 << 20
"""What may come out of any archive or member, whatever its ratio."""

_ENCRYPTED = 0x1
_ZSTD = 93
_HEADER = struct.Struct("<4s5H3L2H")
_BLOCK = 1 << 16


# Not frozen: a frozen exception cannot take the traceback that `with` sets on it.
@dataclass(eq=False)
class ArchiveError(Exception):
    """Why an archive, or one member of it, is not read; a reader makes it a reject."""

    reason: str
    """Stable slug."""
    message: str
    """One sentence for a person."""

    def __str__(self) -> str:
        """Return the sentence."""
        return self.message

    def __reduce__(self) -> tuple[type[ArchiveError], tuple[str, str]]:
        """Return what rebuilds the error in another process."""
        return type(self), (self.reason, self.message)


class Archive:
    """The members of one ZIP file; nothing is unpacked before it is asked for.

    Holds no open file. What a refused member costs is that member; a fault in the directory
    itself costs the archive, and `open_archive` raises it.
    """

    def __init__(self, path: Path, members: dict[str, zipfile.ZipInfo], max_bytes: int) -> None:
        self._path = path
        self._members = members
        self._max_bytes = max_bytes

    def names(self) -> tuple[str, ...]:
        """Return the names of all members that are files, in the order of the directory."""
        return tuple(self._members)

    def size(self, name: str) -> int:
        """Return the size in bytes that the directory declares for a member."""
        return self._members[name].file_size

    def read(self, name: str) -> bytes:
        """Return the content of a member; unpacked anew at each call.

        Raises KeyError for a name that is not in `names()`, ArchiveError when the member is
        damaged, too large or packed in another way.
        """
        member = self._members[name]
        n_bytes = member.file_size
        if n_bytes > self._max_bytes or _is_bomb(n_bytes, member.compress_size):
            raise ArchiveError(
                "archive_too_large",
                f"member {name!r} unpacks from {member.compress_size} to {n_bytes} bytes",
            )
        content = _unpack(member, _packed(self._path, member))
        if len(content) > n_bytes:
            raise ArchiveError(
                "archive_too_large", f"member {name!r} unpacks to more than the {n_bytes} it says"
            )
        if len(content) < n_bytes or zlib.crc32(content) != member.CRC:
            raise ArchiveError("unreadable_file", f"member {name!r} is damaged")
        return content


def open_archive(path: Path, *, max_member_bytes: int = MAX_MEMBER_BYTES) -> Archive:
    """Return the archive of a path after a look at its directory.

    Raises ArchiveError, and OSError where the file itself cannot be read.
    """
    try:
        with zipfile.ZipFile(path) as opened:
            found = [member for member in opened.infolist() if not member.is_dir()]
    except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error, EOFError) as error:
        raise ArchiveError("unreadable_file", f"the ZIP directory is damaged: {error}") from error
    for member in found:
        if _is_unsafe(member.filename):
            raise ArchiveError(
                "unsafe_path", f"member {member.filename!r} would lie outside the archive"
            )
        if member.flag_bits & _ENCRYPTED:
            raise ArchiveError("encrypted_member", f"member {member.filename!r} needs a password")
    name, n_times = (
        Counter(member.filename for member in found).most_common(1)[0] if found else ("", 0)
    )
    if n_times > 1:
        raise ArchiveError("duplicate_member", f"member {name!r} is there {n_times} times")
    _refuse_overlaps(found)
    n_unpacked = sum(member.file_size for member in found)
    if _is_bomb(n_unpacked, path.stat().st_size):
        raise ArchiveError("archive_too_large", f"the archive unpacks to {n_unpacked} bytes")
    return Archive(path, {member.filename: member for member in found}, max_member_bytes)


def _is_bomb(n_unpacked: int, n_packed: int) -> bool:
    return n_unpacked > SMALL_BYTES and n_unpacked > MAX_RATIO * n_packed


def _is_unsafe(name: str) -> bool:
    """Return whether a name is absolute, empty or leads upwards, on any system."""
    parts = re.split(r"[/\\]", name)
    return not name or parts[0] == "" or ".." in parts or re.match(r"[A-Za-z]:", name) is not None


def _refuse_overlaps(members: list[zipfile.ZipInfo]) -> None:
    """Raise when two members share bytes: how a small file unpacks to petabytes."""
    end = 0
    for member in sorted(members, key=lambda member: member.header_offset):
        if member.header_offset < end:
            raise ArchiveError(
                "archive_too_large", f"member {member.filename!r} shares its bytes with another"
            )
        end = member.header_offset + _HEADER.size + member.compress_size


def _packed(path: Path, member: zipfile.ZipInfo) -> bytes:
    """Return the packed bytes of a member."""
    with open(path, "rb") as file:
        file.seek(member.header_offset)
        header = file.read(_HEADER.size)
        if len(header) < _HEADER.size or not header.startswith(b"PK\x03\x04"):
            raise ArchiveError("unreadable_file", f"member {member.filename!r} is not there")
        *_, n_name_bytes, n_extra_bytes = _HEADER.unpack(header)
        file.seek(n_name_bytes + n_extra_bytes, 1)
        packed = file.read(member.compress_size)
    if len(packed) < member.compress_size:
        raise ArchiveError("unreadable_file", f"member {member.filename!r} is cut")
    return packed


def _unpack(member: zipfile.ZipInfo, packed: bytes) -> bytes:
    """Return the unpacked bytes, or one more than declared when there are more."""
    limit = member.file_size + 1
    if member.compress_type == zipfile.ZIP_STORED:
        return packed[:limit]
    try:
        if member.compress_type == zipfile.ZIP_DEFLATED:
            return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, limit)
        if member.compress_type == _ZSTD:
            return _unzstd(packed, limit)
    except (zlib.error, OSError) as error:
        raise ArchiveError(
            "unreadable_file", f"member {member.filename!r} is damaged: {error}"
        ) from error
    raise ArchiveError(
        "unsupported_compression",
        f"member {member.filename!r} is packed with method {member.compress_type}",
    )


def _unzstd(packed: bytes, limit: int) -> bytes:
    import zstandard

    content = bytearray()
    decompressor = zstandard.ZstdDecompressor()
    try:
        with decompressor.stream_reader(packed, read_across_frames=True) as stream:
            while len(content) < limit and (
                block := stream.read(min(_BLOCK, limit - len(content)))
            ):
                content += block
    except zstandard.ZstdError as error:
        raise OSError(str(error)) from error
    return bytes(content)
