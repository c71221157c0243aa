"""What the gate is asked and what it answers: cases, findings, verdicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Axis = Literal["format", "factuality", "consistency", "realism", "quality"]
ContentClass = Literal["deterministic", "pre_existing", "runtime_metadata"]

AXES: tuple[Axis, ...] = get_args(Axis)
MAX_SHOWN_CHARS = 200
GUARD = 0.25
"""Weight of a check that nearly always holds: it should fail a case, not lift its mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check saw."""

    check: str
    """Slug of the check; also the reason of a prediction that fails by it."""
    axis: Axis
    """Which score it counts for."""
    content_class: ContentClass
    """Which kind of content it looked at."""
    score: float
    """0.0 (wrong) to 1.0 (fine)."""
    expected: str
    """What the recording says, cut to 200 characters."""
    got: str
    """What the prediction says, cut to 200 characters."""
    weight: float = 1.0
    """How much it counts in the mean of its axis."""
    blocking: bool = False
    """A blocking finding with a score under 0.5 fails the prediction whatever the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One earlier action and its recorded observation."""

    action: str
    """The action as text."""
    action_kind: str
    """The form of the action."""
    action_name: str | None = None
    """Tool, command or gesture name."""
    observation: str | None = None
    """What came back; null when nothing did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One prediction beside all that may be used to judge it."""

    domain: str
    """One of the seven."""
    action: Turn
    """The judged action; its observation is not given."""
    history: tuple[Turn, ...] = ()
    """Earlier turns, oldest first."""
    initial_state: str | None = None
    """What the environment showed before the first action."""
    task: str | None = None
    """What the agent was asked to do."""
    recorded: str
    """What the environment really said."""
    prediction: str
    """What the world model says it would say."""
    error: str | None = None
    """Error text or class of the recorded step, when the log has one."""
    exit_code: int | None = None
    """Exit code of the recorded step, when the log has one."""
    answer: str | None = None
    """What the agent is to find out, or answered in the end: no search result gives it away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The gate's judgement of one prediction."""

    passed: bool
    """Whether the prediction may be used."""
    reason: str | None
    """Slug of the first failed check; null when passed."""
    format: float
    """Rule score of the axis format."""
    factuality: float
    """Rule score of the axis factuality."""
    consistency: float
    """Rule score of the axis consistency."""
    realism: float
    """Rule score of the axis realism."""
    quality: float
    """Rule score of the axis quality."""
    findings: tuple[Finding, ...]
    """Everything the checks saw, in the order they ran."""


def shown(text: str) -> str:
    """Return a text cut for a finding, with what UTF-8 cannot hold replaced.

    >>> len(shown("x" * 1000))
    200
    """
    if len(text) > MAX_SHOWN_CHARS:
        text = text[: MAX_SHOWN_CHARS - 1] + "…"
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def finding(
    check: str,
    axis: Axis,
    score: float,
    expected: object,
    got: object,
    *,
    content_class: ContentClass = "deterministic",
    weight: float = 1.0,
    blocking: bool = False,
) -> Finding:
    """Return a finding with its score kept between 0 and 1 and its texts cut."""
    return Finding(
        check=check,
        axis=axis,
        content_class=content_class,
        score=min(1.0, max(0.0, float(score))),
        expected=shown(str(expected)),
        got=shown(str(got)),
        weight=weight,
        blocking=blocking,
    )
