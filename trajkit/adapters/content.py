"""The content of one message in any vendor's shape: text, and pictures left out of it."""

from __future__ import annotations

import binascii
import hashlib
from collections.abc import Sequence
from typing import Any

import orjson

from trajkit.model import ObservationKind, to_json_text


def content_text(content: Any) -> tuple[str | None, str | None]:
    """Return the text of a message's content and its pictures as JSON text.

    Content is text, null, or a list of parts. Parts that are neither text nor picture are kept
    as JSON text, so that nothing is lost. A picture leaves `<picture:N>` in its place.

    >>> content_text([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])
    ('a\\nb', None)
    """
    if content is None or isinstance(content, str):
        return content, None
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list):
        return to_json_text(content), None
    texts: list[str] = []
    media: list[dict[str, Any]] = []
    for part in content:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif isinstance(part, dict) and isinstance(part.get("refusal"), str):
            texts.append(part["refusal"])
        elif isinstance(part, dict) and (picture := _picture(part)) is not None:
            media.append(picture)
            texts.append(f"<picture:{len(media)}>")
        else:
            texts.append(to_json_text(part))
    return "\n".join(texts), to_json_text(media) if media else None


def _picture(part: dict[str, Any]) -> dict[str, Any] | None:
    """Return mime, hash and size of a picture part, whichever vendor's shape it has."""
    inline = part.get("inlineData") or part.get("inline_data")
    kind = str(part.get("type", ""))
    if not isinstance(inline, dict) and "image" not in kind and "screenshot" not in kind:
        return None
    source = inline or part.get("source") or part.get("image_url") or part.get("image") or part
    fields = source if isinstance(source, dict) else {"url": source}
    mime = fields.get("media_type") or fields.get("mimeType") or fields.get("mime_type")
    if isinstance(fields.get("data"), str):
        return bytes_left_out(fields["data"], mime)
    place = fields.get("url") or fields.get("path") or fields.get("file_id")
    if isinstance(place, str) and place.startswith("data:"):
        head, _, data = place.partition(",")
        return bytes_left_out(data, mime or head[5:].split(";")[0])
    return {"mime": mime, "sha256": None, "bytes": None, "name": place}


def bytes_left_out(data: str, mime: Any) -> dict[str, Any]:
    """Return mime, hash and size of base64 data that is not kept.

    Data that is no base64 (a log may have cut it) is hashed as the text it is.

    >>> bytes_left_out("QUJD", "image/png")["bytes"]
    3
    """
    try:
        content = binascii.a2b_base64(data)
    except ValueError:
        content = data.encode()
    return {"mime": mime, "sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}


def observation_kind(text: str | None) -> ObservationKind:
    """Return `json` for JSON objects and lists, `none` for null, else `text`.

    >>> observation_kind('{"a": 1}'), observation_kind("[1] http://..."), observation_kind(None)
    ('json', 'text', 'none')
    """
    if text is None:
        return "none"
    if text.lstrip()[:1] in ("{", "["):
        try:
            orjson.loads(text)
        except ValueError:
            return "text"
        return "json"
    return "text"


def tools_text(tools: Any) -> str | None:
    """Return tool schemas as JSON text; takes a list, or the JSON text some data sets store."""
    if not tools:
        return None
    if isinstance(tools, str):
        try:
            orjson.loads(tools)
        except ValueError:
            return to_json_text(tools)
        return tools
    return to_json_text(tools)


def is_message_list(value: Any, roles: Sequence[str]) -> bool:
    """Return whether a value is a non-empty list of messages with some of these roles only."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(item, dict) and item.get("role") in roles for item in value)
    )
