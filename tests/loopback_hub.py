"""A Hub on 127.0.0.1 that speaks what `huggingface_hub` really asks of one for data sets.

Repositories, commits, large-file storage, tags and downloads work and are kept in memory; any call
can be told to fail a number of times. A commit sees only complete uploads, as on the real Hub.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

TOKEN = "hf_loopback_secret"
MAX_FILES_IN_A_FOLDER = 10_000
Files = dict[str, bytes]


@dataclass
class Repository:
    """One data set: its commits from the first on, and its tags."""

    private: bool
    commits: list[tuple[str, str, Files]] = field(default_factory=list)
    """`(id, message, files)` of each commit."""
    tags: dict[str, str] = field(default_factory=dict)

    @property
    def head(self) -> str:
        return self.commits[-1][0]

    def files(self, revision: str = "main") -> Files:
        revision = self.tags.get(revision, revision)
        for commit, _, files in reversed(self.commits):
            if revision in ("main", commit):
                return files
        raise KeyError(revision)

    def commit(self, message: str, files: Files) -> str:
        seed = f"{len(self.commits)}{message}{sorted(files)}".encode()
        commit = hashlib.sha1(seed).hexdigest()
        self.commits.append((commit, message, files))
        return commit


@dataclass
class Failure:
    """An answer that a call gets instead of its own."""

    status: int
    times: int
    message: str


@dataclass
class LoopbackHub:
    """The Hub; use it as a context manager."""

    repositories: dict[str, Repository] = field(default_factory=dict)
    blobs: Files = field(default_factory=dict)
    """Large files by their SHA-256."""
    calls: Counter[str] = field(default_factory=Counter)
    """Requests by name, refused ones included."""
    failures: dict[str, Failure] = field(default_factory=dict)
    before: dict[str, Callable[[], object]] = field(default_factory=dict)
    """What somebody else does just before a call is answered; once."""

    def __enter__(self) -> LoopbackHub:
        hub = self

        class BoundHandler(Handler):
            pass

        BoundHandler.hub = hub
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), BoundHandler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def fail(self, call: str, status: int, times: int = 1_000, message: str = "told to") -> None:
        """Answer the next `times` requests of a call with a status."""
        self.failures[call] = Failure(status, times, message)

    def seed(self, name: str, files: Files) -> Repository:
        """Return a repository that was there before, with one commit."""
        repository = Repository(private=False)
        repository.commit("by hand", files)
        self.repositories[name] = repository
        return repository

    def export(self, name: str, folder: Path) -> Path:
        """Return a folder with the files of the head, as a clone would hold them."""
        for path, data in self.repositories[name].files().items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        return folder


ROUTES: list[tuple[str, str, str]] = [
    ("create", "POST", r"/api/repos/create"),
    ("validate", "POST", r"/api/validate-yaml"),
    ("info", "GET", r"/api/datasets/(?P<name>[^/]+/[^/]+)(?:/revision/(?P<revision>[^/]+))?"),
    ("preupload", "POST", r"/api/datasets/(?P<name>[^/]+/[^/]+)/preupload/(?P<revision>[^/]+)"),
    ("commit", "POST", r"/api/datasets/(?P<name>[^/]+/[^/]+)/commit/(?P<revision>[^/]+)"),
    ("tag", "POST", r"/api/datasets/(?P<name>[^/]+/[^/]+)/tag/(?P<revision>[^/]+)"),
    ("batch", "POST", r"/datasets/(?P<name>[^/]+/[^/]+)\.git/info/lfs/objects/batch"),
    ("store", "PUT", r"/lfs/(?P<oid>[0-9a-f]{64})"),
    ("verify", "POST", r"/lfs/verify"),
    (
        "download",
        "GET|HEAD",
        r"/datasets/(?P<name>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<path>.+)",
    ),
]


class Handler(BaseHTTPRequestHandler):
    """Answers one request; the route's name is the method's name."""

    hub: LoopbackHub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent: the calls are counted."""

    def answer(self, status: int, body: Any = None, headers: dict[str, str] | None = None) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def handle_request(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = unquote(urlsplit(self.path).path)
        for call, method, pattern in ROUTES:
            match = re.fullmatch(pattern, path)
            if match and self.command in method.split("|"):
                self.hub.calls[call] += 1
                self.hub.before.pop(call, lambda: None)()
                failure = self.hub.failures.get(call)
                if failure is not None and failure.times > 0:
                    failure.times -= 1
                    error = {"error": failure.message}
                    self.answer(failure.status, error, {"Retry-After": "0"})
                elif call != "store" and self.headers.get("Authorization") != f"Bearer {TOKEN}":
                    self.answer(401, {"error": "Invalid username or password."})
                else:
                    run: Callable[..., None] = getattr(self, f"on_{call}")
                    run(**match.groupdict())
                return
        self.hub.calls[f"unknown {self.command} {path}"] += 1
        self.answer(404, {"error": f"no route for {self.command} {path}"})

    do_GET = do_HEAD = do_POST = do_PUT = handle_request  # noqa: N815

    def repository(self, name: str) -> Repository | None:
        repository = self.hub.repositories.get(name)
        if repository is None:
            self.answer(404, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})
        return repository

    def on_create(self) -> None:
        wanted = json.loads(self.body)
        name = f"{wanted['organization']}/{wanted['name']}"
        assert wanted["type"] == "dataset"
        status = 409 if name in self.hub.repositories else 200
        if status == 200:
            repository = Repository(private=wanted.get("visibility") == "private")
            attributes = b"*.parquet filter=lfs diff=lfs merge=lfs -text\n"
            repository.commit("initial commit", {".gitattributes": attributes})
            self.hub.repositories[name] = repository
        self.answer(status, {"url": f"{self.hub.endpoint}/datasets/{name}"})

    def on_validate(self) -> None:
        content = json.loads(self.body)["content"]
        if content.startswith("---\n"):
            self.answer(200, {"errors": [], "warnings": []})
        else:
            warning = {"message": "empty or missing yaml metadata in repo card"}
            self.answer(200, {"errors": [], "warnings": [warning]})

    def on_info(self, name: str, revision: str | None) -> None:
        repository = self.repository(name)
        if repository is not None:
            files = [{"rfilename": path} for path in sorted(repository.files(revision or "main"))]
            info = {"id": name, "sha": repository.head, "private": repository.private}
            self.answer(200, info | {"siblings": files})

    def on_preupload(self, name: str, revision: str) -> None:
        repository = self.repository(name)
        if repository is None:
            return
        there = repository.files(revision)
        files = []
        for wanted in json.loads(self.body)["files"]:
            path = wanted["path"]
            large = path.endswith(".parquet")
            oid = None
            if path in there:
                data = there[path]
                git = hashlib.sha1(b"blob %d\0" % len(data) + data)
                oid = (hashlib.sha256(data) if large else git).hexdigest()
            mode = "lfs" if large else "regular"
            files.append({"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": oid})
        self.answer(200, {"files": files})

    def on_batch(self, name: str) -> None:
        objects = []
        for wanted in json.loads(self.body)["objects"]:
            actions = {
                "upload": {"href": f"{self.hub.endpoint}/lfs/{wanted['oid']}"},
                "verify": {"href": f"{self.hub.endpoint}/lfs/verify"},
            }
            known = wanted["oid"] in self.hub.blobs
            objects.append(wanted if known else wanted | {"actions": actions})
        self.answer(200, {"objects": objects, "transfer": "basic"})

    def on_store(self, oid: str) -> None:
        if hashlib.sha256(self.body).hexdigest() != oid:
            self.answer(400, {"error": "content does not match its hash"})
            return
        self.hub.blobs[oid] = self.body
        self.answer(200)

    def on_verify(self) -> None:
        known = json.loads(self.body)["oid"] in self.hub.blobs
        self.answer(200 if known else 404)

    def on_commit(self, name: str, revision: str) -> None:
        repository = self.repository(name)
        if repository is None:
            return
        lines = [json.loads(line) for line in self.body.splitlines()]
        header = lines[0]["value"]
        if header.get("parentCommit") not in (None, repository.head):
            self.answer(412, {"error": "A commit has happened since."})
            return
        files = dict(repository.files(revision))
        for line in lines[1:]:
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.hub.blobs[value["oid"]]
            elif line["key"] == "deletedFile":
                del files[value["path"]]
            else:
                raise ValueError(line["key"])
        folders = Counter(path.rpartition("/")[0] for path in files)
        if max(folders.values()) > MAX_FILES_IN_A_FOLDER:
            self.answer(400, {"error": "too many files in a folder"})
            return
        commit = repository.commit(header["summary"], files)
        url = f"{self.hub.endpoint}/datasets/{name}/commit/{commit}"
        self.answer(200, {"commitUrl": url, "commitOid": commit})

    def on_tag(self, name: str, revision: str) -> None:
        repository = self.repository(name)
        if repository is None:
            return
        tag = json.loads(self.body)["tag"]
        if tag in repository.tags:
            self.answer(409, {"error": f"Tag {tag} already exists"})
            return
        repository.tags[tag] = repository.head if revision == "main" else revision
        self.answer(200)

    def on_download(self, name: str, revision: str, path: str) -> None:
        repository = self.repository(name)
        if repository is None:
            return
        data = repository.files(revision).get(path)
        if data is None:
            self.answer(404, {"error": "Entry not found"}, {"X-Error-Code": "EntryNotFound"})
            return
        tag = {"ETag": f'"{hashlib.sha1(data).hexdigest()}"', "X-Repo-Commit": repository.head}
        self.answer(200, data, tag)
