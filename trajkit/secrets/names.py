"""What a name says of the value beside it, and whether a value looks like a secret at all."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Literal

NameKind = Literal["password", "key", "weak", "none"]
"""`password`: people choose the value. `key`: a machine drew it. `weak`: it often is no secret."""

WORDS = (
    "passw",
    "passphrase",
    "pwd",
    "secret",
    "token",
    "credential",
    "authorization",
    "auth_key",
    "authkey",
    "apikey",
    "api_key",
    "api-key",
    "api key",
    "_key",
    "-key",
    "accesskey",
    "accountkey",
    "privatekey",
    "secretkey",
    "cookie",
    "signature=",
    'signature"',
    "sig=",
    "sessionid",
    "session_id",
    "_pass",
    "-pass",
)
"""Each name of a secret holds one of these (case apart)."""

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_APART = re.compile(r"[^a-z0-9]+")
_PASSWORD = re.compile(r"(?:^|_)(?:\w*password|passwd|passphrase|passcode|pwd|pass)(?:_hash)?$")
_KEY = re.compile(
    r"(?:^|_)(?:secret|secrets|client_?secret|app_?secret|secret_?(?:key|token|access_?key)"
    r"|api_?(?:key|token|secret)|apikeys?|api_keys|access_?(?:key|token)(?:_?id|_secret)?"
    r"|(?:auth|refresh|bearer|session|security|id|bot|user|deploy|personal|registry|webhook)_?token"
    r"|auth_?key|private_?(?:key|token)|(?:signing|encryption|master|account|storage|shared|license)"
    r"_?(?:access_)?key|service_?account_?key|credentials?|authorization|(?:set_)?cookie"
    r"|(?:amz|goog)_(?:signature|security_token)|(?:[a-z0-9]+_)+(?:api_)?token)$"
)
_WEAK = re.compile(
    r"(?:^|_)(?:token|tok|key|auth|sig|signature|jwt|session|session_?id|sid|bearer)$"
)


@lru_cache(maxsize=1 << 14)
def kind_of_name(name: str) -> NameKind:
    """Return what a name of a variable, field, header or option says of its value.

    >>> [kind_of_name(n) for n in ("DB_PASSWORD", "apiKey", "x-api-key", "XY_KEY", "max_tokens")]
    ['password', 'key', 'key', 'weak', 'none']
    """
    plain = _APART.sub("_", _CAMEL.sub("_", name).lower()).strip("_")
    plain = plain.rstrip("0123456789").rstrip("_")
    if _PASSWORD.search(plain):
        return "password"
    if _KEY.search(plain):
        return "key"
    return "weak" if _WEAK.search(plain) else "none"


_RUNS = re.compile(rb"[a-z]+|[A-Z]+|[0-9]+")
_HEX = re.compile(rb"(?:[0-9a-f]{32,}|[0-9A-F]{32,})")


def looks_drawn(value: bytes, *, mixed: bool = False) -> bool:
    """Return whether a value looks drawn by lot: it changes often between letters and digits.

    Text that people write has long runs of one class of characters. With `mixed` both cases and
    digits must be there, which leaves out hashes and most ids.

    >>> looks_drawn(b"test_long_identifier_number_12"), looks_drawn(b"q7Zp04rTkW9sd3Lm1XbY")
    (False, True)
    """
    n_digits = sum(value.count(digit) for digit in b"0123456789")
    if n_digits in (0, len(value)):
        return False
    if mixed and (value == value.lower() or value == value.upper()):
        return False
    if not mixed and _HEX.fullmatch(value):
        return True
    share = 0.42 if n_digits == 1 else 0.36 if mixed else 0.25
    return len(_RUNS.findall(value)) >= share * len(value) and entropy(value) >= (
        3.6 if mixed else 2.8
    )


def entropy(value: bytes) -> float:
    """Return the Shannon entropy of a value in bits a byte.

    >>> entropy(b"abab")
    1.0
    """
    n_bytes = len(value)
    return -sum(
        n_seen / n_bytes * math.log2(n_seen / n_bytes)
        for n_seen in (value.count(byte) for byte in set(value))
    )


_PLACEHOLDER = re.compile(
    rb"^(?:your|my[-_]|insert|replace|put[-_]|change[-_]?me|dummy|fake|sample|example|placeholder"
    rb"|redacted|none|null|undefined|true|false|required|optional|default|string|include"
    rb"|same-origin|omit|[$@%~]|\./|/|https?:|file:|process\.env|os\.)"
    rb"|x{4,}|\*{3,}|\.{3}|[<>{}]|example|redacted|placeholder|^(.)\1*$|%[sd(]|\$\(",
    re.IGNORECASE,
)
_MAX_PASSWORD = 128
_HAS_SIGN = re.compile(rb"[0-9!#$%^&*+?~@]")
_CHUNK = re.compile(rb"[A-Za-z]*[0-9]{0,3}|[0-9]{1,4}")
_CODE = re.compile(rb"[A-Za-z_]\w*(?:(?:\.|::|->)[A-Za-z_]\w*)+[?!]?")
_TYPE = re.compile(rb"[A-Z][a-z]+[A-Za-z]*\d{1,3}[A-Za-z]*")


def is_plausible(value: bytes, kind: NameKind) -> bool:
    """Return whether a value in a text, beside a name of this kind, is taken for a secret.

    Code writes such names all day: what stays are identifiers, types, words, variables and the
    fillers of examples.

    >>> [is_plausible(v, "password") for v in (b"hunter2", b"string", b"your-password", b"$PASS")]
    [True, False, False, False]
    >>> is_plausible(b"config.token2", "key"), is_plausible(b"4f9c77ab12de", "key")
    (False, True)
    """
    # The cheap tests first: a hostile text is nothing but names, each with a long value.
    if len(value) < 6 or (kind == "password" and len(value) > _MAX_PASSWORD):
        return False
    if not _HAS_SIGN.search(value) or _PLACEHOLDER.search(value):
        return False
    if kind == "weak":
        return len(value) >= 16 and looks_drawn(value, mixed=True)
    if kind == "password":
        return not _CODE.fullmatch(value)
    if len(value) < 8 or not re.search(rb"[0-9]", value) or not re.search(rb"[A-Za-z]", value):
        return False
    if looks_drawn(value):
        return True
    return not (_CODE.fullmatch(value) or _TYPE.fullmatch(value)) and not all(
        _CHUNK.fullmatch(chunk) for chunk in re.split(rb"[-_./: ]", value)
    )
