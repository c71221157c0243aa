"""Whether a verifier tells right answers from wrong ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from trajkit.fidelity.findings import Case
from trajkit.fidelity.gate import judge
from trajkit.fidelity.talk import talk_about_itself
from trajkit.verifiers.kinds import Verifier, verify
from trajkit.verifiers.propose import propose
from trajkit.verifiers.rollouts import Rollout, altered, right, wrong

MIN_WRONG = 3
"""A verifier that met fewer wrong answers is not proven."""


def refusal(
    verifier: Verifier, case: Case, variations: Sequence[Rollout], wrongs: Sequence[Rollout]
) -> str | None:
    """Return why a verifier may not be used, null when it may.

    It must pass every variation and fail every wrong answer, and also the recorded observation with
    the very thing changed that it asks for. Praise of an answer for itself is no business of a
    single verifier: the reward refuses such an answer before it asks one, and so does this.
    """
    for one in variations:
        if not _passes(verifier, case, one.text):
            return f"fails_{one.kind}"
    if len(wrongs) < MIN_WRONG:
        return "few_wrong_answers"
    for one in wrongs:
        if _passes(verifier, case, one.text):
            return f"passes_{one.kind}"
    changed = altered(case, verifier)
    if changed is not None and _passes(verifier, case, changed):
        return "passes_altered"
    return None


def proven(
    verifier: Verifier, case: Case, variations: Sequence[Rollout], wrongs: Sequence[Rollout]
) -> bool:
    """Return whether a verifier tells these answers apart."""
    return refusal(verifier, case, variations, wrongs) is None


def _passes(verifier: Verifier, case: Case, text: str) -> bool:
    return verify(verifier, text) and talk_about_itself(case.recorded, text) is None


@dataclass(slots=True)
class Proven:
    """Verifiers that held, and the account of those that did not."""

    kept: list[Verifier] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    """`verifiers.proposed`, `verifiers.kept.AXIS`, `verifiers.refused.REASON`."""


def prove(
    case: Case,
    others: Iterable[str],
    *,
    instruction: str | None = None,
    action_space: str | None = None,
    predictions: Sequence[str] = (),
) -> Proven:
    """Return the verifiers of a recorded observation that hold.

    `others` are observations of other steps. `predictions` are answers of a model, made elsewhere:
    a verifier must then say of each what the gate says. A transition whose own recorded observation
    the gate refuses has none.
    """
    found = Proven()
    proposed = propose(case, instruction=instruction, action_space=action_space)
    if not proposed:
        return found
    found.counts["verifiers.proposed"] = len(proposed)
    if not judge(replace(case, prediction=case.recorded)).passed:
        found.counts["verifiers.refused.gate_refuses_truth"] = len(proposed)
        return found
    variations, wrongs = right(case), wrong(case, list(others))
    verdicts = [(text, judge(replace(case, prediction=text)).passed) for text in predictions]
    for verifier in proposed:
        reason = refusal(verifier, case, variations, wrongs)
        if reason is None and any(
            _passes(verifier, case, text) != passed for text, passed in verdicts
        ):
            reason = "disagrees_on_predictions"
        if reason is None:
            found.kept.append(verifier)
            found.counts[f"verifiers.kept.{verifier.axis}"] += 1
        else:
            found.counts[f"verifiers.refused.{reason}"] += 1
    return found
