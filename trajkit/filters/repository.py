"""Which repository a run works on, and which addresses hold its answer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_INSTANCE = re.compile(
    r"\b([A-Za-z0-9][\w.-]*?)__([A-Za-z0-9][\w.-]*?)(?:-\d+\b|__[\w.]+|\.[0-9a-f]{6,})"
)
_HOSTED = re.compile(
    r"(?:github|gitlab|bitbucket)\.(?:com|org)[/:]([\w.-]+)/([\w.-]+?)"
    r"(?:\.git)?(?=[/\s\"')\\]|$)"
)
_CLONED = re.compile(r"(?:git clone|remote -v)")
_PATCH = re.compile(
    r"github\.com/(?P<repo>[\w.-]+/[\w.-]+)/(?:pull/\d+|commit/[0-9a-f]{6,}|compare/)"
    r"|patch-diff\.githubusercontent\.com/raw/(?P<repo2>[\w.-]+/[\w.-]+)/pull/"
    r"|api\.github\.com/repos/(?P<repo3>[\w.-]+/[\w.-]+)/(?:pulls/\d+|commits/|compare/)"
    r"|gitlab\.com/(?P<repo4>[\w.-]+/[\w.-]+)/-/(?:merge_requests/\d+|commit/)"
    r"|bitbucket\.org/(?P<repo5>[\w.-]+/[\w.-]+)/(?:pull-requests/\d+|commits/)"
)
_RAW = re.compile(
    r"raw\.githubusercontent\.com/(?P<repo>[\w.-]+/[\w.-]+)/(?P<path>[^\s\"'?#]+)"
    r"|github\.com/(?P<repo2>[\w.-]+/[\w.-]+)/(?:raw|blob)/(?P<path2>[^\s\"'?#]+)"
    r"|api\.github\.com/repos/(?P<repo3>[\w.-]+/[\w.-]+)/contents/(?P<path3>[^\s\"'?#]+)"
    r"|gitlab\.com/(?P<repo4>[\w.-]+/[\w.-]+)/-/(?:raw|blob)/(?P<path4>[^\s\"'?#]+)"
)
_BENCHMARKS = re.compile(
    r"\b(?:swe-bench|princeton-nlp|laude-institute|harbor-framework|swe-gym|nebius)/"
    r"(?:swe-?bench|terminal-bench|swe-gym|swe-rebench)[\w.-]*",
    re.IGNORECASE,
)
_READERS = re.compile(r"curl|wget|https?|aria2c|open|gh|hub|lynx|w3m|python[\d.]*|node|web_?fetch")
_FETCHES = re.compile(r"\.get\(|\burl(?:open|retrieve)\(|\bfetch\(|\bclone|\bdownload")
_CLIENT = re.compile(r"pr (?:view|diff|checkout)\b|api [^ ]*(?:/pulls/\d+|/commits/|/compare/)")


@dataclass(frozen=True, slots=True)
class OwnRepository:
    """Names of the repository a run works on; empty when the run does not say."""

    names: frozenset[str]
    """Names without their owner, lower case."""

    @classmethod
    def of(
        cls, head: Mapping[str, Any], steps: Iterable[tuple[int, str, str, str | None]]
    ) -> OwnRepository:
        """Return what a trajectory's row and its first steps say of the repository.

        >>> sorted(OwnRepository.of({"meta": '{"instance_id": "oak__acorn-17"}'}, []).names)
        ['acorn']
        """
        task = str(head.get("task") or "")
        others = (str(head.get(name) or "") for name in ("meta", "origin_key", "origin_path"))
        names = {
            match[2].lower()
            for place in (task, *others)
            if "__" in place
            for match in _INSTANCE.finditer(place)
        }
        if not names:
            names = {match[2].lower() for match in _HOSTED.finditer(task)}
        for _, _, action, seen in steps:
            if _CLONED.search(action):
                found = _HOSTED.findall(action) + _HOSTED.findall((seen or "")[:2_000])
                names |= {name.lower() for _, name in found}
        return cls(frozenset(names))

    def owns(self, repository: str) -> bool:
        """Return whether `owner/name`, or a fork of it, is the run's own."""
        return repository.split("/")[-1].removesuffix(".git").lower() in self.names

    def is_package(self, name: str) -> bool:
        """Return whether a package is likely what the repository makes."""
        plain = re.sub(r"[-_.]+", "-", name.split("/")[-1]).lower()
        return plain in {re.sub(r"[-_.]+", "-", own) for own in self.names}

    @staticmethod
    def is_benchmark(text: str) -> bool:
        """Return whether a text names the home of a benchmark's answers."""
        return _BENCHMARKS.search(text) is not None


def holds_address(words: list[str]) -> bool:
    """Return whether a command may fetch something from the network."""
    program = words[0].rsplit("/", 1)[-1]
    if program in ("gh", "hub"):
        return True
    if program.startswith(("python", "node")):
        return any(_FETCHES.search(word) for word in words[1:])
    return _READERS.fullmatch(program) is not None and any("." in word for word in words[1:])


def url_of_answer(words: list[str], own: OwnRepository, handled: str) -> str | None:
    """Return the address of an answer that a command opens, or null.

    `handled` is the text of all actions of the run.

    >>> unknown = OwnRepository(frozenset())
    >>> url_of_answer(["curl", "https://github.com/oak/acorn/pull/3.diff"], unknown, "")
    'oak/acorn'
    >>> url_of_answer(["curl", "https://github.com/oak/acorn/issues/3"], unknown, "")
    """
    text = " ".join(words)
    if not holds_address(words):
        return None
    if words[0] in ("gh", "hub"):
        return _with_client(words)
    if OwnRepository.is_benchmark(text):
        return text
    for match in _PATCH.finditer(text):
        repository = next(found for found in match.groupdict().values() if found)
        if not own.names or own.owns(repository):
            return repository
    for match in _RAW.finditer(text):
        parts = [found for found in match.groupdict().values() if found]
        repository, path = parts[0], parts[1].rstrip(")\\")
        tail = "/".join(path.split("/")[-2:])
        if own.owns(repository) or (not own.names and handled.count(tail) > 1):
            return repository
    return None


def _with_client(words: list[str]) -> str | None:
    """Return the words of a look at a pull request or commit by GitHub's client."""
    line = " ".join(words[1:])
    return line if _CLIENT.match(line) else None
