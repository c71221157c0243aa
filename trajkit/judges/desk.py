"""One judge for many threads."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace

from trajkit.judges.judge import Asked, Judge, Judged


class Desk:
    """Puts to a judge what many threads ask, all that waits at once.

    A world model takes one call at a time. Whoever is next takes along what has come meanwhile.
    """

    def __init__(self, judge: Judge) -> None:
        """Remember the judge."""
        self._judge = judge
        self._busy = threading.Lock()
        self._door = threading.Lock()
        self._waiting: list[tuple[Asked, Future[Judged]]] = []

    def score(self, asked: Sequence[Asked]) -> list[Judged]:
        """Return the verdicts in the order asked."""
        own = [(one, Future[Judged]()) for one in asked]
        with self._door:
            self._waiting += own
        with self._busy:
            with self._door:
                taken, self._waiting = self._waiting, []
            if taken:
                self._ask(taken)
        return [future.result() for _, future in own]

    def _ask(self, taken: Sequence[tuple[Asked, Future[Judged]]]) -> None:
        try:
            # Two threads may give two answers the same key.
            subjects = (replace(one, key=str(n)) for n, (one, _) in enumerate(taken))
            for judged in self._judge.score(subjects):
                taken[int(judged.key)][1].set_result(judged)
        except BaseException as error:
            # Each thread that waits must hear of it, or it waits for ever.
            for _, future in taken:
                if not future.done():
                    future.set_exception(error)
            if not isinstance(error, Exception):
                raise
