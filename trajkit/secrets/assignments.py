"""Secrets that a name beside them gives away: variables, fields, headers, options, elements."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

from trajkit.secrets.findings import PLACEHOLDER, Finding
from trajkit.secrets.names import NameKind, is_plausible, kind_of_name, looks_drawn

_NAME_BYTES = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
_NAME_END = re.compile(rb"[A-Za-z0-9_-]{0,60}")
_OPERATOR = re.compile(
    rb"""\\{0,4}(?P<quote>["'`]?)[\])]?"""
    rb"""(?:[ \t]{0,4}:[ \t]?[A-Za-z][\w\[\], .|]{0,40}?(?=[ \t]?=[^=]))?"""
    rb"""(?:[ \t]{0,8}(?::=|=>|=(?!=)|:(?![:/]))[ \t]{0,8}|(?P<comma>,)[ \t]{0,4}(?=["'])"""
    rb"""|[ \t](?P<word>is:?)[ \t])"""
)
_VALUE = re.compile(
    rb"""(?:[bBrRuUfF]{1,2}(?=["']))?"""
    rb"""(?:\\{0,4}(?P<mark>["'`])(?P<quoted>[^"'`\\\n]{4,4096})\\{0,4}(?P=mark)"""
    rb"""|(?P<bare>[^\s"'`,;&|<>(){}\[\]\\]{6,1024}))"""
)
_SCHEME = re.compile(rb"(?:Bearer|Basic|Token|Bot|ApiKey|Key|Digest)[ \t]+", re.IGNORECASE)
_SCHEME_VALUE = re.compile(
    rb"(?:bearer|basic)[ \t]+([A-Za-z0-9._~+/-]{12,4096}={0,2})", re.IGNORECASE
)
_OPTION_VALUE = re.compile(
    rb"""[ \t]+["']?([^\s"'`,;&|<>(){}\[\]\\-][^\s"'`;&|<>(){}\[\]\\]{5,512})"""
)
_ELEMENT_VALUE = re.compile(rb">([^\s<>{}\"'\\]{6,512})</")
_USER_OPTION = re.compile(
    rb"""(?:-u|--user|--proxy-user)[ \t=]+["']?[\w.@-]{1,64}:([^\s"'`$<>{}\\]{4,256})"""
)
_SSHPASS = re.compile(rb"""sshpass[ \t]+-p[ \t]*["']?([^\s"'`$<>{}\\-][^\s"'`$<>{}\\]{3,256})""")
_LOGIN = re.compile(rb"login[ \t]+\S{1,64}[ \t]+$")
_JSON_VALUE = re.compile(
    rb'[ \t\r\n]*:[ \t\r\n]*(?:"([^"]*)"|(-?[0-9][0-9.eE+-]*)|([\[{])|true|false|null)'
)
_JSON_PAIR = re.compile(
    rb'[ \t\r\n]*,[ \t\r\n]*"(?:value|val|default)"[ \t\r\n]*:[ \t\r\n]*"([^"]*)"'
)
_JSON_LEAF = re.compile(rb'"([^"]*)"([ \t\r\n]*:)?|(?<![\w.+-])-?[0-9][0-9.eE+-]*|[\[\]{}]')
_SCHEMA = re.compile(
    rb'\{[ \t\r\n]*"(?:type|description|anyOf|oneOf|allOf|\$ref|title|enum|default|format)"'
)
_LANGUAGE = re.compile(
    rb'"(?:logprobs?|top_logprobs|bytes|pos|lemma|start|end|offset|score|prob(?:ability)?)"'
    rb"[ \t\r\n]*:"
)


def options_at(text: bytes, at: int) -> Iterator[Finding]:
    """Give what stands after `-u name:`, `sshpass -p` or an authorization scheme."""
    for pattern in (_USER_OPTION, _SSHPASS):
        match = pattern.match(text, at)
        if match and not PLACEHOLDER.search(match[1]):
            yield Finding(*match.span(1), "named_secret")
    match = _SCHEME_VALUE.match(text, at)
    if match and (looks_drawn(match[1]) or _is_name_and_password(match[1])):
        yield Finding(*match.span(1), "named_secret")


def _is_name_and_password(value: bytes) -> bool:
    try:
        plain = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return False
    return plain.isascii() and b":" in plain and plain.decode().isprintable()


def name_at(text: bytes, at: int) -> tuple[int, int]:
    """Return where the name that holds this position begins and ends."""
    head = text[max(0, at - 60) : at]
    start = at - (len(head) - len(head.rstrip(_NAME_BYTES)))
    match = _NAME_END.match(text, at)
    return start, match.end() if match else at


def assigned_at(text: bytes, start: int, end: int) -> Iterator[Finding]:
    """Give the secret that is the value of the name in `text[start:end]`, if it is one."""
    name = text[start:end]
    kind = kind_of_name(name.decode())
    if kind == "none":
        return
    match = _ELEMENT_VALUE.match(text, end)
    if match:
        if is_plausible(match[1], kind):
            yield Finding(*match.span(1), "named_secret")
        return
    operator = _OPERATOR.match(text, end)
    if operator is None:
        if name.startswith(b"--") or _LOGIN.search(text, max(0, start - 90), start):
            match = _OPTION_VALUE.match(text, end)
            if match and is_plausible(match[1], "key" if kind == "weak" else kind):
                yield Finding(*match.span(1), "named_secret")
        return
    if operator["comma"] and not operator["quote"]:
        return
    after = operator.end()
    scheme = _SCHEME.match(text, after)
    value = _VALUE.match(text, scheme.end() if scheme else after)
    if value is None:
        return
    span = value.span("quoted" if value["quoted"] is not None else "bare")
    yield from _checked(text, *span, kind, quoted=value["quoted"] is not None)


def _checked(
    text: bytes, start: int, end: int, kind: NameKind, *, quoted: bool
) -> Iterator[Finding]:
    scheme = _SCHEME.match(text, start, end)
    if scheme:
        start = scheme.end()
    value = text[start:end]
    if not quoted:
        value = value.rstrip(b".:!?)")
    if re.search(rb"\s", value) or (not quoted and b"://" in value):
        return
    if is_plausible(value, kind):
        yield Finding(start, start + len(value), "named_secret")


def fields_at(view: bytes, at: int) -> Iterator[Finding] | None:
    """Give the values of the JSON key that holds this position; null where it is in no key.

    The value of a field with the name of a secret is masked whatever it is, at any depth below it,
    but for true, false, null and empty strings. The fields of a JSON schema, and the tokens of a
    language model or tagger, are none.
    """
    start = view.rfind(b'"', max(0, at - 200), at + 1) + 1
    end = view.find(b'"', at, at + 200)
    if start <= 0 or end < 0:
        return None
    kind = kind_of_name(view[start:end].decode(errors="replace"))
    value = _JSON_VALUE.match(view, end + 1)
    if value is None:
        pair = _JSON_PAIR.match(view, end + 1)
        if pair is None or kind == "none":
            return None
        return _leaf(*pair.span(1), view)
    if kind == "none":
        return iter(())
    name = view[start:end].lower()
    if kind == "weak" and name != b"token":
        text = value[1]
        weak = text is not None and is_plausible(text, "weak")
        return _leaf(*value.span(1), view) if weak else iter(())
    if value[1] is not None:
        if name == b"token" and _LANGUAGE.search(view, max(0, start - 120), end + 240):
            return iter(())
        return _leaf(*value.span(1), view)
    if value[2] is not None:
        # A number beside a token counts tokens.
        numeric = kind in ("password", "key") and not name.endswith((b"token", b"tokens"))
        return iter([Finding(*value.span(2), "named_secret", bare=True)] if numeric else [])
    if value[3] is not None and kind != "weak" and not _SCHEMA.match(view, value.start(3)):
        return _leaves(view, value.start(3))
    return iter(())


def _leaf(start: int, end: int, view: bytes) -> Iterator[Finding]:
    text = view[start:end]
    if end > start and not PLACEHOLDER.fullmatch(text) and text not in _MODES:
        yield Finding(start, end, "named_secret")


_MODES = (b"include", b"same-origin", b"omit")


def _leaves(view: bytes, start: int) -> Iterator[Finding]:
    depth = 0
    for match in _JSON_LEAF.finditer(view, start):
        first = match.group()[:1]
        if first in b"[{":
            depth += 1
        elif first in b"]}":
            depth -= 1
            if depth == 0:
                return
        elif first != b'"':
            yield Finding(*match.span(), "named_secret", bare=True)
        elif match[2] is None:
            yield from _leaf(*match.span(1), view)
