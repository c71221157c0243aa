"""Variations of screens told as text: pieces of a state kept, changed, dropped or told anew.

What may be varied and what must stay is read from the words of the history alone.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gate_variations import Sample, Variation
from gate_variations.pieces import WORD, bare, cut, spans, told_anew
from gate_variations.retold import retold

WORDS = WORD.findall(
    "amber barley canvas copper cotton drawer feather garden harbour juniper kettle ladder lantern "
    "maple marble meadow orchard paper pebble pepper pillow plaster quarry ribbon saddle silver "
    "timber velvet walnut willow winter yellow"
)
_PHONE_BOX = re.compile(r"bounds=(?:\(-?\d+,-?\d+,-?\d+,|\"\[-?\d+,-?\d+\]\[-?\d+,)(-?\d+)")
_CLOCK = re.compile(r"(?<![\d:])(\d{1,2}):(\d\d)(?![\d:])")
_ACTION_TEXT = re.compile(r"'((?:[^'\\]|\\.)+)'|\"((?:[^\"\\]|\\.)+)\"|\[([^\[\]]+)\]")
STATUS_BAR_BOTTOM = 160


@dataclass(frozen=True, slots=True)
class State:
    """A recorded state beside what was known before it."""

    pieces: list[str]
    before: frozenset[str]
    """Bare pieces of the state before."""
    words: frozenset[str]
    """Lower-case words of everything that was said before, the action included."""
    action: str
    dice: random.Random

    def is_untouched(self, piece: str) -> bool:
        """Return whether a piece stood in the state before."""
        return bare(piece) in self.before

    def is_status(self, piece: str) -> bool:
        """Return whether a piece is the device's own bar of clock, battery and notices."""
        box = _PHONE_BOX.search(piece)
        return box is not None and 0 < int(box.group(1)) <= STATUS_BAR_BOTTOM


def state_of(sample: Sample) -> State:
    """Return the state of a transition, cut into pieces."""
    case = sample.case
    texts = [case.action.action, case.task or "", case.initial_state or ""]
    for turn in case.history:
        texts += [turn.action, turn.observation or ""]
    return State(
        pieces=cut(case.recorded),
        before=frozenset(bare(piece) for piece in cut(sample.before or "")),
        words=frozenset(word for text in texts for word in WORD.findall(text.lower())),
        action=case.action.action,
        dice=sample.random(),
    )


def variations(sample: Sample) -> Iterator[Variation]:
    """Give what can be varied of a screen."""
    state, recorded = state_of(sample), sample.case.recorded
    makers: tuple[tuple[str, Callable[[State], Iterator[str]]], ...] = (
        ("metadata_redrawn", _metadata),
        ("content_varied", _content),
        ("value_changed", _value),
        ("lines_dropped", _dropped),
    )
    for kind, make in makers:
        for text in make(state):
            if text != recorded:
                yield Variation(kind, text)
    for text in _swapped(state, sample):
        yield Variation("outcome_swapped", text)
    for text in retold(state.pieces, recorded, state.dice):
        yield Variation("other_format", text)


def _metadata(state: State) -> Iterator[str]:
    dice = state.dice
    pieces = [_status_redrawn(p, state) if state.is_status(p) else p for p in state.pieces]
    text = "".join(pieces)
    if '"bounding_box"' in text:
        text = re.sub(
            r"(?<=\":)0\.\d{6,}", lambda m: repr(abs(float(m.group()) + dice.uniform(-1, 1) / 2e3)),
            text,
        )  # fmt: skip
    text = _moved(_renumbered(text, state), state)
    fresh = {m for m in re.findall(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", text)
             if m.split("-")[0] not in state.words}  # fmt: skip
    for token in sorted(fresh):
        text = text.replace(
            token, re.sub("[0-9a-f]", lambda _: dice.choice("0123456789abcdef"), token)
        )
    if text != "".join(state.pieces):
        yield text


def _status_redrawn(piece: str, state: State) -> str:
    dice = random.Random(state.dice.random())
    step = 1 + len(state.pieces) % 2

    def later(match: re.Match[str]) -> str:
        minutes = (int(match.group(1)) * 60 + int(match.group(2)) + step) % (12 * 60)
        return f"{minutes // 60 or 12}:{minutes % 60:02}"

    piece = _CLOCK.sub(later, piece)
    piece = re.sub(r"\d+(?= percent)", lambda m: str(max(1, int(m.group()) - 1)), piece)
    piece = re.sub(r"\d+(?= new )", lambda m: str(int(m.group()) + 1), piece)
    return re.sub(r"(?<=Wifi )\w+(?= bars)", dice.choice(["two", "three"]), piece)


def _renumbered(text: str, state: State) -> str:
    """Return a page with the numbers of elements unseen before, and of those after them, moved."""
    if "bounds=" in text:
        return text
    pattern = re.compile(r"(?m)^(\s*\[)(\d+)(?=\] [A-Za-z])")
    numbers = [int(m.group(2)) for m in pattern.finditer(text)]
    old = {int(m) for piece in state.before for m in re.findall(r"^\[(\d+)\] ", piece)}
    new = set(numbers) - old
    if not new or not old:
        return text
    # Elements that stayed keep their numbers on the same page.
    stay = {
        int(m.group(2)) for p in state.pieces if state.is_untouched(p)
        for m in pattern.finditer(p)
    }  # fmt: skip
    by = state.dice.randint(1, 9)
    moved = {n: n + by for n in numbers if n in new or (n > min(new) and n not in stay)}
    if set(moved.values()) & (set(numbers) - moved.keys()):
        return text
    return pattern.sub(lambda m: f"{m.group(1)}{moved.get(int(m.group(2)), m.group(2))}", text)


def _moved(text: str, state: State) -> str:
    """Return a desktop with a window that was not there before at another place."""
    new = [p for p in state.pieces if "\t(" in p and not state.is_untouched(p)]
    if len(new) < 4 or new != state.pieces[-len(new) :]:
        return text
    by = state.dice.randint(2, 9)

    def moved(match: re.Match[str]) -> str:
        return f"({int(match.group(1)) + by}, {int(match.group(2)) + by}){match.group(3)}"

    corner = re.compile(r"\((\d+), (\d+)\)((?: |\t)\(\d+, \d+\)\s*)$")
    return "".join(
        corner.sub(moved, p) if p in new or (p[:2] == "* " and not state.is_untouched(p)) else p
        for p in state.pieces
    )


def _shape(piece: str) -> str:
    return re.sub(r"\d+", "0", bare(piece))


def _content(state: State) -> Iterator[str]:
    """Give the state with unseen words and prices of unseen longer texts made others."""
    dice, chosen = state.dice, dict[str, str]()
    shapes = {_shape(piece) for piece in state.before}
    stems = {word[:4] for word in state.words}

    def other(match: re.Match[str]) -> str:
        word = match.group()
        if word.lower()[:4] in stems:
            return word
        if word not in chosen:
            new = dice.choice(WORDS)
            if word[0].isupper():
                new = new.upper() if word.isupper() else new.capitalize()
            chosen[word] = new if dice.random() < 1 / 3 else word
        return chosen[word]

    def other_price(match: re.Match[str]) -> str:
        if match.group(1) in state.words and match.group(2) in state.words:
            return match.group()
        return f"{match.group(1)}.{dice.randint(10, 99)}" if dice.random() < 0.5 else match.group()

    def varied(text: str) -> str:
        # Short labels are the program's own and hold no content.
        n_words = len(WORD.findall(text))
        if "://" in text or n_words < 3 or (n_words < 6 and "," not in text):
            return text
        text = re.sub(r"(?<![\w%&=])[^\W\d_]{4,}(?![\w=])", other, text)
        return re.sub(r"(?<![\w.])(\d+)\.(\d\d)(?![\w.])", other_price, text)

    pieces = []
    for piece in state.pieces:
        of_harness = re.match(r"[A-Z][^\[\]'\"]*\n", piece) is not None
        if not (of_harness or state.is_untouched(piece) or _shape(piece) in shapes):
            piece = told_anew(piece, varied)
        pieces.append(piece)
    yield "".join(pieces)


def _off_by_one(inside: str, dice: random.Random) -> str:
    """Return a text with one digit or one word made another."""
    digits = [m.start() for m in re.finditer(r"\d", inside)]
    words = [m for m in WORD.finditer(inside) if len(m.group()) >= 3 and m.group().isalpha()]
    if digits and (not words or dice.random() < 0.6):
        at = dice.choice(digits)
        return inside[:at] + str((int(inside[at]) + dice.randint(1, 8)) % 10) + inside[at + 1 :]
    if not words:
        return inside
    word = dice.choice(words)
    new = dice.choice([w for w in WORDS if w != word.group().lower()])
    return inside[: word.start()] + (
        new.capitalize() if word.group()[0].isupper() else new
    ) + inside[word.end() :]  # fmt: skip


def _value(state: State) -> Iterator[str]:
    """Give the state with one thing wrong that the action or the history determine."""
    dice = state.dice
    anchors = list(_anchor_mistakes(state))
    if anchors:
        yield dice.choice(anchors)
    mistakes = []
    for number, piece in enumerate(state.pieces):
        if state.is_untouched(piece) and not state.is_status(piece):
            for start, end in spans(piece):
                inside = piece[start:end]
                wrong = _off_by_one(inside, dice)
                if len(inside.strip()) >= 3 and wrong != inside:
                    mistakes.append((number, piece[:start] + wrong + piece[end:]))
    if mistakes:
        number, piece = dice.choice(mistakes)
        yield "".join([*state.pieces[:number], piece, *state.pieces[number + 1 :]])


def _anchor_mistakes(state: State) -> Iterator[str]:
    dice, recorded = state.dice, "".join(state.pieces)
    changed = [piece for piece in state.pieces if not state.is_untouched(piece)]
    for groups in _ACTION_TEXT.findall(state.action):
        typed = next((group for group in groups if group), "").replace('\\"', "")
        wrong = _off_by_one(typed, dice)
        # Only where it is shown as a text of its own, as a field or a title shows it.
        shown = [p for p in changed if any(p[a:b].strip() == typed for a, b in spans(p))]
        # A number in brackets names an element.
        names_one = typed.isdigit() and f"[{typed}]" in state.action
        if len(typed) >= 2 and wrong != typed and shown and not names_one:

            def mistold(text: str, typed: str = typed, wrong: str = wrong) -> str:
                return text.replace(typed, wrong) if text.strip() == typed else text

            yield "".join(told_anew(p, mistold) if p in shown else p for p in state.pieces)
    same_page = 2 * (len(state.pieces) - len(changed)) > len(state.pieces)
    gone = Counter(_shape(p) for p in state.before - {bare(piece) for piece in state.pieces})
    kinds = Counter(_shape(p) for p in changed)
    for piece in changed:
        shape = _shape(piece)
        is_clock = state.is_status(piece) or _CLOCK.search(piece) is not None
        if same_page and gone[shape] == kinds[shape] == 1 and not is_clock:
            # The same element with another number.
            old = next(p for p in state.before if _shape(p) == shape)
            own = bare(piece)
            for was, number in zip(re.findall(r"\d+", old), re.finditer(r"\d+", own), strict=True):
                start, end = number.span()
                if was != number.group() and any(
                    a <= start < b and "://" not in own[a:b] for a, b in spans(own)
                ):
                    wrong = own[:start] + f"{int(number.group()) + 1:0{end - start}}" + own[end:]
                    yield recorded.replace(own, wrong, 1)
        yield from _unmarked(state, piece)


def _unmarked(state: State, piece: str) -> Iterator[str]:
    """Give the state in which a mark that the action set stands on another element."""
    own = bare(piece)
    for mark in (", focused", " focused", " checked", " selected"):
        if mark in own and own.replace(mark, "", 1) in state.before:
            others = [
                p for p in state.pieces
                if state.is_untouched(p) and mark not in p and not state.is_status(p)
                and (p.rstrip().endswith("'") or " clickable" in p)
            ]  # fmt: skip
            if others:
                other = state.dice.choice(others)
                marked = (
                    other.replace(" clickable", f"{mark} clickable", 1) if " clickable" in other
                    else other.rstrip("\n") + mark + "\n"
                )  # fmt: skip
                yield "".join(
                    marked if p is other else p.replace(mark, "", 1) if p is piece else p
                    for p in state.pieces
                )


def _dropped(state: State) -> Iterator[str]:
    """Give the state without a third of what stayed as it was."""
    inner = range(1, len(state.pieces) - 1)
    stayed = [n for n in inner if len(bare(state.pieces[n])) > 2
              and state.is_untouched(state.pieces[n])]  # fmt: skip
    if len(stayed) >= 6:
        drop = set(state.dice.sample(stayed, len(stayed) // 3))
        yield "".join(piece for n, piece in enumerate(state.pieces) if n not in drop)


ERRORS = {
    "[SEP]": "Instruction: [SEP] Back to Search [SEP] The page could not be found",
    '{"page"': '{"page":"error","content":{"message":"not found"}}',
    "RootWebArea": "RootWebArea '404 Not Found', focused\n\t[3] heading '404 Not Found'\n"
    "\t\tStaticText 'The page you asked for is not here.'",
    "<html": "<html><body><h1>404 Not Found</h1></body></html>",
}


def _swapped(state: State, sample: Sample) -> Iterator[str]:
    """Give a failure where the action had an effect, and something else changed in its place."""
    before, recorded, dice = sample.before, sample.case.recorded, state.dice
    lines = before.split("\n") if before else []
    effect = [p for p in state.pieces if not state.is_untouched(p) and not state.is_status(p)]
    if not before or not effect:
        return
    if "\nstderr of the code:\nTraceback" in recorded:
        yield recorded.partition("\n\nstderr of the code:")[0] + "\n\nstdout of the code:\ndone"
    elif "tag\tname\t" in recorded:
        plain = before.partition("\n\nstderr of the code:")[0]
        yield (
            f"{plain}\n\nstderr of the code:\nTraceback (most recent call last):\n"
            '  File "<string>", line 2, in <module>\npyautogui.FailSafeException: '
            "the pointer is in a corner of the screen"
        )
    elif " bounds=(" in recorded:
        status = [line for line in lines if state.is_status(line)]
        n = len(status)
        notice = ("This app keeps stopping", "App info", "Close app")
        yield "\n".join([*status, *(
            f'[{n + at}] {"Button" if at else "TextView"} text="{text}" '
            f"bounds=(120,{1000 + 200 * at},960,{1160 + 200 * at})"
            for at, text in enumerate(notice)
        )])  # fmt: skip
    else:
        for sign, page in ERRORS.items():
            if sign in recorded:
                head, tree, _ = recorded.partition("RootWebArea" if sign[0] == "R" else "\0")
                head = re.sub(r"(?m)^\[\d+\] \Z", "", head)
                yield re.sub(r"Title: .*", "Title: 404 Not Found", head) * bool(tree) + page
                break
    pieces = cut(before)
    own = {bare(piece) for piece in state.pieces}
    stayed = [n for n, p in enumerate(pieces) if bare(p) in own and spans(p)
              and not state.is_status(p)]  # fmt: skip
    dice.shuffle(stayed)
    for n in stayed:
        start, end = spans(pieces[n])[0]
        wrong = _off_by_one(pieces[n][start:end], dice)
        if wrong != pieces[n][start:end]:
            yield "".join([*pieces[:n], pieces[n][:start] + wrong + pieces[n][end:],
                           *pieces[n + 1 :]])  # fmt: skip
            break
