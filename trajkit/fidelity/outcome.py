"""Success or failure of an observation, read from its text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice

from trajkit.fidelity.content import action_text, edges
from trajkit.fidelity.findings import GUARD, Case, Finding, finding

MAX_SIGNS = 200
MAX_SIGN_CHARS = 40_000
"""How much of a long answer is searched for errors: they stand at the edges."""
_EDGE_CHARS = 400

_EXIT_MARK = re.compile(
    r"<returncode>\s{0,4}(-?\d{1,5})\s{0,4}</returncode>"
    r"|(?:[Ee]xit|[Rr]eturn|EXIT)[ _]?(?:[Cc]ode|[Ss]tatus|CODE)[\"'\s:=]{1,4}(-?\d{1,5})(?![\w.])"
    r"|exited with (?:code |status )?(-?\d{1,5})(?![\w.])"
)
# Name, texts without one of which the pattern cannot match (looking for them costs next to
# nothing), pattern.
_SIGNS = tuple(
    (name, hints, re.compile(pattern, re.MULTILINE))
    for name, hints, pattern in (
        (
            "command_not_found",
            (" not found",),
            r": (?:command )?not found(?=[ \t]{0,9}$)",
        ),
        (
            "no_such_file",
            ("No such file", "ENOENT", "not found", "not exist"),
            r"No such (?:file|directory)|ENOENT|(?:[Ff]ile|[Pp]ath) (?:does )?not (?:found|exist)",
        ),
        (
            "permission_denied",
            ("Permission denied", "EACCES", "not permitted"),
            r"Permission denied|EACCES|Operation not permitted",
        ),
        (
            "is_a_directory",
            ("s a directory",),
            r": Is a directory|is a directory(?=[ \t]{0,9}$)",
        ),
        ("not_a_directory", ("Not a directory",), r"Not a directory"),
        ("already_exists", ("File exists", "lready exists"), r": File exists|[Aa]lready exists"),
        (
            "refused",
            ("Connection refused", "resolve host", "not known"),
            r"Connection refused|Could not resolve host|Name or service not known",
        ),
        ("timeout", ("imed out", "timeout "), r"[Tt]imed out|timeout (?:after|exceeded)"),
        ("traceback", ("Traceback",), r"^Traceback \(most recent call last\)"),
        (
            "syntax_error",
            ("SyntaxError", "syntax error", "unexpected EOF"),
            r"^[ \t]{0,40}SyntaxError|syntax error near|unexpected EOF",
        ),
        (
            "fatal",
            ("fatal: ", "E: ", "npm ERR!", "make: ", "panic: ", "Segmentation"),
            r"^fatal: |^E: |^npm ERR!|^make: \*\*\*|^panic: |Segmentation fault",
        ),
        (
            "bad_usage",
            ("invalid option", "unrecognized", "usage: ", "missing operand"),
            r"invalid option|unrecognized (?:option|argument)|^usage: |missing operand",
        ),
        (
            "test_failure",
            ("failed", "FAILED", "ERROR"),
            r"(?<!\d)[1-9]\d{0,6} failed|^FAILED|(?:FAILED|ERROR)S? \((?:fail|err)",
        ),
        (
            "error_line",
            ("rror", "ERROR"),
            r"^(?:\[?ERROR\]?|Error|error)\b ?[:(\]-]|: error: |^Error executing|<error>",
        ),
        (
            "exception",
            ("Error", "Exception"),
            r"^[\w.]{0,80}(?:Error|Exception)(?=:|[ \t]{0,9}$)",
        ),
        (
            "no_match",
            ("No replacement", "did not appear", "String to replace"),
            r"No replacement was performed|did not appear verbatim|String to replace not found",
        ),
    )
)
_PROGRAM_LINE = re.compile(r"\s*(?:-?(?:ba|z|da)?sh|[\w./+-]{1,60}): ")
_READERS = re.compile(
    r"(?:^|[\s;&|\"'])(?:cat|less|more|head|tail|grep|egrep|rg|sed|awk|nl|git (?:log|show|diff)|"
    r"journalctl|dmesg|read|read_file|view|view_file|open|open_file|search_file|search_dir)\b",
    re.IGNORECASE,
)


# The answers of one prompt are judged against the same recording, one after the other.
@lru_cache(maxsize=32)
def exit_code(text: str) -> int | None:
    """Return the exit code that a tool wrote at the start or the end of its answer.

    >>> exit_code("<returncode>2</returncode>\\n<output>\\n</output>")
    2
    """
    for edge in (text[-_EDGE_CHARS:], text[:_EDGE_CHARS]):
        matches = list(_EXIT_MARK.finditer(edge))
        if matches:
            return int(next(group for group in matches[-1].groups() if group is not None))
    return None


@lru_cache(maxsize=32)
def error_kinds(text: str, *, of_programs_only: bool = False) -> frozenset[str]:
    """Return the kinds of error that a text shows.

    `of_programs_only` takes only lines such as `cat: x: No such file or directory`: what a
    reader shows of a file may speak of errors without being one.

    >>> sorted(error_kinds("bash: frobnicate: command not found"))
    ['command_not_found']
    """
    text = edges(text, MAX_SIGN_CHARS)
    return frozenset(
        name
        for name, hints, pattern in _SIGNS
        if any(hint in text for hint in hints) and _shows(text, pattern, of_programs_only)
    )


def _shows(text: str, pattern: re.Pattern[str], of_programs_only: bool) -> bool:
    for match in islice(pattern.finditer(text), MAX_SIGNS):
        if not of_programs_only:
            return True
        start = max(text.rfind("\n", 0, match.start()) + 1, match.start() - 200)
        if _PROGRAM_LINE.match(text, start) is not None:
            return True
    return False


def reads_content(case: Case) -> bool:
    """Return whether the action shows stored text, in which errors may be mere content."""
    return _READERS.search(action_text(case.action.action)[:2000]) is not None


def check_outcome(case: Case, recorded: str, prediction: str) -> Iterator[Finding]:
    """Give whether the prediction succeeds or fails as the recording does, and in which way."""
    code, got_code = exit_code(recorded), exit_code(prediction)
    if code is not None:
        # The tool states the code; one that leaves it out does not answer like the tool.
        score = 1.0 if got_code is not None and (code == 0) == (got_code == 0) else 0.0
        yield finding(
            "wrong_exit_class", "factuality", score, code, got_code, weight=GUARD, blocking=True
        )
        if code != 0 and got_code != 0:
            yield finding("wrong_exit_code", "factuality", float(code == got_code), code, got_code)
        if code == 0:
            return
    reader = reads_content(case)
    kinds = error_kinds(recorded, of_programs_only=reader)
    got_kinds = error_kinds(prediction, of_programs_only=reader)
    mere_content = case.exit_code == 0 and kinds
    silent_failure = not kinds and (case.exit_code not in (None, 0) or case.error is not None)
    if code is None and not mere_content and not silent_failure:
        yield finding(
            "wrong_exit_class",
            "factuality",
            float(bool(kinds) == bool(got_kinds)),
            ", ".join(sorted(kinds)) or "no error",
            ", ".join(sorted(got_kinds)) or "no error",
            weight=GUARD,
            blocking=True,
        )
    if kinds and got_kinds:
        yield finding(
            "wrong_error_kind",
            "factuality",
            len(kinds & got_kinds) / len(kinds | got_kinds),
            ", ".join(sorted(kinds)),
            ", ".join(sorted(got_kinds)),
        )
