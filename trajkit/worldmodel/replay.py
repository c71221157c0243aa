"""Answer from a recording alone: no engine, no server, the same bytes every time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from trajkit.errors import TrajkitError, alternatives
from trajkit.worldmodel.protocol import Completion, Request, Scored, Scoring
from trajkit.worldmodel.reasoning import failed
from trajkit.worldmodel.recording import (
    Key,
    line_at,
    prompt_hash,
    read_completion,
    read_lines,
    read_scored,
    request_hash,
    scoring_hash,
)
from trajkit.worldmodel.scoring import unscored


class ReplayWorldModel:
    """A recording, as a world model; what it does not hold is counted as `not_recorded`.

    The n-th equal request takes the n-th recorded answer. Memory: about 200 bytes a recorded
    answer; texts stay on disk.
    """

    def __init__(self, path: Path) -> None:
        """Open a recording; raise TrajkitError when there is none or it mixes models."""
        if not path.is_file():
            raise TrajkitError(
                f"replay:{path}",
                "there is no such file",
                "a recording is the completions file that a run with a world model leaves behind",
            )
        self.n_not_recorded = 0
        """Requests that the recording could not answer."""
        self._path = path
        self._max_model_len: int | None = None
        self._met: Counter[bytes] = Counter()
        self._offsets: dict[Key, int] = {}
        self._file: BinaryIO = path.open("rb")
        try:
            self.name, self.engine = self._load()
        except BaseException:
            self._file.close()
            raise

    @property
    def max_model_len(self) -> int | None:
        """The limit of the model that spoke, when a prompt was counted."""
        return self._max_model_len

    def generate(self, requests: Iterable[Request]) -> Iterator[Completion]:
        """Yield one completion for each request, in the order they came."""
        for request in requests:
            found = self._take(request_hash(request))
            if isinstance(found, str):
                yield failed(request, "not_recorded", found)
            else:
                yield read_completion(found, request.key)

    def score(self, scorings: Iterable[Scoring]) -> Iterator[Scored]:
        """Yield one log-probability for each text, in the order they came."""
        for scoring in scorings:
            found = self._take(scoring_hash(scoring))
            if isinstance(found, str):
                yield unscored(scoring, "not_recorded", found)
            else:
                yield read_scored(found, scoring.key)

    def count_tokens(self, messages: Iterable[Mapping[str, str]]) -> int | None:
        """Return the recorded length of a prompt, null when it was never counted."""
        offset = self._offsets.get((prompt_hash(messages), 0))
        if offset is None:
            return None
        count: int = line_at(self._file, self._path, offset)["n_prompt_tokens"]
        return count

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _take(self, digest: bytes) -> dict[str, Any] | str:
        """Return the next line recorded for a hash, or a word on there being none."""
        occurrence = self._met[digest]
        self._met[digest] += 1
        offset = self._offsets.get((digest, occurrence))
        if offset is None:
            self.n_not_recorded += 1
            return f"no answer {occurrence} to request {digest.hex()[:16]} in {self._path.name}"
        return line_at(self._file, self._path, offset)

    def _load(self) -> tuple[str, str | None]:
        """Index the recording; return the name and engine of the model that spoke."""
        names: set[str] = set()
        engine: str | None = None
        for offset, key, line in read_lines(self._file, self._path):
            names.add(str(line["model"]))
            engine = line.get("engine") or engine
            self._max_model_len = line.get("max_model_len") or self._max_model_len
            self._offsets[key] = offset
        if len(names) > 1:
            raise TrajkitError(
                f"replay:{self._path}",
                f"holds answers of several models: {alternatives(names)}",
                "keep one recording for each model",
            )
        return names.pop() if names else f"replay:{self._path.name}", engine
