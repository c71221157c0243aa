"""Bounds that an evaluation must keep: `min_overall=55,min_factuality=50`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trajkit.errors import TrajkitError, alternatives, quote
from trajkit.fidelity.findings import AXES
from trajkit.model import DOMAINS

NAMES = tuple(f"min_{name}" for name in ("overall", "micro", *AXES, *DOMAINS))
"""`overall` and the axes are macro means, `micro` the mean of all rows, a domain its overall."""


def parse_bounds(text: str | None) -> dict[str, float]:
    """Return the least score by name.

    Raises TrajkitError for a name that is none, a name given twice, or no score from 0 to 100.

    >>> parse_bounds("min_overall=55, min_mcp=40.5")
    {'min_overall': 55.0, 'min_mcp': 40.5}
    """
    bounds: dict[str, float] = {}
    for piece in (text or "").split(","):
        if not piece.strip():
            continue
        name, _, value = (part.strip() for part in piece.partition("="))
        if name not in NAMES:
            raise TrajkitError("--gate", f"no bound {quote(name)}", f"one of {alternatives(NAMES)}")
        if name in bounds:
            raise TrajkitError("--gate", f"{name} is given twice", "give each bound once")
        try:
            bounds[name] = float(value)
        except ValueError:
            bounds[name] = -1.0
        if not 0 <= bounds[name] <= 100:
            raise TrajkitError(
                "--gate", f"{name}={quote(value)} is no score", "give a number from 0 to 100"
            )
    return bounds


def check_bounds(
    bounds: Mapping[str, float], measures: Sequence[Mapping[str, Any]], scorer: str
) -> list[dict[str, Any]]:
    """Return each bound with the score it is held against; failures count 0 there.

    A bound on something without a score does not hold: nothing shows that it does.
    """
    scores = {
        (row["domain"], row["axis"]): row["score"] for row in measures if row["scorer"] == scorer
    }
    checked = []
    for name, least in bounds.items():
        what = name.removeprefix("min_")
        place = (what, "overall")
        if what in AXES or what == "overall":
            place = ("macro", what)
        score = scores.get(place)
        holds = score is not None and score >= least
        checked.append({"name": name, "least": least, "score": score, "holds": holds})
    return checked


def refuse_broken(checked: Sequence[Mapping[str, Any]], out: str, scorer: str) -> None:
    """Raise TrajkitError that names every bound that does not hold; return when all do."""
    broken = [
        f"{one['name']}={one['least']:g} "
        + ("has no score" if one["score"] is None else f"is above {one['score']:.2f}")
        for one in checked
        if not one["holds"]
    ]
    if broken:
        raise TrajkitError(
            "--gate",
            f"{len(broken)} of {len(checked)} bounds broken, scored by {scorer}: "
            + ", ".join(broken),
            f"{out} holds all results; report.html shows the worst answers of each domain",
        )
