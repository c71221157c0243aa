"""What a rationale written with the answer in view must not do: give away what it saw.

Three checks: no talk of an answer that was given; no quote of a span that only the answer holds;
no path, number, code or name that stands neither in the prompt nor follows from it. Everything is
compared with the very prompt that the training row carries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal, DivisionByZero, InvalidOperation

QUOTE_CHARS = 32
"""Shortest quote that counts. Standard messages stay free: `No such file or directory` is 25."""

_NOUN = r"(?:answer|observation|output|response|outcome|solution|completion)s?"
_NO_ADJECTIVE = r"(?! (?:path|dir|director|file|folder|format|name|type|schema|option|flag|field))"
_NEXT = r"(?:next|following|coming|later|subsequent|future)"
_ANTWORT = r"(?:antwort|ausgabe|beobachtung|lösung|ergebnis|referenz)\w*"
_ANSWER_TALK = re.compile(
    rf"\b(?:given|provided|supplied|recorded|reference|gold(?:en)?|true) {_NOUN}\b{_NO_ADJECTIVE}"
    r"|\b(?:recorded|gold(?:en)?) (?:result|state|screen|page|tree)\b|\bground[- ]truth\b"
    r"|\banswer key\b|\b(?:in|with) hindsight\b"
    rf"|\baccording to the (?:reference(?! (?:manual|doc|guide|page|card))|recording|{_NOUN})\b"
    r"|\bas (?:we|i|you)(?:'ll| will| shall) (?:soon |later |shortly )?(?:see|learn|find)\b"
    r"|\bas will (?:be seen|be shown|become clear)\b"
    rf"|\b(?:since|because|as|given that|knowing that) the {_NEXT} "
    r"(?:command|action|step|turn|output|observation|state|response|result|screen|page)\b"
    rf"|\bthe {_NEXT} (?:observation|state) (?:shows?|showed|contains?|reveals?|reads?|says?)\b"
    r"|\b(?:i|we)(?:'m|'re|'ve been| am| are| was| were| have been| had been) "
    rf"(?:given|told|shown|provided with) (?:the|what the|that the) (?:\w+ )?(?:{_NOUN}|environ)"
    rf"|\b(?:answer|observation) (?:is |was )?(?:given|provided|supplied|shown) "
    r"(?:to me|above|below|here|in the (?:prompt|question))\b"
    r"|\bthe environment (?:has |had )?(?:answered|responded|replied|returned)\b"
    rf"|\b(?:why|reason(?: why)?) the {_NOUN} (?:is|was)\b"
    rf"|\bwie vorgegeben\b|\b(?:vorgegebene|gegebene|aufgezeichnete)[nrms]? {_ANTWORT}"
    rf"|\b(?:laut|gemäß)(?: der| dem)? (?:muster|vorgabe|aufzeichnung|{_ANTWORT})"
    r"|\bmusterlösung\b|\bwie wir (?:gleich |noch |später )?sehen werden\b|\bim nachhinein\b",
    re.IGNORECASE,
)
_SPACE = re.compile(r"\s+")
_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\d+(?:\.\d+)*")
_GROUPED = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_TERM = r"(\d{1,15}(?:\.\d{1,15})?)"
_COMPUTED = re.compile(
    rf"(?<![\d.]){_TERM} ?([-+*/×x]) ?{_TERM} ?(?:=|is|gives|makes) ?{_TERM}(?![\d.]*\d)"
)
_URL = re.compile(r"\bhttps?://[^\s<>\"'`)\]]+")
_PATH = re.compile(
    r"(?<![\w/.<])(?:(?:~|\.{1,2})?/[\w.@+-]{0,80}[A-Za-z_][\w.@+-]{0,80}(?:/[\w.@+-]{1,80}){0,40}/?"
    r"|(?:[\w.@+-]{1,80}/){1,40}[\w@+-]{1,80}\.[a-z]\w{0,5}"
    r"|[\w@+-]{2,80}\.[a-z][a-z0-9]{0,4}(?!\w))"
)
_CODE = re.compile(r"\b(?=\w*[A-Za-z])(?=(?:\w*?\d){3})\w{6,}\b")
_NAME = re.compile(
    r"\b[A-Za-z]\w*_\w+\b|\b[A-Za-z]\w*[a-z][A-Z]\w*\b|\b[A-Z]{2,}[a-z]\w*\b|`([^`\s]{4,60})`"
)
_CAPITALISED = re.compile(r"(?<=[a-z,;] )[A-Z][a-z]{3,}\b")
_ERROR_CLASS = re.compile(r"(?:Error|Exception|Warning)$")
# Whole percents, what shells and HTTP end with: known without having been seen.
_CODES = (
    "100 126 127 128 130 137 139 143 255 200 201 204 301 302 304 400 401 403 404 405 409 422 429 "
    "500 502 503 504"
)
_STANDARD_NUMBERS = frozenset(_CODES.split())
_MESSAGES = (
    "accepted bad command conflict content created denied directory entity error exception failed "
    "file forbidden found gateway internal invalid json module moved name none null object "
    "operation permission permissions permitted possible request server service success "
    "successfully syntax timeout traceback true unauthorized unavailable unknown usage warning"
)
_STANDARD_WORDS = frozenset(_MESSAGES.split())
"""Words of standard messages: no names, even where they are capitalised."""


def leak(rationale: str, known: str, future: str) -> str | None:
    """Return the slug of how a rationale gives the answer away, null when it does not.

    `known` is all that the reader of the rationale has: prompt, history and action. `future` is
    the recorded observation. A fact that stands in neither is refused too: it is invented.

    >>> leak("The recorded answer lists two files.", "ls", "a b")
    'answer_talk'
    >>> leak("The count ends up in report.csv.", "wc -l notes.md", "12 report.csv")
    'future_fact'
    >>> leak("It counts the lines and repeats notes.md.", "wc -l notes.md", "12 notes.md")
    """
    rationale, known, future = (_plain(text) for text in (rationale, known, future))
    for match in _ANSWER_TALK.finditer(rationale):
        # A history that speaks this way itself may be spoken of.
        if match.group().lower() not in known.lower():
            return "answer_talk"
    if quotes(rationale, known, future):
        return "future_quote"
    reasons = {
        "future_fact" if fact in future else "invented_fact"
        for fact in _unfounded(rationale, known, future)
    }
    return max(reasons, default=None, key=("invented_fact", "future_fact").index)


def quotes(rationale: str, known: str, future: str) -> bool:
    """Return whether a rationale quotes a span of the future that nothing known holds.

    A span counts from `QUOTE_CHARS` characters on, white space aside, if a word of it stands
    nowhere in what is known: what is put together from known words can be derived.
    """
    rationale, known, future = (_squeezed(text) for text in (rationale, known, future))
    n = QUOTE_CHARS
    said = {rationale[start : start + n] for start in range(len(rationale) - n + 1)}
    words: set[str] | None = None
    for start in range(len(future) - n + 1):
        span = future[start : start + n]
        if span not in said or span in known:
            continue
        if words is None:
            words = set(_WORD.findall(known))
        # The words at the edges may be cut.
        inner = span[span.find(" ") + 1 : span.rfind(" ")] if span.count(" ") > 1 else span
        if any(word not in words for word in _WORD.findall(inner)):
            return True
    return False


def _plain(text: str) -> str:
    return text.replace("’", "'").replace("\u200b", "")


def _squeezed(text: str) -> str:
    return _SPACE.sub(" ", text).strip().lower()


def _unfounded(rationale: str, known: str, future: str) -> Iterator[str]:
    """Give the facts a rationale names that are not to be had from what is known."""
    lowered = known.lower()
    rest = rationale
    for pattern in (_URL, _PATH):
        for match in pattern.finditer(rest):
            fact = match.group().rstrip(".,;:")
            if not _put_together(fact.lower(), lowered):
                yield fact
        rest = pattern.sub(" ", rest)
    numbers = _numbers(known)
    for fact in _CODE.findall(rest):
        if fact.lower() not in lowered:
            yield fact
    rest = _GROUPED.sub("", _CODE.sub(" ", rest))
    numbers |= _computed(rest, numbers)
    for fact in _NUMBER.findall(rest):
        plain = _bare(fact)
        if len(plain) > 1 and plain not in numbers and plain not in _STANDARD_NUMBERS:
            yield fact
    # A name that stands nowhere may be knowledge of the world; one that only the future holds
    # was read there.
    for match in _NAME.finditer(rationale):
        fact = match.group(1) or match.group()
        if fact in future and fact.lower() not in lowered and not _ERROR_CLASS.search(fact):
            yield fact
    for fact in _CAPITALISED.findall(rationale):
        if fact.lower() not in lowered and fact.lower() not in _STANDARD_WORDS and fact in future:
            yield fact


def _put_together(path: str, known: str) -> bool:
    """Return whether a path is known, or each of its pieces is."""
    return path in known or all(piece in known for piece in re.split(r"/+", path) if piece)


def _bare(number: str) -> str:
    return number.lstrip("0") or "0"


def _numbers(text: str) -> set[str]:
    """Return every number of a text, and the pieces of those with dots."""
    found = set()
    for number in _NUMBER.findall(text) + _NUMBER.findall(_GROUPED.sub("", text)):
        found.add(_bare(number))
        found.update(map(_bare, number.split(".")))
    return found


def _computed(rationale: str, numbers: set[str]) -> set[str]:
    """Return results that a rationale works out from known numbers, and rightly so."""
    found: set[str] = set()
    for match in _COMPUTED.finditer(rationale):
        left, sign, right, result = match.groups()
        if all(len(n) == 1 or _bare(n) in numbers | found for n in (left, right)) and (
            _apply(Decimal(left), sign, Decimal(right)) == Decimal(result)
        ):
            found.add(_bare(result))
    return found


def _apply(left: Decimal, sign: str, right: Decimal) -> Decimal | None:
    try:
        if sign == "+":
            return left + right
        if sign == "-":
            return left - right
        return left / right if sign == "/" else left * right
    except (DivisionByZero, InvalidOperation):
        return None
