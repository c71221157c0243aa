"""Rule checks of terminal predictions: prompt, echo, silence, errors, screen."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from trajkit.fidelity.compare import compare, whole_or_not
from trajkit.fidelity.content import lines_of, mask, overlap, parse_json
from trajkit.fidelity.findings import GUARD, Case, Finding, finding
from trajkit.fidelity.outcome import check_outcome

MAX_SHORT_PROMPT = 2
"""Signs of a prompt that a line of any file may begin with."""

_PROMPT = re.compile(
    r"(?:\([\w./ -]{1,40}\) ?)?"
    r"(?:\[?[\w.-]{1,64}@[\w.‹›-]{1,64}[: ][^\s#$%]{0,200}\]?|[\w.-]{0,12}sh-\d[\d.]{0,8}|)"
    r"(?:[#$%]|(?<=\w)>)(?: |\Z)"
)
_SECONDARY = re.compile(r"(?:> |>>> |\.\.\. |sqlite> |mysql> |\(gdb\) )")
_ASKS_STATUS = re.compile(r"^(?:echo|printf)\b.*\$\?")
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
    statuses: tuple[str, ...]
    """First line that each command printed which asks for `$?`."""
    ends_with_prompt: bool
    """Whether the shell waits for the next command."""


# The answers of one prompt are judged against the same recording, one after the other.
@lru_cache(maxsize=32)
def read_screen(text: str, commands: tuple[str, ...] = ()) -> Screen:
    """Return the parts of a terminal answer.

    A command that was typed stands in one piece even where the terminal wrapped it. What only
    looks like a short prompt (`# a comment` in a file) is output, unless it was typed, or waits
    at the end, or is how the screen ends.

    >>> read_screen("a@b:~$ cd x\\na@b:~/x$").prompts
    ('a@b:~$', 'a@b:~/x$')
    >>> read_screen("a@b:~$ cat notes\\n# Notes\\na@b:~$", ("cat notes",)).output
    ('# Notes',)
    """
    lines = lines_of(text)
    while lines and not lines[-1]:
        lines.pop()
    first = next((number for number, line in enumerate(lines) if line), None)
    heading = None
    if first is not None and _HEADING.match(lines[first]):
        heading, lines = lines[first], lines[first + 1 :]
    final = _prompt_of(lines[-1]) if lines else None
    whole = {"".join(command.split()): command for command in commands}
    prompts, typed, output, statuses, last = [], [], [], [], False
    output_of = 0
    rest = iter(enumerate(lines))
    for number, line in rest:
        match = _prompt_of(line)
        if match is not None and _is_prompt(match, final, commands):
            behind = line[match.end() :]
            for _ in range(_n_wrapped(behind, lines, number + 1, whole)):
                behind += next(rest)[1]
            prompts.append(match.group().rstrip())
            typed.append(whole.get("".join(behind.split()), behind))
            last = not behind
        elif line:
            if not last and typed and _ASKS_STATUS.search(typed[-1]) and output_of != len(prompts):
                statuses.append(line)
            output_of = len(prompts)
            output.append(line)
            last = False
    return Screen(
        heading=heading,
        prompts=tuple(prompts),
        typed=tuple(typed),
        output=tuple(output),
        statuses=tuple(statuses),
        ends_with_prompt=last,
    )


def _prompt_of(line: str) -> re.Match[str] | None:
    return _PROMPT.match(line) or _SECONDARY.match(line)


def _is_prompt(match: re.Match[str], final: re.Match[str] | None, commands: Sequence[str]) -> bool:
    form, behind = match.group().rstrip(), match.string[match.end() :].strip()
    if len(form) > MAX_SHORT_PROMPT or not commands or not behind or behind in commands:
        return True
    return final is not None and final.group().rstrip() == form


def _n_wrapped(behind: str, lines: Sequence[str], start: int, whole: Mapping[str, str]) -> int:
    """Return how many lines from `start` on carry on a typed command that the width cut."""
    plain = "".join(behind.split())
    if not plain or plain in whole:
        return 0
    for number in range(start, len(lines)):
        plain += "".join(lines[number].split())
        if plain in whole:
            return number + 1 - start
        if not any(command.startswith(plain) for command in whole):
            return 0
    return 0


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
    lines = [line.strip() for line in keystrokes(case.action.action).split("\n")]
    commands = tuple(line for line in lines if line)
    truth, guess = (read_screen(text, commands) for text in (case.recorded, case.prediction))
    if truth.heading is not None:
        yield finding(
            "wrong_heading",
            "format",
            float(truth.heading == guess.heading),
            truth.heading,
            guess.heading,
            weight=2.0,
            blocking=True,
        )
    if truth.prompts or guess.prompts:
        yield from _prompt(truth, guess)
    yield from _echo(commands, truth, guess)
    yield from _silence(truth, guess)
    yield from _status(truth, guess)
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
    """Give whether the same prompts came, in the same order, and whether the shell is back."""
    wanted, got = _forms(truth), _forms(guess)
    ends = truth.ends_with_prompt == guess.ends_with_prompt
    yield finding(
        "wrong_prompt",
        "factuality",
        float(wanted == got and ends),
        "; ".join(truth.prompts[-3:]),
        "; ".join(guess.prompts[-3:]) or "no prompt",
        weight=2.0,
        blocking=True,
    )
    forms, got_forms = set(wanted), set(got)
    yield finding(
        "unknown_prompt",
        "consistency",
        len(forms & got_forms) / len(got_forms) if got_forms else float(not forms),
        ", ".join(sorted(forms)),
        ", ".join(sorted(got_forms)),
    )


def _forms(screen: Screen) -> list[str]:
    """Return the prompts without metadata: the long ones, and short ones where none is long."""
    long = [mask(prompt) for prompt in screen.prompts if len(prompt) > MAX_SHORT_PROMPT]
    return long or [mask(prompt) for prompt in screen.prompts]


def _echo(commands: Sequence[str], truth: Screen, guess: Screen) -> Iterator[Finding]:
    echoed = Counter(line.strip() for line in truth.typed if line.strip() in commands)
    if echoed:
        got = Counter(line.strip() for line in guess.typed)
        lost = echoed - got
        yield finding(
            "missing_echo",
            "format",
            whole_or_not(overlap(echoed, got)),
            next(iter(lost), next(iter(echoed))),
            "; ".join(guess.typed),
            weight=2.0,
            blocking=True,
        )


def _status(truth: Screen, guess: Screen) -> Iterator[Finding]:
    """Give whether each exit status that was asked for is the same."""
    if truth.statuses:
        yield finding(
            "wrong_exit_status",
            "factuality",
            float(truth.statuses == guess.statuses),
            "; ".join(truth.statuses),
            "; ".join(guess.statuses) or "none",
            weight=2.0,
            blocking=True,
        )


def _silence(truth: Screen, guess: Screen) -> Iterator[Finding]:
    if not truth.output:
        yield finding(
            "broken_silence",
            "factuality",
            float(not guess.output),
            "no output",
            "\n".join(guess.output) or "no output",
            blocking=True,
        )
    else:
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
