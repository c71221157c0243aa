"""List the files to read, in a fixed order and under names that do not depend on the machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trajkit.errors import TrajkitError


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
