"""Rule checks of screens: their form, what changed, what stayed, what is new."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from trajkit.fidelity.anchors import check_anchors, check_focus, check_lines, check_typed
from trajkit.fidelity.changes import Change, change_to
from trajkit.fidelity.content import agreement, likeness, mask, overlap, shape
from trajkit.fidelity.findings import GUARD, Case, Finding, finding
from trajkit.fidelity.gestures import target_names
from trajkit.fidelity.trees import Screen, texts_of

COPY_POWER = 4
"""Untouched elements are copied verbatim: losing an eighth of them brings the score to 0.6."""
CHANGE_POWER = 2
"""What must change is mostly told right: an F1 of 0.7 brings the score to 0.5."""

MIN_NAMES = 5
LEAST_SHARED_NAMES = 0.3
"""Which part of the words on a new page two right answers share; under half of it is another."""

_NAME_WORD = re.compile(r"[^\W\d_]{2,}")


def check_web(case: Case) -> Iterator[Finding]:
    """Give what the rules see in a browser state."""
    yield from _check(case, numbered=False)


def check_os(case: Case) -> Iterator[Finding]:
    """Give what the rules see in a desktop state."""
    yield from _check(case, numbered=False)


def check_android(case: Case) -> Iterator[Finding]:
    """Give what the rules see in a phone's screen."""
    yield from _check(case, numbered=True)


def _check(case: Case, *, numbered: bool) -> Iterator[Finding]:
    wanted = change_to(case, case.recorded, numbered=numbered)
    got = change_to(case, case.prediction, numbered=numbered)
    truth, guess = wanted.after, got.after
    yield from _form(truth, guess)
    yield from check_anchors(wanted, got)
    yield from check_lines(wanted, guess)
    yield from check_typed(case, truth, guess)
    yield from check_focus(truth, guess)
    yield from _changes(case, wanted, got)
    if wanted.fresh:
        yield from _likeness(wanted, got)


def _form(truth: Screen, guess: Screen) -> Iterator[Finding]:
    roles, got = (Counter(node.role for node in side.nodes) for side in (truth, guess))
    known = roles.keys() & got.keys()
    share = sum(got[role] for role in known) / got.total() if got else float(not roles)
    yield finding(
        "not_a_tree",
        "format",
        share if truth.form == guess.form else 0.0,
        f"{truth.form}: {', '.join(sorted(roles)[:12])}",
        f"{guess.form}: {', '.join(sorted(got)[:12])}",
        weight=0.5,
        blocking=truth.form != "lines",
    )
    size, got_size = len(truth.nodes), len(guess.nodes)
    yield finding(
        "wrong_count",
        "quality",
        (min(size, got_size) + 2) / (max(size, got_size) + 2),
        f"{size} elements",
        f"{got_size} elements",
        content_class="pre_existing",
    )


def _changes(case: Case, wanted: Change, got: Change) -> Iterator[Finding]:
    if wanted and not got:
        yield finding(
            "stale_copy",
            "consistency",
            0.0,
            "; ".join([*wanted.sure, *wanted.fresh][:5]),
            "the state before",
            blocking=True,
        )
        return
    if not wanted:
        new = [*got.sure, *got.fresh]
        yield finding(
            "invented_change",
            "factuality",
            got.kept_share**COPY_POWER if got else 1.0,
            "no change",
            "; ".join(new[:5]) or "no change",
            weight=3.0,
            blocking=True,
        )
    yield from _numbers(wanted, got)
    yield from _altered(wanted, got.after)
    if wanted.stayed:
        lost = wanted.stayed - got.after.values
        n_lost, n = lost.total(), wanted.stayed.total()
        yield finding(
            "lost_element",
            "consistency",
            (1 - n_lost / n) ** COPY_POWER,
            next(iter(lost), "all untouched elements"),
            f"{n_lost} of {n} untouched elements differ",
            weight=2.0,
            blocking=True,
        )
    if not wanted:
        return
    yield from _effect(case, wanted, got)
    if wanted.sure or not wanted.other_page:
        # On another page what was seen on earlier ones (header, navigation) must come again; on
        # the same page exactly what changed must change.
        score = overlap(wanted.sure, got.sure) if wanted.other_page else _same_change(wanted, got)
        yield finding(
            "wrong_change",
            "factuality",
            score**CHANGE_POWER,
            "; ".join([*(wanted.sure - got.sure)][:5]) or "the same change",
            "; ".join([*(got.sure - wanted.sure)][:5]) or "nothing more",
            weight=3.0,
            blocking=True,
        )
    if wanted.removed and not wanted.other_page:
        yield finding(
            "wrong_removal",
            "factuality",
            agreement(wanted.removed, got.removed),
            "; ".join([*wanted.removed][:8]),
            "; ".join([*got.removed][:8]) or "nothing",
            weight=2.0,
        )
    if wanted.other_page:
        yield finding(
            "missing_effect",
            "factuality",
            float(got.kept_share < (1 + wanted.kept_share) / 2),
            f"{wanted.kept_share:.0%} of the old elements stay",
            f"{got.kept_share:.0%}",
            weight=GUARD,
            blocking=True,
        )


def _same_change(wanted: Change, got: Change) -> float:
    """Return the F1 of what changed; new content counts by its amount alone."""
    n_new, n_got_new = wanted.fresh.total(), got.fresh.total()
    total = wanted.sure.total() + got.sure.total() + n_new + n_got_new
    right = (wanted.sure & got.sure).total() + min(n_new, n_got_new)
    return 2 * right / total if total else 1.0


def _numbers(wanted: Change, got: Change) -> Iterator[Finding]:
    """Give whether elements that stayed on the page keep the numbers that actions name."""
    if wanted.before is None or wanted.other_page or wanted.before.form != "tree":
        return
    before, truth, guess = (
        {(n.key, n.value) for n in side.nodes if n.role and " " not in n.key}
        for side in (wanted.before, wanted.after, got.after)
    )
    stayed = before & truth
    lost = {key for key, value in stayed - guess if got.after.values[value]}
    if stayed:
        yield finding(
            "wrong_number",
            "consistency",
            float(not lost),
            "elements keep their numbers",
            f"{len(lost)} of {len(stayed)} have others" if lost else "they do",
            blocking=True,
        )


def _altered(wanted: Change, guess: Screen) -> Iterator[Finding]:
    """Give whether an element that had to be as it is stands there with another text."""
    if not wanted.stayed and not wanted.sure:
        return
    found: list[tuple[str, str]] = []
    if wanted.after.values - guess.values:
        plain, got = (
            [(node.role, node.plain) for node in side.nodes] for side in (wanted.after, guess)
        )
        have = Counter(value for _, value in got)
        lost = Counter(value for _, value in plain) - wanted.fresh - have
        extra = have - Counter(value for _, value in plain)
        after, before = dict[str, tuple[str, str]](), dict[str, tuple[str, str]]()
        for number, (role, value) in enumerate(got):
            if extra[value]:
                after[got[number - 1][1] if number else ""] = role, value
                before[got[number + 1][1] if number + 1 < len(got) else ""] = role, value
        for number, (role, value) in enumerate(plain):
            if lost[value]:
                previous = plain[number - 1][1] if number else ""
                following = plain[number + 1][1] if number + 1 < len(plain) else ""
                one, other = after.get(previous), before.get(following)
                for new in (one, other):
                    # In the place of the old one, or beside one neighbour and of its kind.
                    if new is not None and (new[0] == role or one == other):
                        found.append((value, new[1]))
    yield finding(
        "altered_element",
        "consistency",
        float(not found),
        found[0][0] if found else "all as they must be",
        found[0][1] if found else "all as they must be",
        blocking=True,
    )


def _effect(case: Case, wanted: Change, got: Change) -> Iterator[Finding]:
    """Give whether the element acted on leaves its name in what is new, as it did."""
    if wanted.before is None:
        return
    new, got_new = (
        "\n".join([*side.sure, *side.fresh, *side.after.header]) for side in (wanted, got)
    )
    names = [name for name in target_names(case.action.action, wanted.before) if name in new]
    if names:
        lost = [name for name in names if name not in got_new]
        yield finding(
            "missing_target",
            "factuality",
            1 - len(lost) / len(names),
            lost[0] if lost else names[0],
            "not in what changed" if lost else "there",
            weight=2.0,
        )


def _likeness(wanted: Change, got: Change) -> Iterator[Finding]:
    """Give whether new content has the form of the recorded one, and anything in common with it."""
    text, got_text = ("\n".join(side.fresh.elements()) for side in (wanted, got))
    words, got_words = (_names(side) for side in (wanted, got))
    if len(words) >= MIN_NAMES and wanted.other_page:
        yield finding(
            "unlike_names",
            "realism",
            len(words & got_words) / len(words) / LEAST_SHARED_NAMES,
            ", ".join(sorted(words)[:20]),
            ", ".join(sorted(got_words)[:20]) or "no names",
            content_class="pre_existing",
            weight=GUARD,
            blocking=True,
        )
    text, got_text = mask(text), mask(got_text)
    yield finding(
        "unlike_form",
        "realism",
        max(likeness(text, got_text), likeness(shape(text), shape(got_text))),
        text,
        got_text,
        content_class="pre_existing",
        weight=2.0,
    )


@lru_cache(maxsize=32)
def _names(change: Change) -> set[str]:
    """Return the words that a person reads on the new elements of a screen."""
    return {
        word
        for node in change.after.nodes
        if node.plain in change.fresh
        for text in texts_of(node)
        for word in _NAME_WORD.findall(text.lower())
    }
