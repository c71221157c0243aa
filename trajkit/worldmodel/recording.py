"""Recordings of completions: JSON Lines on disk, each found by the content of its request.

One line holds the model's name, the hash of the request, its occurrence number (0 for the first
of equal requests), the sampling, the engine with its version, and the completion. No prompt is
kept: it is the hash that finds the line again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from trajkit.errors import TrajkitError, quote
from trajkit.worldmodel.protocol import Completion, Request

Key = tuple[bytes, int]
"""Hash of a request, and its occurrence."""
_FIELDS = frozenset(field.name for field in fields(Completion))


def request_hash(request: Request) -> bytes:
    """Return the SHA-256 of what decides the answer: messages, sampling, answer pattern.

    The text under the hash is canonical JSON in ASCII, so that any language can compute it.
    """
    content = {
        "messages": [dict(message) for message in request.messages],
        "sampling": asdict(request.sampling),
        "answer_pattern": request.answer_pattern,
    }
    text = json.dumps(content, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).digest()


def encode(
    completion: Completion,
    *,
    model: str,
    engine: str | None,
    request: Request,
    digest: bytes,
    occurrence: int,
) -> bytes:
    """Return the line of a recording, with its line break."""
    line = {"model": model, "engine": engine, "request": digest.hex(), "occurrence": occurrence}
    line |= {"sampling": asdict(request.sampling)} | asdict(completion)
    del line["key"]
    return orjson.dumps(line) + b"\n"


def decode(line: dict[str, Any], key: str) -> Completion:
    """Return the completion that a line of a recording holds, under the key of a request."""
    known = {name: value for name, value in line.items() if name in _FIELDS}
    return Completion(**known | {"key": key})


def read_lines(file: BinaryIO, path: Path) -> Iterator[tuple[int, Key, dict[str, Any]]]:
    """Yield offset, key and content of each line, from the start of an open recording.

    A last line without its line break is torn and ends the reading. Raises TrajkitError at any
    other line that is no recording: such a file was not written here.
    """
    offset = 0
    for number, raw in enumerate(iter(file.readline, b""), start=1):
        if not raw.endswith(b"\n"):
            return
        where = f"{path}:{number}"
        line = _parse(raw, where)
        try:
            key = (bytes.fromhex(line["request"]), int(line["occurrence"]))
        except (TypeError, ValueError):
            raise TrajkitError(where, "names no request", _HINT) from None
        yield offset, key, line
        offset += len(raw)


def line_at(file: BinaryIO, path: Path, offset: int) -> dict[str, Any]:
    """Return the line that starts at an offset."""
    file.seek(offset)
    return _parse(file.readline(), f"{path}: byte {offset}")


def _parse(raw: bytes, where: str) -> dict[str, Any]:
    try:
        line = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise TrajkitError(where, f"is not JSON: {error}", _HINT) from None
    wanted = {"model", "request", "occurrence", "text"}
    if not isinstance(line, dict) or not wanted <= line.keys():
        raise TrajkitError(where, f"is no recorded completion: {quote(line)}", _HINT)
    return line


_HINT = "a recording is written by a cached run; move this file away or name another one"
