"""TurkingBench rows: a page of a crowd-working task and the answers wanted in its form.

Defined by the TurkingBench data set: `Template` is the page's HTML, `Answer` maps each field of its
form to a worker's value, the other keys fill the page's places. Nobody logged how the form was
filled in: there is no action and no state after one, so a row is a question with its reference
answer and never an episode. It is told apart and rejected as `question_only`.

Smallest shape: {"Task": "...", "Template": "<html>...", "Answer": {"field": "1"}}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trajkit.adapters import Adapter
from trajkit.model import Record, Reject, Trajectory


def detect(value: Any) -> bool:
    """Return whether a value is a page with the answers wanted in it."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("Template"), str)
        and isinstance(value.get("Answer"), dict)
        and "Task" in value
    )


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the reject of a row."""
    record.ledger.expect(("row",))
    record.ledger.left_out("row", "question_only")
    yield Reject(
        origin=record.origin,
        reason="question_only",
        message="a page and the answers wanted in its form, without any action",
    )


ADAPTER = Adapter(
    name="turkingbench",
    title="TurkingBench rows: questions, rejected",
    domains=("web",),
    detect=detect,
    extract=extract,
)
