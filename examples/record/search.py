"""Record search episodes: a local full-text service, scripted policies.

Serves the documents of ``search_pages.py`` as HTML over HTTP on 127.0.0.1, with a search route
on top of SQLite's FTS5, ranked by bm25, and lets scripted policies use it through two tools,
``web_search`` and ``web_extractor``. Every tool message is what the service answered. Writes
``episodes.jsonl``: one chat in OpenAI's shape per line. Needs nothing but Python.

    python examples/record/search.py OUT_DIR
"""

from __future__ import annotations

import argparse
import html
import json
import re
import sqlite3
import threading
from collections.abc import Callable
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qs, quote, urlsplit
from urllib.request import urlopen

from search_pages import DOCUMENTS, Document

RESULTS_PER_QUERY = 5
SHORTEST_WORD = 4
# Only these are folded: U+2028 and its kin are characters of the page and have to survive.
BLANKS = re.compile(r"[ \t\r\n]+")
SYSTEM = (
    "You answer questions about the Northern Assembly and about language models. Search before "
    "you answer, read the page that settles the question, and answer in one sentence."
)
QUERIES = {"type": "array", "items": {"type": "string"}}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "web_search",
            "description": "Search the web. Every query gets a numbered list of results.",
            "parameters": {
                "type": "object",
                "properties": {"queries": QUERIES},
                "required": ["queries"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "web_extractor",
            "description": "Read web pages as Markdown. The goal says what you look for.",
            "parameters": {
                "type": "object",
                "properties": {"urls": QUERIES, "goal": {"type": "string"}},
                "required": ["urls", "goal"],
            },
        },
    },
]


def page_html(document: Document) -> str:
    """Return a document as an HTML page."""

    def kind(line: str) -> str:
        return next((mark for mark in ("## ", "- ", "| ") if line.startswith(mark)), "")

    parts, fenced, paragraph_number = [], False, 0
    lines: list[tuple[tuple[str, int], str]] = []
    for line in document.text.split("\n"):
        if line == "```":
            fenced = not fenced
        elif not line and not fenced:
            paragraph_number += 1
        else:
            lines.append((("```" if fenced else kind(line), paragraph_number), html.escape(line)))
    for (mark, _), group in groupby(lines, key=lambda pair: pair[0]):
        texts = [line[len(mark) :] if mark != "```" else line for _, line in group]
        if mark == "## ":
            parts += [f"<h2>{text}</h2>" for text in texts]
        elif mark == "- ":
            parts.append("<ul>" + "".join(f"<li>{text}</li>" for text in texts) + "</ul>")
        elif mark == "| ":
            rows = [text.removesuffix(" |").split(" | ") for text in texts]
            cells = ["".join(f"<td>{cell}</td>" for cell in row) for row in rows]
            parts.append("<table>" + "".join(f"<tr>{row}</tr>" for row in cells) + "</table>")
        elif mark == "```":
            parts.append("<pre>" + "\n".join(texts) + "</pre>")
        else:
            parts.append("<p>" + "\n".join(texts) + "</p>")
    title = html.escape(document.title)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"</head><body><h1>{title}</h1>{''.join(parts)}<footer>{document.date}</footer></body></html>"
    )


class Markdown(HTMLParser):
    """A page as Markdown, for the few elements that the service writes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.blocks: list[str] = []
        self.rows: list[list[str]] = []
        self.list_lines: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.rows = []
        elif tag == "tr":
            self.rows.append([])
        self.text = ""

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_endtag(self, tag: str) -> None:
        folded = BLANKS.sub(" ", self.text).strip(" ")
        if tag in ("h1", "h2"):
            self.blocks.append(f"{'#' * int(tag[1])} {folded}")
        elif tag == "p":
            self.blocks.append(folded)
        elif tag == "li":
            self.list_lines.append(f"- {folded}")
        elif tag == "ul":
            self.blocks.append("\n".join(self.list_lines))
            self.list_lines = []
        elif tag == "pre":
            self.blocks.append(f"```\n{self.text}\n```")
        elif tag == "td":
            self.rows[-1].append(folded)
        elif tag == "table":
            lines = ["| " + " | ".join(row) + " |" for row in self.rows]
            lines.insert(1, "| " + " | ".join("---" for _ in self.rows[0]) + " |")
            self.blocks.append("\n".join(lines))
        elif tag == "footer":
            self.blocks.append(f"Last changed: {folded}")


class Index:
    """The documents in a full-text table."""

    def __init__(self) -> None:
        self.pages = {document.url: page_html(document) for document in DOCUMENTS}
        self.lock = threading.Lock()
        self.database = sqlite3.connect(":memory:", check_same_thread=False)
        self.database.execute(
            "CREATE VIRTUAL TABLE pages USING fts5(url UNINDEXED, title, date UNINDEXED, text, "
            "tokenize='porter unicode61')"
        )
        for document in DOCUMENTS:
            plain = re.sub(r"^(## |- |\| |```$)", "", document.text, flags=re.MULTILINE)
            row = (document.url, document.title, document.date, BLANKS.sub(" ", plain))
            self.database.execute("INSERT INTO pages VALUES (?, ?, ?, ?)", row)

    def search(self, query: str) -> list[dict[str, str]]:
        """Return the best pages that hold a word of the query; short words do not count."""
        words = [word for word in re.findall(r"\w+", query) if len(word) >= SHORTEST_WORD]
        if not words:
            return []
        wanted = " OR ".join(f'"{word}"' for word in words)
        with self.lock:
            rows = self.database.execute(
                "SELECT url, title, snippet(pages, 3, '', '', '...', 28), date FROM pages "
                "WHERE pages MATCH ? ORDER BY bm25(pages, 0, 4, 0, 1), url LIMIT ?",
                (wanted, RESULTS_PER_QUERY),
            ).fetchall()
        return [dict(zip(("url", "title", "snippet", "date"), row, strict=True)) for row in rows]


def serve(port: int) -> ThreadingHTTPServer:
    """Return the running service; the caller ends it with ``shutdown``."""
    index = Index()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Keep the terminal quiet."""

        def do_GET(self) -> None:
            address = urlsplit(self.path)
            wanted = parse_qs(address.query)
            if address.path == "/search":
                status, body = 200, json.dumps(index.search(wanted["q"][0]))
            else:
                page = index.pages.get(wanted["url"][0])
                status, body = (200, page) if page else (404, "<h1>404 Not Found</h1>")
            data = body.encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


class Recorder:
    """One chat between a policy and the service."""

    def __init__(self, base: str, task: str) -> None:
        self.base = base
        self.n_calls = 0
        self.messages: list[dict[str, Any]] = [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": task},
        ]

    def fetch(self, path: str) -> str:
        with urlopen(self.base + path, timeout=10) as answer:
            return str(answer.read().decode())

    def web_search(self, queries: list[str]) -> str:
        blocks = []
        for query in queries:
            found = json.loads(self.fetch("/search?q=" + quote(query)))
            lines = [
                f"[{number}] {page['url']}\nTitle: {page['title']}\nSnippet: {page['snippet']}\n"
                f"Date: {page['date']}"
                for number, page in enumerate(found, 1)
            ]
            blocks.append("\n\n".join([f'Results for "{query}":', *(lines or ["No results."])]))
        return "\n\n".join(blocks)

    def web_extractor(self, urls: list[str], goal: str) -> str:
        blocks = []
        for url in urls:
            try:
                page = Markdown(self.fetch("/page?url=" + quote(url, safe="")))
                blocks.append("\n\n".join([f"Page: {url}", *page.blocks]))
            except HTTPError as error:
                blocks.append(f"Page: {url}\n\nError: HTTP {error.code} {error.reason}")
        return "\n\n".join(blocks)

    def turn(self, text: str | None, *calls: tuple[str, dict[str, Any]]) -> str:
        """Do the calls of one turn and return the last answer."""
        written = []
        for name, arguments in calls:
            self.n_calls += 1
            function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
            written.append(
                {"id": f"call_{self.n_calls:03d}", "type": "function", "function": function}
            )
        self.messages.append({"role": "assistant", "content": text, "tool_calls": written})
        answer = ""
        for call, (name, arguments) in zip(written, calls, strict=True):
            answer = getattr(self, name)(**arguments)
            self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": answer})
        return answer

    def search(self, text: str | None, *queries: str) -> list[str]:
        """Search and return the addresses found, best first."""
        answer = self.turn(text, ("web_search", {"queries": list(queries)}))
        return re.findall(r"^\[\d+\] (\S+)$", answer, flags=re.MULTILINE)

    def read(self, text: str | None, goal: str, *urls: str) -> str:
        return self.turn(text, ("web_extractor", {"urls": list(urls), "goal": goal}))

    def answer(self, text: str) -> None:
        self.messages.append({"role": "assistant", "content": text})


def lighthouse_engineer(run: Recorder) -> None:
    found = run.search("Find who designed the lighthouse.", "Skarne lighthouse designed")
    run.read(None, "designer of the lighthouse", found[0])
    found = run.search("Ilse Marrow. Now her birthplace.", "Ilse Marrow born")
    run.read(None, "birthplace of Ilse Marrow", found[0])
    run.answer("The lighthouse of Skarne was designed by Ilse Marrow, who was born in Tolmen.")


def salmon_count(run: Recorder) -> None:
    run.search("Look for the counts.", "Asshel salomn")
    found = run.search("A typing slip in the query; again.", "Ashel salmon count at the weir")
    run.read(None, "counts of 1990 and 2023", *found[:2])
    run.answer("From 1,120 fish in 1990 the count rose to 4,512 in 2023, by 3,392 fish.")


def bridge_age(run: Recorder) -> None:
    run.search("Two facts are needed.", "Marrow Bridge railway opens", "Ilse Marrow engineer")
    run.read(None, "year of the opening", "http://northern-lines.example/lines/history")
    run.answer("The line opened in 1881, when Ilse Marrow, born in 1838, was 43 years old.")


def ferry_song(run: Recorder) -> None:
    found = run.search("The song should be in the museum.", "song of the Skarne ferry")
    run.read("Read it whole.", "the words of the song", found[0])
    run.read("The other page may tell of a sound.", "recording of the song", f"{found[0]}/audio")
    run.answer("The song asks for the bread of Vesle; a recording of it could not be found.")


def chat_blocks(run: Recorder) -> None:
    found = run.search(None, "chat template messages block", "special tokens user text")
    run.read("The first page tells the layout.", "strings that open and close a block", found[0])
    run.turn(
        "Two more pages of the manual belong to it; read them side by side.",
        ("web_extractor", {"urls": ["http://model-manual.example/guide/tokenizers"],
                           "goal": "how special tokens are treated"}),
        ("web_extractor", {"urls": ["http://model-manual.example/guide/thinking-tags"],
                           "goal": "tags around reasoning"}),
    )  # fmt: skip
    run.answer("A block opens with <|im_start|> and the role and closes with <|im_end|>.")


def two_towns(run: Recorder) -> None:
    run.turn(
        "The two travel times do not depend on each other.",
        ("web_search", {"queries": ["Ashel line Korvand Tolmen stations"]}),
        ("web_search", {"queries": ["Coast line Korvand Hallin stations"]}),
        ("web_search", {"queries": ["Korvand trains electrified"]}),
    )
    run.turn(
        None,
        ("web_extractor", {"urls": ["http://northern-lines.example/lines/ashel"],
                           "goal": "minutes to Tolmen"}),
        ("web_extractor", {"urls": ["http://northern-lines.example/lines/coast"],
                           "goal": "minutes to Hallin"}),
    )  # fmt: skip
    run.answer("Hallin is nearer: 47 minutes against 68 minutes to Tolmen.")


def flood_page(run: Recorder) -> None:
    run.search("Start with the manuscript.", "manuscript great flood Korvand")
    run.read(None, "date of the flood", "http://encyclopedia.example/wiki/Flood_of_1347")
    run.search("That page does not exist; the chronicle's own page should tell.", "Ommer Chronicle")
    run.read(None, "leaves, age, place", "http://encyclopedia.example/wiki/Ommer_Chronicle")
    run.read("When was it shown?", "dates", "http://korvand-herald.example/news/2023/library")
    run.answer("The page on the flood of 1347 was open from 3 April to 30 June 2023.")


def airport(run: Recorder) -> None:
    run.search("Look for an airport.", "airport runway")
    run.search("Nothing; try other words for it.", "airfield", "flights", "Korvand transport")
    run.read(
        "See what the town page tells.", "transport", "http://gazetteer.example/places/korvand"
    )
    run.answer("No source names an airport at Korvand.")


BIRTHPLACE = "Where was the engineer born who designed the lighthouse of Skarne?"
BIRTHPLACE_AGAIN = "Where was the engineer born who designed the Skarne lighthouse?"
EPISODES: tuple[tuple[str, str, Callable[[Recorder], None], str], ...] = (
    ("lighthouse-engineer", BIRTHPLACE, lighthouse_engineer, "Tolmen"),
    ("salmon-count", "By how many fish did the Ashel salmon count at Korvand rise from 1990 to "
     "2023?", salmon_count, "3,392"),
    ("bridge-age", "How old did the engineer of the Marrow Bridge turn in the year in which "
     "the railway across it opened?", bridge_age, "41"),
    ("ferry-song", "What does the song of the Skarne ferry ask the rowers to row for at its end, "
     "and is there a recording?", ferry_song, "bread of Vesle"),
    ("chat-blocks", "Which strings open and close a message in the common chat template?",
     chat_blocks, "<|im_start|>"),
    ("two-towns", "Which town is the shorter train ride from Korvand, Tolmen or Hallin?",
     two_towns, "Hallin"),
    ("flood-page", "When could visitors see the page of the Ommer Chronicle that tells of the "
     "flood?", flood_page, "3 April to 30 June 2023"),
    ("airport", "How long is the runway of the airport of Korvand?", airport, "No source"),
    ("lighthouse-engineer-again", BIRTHPLACE_AGAIN, lighthouse_engineer, "Tolmen"),
    # The last line repeats the second one byte for byte.
    ("salmon-count", "By how many fish did the Ashel salmon count at Korvand rise from 1990 to "
     "2023?", salmon_count, "3,392"),
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="Record search episodes on a local service.")
    parser.add_argument("out_dir", type=Path, help="folder for episodes.jsonl")
    parser.add_argument("--port", type=int, default=8378, help="port of the service on 127.0.0.1")
    options = parser.parse_args()
    options.out_dir.mkdir(parents=True, exist_ok=True)
    server = serve(options.port)
    rows = []
    for name, task, policy, wanted in EPISODES:
        run = Recorder(f"http://127.0.0.1:{options.port}", task)
        policy(run)
        outcome = "success" if wanted in run.messages[-1]["content"] else "failure"
        rows.append(
            {"id": name, "task": task, "messages": run.messages, "tools": TOOLS,
             "outcome": outcome, "model": "scripted"}
        )  # fmt: skip
        print(f"{name}: {run.n_calls} tool calls, {outcome}")
    server.shutdown()
    server.server_close()
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (options.out_dir / "episodes.jsonl").write_bytes(text.encode())


if __name__ == "__main__":
    main()
