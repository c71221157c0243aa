"""trajkit turns raw agent logs into training data for language world models."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike

    from trajkit.model import Reject, Trajectory

__version__ = "0.1.0"


def read(
    *paths: str | PathLike[str], format: str = "auto", rejects: list[Reject] | None = None
) -> Iterator[Trajectory]:
    """Give every trajectory under some files and folders, in the order of their names.

    `format` is the name of an adapter, or `package.module:Class` for one of your own. What could
    not be read is appended to `rejects`, with its place and reason. Streams; writes nothing.

    Raises TrajkitError for a missing path and an unknown format.
    """
    from trajkit.extraction import Account, known, read_unit, units
    from trajkit.inputs import list_inputs
    from trajkit.marks import finished
    from trajkit.model import Trajectory

    candidates = known(format)
    account = Account()
    for unit in units(list_inputs(tuple(map(str, paths))), candidates):
        for found in read_unit(unit, candidates, account):
            if isinstance(found.outcome, Trajectory):
                yield finished(found.outcome)
            elif rejects is not None:
                rejects.append(found.outcome)
