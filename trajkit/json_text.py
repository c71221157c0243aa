"""Decode JSON as logs really hold it: torn, glued, and with what strict JSON forbids."""

from __future__ import annotations

import codecs
import json
import re
from collections import Counter
from typing import Any, Literal

import orjson

from trajkit.errors import quote

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class DuplicateKeyError(ValueError):
    """An object names a key twice: which value was meant cannot be told."""


def decode(raw: bytes, repairs: Counter[str]) -> Any:
    """Return the JSON value of some bytes; count what had to be mended in `repairs`.

    Lone surrogates and invalid UTF-8 become U+FFFD. A number that is none in strict JSON, or that
    no double can hold (NaN, Infinity, 1e999), becomes a string with its own text. Numbers whose
    text another writer would change (1.10, 2^70) are `ExactNumber`s, which are written as they
    were read.

    Raises DuplicateKeyError for an object with two equal keys, ValueError when the bytes are not
    one JSON value.

    >>> decode(b'{"a": NaN}', Counter())
    {'a': 'NaN'}
    """
    try:
        value = orjson.loads(raw)
        if _is_told_in_full(raw, value):
            return value
    except ValueError:
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

    def number(source: str) -> Any:
        value = ExactNumber.of(source)
        return keep_text(source) if value in (float("inf"), float("-inf")) else value

    def integer(source: str) -> Any:
        return int(source) if len(source) < _LONG_DIGITS else _long_integer(source)

    try:
        value = json.loads(
            text,
            parse_constant=keep_text,
            parse_float=number,
            parse_int=integer,
            object_pairs_hook=_object,
        )
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return _mend_surrogates(value, repairs) if "\\ud" in text or "\\uD" in text else value


_SHAPES = bytearray(b"x" * 256)
"""Maps bytes to the kind of character they are, as far as numbers are concerned."""
for _members, _kind in (
    (b"123456789", b"1"),
    (b"0", b"0"),
    (b".", b"."),
    (b"eE", b"e"),
    (b"+-", b"-"),
    (b",]}", b","),
    (b" \t\r\n", b" "),
):
    for _member in _members:
        _SHAPES[_member] = _kind[0]
_LONG_DIGITS = 19
_REWRITTEN = re.compile(rb"\.(?:[01]+0 *,|[01]{16})")
"""A fraction with a zero at its end or more digits than a double has. Versions in texts look so."""
_FRACTION = re.compile(rb"\.([01]+) *,")
_EXPONENT = re.compile(rb"[01]e-?[01]+ *,")


def _is_told_in_full(raw: bytes, value: Any) -> bool:
    """Return whether a decoded value is sure to hold all that its bytes say.

    orjson keeps the last of two equal keys, makes a double of an integer past 64 bits and forgets
    how a fraction was written. Text that comes out the same again is safe: compact, or printed
    with two blanks a level. For other text: as many keys as there are quotes before a colon that
    no backslash stands before (a space between the two, or a key that ends in a backslash, only
    costs time), and no double, or each fraction with the same digits in the same order, no
    exponent and nothing huge.
    """
    try:
        head = raw[:_HEAD]
        printed = head.startswith((b'{\n  "', b"[\n  "))
        if printed or b'": ' not in head:
            written = orjson.dumps(value, option=orjson.OPT_INDENT_2 if printed else None)
            if raw.startswith(written) and len(raw) - len(written) <= 2:
                return True
        n_keys, doubles = _walk(value)
        if raw.count(b'":') - raw.count(b'\\":') != n_keys or b'" :' in raw:
            return False
        if doubles == "huge":
            # Once an integer past 64 bits, as likely as not.
            return False
        return doubles == "none" or _same_numbers(raw, value)
    except TypeError:
        return False


_HEAD = 400


def _walk(value: Any) -> tuple[int, Literal["none", "some", "huge"]]:
    """Return how many keys a value holds at all depths, and which doubles."""
    n_keys = 0
    doubles: Literal["none", "some", "huge"] = "none"
    waiting = [value]
    while waiting:
        inner = waiting.pop()
        kind = type(inner)
        if kind is dict:
            n_keys += len(inner)
            waiting += inner.values()
        elif kind is list:
            waiting += inner
        elif kind is float:
            if not -_HUGE < inner < _HUGE:
                return n_keys, "huge"
            doubles = "some"
    return n_keys, doubles


_HUGE = 1e15


def _same_numbers(raw: bytes, value: Any) -> bool:
    """Return whether all doubles of a value would be written as they were read."""
    shapes = raw.translate(_SHAPES)
    for sign in (b"0e", b"1e"):
        at = shapes.find(sign)
        while at >= 0:
            if _EXPONENT.match(shapes, at):
                return False
            at = shapes.find(sign, at + 1)
    if not _REWRITTEN.search(shapes):
        return True
    written = orjson.dumps(value)
    return _decimals(raw, shapes) == _decimals(written, written.translate(_SHAPES))


def _decimals(raw: bytes, shapes: bytes) -> list[bytes]:
    """Return the digits after the point of everything that may be a fraction.

    >>> _decimals(b"[1.50 , 2]", b"[1.50 , 2]".translate(_SHAPES))
    [b'50']
    """
    return [raw[slice(*found.span(1))] for found in _FRACTION.finditer(shapes)]


class ExactNumber(float):
    """A number that remembers its text; `to_json_text` writes that text again."""

    source: str

    @classmethod
    def of(cls, source: str) -> ExactNumber:
        """Return the number of a JSON number's text."""
        number = cls(source)
        number.source = source
        return number


def _long_integer(source: str) -> Any:
    value = int(source)
    return value if -(2**63) <= value < 2**64 else ExactNumber.of(source)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        twice = next(key for key, n_seen in counts.items() if n_seen > 1)
        raise DuplicateKeyError(f"the key {quote(twice)} stands twice in one object")
    return value


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
