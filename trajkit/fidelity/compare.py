"""How two plain texts compare: known lines, known values, form, runtime metadata."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rapidfuzz import fuzz
from rapidfuzz.distance import Levenshtein

from trajkit.fidelity.content import (
    agreement,
    edges,
    likeness,
    lines_of,
    mask,
    metadata_kinds,
    overlap,
    shape,
)
from trajkit.fidelity.findings import GUARD, Case, Finding, finding
from trajkit.fidelity.known import TELLING, lost_values, parts
from trajkit.fidelity.metadata import identities, out_of_range

MAX_MASKED_CHARS = 100_000
MAX_PAIRED_LINES = 2_000
MIN_PAIR_LIKENESS = 60
"""From here on, 0 to 100, a changed line still tells what the recorded one tells."""
UNDER_HALF = 0.49
"""Score of what must be whole and is not, so that a blocking finding blocks."""


def whole_or_not(score: float) -> float:
    """Return 1.0 for all of it, and less than a half for anything less.

    >>> whole_or_not(1.0), whole_or_not(0.9), whole_or_not(0.2)
    (1.0, 0.49, 0.2)
    """
    return score if score >= 1.0 else min(UNDER_HALF, score)


def compare(case: Case, recorded: str, prediction: str) -> Iterator[Finding]:
    """Give the findings any domain can use on plain text: known lines, form, metadata."""
    classes = parts(case, recorded)
    exact = Counter(p.text.strip() for p in classes if p.content_class == "deterministic")
    got_lines = Counter(line.strip() for line in prediction.split("\n") if TELLING.search(line))
    if exact:
        lost = exact - got_lines
        yield finding(
            "missing_known_line",
            "factuality",
            whole_or_not(overlap(exact, got_lines)),
            next(iter(lost), next(iter(exact))),
            "all there" if not lost else f"{lost.total()} of {exact.total()} lines are missing",
            weight=3.0,
            blocking=True,
        )
    loose = [p.text for p in classes if p.content_class != "deterministic"]
    if not classes:
        score = likeness(recorded, prediction)
        yield finding("unlike_form", "realism", score, recorded, prediction, weight=2.0)
        return
    # Lines known beforehand are taken off both sides, so that only the new text is compared.
    left = got_lines & exact
    rest = []
    for line in lines_of(prediction):
        if left[line.strip()] > 0:
            left[line.strip()] -= 1
        elif TELLING.search(line):
            rest.append(line)
    if loose:
        yield from _loose(case, loose, rest)
    else:
        yield finding(
            "unknown_line",
            "factuality",
            whole_or_not(1 - len(rest) / max(1, got_lines.total())),
            "nothing but what is known",
            rest[0] if rest else "nothing else",
            weight=2.0,
            blocking=True,
        )


def _loose(case: Case, loose: list[str], rest: list[str]) -> Iterator[Finding]:
    """Give how lines that nobody could tell beforehand compare."""
    lost = [
        value for wanted, got in _pairs(loose, rest) for value in lost_values(case, wanted, got)
    ]
    if lost:
        # A line that only moved took its values along.
        missing = set(lost_values(case, "\n".join(loose), "\n".join(rest)))
        lost = [value for value in lost if value in missing]
    yield finding(
        "changed_known_value",
        "factuality",
        float(not lost),
        lost[0] if lost else "what the action and the history name",
        "missing" if lost else "there",
        weight=GUARD,
        blocking=True,
    )
    text, got_text = (edges("\n".join(side), MAX_MASKED_CHARS) for side in (loose, rest))
    wanted, got = mask(text), mask(got_text)
    score = max(likeness(wanted, got), likeness(shape(wanted), shape(got)))
    yield finding(
        "unlike_form", "realism", score, wanted, got, content_class="pre_existing", weight=2.0
    )
    identity, got_identity = identities(text), identities(got_text)
    if len(set(identity)) < len(identity) == len(got_identity):
        yield finding(
            "broken_identity",
            "consistency",
            float(identity == got_identity),
            "what is equal stays equal",
            "so it is" if identity == got_identity else "it does not",
            content_class="runtime_metadata",
            weight=GUARD,
            blocking=True,
        )
    kinds, got_kinds = metadata_kinds(wanted), metadata_kinds(got)
    if kinds or got_kinds:
        yield finding(
            "wrong_metadata_form",
            "realism",
            agreement(kinds, got_kinds),
            dict(sorted(kinds.items())),
            dict(sorted(got_kinds.items())),
            content_class="runtime_metadata",
        )
    if kinds and got_kinds:
        strange = out_of_range(text, got_text)
        yield finding(
            "metadata_out_of_range",
            "realism",
            float(strange is None),
            "times, lengths and addresses that can be",
            strange or "none other",
            content_class="runtime_metadata",
        )


def _pairs(loose: list[str], rest: list[str]) -> Iterator[tuple[str, str]]:
    """Give the lines that stand in each other's place and are nearly the same."""
    if max(len(loose), len(rest)) > MAX_PAIRED_LINES:
        return
    for change in Levenshtein.opcodes(loose, rest):
        if change.tag == "replace":
            wanted = loose[change.src_start : change.src_end]
            got = rest[change.dest_start : change.dest_end]
            for line, got_line in zip(wanted, got, strict=True):
                if fuzz.ratio(line, got_line) >= MIN_PAIR_LIKENESS:
                    yield line, got_line
