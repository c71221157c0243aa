"""Recordings of what world models said: JSON Lines on disk, each found by what was asked.

One line holds the model's name, the hash of what was asked, its occurrence number (0 for the first
of equal ones), the engine with its version, and what came back: a completion with its sampling, a
scored text, or the length of a prompt. No prompt is kept: it is the hash that finds the line again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from trajkit.errors import TrajkitError, quote
from trajkit.worldmodel.protocol import Completion, Request, Scored, Scoring

Key = tuple[bytes, int]
"""Hash of what was asked, and its occurrence."""
_COMPLETION = frozenset(field.name for field in fields(Completion))
_SCORED = frozenset(field.name for field in fields(Scored))


def request_hash(request: Request) -> bytes:
    """Return the SHA-256 of what decides the answer: messages, sampling, answer pattern.

    The text under the hash is canonical JSON in ASCII, so that any language can compute it.
    """
    return _hash(
        {
            "messages": _plain(request.messages),
            "sampling": asdict(request.sampling),
            "answer_pattern": request.answer_pattern,
        }
    )


def scoring_hash(scoring: Scoring) -> bytes:
    """Return the SHA-256 of what decides a log-probability: messages, prefix, continuation."""
    return _hash(
        {
            "messages": _plain(scoring.messages),
            "prefix": scoring.prefix,
            "continuation": scoring.continuation,
        }
    )


def prompt_hash(messages: Iterable[Mapping[str, str]]) -> bytes:
    """Return the SHA-256 of the messages of a prompt alone."""
    return _hash({"messages": _plain(messages)})


def _plain(messages: Iterable[Mapping[str, str]]) -> list[dict[str, str]]:
    return [dict(message) for message in messages]


def _hash(content: dict[str, Any]) -> bytes:
    text = json.dumps(content, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).digest()


def line(*, model: str, engine: str | None, key: Key, said: Mapping[str, Any]) -> bytes:
    """Return a line of a recording, with its line break."""
    digest, occurrence = key
    found_by = {
        "model": model,
        "engine": engine,
        "request": digest.hex(),
        "occurrence": occurrence,
    }
    return orjson.dumps(found_by | dict(said)) + b"\n"


def completion_fields(request: Request, completion: Completion) -> dict[str, Any]:
    """Return what a line holds of an answer."""
    said = {"sampling": asdict(request.sampling)} | asdict(completion)
    del said["key"]
    return said


def scored_fields(scored: Scored) -> dict[str, Any]:
    """Return what a line holds of a scored text."""
    said = asdict(scored)
    del said["key"]
    return said


def read_completion(line: Mapping[str, Any], key: str) -> Completion:
    """Return the completion that a line holds, under the key of a request."""
    known = {name: value for name, value in line.items() if name in _COMPLETION}
    return Completion(**known | {"key": key})


def read_scored(line: Mapping[str, Any], key: str) -> Scored:
    """Return the log-probability that a line holds, under the key of a scoring."""
    known = {name: value for name, value in line.items() if name in _SCORED}
    return Scored(**known | {"key": key})


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
        content = _parse(raw, where)
        try:
            key = (bytes.fromhex(content["request"]), int(content["occurrence"]))
        except (TypeError, ValueError):
            raise TrajkitError(where, "names no request", _HINT) from None
        yield offset, key, content
        offset += len(raw)


def line_at(file: BinaryIO, path: Path, offset: int) -> dict[str, Any]:
    """Return the line that starts at an offset."""
    file.seek(offset)
    return _parse(file.readline(), f"{path}: byte {offset}")


def _parse(raw: bytes, where: str) -> dict[str, Any]:
    try:
        content = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise TrajkitError(where, f"is not JSON: {error}", _HINT) from None
    wanted = {"model", "request", "occurrence"}
    said = {"text", "logprob", "n_prompt_tokens"}
    if not isinstance(content, dict) or not (wanted <= content.keys() and said & content.keys()):
        raise TrajkitError(where, f"is no line of a recording: {quote(content)}", _HINT)
    return content


_HINT = "a recording is written by a cached run; move this file away or name another one"
