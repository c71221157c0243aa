"""Variations of terminal observations."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator

from gate_variations import Sample, Variation
from gate_variations.lines import (
    changed_line,
    changed_path,
    known_lines,
    other,
    other_forms,
    redrawn,
    reworded,
    seen_by,
    texts_of,
    without,
)

_PROMPT = re.compile(r"^[\w.-]+@[\w.-]+:[^\s#$]*[#$](?: |$)")
_HEADING = re.compile(r"^(?:New Terminal Output|Current Terminal Screen):$")
_READS = re.compile(r"^(?:cat|head|tail|less|ls|ps|find|sed -n|grep)\b[^|>;&]*$")
_FAILURE = re.compile(
    r"No such file|not found|error:|Error|Traceback|FAILED|denied|no such|undefined reference"
)
_COMPUTES = re.compile(r"^\s*(?:wc|sort|uniq|awk|cut|sha256sum|md5sum|tr|expr|nl|tac)\b")
_FILE = re.compile(r"(?<![\w.<>'])[\w./-]*\w\.(?:txt|csv|log|py|sh|md|json)\b")


def variations(sample: Sample) -> Iterator[Variation]:
    """Give what only this domain can vary."""
    dice, text = sample.random(), sample.case.recorded
    drawn = redrawn(sample, text, dice)
    if drawn != text:
        yield Variation("metadata_redrawn", drawn)
    yield from _content(sample, dice)
    yield from _outcome(sample, dice)
    yield from _values(sample, dice)
    yield from _dropped(sample, dice)
    if text.strip() and not _HEADING.match(text.strip()):
        for form in other_forms(text, dice):
            yield Variation("other_format", form)


def _typed(sample: Sample) -> list[str]:
    """Return the lines that the action types."""
    action = sample.case.action.action
    try:
        keys = [part["keystrokes"] for part in json.loads(action)]
    except (ValueError, TypeError, KeyError):
        keys = [action]
    return [line.strip() for line in "".join(keys).split("\n") if line.strip()]


def _echoes(lines: list[str], typed: list[str]) -> list[int]:
    """Return which lines are a prompt and what was typed behind it."""
    found = []
    for number, line in enumerate(lines):
        prompt = _PROMPT.match(line) or re.match(r"> ", line)
        if prompt and line[prompt.end() :].strip() in typed:
            found.append(number)
    return found


def _body(sample: Sample) -> list[int]:
    """Return which lines of the screen are output: no heading, no prompt."""
    return [
        number
        for number, line in enumerate(sample.case.recorded.split("\n"))
        if line.strip() and not _HEADING.match(line) and not _PROMPT.match(line)
    ]


def _content(sample: Sample, dice: random.Random) -> Iterator[Variation]:
    typed = _typed(sample)
    lines = sample.case.recorded.split("\n")
    if len(typed) != 1 or not _READS.match(typed[0]) or _FAILURE.search(sample.case.recorded):
        return
    body = set(_body(sample)) - set(known_lines(sample, lines))
    body = {number for number in body if not lines[number].isupper()}
    for share in (0.4, 1.0):
        changed = "\n".join(
            reworded(sample, line, random.Random(f"{share}{dice.random()}"), share)
            if number in body
            else line
            for number, line in enumerate(lines)
        )
        if changed != sample.case.recorded:
            yield Variation("content_varied", changed)
    # What was never listed may as well be one line more.
    told = [number for number in sorted(body) if re.search(r"[A-Za-z]{4}", lines[number])]
    if told and not re.match(r"(?:head|tail|sed)\b|.* -n", typed[0]):
        number = dice.choice(told)
        more = reworded(sample, lines[number], dice, 1.0)
        if more != lines[number]:
            yield Variation("content_varied", "\n".join([*lines[:number], more, *lines[number:]]))
        if not re.match(r"(?:ps|ls)\b", typed[0]):
            mixed = [reworded(sample, lines[n], dice, 1.0) for n in told]
            dice.shuffle(mixed)
            for n, line in zip(told, mixed, strict=True):
                lines[n] = line
            yield Variation("content_varied", "\n".join(lines))


def _outcome(sample: Sample, dice: random.Random) -> Iterator[Variation]:
    lines, body, typed = sample.case.recorded.split("\n"), _body(sample), _typed(sample)
    if not typed or "Screen:" in sample.case.recorded or not re.match(r"[\w./]+", typed[-1]):
        return
    bad = [number for number in body if _FAILURE.search(lines[number])]
    if bad:
        kept = [line for number, line in enumerate(lines) if number not in body]
        yield Variation("outcome_swapped", "\n".join(kept))
        return
    command = re.split(r"[\s;|&]", typed[-1].strip())[0]
    file = next(iter(_FILE.findall(typed[-1])), "input")
    error = dice.choice(
        (
            f"bash: {command}: command not found",
            f"{command}: cannot open '{file}': Permission denied",
            f"{command}: {file}: No such file or directory",
        )
    )
    echo = next(iter(_echoes(lines, typed[-1:])), None)
    if echo is not None:
        after = [number for number in body if number > echo]
        rest = [line for number, line in enumerate(lines) if number > echo and number not in after]
        yield Variation("outcome_swapped", "\n".join([*lines[: echo + 1], error, *rest]))


def _values(sample: Sample, dice: random.Random) -> Iterator[Variation]:
    text, typed, seen = sample.case.recorded, _typed(sample), seen_by(sample)
    lines, body = text.split("\n"), _body(sample)
    ways = []
    known = [number for number in known_lines(sample, lines) if number in body]
    derived = _computed_lines(sample, lines, body)
    if known or derived:
        number = dice.choice([*known, *derived])
        if number in derived:
            spots = list(re.finditer(r"(?<![\w.])\d+(?![\w.])", lines[number]))
            spot = dice.choice(spots)
            line = lines[number]
            new = line[: spot.start()] + other(spot.group(), dice) + line[spot.end() :]
        else:
            new = changed_line(lines[number], dice)
        ways.append("\n".join([*lines[:number], new, *lines[number + 1 :]]))
    echoes = {line.strip() for line in lines if _PROMPT.match(line)} | set(typed)
    path = changed_path(sample, text, dice, echoes)
    if path is not None:
        ways.append(path)
    echoed = _echoes(lines, typed)
    prompts = [n for n, line in enumerate(lines) if _PROMPT.match(line)]
    if echoed:
        number = dice.choice(echoed)
        prompt = _PROMPT.match(lines[number])
        start = prompt.end() if prompt else 0
        new = lines[number][:start] + changed_line(lines[number][start:], dice)
        ways.append("\n".join([*lines[:number], new, *lines[number + 1 :]]))
    for number, line in enumerate(lines[:-1]):
        if line.endswith("echo $?") and lines[number + 1].strip().isdigit():
            status = "0" if lines[number + 1].strip() != "0" else "1"
            ways.append("\n".join([*lines[: number + 1], status, *lines[number + 2 :]]))
    last = lines[prompts[-1]] if prompts else ""
    prompt = _PROMPT.match(last)
    if prompt and prompt.group().split(":")[0] in seen:
        place = re.sub(r":([^#$]*)([#$])", r":\1/old\2", prompt.group())
        new = place + last[prompt.end() :]
        ways.append("\n".join([*lines[: prompts[-1]], new, *lines[prompts[-1] + 1 :]]))
    dice.shuffle(ways)
    for way in ways[:2]:
        yield Variation("value_changed", way)


def _computed_lines(sample: Sample, lines: list[str], body: list[int]) -> list[int]:
    """Return the output lines whose numbers follow from texts seen whole.

    That is a command that computes from files which the session wrote from its own text or
    showed whole, or the exit status of a command that worked.
    """
    typed = _typed(sample)
    with_number = [n for n in body if re.search(r"(?<![\w.])\d+(?![\w.])", lines[n])]
    if len(typed) != 1 or not _COMPUTES.match(typed[0]) or len(lines) > 60:
        return []
    whole = "\n".join(texts_of(turn.action) for turn in sample.case.history)
    files = _FILE.findall(re.sub(r"'[^']*'", "", typed[0]).partition(">")[0])
    shown = all(
        re.search(rf"(?:cat|cat -A) {re.escape(file)}(?:\n|$)|cat > {re.escape(file)} <<", whole)
        or re.search(rf"(?:printf|echo) [^|;&$]* > {re.escape(file)}", whole)
        for file in files
    )
    return with_number if files and shown else []


def _dropped(sample: Sample, dice: random.Random) -> Iterator[Variation]:
    lines, typed = sample.case.recorded.split("\n"), _typed(sample)
    body = _body(sample)
    known = [number for number in known_lines(sample, lines) if number in body]
    if known and len(body) > 1:
        yield Variation("lines_dropped", without(lines, known, dice))
    echoes = _echoes(lines, typed)
    prompts = [n for n, line in enumerate(lines) if _PROMPT.match(line)]
    if len({*echoes, *prompts}) > 1:
        yield Variation("lines_dropped", without(lines, sorted({*echoes, *prompts}), dice))
