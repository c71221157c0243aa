"""Work spread over processes: calls with their results in order, and how a worker is set up."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any, TypeVar

_Result = TypeVar("_Result")


class Workers:
    """Processes that are started when there is enough to do and end with the context."""

    def __init__(self, n_workers: int) -> None:
        self._n_workers = n_workers
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=kind is not None)

    def each(
        self, function: Callable[..., _Result], calls: Sequence[tuple[Any, ...]]
    ) -> Iterator[_Result]:
        """Give the result of each call, in their order; with one worker in this process.

        When the caller or a call fails, what has not begun is not begun.
        """
        if self._n_workers <= 1 or len(calls) <= 1:
            for call in calls:
                yield function(*call)
            return
        if self._pool is None:
            self._pool = ProcessPoolExecutor(self._n_workers, mp_context=get_context("spawn"))
        futures = [self._pool.submit(function, *call) for call in calls]
        for future in futures:
            yield future.result()


@contextmanager
def rare_collections() -> Iterator[None]:
    """Let Python look for reference cycles seldom: decoded logs are large and have none."""
    thresholds = gc.get_threshold()
    gc.set_threshold(500_000, 50, 100)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
