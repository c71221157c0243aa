"""Answers of search tools taken apart: result lists in their usual forms, and pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from trajkit.fidelity.json_shape import MAX_KEPT_CHARS, read_answer

Form = Literal["labels", "links", "documents", "none"]

_START = re.compile(
    r"^\[(?P<label>\d{1,4})\][ \t](?P<address>\S.*)$"
    r"|^(?P<link>\d{1,4})\. \[(?P<title>.{1,400})\]\((?P<target>\S{1,2000})\)[ \t]*$"
    r"|^Doc (?P<document>\d{1,4})\(Title: \"?(?P<name>[^\n]{1,200}?)\"?\)",
    re.MULTILINE,
)
_FORMS: dict[str, Form] = {"label": "labels", "link": "links", "document": "documents"}
_FIELD = re.compile(
    r"^(Title|Snippet|Date|URL|Url|Source|Published|Summary|Date published): ?(.*)$", re.MULTILINE
)
_PAGE = re.compile(r"^(?:Page|URL|Url|Source): (https?://\S{1,2000})[ \t]*$", re.MULTILINE)
_HEADING = re.compile(r"^# (.{1,400})$", re.MULTILINE)
_RUN = re.compile(r"[^.!?…\n|]{25,400}")
_STOPS = ("", "\n", ".", "!", "?", "…", "|")
MAX_RUN_TEXT_CHARS = 20_000
MIN_RUN_CHARS = 25
"""Fewer signs may stand in two texts by chance."""
_DATES = ("Date", "Date published", "Published", "Last changed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One search result."""

    number: int
    """Its number in the list."""
    url: str
    """Its address; empty where the form has none."""
    title: str
    """Its title; empty where none stands."""
    labels: tuple[str, ...]
    """Names of its labelled lines, in order, and `text` for a text without a label."""
    date: str
    """Its date; empty where none stands."""
    text: str
    """All that stands below its first line, labels too; for documents the first line as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """A list of search results taken apart."""

    form: Form
    """How an entry begins."""
    entries: tuple[Entry, ...]
    """The entries of all queries, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What was told of one address."""

    url: str
    """The address."""
    title: str
    """Its title; empty where none stands."""
    date: str
    """Its date; empty where none stands."""
    text: str
    """Its text, or the piece of it that a list showed."""


def read_results(text: str) -> Results:
    """Return the numbered results of an answer; short answers are kept, to be looked at again.

    >>> read_results("[1] https://a.example/x\\nTitle: A\\nSnippet: b").entries[0].title
    'A'
    """
    return _kept_results(text) if len(text) <= MAX_KEPT_CHARS else _results(text)


def _results(text: str) -> Results:
    starts = list(_START.finditer(text))
    found: list[Entry] = []
    form: Form = "none"
    for number, start in enumerate(starts):
        end = starts[number + 1].start() if number + 1 < len(starts) else len(text)
        entry = _entry(start, text[start.end() : end])
        if entry is not None:
            found.append(entry)
            form = _FORMS[_kind(start)]
    return Results(form=form, entries=tuple(found))


_kept_results = lru_cache(maxsize=256)(_results)


def _kind(start: re.Match[str]) -> str:
    return next(name for name in _FORMS if start[name] is not None)


def _entry(start: re.Match[str], below: str) -> Entry | None:
    kind = _kind(start)
    fields = [(m[1], m[2].strip()) for m in _FIELD.finditer(below)]
    if kind == "label" and not fields:
        return None  # A numbered line of a page, not a result.
    labels = [name for name, _ in fields]
    if kind != "label" and _FIELD.sub("", below).strip():
        labels.append("text")
    values = dict(fields)
    return Entry(
        number=int(start[kind]),
        url=(start["address"] or start["target"] or "").strip(),
        title=start["title"] or start["name"] or values.get("Title", ""),
        labels=tuple(labels),
        date=next((values[name] for name in _DATES if values.get(name)), ""),
        text=below if kind != "document" else below.strip(),
    )


def pages_of(text: str) -> tuple[Page, ...]:
    """Return what an answer tells of each address: entries of lists, results as JSON, pages.

    >>> pages_of("Page: https://a.example/x\\n\\n# Of a\\n\\nA is a letter.")[0].title
    'Of a'
    """
    return _kept_pages(text) if len(text) <= MAX_KEPT_CHARS else _pages(text)


def _pages(text: str) -> tuple[Page, ...]:
    found = [
        Page(url=e.url, title=e.title, date=e.date, text=e.text)
        for e in read_results(text).entries
        if e.url
    ]
    return tuple(found or _json_pages(text) or _whole_pages(text))


_kept_pages = lru_cache(maxsize=256)(_pages)


def _json_pages(text: str) -> list[Page]:
    if text[:1] not in ("{", "["):
        return []
    return [
        Page(
            url=values["url"],
            title=values.get("title", ""),
            date=values.get("date", ""),
            text="\n".join(value for key, value in values.items() if key != "url"),
        )
        for values, _ in read_answer(text).records
        if "url" in values
    ]


def _whole_pages(text: str) -> Iterator[Page]:
    starts = list(_PAGE.finditer(text))
    for number, start in enumerate(starts):
        end = starts[number + 1].start() if number + 1 < len(starts) else len(text)
        own = text[start.end() : end]
        title = _HEADING.search(own)
        date = re.search(r"^Last changed: (.+)$", own, re.MULTILINE)
        yield Page(
            url=start[1],
            title=title[1].strip() if title else "",
            date=date[1].strip() if date else "",
            text=own,
        )


def shared_runs(text: str, other: str) -> set[str]:
    """Return the runs of words of a text that the other text has too, from stop to stop.

    A run that its own text cuts off with dots may go on in the other.

    >>> shared_runs("Snippet: ...It tells of the founding of Korv...", "It tells of the founding.")
    set()
    >>> shared_runs("It tells of the founding of K...", "It tells of the founding of Korvand.")
    {'It tells of the founding of K'}
    """
    found = set()
    for match in _RUN.finditer(text[:MAX_RUN_TEXT_CHARS].replace("Snippet: ", "\n")):
        run = match.group().strip()
        place = other.find(run) if len(run) >= MIN_RUN_CHARS else -1
        if place < 0:
            continue
        cut = match.string.startswith(("...", "…"), match.end())
        if cut or other[place + len(run) : place + len(run) + 1] in _STOPS:
            found.add(run)
    return found
