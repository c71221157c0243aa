"""Keep what a world model said, so that a second run asks nothing twice."""

from __future__ import annotations

import fcntl
import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from trajkit.errors import TrajkitError
from trajkit.worldmodel.protocol import (
    LASTING_FAILURES,
    Completion,
    Request,
    Scored,
    Scoring,
    WorldModel,
)
from trajkit.worldmodel.recording import (
    Key,
    completion_fields,
    line,
    line_at,
    prompt_hash,
    read_completion,
    read_lines,
    read_scored,
    request_hash,
    scored_fields,
    scoring_hash,
)

_SYNC_EVERY = 64
_A = TypeVar("_A", Request, Scoring)
_S = TypeVar("_S", Completion, Scored)


class CachedWorldModel:
    """A world model that records what another one says, and answers from the record.

    The file is a recording that `replay:FILE` reads. A request is found again by the model's
    name, its content and its occurrence number: the n-th equal request of this object takes the
    n-th recorded answer, so repeated prompts keep their own answers. Answers and lasting failures
    are kept; a call that failed for want of a server is made again. A model's answers are not
    the same bit for bit from run to run, the recorded ones are. Texts to be scored are found in
    the same way, and lengths of prompts by their messages.

    Every line is flushed as it comes: what a killed run paid for is not paid again. A torn last
    line is cut off on opening. Memory: about 200 bytes a recorded answer; texts stay on disk.
    """

    def __init__(self, inner: WorldModel, path: Path) -> None:
        """Open the recording, or start it; raise TrajkitError when it is in use or foreign."""
        self.n_generated = 0
        """Requests and texts the inner model was asked."""
        self.n_reused = 0
        """Requests and texts answered from the recording."""
        self._inner = inner
        self._path = path
        self._met: Counter[bytes] = Counter()
        self._offsets: dict[Key, int] = {}
        self._recorded_limit: int | None = None
        self._recorded_engine: str | None = None
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
        """The engine of the inner model; the recorded one until that is known."""
        return self._inner.engine or self._recorded_engine

    @property
    def max_model_len(self) -> int | None:
        """The limit of the inner model; the recorded one where that is out of reach."""
        try:
            return self._inner.max_model_len
        except TrajkitError:
            if self._recorded_limit is None:
                raise
            return self._recorded_limit

    def generate(self, requests: Iterable[Request]) -> Iterator[Completion]:
        """Yield one completion for each request, recorded or new."""
        return self._each(
            requests, self._inner.generate, request_hash, read_completion, completion_fields
        )

    def score(self, scorings: Iterable[Scoring]) -> Iterator[Scored]:
        """Yield one log-probability for each text, recorded or new."""
        return self._each(
            scorings,
            self._inner.score,
            scoring_hash,
            read_scored,
            lambda _, scored: scored_fields(scored),
        )

    def count_tokens(self, messages: Iterable[Mapping[str, str]]) -> int | None:
        """Return how many tokens a prompt has, recorded or counted now; null when unknown."""
        prompt = tuple(messages)
        key = (prompt_hash(prompt), 0)
        if (offset := self._offsets.get(key)) is not None:
            recorded: int = line_at(self._file, self._path, offset)["n_prompt_tokens"]
            return recorded
        count = self._inner.count_tokens(prompt)
        if count is not None:
            said = {"n_prompt_tokens": count, "max_model_len": self._inner.max_model_len}
            self._offsets[key] = self._write(key, said)
        return count

    def _each(
        self,
        source: Iterable[_A],
        ask: Callable[[Iterable[_A]], Iterator[_S]],
        hash_of: Callable[[_A], bytes],
        read: Callable[[Mapping[str, Any], str], _S],
        fields_of: Callable[[_A, _S], dict[str, Any]],
    ) -> Iterator[_S]:
        """Yield what came of each that is asked, from the recording or from the inner model."""
        asked_for = iter(source)
        recorded: deque[tuple[str, int]] = deque()
        asked: dict[str, tuple[_A, Key]] = {}

        def found(one: _A) -> int | None:
            digest = hash_of(one)
            key = (digest, self._met[digest])
            self._met[digest] += 1
            offset = self._offsets.get(key)
            if offset is None:
                if one.key in asked:
                    raise ValueError(f"two requests have the key {one.key!r}")
                asked[one.key] = (one, key)
            return offset

        def read_at(key: str, offset: int) -> _S:
            self.n_reused += 1
            return read(line_at(self._file, self._path, offset), key)

        def unanswered() -> Iterator[_A]:
            for one in asked_for:
                offset = found(one)
                if offset is None:
                    yield one
                else:
                    recorded.append((one.key, offset))

        try:
            for one in asked_for:
                offset = found(one)
                if offset is not None:
                    yield read_at(one.key, offset)
                    continue
                # The first request without an answer: from here on the inner model is asked,
                # and reads the rest. Not before: engines start on first use.
                for said in ask(chain((one,), unanswered())):
                    origin, key = asked.pop(said.key)
                    self.n_generated += 1
                    if said.failure is None or said.failure in LASTING_FAILURES:
                        self._write(key, fields_of(origin, said))
                    yield said
                    while recorded:
                        yield read_at(*recorded.popleft())
                while recorded:
                    yield read_at(*recorded.popleft())
        finally:
            self._sync()

    def close(self) -> None:
        """Close the recording and the inner model."""
        if not self._closed:
            self._closed = True
            self._sync()
            self._file.close()
            self._inner.close()

    def _write(self, key: Key, said: Mapping[str, Any]) -> int:
        """Append one line and return where it starts; a reader sees it at once."""
        offset = self._file.seek(0, os.SEEK_END)
        self._file.write(line(model=self.name, engine=self.engine, key=key, said=said))
        self._file.flush()
        self._unsynced += 1
        if self._unsynced >= _SYNC_EVERY:
            self._sync()
        return offset

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
        for offset, key, content in read_lines(self._file, self._path):
            if content["model"] == self.name:
                self._offsets[key] = offset
                self._recorded_limit = content.get("max_model_len") or self._recorded_limit
                self._recorded_engine = content.get("engine") or self._recorded_engine
            end = self._file.tell()
        self._file.truncate(end)
