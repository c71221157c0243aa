"""Rule checks of terminal predictions: prompt, echo, silence, errors, screen."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from trajkit.fidelity.content import compare, lines_of, mask, overlap, parse_json
from trajkit.fidelity.findings import GUARD, Case, Finding, finding
from trajkit.fidelity.outcome import check_outcome

_PROMPT = re.compile(
    r"(?:\([\w./ -]{1,40}\) ?)?"
    r"(?:\[?[\w.-]{1,64}@[\w.‹›-]{1,64}[: ][^\s#$%]{0,200}\]?|[\w.-]{0,12}sh-\d[\d.]{0,8}|)"
    r"(?:[#$%]|(?<=\w)>)(?: |\Z)"
)
_SECONDARY = re.compile(r"(?:> |>>> |\.\.\. |sqlite> |mysql> |\(gdb\) )")
_HEADING = re.compile(r"[A-Z][A-Za-z ]{2,40}:\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """A terminal answer taken apart."""

    heading: str | None
    """First line when it is a label of the harness."""
    prompts: tuple[str, ...]
    """Prompts in order, without what was typed behind them."""
    typed: tuple[str, ...]
    """What stands behind the prompts."""
    output: tuple[str, ...]
    """Lines that are neither."""
    ends_with_prompt: bool
    """Whether the shell waits for the next command."""


def read_screen(text: str) -> Screen:
    """Return the parts of a terminal answer.

    >>> read_screen("a@b:~$ cd x\\na@b:~/x$").prompts
    ('a@b:~$', 'a@b:~/x$')
    """
    lines = lines_of(text)
    while lines and not lines[-1]:
        lines.pop()
    first = next((number for number, line in enumerate(lines) if line), None)
    heading = None
    if first is not None and _HEADING.match(lines[first]):
        heading, lines = lines[first], lines[first + 1 :]
    prompts, typed, output, last = [], [], [], False
    for line in lines:
        match = _PROMPT.match(line) or _SECONDARY.match(line)
        if match is not None:
            prompts.append(match.group().rstrip())
            typed.append(line[match.end() :])
            last = match.end() >= len(line)
        elif line:
            output.append(line)
            last = False
    return Screen(
        heading=heading,
        prompts=tuple(prompts),
        typed=tuple(typed),
        output=tuple(output),
        ends_with_prompt=last,
    )


def keystrokes(action: str) -> str:
    """Return all that an action types, in one text; the action itself when it is no list."""
    value = parse_json(action)
    if isinstance(value, dict):
        arguments = value.get("arguments")
        value = [arguments if isinstance(arguments, dict) else value]
    if not isinstance(value, list):
        return action
    keys = [part.get("keystrokes") for part in value if isinstance(part, dict)]
    return "".join(key for key in keys if isinstance(key, str))


def check(case: Case) -> Iterator[Finding]:
    """Give what the rules see in a terminal answer."""
    truth, guess = read_screen(case.recorded), read_screen(case.prediction)
    if truth.heading is not None:
        yield finding(
            "wrong_heading",
            "format",
            float(truth.heading == guess.heading),
            truth.heading,
            guess.heading,
        )
    if truth.prompts:
        yield from _prompt(truth, guess)
    yield from _echo(case, truth, guess)
    yield from _silence(truth, guess)
    recorded, prediction = "\n".join(truth.output), "\n".join(guess.output)
    yield from check_outcome(case, recorded, prediction)
    if recorded and prediction:
        yield from compare(case, recorded, prediction)
    yield finding(
        "wrong_screen_size",
        "quality",
        _ratio(len(truth.output) + len(truth.prompts), len(guess.output) + len(guess.prompts)),
        f"{len(truth.output)} lines, {len(truth.prompts)} prompts",
        f"{len(guess.output)} lines, {len(guess.prompts)} prompts",
        content_class="pre_existing",
    )


def _prompt(truth: Screen, guess: Screen) -> Iterator[Finding]:
    wanted, got = mask(truth.prompts[-1]), mask(guess.prompts[-1]) if guess.prompts else ""
    yield finding(
        "wrong_prompt",
        "factuality",
        float(wanted == got and truth.ends_with_prompt == guess.ends_with_prompt),
        truth.prompts[-1],
        guess.prompts[-1] if guess.prompts else "no prompt",
        weight=2.0,
    )
    forms, got_forms = ({mask(p) for p in screen.prompts} for screen in (truth, guess))
    yield finding(
        "unknown_prompt",
        "consistency",
        len(forms & got_forms) / len(got_forms) if got_forms else 0.0,
        ", ".join(sorted(forms)),
        ", ".join(sorted(got_forms)),
    )


def _echo(case: Case, truth: Screen, guess: Screen) -> Iterator[Finding]:
    typed = {line.strip() for line in keystrokes(case.action.action).split("\n")} - {""}
    echoed = Counter(line.strip() for line in truth.typed if line.strip() in typed)
    if echoed:
        got = Counter(line.strip() for line in guess.typed)
        yield finding(
            "missing_echo",
            "format",
            overlap(echoed, got),
            next(iter(echoed)),
            "; ".join(guess.typed),
            weight=2.0,
            blocking=True,
        )


def _silence(truth: Screen, guess: Screen) -> Iterator[Finding]:
    if truth.prompts and not truth.output:
        yield finding(
            "broken_silence",
            "factuality",
            float(not guess.output),
            "no output",
            "\n".join(guess.output) or "no output",
            blocking=True,
        )
    elif truth.output:
        yield finding(
            "missing_output",
            "factuality",
            float(bool(guess.output)),
            "\n".join(truth.output[:20]),
            "\n".join(guess.output[:20]) or "no output",
            weight=GUARD,
            blocking=True,
        )


def _ratio(first: int, second: int) -> float:
    return (min(first, second) + 2) / (max(first, second) + 2)
