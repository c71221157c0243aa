"""Verifiers as plain data, and what each kind of them asks of an answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args

import orjson

from trajkit.errors import TrajkitError, alternatives, quote
from trajkit.fidelity.content import mask
from trajkit.fidelity.json_shape import Leaf, read_answer
from trajkit.fidelity.mcp import fails
from trajkit.fidelity.outcome import error_kinds, exit_code
from trajkit.fidelity.shared import squeezed
from trajkit.fidelity.trees import parse
from trajkit.model import to_json_text

Axis = Literal["controllability", "error_handling", "long_context"]
Kind = Literal[
    "whole",
    "region",
    "lines",
    "pieces",
    "json",
    "record",
    "exit",
    "error",
    "failure",
    "element",
    "header",
]
_T = TypeVar("_T")
AXES: tuple[Axis, ...] = get_args(Axis)
KINDS: tuple[Kind, ...] = get_args(Kind)

MAX_GAP_CHARS = 200
"""How much may stand between two pieces of one line."""
NUMBERED = "numbered"
"""Place of an element on a screen whose numbers in brackets are mere places in a list."""
PROGRAMS = "programs"
"""Place of an error that counts only in a program's own line, not in a text that is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verifier:
    """One thing that a right answer must have; needs nothing but itself and the answer."""

    kind: Kind
    """What is asked.

    `whole`: the answer is `wanted`, but for white space and runtime metadata. `region`: these lines
    stand there in a row. `lines`: they stand there, as often. `pieces`: one line holds them in this
    order. `json`: these are the values at the pointer `where`
    in order. `record`: an object that holds the value `where` has these keys and values, in turn.
    `exit`: the tool states this exit code. `error`: the answer shows these kinds of error.
    `failure`: a tool's answer reports a failure. `element`: a screen has these elements, wherever
    they stand. `header`: a screen's header has these lines.
    """
    axis: Axis
    """Why the answer is settled: by an instruction, by an error, or by the history."""
    wanted: tuple[str, ...] = ()
    where: str = ""


def verify(verifier: Verifier, prediction: str) -> bool:
    """Return whether an answer has what the verifier asks for.

    Carriage returns before newlines and blanks at the very end are no difference.

    >>> lost = Verifier(kind="pieces", axis="error_handling", wanted=("x.txt", "No such file"))
    >>> verify(lost, "cat: x.txt: No such file or directory"), verify(lost, "x.txt")
    (True, False)
    """
    text = prediction.replace("\r\n", "\n").rstrip()
    return _TESTS[verifier.kind](text, verifier.wanted, verifier.where)


def _whole(text: str, wanted: Sequence[str], where: str) -> bool:
    return mask(squeezed(text)) == mask(squeezed(wanted[0]))


def _region(text: str, wanted: Sequence[str], where: str) -> bool:
    lines = [line for line in map(str.strip, text.split("\n")) if line]
    first, n = wanted[0], len(wanted)
    return any(
        line == first and lines[place : place + n] == list(wanted)
        for place, line in enumerate(lines)
    )


def _lines(text: str, wanted: Sequence[str], where: str) -> bool:
    return not Counter(wanted) - Counter(map(str.strip, text.split("\n")))


def _pieces(text: str, wanted: Sequence[str], where: str) -> bool:
    return any(_in_order(line, wanted) for line in text.split("\n") if wanted[0] in line)


def _in_order(line: str, wanted: Sequence[str]) -> bool:
    start = line.find(wanted[0])
    while start >= 0:
        end = start + len(wanted[0])
        for piece in wanted[1:]:
            place = line.find(piece, end, end + MAX_GAP_CHARS + len(piece))
            if place < 0:
                break
            end = place + len(piece)
        else:
            return True
        start = line.find(wanted[0], start + 1)
    return False


def _json(text: str, wanted: Sequence[str], where: str) -> bool:
    leaves = read_answer(text).leaves
    return [told(value) for pointer, value in leaves if pointer == where] == list(wanted)


def _record(text: str, wanted: Sequence[str], where: str) -> bool:
    pairs = list(zip(wanted[::2], wanted[1::2], strict=True))
    return any(
        where in one.names and all(one.values.get(key) == value for key, value in pairs)
        for one in read_answer(text).records
    )


def _exit(text: str, wanted: Sequence[str], where: str) -> bool:
    return str(exit_code(text)) == wanted[0]


def _error(text: str, wanted: Sequence[str], where: str) -> bool:
    return error_kinds(text, of_programs_only=where == PROGRAMS).issuperset(wanted)


def _failure(text: str, wanted: Sequence[str], where: str) -> bool:
    return fails(text, read_answer(text).leaves)


def _element(text: str, wanted: Sequence[str], where: str) -> bool:
    nodes = parse(text, numbered=where == NUMBERED).nodes
    return not Counter(wanted) - Counter(node.plain for node in nodes)


def _header(text: str, wanted: Sequence[str], where: str) -> bool:
    return not Counter(wanted) - Counter(parse(text, numbered=where == NUMBERED).header)


_TESTS: Mapping[str, Callable[[str, Sequence[str], str], bool]] = {
    "whole": _whole,
    "region": _region,
    "lines": _lines,
    "pieces": _pieces,
    "json": _json,
    "record": _record,
    "exit": _exit,
    "error": _error,
    "failure": _failure,
    "element": _element,
    "header": _header,
}
_NEEDS_NOTHING = frozenset({"failure"})


def told(value: Leaf) -> str:
    """Return the leaf of a JSON answer as a verifier names it.

    >>> told(True), told("True"), told(3)
    ('true', 'True', '3')
    """
    return value if isinstance(value, str) else to_json_text(value)


def written(verifiers: Iterable[Verifier]) -> str:
    """Return verifiers as JSON text; `read` gives them back."""
    return to_json_text(
        [
            {"kind": one.kind, "axis": one.axis, "wanted": list(one.wanted), "where": one.where}
            for one in verifiers
        ]
    )


def read(text: str) -> tuple[Verifier, ...]:
    """Return the verifiers of a row.

    Raises TrajkitError for a text that is no list of them: a reward must not be made up.

    >>> read('[{"kind": "exit", "axis": "error_handling", "wanted": ["2"], "where": ""}]')[0].wanted
    ('2',)
    """
    try:
        found = orjson.loads(text or "[]")
    except ValueError:
        raise TrajkitError(
            "verifiers", f"is no JSON: {quote(text)}", "build the rows anew"
        ) from None
    if not isinstance(found, list):
        raise TrajkitError("verifiers", f"is no list: {quote(text)}", "build the rows anew")
    return tuple(_verifier(one) for one in found)


def _verifier(value: Any) -> Verifier:
    own = value if isinstance(value, dict) else {}
    kind = _one_of("kind", own.get("kind"), KINDS)
    axis = _one_of("axis", own.get("axis"), AXES)
    wanted, where = own.get("wanted"), own.get("where")
    texts = [one for one in wanted if isinstance(one, str)] if isinstance(wanted, list) else []
    is_whole = isinstance(wanted, list) and len(texts) == len(wanted) and isinstance(where, str)
    is_pairs = kind != "record" or len(texts) % 2 == 0
    if not is_whole or not is_pairs or not (texts or kind in _NEEDS_NOTHING):
        what = f"{quote(to_json_text(value))} asks for nothing"
        raise TrajkitError("verifiers", what, "build the rows anew")
    return Verifier(kind=kind, axis=axis, wanted=tuple(texts), where=str(where))


def _one_of(name: str, given: Any, known: tuple[_T, ...]) -> _T:
    for one in known:
        if given == one:
            return one
    hint = f"one of {alternatives(map(str, known))}"
    raise TrajkitError("verifiers", f"no {name} {quote(str(given))}", hint)
