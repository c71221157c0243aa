"""Keep what a world model said, so that a second run asks nothing twice."""

from __future__ import annotations

import fcntl
import os
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from trajkit.errors import TrajkitError
from trajkit.worldmodel.protocol import LASTING_FAILURES, Completion, Request, WorldModel
from trajkit.worldmodel.recording import Key, decode, encode, line_at, read_lines, request_hash

_SYNC_EVERY = 64


class CachedWorldModel:
    """A world model that records what another one says, and answers from the record.

    The file is a recording that `replay:FILE` reads. A request is found again by the model's
    name, its content and its occurrence number: the n-th equal request of this object takes the
    n-th recorded answer, so repeated prompts keep their own answers. Answers and lasting failures
    are kept; a call that failed for want of a server is made again. A model's answers are not
    the same bit for bit from run to run, the recorded ones are.

    Every line is flushed as it comes: what a killed run paid for is not paid again. A torn last
    line is cut off on opening. Memory: about 200 bytes a recorded answer; texts stay on disk.
    """

    def __init__(self, inner: WorldModel, path: Path) -> None:
        """Open the recording, or start it; raise TrajkitError when it is in use or foreign."""
        self.n_generated = 0
        """Requests the inner model was asked."""
        self.n_reused = 0
        """Requests answered from the recording."""
        self._inner = inner
        self._path = path
        self._met: Counter[bytes] = Counter()
        self._offsets: dict[Key, int] = {}
        self._unsynced = 0
        self._closed = False
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: BinaryIO = path.open("a+b")
        try:
            self._lock()
            self._load()
        except BaseException:
            self._file.close()
            raise

    @property
    def name(self) -> str:
        """The name of the inner model."""
        return self._inner.name

    @property
    def engine(self) -> str | None:
        """The engine of the inner model."""
        return self._inner.engine

    def generate(self, requests: Iterable[Request]) -> Iterator[Completion]:
        """Yield one completion for each request, recorded or new."""
        source = iter(requests)
        recorded: deque[tuple[str, int]] = deque()
        asked: dict[str, tuple[Request, bytes, int]] = {}

        def unanswered() -> Iterator[Request]:
            for request in source:
                digest, occurrence, offset = self._find(request)
                if offset is not None:
                    recorded.append((request.key, offset))
                    continue
                if request.key in asked:
                    raise ValueError(f"two requests have the key {request.key!r}")
                asked[request.key] = (request, digest, occurrence)
                yield request

        try:
            for request in source:
                digest, occurrence, offset = self._find(request)
                if offset is not None:
                    yield self._read(request.key, offset)
                    continue
                # The first request without an answer: from here on the inner model is asked,
                # and reads the rest. Not before: engines start on first use.
                asked[request.key] = (request, digest, occurrence)
                for completion in self._inner.generate(chain((request,), unanswered())):
                    self._keep(completion, *asked.pop(completion.key))
                    yield completion
                    while recorded:
                        yield self._read(*recorded.popleft())
                while recorded:
                    yield self._read(*recorded.popleft())
        finally:
            self._sync()

    def close(self) -> None:
        """Close the recording and the inner model."""
        if not self._closed:
            self._closed = True
            self._sync()
            self._file.close()
            self._inner.close()

    def _find(self, request: Request) -> tuple[bytes, int, int | None]:
        """Return a request's hash, its occurrence, and where its answer starts if there is one."""
        digest = request_hash(request)
        occurrence = self._met[digest]
        self._met[digest] += 1
        return digest, occurrence, self._offsets.get((digest, occurrence))

    def _read(self, key: str, offset: int) -> Completion:
        self.n_reused += 1
        return decode(line_at(self._file, self._path, offset), key)

    def _keep(
        self, completion: Completion, request: Request, digest: bytes, occurrence: int
    ) -> None:
        self.n_generated += 1
        if completion.failure is not None and completion.failure not in LASTING_FAILURES:
            return
        line = encode(
            completion,
            model=self.name,
            engine=self.engine,
            request=request,
            digest=digest,
            occurrence=occurrence,
        )
        self._file.write(line)
        self._file.flush()
        self._unsynced += 1
        if self._unsynced >= _SYNC_EVERY:
            self._sync()

    def _sync(self) -> None:
        if self._unsynced and not self._file.closed:
            os.fsync(self._file.fileno())
            self._unsynced = 0

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TrajkitError(
                str(self._path),
                "is being written by another process",
                "wait for it to end, or give this run an output of its own",
            ) from None

    def _load(self) -> None:
        """Index the recording and cut off a torn last line."""
        self._file.seek(0)
        end = 0
        for offset, key, line in read_lines(self._file, self._path):
            if line["model"] == self.name:
                self._offsets[key] = offset
            end = self._file.tell()
        self._file.truncate(end)
