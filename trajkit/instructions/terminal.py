"""Facts of a machine that a terminal answer shows: what it has, lacks, refuses, and says of itself.

Only what a program said in this very answer counts. Lines that stood on an earlier screen, and
errors inside a file that was shown, are no facts of the machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from trajkit.fidelity.content import action_text
from trajkit.fidelity.findings import Case
from trajkit.fidelity.known import is_known, known
from trajkit.fidelity.outcome import exit_code, reads_content
from trajkit.fidelity.terminal import Screen, keystrokes, read_screen
from trajkit.instructions.facts import Fact, fact

MAX_LINES = 400
"""Lines of an answer that are looked at, from its end: errors stand there."""
_PATH = r"['\"‘`]?(?P<name>[^'\"’‘`\n:]{1,100}?)['\"’]?"
_REFUSAL = r"(?:(?:cannot|can't|could not|failed to) [a-z]{2,20}(?: [a-z]{2,20}){0,3} )?"
_PROGRAM = r"(?P<program>[\w./+-]{1,60}): (?:line \d{1,6}: |\d{1,6}: )?"
# Slug, pattern of a whole line, our sentence. The first pattern that fits a line decides.
_LINES = tuple(
    (slug, re.compile(pattern), sentence)
    for slug, pattern, sentence in (
        (
            "command_not_found",
            rf"{_PROGRAM}(?P<name>[^\s:]{{1,80}}): (?:command )?not found\Z"
            r"|zsh: command not found: (?P<name_>\S{1,80})\Z",
            "The program {name} is not installed on this machine, so calling it fails with"
            " {error}.",
        ),
        (
            "no_such_file",
            rf"{_PROGRAM}{_REFUSAL}{_PATH}(?: for [a-z]+)?"
            r": No such file or directory\Z",
            "Nothing exists at {name}, so a command that needs it fails with {error}.",
        ),
        (
            "no_such_file",
            r"FileNotFoundError: \[Errno 2\] No such file or directory: '(?P<name>[^'\n]{1,100})'",
            "Nothing exists at {name}, so a program that opens it stops with {error}.",
        ),
        (
            "permission_denied",
            rf"{_PROGRAM}{_REFUSAL}{_PATH}"
            r": (?:Permission denied|Operation not permitted)\Z",
            "The user of this machine has no right to {name}, so touching it fails with {error}.",
        ),
        (
            "wrong_file_kind",
            rf"{_PROGRAM}{_REFUSAL}{_PATH}: (?:Is a directory|Not a directory)\Z",
            "What stands at {name} is not of the kind that the command needs, so it fails with"
            " {error}.",
        ),
        (
            "already_exists",
            rf"{_PROGRAM}{_REFUSAL}{_PATH}: File exists\Z",
            "Something stands at {name} already, so making it anew fails with {error}.",
        ),
        (
            "module_missing",
            r"(?:ModuleNotFoundError|ImportError): No module named '?(?P<name>[\w.]{1,80})'?",
            "The Python module {name} is not installed, so importing it fails with {error}.",
        ),
        (
            "package_missing",
            r"E: Unable to locate package (?P<name>\S{1,80})\Z"
            r"|ERROR: No matching distribution found for (?P<name_>\S{1,80})\Z",
            "No source of packages holds {name}, so installing it fails with {error}.",
        ),
        (
            "host_unknown",
            r".{0,80}?(?:Could not resolve host|Name or service not known)(?:: (?P<name>\S{1,80}))?"
            r"\.?\Z",
            "The machine finds no address for the host of this command, which fails with {error}.",
        ),
        (
            "refused",
            r".{0,80}?Connection refused\.?\Z",
            "Nothing listens where this command connects to, so it fails with {error}.",
        ),
        (
            "no_repository",
            r"fatal: not a git repository\b.{0,80}\Z",
            "The directory of this command is in no git repository, so git fails with {error}.",
        ),
        (
            "build_failed",
            r"make(?:\[\d+\])?: \*\*\* .{1,80}\Z",
            "The build does not succeed: make ends with {error}.",
        ),
        (
            "refused_by_program",
            r"(?:fatal|E|npm ERR!): .{1,90}\Z",
            "What the command asks for is refused with {error}.",
        ),
    )
)
_RAISED = re.compile(
    r"(?P<name>[A-Za-z_][\w.]{0,80}(?:Error|Exception|Interrupt))(?:: .{0,200})?\Z"
)
_IN_USE = re.compile(r"Address already in use|EADDRINUSE")
_PORT = re.compile(r"(?<![\d.])(?:port[ =]{1,2}|:|-p ?|--port[ =])?(\d{4,5})(?![\d.])")
_COMMAND = re.compile(r"(?:^|[|;&(]|\bsudo\b|\bthen\b|\bdo\b)[ \t]{0,20}([\w./+-]+)", re.MULTILINE)
_SCRIPT = re.compile(r"\b(?:python[\d.]*|bash|sh|node|perl|ruby) ([\w./+-]+)")
_COUNTS = re.compile(r"(?:wc -[lwcm] \S+|grep -c\b[^|;&<>]*|[^;&<>]*\| ?wc -[lwcm])\Z")
_VERSION_ASKED = re.compile(r"([\w.+-]{1,40}) (?:--version|-V|-v|version)\Z")
_VERSION = re.compile(r"(?<![\w.])v?(\d+(?:\.\d+){1,3}[\w+-]{0,20})")
_PLACE_ASKED = re.compile(r"(?:which|command -v|type -p) ([\w.+-]{1,40})\Z")
_FINDERS = re.compile(r"(?:grep|egrep|fgrep|rg|find|pgrep|ls)\b[^|;&<>]*\Z")
_ASKS_STATUS = re.compile(r"(?:echo|printf)\b.*\$\?")
_SELF = {
    "whoami": ("user", "The user of this machine is {value}."),
    "id -un": ("user", "The user of this machine is {value}."),
    "hostname": ("host", "The machine is called {value}."),
    "nproc": ("processors", "The machine has {value} processors that it may use."),
    "arch": ("hardware", "The hardware of the machine is {value}."),
    "uname -m": ("hardware", "The hardware of the machine is {value}."),
    "uname -s": ("system", "The operating system calls itself {value}."),
    "uname -r": ("system", "The kernel of the machine has the version {value}."),
}


def facts(case: Case) -> Iterator[Fact | None]:
    """Give the facts that a terminal answer shows, in its order; null for one not to be named."""
    typed = _typed(case)
    commands = tuple(line for line in map(str.strip, typed.split("\n")) if line)
    screen = read_screen(case.recorded, commands)
    seen = known(case).lines
    lines = [line for line in screen.output[-MAX_LINES:] if not is_known(line, seen)]
    yield from _errors(case, lines, typed)
    if len(commands) == 1:
        yield from _answers(commands[0], screen)
    yield from _statuses(case.recorded, screen, commands)


def _typed(case: Case) -> str:
    """Return what was typed, or the command of a tool call."""
    typed = keystrokes(case.action.action)
    if typed or case.action.action_kind != "tool_call":
        return typed
    return action_text(case.action.action).partition("\n")[2]


def _errors(case: Case, lines: list[str], typed: str) -> Iterator[Fact | None]:
    """Give what lines of error say; of a reader only what it says of itself."""
    called = {
        name.rsplit("/", 1)[-1]
        for pattern in (_COMMAND, _SCRIPT)
        for name in pattern.findall(typed)
    }
    reader = reads_content(case)
    raised = False
    for line in map(str.strip, lines):
        in_use = _IN_USE.search(line)
        if in_use is not None:
            port = _PORT.search(line) or _PORT.search(typed)
            if port is not None:
                yield fact(
                    "port_in_use",
                    "The port {port} is taken by another program, so listening on it fails with"
                    " {error}.",
                    port=port.group(1),
                    error=in_use.group(),
                )
            continue
        found = next(
            (
                (slug, match, sentence)
                for slug, pattern, sentence in _LINES
                if (match := pattern.match(line)) is not None
            ),
            None,
        )
        if found is None:
            raised = raised or line.startswith("Traceback (most recent call last)")
            match = _RAISED.match(line)
            if match is not None and raised and not reader:
                yield fact(
                    "uncaught",
                    "The program stops with an uncaught {name}; its traceback ends with {error}.",
                    name=match["name"],
                    error=line if len(line) <= 100 else match["name"],
                )
            elif match is None:
                yield _own_words(line, called)
            continue
        slug, match, sentence = found
        groups = match.groupdict()
        name = groups.get("name") or groups.get("name_") or ""
        program = groups.get("program") or ""
        if reader and not (name and name in typed) and program.rsplit("/", 1)[-1] not in called:
            continue
        yield fact(slug, sentence, name=name, error=match.group())


def _own_words(line: str, called: set[str]) -> Fact | None:
    """Return what a called program says of its own failure, such as `gzip: x: not in format`."""
    program, colon, rest = line.partition(": ")
    if not colon or program.rsplit("/", 1)[-1] not in called or not rest.strip():
        return None
    return fact(
        "refused_by_program",
        "The program {program} cannot do what this command asks of it, and says {error}.",
        program=program,
        error=line,
    )


def _answers(command: str, screen: Screen) -> Iterator[Fact | None]:
    """Give what one command tells of the machine: a version, a place, a name, that nothing is."""
    output = [line.strip() for line in screen.output if line.strip()]
    asked = _VERSION_ASKED.match(command)
    if asked is not None and output:
        version = _VERSION.search(output[0])
        if version is not None:
            yield fact(
                "version",
                "The machine has {program} in version {version}, which it tells when asked.",
                program=asked.group(1),
                version=version.group(1),
            )
    place = _PLACE_ASKED.match(command)
    if place is not None and len(output) == 1 and output[0].endswith(f"/{place.group(1)}"):
        yield fact(
            "place",
            "The program {program} is installed, at {path}.",
            program=place.group(1),
            path=output[0],
        )
    if place is not None and screen.typed and not output:
        yield fact(
            "not_on_path",
            "No program called {program} is on the search path, so asking for its place prints"
            " nothing.",
            program=place.group(1),
        )
    if command in _SELF and len(output) == 1:
        slug, sentence = _SELF[command]
        yield fact(slug, sentence, value=output[0])
    if _COUNTS.match(command) and len(output) == 1:
        count = output[0].split()[0]
        if count.isdigit():
            yield fact(
                "count",
                "On this machine {command} counts {count}.",
                command=command,
                count=count,
            )
    if _FINDERS.match(command) and screen.typed and screen.ends_with_prompt and not output:
        yield fact(
            "nothing_found",
            "There is nothing that {command} could show: it prints no line.",
            command=command,
        )


def _statuses(recorded: str, screen: Screen, commands: tuple[str, ...]) -> Iterator[Fact | None]:
    """Give how a command ended where the answer says so."""
    code = exit_code(recorded)
    if code:
        yield fact("exit_code", "The command fails with the exit code {code}.", code=str(code))
    if screen.statuses and any(_ASKS_STATUS.search(command) for command in commands):
        status = screen.statuses[-1].strip()
        if status.isdigit() and status != "0":
            yield fact(
                "exit_code",
                "The command whose status is asked for fails with the exit code {code}.",
                code=status,
            )
