"""Decode JSON as logs really hold it: torn, glued, and with what strict JSON forbids."""

from __future__ import annotations

import codecs
import json
import re
from collections import Counter
from typing import Any

import numpy as np
import orjson

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def decode(raw: bytes, repairs: Counter[str]) -> Any:
    """Return the JSON value of some bytes; count what had to be mended in `repairs`.

    Lone surrogates and invalid UTF-8 become U+FFFD. A number that a double cannot hold
    (NaN, Infinity, 1e999) becomes a string with its own text.

    Raises ValueError when the bytes are not one JSON value.

    >>> decode(b'{"a": NaN}', Counter())
    {'a': 'NaN'}
    """
    if not _may_hold_long_number(raw):
        try:
            return orjson.loads(raw)
        except orjson.JSONDecodeError:
            pass
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        if _is_cut(raw):
            raise ValueError("cut inside a character") from None
        text = raw.decode("utf-8", "replace")
        repairs["invalid_utf8"] += 1

    def keep_text(source: str) -> str:
        repairs["non_finite_number"] += 1
        return source

    def number(source: str) -> float | str:
        value = float(source)
        return keep_text(source) if value in (float("inf"), float("-inf")) else value

    try:
        value = json.loads(text, parse_constant=keep_text, parse_float=number)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if "\\ud" in text or "\\uD" in text:
        value = _mend_surrogates(value, repairs)
    return _keep_big_integers(value, repairs) if _may_hold_long_number(raw) else value


_LONG_DIGITS = 19


def _may_hold_long_number(raw: bytes) -> bool:
    """Return whether a run of digits is long enough to pass 64 bits; orjson would round it."""
    codes = np.frombuffer(raw, dtype=np.uint8)
    others = np.flatnonzero((codes - np.uint8(ord("0"))) > 9)
    edges = np.concatenate(([-1], others, [len(raw)]))
    return bool((np.diff(edges) > _LONG_DIGITS).any())


def _is_cut(raw: bytes) -> bool:
    """Return whether the bytes end in the middle of a UTF-8 character."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        decoder.decode(raw.rstrip(b"\r\n"))
    except UnicodeDecodeError:
        return False
    return bool(decoder.getstate()[0])


def _mend_surrogates(value: Any, repairs: Counter[str]) -> Any:
    if isinstance(value, str):
        mended, n_mended = _LONE_SURROGATE.subn("\ufffd", value)
        repairs["lone_surrogate"] += n_mended
        return mended
    if isinstance(value, list):
        return [_mend_surrogates(item, repairs) for item in value]
    if isinstance(value, dict):
        return {
            _mend_surrogates(key, repairs): _mend_surrogates(item, repairs)
            for key, item in value.items()
        }
    return value


def _keep_big_integers(value: Any, repairs: Counter[str]) -> Any:
    """Return the value with integers past 64 bits as strings of their digits, counted."""
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        repairs["integer_past_64_bits"] += 1
        return str(value)
    if isinstance(value, list):
        return [_keep_big_integers(item, repairs) for item in value]
    if isinstance(value, dict):
        return {key: _keep_big_integers(item, repairs) for key, item in value.items()}
    return value


def split_glued(raw: bytes) -> tuple[list[bytes], list[bytes]]:
    """Return the whole JSON objects on one physical line, and the torn bytes between them.

    >>> split_glued(b'{"a":1}{"b":"}{"}')
    ([b'{"a":1}', b'{"b":"}{"}'], [])
    >>> split_glued(b'{"torn": {"x"{"whole": 2}')
    ([b'{"whole": 2}'], [b'{"torn": {"x"'])
    """
    text = raw.decode("utf-8", "surrogateescape").strip()
    decoder = json.JSONDecoder()
    pieces: list[bytes] = []
    leftovers: list[bytes] = []
    position = 0
    while position < len(text):
        try:
            _, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            resume = _next_whole(text, position + 1, decoder)
            leftovers.append(text[position:resume].encode("utf-8", "surrogateescape"))
            position = resume
            continue
        pieces.append(text[position:end].encode("utf-8", "surrogateescape"))
        position = end
        while position < len(text) and text[position].isspace():
            position += 1
    return pieces, leftovers


_MAX_RESTARTS = 200


def _next_whole(text: str, start: int, decoder: json.JSONDecoder) -> int:
    """Return where objects that reach the end of the text begin, else the text's length.

    An object inside the torn one would parse too; only one that leads to the end is a record.
    """
    position = start
    for _ in range(_MAX_RESTARTS):
        position = text.find('{"', position)
        if position < 0:
            return len(text)
        try:
            _, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            position += 1
            continue
        tail = text[end:].lstrip()
        if not tail or tail.startswith('{"'):
            return position
        position += 1
    return len(text)


def ends_early(raw: bytes) -> bool:
    """Return whether a document breaks off at its end, as a cut file does."""
    try:
        json.loads(raw.decode("utf-8", "replace"))
    except json.JSONDecodeError as error:
        return error.pos >= len(error.doc.rstrip()) - 1 or error.msg.startswith("Unterminated")
    except RecursionError:
        return False
    return False
