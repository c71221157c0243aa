"""Variations of tool answers: values, shapes, errors and forms of JSON, CSV and sentences."""

from __future__ import annotations

import ast
import csv
import io
import json
import random
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from gate_variations import Sample, Variation

_STAMP = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d|\b\d\d:\d\d:\d\d\b")
_ADDRESS = re.compile(r"\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b")
_LINE_NUMBER = re.compile(r"(?<=, line )\d{1,5}")
_LONG_HEX = re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,40}\b")
_WORD = re.compile(r"[A-Za-zÀ-ÿ]{4,20}")
_NUMBER = re.compile(r"(?<![\w.])\d{1,6}(?:\.\d{1,4})?(?![\w.])")
_RUNNING_WORLD = re.compile(r"weather|forecast|exchange|quote|traffic")
_WORDS = (
    "amber", "basalt", "cedar", "drift", "ember", "fennel", "garnet", "harbour", "indigo",
    "juniper", "kestrel", "lantern", "meadow", "nettle", "orchard", "pebble", "quarry",
)  # fmt: skip


def variations(sample: Sample) -> Iterator[Variation]:
    """Give what the answer of a tool can be varied in."""
    if not sample.case.recorded.strip():
        return
    dice = sample.random()
    given = arguments_of(sample)
    yield from _metadata(sample, dice)
    yield from _content(sample, dice)
    yield Variation("outcome_swapped", _swapped(sample, given))
    yield from _values(sample, dice, given)
    yield from _dropped(sample, dice, given)
    yield from _forms(sample.case.recorded, sample.case.action.action_name or "tool")


def arguments_of(sample: Sample) -> list[str]:
    """Return the plain values of a call that a person would expect to come back."""
    try:
        call = json.loads(sample.case.action.action)
    except ValueError:
        return []
    arguments = call.get("arguments") if isinstance(call, dict) else None
    values = arguments.values() if isinstance(arguments, dict) else []
    return [str(v) for v in values if isinstance(v, str | int) and not isinstance(v, bool)]


def known_text(sample: Sample) -> str:
    """Return everything that was said before the answer."""
    case = sample.case
    past = [text for turn in case.history for text in (turn.action, turn.observation or "")]
    return "\n".join([*past, case.action.action, case.task or "", case.initial_state or ""])


def redrawn(text: str, dice: random.Random) -> str:
    """Return a time stamp or hexadecimal number with other digits of the same range.

    >>> len(redrawn("2026-01-05T10:00:00", random.Random(1)))
    19
    """
    if _STAMP.fullmatch(text):
        clock = ":".join(f"{dice.randrange(n):02}" for n in (24, 60, 60))
        day = f"2025-{dice.randrange(1, 13):02}-{dice.randrange(1, 29):02}"
        return clock if len(text) == 8 else f"{day}{text[10]}{clock}"
    if not text.isalnum() or text.isdigit():
        return re.sub(r"\d+", lambda found: str(dice.randrange(10, 250)), text)
    drawn = "".join(dice.choice("0123456789") if c.isdigit() else c for c in text[:-2])
    return drawn + dice.choice("abcdef") + dice.choice("0123456789")


def _metadata(sample: Sample, dice: random.Random) -> Iterator[Variation]:
    recorded, known = sample.case.recorded, known_text(sample)
    text = recorded
    for pattern in (_STAMP, _LONG_HEX, _ADDRESS, _LINE_NUMBER):
        for found in sorted(set(pattern.findall(recorded))):
            if found not in known:
                text = text.replace(found, redrawn(found, dice))
    if _RUNNING_WORLD.search(sample.case.action.action_name or ""):
        for found in re.findall(r"\b\d{1,3}(?=°|C\b|F\b)", recorded):
            # A tenth up or down is within what a running world moves.
            moved = max(1, int(found) // 10) * dice.choice((-1, 1))
            text = text.replace(found, str(int(found) + moved))
    if text != recorded:
        yield Variation("metadata_redrawn", text)


def changed(text: str, dice: random.Random) -> str:
    """Return a value with one sign of it changed.

    >>> changed("AB", random.Random(1)) != "AB"
    True
    """
    places = [n for n, sign in enumerate(text) if sign.isdigit()] or [
        n for n, sign in enumerate(text) if sign.isalpha()
    ]
    place = dice.choice(places)
    if text[place].isdigit():
        new = dice.choice([d for d in "123456789" if d != text[place]])
    else:
        new = dice.choice([c for c in "bdgkmprtvz" if c != text[place].lower()])
        new = new.upper() if text[place].isupper() else new
    return text[:place] + new + text[place + 1 :]


def _replace_whole(text: str, old: str, new: str, count: int = 0) -> str:
    return re.sub(rf"(?<!\w){re.escape(old)}(?!\w)", lambda _: new, text, count=count)


def _content(sample: Sample, dice: random.Random) -> Iterator[Variation]:
    """Give other words and numbers in answers that hold what nobody saw before."""
    recorded, known = sample.case.recorded, known_text(sample)
    value = _json(recorded)
    if sample.case.error is not None or _says_failure(recorded, value):
        return
    text = recorded
    if value is not None:
        leaves = list(_plain_values(value))
        keys = set(_keys(value))
        words = {word for leaf in leaves if " " in str(leaf) for word in _WORD.findall(str(leaf))}
        for word in sorted(words):
            if word.lower() not in known.lower() and word not in keys:
                new = dice.choice(_WORDS)
                text = _replace_whole(text, word, new.title() if word[0].isupper() else new)
        fresh = not sample.case.history and not re.search(r":\s?-?\d", sample.case.action.action)
        numbers = (
            {str(leaf) for leaf in leaves if isinstance(leaf, int | float)} if fresh else set()
        )
        for number in sorted(numbers, key=lambda one: (-len(one), one)):
            if len(number) > 1 and _NUMBER.fullmatch(number):
                text = _replace_whole(text, number, changed(number, dice))
    elif not sample.case.history and "," in recorded and "\n" in recorded:
        rows = list(csv.reader(io.StringIO(recorded)))
        cells = {cell for row in rows[1:] for cell in row if _NUMBER.fullmatch(cell)}
        for number in sorted(cells, key=lambda one: (-len(one), one)):
            if len(number) > 1:
                text = _replace_whole(text, number, changed(number, dice))
        last = recorded.rstrip("\n").rpartition("\n")[2]
        new = re.sub(r"\w*\d\w*", lambda found: changed(found.group(), dice), last)
        yield Variation("content_varied", f"{recorded.rstrip()}\n{new}\n")
    elif not sample.case.history:
        for number in sorted(set(re.findall(r"(?<![\w.])\d\d(?= pieces)", recorded))):
            text = _replace_whole(text, number, changed(number, dice))
    if text != recorded:
        yield Variation("content_varied", text)


def _swapped(sample: Sample, given: list[str]) -> str:
    """Return an error for a success, or the reverse, in the tool's own style."""
    recorded, name = sample.case.recorded, sample.case.action.action_name or "tool"
    subject = given[0] if given else name
    value = _json(recorded)
    failed = sample.case.error is not None or _says_failure(recorded, value)
    if isinstance(value, dict) and {"error", "response"} == set(value):
        if failed:
            return json.dumps({"error": "", "response": f"{{'id': '{subject}', 'found': True}}"})
        return json.dumps({"error": "Timeout error...Read timed out.", "response": ""})
    if isinstance(value, dict) and "isError" in value:
        message = f"Error executing tool {name}: no entry {subject}"
        part = {"text": message, "type": "text"}
        return json.dumps({"content": [part], "isError": True}, separators=(",", ":"))
    if failed:
        return f"{subject}: done, 1 entry"
    if isinstance(value, dict) and value.get("success") is True:
        return json.dumps({"success": False, "error": f"{name} failed for {subject}"})
    return f"Error executing tool {name}: no entry {subject}"


def _says_failure(recorded: str, value: Any) -> bool:
    if isinstance(value, dict):
        if "isError" in value:
            return value["isError"] is True
        if value.get("error"):
            return True
        response = str(value.get("response", ""))
        return "'success': False" in response or "'status': 400" in response
    return re.match(r"\s*(?:\w*error|Traceback|boom)", recorded, re.IGNORECASE) is not None


def _derivable(sample: Sample, given: list[str]) -> list[str]:
    """Return values of the answer that the call or the last word on its subject determines."""
    recorded = sample.case.recorded
    found = [v for v in given if len(v) >= 2 and _stands_alone(v, recorded)]
    subjects = [v for v in found if re.search(r"\d", v) and len(v) >= 4]
    for turn in reversed(sample.case.history):
        seen = turn.observation or ""
        if subjects and any(_whole(subject, seen) for subject in subjects):
            pairs = re.findall(r"(\w+\W{1,4})(\d[\d.]*\d)\b", seen)
            found += [n for key, n in pairs if "status" not in key and key + n in recorded]
            break
    if (total := _computed(sample)) is not None:
        found.append(total)
    lines = {line for t in sample.case.history for line in (t.observation or "").split("\n")}
    for line in recorded.split("\n"):
        if len(line) >= 12 and line in lines:
            found += [n for n in _NUMBER.findall(line) if len(n) >= 2]
    return list(dict.fromkeys(found))


def _computed(sample: Sample) -> str | None:
    """Return the sum that a change of stock must come to."""
    value = _json(sample.case.recorded)
    if isinstance(value, dict) and {"before", "after"} <= set(value):
        return str(value["after"])
    return None


def _whole(value: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text) is not None


def _stands_alone(value: str, text: str) -> bool:
    """Return whether a value stands in a text as more than a piece of an address or path."""
    return re.search(rf"(?<![\w/.-]){re.escape(value)}(?![\w/-]|\.\w)", text) is not None


def _values(sample: Sample, dice: random.Random, given: list[str]) -> Iterator[Variation]:
    recorded = sample.case.recorded
    values = _derivable(sample, given)
    for old in dice.sample(values, min(2, len(values))):
        if old == _computed(sample):
            new = str(int(old) + dice.choice((1, 2, 5)))
            yield Variation("value_changed", re.sub(r'("after": )\d+', rf"\g<1>{new}", recorded))
        else:
            yield Variation("value_changed", _replace_whole(recorded, old, changed(old, dice)))


def _dropped(sample: Sample, dice: random.Random, given: list[str]) -> Iterator[Variation]:
    """Give answers without a part that the call, or an earlier answer, says must be there."""
    recorded = sample.case.recorded
    value = _json(recorded)
    seen = [turn.observation or "" for turn in sample.case.history]
    if isinstance(value, dict):
        keys = [
            key
            for key, item in value.items()
            if str(item) in given or any(f'"{key}":' in text for text in seen)
        ]
        if keys and len(value) > 1:
            key = dice.choice(keys)
            yield Variation(
                "lines_dropped", _dump({k: v for k, v in value.items() if k != key}, recorded)
            )
    elif value is None:
        lines = recorded.split("\n")
        old = {line for text in seen for line in text.split("\n")}
        known = [n for n, line in enumerate(lines) if len(line) >= 8 and line in old]
        if known and len([line for line in lines if line.strip()]) > 1:
            drop = set(dice.sample(known, max(1, len(known) // 3)))
            kept = [line for n, line in enumerate(lines) if n not in drop]
            yield Variation("lines_dropped", "\n".join(kept))


def _forms(recorded: str, name: str) -> Iterator[Variation]:
    value = _json(recorded)
    yield Variation("other_format", f"```\n{recorded.rstrip()}\n```")
    if isinstance(value, dict) and value:
        yield Variation("other_format", "\n".join(f"{k}: {_scalar(v)}" for k, v in value.items()))
        told = ", and ".join(f"the {k} is {_scalar(v)}" for k, v in value.items())
        yield Variation("other_format", f"The tool {name} answered that {told}.")
        bullets = "\n".join(f"- **{k}**: {_scalar(v)}" for k, v in value.items())
        yield Variation("other_format", f"## Result of {name}\n\n{bullets}")
    elif isinstance(value, list) and value:
        yield Variation("other_format", "\n".join(f"- {_scalar(item)}" for item in value))
    elif value is None:
        lines = [line for line in recorded.split("\n") if line.strip()]
        if len(lines) > 1 and all("," in line for line in lines):
            rows = list(csv.reader(lines))
            table = ["| " + " | ".join(row) + " |" for row in rows]
            table.insert(1, "|" + " --- |" * len(rows[0]))
            yield Variation("other_format", "\n".join(table))
            objects = [dict(zip(rows[0], row, strict=False)) for row in rows[1:]]
            yield Variation("other_format", json.dumps(objects, indent=2))
        else:
            yield Variation("other_format", json.dumps({"result": recorded}))


def _scalar(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _json(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict | list) else None


def _dump(value: Any, like: str) -> str:
    if "\n  " in like:
        return json.dumps(value, indent=2, ensure_ascii=False)
    tight = '":' in like and '": ' not in like
    return json.dumps(value, separators=(",", ":") if tight else None)


def _opened(value: Any) -> Any:
    """Return the value that a text holds as JSON or as Python writes it, or the value itself."""
    if not isinstance(value, str):
        return value
    inner = _json(value)
    if inner is None and value.startswith(("{'", "[{'")):
        with suppress(ValueError, SyntaxError):
            inner = ast.literal_eval(value)
    return value if inner is None else inner


def _plain_values(value: Any) -> Iterator[str | int | float]:
    value = _opened(value)
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _plain_values(item)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield value


def _keys(value: Any) -> Iterator[str]:
    value = _opened(value)
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _keys(item)
    if isinstance(value, dict):
        yield from value
