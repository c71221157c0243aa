"""Runs that read their answer: from version history, over the network, from a newer package.

Up to a fifth of the solved runs of public sets did, and choosing runs by success keeps just these.
A finding belongs to the whole run: the steps are real, but what the run shows is not solving. So
all its steps are marked `leaked_answer`, and `meta.leaked_answer` of the trajectory lists the
evidence: `[{"step_index", "kind", "evidence"}]`. Nothing is dropped.

Kinds, and what each takes:

- `history`: a cherry-pick, merge or pull of what others did; or a look at a commit that is not
  known to lie behind the base (show, checkout, diff, cat-file, a log with patches), after a search
  through all branches, reflogs, lost objects or a remote, or dated after the base. A commit is
  known when a plain `git log` or `git blame` listed it, when the run made it, or when a listing
  shows it below HEAD.
- `network`: a pull request, commit, patch or diff, or a raw file of the run's own repository; a
  copy of the benchmark itself. Where the run does not say which repository is its own, any patch
  counts, and a raw file whose path the run also handles.
- `package`: the run's own package downloaded or installed from an index, then opened.

A step that plainly failed (no such remote, no network, no such commit) gave nothing away. Plain
`git log`, `blame`, `diff`, `stash` and `show HEAD` are work as usual.

Source of the cases: audits of published runs on SWE-bench-like tasks; the rules are our choice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import polars as pl

from trajkit.filters.repository import OwnRepository, holds_address, url_of_answer
from trajkit.filters.shell import commands, texts_run

DOMAINS = ("swe", "terminal")
_SIGNS = (
    "cherry-pick",
    "git show",
    "git fetch",
    "git pull",
    "git merge",
    "git rebase",
    "git -",
    "cat-file",
    "reflog",
    "fsck",
    "--all",
    "--remotes",
    "--branches",
    "FETCH_HEAD",
    "origin/",
    "upstream/",
    "//github.com/",
    "//www.github.com/",
    "githubusercontent",
    "api.github",
    "//gitlab",
    "//bitbucket",
    "gh pr ",
    "gh api ",
    "swe-bench",
    "terminal-bench",
    "pip download",
    "pip3 download",
    "pip install",
    "pip3 install",
    "npm pack",
    "gem fetch",
)
_FAILED = re.compile(
    r"could not resolve|unable to access|repository not found|404: not found|connection refused"
    r"|connection timed out|not a git repository|unknown revision|bad object|bad revision"
    r"|network is unreachable|no matching distribution|could not find a version|command not found"
    r"|does not appear to be a git repository|no tracking information|already up[ -]to[ -]date"
    r"|invalid object name|temporary failure in name resolution|403 forbidden|404 not found"
    r"|error: pathspec|failed to connect|needed a single revision|no such remote",
    re.IGNORECASE,
)
_MATTERS = ("git", "http", "pip", "npm", "gem", "gh ", "hub ")
"""All else a run does is of interest only once it has got a package."""
_MAX_FAILURE_CHARS = 2_000
_HASH = re.compile(r"(?<![\w/.])(?=[a-f]*[0-9])[0-9a-f]{7,40}(?![\w])")
_REMOTE = re.compile(r"^(?:refs/)?(?:remotes/)?(?:origin|upstream)/|^refs/(?:remotes|pull)/|@\{u")
_WIDE = re.compile(r"--(?:all|branches|remotes|reflog|tags|walk-reflogs|glob=.*)$|-g$")
_PATCH = re.compile(r"-p$|-u$|--patch$|--full-diff$|-L.*|--cc$")
_OF_HEAD = frozenset({"", "HEAD", "ORIG_HEAD", "stash", "refs/stash"})
_EARLIER_HEAD = re.compile(r"HEAD@\{[1-9]")
"""Where HEAD stood before: a lost commit, in a run that made none itself."""
_COMMITTED = re.compile(r"^\[[^\]\n]*?\b([0-9a-f]{7,40})\]", re.MULTILINE)
_DATE = re.compile(r"^(?:Author|Commit)?Date:\s+(?P<date>[^\n]+)", re.MULTILINE)
_LISTINGS = frozenset(
    {"log", "rev-list", "reflog", "fsck", "branch", "for-each-ref", "tag", "whatchanged"}
)
_UNPACKS = frozenset({"unzip", "tar", "gunzip", "bsdtar", "7z", "zipinfo", "wheel"})
_READS = re.compile(
    r"(?:cat|cp|mv|diff|head|tail|less|more|sed|[er]?grep|rg|[gm]?awk|vim?|nl|python[\d.]*)"
)


@dataclass
class _Run:
    """What a run has come to know, step by step."""

    head: Mapping[str, Any]
    steps: list[tuple[int, str, str, str | None]]
    known: set[str] = field(default_factory=set)
    """Commits that lie behind the base or were made by the run."""
    newer: set[str] = field(default_factory=set)
    """Commits that a listing shows above HEAD."""
    searched: bool = False
    """Whether it looked beyond what HEAD can reach."""
    fetched: bool = False
    base: str | None = None
    """Date of HEAD at the start, comparable as text."""
    branches: set[str] = field(default_factory=set)
    """Made by the run."""
    fetched_names: set[str] = field(default_factory=set)
    """Branches that a fetch made of someone else's."""
    packages: dict[str, int] = field(default_factory=dict)
    """Packages got from an index, with the step."""
    installed: set[str] = field(default_factory=set)
    committed: bool = False

    @cached_property
    def own(self) -> OwnRepository:
        """The repository it works on."""
        return OwnRepository.of(self.head, self.steps)

    @cached_property
    def of_task(self) -> set[str]:
        """Commits that its task names."""
        return set(_HASH.findall(str(self.head.get("task") or "")))


def find_leaks(episodes: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Return `trajectory_id, step_index, kind, evidence` of the runs that read their answer.

    Looks at swe and terminal runs, whatever their outcome, and at the few with a sign of it only.
    """
    signs = steps.filter(
        pl.col("domain").is_in(DOMAINS)
        & pl.col("action_kind").is_in(["tool_call", "keystrokes", "code"])
        & pl.col("action").str.contains_any(list(_SIGNS), ascii_case_insensitive=True)
    )
    candidates = signs["trajectory_id"].unique()
    rows: list[tuple[str, int, str, str]] = []
    heads = episodes.filter(pl.col("trajectory_id").is_in(candidates.implode()))
    runs = (
        steps.select("trajectory_id", "step_index", "action_kind", "action", "observation")
        .filter(pl.col("trajectory_id").is_in(candidates.implode()))
        .partition_by("trajectory_id", as_dict=True, maintain_order=True, include_key=False)
    )
    for head in heads.iter_rows(named=True):
        found = leaks_of(head, runs[(head["trajectory_id"],)].rows())
        rows.extend((head["trajectory_id"], *leak) for leak in found)
    schema = {
        "trajectory_id": pl.String,
        "step_index": pl.Int64,
        "kind": pl.String,
        "evidence": pl.String,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def leaks_of(
    head: Mapping[str, Any], steps: list[tuple[int, str, str, str | None]]
) -> list[tuple[int, str, str]]:
    """Return `(step_index, kind, evidence)` of one run, at most one for each step and kind.

    `head` is a row of trajectories, `steps` are `(step_index, action_kind, action, observation)`.
    """
    run = _Run(head, steps)
    found: dict[tuple[int, str], str] = {}
    for index, kind, action, seen in steps:
        if not (run.packages or run.installed or any(word in action for word in _MATTERS)):
            continue
        for text in texts_run(kind, action):
            for words in commands(text):
                for leak, evidence in _leaks(run, words, index, seen or ""):
                    if (index, leak) not in found and not _failed(seen):
                        found[index, leak] = evidence
    return [(index, kind, evidence[:200]) for (index, kind), evidence in found.items()]


def _failed(seen: str | None) -> bool:
    return bool(seen and len(seen) < _MAX_FAILURE_CHARS and _FAILED.search(seen))


def _leaks(run: _Run, words: list[str], index: int, seen: str) -> Iterator[tuple[str, str]]:
    line = " ".join(words)
    if words[0] in ("git", "/usr/bin/git") and _of_history(run, _git_words(words), seen):
        yield "history", line
    if words[0] not in ("git", "echo", "printf", "grep", "rg"):
        if _gives_answer(run, words):
            yield "network", line
    elif words[:2] == ["git", "clone"] and run.own.is_benchmark(line):
        yield "network", line
    if _of_package(run, words, index):
        yield "package", line


def _gives_answer(run: _Run, words: list[str]) -> bool:
    """Return whether a command opens an address of the answer."""
    if not holds_address(words):
        return False
    handled = "\n".join(action for _, _, action, _ in run.steps)
    return url_of_answer(words, run.own, handled) is not None


def _git_words(words: list[str]) -> list[str]:
    """Return the subcommand and its words, without git's own options."""
    rest = words[1:]
    while rest and rest[0].startswith("-"):
        rest = rest[2:] if rest[0] in ("-C", "-c", "--git-dir", "--work-tree") else rest[1:]
    return rest


def _of_history(run: _Run, words: list[str], seen: str) -> bool:
    """Return whether a git command reads a commit beyond the base; notes what it saw."""
    if not words:
        return False
    verb, rest = words[0], words[1:]
    options = [word for word in rest if word.startswith("-") and word != "--"]
    names = rest[: rest.index("--")] if "--" in rest else rest
    refs = [name for name in names if not name.startswith("-")]
    if verb in _LISTINGS:
        return _of_listing(run, verb, options, refs, seen)
    if verb in ("blame", "rev-parse", "describe", "merge-base"):
        run.known.update(_HASH.findall(seen))
    elif verb == "commit":
        run.committed = True
        run.known.update(_COMMITTED.findall(seen))
    elif verb in ("fetch", "pull") and not _failed(seen):
        run.fetched = run.searched = True
        run.fetched_names.update(ref.split(":")[1] for ref in refs if ":" in ref)
        return verb == "pull"
    elif verb in ("checkout", "switch", "branch", "worktree") and {"-b", "-c", "-B"} & set(options):
        run.branches.update(refs[:1])
        refs = refs[1:]
    if verb == "cherry-pick":
        return bool(refs) and not all(_is_own(run, ref) for ref in refs)
    if verb in ("merge", "rebase", "reset") or (verb == "checkout" and not refs):
        return any(_is_remote(ref) for ref in refs) or any(_is_foreign(run, r, seen) for r in refs)
    if verb in ("show", "checkout", "switch", "restore", "cat-file", "format-patch", "archive"):
        sources = [word.partition("=")[2] for word in options if word.startswith("--source=")]
        return any(_is_foreign(run, ref, seen) for ref in (*refs, *sources))
    if verb == "grep":
        return any(_is_foreign(run, ref, seen) for ref in refs[1:])
    if verb == "diff":
        # Own work beside the remote branch it began from, unless that has moved since.
        own_work = len(refs) == 1 and _is_remote(refs[0]) and not run.fetched
        return not own_work and any(_is_foreign(run, ref, seen) for ref in refs)
    return False


def _of_listing(run: _Run, verb: str, options: list[str], refs: list[str], seen: str) -> bool:
    """Return whether a listing shows patches of commits beyond HEAD; notes the commits it lists."""
    wide = (
        verb in ("reflog", "fsck")
        or any(_WIDE.match(option) for option in options)
        or any(_is_remote(side) for ref in refs for side in re.split(r"\.{2,3}", ref))
        or (verb in ("branch", "tag") and any(o.startswith(("-a", "-r")) for o in options))
    )
    hashes = _HASH.findall(seen)
    head = re.search(r"\(HEAD\b", seen)
    if not wide:
        run.known.update(hashes)
        dates = [date for date in map(_comparable, _DATE.findall(seen)) if date]
        if dates and not run.committed and "bench" not in seen[:400].lower():
            run.base = max(dates) if run.base is None else run.base
        return False
    if verb in ("branch", "tag", "for-each-ref") and verb != "fsck":
        run.searched = True
        return False
    if head is not None:
        run.newer.update(_HASH.findall(seen[: seen.rfind("\n", 0, head.start()) + 1]))
        run.known.update(_HASH.findall(seen[seen.rfind("\n", 0, head.start()) + 1 :]))
        run.searched = run.searched or bool(run.newer)
        return bool(run.newer) and any(_PATCH.match(option) for option in options)
    run.searched = True
    return verb in ("log", "whatchanged") and any(_PATCH.match(option) for option in options)


def _is_remote(ref: str) -> bool:
    return ref.startswith("FETCH_HEAD") or _REMOTE.search(ref) is not None


def _is_own(run: _Run, ref: str) -> bool:
    name = re.split(r"[~^:]", ref)[0]
    return name in run.branches or _is_known(run, name)


def _is_known(run: _Run, name: str) -> bool:
    return any(one.startswith(name) or name.startswith(one) for one in (*run.known, *run.of_task))


def _is_foreign(run: _Run, ref: str, seen: str) -> bool:
    """Return whether a name stands for a commit that is not behind the base, as far as is known."""
    for side in re.split(r"\.{2,3}", ref):
        if _is_remote(side) or side.split(":")[0] in run.fetched_names:
            return True
        if side.startswith("$") and run.searched:
            return True
        if _EARLIER_HEAD.match(side) and run.searched and not run.committed:
            return True
        name = re.split(r"[~^:@]", side)[0]
        if name in _OF_HEAD or name in run.branches or _is_known(run, name):
            continue
        is_hash = _HASH.fullmatch(name) is not None
        dates = [date for date in map(_comparable, _DATE.findall(seen)) if date]
        if run.base is not None and dates:
            if dates[0] > run.base and (is_hash or not run.committed):
                return True
        elif is_hash and run.searched:
            return True
    return False


_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"


def _comparable(date: str) -> str | None:
    """Return a date of a log as text that sorts by time, without its zone; null for relative ones.

    >>> _comparable("Mon Jan 2 15:04:05 2023 +0100")
    '2023-01-02 15:04:05'
    """
    match = re.match(r"\w{3} (\w{3}) +(\d+) ([\d:]{8}) (\d{4})", date)
    if match and match[1] in _MONTHS:
        month = _MONTHS.index(match[1]) // 3 + 1
        return f"{match[4]}-{month:02d}-{int(match[2]):02d} {match[3]}"
    iso = re.match(r"(\d{4}-\d\d-\d\d)[T ]([\d:]{8})", date)
    return f"{iso[1]} {iso[2]}" if iso else None


_REQUIREMENT = re.compile(
    r"(?![-./])([A-Za-z@][\w.@/-]*?)(?:\[[^\]]*\])?(?:[=<>~!]=?.*|@[\d^~l].*)?$"
)


def _of_package(run: _Run, words: list[str], index: int) -> bool:
    """Return whether a command opens the run's own package, got from an index before."""
    text = " ".join(words)
    got = re.match(
        r"(?:python[\d.]* -m )?(?:uv )?(?P<tool>pip[\d.]*|npm|gem|yarn) "
        r"(?P<verb>download|wheel|pack|fetch|install)\b(?P<rest>.*)",
        text,
    )
    if got:
        for word in got["rest"].split():
            name = _REQUIREMENT.match(word)
            if name is None or (run.own.names and not run.own.is_package(name[1])):
                continue
            if got["verb"] == "install":
                if run.own.names:
                    run.installed.add(_package(name[1]))
            else:
                run.packages[_package(name[1])] = index
        return False
    for package in run.packages:
        if _READS.fullmatch(words[0]) and _opens(package, words[1:]):
            return True
        if words[0] in _UNPACKS and run.own.names and _package(text).find(package) >= 0:
            return True
    return any(
        re.search(rf"(?:site|dist)-packages/{re.escape(package)}\b", text)
        or ("getsource" in text and package in _package(text))
        for package in run.installed
    )


def _package(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()


def _opens(package: str, words: list[str]) -> bool:
    """Return whether a word is a path into an unpacked package."""
    return any(
        package in [_package(part) for part in word.split("/")[:-1]]
        or any(_package(part).startswith(f"{package}_") for part in word.split("/")[:-1])
        for word in words
    )
