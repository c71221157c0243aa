"""Rule checks of search answers: result lists, pages, addresses, what was seen before."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from trajkit.fidelity.answer_leak import check_leak
from trajkit.fidelity.compare import compare
from trajkit.fidelity.content import MAX_HISTORY_CHARS, action_text
from trajkit.fidelity.findings import GUARD, Case, Finding, Turn, finding
from trajkit.fidelity.json_shape import read_answer
from trajkit.fidelity.known_values import arguments, check_repeat, strict, whole
from trajkit.fidelity.mcp import check as check_tool
from trajkit.fidelity.outcome import error_kinds
from trajkit.fidelity.results import Entry, Page, Results, pages_of, read_results, shared_runs

MAX_WORDS_TEXT_CHARS = 20_000
MAX_QUERIES = 50
MAX_HEADING_CHARS = 80
"""A line that holds more than this beside a query is no heading, but a text about it."""
MAX_TELLINGS = 8
"""How many tellings of one address, the newest, are compared."""
_URL = re.compile(r"https?://([^\s/?#]{1,253}\.[^\s/?#.]{2,63})(?::\d{1,5})?(?:[/?#]\S*)?\Z")
_URL_INSIDE = re.compile(r"https?://[^\s\"'<>)\]]{3,2000}")
_PLACEHOLDER = re.compile(
    r"https?://(?:www\.)?(?:example\.(?:com|org|net)|(?:your)?(?:website|domain|site)\.com|"
    r"(?:test|placeholder|localhost)\b)"
)
_FAILURE = re.compile(
    r"^(?:Error\b|Failed\b)|\b(?:404 Not Found|403 Forbidden|[Nn]o results?(?: were)? found|"
    r"[Nn]o results\b|could not be (?:fetched|reached|read)|[Uu]nable to (?:fetch|access))",
    re.MULTILINE,
)
_LABEL = re.compile(r"^([A-Z][a-z]{2,15}(?: [a-z]{2,15})?): ", re.MULTILINE)
_WORD = re.compile(r"\w{3,40}")
_DIGITS = re.compile(r"\d+")


def check(case: Case) -> Iterator[Finding]:
    """Give what the rules see in a search answer; a memory call is judged as any tool's."""
    yield from check_leak(case)
    yield from _contradictions(case)
    if read_answer(case.recorded).form == "json":
        yield from _relevance(case, *_texts_of_pages(case))
        yield from check_tool(case)
        return
    truth, guess = read_results(case.recorded), read_results(case.prediction)
    if _is_page(case):
        yield from _outcome(case, truth=None, guess=None)
        yield from check_repeat(case)
        yield from _page(case)
        return
    yield from _outcome(case, truth, guess)
    yield from _named(case)
    if truth.entries:
        yield from check_repeat(case)
        yield from _list(case, truth, guess)
    else:
        yield from check_tool(case)


def _is_page(case: Case) -> bool:
    return _URL_INSIDE.search(case.action.action) is not None


def _outcome(case: Case, truth: Results | None, guess: Results | None) -> Iterator[Finding]:
    """Give whether the answer is a failure or an empty list exactly where the recorded one is."""
    found, got_found = (side is not None and bool(side.entries) for side in (truth, guess))
    failed = not found and _FAILURE.search(case.recorded) is not None
    got_failed = not got_found and _FAILURE.search(case.prediction) is not None
    yield finding(
        "wrong_exit_class",
        "factuality",
        float(failed == got_failed and not (got_found and not found)),
        "a failure or no results" if failed else "success",
        "a failure or no results" if got_failed else "success",
        weight=GUARD,
        blocking=True,
    )
    if failed and got_failed:
        kinds, got = error_kinds(case.recorded), error_kinds(case.prediction)
        yield finding("wrong_error_kind", "factuality", float(kinds == got), kinds, got)


def _named(case: Case) -> Iterator[Finding]:
    """Give whether the lines that tell the query are there, whatever number they give."""
    queries = [value for _, value in arguments(case.action.action) if len(value) >= 3]
    wanted = _headings(case.recorded, queries)
    if wanted:
        got = _headings(case.prediction, queries)
        lost = sorted(wanted - got)
        yield finding(
            "wrong_identifier",
            "factuality",
            strict(len(lost), len(wanted)),
            lost[0] if lost else "a heading for each query",
            f"{len(lost)} of {len(wanted)} are missing",
            weight=2.0,
            blocking=True,
        )


def _headings(text: str, queries: Sequence[str]) -> set[str]:
    """Return short lines that quote a query, with all numbers but those of the query made zero."""
    found = set()
    for query in queries[:MAX_QUERIES]:
        for quoted in (f'"{query}"', f"'{query}'"):
            place, n = text.find(quoted), 0
            while place >= 0 and n < MAX_QUERIES:
                start, end = text.rfind("\n", 0, place) + 1, text.find("\n", place)
                end = end if end >= 0 else len(text)
                if end - start <= len(quoted) + MAX_HEADING_CHARS:
                    before, after = text[start:place].lstrip(), text[place + len(quoted) : end]
                    found.add(f"{_zeros(before)}{quoted}{_zeros(after.rstrip())}")
                place, n = text.find(quoted, place + 1), n + 1
    return found


def _zeros(text: str) -> str:
    return _DIGITS.sub("0", text)


def _page(case: Case) -> Iterator[Finding]:
    """Give whether a page is that of the address, in the reader's frame."""
    own = set(_URL_INSIDE.findall(action_text(case.action.action)))
    wanted = {url for url in own if url in case.recorded}
    if wanted:
        lost = sorted(url for url in wanted if not whole(url, case.prediction))
        yield finding(
            "wrong_identifier",
            "factuality",
            strict(len(lost), len(wanted)),
            lost[0] if lost else sorted(wanted)[0],
            f"{len(lost)} of {len(wanted)} addresses are missing",
            weight=2.0,
            blocking=True,
        )
    labels, got_labels = (set(_LABEL.findall(side)) for side in (case.recorded, case.prediction))
    if labels:
        yield finding(
            "wrong_page_frame",
            "format",
            len(labels & got_labels) / len(labels),
            ", ".join(sorted(labels)),
            ", ".join(sorted(got_labels)),
        )
    yield from compare(case, case.recorded, case.prediction)


def _list(case: Case, truth: Results, guess: Results) -> Iterator[Finding]:
    yield finding(
        "missing_results",
        "format",
        float(guess.form == truth.form),
        f"{len(truth.entries)} results as {truth.form}",
        f"{len(guess.entries)} results as {guess.form}",
        weight=GUARD,
        blocking=True,
    )
    if guess.form != truth.form:
        return
    size, got_size = len(truth.entries), len(guess.entries)
    yield finding(
        "wrong_count",
        "quality",
        min(size, got_size) / max(size, got_size),
        f"{size} results",
        f"{got_size} results",
        content_class="pre_existing",
    )
    yield from _structure(truth.entries, guess.entries)
    yield from _addresses(truth.entries, guess.entries)
    yield from _relevance(
        case, [_told(e) for e in truth.entries], [_told(e) for e in guess.entries]
    )


def _told(entry: Entry) -> str:
    return f"{entry.title}\n{entry.text}"


def _structure(truth: Sequence[Entry], guess: Sequence[Entry]) -> Iterator[Finding]:
    """Give whether each entry has the parts that all recorded ones have, and no others."""
    always = set.intersection(*(set(entry.labels) for entry in truth))
    ever = {label for entry in truth for label in entry.labels}
    odd = [e for e in guess if not always <= set(e.labels) or not set(e.labels) <= ever]
    yield finding(
        "wrong_entry_structure",
        "format",
        strict(len(odd), len(guess)),
        ", ".join(truth[0].labels),
        ", ".join(odd[0].labels if odd else guess[0].labels),
        weight=2.0,
        blocking=True,
    )
    yield finding(
        "wrong_numbering",
        "format",
        float(_counts_up(guess) or not _counts_up(truth)),
        "1, 2, 3 ...",
        ", ".join(str(e.number) for e in guess[:20]),
        blocking=True,
    )


def _counts_up(found: Sequence[Entry]) -> bool:
    numbers = [e.number for e in found]
    previous = [0, *numbers[:-1]]
    return all(n in (before + 1, 1) for before, n in zip(previous, numbers, strict=True))


def _addresses(truth: Sequence[Entry], guess: Sequence[Entry]) -> Iterator[Finding]:
    """Give whether addresses are well formed, of real hosts, and each other than the rest."""
    if not all(_URL.match(e.url) for e in truth):
        return
    bad = [e.url for e in guess if not _URL.match(e.url)]
    yield finding(
        "malformed_url",
        "format",
        strict(len(bad), len(guess)),
        truth[0].url,
        bad[0] if bad else guess[0].url,
        blocking=True,
    )
    made_up = [e.url for e in guess if _PLACEHOLDER.match(e.url)]
    if made_up and not any(_PLACEHOLDER.match(e.url) for e in truth):
        yield finding(
            "implausible_host",
            "realism",
            1 - len(made_up) / len(guess),
            truth[0].url,
            made_up[0],
            content_class="pre_existing",
            weight=2.0,
        )
    urls = {e.url for e in guess}
    if len({e.url for e in truth}) == len(truth):
        yield finding(
            "repeated_result",
            "quality",
            len(urls) / len(guess),
            "every address once",
            f"{len(urls)} of {len(guess)} addresses differ",
            content_class="pre_existing",
        )


@lru_cache(maxsize=4)
def _pages_before(history: tuple[Turn, ...]) -> Mapping[str, list[Page]]:
    """Return what earlier answers told of each address."""
    known: dict[str, list[Page]] = defaultdict(list)
    left = MAX_HISTORY_CHARS
    for turn in reversed(history):
        left -= len(turn.observation or "")
        if left < 0:
            break
        for page in pages_of(turn.observation or ""):
            if len(known[page.url]) < MAX_TELLINGS:
                known[page.url].append(page)
    return dict(known)


def _contradictions(case: Case) -> Iterator[Finding]:
    """Give whether pages seen before keep title, date and the words that were known of them."""
    known = _pages_before(case.history)
    if not known:
        return
    truth: dict[str, list[Page]] = defaultdict(list)
    for page in pages_of(case.recorded):
        truth[page.url].append(page)
    lost, n, shown = 0, 0, ("", "")
    for page in pages_of(case.prediction):
        before = known.get(page.url)
        if before is None:
            continue
        both = before + truth.get(page.url, [])
        for name in ("title", "date"):
            values = {getattr(one, name) for one in both} - {""}
            value = getattr(page, name)
            if values and value:
                n += 1
                if value not in values:
                    lost, shown = lost + 1, ("; ".join(sorted(values)), value)
        for one in truth.get(page.url, []):
            for run in _known_runs(one, before):
                n += 1
                if run not in page.text:
                    lost, shown = lost + 1, (run, page.text)
    if n:
        yield finding(
            "contradicted_page",
            "consistency",
            strict(lost, n),
            shown[0] or "what was told of the pages before",
            shown[1] or "the same",
            weight=2.0,
            blocking=True,
        )


def _known_runs(page: Page, before: Sequence[Page]) -> set[str]:
    """Return the runs of words of a page that earlier answers told of it, whole or in part."""
    found: set[str] = set()
    for one in before:
        found |= shared_runs(page.text, one.text) | shared_runs(one.text, page.text)
    return found


def _texts_of_pages(case: Case) -> tuple[list[str], list[str]]:
    truth, guess = (pages_of(side) for side in (case.recorded, case.prediction))
    return [page.text for page in truth], [page.text for page in guess]


def _relevance(case: Case, truth: Sequence[str], guess: Sequence[str]) -> Iterator[Finding]:
    """Give whether as many results speak of the query's words as in the recording."""
    if not truth or not guess:
        return
    given = " ".join(value for _, value in arguments(case.action.action)).lower()
    query = {word for word in _WORD.findall(given) if len(word) >= 4} - {"http", "https"}
    bags, got_bags = (
        [set(_WORD.findall(text[:MAX_WORDS_TEXT_CHARS].lower())) for text in side]
        for side in (truth, guess)
    )
    share, got_share = (
        sum(not query.isdisjoint(bag) for bag in side) / len(side) for side in (bags, got_bags)
    )
    if share:
        yield finding(
            "off_topic",
            "realism",
            got_share / share,
            f"{share:.0%} of the results hold words of the query",
            f"{got_share:.0%}",
            content_class="pre_existing",
            weight=2.0,
            blocking=True,
        )
    words, got_words = set().union(*bags), set().union(*got_bags)
    # Results nobody has seen may differ, but those of one query share some of their words.
    shared = len(words & got_words) / max(1, min(len(words), len(got_words)))
    yield finding(
        "unlike_results",
        "realism",
        min(1.0, 2 * shared) if words else 1.0,
        truth[0],
        guess[0],
        content_class="pre_existing",
    )
