"""A loopback server that plays environment and judge, and readers of what an evaluation wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from openai_server import OpenAIServer, Reply

from trajkit import schema


class Scripted(OpenAIServer):
    """Plays the environment and the judge: answers by a function of the messages."""

    def __init__(self, answer: Callable[[str, str], Reply]) -> None:
        super().__init__()
        self._answer = answer

    def _take(self, body: dict[str, Any]) -> Reply:
        super()._take(body)
        return self._answer(body["messages"][0]["content"], body["messages"][-1]["content"])


def tagged(text: str) -> Reply:
    return Reply(content=f"<predicted_observation>\n{text}\n</predicted_observation>")


def results(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    assert schema.explain("evaluation", document) is None
    return document


def measure(document: dict[str, Any], domain: str, axis: str = "overall") -> dict[str, Any]:
    scorer = document["scored_by"]
    (found,) = (
        row
        for row in document["measures"]
        if (row["scorer"], row["domain"], row["axis"]) == (scorer, domain, axis)
    )
    return dict(found)
