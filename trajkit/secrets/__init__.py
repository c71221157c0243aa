"""Find what may not be published: keys, passwords and traces of persons in plain bytes.

Three searches over a whole text, each at a few hundred MB/s, and small ones where they hit:

- kingfisher, a scanner with nearly 500 rules for keys of vendors, which works offline here: nothing
  found is ever tried against a service;
- the literals of our own rules in one pass (Aho-Corasick), each hit looked at with a regex: more
  vendors, names of secrets with their values, URLs, home folders, addresses, private keys, JWTs;
- long runs of letters and digits: keys of unknown vendors, and secrets wrapped in base64.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import polars as pl

from trajkit.secrets import assignments, personal
from trajkit.secrets.findings import PLACEHOLDER, Finding
from trajkit.secrets.names import WORDS, looks_drawn
from trajkit.secrets.vendor_keys import KEY, PREFIXES, WIDE_KEY, WIDE_PREFIXES

__all__ = ["PLACEHOLDER", "Finding", "find", "find_all"]

# The search goes three times as fast with no more than a hundred literals. So long prefixes of
# keys, which ordinary text does not hold, are only looked for in texts that a regex says have one.
_KEY_LITERALS = tuple(prefix for prefix in PREFIXES if len(prefix) <= 4) + WIDE_PREFIXES
RARE_LITERALS = tuple(prefix for prefix in PREFIXES if not prefix.startswith(_KEY_LITERALS))
"""Where one of these stands, a vendor's key may begin."""
LITERALS = tuple(
    sorted(
        {*WORDS, *_KEY_LITERALS}
        | {"://", "@", "/home/", "/users/", "\\users", "\\documents and settings", "eyj"}
        | {"-----begin", "phone", "tel:", "tel=", "mobile", "whatsapp", "fax", ":aa", "8q~"}
        | {" -u ", "--user ", "--proxy-user", "sshpass", "bearer ", "basic "}
    )
)
"""Where one of these stands (case apart), another rule looks closer."""
_WORD_FIRST = frozenset(word[:3].encode() for word in WORDS)
_KEY_FIRST = frozenset(prefix[:3].encode() for prefix in _KEY_LITERALS)
_ANY_RARE = "|".join(map(re.escape, RARE_LITERALS))

_GROUP = 16
_GROUP_BYTES = 1 << 18
_APART = b"\n" * 400

_LONG_RUN = r"[A-Za-z0-9+/_-]{23,}={0,2}"
_URL_LOGIN = re.compile(
    rb"://([^\s/?#@:\"'<>\\{}$,]{0,80}):([^\s/?#@\"'<>\\{}]{1,256})@(?=[\w.\[-])"
)
_URL_TOKEN = re.compile(rb"://([\w.-]{16,255})@(?=[\w.\[-])")
_COMMON_LOGINS = frozenset(b"pass password passwd pw pwd secret user port xxx".split())
_JWT = re.compile(
    rb"eyJ[\w-]{8,4096}\.(?:eyJ[\w-]{4,16384}\.[\w-]{0,4096}|[\w-]{0,1024}(?:\.[\w-]{8,}){3})"
)
_PRIVATE_KEY = re.compile(
    rb"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"
    rb"(?:(?:(?!-----).){0,20000}?-----END (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"
    rb"|(?:\s|\\[nr])*(?:[A-Za-z0-9+/=]{32,}(?:\s|\\[nr])*){1,200})",
    re.DOTALL,
)
_KEY_BODY = re.compile(rb"[A-Za-z0-9+/]{32}")
_TELEGRAM = re.compile(rb"(?<![0-9A-Za-z])[0-9]{8,10}:AA[\w-]{32,34}(?![\w-])")
_AZURE = re.compile(rb"(?<![\w~.-])[\w~.-]{3}8Q~[\w~.-]{31,34}(?![\w~.-])")
_AWS_SECRET = re.compile(rb"(?<![A-Za-z0-9/+=])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])")
_AWS_REACH = 400
_UNKNOWN_VENDOR = re.compile(
    rb"([a-z][a-z0-9]{1,11})[-_]((?:[a-z0-9]{1,10}[-_]){0,2})([A-Za-z0-9_-]{24,200})"
)
# Prefixes of ids that logs are full of, and of checksums; none of them opens a door.
_IDS = frozenset(
    b"toolu tooluse srvtoolu call msg req chatcmpl cmpl resp fc rs item run thread asst file "
    b"ses prt evt conv step gen functions function tool ws ctc batch session sess job event "
    b"trace span log img image css sha1 sha224 sha256 sha384 sha512 md5 etag reasoning id uuid "
    b"hash commit cache chunk tmp temp w test build node env block bundle vendor main index rev "
    b"blake2b integrity nonce message response request user part snapshot task agent turn".split()
)


def find(text: str) -> list[Finding]:
    """Return what may not be published in one plain text, in order of its bytes in UTF-8.

    >>> [found.kind for found in find("mail jane.roe@uni-ulm.de, password: hunter2")]
    ['email', 'named_secret']
    """
    return find_all([text.encode()], [_plain])[0]


def _plain(_: int) -> bool:
    return False


def find_all(
    texts: Sequence[bytes], in_json: Sequence[Callable[[int], bool]]
) -> list[list[Finding]]:
    """Return the findings of each text, sorted; they may overlap.

    `in_json` says of a position in a text whether it lies in a JSON document, its strings free of
    escapes: there a field with the name of a secret is one whatever its value. It is asked only
    where a name stands. Texts must be UTF-8.
    """
    column = pl.Series(texts, dtype=pl.Binary).cast(pl.String)
    hits = column.str.find_many(list(LITERALS), ascii_case_insensitive=True, overlapping=True)
    with_rare = column.set(~column.str.contains(_ANY_RARE), None)
    rare = with_rare.str.find_many(list(RARE_LITERALS), overlapping=True)
    runs = column.str.extract_all(_LONG_RUN)
    numbers = column.str.contains(personal.NUMBER_BEGINS)
    found = []
    columns = (each.to_list() for each in (hits, rare, runs, numbers))
    for text, scanned, at, of_rare, long, has_number, is_json in zip(
        texts, _scanned_each(texts), *columns, in_json, strict=True
    ):
        one = set(scanned)
        one.update(_at_hits(text, at, is_json))
        for place in of_rare or ():
            one.update(_vendor_key(text, place))
        if has_number:
            one.update(personal.numbers_in(text))
        for run in set(long):
            kind = _kind_of_run(run)
            if kind is not None:
                one.update(occurrences(text, run.encode(), kind))
        found.append(sorted(one))
    return found


@lru_cache(maxsize=1)
def _scanner() -> Any:
    from kingfisher_sdk import Rules, Scanner

    return Scanner(Rules(), base64=False)


def _scanned_each(texts: Sequence[bytes]) -> Iterator[Iterable[Finding]]:
    """Give the scanner's findings in each text.

    A call costs what 3 kB of text do, so short texts are scanned as one first, too far apart for
    any rule, and by themselves only where that finds something.
    """
    for first in range(0, len(texts), _GROUP):
        group = texts[first : first + _GROUP]
        short = sum(map(len, group)) < _GROUP_BYTES
        quiet = short and not _scan(_APART.join(group))
        yield from (() if quiet else _scanned(text) for text in group)


def _scan(text: bytes) -> list[Any]:
    # NUL bytes would make the scanner take a text for UTF-16, and its offsets useless.
    found: list[Any] = _scanner().scan(text.replace(b"\0", b" "))
    return found


def _scanned(text: bytes) -> Iterator[Finding]:
    for found in _scan(text):
        if not found.visible:
            continue
        place = found.location
        start, end = place["start_offset"], place["end_offset"]
        value = text[start:end]
        if PLACEHOLDER.search(value) or value.lower() in _COMMON_LOGINS:
            continue
        # A URL with a login is cut where the login stands; only a URL that is a key goes whole.
        if b"://" not in value or value.startswith(b"https://"):
            yield Finding(start, end, "vendor_key")


def _at_hits(text: bytes, hits: list[int], in_json: Callable[[int], bool]) -> Iterator[Finding]:
    named_to = -1
    for at in sorted(set(hits)):
        first = text[at : at + 3].lower()
        if first[:1] == b"@":
            yield from personal.email_at(text, at)
            continue
        if first == b"://":
            yield from _in_url(text, at)
            continue
        if first[:1] in (b"/", b"\\"):
            yield from personal.home_at(text, at)
            continue
        if text[at : at + 3] in _KEY_FIRST:
            yield from _vendor_key(text, at)
        if first == b"eyj":
            match = _JWT.match(text, at)
            if match:
                yield Finding(*match.span(), "jwt")
        elif first == b"---":
            match = _PRIVATE_KEY.match(text, at)
            if match and _KEY_BODY.search(match.group()):
                yield Finding(*match.span(), "private_key")
        elif first in (b":aa", b"8q~"):
            back = 10 if first == b":aa" else 3
            for start in range(max(0, at - back), at):
                match = (_TELEGRAM if first == b":aa" else _AZURE).match(text, start)
                if match:
                    yield Finding(*match.span(), "vendor_key")
                    break
        elif first in (b"pho", b"tel", b"mob", b"wha", b"fax"):
            yield from personal.number_at(text, at)
        elif first in (b" -u", b"--u", b"--p", b"ssh", b"bea", b"bas"):
            yield from assignments.options_at(text, at + (first == b" -u"))
        if first in _WORD_FIRST and at >= named_to:
            if in_json(at):
                fields = assignments.fields_at(text, at)
                if fields is not None:
                    for found in fields:
                        named_to = max(named_to, found.end)
                        yield found
                    continue
            start, named_to = assignments.name_at(text, at)
            yield from assignments.assigned_at(text, start, named_to)


def _vendor_key(text: bytes, at: int) -> Iterator[Finding]:
    match = KEY.match(text, at)
    if match:
        yield Finding(*match.span(), "vendor_key")
        if text[at : at + 4] in (b"AKIA", b"ASIA"):
            around = max(0, at - _AWS_REACH), match.end() + _AWS_REACH
            for secret in _AWS_SECRET.finditer(text, *around):
                if looks_drawn(secret.group(), mixed=True):
                    yield Finding(*secret.span(), "vendor_key")
        return
    match = WIDE_KEY.match(text, at)
    if match and looks_drawn(match[1]):
        yield Finding(*match.span(), "vendor_key")


def _in_url(text: bytes, at: int) -> Iterator[Finding]:
    match = _URL_LOGIN.match(text, at)
    if match:
        if match[2].lower() not in _COMMON_LOGINS and not match[2].startswith((b"$", b"%s", b"*")):
            yield Finding(*match.span(2), "url_password")
        return
    match = _URL_TOKEN.match(text, at)
    if match and looks_drawn(match[1]):
        yield Finding(*match.span(1), "url_password")


def occurrences(text: bytes, value: bytes, kind: str) -> Iterator[Finding]:
    """Give each place where a value stands, no letter or digit beside it."""
    at = text.find(value)
    while at >= 0:
        end = at + len(value)
        begins = not text[max(0, at - 1) : at].isalnum() or text[max(0, at - 2) : at] in _ESCAPES
        if begins and not text[end : end + 1].isalnum():
            yield Finding(at, end, kind)
        at = text.find(value, end)


_ESCAPES = (rb"\n", rb"\r", rb"\t")


def _kind_of_run(run: str) -> str | None:
    """Return why a long run of letters and digits is a secret, or null."""
    return _kind_of_short_run(run) if len(run) <= 200 else _kind(run.encode())


@lru_cache(maxsize=1 << 14)
def _kind_of_short_run(run: str) -> str | None:
    return _kind(run.encode())


def _kind(value: bytes) -> str | None:
    match = _UNKNOWN_VENDOR.fullmatch(value.rstrip(b"="))
    if match and match[1].lower() not in _IDS and looks_drawn(match[3], mixed=True):
        return "unknown_vendor_key"
    return "base64_secret" if _wraps_a_secret(value) else None


def _wraps_a_secret(value: bytes) -> bool:
    digits = value.rstrip(b"=")
    if len(digits) % 4 == 1 or len(value) > 1 << 20:
        return False
    try:
        plain = base64.b64decode(
            digits.replace(b"-", b"+").replace(b"_", b"/") + b"=" * (-len(digits) % 4)
        )
    except (binascii.Error, ValueError):
        return False
    if not plain.isascii() or not plain.replace(b"\n", b" ").decode().isprintable():
        return False
    return any(found.group == "secret" for found in find_all([plain], [_plain])[0])
