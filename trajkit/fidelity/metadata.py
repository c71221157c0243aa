"""Whether runtime metadata has values that can be: clocks, dates, durations, addresses."""

from __future__ import annotations

import re

from trajkit.fidelity.content import METADATA

MAX_YEARS_APART = 20
MAX_TIMES_LONGER = 1_000
MIN_LONG_SECONDS = 60.0

_YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")
_CLOCK = re.compile(r"(?<!\d)(\d{1,2}):(\d\d)(?::(\d\d))?")
_DATE = re.compile(r"\d{4}-(\d\d)-(\d\d)")
_LENGTH = re.compile(r"(?:(\d+)m)?(\d+(?:\.\d+)?) ?(ns|us|µs|ms|s)")
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}


def out_of_range(recorded: str, prediction: str) -> str | None:
    """Return the first metadata of a prediction that cannot be, or is far from the recorded.

    >>> out_of_range("at 2026-01-05 10:00:00", "at 2026-01-05 31:00:00")
    '2026-01-05 31:00:00'
    >>> out_of_range("took 0.31s", "took 0.42s") is None
    True
    """
    known = {match.group() for match in METADATA.finditer(recorded)}
    years = [int(year) for text in known for year in _YEAR.findall(text)]
    longest = max((_seconds(text) for text in known), default=0.0)
    for match in METADATA.finditer(prediction):
        text = match.group()
        if text in known:
            continue
        if match.lastgroup == "timestamp" and not _can_be(text, years):
            return text
        if match.lastgroup == "address" and any(
            int(n) > 255 for n in text.split(":")[0].split(".")
        ):
            return text
        limit = max(MIN_LONG_SECONDS, MAX_TIMES_LONGER * longest)
        if match.lastgroup == "duration" and longest and _seconds(text) > limit:
            return text
    return None


def identities(text: str) -> list[int]:
    """Return for each hash or id of a text which one it is, counted in order of appearance.

    >>> identities("9f3ab24c11 a\\n9f3ab24c11 b\\n00fe82ba9d c")
    [0, 0, 1]
    """
    order: dict[str, int] = {}
    return [
        order.setdefault(match.group(), len(order))
        for match in METADATA.finditer(text)
        if match.lastgroup == "hex_id"
    ]


def _can_be(timestamp: str, years: list[int]) -> bool:
    for hour, minute, second in _CLOCK.findall(timestamp):
        if int(hour) > 23 or int(minute) > 59 or int(second or 0) > 60:
            return False
    for month, day in _DATE.findall(timestamp):
        if not (1 <= int(month) <= 12 and 1 <= int(day) <= 31):
            return False
    return not years or all(
        min(years) - MAX_YEARS_APART <= int(year) <= max(years) + MAX_YEARS_APART
        for year in _YEAR.findall(timestamp)
    )


def _seconds(text: str) -> float:
    match = _LENGTH.match(text)
    if match is None:
        return 0.0
    minutes, number, unit = match.groups()
    return 60 * float(minutes or 0) + float(number) * _UNITS[unit]
