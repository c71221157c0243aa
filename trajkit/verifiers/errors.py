"""Verifiers of failures: the class of the error, its status, and the line that names the culprit.

A failure is only verified when action and history settle it (`settled_by`): nobody can know that an
unseen file is missing. With an instruction that says so, it is settled by that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from trajkit.fidelity.content import action_text, mask, parse_json, previous_state
from trajkit.fidelity.findings import Case, Turn
from trajkit.fidelity.json_shape import read_answer
from trajkit.fidelity.known import lost_values
from trajkit.fidelity.known_values import arguments, whole
from trajkit.fidelity.mcp import fails
from trajkit.fidelity.outcome import error_kinds, exit_code, reads_content
from trajkit.fidelity.shared import squeezed
from trajkit.fidelity.terminal import keystrokes, read_screen
from trajkit.fidelity.trees import parse
from trajkit.verifiers.kinds import PROGRAMS, Axis, Verifier, told

MAX_LINES = 3
MAX_LINE_CHARS = 400
MAX_NAMES = 3
_PHRASE = re.compile(
    r"command not found|[Nn]o such file or directory|[Nn]o such \w{2,20}|[Pp]ermission denied"
    r"|[Ii]s a directory|[Nn]ot a directory|(?:[Ff]ile|[Aa]lready) exists|invalid option"
    r"|unrecognized (?:option|argument)s?|missing operand|syntax error|[Cc]onnection refused"
    r"|[Cc]ould not resolve host|[Tt]imed out|[Nn]ot found|[Dd]oes not exist|[Uu]nknown \w{2,20}"
    r"|\b[A-Z]\w{2,40}(?:Error|Exception)\b|[Ii]nvalid \w{2,20}|[Rr]equired|[Nn]ot allowed"
    r"|[Dd]enied|[Ii]nsufficient \w{2,20}|[Cc]annot|[Ff]ailed"
    r"|\b[Nn]o (?:\w{2,20} ){1,3}(?=with|for|\d)"
)
_STATUS = re.compile(r"(?:\A|/)(?:http_?)?status(?:_?code)?\Z|(?:\A|/)code\Z", re.IGNORECASE)
_RAISED = re.compile(r"\braise +(\w{3,60})|\bthrow +new +(\w{3,60})|\bassert\b|\bpanic!?\(")
_EXITS = re.compile(r"\b(?:sys\.)?exit[ (]+(\d{1,3})\b")
_BARE_FAULTS = frozenset({"ZeroDivisionError", "SyntaxError", "IndentationError"})
_NAMED_FAULTS = frozenset({"NameError", "UnboundLocalError", "AttributeError"})
_OWN_CODE = re.compile(r'File "<(?:string|stdin|ipython)|\bCell In|line \d+, in <cell')
_FORBIDS = re.compile(r"\bchmod\s")
MIN_LISTED = 3
"""Objects in one answer that have a value for a key: fewer are no listing."""
_REMOVES = re.compile(
    r"(?:\A|[\s;&|(])(?:rm|rmdir|unlink|mv)\s|\b(?:delete|remove|cancel|close|uninstall)", re.I
)
_LISTS = re.compile(r"(?:\A|[\s;&|])ls(?: +-\w+)*(?: +([\w./~-]{1,200}))? *(?:\Z|[\n;&|])")
_MAKES = re.compile(
    r">|\b(?:touch|mkdir|cp|mv|install|create|write|insert|add|save|tee|wget|curl|clone|unzip|tar"
    r"|str_replace|edit|apply|checkout|pull|rename)\w*\b",
    re.IGNORECASE,
)
_NO_ELEMENT = re.compile(
    r"(?i)(?:could not find|no|unknown|cannot find).{0,40}(?:bid|element|id)\W{1,4}([\w-]{1,40})"
)


def text_of(case: Case) -> str:
    """Return what of the recorded observation may tell an error: of a screen, its output."""
    if case.domain != "terminal":
        return case.recorded
    typed = [line.strip() for line in keystrokes(case.action.action).split("\n")]
    return "\n".join(read_screen(case.recorded, tuple(filter(None, typed))).output)


def error_verifiers(case: Case, axis: Axis) -> list[Verifier]:
    """Return what the recorded failure must show; nothing where nothing failed.

    The class first, then exit code and statuses, then what the lines that tell the error name, in
    the order in which they name it.
    """
    text = text_of(case)
    of_programs = reads_content(case)
    kinds = error_kinds(text, of_programs_only=of_programs)
    code = exit_code(case.recorded)
    leaves = read_answer(case.recorded).leaves
    is_tool = case.domain in ("mcp", "search")
    failed = is_tool and fails(case.recorded, leaves)
    if code == 0 or not (kinds or failed or code):
        return []
    found: list[Verifier] = []
    if kinds:
        where = PROGRAMS if of_programs else ""
        found.append(Verifier(kind="error", axis=axis, wanted=tuple(sorted(kinds)), where=where))
    if failed:
        found.append(Verifier(kind="failure", axis=axis))
    if code is not None:
        found.append(Verifier(kind="exit", axis=axis, wanted=(str(code),)))
    found += [
        Verifier(kind="json", axis=axis, wanted=(told(value),), where=pointer)
        for pointer, value in (leaves if failed else ())
        if _STATUS.search(pointer) and "/*" not in pointer and isinstance(value, str | int)
    ]
    for pieces in _told(case, text):
        found.append(Verifier(kind="pieces", axis=axis, wanted=pieces))
    return found


def _told(case: Case, text: str) -> Iterator[tuple[str, ...]]:
    """Give for the lines that tell the error what they say and whom they blame, in order."""
    n_lines = 0
    for line in text.split("\n"):
        phrase = _PHRASE.search(line[:MAX_LINE_CHARS])
        if phrase is None:
            continue
        names = _names(case, line[:MAX_LINE_CHARS])
        places = {phrase.group(): phrase.start()} | {
            name: line.find(name) for name in names if name not in phrase.group()
        }
        ordered = sorted(places, key=lambda piece: places[piece])
        pieces: list[str] = []
        end = 0
        for piece in ordered:
            if places[piece] >= end:
                pieces.append(piece)
                end = places[piece] + len(piece)
        if phrase.group() in pieces:
            yield tuple(pieces)
            n_lines += 1
        if n_lines == MAX_LINES:
            return


def _names(case: Case, line: str) -> list[str]:
    """Return what a line names that the call or the history named: words, paths, values."""
    is_tool = case.domain in ("mcp", "search")
    own = [value for _, value in arguments(case.action.action) if len(value) <= 80]
    own = [value for value in own if is_tool or len(value) > 2]
    given = [value for value in own if whole(value, line)]
    names = [name for name in lost_values(case, line, "") if len(name) > 2]
    return list(dict.fromkeys([*given, *names]))[:MAX_NAMES]


def settled_by(case: Case, action_space: str | None = None) -> str | None:
    """Return why action and history settle that the recorded failure had to come; null if not.

    `repeated`: the same action failed so before. `raised`: the action itself raises it. `code`: the
    action is the faulty code. `named`: the same name failed so before and was not made since.
    `removed`: this session removed it. `forbidden`: the action or the session took its rights.
    `unlisted`: a listing of its folder, or of its kind of objects, does not have it.
    `undeclared`: the tools that are declared do not take such a call. `absent`: the screen has no
    such element.
    """
    own = action_text(case.action.action)
    text = text_of(case)
    recorded = squeezed(mask(case.recorded))
    for turn in case.history:
        if turn.action == case.action.action and squeezed(mask(turn.observation or "")) == recorded:
            return "repeated"
    if _raises(own, text, exit_code(case.recorded)):
        return "raised"
    if _is_faulty(own, text):
        return "code"
    if not _declared(case.action, action_space):
        return "undeclared"
    if _is_not_listed(case):
        return "unlisted"
    if _points_nowhere(case):
        return "absent"
    names = {name for line in text.split("\n")[:200] for name in _blamed(case, line)}
    return _from_history(case, names)


def _raises(own: str, text: str, code: int | None) -> bool:
    for match in _RAISED.finditer(own[:20_000]):
        name = match[1] or match[2] or "Assertion"
        if name in text:
            return True
    exits = {int(value) for value in _EXITS.findall(own[:20_000])}
    return code is not None and code != 0 and code in exits


def _is_faulty(own: str, text: str) -> bool:
    """Return whether the error is one of the code that the action holds in full."""
    for line in reversed(text.split("\n")[-50:] if _OWN_CODE.search(text) else []):
        name, colon, what = line.strip().partition(":")
        if colon and name in _BARE_FAULTS | _NAMED_FAULTS:
            quoted = re.findall(r"'([^'\n]{1,60})'", what.partition(". Did you")[0])
            return name in _BARE_FAULTS or (bool(quoted) and all(word in own for word in quoted))
    kinds = error_kinds(text)
    if not kinds & {"bad_usage", "syntax_error"}:
        return False
    blamed = re.findall(r"(?:option|argument|token|near)[^'\n]{0,40}'([^'\n]{1,60})'", text[:4000])
    blamed += re.findall(r"-- '?(\w)'?", text[:4000])
    return bool(blamed) and all(word in own for word in blamed)


@lru_cache(maxsize=32)
def _tools(action_space: str) -> Mapping[str, Mapping[str, Any] | None]:
    """Return the declared tools with the schema of their arguments, as far as it can be read."""
    found: dict[str, Mapping[str, Any] | None] = {}
    value = parse_json(action_space)
    for one in value if isinstance(value, list) else []:
        tool = one.get("function", one) if isinstance(one, dict) else None
        if not isinstance(tool, dict) or not isinstance(tool.get("name"), str):
            return {}
        names = ("parameters", "input_schema", "inputSchema")
        schema = next((tool[name] for name in names if isinstance(tool.get(name), dict)), None)
        found[tool["name"]] = schema
    return found


def _declared(action: Turn, action_space: str | None) -> bool:
    """Return whether a call is one that the declared tools take, as far as they tell."""
    tools = _tools(action_space) if action_space else {}
    if not tools or action.action_kind != "tool_call" or action.action_name is None:
        return True
    if action.action_name not in tools:
        return False
    schema, call = tools[action.action_name], parse_json(action.action)
    given = call.get("arguments") if isinstance(call, dict) else None
    if schema is None or not isinstance(given, dict):
        return True
    required, properties = schema.get("required"), schema.get("properties")
    if isinstance(required, list) and not all(name in given for name in required):
        return False
    if schema.get("additionalProperties") is False and isinstance(properties, dict):
        return all(name in properties for name in given)
    return True


def _is_not_listed(case: Case) -> bool:
    """Return whether a tool is asked for an object that an earlier listing does not have."""
    if case.domain != "mcp":
        return False
    given = [(key, value) for key, value in arguments(case.action.action) if value]
    given = [(key, value) for key, value in given if whole(value, case.recorded)]
    for turn in reversed(case.history):
        records = read_answer(turn.observation or "").records
        for key, value in given:
            listed = [one.values[key] for one in records if key in one.values]
            if value in listed or any(value == old for _, old in arguments(turn.action)):
                return False
            if len(listed) >= MIN_LISTED:
                return True
    return False


def _points_nowhere(case: Case) -> bool:
    """Return whether the action names an element that the screen before does not have."""
    if case.domain not in ("web", "os", "android"):
        return False
    before, blamed = previous_state(case), _NO_ELEMENT.search(case.recorded[:4000])
    if before is None or blamed is None or not whole(blamed[1], case.action.action):
        return False
    return all(node.key != blamed[1] for node in parse(before).nodes)


def _blamed(case: Case, line: str) -> list[str]:
    """Return whom a line that tells an error blames: not the program that speaks."""
    line = line[:MAX_LINE_CHARS].strip()
    if _PHRASE.search(line) is None:
        return []
    names = _names(case, line)
    return [name for name in names if len(names) == 1 or not line.startswith(f"{name}: ")]


def _from_history(case: Case, names: set[str]) -> str | None:
    """Return how an earlier turn settles that one of the names cannot be had."""
    kinds = error_kinds(text_of(case))
    present = action_text(case.action.action)
    open_names = {name for name in names if whole(name, present)}
    if "permission_denied" in kinds:
        for own in (present, *(action_text(turn.action) for turn in case.history)):
            if any(_FORBIDS.search(own) and whole(name, own) for name in open_names):
                return "forbidden"
    for turn in reversed(case.history):
        own, observation = action_text(turn.action), turn.observation or ""
        for name in sorted(open_names):
            failed = [
                line
                for line in observation.split("\n")[:2000]
                if whole(name, line) and _PHRASE.search(line)
            ]
            if failed and (not kinds or kinds & error_kinds("\n".join(failed))):
                return "named"
            if whole(name, own) or name.rpartition("/")[2] in own:
                if _REMOVES.search(own) and not failed:
                    return "removed"
                if _MAKES.search(own):
                    open_names.discard(name)
            elif _unlisted(name, own, observation):
                return "unlisted"
    return None


def _unlisted(name: str, own: str, observation: str) -> bool:
    """Return whether an action lists the folder of a path and the answer has no such name."""
    folder, slash, leaf = name.rpartition("/")
    listed = _LISTS.search(own)
    if not slash or not leaf or listed is None or (listed[1] or "").rstrip("/") != folder:
        return False
    return bool(observation.strip()) and not error_kinds(observation) and leaf not in observation
