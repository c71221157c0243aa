"""Pictures that stand in a text as base64: taken out, with what is needed to know them again.

Screenshots are most of the bytes of a browser log, and as text they are noise that a model would
learn by heart. A picture is a data URL with base64, whatever its media type, or a bare run of
base64 that begins like a PNG, JPEG, GIF or WebP file. Both are found inside JSON text too (where a
slash may be `\\/` and an equals sign `\\u003d`), and when the log cut them. Short runs stay: a
sentence about data URLs, a spacer of one pixel, a hash. So does base64 broken into lines.
"""

from __future__ import annotations

import binascii
import hashlib
import re
from typing import Any

MIN_URL_CHARS = 64
"""A data URL with less base64 than this is left alone."""
MIN_BARE_CHARS = 200
"""A bare run of base64 shorter than this is left alone."""

_MAGIC = {
    "iVBORw0KGgo": "image/png",
    "/9j/": "image/jpeg",
    "R0lGOD": "image/gif",
    "UklGR": "image/webp",
}
SIGNS = (";base64,", "iVBORw0KGgo", "/9j", "R0lGOD", "UklGR")
"""A text without any of these holds no picture."""
_SLASH = r"\\{0,8}/"
_ESCAPED = r"\\{1,8}(?:/|u00(?:2[bf]|3d))|%2[bf]|%3d"
# Possessive repeats and bounded counts: no input makes the search go far back, so it is linear.
_PICTURE = re.compile(
    rf"data:(?P<mime>[\w.+-]{{1,80}}{_SLASH}[\w.+-]{{1,80}})(?:;[\w.+=-]{{1,80}}){{0,4}};base64,"
    rf"(?P<url>(?:[a-z0-9+/]++|{_ESCAPED})*+=*+)"
    r"|(?:(?<![a-z0-9+/=\\])|(?<=\\[nrt]))"
    rf"(?P<bare>(?:(?-i:iVBORw0KGgo|R0lGOD|UklGR)|{_SLASH}9j{_SLASH})"
    rf"(?:[a-z0-9+/]++|{_ESCAPED})*+=*+)",
    re.IGNORECASE | re.ASCII,
)
_ESCAPE = re.compile(r"\\*u00([0-9a-f]{2})|%([0-9a-f]{2})", re.IGNORECASE)


def without_pictures(text: str) -> tuple[str, list[dict[str, Any]], int]:
    """Return the text with each picture replaced, the pictures, and how many were replaced.

    `<picture:HASH:BYTES>` takes the place of a picture: the first 16 digits of the SHA-256 and the
    size of what could be decoded. The list holds `{"mime", "sha256", "bytes"}` of each distinct
    picture in order of appearance. All other characters stay as they are, so JSON text stays JSON
    text. Takes linear time, and next to none where there is no picture.

    >>> without_pictures("see data:image/png;base64,AAAA")
    ('see data:image/png;base64,AAAA', [], 0)
    >>> text, pictures, n_replaced = without_pictures('{"a": "data:image/png;base64,' + "QUJD" * 16)
    >>> text, n_replaced
    ('{"a": "<picture:3de204e79ce1b3fd:48>', 1)
    >>> pictures[0]["mime"], pictures[0]["bytes"]
    ('image/png', 48)
    """
    if len(text) < MIN_URL_CHARS or not any(sign in text for sign in SIGNS):
        return text, [], 0
    found: dict[str, dict[str, Any]] = {}
    n_replaced = 0

    def replace(match: re.Match[str]) -> str:
        nonlocal n_replaced
        is_url = match["bare"] is None
        data = match["url"] if is_url else match["bare"]
        if len(data) < (MIN_URL_CHARS if is_url else MIN_BARE_CHARS):
            return match.group()
        data = _unescaped(data)
        picture = _picture(data, match["mime"].replace("\\", "") if is_url else _mime(data))
        found.setdefault(picture["sha256"], picture)
        n_replaced += 1
        return f"<picture:{picture['sha256'][:16]}:{picture['bytes']}>"

    return _PICTURE.sub(replace, text), list(found.values()), n_replaced


def _unescaped(data: str) -> str:
    if "\\" not in data and "%" not in data:
        return data
    plain = _ESCAPE.sub(lambda match: chr(int(match[1] or match[2], 16)), data)
    return plain.replace("\\", "")


def _mime(data: str) -> str:
    return next(mime for magic, mime in _MAGIC.items() if data.startswith(magic))


def _picture(data: str, mime: str) -> dict[str, Any]:
    """Return a picture's record; of a cut one, of the whole groups of base64 that are left."""
    digits = data.rstrip("=")
    padded = digits if len(digits) % 4 != 1 else digits[:-1]
    content = binascii.a2b_base64(padded + "=" * (-len(padded) % 4))
    return {"mime": mime, "sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
