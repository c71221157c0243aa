"""Show or upload a built folder as a Hub data set: Parquet, a manifest and a card.

Only Parquet with explicit features is uploaded, never JSON lines: `datasets` takes some chat rows
in JSON lines for agent traces and drops their other columns. Everything goes up in one commit, so
a reader sees either the old build or the new one.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
import pyarrow.parquet as pq

from trajkit.builders.card import CARD, Build, Place, merge_card, without_places
from trajkit.builders.splits import SPLITS
from trajkit.errors import TrajkitError, quote
from trajkit.progress import Progress
from trajkit.report import Report
from trajkit.secrets.rows import secrets_in
from trajkit.store import MANIFEST, Store
from trajkit.tables import file_sha256

if TYPE_CHECKING:
    from huggingface_hub import HfApi

_T = TypeVar("_T")
MAX_FILES_IN_A_FOLDER = 10_000
MAX_TRIES = 5
MAX_WAIT_SECONDS = 300.0
_PART = re.compile(r"(?:train|validation|test)/part-\d+(?:-\d+)?\.parquet")
_NAME = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,94}[A-Za-z0-9_])?"


def publish(
    folder: str | Path,
    repository: str,
    *,
    upload: bool,
    private: bool,
    license: str | None,
    tag: str | None,
    quiet: bool,
    allow_secrets: bool = False,
    endpoint: str | None = None,
) -> tuple[Report, str | None]:
    """Return the report, and without `upload` a preview of the card and the files.

    Without `upload` nothing leaves this machine. Each file is hashed against the manifest first.
    A repository's own prose and other configs stay; `endpoint` is another Hub than the default.

    Raises TrajkitError for a folder that is not built or was altered, for rows that hold secrets or
    personal data unless these are allowed, and when the Hub refuses.
    """
    _check_names(repository, tag)
    build = open_build(folder, quiet=quiet)
    place = Place(repository=repository, license=license)
    report = Report("publish")
    report.read = report.kept = sum(build.rows.values())
    report.extra |= {"repository": repository, "dry_run": not upload, "splits": build.rows}
    if build.shortened:
        report.extra["shortened_in_manifest"] = build.shortened
    if "scrub" not in build.stages:
        report.warnings.append(
            "no scrub stage was found behind these rows: look for secrets and personal data first"
        )
    if found := secrets_in(build.files.values(), quiet=quiet):
        report.extra["secrets"] = dict(sorted(found.items()))
        what = "holds " + ", ".join(f"{n} {kind}" for kind, n in sorted(found.items()))
        if upload and not allow_secrets:
            hint = "run `trajkit scrub` before the build; --allow-secrets if they may be seen"
            raise TrajkitError(str(folder), what, hint)
        report.warnings.append(f"{quote(str(folder))} {what}")
    preview = None
    if upload:
        with _bars(quiet):
            _upload(build, place, report, private=private, tag=tag, endpoint=endpoint)
    else:
        card = merge_card("", build, place)
        listed = [f"{size:>14,}  {name}" for name, size in _account(build, card, report).items()]
        preview = "\n".join([card, f"Would upload to {repository} (bytes, file):", *listed])
    return report.finish(), preview


def _account(build: Build, card: str, report: Report) -> dict[str, int]:
    """Return the size of each file to upload; notes their sum, and a missing licence."""
    sizes = {name: path.stat().st_size for name, path in build.files.items()}
    sizes |= {MANIFEST: len(build.manifest), CARD: len(card.encode())}
    report.extra |= {"files": len(sizes), "bytes": sum(sizes.values())}
    if not re.search(r"^license:", card, re.MULTILINE):
        report.warnings.append("the card names no licence: pass --license")
    return sizes


def _check_names(repository: str, tag: str | None) -> None:
    odd = re.search(r"--|\.\.|\.git$", repository)
    if odd or not re.fullmatch(f"{_NAME}/{_NAME}", repository):
        hint = "give owner/name of letters, digits, '-', '_' and '.'"
        raise TrajkitError("REPO", f"{quote(repository)} is no name for a repository", hint)
    if tag is not None and not re.fullmatch(r"\w[\w./+-]*", tag):
        raise TrajkitError("--tag", f"{quote(tag)} is no name for a tag", "try v1.0")


def open_build(folder: str | Path, *, quiet: bool = True) -> Build:
    """Return a built folder after hashing each of its files against the manifest.

    Raises TrajkitError when it is a store of episodes, or a file is missing, changed or unlisted.
    """
    store = Store(folder)
    if store.manifest.kind != "examples":
        what = f"is of kind {store.manifest.kind!r}, not training rows"
        raise TrajkitError(str(folder), what, "build them first, as with `trajkit build-cpt`")
    listed = sorted(name for name in store.manifest.parts if _PART.fullmatch(name))
    there = {p.relative_to(store.path).as_posix() for s in SPLITS for p in store.files(s)}
    for name in sorted(there - set(listed)):
        raise TrajkitError(str(store.path / name), "is not in the manifest", "take it out")
    if not listed:
        raise TrajkitError(str(folder), "holds no rows", "see the report of the build for why")
    for split, count in Counter(name.split("/")[0] for name in listed).items():
        if count >= MAX_FILES_IN_A_FOLDER:
            what = f"holds {count} files; the Hub takes under {MAX_FILES_IN_A_FOLDER} a folder"
            raise TrajkitError(str(store.path / split), what, "ingest into fewer, larger parts")
    rows: Counter[str] = Counter()
    with Progress("publish", len(listed), "files checked", quiet=quiet) as progress:
        for name in listed:
            again = "build the folder again, or put the file back as it was"
            if name not in there:
                raise TrajkitError(str(store.path / name), "is missing", again)
            if file_sha256(store.path / name) != store.manifest.parts[name]:
                raise TrajkitError(str(store.path / name), "differs from its manifest", again)
            rows[name.split("/")[0]] += pq.read_metadata(store.path / name).num_rows
            progress.advance()
    text = (store.path / MANIFEST).read_bytes()
    shown, shortened = without_places(orjson.loads(text))
    if shortened:
        text = orjson.dumps(shown, option=orjson.OPT_INDENT_2) + b"\n"
    return Build(
        store=store,
        ancestors=tuple(_ancestors(store)),
        files={name: store.path / name for name in listed},
        rows=dict(rows),
        manifest=text,
        shortened=shortened,
    )


def _ancestors(store: Store) -> Iterator[Store]:
    """Give the stores behind a folder that lie beside it, each known by its manifest's hash."""
    found: Store | None = store
    while found is not None:
        beside = found.path.resolve().parent
        inputs, found = found.manifest.inputs, None
        for entry in inputs:
            path = beside / PurePosixPath(entry["name"]).name
            manifest = path / MANIFEST
            if manifest.is_file() and file_sha256(manifest) == entry["sha256"]:
                found = Store(path)
                yield found
                break


def _upload(
    build: Build,
    place: Place,
    report: Report,
    *,
    private: bool,
    tag: str | None,
    endpoint: str | None,
) -> None:
    """Put a build into a repository and note in the report what was done."""
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

    name, stage = place.repository, build.store.manifest.stage
    api = HfApi(endpoint=endpoint, library_name="trajkit")
    with _hub_errors(name, "no rows were changed"):
        _patiently(
            lambda: api.create_repo(name, repo_type="dataset", private=private, exist_ok=True)
        )
        info = _patiently(lambda: api.dataset_info(name))
        remote = _Remote(api, name, info.sha, {file.rfilename for file in info.siblings or []})
        theirs = remote.manifest("")
        if theirs.get("stage", stage) != stage:
            # One repository may hold several builds: the first is the default config.
            place = replace(place, config=stage, prefix=f"{stage}/")
            theirs = remote.manifest(place.prefix)
        card = merge_card(remote.text(CARD), build, place)
        _account(build, card, report)
        stale = _stale(build, place, remote, set(theirs.get("parts", ())))
        parts = {f: CommitOperationAdd(place.prefix + f, path) for f, path in build.files.items()}
        operations: list[Any] = [CommitOperationDelete(path) for path in stale]
        operations += parts.values()
        operations.append(CommitOperationAdd(place.prefix + MANIFEST, build.manifest))
        operations.append(CommitOperationAdd(CARD, card.encode()))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            # The client uses its own HTTP library in a way that library deprecates.
            warnings.simplefilter("ignore", DeprecationWarning)
            commit = _patiently(
                lambda: api.create_commit(
                    name,
                    operations,
                    repo_type="dataset",
                    commit_message=f"Publish {stage} rows",
                    parent_commit=info.sha,
                )
            )
        report.warnings += [str(warning.message) for warning in caught]
    for file, addition in parts.items():
        if addition.upload_info.sha256.hex() != build.store.manifest.parts[file]:
            what = f"changed while it went up; {name} holds it so at {commit.oid}"
            raise TrajkitError(str(build.files[file]), what, "build again and publish again")
    changed = commit.oid != info.sha
    report.out = f"{api.endpoint}/datasets/{name}"
    report.written = report.kept if changed else 0
    report.extra |= {"config": place.config, "revision": commit.oid, "changed": changed}
    report.extra |= {"removed": stale, "url": f"{report.out}/tree/{commit.oid}"}
    if tag is not None:
        with _hub_errors(name, f"the rows are there as {commit.oid}, without the tag {tag}"):
            _patiently(
                lambda: api.create_tag(name, tag=tag, revision=commit.oid, repo_type="dataset")
            )
        report.extra["tag"] = tag


@dataclass(frozen=True, slots=True)
class _Remote:
    """One revision of a repository."""

    api: HfApi
    repository: str
    revision: str | None
    files: set[str]

    def text(self, path: str) -> str:
        """Return a small file's text; empty when it is not there."""
        if path not in self.files:
            return ""
        with tempfile.TemporaryDirectory() as folder:
            local = _patiently(
                lambda: self.api.hf_hub_download(
                    self.repository,
                    path,
                    repo_type="dataset",
                    revision=self.revision,
                    local_dir=folder,
                )
            )
            try:
                return Path(local).read_bytes().decode()
            except UnicodeDecodeError:
                what = f"{path} of the repository is not UTF-8"
                raise TrajkitError(self.repository, what, "mend it on the Hub") from None

    def manifest(self, prefix: str) -> dict[str, Any]:
        """Return the manifest of an earlier upload; empty when there was none.

        Raises TrajkitError for a manifest of something else.
        """
        text = self.text(f"{prefix}{MANIFEST}")
        if not text:
            return {}
        try:
            value = orjson.loads(text)
        except ValueError:
            value = None
        if not isinstance(value, dict) or value.get("kind") != "examples":
            what = f"holds a {prefix}{MANIFEST} that trajkit did not write"
            raise TrajkitError(self.repository, what, "give another repository")
        return value


def _stale(build: Build, place: Place, remote: _Remote, known: set[str]) -> list[str]:
    """Return parts of an earlier upload that this one no longer has; loading would find them.

    Raises TrajkitError when somebody else's files stand where ours would.
    """
    inside = {p.removeprefix(place.prefix) for p in remote.files if p.startswith(place.prefix)}
    parts = set(filter(_PART.fullmatch, inside))
    if foreign := sorted(parts - known):
        what = f"holds {place.prefix}{foreign[0]}, which trajkit did not put there"
        raise TrajkitError(place.repository, what, "give another repository, or move the file")
    return [place.prefix + name for name in sorted(parts - set(build.files))]


def _patiently(call: Callable[[], _T]) -> _T:
    """Return what the call returns, asked again while the Hub says it has no time."""
    from huggingface_hub.errors import HfHubHTTPError

    for attempt in range(MAX_TRIES):
        try:
            return call()
        except HfHubHTTPError as error:
            if error.response.status_code not in (429, 503) or attempt + 1 == MAX_TRIES:
                raise
            after = error.response.headers.get("Retry-After", "")
        wait = float(after) if after.isdigit() else 2.0**attempt
        time.sleep(min(wait, MAX_WAIT_SECONDS))
    raise AssertionError("the last try returns or raises")


_HINTS = {
    401: "run `hf auth login`, or set HF_TOKEN to a token with write access",
    403: "the token needs write access to this owner's repositories",
    404: "check owner and name; a private repository of others looks like none",
    409: "another change is under way, or the tag is taken: try again, or another tag",
    412: "somebody changed the repository meanwhile: run it again",
    413: "the card is too big: shorten its header on the Hub",
    429: "too many requests: wait and run it again; what is there is not sent twice",
}


@contextmanager
def _hub_errors(repository: str, state: str) -> Iterator[None]:
    """Turn what the Hub and the network say into a TrajkitError that never shows the token."""
    from huggingface_hub import get_token
    from huggingface_hub.errors import HfHubHTTPError

    try:
        yield
    except TrajkitError:
        raise
    except Exception as error:
        cause = error.__cause__ if isinstance(error, RuntimeError) and error.__cause__ else error
        if isinstance(cause, HfHubHTTPError):
            status = cause.response.status_code
            what = f"the Hub answered {status} {cause.server_message or ''}"
            hint = _HINTS.get(status, "try again later" if status >= 500 else "see the message")
        elif isinstance(cause, UnicodeError):
            what, hint = "the token is not plain ASCII", _HINTS[401]
        elif type(cause).__module__.startswith("httpx") or isinstance(cause, OSError):
            what = f"no connection to the Hub ({type(cause).__name__})"
            hint = "check the network, HF_ENDPOINT and HF_HUB_OFFLINE; then run it again"
        elif isinstance(cause, ValueError):
            what, hint = f"the Hub refused: {cause}", "mend what the message names"
        else:
            raise
        token = get_token()
        what = what.replace(token, "(token)") if token else what
        raise TrajkitError(repository, f"{' '.join(what.split())}; {state}", hint) from None


@contextmanager
def _bars(quiet: bool) -> Iterator[None]:
    """Show the client's own progress bars only at a terminal."""
    from huggingface_hub.utils.tqdm import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    silent = (quiet or not sys.stderr.isatty()) and not are_progress_bars_disabled()
    if silent:
        disable_progress_bars()
    try:
        yield
    finally:
        if silent:
            enable_progress_bars()
