"""What logs of phones share: steps that were logged with the screen before the action."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trajkit.adapters.screens import media_text
from trajkit.model import ActionKind, Step, to_json_text

Picture = list[dict[str, Any]] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """One logged step: what the screen showed, and what was done then."""

    action: Any
    """A JSON value, or text."""
    name: str | None
    """Name of the gesture."""
    kind: ActionKind = "gui"
    """Form of the action."""
    valid: bool = True
    """False when a reply could not be read as an action."""
    thought: str | None = None
    """Reasoning or low-level instruction."""
    state: str | None = None
    """The screen as text before the action; null when the log has none."""
    picture: Picture = None
    """The picture of the same screen."""
    error: str | None = None
    """Why the log has no screen."""
    number: int | None = None
    """The log's own number of the step, where it has one."""
    time: str | None = None
    """Time as logged."""


def gesture(touch: Sequence[float], lift: Sequence[float], size: tuple[int, int] | None) -> Any:
    """Return a touch and a lift, both y first and from 0 to 1, as a click or a swipe.

    A lift at most 0.04 of the screen away from its touch is a click: the rule of the data set's
    own evaluation. With a size (width, height) the points are pixels, else they stay as they are.

    >>> gesture([0.5, 0.25], [0.5, 0.26], (100, 200))
    {'action_type': 'click', 'x': 25, 'y': 100}
    >>> gesture([0.5, 0.25], [0.1, 0.25], None)
    {'action_type': 'swipe', 'x': 0.25, 'y': 0.5, 'to_x': 0.25, 'to_y': 0.1}
    """
    (y, x), (to_y, to_x) = touch, lift
    is_click = (y - to_y) ** 2 + (x - to_x) ** 2 <= 0.04**2
    if size is not None:
        width, height = size
        x, to_x = round(x * width), round(to_x * width)
        y, to_y = round(y * height), round(to_y * height)
    if is_click:
        return {"action_type": "click", "x": x, "y": y}
    return {"action_type": "swipe", "x": x, "y": y, "to_x": to_x, "to_y": to_y}


def element(number: int, kind: str, text: str, box: tuple[Any, ...]) -> str:
    """Return an element of a screen on one line.

    >>> element(0, "TEXT", "Oct 7", (66, 78, 111, 94))
    '[0] TEXT text="Oct 7" bounds=(66,78,111,94)'
    """
    said = f" text={to_json_text(text)}" if text else ""
    return f"[{number}] {kind}{said} bounds=({','.join(map(str, box))})"


def shifted(logged: Sequence[Logged]) -> tuple[Step, ...]:
    """Return steps whose observation is the screen logged with the next one.

    Where the log's own numbers show that a step is missing, the screen after it is unknown.
    """
    steps = []
    for turn, step in enumerate(logged):
        after = logged[turn + 1] if turn + 1 < len(logged) else None
        if after is not None and None not in (step.number, after.number):
            after = after if after.number == (step.number or 0) + 1 else None
        state = None if after is None else after.state
        steps.append(
            Step(
                action=step.action if isinstance(step.action, str) else to_json_text(step.action),
                action_kind=step.kind,
                action_name=step.name,
                action_valid=step.valid,
                turn=turn,
                thought=step.thought,
                observation=state,
                observation_kind="none" if state is None else "tree",
                error=None if after is None else after.error,
                media=None if after is None else media_text(after.picture),
                time=step.time,
            )
        )
    return tuple(steps)
