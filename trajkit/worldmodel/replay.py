"""Answer from a recording alone: no engine, no server, the same bytes every time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from trajkit.errors import TrajkitError, alternatives
from trajkit.worldmodel.protocol import Completion, Request
from trajkit.worldmodel.reasoning import failed
from trajkit.worldmodel.recording import Key, decode, line_at, read_lines, request_hash


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
        self._met: Counter[bytes] = Counter()
        self._offsets: dict[Key, int] = {}
        self._file: BinaryIO = path.open("rb")
        try:
            self.name, self.engine = self._load()
        except BaseException:
            self._file.close()
            raise

    def generate(self, requests: Iterable[Request]) -> Iterator[Completion]:
        """Yield one completion for each request, in the order they came."""
        for request in requests:
            digest = request_hash(request)
            occurrence = self._met[digest]
            self._met[digest] += 1
            offset = self._offsets.get((digest, occurrence))
            if offset is None:
                self.n_not_recorded += 1
                detail = (
                    f"no answer {occurrence} to request {digest.hex()[:16]} in {self._path.name}"
                )
                yield failed(request, "not_recorded", detail)
            else:
                yield decode(line_at(self._file, self._path, offset), request.key)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _load(self) -> tuple[str, str | None]:
        """Index the recording; return the name and engine of the model that spoke."""
        names: set[str] = set()
        engine: str | None = None
        for offset, key, line in read_lines(self._file, self._path):
            names.add(str(line["model"]))
            engine = line.get("engine") or engine
            self._offsets[key] = offset
        if len(names) > 1:
            raise TrajkitError(
                f"replay:{self._path}",
                f"holds answers of several models: {alternatives(names)}",
                "keep one recording for each model",
            )
        return names.pop() if names else f"replay:{self._path.name}", engine
