"""What browser and desktop logs share: named pictures, states as text, and names of gestures."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from trajkit.model import OutcomeStatus, to_json_text

_MIMES = {"jpg": "image/jpeg", "jpeg": "image/jpeg", "webp": "image/webp", "gif": "image/gif"}
_CALL = re.compile(
    r"(?:\s*(?:import |from |#)[^\n]*\n)*+\s*(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*)\s*(?:[(\[]|\Z)"
)


def call_name(action: str) -> str | None:
    """Return the name of the first call in an action's text, without imports and its module.

    >>> call_name("pyautogui.click(1, 2)"), call_name("click [3]"), call_name("go_back")
    ('click', 'click', 'go_back')
    """
    found = _CALL.match(action)
    return found.group(1) if found else None


def named_picture(name: Any) -> list[dict[str, Any]] | None:
    """Return the one picture that a log only names, as a list; null when it names none.

    >>> named_picture("step_1.jpg")
    [{'mime': 'image/jpeg', 'sha256': None, 'bytes': None, 'name': 'step_1.jpg'}]
    """
    if not isinstance(name, str) or not name:
        return None
    mime = _MIMES.get(name.lower().rpartition(".")[2], "image/png")
    return [{"mime": mime, "sha256": None, "bytes": None, "name": name}]


def media_text(pictures: list[dict[str, Any]] | None) -> str | None:
    """Return pictures as the JSON text of a step's `media`."""
    return to_json_text(pictures) if pictures else None


def state_text(lines: Iterable[tuple[str, Any]], tree: Any = None) -> str | None:
    """Return labelled lines, an empty line and the tree; null when a log has none of them.

    >>> state_text([("URL", "http://a/"), ("Title", None)], "[1] button")
    'URL: http://a/\\n\\n[1] button'
    """
    written = "\n".join(
        f"{label}: {value}" for label, value in lines if isinstance(value, str) and value
    )
    if not isinstance(tree, str):
        return written or None
    return f"{written}\n\n{tree}" if written else tree


def outcome_of(reward: float | None) -> OutcomeStatus:
    """Return success for the full reward of 1, failure for none, and unknown between."""
    if reward is None or 0 < reward < 1:
        return "unknown"
    return "success" if reward >= 1 else "failure"
