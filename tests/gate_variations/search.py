"""Variations of search answers: result lists in three forms, lists as JSON, and pages."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator

from gate_variations import Sample, Variation
from gate_variations.mcp import changed, known_text

_WORD = re.compile(r"(?<![\w/.:-])[a-zà-ÿ]{5,20}(?![\w/:-]|\.\w)")
_DAY = re.compile(r"\b(?:19|20)\d\d-\d\d-\d\d\b")
_MONTH_DAY = re.compile(r"\b(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d{1,2}, 20\d\d\b")
_NUMBER = re.compile(r"(?<![\w.,/-])\d{2,6}(?![\w/-]|[.,]\d)")
_LIST = re.compile(r"^(?:\[\d+\] \S|\d+\. \[|Doc \d+\()", re.MULTILINE)
_FIRST_WORDS = re.compile(r"[\w',;-]+(?: [\w',;-]+){5,}")
_WORDS = (
    "almost", "briefly", "calm", "distant", "early", "formal", "gentle", "hardly", "inner",
    "joint", "keen", "local", "modest", "narrow", "outer", "partly", "quiet", "rather", "steady",
)  # fmt: skip


def variations(sample: Sample) -> Iterator[Variation]:
    """Give what an answer of a search engine or page reader can be varied in."""
    recorded = sample.case.recorded
    if not recorded.strip():
        return
    dice = sample.random()
    yield from _dates(sample, dice)
    yield from _content(sample, dice)
    yield Variation("outcome_swapped", _swapped(sample))
    yield from _values(sample, dice)
    yield from _dropped(sample, dice)
    yield from _forms(recorded)
    yield from _leaks(sample, dice)


def strings_of(sample: Sample, *names: str) -> list[str]:
    """Return the texts of an argument of the call, whether it is one text or a list of them."""
    arguments = json.loads(sample.case.action.action).get("arguments", {})
    found: list[str] = []
    for name in names:
        value = arguments.get(name) or []
        found += [value] if isinstance(value, str) else [v for v in value if isinstance(v, str)]
    return found


def _queries(sample: Sample) -> list[str]:
    return strings_of(sample, "query", "queries", "q")


def _addresses(sample: Sample) -> list[str]:
    return strings_of(sample, "url", "urls")


def _dates(sample: Sample, dice: random.Random) -> Iterator[Variation]:
    """Give other dates to pages that nobody saw before."""
    recorded, known = sample.case.recorded, known_text(sample)
    text = recorded
    for date in sorted(set(_DAY.findall(recorded))):
        if date not in known:
            month, day = dice.randrange(1, 13), dice.randrange(1, 29)
            text = text.replace(date, f"20{dice.randrange(10, 25)}-{month:02}-{day:02}")
    for date in sorted({found.group() for found in _MONTH_DAY.finditer(recorded)}):
        if date not in known:
            text = text.replace(date, f"{date[:3]} {dice.randrange(1, 29)}, 2021")
    if text != recorded:
        yield Variation("metadata_redrawn", text)


def _content(sample: Sample, dice: random.Random) -> Iterator[Variation]:
    """Give other words and numbers in texts, and another order of results, where all is new."""
    recorded, known = sample.case.recorded, known_text(sample).lower()
    if recorded.startswith("{"):
        return
    lines, new = recorded.split("\n"), dict[str, str]()
    varied = [_reworded(line, known, dice, new) for line in lines]
    if varied != lines:
        yield Variation("content_varied", "\n".join(varied))
    blocks = re.split(r"\n\n(?=\[\d+\] )", recorded)
    if len(blocks) > 3 and "Results for" not in "".join(blocks[1:]):
        first, second = (re.sub(r"^\[\d+\]", "", block.strip("\n")) for block in blocks[-2:])
        n = len(blocks)
        swapped = [*blocks[:-2], f"[{n - 2}]{second}", f"[{n - 1}]{first}"]
        yield Variation("content_varied", "\n\n".join(swapped))
    yield from _other_result(sample, known, dice)


def _other_result(sample: Sample, known: str, dice: random.Random) -> Iterator[Variation]:
    """Give a list whose last result is another page of a site in the list."""
    recorded, queries = sample.case.recorded, _queries(sample)
    last = list(re.finditer(r"^\[\d+\] (https?://[^/\s]+/)(\S+)\nTitle: (.+)$", recorded, re.M))
    last += list(re.finditer(r"^\d+\. \[(.+)\]\((https?://[^/\s]+/)(\S+)\)$", recorded, re.M))
    if len(last) < 3 or not queries:
        return
    found = last[-1]
    if found[0].lower() in known or recorded.count(found[0]) > 1:
        return
    path = f"{dice.choice(_WORDS)}/{dice.choice(_WORDS)}"
    number, title = re.match(r"\S+ ", found[0]), f"{queries[-1].title()}: {dice.choice(_WORDS)}"
    assert number is not None
    if found[0].startswith("["):
        new = f"{number[0]}{found[1]}{path}\nTitle: {title}"
    else:
        new = f"{number[0]}[{title}]({found[2]}{path})"
    yield Variation("content_varied", recorded.replace(found[0], new))


def _is_prose(line: str) -> bool:
    """Return whether a line is running text rather than a title, an address or a heading."""
    bare = re.match(r"(?:\w+: |#|\[\d|\d+\. \[|A Google|Results for|Error|No res|\|)", line)
    return len(line) >= 40 and not bare and "http" not in line


def _reworded(line: str, known: str, dice: random.Random, new: dict[str, str]) -> str:
    """Return a line of running text with some of its new words and numbers replaced."""
    prose = line.removeprefix("Snippet: ")
    if not _is_prose(prose) or prose.lower() in known:
        return line

    def other(found: re.Match[str]) -> str:
        word = found.group()
        if word not in new:
            keep = word.lower() in known or dice.random() < 0.6
            drawn = changed(word, dice) if word.isdigit() else dice.choice(_WORDS)
            new[word] = word if keep else drawn
        return new[word]

    return line[: -len(prose)] + _NUMBER.sub(other, _WORD.sub(other, prose))


def _swapped(sample: Sample) -> str:
    """Return an error or an empty list for an answer, or the reverse, in the tool's style."""
    recorded, queries, addresses = sample.case.recorded, _queries(sample), _addresses(sample)
    url = addresses[0] if addresses else "http://encyclopedia.example/wiki/Korvand"
    if addresses:
        if "Error" in recorded:
            return f"Page: {url}\n\n# A page\n\nIt tells of the place.\n\nLast changed: 2022-01-02"
        return f"Page: {url}\n\nError: HTTP 404 Not Found"
    if recorded.startswith("{"):
        return '{"success": false, "error": "search backend timed out"}'
    if recorded.startswith("Results for") and not _LIST.search(recorded):
        entry = f"[1] {url}\nTitle: Korvand\nSnippet: Korvand lies at the river.\nDate: 2019-03-02"
        return "\n\n".join(f'Results for "{query}":\n\n{entry}' for query in queries)
    if recorded.startswith("Results for"):
        return "\n\n".join(f'Results for "{query}":\n\nNo results.' for query in queries)
    if recorded.startswith("A Google"):
        return "\n".join(
            f"No results found for '{query}'. Try with a more general query." for query in queries
        )
    return "Error: search failed, no results found."


def _values(sample: Sample, dice: random.Random) -> Iterator[Variation]:
    """Give an answer with another query or address, or another fact of a page seen before."""
    recorded = sample.case.recorded
    echoed = [own for own in _queries(sample) + _addresses(sample) if own in recorded]
    if echoed:
        own = dice.choice(echoed)
        yield Variation("value_changed", recorded.replace(own, _misspelt(own, dice)))
    seen = "\n".join(turn.observation or "" for turn in sample.case.history)
    known = _facts(seen, recorded)
    if known:
        line = dice.choice(known)
        yield Variation("value_changed", recorded.replace(line, _misspelt(line, dice), 1))


def _facts(seen: str, recorded: str) -> list[str]:
    """Return titles, dates and runs of words that stood in earlier answers of the same page."""
    urls = re.findall(r"https?://\S+", recorded)
    known = []
    for url in dict.fromkeys(url for url in urls if url in seen):
        earlier = seen[seen.index(url) :].partition("\n\n[")[0].partition("\n\nResults for")[0]
        title = re.search(r"^(?:Title:|#) (.+)$", earlier, re.MULTILINE)
        if title and title[1] in recorded:
            known.append(title[1])
        runs = [run for run in _FIRST_WORDS.findall(earlier) if len(run) > 30]
        known += [run for run in runs if run in recorded]
    return known


def _misspelt(text: str, dice: random.Random) -> str:
    """Return a text with its last longer word, or one of its numbers, changed."""
    words = list(re.finditer(r"\w{4,}|\d{2,}", text))
    if not words:
        return changed(text, dice)
    found = words[-1]
    return text[: found.start()] + changed(found.group(), dice) + text[found.end() :]


def _dropped(sample: Sample, dice: random.Random) -> Iterator[Variation]:
    """Give lists without a query's own heading, entries without a part, pages without lines."""
    recorded, queries = sample.case.recorded, _queries(sample)
    lines = recorded.split("\n")
    heads = [
        n
        for n, line in enumerate(lines)
        if any(f'"{q}"' in line or f"'{q}'" in line for q in queries)
    ]
    if heads and len(lines) > 4:
        drop = dice.choice(heads)
        yield Variation("lines_dropped", "\n".join(lines[:drop] + lines[drop + 1 :]))
    if len(heads) > 1:
        number = dice.randrange(len(heads))
        end = heads[number + 1] if number + 1 < len(heads) else len(lines)
        yield Variation("lines_dropped", "\n".join(lines[: heads[number]] + lines[end:]).strip())
    labels = [n for n, line in enumerate(lines) if re.match(r"(?:Title|Snippet): ", line)]
    if labels:
        drops = set(dice.sample(labels, max(1, len(labels) // 3)))
        yield Variation(
            "lines_dropped", "\n".join(line for n, line in enumerate(lines) if n not in drops)
        )
    pages = [n for n, line in enumerate(lines) if line.startswith("Page: ")]
    if pages and len(lines) > 4:
        drop = dice.choice(pages)
        yield Variation("lines_dropped", "\n".join(lines[:drop] + lines[drop + 1 :]).strip())


def _forms(recorded: str) -> Iterator[Variation]:
    yield Variation("other_format", f"```\n{recorded}\n```")
    if recorded.startswith("{"):
        results = json.loads(recorded).get("results", [])
        yield Variation(
            "other_format",
            "\n\n".join(f"[{n}] {r['url']}\nTitle: {r['title']}" for n, r in enumerate(results, 1)),
        )
        return
    yield Variation("other_format", json.dumps({"results": recorded.split("\n\n")}, indent=2))
    if _LIST.search(recorded):
        titles = re.findall(
            r"^(?:Title: (.+)|\d+\. \[(.+)\]\(|Doc \d+\(Title: (.+?)\))", recorded, re.M
        )
        names = ["".join(found) for found in titles]
        yield Variation("other_format", "\n".join(f"* **{name}**" for name in names))
        yield Variation("other_format", f"The search found {len(names)} pages: {'; '.join(names)}.")


def _leaks(sample: Sample, dice: random.Random) -> Iterator[Variation]:
    """Give the run's final answer away inside an answer that does not hold it."""
    recorded, answer = sample.case.recorded, _plain(sample.case.answer or "")
    known = known_text(sample) + recorded
    if not answer or not (_LIST.search(recorded) or recorded.startswith(("Page:", "{"))):
        return
    told = answer if len(answer) <= 300 else answer[:300].rpartition(" ")[0]
    if told.lower() not in known.lower() and len(told) > 25:
        yield Variation("answer_leaked", _inserted(recorded, told, dice))
    # The number that an answer ends on is what was asked; one of two digits may come by chance.
    facts = [n for n in re.findall(r"\d[\d,]{2,}\d", answer)[-1:] if n not in known]
    if len(answer) <= 25 and answer.lower() not in known.lower():
        facts.append(answer)
    if facts:
        yield Variation("answer_leaked", _inserted(recorded, f"It comes to {facts[0]}.", dice))


def _plain(answer: str) -> str:
    """Return an answer without tags and marks."""
    return " ".join(re.sub(r"<[^<>]{1,30}>|\*\*", " ", answer).split())


def _inserted(recorded: str, told: str, dice: random.Random) -> str:
    """Return the answer with one of its pieces of running text made longer."""
    if recorded.startswith("{"):
        value = json.loads(recorded)
        for result in value.get("results", []):
            result["content"] += f" {told}"
        return json.dumps(value)
    lines = recorded.split("\n")
    places = [n for n, line in enumerate(lines) if _is_prose(line.removeprefix("Snippet: "))]
    if not places:
        return f"{recorded}\n\n{told}"
    place = dice.choice(places)
    lines[place] += f" {told}"
    return "\n".join(lines)
