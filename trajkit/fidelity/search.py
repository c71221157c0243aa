"""Rule checks of search answers: result lists, pages, addresses, what was seen before."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from trajkit.fidelity.content import action_text, compare, earlier_texts
from trajkit.fidelity.findings import GUARD, Case, Finding, finding
from trajkit.fidelity.mcp import check as check_tool
from trajkit.fidelity.outcome import error_kinds

_START = re.compile(r"^\[(\d{1,4})\][ \t](\S.*)$", re.MULTILINE)
_FIELD = re.compile(r"^(Title|Snippet|Date|URL|Url|Source|Published|Summary): ?(.*)$", re.MULTILINE)
_URL = re.compile(r"https?://[^\s/?#]{1,253}\.[^\s/?#.]{2,63}(?::\d{1,5})?(?:[/?#]\S*)?\Z")
_URL_INSIDE = re.compile(r"https?://[^\s\"'<>)\]]{3,2000}")
_FAILURE = re.compile(
    r"^(?:Error\b|Failed\b)|\b(?:404 Not Found|403 Forbidden|[Nn]o results?(?: were)? found|"
    r"[Nn]o results\b|could not be (?:fetched|reached|read)|[Uu]nable to (?:fetch|access))",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One search result."""

    number: int
    """Its number in the list."""
    url: str
    """What stands behind the number."""
    fields: tuple[tuple[str, str], ...]
    """Labels and first lines of the values, in order."""

    def value(self, label: str) -> str | None:
        """Return the first line of a field."""
        return next((value for name, value in self.fields if name == label), None)


def entries(text: str) -> list[Entry]:
    """Return the numbered results of an answer, in order.

    >>> [e.url for e in entries("[1] https://a.example/x\\nTitle: A\\nSnippet: b")]
    ['https://a.example/x']
    """
    starts = list(_START.finditer(text))
    found = []
    for number, start in enumerate(starts):
        end = starts[number + 1].start() if number + 1 < len(starts) else len(text)
        fields = tuple((m.group(1), m.group(2)) for m in _FIELD.finditer(text, start.end(), end))
        if fields:
            url = start.group(2).strip()
            found.append(Entry(number=int(start.group(1)), url=url, fields=fields))
    return found


def check(case: Case) -> Iterator[Finding]:
    """Give what the rules see in a search answer; a memory call is judged as any tool's."""
    truth, guess = entries(case.recorded), entries(case.prediction)
    failed = bool(_FAILURE.search(case.recorded)) and not truth
    got_failed = bool(_FAILURE.search(case.prediction)) and not guess
    if not truth and not _is_page(case):
        yield from check_tool(case)
        return
    yield finding(
        "wrong_exit_class",
        "factuality",
        float(failed == got_failed),
        "an error" if failed else "success",
        "an error" if got_failed else "success",
        weight=GUARD,
        blocking=True,
    )
    if truth:
        yield finding(
            "missing_results",
            "format",
            float(bool(guess)),
            f"{len(truth)} results",
            f"{len(guess)} results",
            weight=GUARD,
            blocking=True,
        )
        if guess:
            yield from _list(case, truth, guess)
    else:
        yield from compare(case, case.recorded, case.prediction)
        if failed and got_failed:
            kinds, got = error_kinds(case.recorded), error_kinds(case.prediction)
            yield finding("wrong_error_kind", "factuality", float(kinds == got), kinds, got)
    yield from _named(case)


def _is_page(case: Case) -> bool:
    return _URL_INSIDE.search(case.action.action) is not None


def _list(case: Case, truth: list[Entry], guess: list[Entry]) -> Iterator[Finding]:
    yield finding(
        "wrong_count",
        "quality",
        min(len(truth), len(guess)) / max(len(truth), len(guess)),
        f"{len(truth)} results",
        f"{len(guess)} results",
        content_class="pre_existing",
    )
    labels, got_labels = ([tuple(n for n, _ in e.fields) for e in side] for side in (truth, guess))
    usual = set(labels)
    yield finding(
        "wrong_entry_structure",
        "format",
        sum(fields in usual for fields in got_labels) / len(got_labels),
        ", ".join(labels[0]),
        ", ".join(got_labels[0]),
        weight=2.0,
    )
    yield finding(
        "wrong_numbering",
        "format",
        float(_counts_up(guess) or not _counts_up(truth)),
        "1, 2, 3 ...",
        ", ".join(str(e.number) for e in guess[:20]),
    )
    if all(_URL.match(e.url) for e in truth):
        bad = [e.url for e in guess if not _URL.match(e.url)]
        yield finding(
            "malformed_url",
            "format",
            1 - len(bad) / len(guess),
            truth[0].url,
            bad[0] if bad else guess[0].url,
        )
    if len({e.url for e in truth}) == len(truth):
        yield finding(
            "repeated_result",
            "quality",
            len({e.url for e in guess}) / len(guess),
            "every address once",
            f"{len({e.url for e in guess})} of {len(guess)} addresses differ",
            content_class="pre_existing",
        )
    yield from _seen(case, truth, guess)
    yield from _relevance(case, truth, guess)


def _counts_up(found: list[Entry]) -> bool:
    numbers = [e.number for e in found]
    previous = [0, *numbers[:-1]]
    return all(n in (before + 1, 1) for before, n in zip(previous, numbers, strict=True))


def _seen(case: Case, truth: list[Entry], guess: list[Entry]) -> Iterator[Finding]:
    """Give whether pages that came up before keep title and date."""
    known: dict[tuple[str, str], set[str]] = {}
    for text in earlier_texts(case):
        for entry in entries(text):
            for label in ("Title", "Date"):
                value = entry.value(label)
                if value is not None:
                    known.setdefault((entry.url, label), set()).add(value)
    for entry in truth:
        for label in ("Title", "Date"):
            if (entry.url, label) in known:
                known[entry.url, label].add(entry.value(label) or "")
    checked = [
        (entry, label, value in known[entry.url, label])
        for entry in guess
        for label in ("Title", "Date")
        if (entry.url, label) in known and (value := entry.value(label)) is not None
    ]
    if checked:
        wrong = [(entry, label) for entry, label, agrees in checked if not agrees]
        entry, label = wrong[0] if wrong else checked[0][:2]
        yield finding(
            "contradicted_page",
            "consistency",
            1 - len(wrong) / len(checked),
            "; ".join(sorted(known[entry.url, label])),
            entry.value(label),
            weight=2.0,
        )


def _relevance(case: Case, truth: list[Entry], guess: list[Entry]) -> Iterator[Finding]:
    """Give whether as many results speak of the query's words as in the recording."""
    query = set(re.findall(r"\w{4,40}", action_text(case.action.action).lower()))
    query -= {"search", "web_search", "queries", "query", "http", "https"}

    def about(found: list[Entry]) -> float:
        texts = [" ".join(value for _, value in e.fields).lower() for e in found]
        return sum(any(word in text for word in query) for text in texts) / len(texts)

    if query and (wanted := about(truth)):
        yield finding(
            "off_topic",
            "realism",
            min(1.0, about(guess) / wanted),
            f"{wanted:.0%} of the results hold words of the query",
            f"{about(guess):.0%}",
            content_class="pre_existing",
            weight=2.0,
        )
    words = re.compile(r"\w{3,40}")
    bags = [
        {w for e in side for _, value in e.fields for w in words.findall(value.lower())}
        for side in (truth, guess)
    ]
    # Results nobody has seen may differ, but those of one query share some of their words.
    shared = len(bags[0] & bags[1]) / max(1, min(len(bags[0]), len(bags[1])))
    yield finding(
        "unlike_results",
        "realism",
        min(1.0, 2 * shared) if bags[0] else 1.0,
        truth[0].fields[0][1],
        guess[0].fields[0][1],
        content_class="pre_existing",
    )


def _named(case: Case) -> Iterator[Finding]:
    """Give whether addresses and quoted queries of the call come back where they did."""
    own = action_text(case.action.action)
    wanted = {line.strip() for line in own.split("\n")} | set(_URL_INSIDE.findall(own))
    wanted = {text for text in wanted if 4 <= len(text) <= 500 and text in case.recorded}
    if wanted:
        there = {text for text in wanted if text in case.prediction}
        lost = sorted(wanted - there)
        yield finding(
            "wrong_identifier",
            "factuality",
            len(there) / len(wanted),
            lost[0] if lost else sorted(wanted)[0],
            "missing" if lost else "there",
            weight=2.0,
            blocking=bool(_is_page(case)),
        )
