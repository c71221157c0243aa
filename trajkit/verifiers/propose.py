"""What could be verified of a recorded observation, from all that the gate knows of it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trajkit.fidelity.content import action_text
from trajkit.fidelity.findings import Case
from trajkit.verifiers.errors import error_verifiers, settled_by
from trajkit.verifiers.kinds import Verifier
from trajkit.verifiers.memory import memory_verifiers

MIN_QUOTED_CHARS = 3
MAX_PROPOSED = 12
_QUOTED = re.compile(r"`([^`\n]{1,200})`|\"([^\"\n]{1,200})\"|(?<!\w)'([^'\n]{1,200})'(?!\w)")


def propose(
    case: Case, *, instruction: str | None = None, action_space: str | None = None
) -> list[Verifier]:
    """Return verifiers that the recorded observation passes, at most a dozen.

    `instruction` is the text that controls the answer, where the prompt has one: what it names, and
    a failure that it announces, is then controllability. Failures and long context are read from
    action and history alone. None of them is proven yet: see `proven`.
    """
    found: list[Verifier] = []
    if instruction:
        found += _controlled(case, instruction)
    if not found and settled_by(case, action_space) is not None:
        found += error_verifiers(case, "error_handling")
    found += memory_verifiers(case)
    unique: dict[tuple[str, tuple[str, ...], str], Verifier] = {}
    for one in found:
        unique.setdefault((one.kind, one.wanted, one.where), one)
    return list(unique.values())[:MAX_PROPOSED]


def _controlled(case: Case, instruction: str) -> Iterator[Verifier]:
    """Give what the instruction names and the answer shows, and the failure that it announces.

    A search run's instruction names what must not be told: that is the reward's own business.
    """
    if case.domain == "search":
        return
    own = action_text(case.action.action)
    quoted = [next(filter(None, found)) for found in _QUOTED.findall(instruction)]
    named = False
    for phrase in dict.fromkeys(quoted):
        lines = case.recorded.split("\n")
        if len(phrase) >= MIN_QUOTED_CHARS and any(phrase in line for line in lines):
            named = True
            if phrase not in own:
                yield Verifier(kind="pieces", axis="controllability", wanted=(phrase,))
    if named:
        yield from error_verifiers(case, "controllability")
