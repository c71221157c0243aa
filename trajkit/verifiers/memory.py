"""Verifiers of what the history settles: text written and read back, values, places, screens."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from trajkit.fidelity.changes import change_to
from trajkit.fidelity.content import action_text, mask, parse_json
from trajkit.fidelity.findings import Case, Turn
from trajkit.fidelity.json_shape import read_answer
from trajkit.fidelity.known import TELLING, parts
from trajkit.fidelity.known_values import arguments, change_steps, told_before
from trajkit.fidelity.mcp import fails
from trajkit.fidelity.results import pages_of
from trajkit.fidelity.shared import squeezed
from trajkit.fidelity.terminal import keystrokes, read_screen
from trajkit.verifiers.errors import text_of
from trajkit.verifiers.kinds import NUMBERED, Axis, Kind, Verifier, told

AXIS: Axis = "long_context"
MAX_LINES = 200
MAX_REGION_LINES = 40
MIN_REGION_LINES = 2
MIN_LINE_CHARS = 6
"""Fewer signs stand in a line by chance."""
MIN_REPEATED_CHARS = 12
MAX_RECORDS = 20
MAX_ELEMENTS = 40
_ASSIGNED = re.compile(
    r"(?:\A|[\s;&])(?:export +)?([A-Za-z_]\w{0,60})=(?:'([^'\n]{1,200})'|\"([^\"$`\n]{1,200})\""
    r"|([^\s'\"$`;&|]{1,200}))"
)
_CHANGES_PLACE = re.compile(r"(?:\A|[\n;&])\s*(?:cd|pushd|popd)\b")
MIN_VALUE_CHARS = 3
_PASSING = re.compile("‹(?:timestamp|duration|speed|process_id)›")
"""Masks of what is another one the next time, even where it was the same so far."""


def memory_verifiers(case: Case) -> list[Verifier]:
    """Return what the turns before settle about the recorded observation."""
    found = list(_repeat(case))
    if case.domain in ("web", "os", "android"):
        return [*found, *_screen(case)]
    # A whole answer that is known says more than its lines.
    found = found or list(_lines(case))
    found += _variables(case)
    if case.domain == "terminal":
        found += _place(case)
    elif case.domain == "search":
        found += _pages(case)
    else:
        found += _values(case)
    return found


def _verifier(kind: Kind, wanted: Sequence[str], where: str = "") -> Verifier:
    return Verifier(kind=kind, axis=AXIS, wanted=tuple(wanted), where=where)


def _repeat(case: Case) -> Iterator[Verifier]:
    """Give the whole answer where the last call of the same kind was answered with it."""
    same = [t for t in case.history if t.action == case.action.action and t.observation]
    recorded = squeezed(case.recorded)
    if not same or len(recorded) < MIN_REPEATED_CHARS:
        return
    if mask(squeezed(same[-1].observation or "")) == mask(recorded):
        yield _verifier("whole", [case.recorded])


def _lines(case: Case) -> Iterator[Verifier]:
    """Give the lines that were seen, written or can be worked out, and the longest row of them.

    Lines that the action itself holds are an echo, which takes no memory.
    """
    text, own = text_of(case), action_text(case.action.action)
    classes = parts(case, text)
    sure = [one.text.strip() for one in classes if one.content_class == "deterministic"]
    sure = [line for line in sure if line not in own and not _PASSING.search(mask(line))]
    sure = sure[:MAX_LINES]
    if not any(len(line) >= MIN_LINE_CHARS for line in sure) and len(sure) < len(classes):
        return
    if not sure:
        return
    row = _longest_row(case, sure)
    is_region = len(row) >= MIN_REGION_LINES
    if is_region:
        yield _verifier("region", row)
    if not is_region or Counter(sure) - Counter(row):
        yield _verifier("lines", sure)


def _longest_row(case: Case, sure: Sequence[str]) -> list[str]:
    """Return the row of neighbouring lines that holds most of the settled ones.

    Prompts that were there before, with what is typed behind them, go with their neighbours, and so
    do lines that tell nothing, such as a lone bracket.
    """
    prompts: tuple[str, ...] = ()
    text = case.recorded if case.domain == "terminal" else text_of(case)
    if case.domain == "terminal":
        past = [case.initial_state or "", *(turn.observation or "" for turn in case.history)]
        shown = read_screen(case.recorded).prompts
        prompts = tuple(p for p in set(shown) if any(p in one for one in past))
    wanted = frozenset(sure)
    rows: list[list[str]] = [[]]
    for line in filter(None, map(str.strip, text.split("\n"))):
        if line in wanted or line.startswith(prompts) or not TELLING.search(line):
            rows[-1].append(line)
        elif rows[-1]:
            rows.append([])
    longest = max(rows, key=lambda row: (sum(line in wanted for line in row), -len(row)))
    return longest[:MAX_REGION_LINES] if wanted.intersection(longest) else []


def _variables(case: Case) -> Iterator[Verifier]:
    """Give the lines that show the value of a variable which an earlier turn set."""
    own = keystrokes(case.action.action) if case.domain == "terminal" else case.action.action
    own = action_text(own)
    values: dict[str, str] = {}
    for turn in case.history:
        typed = action_text(turn.action) if case.domain != "terminal" else keystrokes(turn.action)
        for name, *given in _ASSIGNED.findall(typed[:20_000]):
            values[name] = next(filter(None, given), "")
    lines = [line.strip() for line in text_of(case).split("\n")]
    for name, value in values.items():
        asked = re.search(rf"\$\{{?{re.escape(name)}\b|\bprintenv {re.escape(name)}\b", own)
        if asked is None or len(value) < MIN_VALUE_CHARS or value in own:
            continue
        if any(value in line for line in lines):
            yield _verifier("pieces", [value])


def _place(case: Case) -> Iterator[Verifier]:
    """Give the last line that is typed and the prompt behind it, where a `cd` names the folder."""
    own = keystrokes(case.action.action)
    before = next((t.observation for t in reversed(case.history) if t.observation), None)
    if before is None or _CHANGES_PLACE.search(own) is None:
        return
    now, old = read_screen(case.recorded), read_screen(before)
    if not now.ends_with_prompt or not old.prompts or now.prompts[-1] == old.prompts[-1]:
        return
    last = case.recorded.rstrip().rpartition("\n")[2].strip()
    folder = re.search(r"(?:cd|pushd) +['\"]?([\w./~-]{1,200})", own)
    leaf = folder[1].rstrip("/").rpartition("/")[2] if folder else ""
    if last == now.prompts[-1] and leaf.strip(".~") and leaf in last:
        lines = [line for line in map(str.strip, case.recorded.split("\n")) if line]
        yield _verifier("region", lines[-2:])


def _values(case: Case) -> Iterator[Verifier]:
    """Give objects told of before with what was told of them, and sums that follow from a call."""
    if parse_json(case.recorded) is None:
        return
    answer = read_answer(case.recorded)
    if fails(case.recorded, answer.leaves):
        return
    before = told_before(case.history)
    own = {value for _, value in arguments(case.action.action)}
    for one in answer.records[:MAX_RECORDS]:
        for name in one.names:
            pairs = [
                (key, value)
                for key, value in one.values.items()
                if value != name and len(value) >= 2 and value in before.get(name, ())
            ]
            # Only what the call gave: an echo.
            if name in before and any(value not in own for _, value in pairs):
                flat = [text for pair in pairs for text in pair]
                yield _verifier("record", flat, name)
                break
    yield from _sums(case)


def _sums(case: Case) -> Iterator[Verifier]:
    """Give numbers that are an earlier one of the same key, changed by an argument of the call."""
    steps = change_steps(case.action.action)
    if not steps:
        return
    latest: dict[str, float] = {}
    for turn in case.history:
        latest.update(_numbers(turn))
    for pointer, value in read_answer(case.recorded).leaves:
        if isinstance(value, bool) or not isinstance(value, int | float) or "/*" in pointer:
            continue
        old = latest.get(pointer.rpartition("/")[2])
        if old is not None and round(abs(value - old), 6) in steps:
            yield _verifier("json", [told(value)], pointer)


def _numbers(turn: Turn) -> Iterator[tuple[str, float]]:
    for pointer, value in read_answer(turn.observation or "").leaves:
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield pointer.rpartition("/")[2], float(value)


def _pages(case: Case) -> Iterator[Verifier]:
    """Give the title of a page that a list of results named before it was opened."""
    titles: dict[str, str] = {}
    for turn in case.history:
        for page in pages_of(turn.observation or ""):
            if page.title:
                titles.setdefault(page.url, page.title)
    for _, value in arguments(case.action.action):
        title = titles.get(value, "").strip()
        for line in map(str.strip, case.recorded.split("\n")):
            if len(title) >= MIN_LINE_CHARS and title in line:
                yield _verifier("lines", [line])
                break


def _screen(case: Case) -> Iterator[Verifier]:
    """Give the elements and header lines that had to become what they are.

    What was there before the action, and so would be there in a copy of the old state, is no such
    element.
    """
    numbered = case.domain == "android"
    change = change_to(case, case.recorded, numbered=numbered)
    where = NUMBERED if numbered else ""
    if change.before is None or not change:
        return
    elements = sorted(change.sure.elements())[:MAX_ELEMENTS]
    if elements:
        yield _verifier("element", elements, where)
    old = Counter(change.before.header)
    header = list((Counter(change.sure_header) - old).elements())
    if header:
        yield _verifier("header", header, where)
