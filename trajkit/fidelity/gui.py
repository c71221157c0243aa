"""Rule checks of screens: what changed, what stayed, focus, typed text, address and title."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

from trajkit.fidelity.content import (
    action_text,
    agreement,
    earlier_texts,
    likeness,
    mask,
    overlap,
    parse_json,
    previous_state,
    shape,
)
from trajkit.fidelity.findings import GUARD, Case, Finding, finding
from trajkit.fidelity.trees import (
    Change,
    Node,
    Screen,
    at,
    change,
    labels,
    name_of,
    parse,
    untouched,
    without_place,
)

NEW_SCREEN_SHARE = 0.5
"""A state that keeps less than this share of its elements counts as another page."""

COPY_POWER = 4
"""Untouched elements are copied verbatim: losing an eighth of them brings the score to 0.6."""

_ERROR_LINE = re.compile(r"(?i)error from last action|^last.action.error|^traceback|^\w*error:")
_TYPING = re.compile(
    r"\b(?:fill|type|keyboard_type|keyboard_insert_text|select_option|write|typewrite|SetTextEvent)"
    r"\s*\((.{0,4000})\)",
    re.DOTALL,
)


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
    truth, guess = (parse(text, numbered=numbered) for text in (case.recorded, case.prediction))
    yield from _form(truth, guess)
    yield from _anchors(truth, guess)
    yield from _typed(case)
    yield from _focus(truth, guess)
    previous = previous_state(case)
    if previous is None:
        yield from _unseen(truth.nodes, guess.nodes)
        return
    before = parse(previous, numbered=numbered)
    yield from _changes(case, before, truth, guess, numbered)


def _form(truth: Screen, guess: Screen) -> Iterator[Finding]:
    roles, got = (Counter(node.role for node in side.nodes) for side in (truth, guess))
    known = roles.keys() & got.keys()
    yield finding(
        "not_a_tree",
        "format",
        sum(got[role] for role in known) / max(1, got.total()),
        ", ".join(sorted(roles)[:12]),
        ", ".join(sorted(got)[:12]),
        weight=0.5,
        blocking=len(truth.nodes) > 3,
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


def _anchors(truth: Screen, guess: Screen) -> Iterator[Finding]:
    """Give whether address, title, tabs, window and error lines are those of the recording."""
    if truth.header:
        wanted_labels, got = (Counter(_label(line) for line in s.header) for s in (truth, guess))
        yield finding(
            "wrong_header",
            "format",
            agreement(wanted_labels, got),
            ", ".join(wanted_labels),
            ", ".join(got),
        )
        wanted, have = (Counter(mask(line) for line in s.header) for s in (truth, guess))
        lost = list((wanted - have).elements())
        # The address behind a link cannot be known, so one that is nearly right counts in part.
        near = [max((_nearness(line, other) for other in have), default=0.0) for line in lost]
        yield finding(
            "wrong_anchor",
            "factuality",
            1 - (len(lost) - sum(near)) / wanted.total(),
            "; ".join(lost) or "; ".join(wanted),
            "; ".join(have - wanted) or "the same",
            weight=2.0,
        )
    failed, got_failed = (
        any(_ERROR_LINE.search(line[:400]) for line in s.header) for s in (truth, guess)
    )
    yield finding(
        "wrong_exit_class",
        "factuality",
        float(failed == got_failed),
        "an error" if failed else "no error",
        "an error" if got_failed else "no error",
        weight=GUARD,
        blocking=True,
    )


def _nearness(wanted: str, got: str) -> float:
    """Return how near two lines of one label are; texts of no kinship come out near 0."""
    if _label(wanted) != _label(got):
        return 0.0
    tails = (line.partition(":")[2].rpartition("//")[2].partition("/")[2] for line in (wanted, got))
    first, second = tails
    alike = likeness(first, second) if first or second else likeness(wanted, got)
    return max(0.0, 2 * alike - 1)


def _label(line: str) -> str:
    return line.partition(":")[0]


def typed_text(action: str) -> str | None:
    """Return the text that an action types, chooses or asks for, if it does.

    >>> typed_text("fill('14', 'plum jam')"), typed_text("click('3')")
    ('plum jam', None)
    """
    value = parse_json(action)
    if isinstance(value, dict):
        for holder in (value, value.get("arguments")):
            if isinstance(holder, dict):
                for key in ("text", "value", "options", "app_name", "url"):
                    if isinstance(holder.get(key), str):
                        return str(holder[key])
    match = _TYPING.search(action if value is None else action_text(action))
    if match is None:
        return None
    try:
        arguments = ast.parse(f"f({match.group(1)})", mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    constants = [
        node.value
        for node in (arguments.args if isinstance(arguments, ast.Call) else [])
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return constants[-1] if constants else None


def _typed(case: Case) -> Iterator[Finding]:
    typed = typed_text(case.action.action) or ""
    texts = [text for line in typed.split("\n") if (text := line.strip()) in case.recorded and text]
    if texts:
        counts = [(case.recorded.count(text), case.prediction.count(text)) for text in texts[:50]]
        yield finding(
            "missing_typed_text",
            "factuality",
            sum(min(1.0, got / wanted) for wanted, got in counts) / len(counts),
            typed,
            "; ".join(f"{got} times, recorded {wanted} times" for wanted, got in counts[:3]),
            weight=2.0,
            blocking=True,
        )


_FIRST_ARGUMENT = re.compile(r"\s*[a-z_]{2,24}\s*[(\[]\s*['\"]?([\w-]{1,40})")
_POINT = re.compile(r"[cC]lick\(\s*(?:x=)?(\d{1,5})(?:\.\d+)?,\s*(?:y=)?(\d{1,5})")
MAX_TARGET_NAMES = 4


def target_names(action: str, before: Screen) -> list[str]:
    """Return the texts on the element that an action points at, the nearest first."""
    value = parse_json(action)
    nodes: list[Node] = []
    if isinstance(value, dict) and all(isinstance(value.get(k), int | float) for k in "xy"):
        nodes = at(before, value["x"], value["y"])
    elif points := _POINT.findall(action_text(action)):
        nodes = at(before, *map(int, points[-1]))
    elif value is None and (match := _FIRST_ARGUMENT.match(action)) is not None:
        nodes = [node for node in before.nodes if node.key == match.group(1)]
    names = [name for node in nodes[:20] if len(name := name_of(node)) >= 3]
    return names[:MAX_TARGET_NAMES]


def _effect(case: Case, before: Screen, wanted: Change, got: Change) -> Iterator[Finding]:
    """Give whether the element acted on leaves its name in what is new, as it did."""
    new, got_new = "\n".join(wanted.added), "\n".join(got.added)
    names = [name for name in target_names(case.action.action, before) if name in new]
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


def _focus(truth: Screen, guess: Screen) -> Iterator[Finding]:
    wanted, got = ({node.label for node in s.nodes if node.focused} for s in (truth, guess))
    if wanted:
        yield finding(
            "wrong_focus",
            "factuality",
            float(bool(wanted & got)),
            "; ".join(sorted(wanted)),
            "; ".join(sorted(got)) or "no focus",
        )


def _changes(
    case: Case, before: Screen, truth: Screen, guess: Screen, numbered: bool
) -> Iterator[Finding]:
    wanted, got = change(before, truth), change(before, guess)
    if wanted and not got:
        yield finding(
            "stale_copy",
            "consistency",
            0.0,
            "; ".join(list(wanted.added)[:5]),
            "the state before",
            blocking=True,
        )
        return
    if not wanted:
        yield finding(
            "invented_change",
            "factuality",
            _kept_share(before, guess) ** COPY_POWER if got else 1.0,
            "no change",
            "; ".join(list(got.added)[:5]) or "no change",
            weight=3.0,
            blocking=True,
        )
    stayed = untouched(before, truth)
    if stayed:
        have = {node.key: node.value for node in guess.nodes}
        lost = [node for node in stayed if have.get(node.key) != node.value]
        yield finding(
            "lost_element",
            "consistency",
            (1 - len(lost) / len(stayed)) ** COPY_POWER,
            lost[0].value if lost else "all untouched elements",
            f"{len(lost)} of {len(stayed)} untouched elements differ",
            weight=2.0,
        )
    if not wanted:
        return
    yield from _effect(case, before, wanted, got)
    known = _known_labels(case, before, numbered)
    text = typed_text(case.action.action) or ""
    sure, new = _split(truth, before, known, text)
    got_sure, got_new = _split(guess, before, known, text)
    other_page = _kept_share(before, truth) < NEW_SCREEN_SHARE or _root(before) != _root(truth)
    if sure:
        # On another page what was seen on earlier ones (header, navigation) must come again; on
        # the same page exactly what changed must change.
        score = overlap(sure, got_sure) if other_page else agreement(sure, got_sure)
        yield finding(
            "wrong_change",
            "factuality",
            score,
            "; ".join(list((sure - got_sure).keys())[:5]) or "the same change",
            "; ".join(list((got_sure - sure).keys())[:5]) or "nothing more",
            weight=3.0,
            blocking=not other_page,
        )
    if wanted.removed and not other_page:
        yield finding(
            "wrong_removal",
            "factuality",
            agreement(wanted.removed, got.removed),
            "; ".join(list(wanted.removed)[:8]),
            "; ".join(list(got.removed)[:8]),
            weight=2.0,
        )
    if other_page:
        kept, got_kept = _kept_share(before, truth), _kept_share(before, guess)
        yield finding(
            "missing_effect",
            "factuality",
            float(got_kept < (1 + kept) / 2),
            f"{kept:.0%} of the old elements stay",
            f"{got_kept:.0%}",
            weight=GUARD,
            blocking=True,
        )
    if new:
        yield from _likeness(new, got_new)


def _root(screen: Screen) -> str:
    """Return the page's root, which tells pages apart; empty where states have none."""
    first = screen.nodes[0] if screen.nodes else None
    return first.label if first is not None and first.role == "RootWebArea" else ""


def _kept_share(before: Screen, after: Screen) -> float:
    return len(untouched(before, after)) / len(before.nodes) if before.nodes else 1.0


def _known_labels(case: Case, before: Screen, numbered: bool) -> set[str]:
    known = {node.label for node in before.nodes}
    for text in earlier_texts(case):
        known |= labels(text, numbered=numbered)
    return known


def _split(
    screen: Screen, before: Screen, known: set[str], text: str
) -> tuple[Counter[str], Counter[str]]:
    """Return the changed elements of a state: those the history tells, and new ones."""
    old = {node.key: node.value for node in before.nodes}
    sure: Counter[str] = Counter()
    new: Counter[str] = Counter()
    for node in screen.nodes:
        if old.get(node.key) == node.value:
            continue
        if node.label in known or (text and text in node.value):
            sure[without_place(node.value)] += 1
        else:
            new[without_place(node.value)] += 1
    return sure, new


def _likeness(wanted: Counter[str], got: Counter[str]) -> Iterator[Finding]:
    text, got_text = ("\n".join(side.elements()) for side in (wanted, got))
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


def _unseen(wanted: tuple[object, ...], got: tuple[object, ...]) -> Iterator[Finding]:
    yield from _likeness(
        Counter(without_place(getattr(node, "value", "")) for node in wanted),
        Counter(without_place(getattr(node, "value", "")) for node in got),
    )
