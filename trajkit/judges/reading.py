"""Read what a judge said: every score that was clearly given, or nothing."""

from __future__ import annotations

import ast
import json
import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MAX_OBJECT_CHARS = 50_000
"""An object longer than this is no verdict."""
MAX_BRACES = 64
"""Opening braces that are tried; a model that loops writes thousands."""
_PIECE = re.compile(r"<think>|</think>|\{")
_STRING_OR_BRACE = re.compile(r'"(?:[^"\\]|\\.)*"|[{}]', re.DOTALL)
_SINGLE_OR_BRACE = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[{}]""", re.DOTALL)
_BARE_SHARE = re.compile(r"(:\s*)(\d+(?:\.\d+)?\s*/\s*\d+)(?=\s*[,}])")
_NUMBER = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:(?:/|out of)\s*(\d+)\s*)?")


@dataclass(frozen=True, slots=True)
class Reading:
    """A verdict that could be read."""

    scores: Mapping[str, float]
    """One number for each name that was asked for, as the judge gave it."""
    strengths: str
    weaknesses: str


def read_scores(text: str, names: Sequence[str], *, low: float, high: float) -> Reading | None:
    """Return the verdict of an answer, null when there is not exactly one.

    Scores are looked for in JSON objects anywhere in the text but in thoughts; names may differ
    in case. `4/5` and `"4"` are numbers, 3.5 stays 3.5. A score that is missing, out of range, not
    a number, or given twice with different values makes the whole verdict null, and so does an
    answer that breaks off inside its object. Numbers in prose are never taken for scores.

    >>> read_scores('Sure: {"score": "4/5"}', ["score"], low=1, high=5).scores
    {'score': 4.0}
    >>> read_scores("I would give it a 4", ["score"], low=1, high=5) is None
    True
    """
    found: dict[str, set[float]] = {name: set() for name in names}
    words = {"strengths": "", "weaknesses": ""}
    for document in _objects(text):
        for inner in _mappings(document):
            for key, value in inner:
                if key in found and (number := _number(value, low, high)) is not None:
                    found[key].add(number)
                elif key in words and not words[key]:
                    words[key] = _plain(value)
    if any(len(values) != 1 or math.isnan(next(iter(values))) for values in found.values()):
        return None
    scores = {name: next(iter(values)) for name, values in found.items()}
    return Reading(scores, **words)


def read_choice(text: str) -> str | None:
    """Return `A`, `B` or `tie`, null when no one choice was made.

    >>> read_choice('{"reason": "A keeps the path", "choice": "a"}')
    'A'
    """
    choices = {
        str(value).strip().casefold()
        for document in _objects(text)
        for inner in _mappings(document)
        for key, value in inner
        if key == "choice"
    }
    known = {"a": "A", "b": "B", "tie": "tie"}
    return known.get(choices.pop()) if len(choices) == 1 else None


_Pairs = tuple[tuple[str, Any], ...]
"""A JSON object with its names in lower case; a repeated name stays repeated."""


def _objects(text: str) -> list[_Pairs]:
    """Return the outermost objects that can be read, none of them from thoughts."""
    found: list[_Pairs] = []
    position = n_braces = 0
    while match := _PIECE.search(text, position):
        position = match.end()
        if match.group() == "<think>":
            end = text.find("</think>", position)
            if end < 0:
                break
            position = end + len("</think>")
        elif match.group() == "</think>":
            # The prompt had opened the thoughts: all before was theirs.
            found.clear()
        else:
            n_braces += 1
            if n_braces > MAX_BRACES:
                break
            closing = _end(text, match.start())
            document = None if closing is None else _decoded(text[match.start() : closing])
            if document is not None and closing is not None:
                found.append(document)
                position = closing
            elif closing is None and text[position:].lstrip()[:1] in ("'", '"'):
                # Cut off in mid-verdict: what was said until then was not the last word.
                return []
    return found


def _end(text: str, start: int) -> int | None:
    """Return where the object that starts here ends, null when it does not."""
    single = text[start + 1 : start + 100].lstrip().startswith("'")
    pieces = _SINGLE_OR_BRACE if single else _STRING_OR_BRACE
    depth = 0
    for match in pieces.finditer(text, start, start + MAX_OBJECT_CHARS):
        depth += {"{": 1, "}": -1}.get(match.group(), 0)
        if depth == 0:
            return match.end()
    return None


def _decoded(raw: str) -> _Pairs | None:
    decoder = json.JSONDecoder(strict=False, object_pairs_hook=_pairs)
    for text in (raw, _BARE_SHARE.sub(r'\1"\2"', raw)):
        try:
            return tuple(decoder.decode(text))
        except (ValueError, RecursionError):
            continue
    try:
        # Written as Python writes a dict. Literals only: nothing is run.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = ast.literal_eval(raw)
        return _from_literal(value) if isinstance(value, dict) else None
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None


def _pairs(pairs: list[tuple[str, Any]]) -> _Pairs:
    return tuple((key.strip().casefold(), value) for key, value in pairs)


def _from_literal(value: Any) -> Any:
    if isinstance(value, dict):
        return _pairs([(str(key), _from_literal(inner)) for key, inner in value.items()])
    return list(value) if isinstance(value, tuple) else value


def _is_object(value: Any) -> bool:
    return isinstance(value, tuple)


def _mappings(document: _Pairs) -> Iterator[_Pairs]:
    """Give an object and the objects that are values in it, at any depth."""
    pending = [document]
    while pending:
        pairs = pending.pop()
        yield pairs
        pending += [value for _, value in pairs if _is_object(value)]


def _number(value: Any, low: float, high: float) -> float | None:
    """Return a score, NaN for a number that is none on this scale, null for anything else."""
    if _is_object(value):
        # {"format": {"score": 4, "reason": "..."}}
        inner = [one for key, one in value if key == "score"]
        return _number(inner[0], low, high) if len(inner) == 1 else None
    if isinstance(value, str):
        match = _NUMBER.fullmatch(value)
        if match is None:
            return None
        if match[2] is not None and float(match[2]) != high:
            return math.nan
        value = float(match[1])
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if low <= value <= high else math.nan


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(str(one) for one in value)
    return value if isinstance(value, str) else ""
