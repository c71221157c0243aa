"""What can be varied in plain text: metadata, unseen words, known lines, names of the action.

What counts as seen is read from the case anew here, with none of the gate's own means.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator

from gate_variations import Sample

MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
WORDS = (
    "amber", "basin", "cedar", "delta", "ember", "fjord", "grove", "harbor", "island", "juniper",
    "kettle", "lantern", "meadow", "nectar", "orchard", "pebble", "quarry", "ribbon", "saddle",
    "timber", "umbra", "valley", "willow", "yonder", "zephyr", "brisk", "clover", "dapple",
)  # fmt: skip


def action_of(sample: Sample) -> str:
    """Return all texts of the judged action, one after the other."""
    return texts_of(sample.case.action.action)


def texts_of(action: str) -> str:
    try:
        value = json.loads(action)
    except ValueError:
        return action
    found: list[str] = []

    def walk(one: object) -> None:
        if isinstance(one, str):
            found.append(one)
        elif isinstance(one, dict):
            for inner in one.values():
                walk(inner)
        elif isinstance(one, list):
            for inner in one:
                walk(inner)

    walk(value)
    return "\n".join(found)


def seen_by(sample: Sample) -> str:
    """Return all that was known before the answer: task, first state, history, action."""
    case = sample.case
    texts = [case.task or "", case.initial_state or ""]
    for turn in case.history:
        texts += [texts_of(turn.action), turn.observation or ""]
    return "\n".join([*texts, action_of(sample)])


# --- runtime metadata


def _number(dice: random.Random, old: str) -> str:
    first = dice.choice("123456789")
    return first + "".join(dice.choice("0123456789") for _ in old[1:])


def _clock(dice: random.Random, old: str) -> str:
    parts = [f"{dice.randrange(24):02}"] + [f"{dice.randrange(60):02}" for _ in old.split(":")[1:]]
    return ":".join(parts)


def _hex(dice: random.Random, old: str) -> str:
    drawn = [dice.choice("0123456789abcdef") for _ in old]
    drawn[:2] = [dice.choice("123456789"), dice.choice("abcdef")]
    return "".join(drawn)


def _duration(dice: random.Random, old: str) -> str:
    whole, _, rest = old.partition(".")
    decimals = "".join(dice.choice("0123456789") for _ in rest)
    return f"{max(0, int(whole) + dice.randrange(2))}" + (f".{decimals}" if rest else "")


def _name(dice: random.Random, old: str) -> str:
    return "".join(dice.choice("abcdefghkmnpqrstuvwxyz23456789") for _ in old)


Draw = Callable[[random.Random, str], str]
METADATA: tuple[tuple[str, Draw], ...] = (
    (r"(?<=\d{4}-)(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d)(?!\d)",
     lambda dice, old: f"{dice.randrange(1, 13):02}-{dice.randrange(1, 29):02}"),
    (rf"(?<![\w])(?:{MONTHS}) [ 123]\d(?= )",
     lambda dice, old: f"{dice.choice(MONTHS.split('|'))} {dice.randrange(1, 29):>2}"),
    (r"(?<![\d:.])[0-2]\d:[0-5]\d(?::[0-5]\d)?(?![\d:])", _clock),
    (r"(?<=@)[0-9a-f]{12}(?=:)", _hex),
    (r"(?<=[Cc]ommit )[0-9a-f]{7,40}\b", _hex),
    (r"(?<![\w/])(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{7,64}(?![\w/])", _hex),
    (r"(?<=0x)[0-9a-f]{6,16}\b", _hex),
    (r"(?<=^\[\d\] )\d{3,7}$", _number),
    (r"(?<=[Pp][Ii][Dd] )\d{2,7}\b", _number),
    (r"(?<= in )\d+\.\d+(?= ?s)", _duration),
    (r"(?<=[ (])\d+\.\d+(?=s\)| seconds)", _duration),
    (r"(?<=/tmp/cc)[A-Za-z0-9]{6}(?=\.o)", _name),
    (r"(?<=/tmp/tmp)[a-z0-9_]{8}\b", _name),
    (r"(?<=tmp\.)[A-Za-z0-9]{10}\b", _name),
)  # fmt: skip


def redrawn(sample: Sample, text: str, dice: random.Random) -> str:
    """Return a text with its metadata drawn anew; equal spans stay equal, seen ones stay."""
    seen, drawn = seen_by(sample), {}

    def replace(match: re.Match[str], draw: Draw) -> str:
        old = match.group()
        if old in seen:
            return old
        return drawn.setdefault(old, draw(dice, old))

    for pattern, draw in METADATA:
        text = re.sub(pattern, lambda match, d=draw: replace(match, d), text, flags=re.MULTILINE)
    if re.search(r"^USER +PID ", text, re.MULTILINE):
        text = re.sub(
            r"(?<=^root) +\d+",
            lambda match: f"{_number(dice, match.group().strip()):>{len(match.group())}}",
            text,
            flags=re.MULTILINE,
        )
    return text


# --- content never seen before


_TOLD = re.compile(r"(?<![A-Za-z\\])[A-Za-z]{4,}(?![A-Za-z])|(?<![\d.:])\d{2,}(?![\d.:])")


def reworded(sample: Sample, text: str, dice: random.Random, share: float) -> str:
    """Return a text with a share of its unseen words, and of its unseen numbers, replaced.

    A word is unseen when it stands nowhere in the task, the history or the action, whatever its
    case. The same word is replaced by the same other one throughout.
    """
    seen = set(re.findall(r"[a-z]+|\d+", seen_by(sample).lower()))
    mapping: dict[str, str] = {}

    def replace(match: re.Match[str]) -> str:
        old = match.group()
        if old.lower() in seen or old[:1] == "\\":
            return old
        if old not in mapping:
            if dice.random() >= share:
                mapping[old] = old
            elif old.isdigit():
                mapping[old] = _number(dice, old)
            else:
                word = dice.choice(WORDS)
                form = str.upper if old.isupper() else str.title if old[0].isupper() else str
                mapping[old] = form(word)
        return mapping[old]

    return re.sub(
        r"(?<![A-Za-z\\])[A-Za-z]{4,}(?![A-Za-z])|(?<![\d.:])\d{2,}(?![\d.:])", replace, text
    )


# --- what is known beforehand


_NUMBERED = re.compile(r"^ {0,8}\d{1,6}(?:\t|[:|])(?! )")


def bare(line: str) -> str:
    """Return a line without the number of a listing and without blanks around it."""
    return _NUMBERED.sub("", line).strip()


def known_lines(sample: Sample, lines: list[str], written: bool = True) -> list[int]:
    """Return which lines a reader could have told: read or written before, and in that order.

    A line counts with its neighbours: three in a row must follow each other in one earlier
    text, or all lines stand in it. Lines that the action writes (`written`) count alone.
    """
    case = sample.case
    earlier = [turn.observation or "" for turn in case.history]
    earlier += [texts_of(turn.action) for turn in case.history]
    texts = [[bare(line) for line in text.split("\n") if bare(line)] for text in earlier]
    own = [bare(line) for line in action_of(sample).split("\n")] if written else []
    telling = [n for n, line in enumerate(lines) if len(re.findall(r"\w", line)) >= 3]
    wanted = [bare(lines[n]) for n in telling]
    found = {n for n in telling if len(bare(lines[n])) >= 8 and bare(lines[n]) in own}
    for text in texts:
        triples = set(zip(text, text[1:], text[2:], strict=False))
        if len(wanted) >= 2 and set(wanted) <= set(text):
            return telling
        for at in range(len(wanted) - 2):
            if (wanted[at], wanted[at + 1], wanted[at + 2]) in triples:
                found |= set(telling[at : at + 3])
    return sorted(found)


def changed_line(line: str, dice: random.Random) -> str:
    """Return a line with one of its numbers or words changed."""
    start = _NUMBERED.match(line)
    offset = start.end() if start else 0
    spots = list(re.finditer(r"\d+|[A-Za-z_]{3,}", line[offset:]))
    if not spots:
        return line
    spot = dice.choice(spots)
    old = spot.group()
    return line[: offset + spot.start()] + other(old, dice) + line[offset + spot.end() :]


def other(old: str, dice: random.Random) -> str:
    """Return another number of as many digits, or another word."""
    if old.isdigit():
        return str(int(old) + dice.randrange(1, 9))
    return dice.choice([word for word in WORDS if word != old])


_PATH = re.compile(r"(?<![\w/.~-])[\w./~-]*[A-Za-z]\w*\.[a-z]{1,5}(?![\w/])")


def changed_path(sample: Sample, text: str, dice: random.Random, skip: set[str]) -> str | None:
    """Return a text in which one path or file name of the action is another one.

    Lines in `skip` (echoes) are left alone.
    """
    named = set(_PATH.findall(action_of(sample)))
    lines = text.split("\n")
    spots = [
        (number, match)
        for number, line in enumerate(lines)
        if line.strip() not in skip
        for match in re.finditer(_PATH, line)
        if match.group() in named
    ]
    if not spots:
        return None
    number, match = dice.choice(spots)
    path = match.group()
    stem, dot, ending = path.rpartition(".")
    folder, slash, name = stem.rpartition("/")
    lines[number] = (
        lines[number][: match.start()]
        + folder + slash + other(name, dice) + dot + ending
        + lines[number][match.end() :]
    )  # fmt: skip
    return "\n".join(lines)


def without(lines: list[str], known: list[int], dice: random.Random) -> str:
    """Return lines but for a third of the known ones, at least one."""
    gone = set(dice.sample(known, max(1, len(known) // 3)))
    return "\n".join(line for number, line in enumerate(lines) if number not in gone)


def other_forms(text: str, dice: random.Random) -> Iterator[str]:
    """Give a text in two of the forms that a model likes to answer in."""
    quoted = json.dumps({"output": text, "status": "success"}, ensure_ascii=False)
    lines = [line for line in text.split("\n") if line.strip()]
    forms = [
        quoted,
        f"```\n{text}\n```",
        "\n".join(f"- {line.strip()}" for line in lines),
        f"<result>\n{text}\n</result>",
        "| line | text |\n|---|---|\n" + "\n".join(f"| {n} | {s} |" for n, s in enumerate(lines)),
        f"Output: {text!r}",
    ]
    yield from dice.sample(forms, 2)
