"""Variations of what coding tools answer."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator

from gate_variations import Sample, Variation
from gate_variations.lines import (
    action_of,
    changed_line,
    changed_path,
    known_lines,
    other_forms,
    redrawn,
    reworded,
    without,
)

_LISTED = re.compile(r"^ {0,8}(\d{1,6})(\t|[:|])(.*)$")
_READS = re.compile(
    r"^(?:run_ipython\nopen_file\(|(?:bash|run|execute_bash|terminal|run_shell_command)?\n?"
    r"(?:cat|head|tail|grep|ls|sed -n|open|find)\b[^|>;&]*|str_replace_editor\nview\n.*"
    r"|read_file\n.*|list_dir\n.*)",
    re.DOTALL,
)
_FRAME = re.compile(r"^(?:</?\w+>|OBSERVATION|Here's |\[|\(|root@|bash-\$|Found )")
_FAILURE = re.compile(
    r"No such file|not found|error|Error|ERROR|Traceback|FAILED|denied|did not|Cannot|wrong"
    r"|No exact match|Invalid|timed out|not allowed|not defined"
)


def variations(sample: Sample) -> Iterator[Variation]:
    """Give what only this domain can vary."""
    dice, text = sample.random(), sample.case.recorded
    if not text.strip():
        return
    drawn = _inside(text, lambda inner: redrawn(sample, inner, dice))
    if drawn != text:
        yield Variation("metadata_redrawn", drawn)
    yield from _content(sample, dice)
    yield from _outcome(sample, dice)
    yield from _values(sample, dice)
    yield from _dropped(sample, dice)
    for form in other_forms(text, dice):
        yield Variation("other_format", form)


def _inside(text: str, vary: Callable[[str], str]) -> str:
    """Return an answer with the output in it varied: of its JSON field, or all of it."""
    wrapped = _wrapped(text)
    if wrapped is None:
        return vary(text)
    return json.dumps(wrapped | {"output": vary(wrapped["output"])}, ensure_ascii=False)


def _wrapped(text: str) -> dict[str, str] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) and isinstance(value.get("output"), str) else None


def _listed(text: str) -> list[int]:
    """Return which lines belong to a numbered listing of at least two lines."""
    found = [n for n, line in enumerate(text.split("\n")) if _LISTED.match(line)]
    return found if len(found) > 1 else []


def _counted(text: str) -> list[int]:
    """Return the lines of a listing whose numbers go up one by one; none for any other."""
    lines, listed = text.split("\n"), _listed(text)
    numbers = [int(lines[n].split("\t")[0].split(":")[0].split("|")[0]) for n in listed]
    return listed if numbers == [number + numbers[0] for number in range(len(numbers))] else []


def _content(sample: Sample, dice: random.Random) -> Iterator[Variation]:
    text, command = sample.case.recorded, action_of(sample).lstrip()
    if not _READS.match(command) or sample.case.exit_code not in (None, 0):
        return
    if _FAILURE.search("\n".join(text.split("\n")[:3])):
        return
    for share in (0.4, 1.0):
        inner = random.Random(f"{share}{dice.random()}")
        changed = _inside(text, lambda one, s=share, d=inner: _varied(sample, one, d, s))
        if changed != text:
            yield Variation("content_varied", changed)
    lines = text.split("\n")
    if not _listed(text) and _wrapped(text) is None and not re.search(r"-n\b|head|tail", command):
        known = known_lines(sample, lines)
        told = [n for n, line in enumerate(lines) if n not in known and not _FRAME.match(line)]
        told = [n for n in told if reworded(sample, lines[n], dice, 1.0) != lines[n]]
        if told:
            number = dice.choice(told)
            more = reworded(sample, lines[number], dice, 1.0)
            yield Variation("content_varied", "\n".join([*lines[:number], more, *lines[number:]]))
            mixed = [reworded(sample, lines[n], dice, 1.0) for n in told]
            dice.shuffle(mixed)
            for n, line in zip(told, mixed, strict=True):
                lines[n] = line
            yield Variation("content_varied", "\n".join(lines))


def _varied(sample: Sample, text: str, dice: random.Random, share: float) -> str:
    """Return a listing or an output with its unseen words replaced, its frame left alone."""
    lines, known = text.split("\n"), set(known_lines(sample, text.split("\n")))
    listed = _listed(text)
    for number in listed or range(len(lines)):
        line, match = lines[number], _LISTED.match(lines[number])
        if number in known or (not listed and _FRAME.match(line)):
            continue
        start = match.start(3) if match and listed else 0
        lines[number] = line[:start] + reworded(sample, line[start:], dice, share)
    return "\n".join(lines)


def _outcome(sample: Sample, dice: random.Random) -> Iterator[Variation]:
    text = sample.case.recorded
    wrapped = _wrapped(text)
    tagged = re.search(r"<returncode>(-?\d+)</returncode>", text)
    stated = re.search(r"(?<=exit code )\d+(?=\])", text)
    error = dice.choice(
        (
            'Traceback (most recent call last):\n  File "main.py", line 3, in <module>\n'
            "    run()\nRuntimeError: the resource is not available",
            "bash: line 1: tool: command not found",
            "Error: the operation failed: Permission denied",
        )
    )
    if wrapped is not None and "returncode" in wrapped:
        failed = wrapped["returncode"] != 0
        swapped = {"returncode": int(not failed), "output": "OK\n" if failed else error}
        yield Variation("outcome_swapped", json.dumps(wrapped | swapped))
    elif tagged is not None:
        failed = tagged.group(1) != "0"
        yield Variation(
            "outcome_swapped",
            f"<returncode>{int(not failed)}</returncode>\n<output>\n"
            f"{'OK' if failed else error}\n</output>",
        )
    elif stated is not None:
        flipped = str(int(stated.group() == "0"))
        yield Variation("outcome_swapped", text[: stated.start()] + flipped + text[stated.end() :])
    elif sample.case.exit_code not in (None, 0) or sample.case.error:
        yield Variation(
            "outcome_swapped", dice.choice(("OK", "Done.", "File written successfully"))
        )
    elif not _FAILURE.search(text):
        yield Variation("outcome_swapped", error)


def _values(sample: Sample, dice: random.Random) -> Iterator[Variation]:
    wrapped = _wrapped(sample.case.recorded)
    text = sample.case.recorded if wrapped is None else wrapped["output"]
    lines, ways = text.split("\n"), []
    known = known_lines(sample, lines)
    if known:
        number = dice.choice(known)
        new = changed_line(lines[number], dice)
        ways.append("\n".join([*lines[:number], new, *lines[number + 1 :]]))
    path = changed_path(sample, text, dice, set(action_of(sample).split("\n")))
    if path is not None:
        ways.append(path)
    listed = _counted(text)
    if len(listed) > 3:
        number = dice.choice(listed[1:-1])
        match = _LISTED.match(lines[number])
        assert match is not None
        start, end = match.span(1)
        wrong = str(int(match.group(1)) + dice.randrange(2, 30))
        new = lines[number][:start] + wrong + lines[number][end:]
        ways.append("\n".join([*lines[:number], new, *lines[number + 1 :]]))
    hunk = re.search(r"^@@ -(\d+),(\d+) \+(\d+),(\d+) @@", text, re.MULTILINE)
    if hunk is not None:
        start, end = hunk.span(4)
        ways.append(text[:start] + str(int(hunk.group(4)) + dice.randrange(2, 9)) + text[end:])
    dice.shuffle(ways)
    for way in ways[:2]:
        yield Variation("value_changed", _inside(sample.case.recorded, lambda _, new=way: new))


def _dropped(sample: Sample, dice: random.Random) -> Iterator[Variation]:
    wrapped = _wrapped(sample.case.recorded)
    text = sample.case.recorded if wrapped is None else wrapped["output"]
    lines, ways = text.split("\n"), []
    known = known_lines(sample, lines)
    if known and len([line for line in lines if line.strip()]) > 1:
        ways.append(without(lines, known, dice))
    listed = _counted(text)
    if len(listed) > 5:
        # The numbers around a gap in the middle tell that lines are missing.
        ways.append(without(lines, listed[2:-2], dice))
    for way in ways:
        yield Variation("lines_dropped", _inside(sample.case.recorded, lambda _, new=way: new))
