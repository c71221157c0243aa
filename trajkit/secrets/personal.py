"""Traces of persons: e-mail addresses, names in home folders and prompts, phone numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from trajkit.secrets.findings import Finding

_LOCAL = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._%+-"
_DOMAIN = re.compile(
    rb"((?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,62})\.){1,8}[A-Za-z]{2,24})(?![A-Za-z0-9@(]|-[A-Za-z0-9]|:[\w~/])"
)
_NO_DOMAIN = re.compile(
    rb"(?:^|\.)(?:example\.(?:com|org|net|edu)|example|test|invalid|local|localhost|internal)$"
    rb"|\.(?:png|jpe?g|gif|svg|webp|ico|css|scss|js|mjs|jsx|ts|tsx|vue|json|ya?ml|toml|py|rs|go|java"
    rb"|rb|c|h|cpp|txt|md|html?|xml|zip|gz|tgz|whl|jar|so|exe|log|lock|csv|pdf|service|socket|timer"
    rb"|target|tar|deb|rpm|patch|diff|conf|cfg|ini|bin|dll|sql|db|mp4|mp3|map|next|prod|dev\d*|rc\d*"
    rb"|alpha|beta)$|^[0-9]+\.[0-9]+",
    re.IGNORECASE,
)
_ROLES = re.compile(
    rb"(?:no-?reply|donotreply|git|hg|svn|user|username|you|your-?email|name|root)", re.I
)
_HOST = re.compile(rb"[A-Za-z][\w.-]{0,62}:(?:~|/)")
_ACCOUNT = rb"[A-Za-z][A-Za-z0-9._-]{0,31}"
_HOME = re.compile(
    rb"(?:/home/|/Users/)(%s)(?=[/\"'`\s:;,)\]}>|]|\\[nrt\"']|$)" % _ACCOUNT, re.IGNORECASE
)
_WINDOWS_HOME = re.compile(
    rb"(?:\\{1,8}|/)(?:Users|Documents and Settings)(\\{1,8}|/)"
    rb"([A-Za-z][\w.-]*(?: [A-Z][\w.-]*)?)(?=\1|[\"'\s;>]|$)",
    re.IGNORECASE,
)
_BEFORE_HOME = re.compile(
    rb"(?:^|[\s\"'`=:(,;\[{|>@<!]|\\[nrt]|/(?:export|var|usr|mnt|media|data|System/Volumes/Data|host)"
    rb"|/[a-z]|-I|-L|file://|[A-Za-z]:)$",
    re.IGNORECASE,
)
_URL_BEFORE = re.compile(rb"https?:/{0,2}$")
_GENERIC = frozenset(
    b"user users username usr ubuntu root admin administrator runner runneradmin vscode node "
    b"app apps dev devuser developer agent openhands oai sandbox coder circleci gitpod jovyan "
    b"kasm-user pwuser ec2-user centos debian fedora alpine vagrant docker www www-data web "
    b"git postgres mysql jenkins build builder test tester testuser student guest me you "
    b"yourname your_name your-name name shared public default linuxbrew swe-agent nonroot "
    b"container workspace data project projects code src model nobody daemon bin mail nginx "
    b"ftp someone somebody foo bar xxx myuser my_user youruser containeradministrator "
    b"containeruser defaultuser appuser service system local opc pi worker computeruse claude "
    b"codespace azureuser cloudshell-user gem nix-user scratch tmp example home index page "
    b"pages dashboard about login settings".split()
)
_PLUS_PHONE = re.compile(
    rb"\+[1-9][0-9]{0,2}(?:[ -]?\([0-9]{1,4}\)|[ -])[ -]?[0-9]{2,5}(?:[ -]?[0-9]{2,5}){1,4}"
    rb"(?![\w.,:-]?[0-9])"
)
_PARENTHESIS_PHONE = re.compile(rb"\([2-9][0-9]{2}\) ?[2-9][0-9]{2}[-.][0-9]{4}(?![\w-])")
NUMBER_BEGINS = r"\+[1-9][0-9]{0,2}[ (-]|\([2-9][0-9]{2}\) ?[2-9]"
"""What a text must hold for `numbers_in` to find something, for a search without Python."""
_NAMED_PHONE = re.compile(
    rb"(?:phone|tel|mobile|whatsapp|fax)(?:[ _-]?(?:number|no\.?|nr\.?))?"
    rb"\\{0,4}[\"']?[ \t]{0,3}[:=]?[ \t]{0,3}\\{0,4}[\"']?"
    rb"(\+?[0-9][0-9() .-]{7,18}[0-9])(?![\w.-]*[0-9])",
    re.IGNORECASE,
)


def email_at(text: bytes, at: int) -> Iterator[Finding]:
    """Give the address around an `@`, or the name before it in the prompt of a shell.

    Addresses of reserved domains and of no person (`noreply`) are none; nor are package versions,
    picture names and remotes of git.
    """
    head = text[max(0, at - 65) : at]
    local = head[len(head.rstrip(_LOCAL)) :]
    start = at - len(local)
    if start >= 1 and text[start - 1 : start] == b"\\" and local[:1] in (b"n", b"r", b"t"):
        start, local = start + 1, local[1:]
    kept = local.lstrip(b".-+%")
    start, local = start + len(local) - len(kept), kept
    if not local or len(local) > 64 or local.endswith(b"."):
        return
    if text[start - 1 : start] == b":" and b"://" in text[max(0, start - 90) : start].split()[-1]:
        return
    domain = _DOMAIN.match(text, at + 1)
    if domain and not _NO_DOMAIN.search(domain[1]):
        if not _ROLES.fullmatch(local):
            yield Finding(start, domain.end(1), "email")
    elif _HOST.match(text, at + 1) and is_personal(local):
        before = text[max(0, start - 1) : start]
        if before in (b"", b"\n", b"(", b" ", b"m", b"["):
            yield Finding(start, at, "user_name")


def is_personal(account: bytes) -> bool:
    """Return whether an account name may be a person's: machines and examples share the others."""
    return len(account) > 1 and account.lower() not in _GENERIC


def home_at(text: bytes, at: int) -> Iterator[Finding]:
    """Give the name in a path below /home, /Users or C:\\Users that begins at this position."""
    match = _HOME.match(text, at)
    if match:
        before = text[max(0, at - 24) : at]
        name = match[1].rstrip(b".")
        if (
            _BEFORE_HOME.search(before)
            and not _URL_BEFORE.search(before)
            and is_personal(name)
            and not re.search(rb"\.(?:html?|php|jsx?|tsx?|css|py|json|md|png|aspx?)$", name)
        ):
            yield Finding(match.start(1), match.start(1) + len(name), "user_name")
        return
    match = _WINDOWS_HOME.match(text, at)
    if match and (
        match[1] != b"/" or re.search(rb"(?:[A-Za-z]:|/[a-z])$", text[max(0, at - 3) : at])
    ):
        name = match[2]
        if is_personal(name) and name.lower() != b"all users":
            yield Finding(*match.span(2), "user_name")


def numbers_in(text: bytes) -> Iterator[Finding]:
    """Give phone numbers with a country code or in brackets: what nothing else looks like."""
    for match in _PLUS_PHONE.finditer(text):
        before = text[max(0, match.start() - 1) : match.start()]
        n_digits = sum(match.group().count(digit) for digit in b"0123456789")
        if 9 <= n_digits <= 15 and not before.isalnum() and before not in (b"+", b"."):
            yield Finding(*match.span(), "phone")
    for match in _PARENTHESIS_PHONE.finditer(text):
        yield Finding(*match.span(), "phone")


def number_at(text: bytes, at: int) -> Iterator[Finding]:
    """Give the phone number after a word such as `phone` at this position."""
    match = _NAMED_PHONE.match(text, at)
    if match:
        digits = bytes(c for c in match[1] if chr(c).isdigit())
        if 9 <= len(digits) <= 15 and len(set(digits)) > 2 and not _looks_like_time(match[1]):
            yield Finding(*match.span(1), "phone")


def _looks_like_time(text: bytes) -> bool:
    return bool(re.match(rb"(?:19|20)\d\d-\d\d-\d\d", text))


_OWNER_FOLLOWS = (
    *(b"-Users-", b"-home-", b"~", b"USER=", b"LOGNAME=", b"USERNAME="),
    *(b"owner: ", b"/run/media/", b"/mail/", b"chown "),
)


def names_again(text: bytes, names: Iterable[bytes]) -> Iterator[Finding]:
    """Give the places where a known account name stands as one: owners, prompts, `whoami`."""
    for name in sorted(set(names)):
        start = text.find(name)
        while start >= 0:
            end = start + len(name)
            if not _INSIDE_NAME.match(text, end) and _is_account(text, start, end):
                yield Finding(start, end, "user_name")
            start = text.find(name, end)


_INSIDE_NAME = re.compile(rb"[A-Za-z0-9_]")
_LISTING = re.compile(rb"[-dlbcps][rwxsStT-]{9}[.+@]? +[0-9]+ (?:[^ ]+ +)?$")


def _is_account(text: bytes, start: int, end: int) -> bool:
    line = text.rfind(b"\n", max(0, start - 80), start) + 1
    before, after = text[max(line, start - 80) : start], text[end : end + 1]
    if not before:
        return after in (b"", b"\n", b"@", b":", b" ") and _is_alone(text, end)
    return (
        before.endswith(_OWNER_FOLLOWS)
        or (before.endswith(b"(") and b"id=" in before)
        or bool(before.endswith(b" ") and _LISTING.match(before))
    )


def _is_alone(text: bytes, end: int) -> bool:
    """Return whether a name at the start of a line is all of it, a prompt, or a row of `ps`."""
    rest = text[end : end + 80].split(b"\n")[0]
    return not rest or bool(re.match(rb"@[\w.-]+|:x?:[0-9]+:| +[0-9]{1,7} ", rest))
