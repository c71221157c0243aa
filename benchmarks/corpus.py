"""Write a corpus of any size out of real logs, its texts varied so that no two episodes are alike.

Templates are the logs of the repository, the raw cases of the adapters, and the shared samples
where they lie beside it. Copies get ids of their own; of the lines of each longer text about half
are replaced by lines of other logs. Sizes of messages stay what they are in the templates. Of
the lines put in, none holds what Python's `splitlines` cuts at: readers that use it would stop.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson

ROOT = Path(__file__).parent.parent
PLACES = (ROOT.parent / "shared" / "samples", ROOT / "examples" / "logs", ROOT / "tests" / "golden")
KINDS: dict[str, tuple[str, ...]] = {
    "claude-code": ("claude-code/*.jsonl",),
    "codex": ("codex/*.jsonl",),
    "chat": ("hf-messages/*.json", "toucan/*.json", "search/*.jsonl", "openai-chat/*.raw.jsonl"),
    "documents": (
        "terminal/*.json",
        "swe/*.json",
        "web/*.json",
        "sweagent/*.traj",
        "mini-swe-agent/*.traj.json",
        "atif/*.trajectory.json",
        "atif/*.raw.json",
        "swe-agent/*.raw.traj",
    ),
}
SESSION_BYTES = 1_000_000
_ID = re.compile(
    r"^(?:[0-9a-f]{8}-[0-9a-f-]{27}|(?:toolu|call|msg|req|resp|rs|fc|chatcmpl)[-_][\w-]+|[a-z]\d{1,4})$"
)
_MIN_TEXT = 60


class Corpus:
    """Templates by kind, and a pool of lines to vary them with."""

    def __init__(self, seed: int = 0) -> None:
        self._rng = random.Random(seed)
        self._templates: dict[str, list[list[Any]]] = {
            kind: list(_templates(patterns)) for kind, patterns in KINDS.items()
        }
        lines = {
            line
            for templates in self._templates.values()
            for template in templates
            for text in _texts(template)
            for line in text.split("\n")
            if 20 <= len(line) <= 400 and line.splitlines() == [line]
        }
        self._pool = sorted(lines)
        self._number = 0

    def write(self, folder: Path, n_bytes: int) -> dict[str, int]:
        """Return the bytes written by kind: equal shares, in one folder for each kind."""
        writers: dict[str, Callable[[Path, int], int]] = {
            "claude-code": self._sessions,
            "codex": self._sessions,
            "chat": self._rows,
            "documents": self._documents,
        }
        sizes = {}
        for kind, write in writers.items():
            (folder / kind).mkdir(parents=True)
            sizes[kind] = write(folder / kind, n_bytes // len(writers))
        return sizes

    def _copies(self, kind: str) -> Iterator[list[Any]]:
        # By size: most bytes of real logs stand in the long sessions.
        templates = self._templates[kind]
        weights = [len(orjson.dumps(template)) for template in templates]
        while True:
            (template,) = self._rng.choices(templates, weights)
            yield self._vary(template, {})

    def _vary(self, value: Any, names: dict[str, str]) -> Any:
        if isinstance(value, dict):
            return {key: self._vary(inner, names) for key, inner in value.items()}
        if isinstance(value, list):
            if not names:
                self._number += 1
                names[""] = f"{self._number:x}"
            return [self._vary(inner, names) for inner in value]
        if not isinstance(value, str):
            return value
        if _ID.match(value):
            return f"{value}{names['']}" if "" in names else value
        if len(value) < _MIN_TEXT or value[0] in "{[<#":
            return value
        lines = value.split("\n")
        for number in range(len(lines)):
            if self._rng.random() < 0.5:
                lines[number] = self._rng.choice(self._pool)
        return "\n".join(lines)

    def _sessions(self, folder: Path, n_bytes: int) -> int:
        """Write files of about a megabyte: the turns of several logs one after the other."""
        size = number = 0
        copies = self._copies(folder.name)
        while size < n_bytes:
            written = 0
            last: str | None = None
            with (folder / f"session-{number:05d}.jsonl").open("wb") as file:
                while written < SESSION_BYTES:
                    for line in next(copies):
                        if written and line.get("type") == "session_meta":
                            continue
                        if "parentUuid" in line:
                            line["parentUuid"] = line["parentUuid"] or last
                            line["sessionId"] = f"s{number}"
                            last = line["uuid"]
                        written += file.write(orjson.dumps(line) + b"\n")
            size += written
            number += 1
        return size

    def _rows(self, folder: Path, n_bytes: int) -> int:
        """Write files of some 20 MB with a row a line, spaced as Python's own writer does."""
        import json

        size = number = 0
        copies = self._copies(folder.name)
        while size < n_bytes:
            written = 0
            with (folder / f"rows-{number:04d}.jsonl").open("w", encoding="utf-8") as file:
                while written < 20_000_000 and size + written < n_bytes:
                    for row in next(copies):
                        written += file.write(json.dumps(row) + "\n")
            size += written
            number += 1
        return size

    def _documents(self, folder: Path, n_bytes: int) -> int:
        size = 0
        for number, copy in enumerate(self._copies(folder.name)):
            if size >= n_bytes:
                break
            (folder / f"{number // 1000:03d}").mkdir(exist_ok=True)
            text = orjson.dumps(copy[0], option=orjson.OPT_INDENT_2)
            size += (folder / f"{number // 1000:03d}" / f"{number:06d}.json").write_bytes(text)
        return size


def _templates(patterns: tuple[str, ...]) -> Iterator[list[Any]]:
    for place in PLACES:
        for pattern in patterns:
            for path in sorted(place.glob(pattern)):
                rows = _values(path)
                if path.suffix == ".json" and rows and isinstance(rows[0], list):
                    rows = rows[0]
                if rows and all(isinstance(row, dict) for row in rows):
                    yield rows


def _values(path: Path) -> list[Any]:
    data = path.read_bytes()
    try:
        return [orjson.loads(data)]
    except ValueError:
        pass
    try:
        return [orjson.loads(line) for line in data.split(b"\n") if line.strip()]
    except ValueError:
        return []


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if len(value) >= _MIN_TEXT and value[0] not in "{[<#":
            yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)
