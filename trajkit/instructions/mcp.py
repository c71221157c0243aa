"""Facts of a tool server that an answer shows: keys it does not know, errors, emptiness, counts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trajkit.fidelity.findings import Case
from trajkit.fidelity.json_shape import Answer, Leaf, read_answer
from trajkit.fidelity.known_values import arguments, whole
from trajkit.fidelity.outcome import error_kinds
from trajkit.instructions.facts import MAX_QUOTE_CHARS, Fact, fact

MAX_ERROR_CHARS = 2_000
"""How much of an error is read."""
_FAILS = re.compile(
    r"(?:[A-Z]\w{0,20} )?(?:Error|ERROR|error|Failed|Invalid|Unknown|Cannot|Unable)\b|"
    r"[Nn]o (?:such|open|item|record|result)\b|[Nn]ot found\b|Input validation error"
)
_BEFORE = re.compile(
    r"\b(?:no|unknown|cannot find|could not find|not found|missing|invalid)\b[^.;\n]{0,40}\Z",
    re.IGNORECASE,
)
_BEHIND = re.compile(
    r"[^.;\n]{0,40}\b(?:not found|unknown|(?:not|n't) exist|missing|not a valid|not known)\b",
    re.IGNORECASE,
)


def _names(names: str) -> frozenset[str]:
    return frozenset(names.split())


_ERROR_KEYS = _names(
    "error error_message errormessage error_description message msg detail reason title"
)
_STATUS_KEYS = _names("status statuscode status_code code http_status httpstatus")
_FAILURE_KEYS = _names("iserror is_error")
_FLAG_KEYS = _names("success ok") | _FAILURE_KEYS
_TOTAL_KEYS = _names(
    "total total_count totalcount count n_results num_results numresults total_results"
)
_VERSION_KEYS = _names("version server_version api_version apiversion")


def facts(case: Case) -> Iterator[Fact | None]:
    """Give the facts that a tool answer shows; null for one that is not to be named."""
    answer = read_answer(case.recorded)
    tool = case.action.action_name or "this tool"
    error = (_error(case, answer) or "")[:MAX_ERROR_CHARS]
    if error:
        yield _unknown(case, tool, error) or fact(
            "server_error",
            "The server does not carry out this call of {tool}: its answer is an error that says"
            " {error}.",
            tool=tool,
            error=_first(error),
        )
    named = [(pointer, _key(pointer), value) for pointer, value in answer.leaves]
    for pointer, key, value in named:
        if pointer.count("/") > 4:
            continue
        if key in _STATUS_KEYS and _is_status(value):
            yield fact(
                "http_status",
                "The service behind this call answers with the status {status}.",
                status=str(value),
            )
        elif key in _FLAG_KEYS and value is (key in _FAILURE_KEYS):
            yield fact(
                "failed_call",
                "The call fails: the field {field} of its answer is {value}.",
                field=_last(pointer),
                value="true" if value else "false",
            )
        elif key in _TOTAL_KEYS and isinstance(value, int) and not isinstance(value, bool):
            yield fact(
                "total",
                "For this call the server counts {total} in the field {field} of its answer.",
                total=str(value),
                field=_last(pointer),
            )
        elif key in _VERSION_KEYS and isinstance(value, str):
            yield fact("version", "The server has the version {version}.", version=value)
    if not error and answer.leaves:
        yield _empty(tool, answer)


def _error(case: Case, answer: Answer) -> str | None:
    """Return the words of an error, null when the answer is none."""
    if answer.form == "json":
        said = [
            value.strip()
            for pointer, value in answer.leaves
            if _key(pointer) in _ERROR_KEYS and isinstance(value, str) and value.strip()
        ]
        openly = any(
            _key(pointer) in ("error", "errors", "error_message")
            and isinstance(value, str)
            and value.strip()
            for pointer, value in answer.leaves
        )
        failed = (
            case.error is not None
            or openly
            or any(
                _key(pointer) in _STATUS_KEYS and _is_status(value)
                for pointer, value in answer.leaves
            )
        )
        return said[0] if failed and said else None
    first = case.recorded.strip().partition("\n")[0].strip()
    if case.error is None and not _FAILS.match(first) and not error_kinds(first):
        return None
    return first or None


def _unknown(case: Case, tool: str, error: str) -> Fact | None:
    """Return that the server does not know a value of the call, when the error names it so."""
    for key, value in arguments(case.action.action):
        if _named_as_unknown(value, error):
            return fact(
                "unknown_key",
                "The server knows no {value} (argument {key}), so {tool} answers with an error that"
                " says {error}.",
                value=value,
                key=key or "of the call",
                tool=tool,
                error=_first(error),
            )
    return None


def _named_as_unknown(value: str, error: str) -> bool:
    """Return whether an error says of a value that there is none.

    >>> _named_as_unknown("K-1", "no item K-1"), _named_as_unknown("5", "more than 5 items")
    (True, False)
    """
    if not whole(value, error):
        return False
    before, _, behind = error.partition(value)
    return _BEFORE.search(before) is not None or _BEHIND.match(behind) is not None


def _empty(tool: str, answer: Answer) -> Fact | None:
    """Return that nothing fits the call, when the answer holds no value but flags and zeros."""
    if any(value and value is not True for _, value in answer.leaves):
        return None
    empty = [
        pointer
        for pointer, value in answer.leaves
        if pointer.endswith(("/[]", "/{}")) or value == "" or value is None
    ]
    if not empty:
        return None
    fields = [_last(pointer) for pointer in empty if _key(pointer) not in _ERROR_KEYS]
    if not any(fields):
        return fact(
            "nothing_found",
            "Nothing that the server holds fits this call of {tool}: its answer is empty.",
            tool=tool,
        )
    return fact(
        "nothing_found",
        "Nothing that the server holds fits this call of {tool}: the field {field} of its answer is"
        " empty.",
        tool=tool,
        field=next(field for field in reversed(fields) if field),
    )


def _is_status(value: Leaf) -> bool:
    """Return whether a value is the status of an HTTP call that failed."""
    return str(value).isdigit() and 400 <= int(str(value)) < 600


def _last(pointer: str) -> str:
    """Return the last key of a pointer."""
    keys = [key for key in pointer.split("/") if key not in ("", "*", "~", "[]", "{}")]
    return keys[-1] if keys else ""


def _key(pointer: str) -> str:
    return _last(pointer).lower()


def _first(text: str) -> str:
    """Return the first sentence of a text that fits a quotation, else its beginning.

    >>> _first("No item X. " + "y" * 200)
    'No item X.'
    """
    text = " ".join(text.split())
    if len(text) <= MAX_QUOTE_CHARS:
        return text
    sentence = re.match(r".{8,99}?[.!;:](?= )", text)
    return sentence.group() if sentence else text[: MAX_QUOTE_CHARS - 1] + "…"
