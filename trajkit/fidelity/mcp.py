"""Rule checks of tool answers: JSON shape, types, success, identifiers, known values, numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache

from trajkit.fidelity.compare import compare
from trajkit.fidelity.content import MAX_HISTORY_CHARS, agreement, mask, shape
from trajkit.fidelity.findings import GUARD, Case, Finding, Turn, finding
from trajkit.fidelity.json_shape import Answer, Leaf, kind, plain_text, read_answer
from trajkit.fidelity.known_values import (
    arguments,
    check_given,
    check_given_in_text,
    check_records,
    check_repeat,
    check_sums,
    strict,
    told_before,
)
from trajkit.fidelity.moving import check_moving_numbers, check_numbers_in_text
from trajkit.fidelity.outcome import check_outcome, error_kinds, exit_code

FEW_KEYS = 6
SHORT_TEXT_CHARS = 200
LIKE_SHARE = 0.4
"""Share of the words of the shorter of two short texts that, in common, makes them alike."""
MIN_KNOWN_LINE_CHARS = 8
"""A shorter line may stand in two answers by chance."""

_ERROR_KEY = re.compile(r"/(?:error|errors|isError|is_error|exception|traceback)(?:/|\Z)")
_ERROR_TEXT = re.compile(
    r"\s*(?:\[?\w{0,40}error\b|mcp error|\w{0,40}exception\b|traceback\b|failed\b|"
    r"invalid\b|unknown tool|tool .{1,80} not found|input validation error|"
    r"\d+ validation errors? for)",
    re.IGNORECASE,
)
_STATUS = re.compile(r"(?:http_?)?status(?:_?code)?\Z", re.IGNORECASE)
_LETTERS = re.compile(r"[^\W\d_]+")
_WORD = re.compile(r"[\w.@:/-]{3,200}")


def fails(text: str, found: Sequence[tuple[str, Leaf]]) -> bool:
    """Return whether a tool answer reports a failure, by its keys or by its first words."""
    for pointer, value in found:
        # An empty text, list or object of errors is no failure.
        if _ERROR_KEY.search(pointer) and value not in (None, False, "", 0):
            return True
        name = pointer.rpartition("/")[2]
        if name in ("success", "ok") and value is False:
            return True
        if _STATUS.match(name) and pointer.count("/") <= 3:
            if isinstance(value, str) and value.lower() in ("error", "failed"):
                return True
            if isinstance(value, int) and 400 <= value < 600:
                return True
        if name == "text" and isinstance(value, str) and _ERROR_TEXT.match(value[:200]):
            return True
    return not found and _ERROR_TEXT.match(text[:200]) is not None


def check(case: Case) -> Iterator[Finding]:
    """Give what the rules see in a tool answer."""
    truth, guess = read_answer(case.recorded), read_answer(case.prediction)
    if truth.form == "json":
        yield finding(
            "not_json",
            "format",
            float(guess.form == "json"),
            "JSON",
            "JSON" if guess.form == "json" else case.prediction,
            weight=GUARD,
            blocking=True,
        )
    if exit_code(case.recorded) is not None:
        yield from check_outcome(case, case.recorded, case.prediction)
    else:
        yield from _outcome(case, truth, guess)
    if truth.form == "json" and guess.form != "json":
        return
    yield from check_repeat(case)
    if truth.leaves:
        yield from _shape(case, truth, guess)
        yield from _values(case, truth, guess)
    if truth.form != "json":
        yield from _text(case, truth)


def _outcome(case: Case, truth: Answer, guess: Answer) -> Iterator[Finding]:
    failed, got_failed = fails(case.recorded, truth.leaves), fails(case.prediction, guess.leaves)
    yield finding(
        "wrong_exit_class",
        "factuality",
        float(failed == got_failed),
        "an error" if failed else "success",
        "an error" if got_failed else "success",
        weight=GUARD,
        blocking=True,
    )
    if failed and got_failed:
        kinds, got_kinds = _error_class(case.recorded, truth), _error_class(case.prediction, guess)
        if kinds:
            yield finding(
                "wrong_error_kind",
                "factuality",
                len(kinds & got_kinds) / len(kinds),
                ", ".join(sorted(kinds)),
                ", ".join(sorted(got_kinds)) or "another error",
            )


def _error_class(text: str, answer: Answer) -> frozenset[str]:
    """Return what an error says of its kind: status numbers, and the signs of its text."""
    codes = {
        str(value)
        for pointer, value in answer.leaves
        if _STATUS.match(pointer.rpartition("/")[2]) and value is not None
    }
    return error_kinds(text) | codes


def _shape(case: Case, truth: Answer, guess: Answer) -> Iterator[Finding]:
    pointers, got_pointers = {p for p, _ in truth.leaves}, {p for p, _ in guess.leaves}
    lacking = sorted(pointers - got_pointers)
    extra = sorted(got_pointers - pointers)
    # Of an object of few keys, each is one that a caller counts on.
    hollow = len(pointers) <= FEW_KEYS and 3 * len(lacking) >= len(pointers)
    yield finding(
        "wrong_shape",
        "format",
        0.0 if hollow else agreement(Counter(pointers), Counter(got_pointers)),
        ", ".join(lacking) or "the same keys",
        ", ".join(extra) or "nothing more",
        weight=3.0,
        blocking=True,
    )
    required = (pointers | _topmost(pointers)) & _keys_before(case)
    if required:
        lost = sorted(required - got_pointers - _topmost(got_pointers))
        yield finding(
            "missing_key",
            "format",
            strict(len(lost), len(required)),
            lost[0] if lost else "the keys of earlier answers",
            f"{len(lost)} of {len(required)} are missing",
            blocking=True,
        )
    types, got_types = _types(truth.leaves), _types(guess.leaves)
    common = types.keys() & got_types.keys()
    if common:
        wrong = sorted(p for p in common if not types[p] & got_types[p] and types[p] != {"null"})
        yield finding(
            "wrong_type",
            "format",
            1 - len(wrong) / len(common),
            f"{wrong[0]}: {', '.join(sorted(types[wrong[0]]))}" if wrong else "the same types",
            f"{wrong[0]}: {', '.join(sorted(got_types[wrong[0]]))}" if wrong else "the same types",
        )
    size, got_size = len(truth.leaves), len(guess.leaves)
    yield finding(
        "wrong_count",
        "quality",
        (min(size, got_size) + 2) / (max(size, got_size) + 2),
        f"{size} values",
        f"{got_size} values",
        content_class="pre_existing",
    )


def _keys_before(case: Case) -> set[str]:
    """Return the pointers that an answer has for having had them before.

    Those are the pointers of earlier answers of the same tool, and the topmost keys that most
    objects of the session have: a frame of the server's.
    """
    required: set[str] = set()
    frames: Counter[str] = Counter()
    n_answers = 0
    for turn in case.history[-20:]:
        answer = read_answer(turn.observation or "")
        if answer.form == "json":
            pointers = {pointer for pointer, _ in answer.leaves}
            if "/*" not in _topmost(pointers):
                frames.update(_topmost(pointers))
                n_answers += 1
            if turn.action_name == case.action.action_name:
                required |= pointers
    return required | {pointer for pointer, n in frames.items() if 2 * n > n_answers}


def _topmost(pointers: set[str]) -> set[str]:
    return {"/" + pointer.split("/", 2)[1] for pointer in pointers if pointer}


def _types(found: Sequence[tuple[str, Leaf]]) -> dict[str, set[str]]:
    types: dict[str, set[str]] = {}
    for pointer, value in found:
        types.setdefault(pointer, set()).add(kind(value))
    return types


def _values(case: Case, truth: Answer, guess: Answer) -> Iterator[Finding]:
    """Give whether values from the call, from earlier answers and of the running world agree."""
    yield from check_given(case, truth.leaves, guess.leaves)
    yield from check_records(case, truth.records, guess.records, told_before(case.history))
    yield from check_sums(case, truth.leaves, guess.leaves)
    words = _words_before(case.history, case.initial_state)
    known: Counter[tuple[str, str]] = Counter()
    new: list[tuple[str, Leaf]] = []
    for pointer, value in truth.leaves:
        text = plain_text(value)
        if text is not None and text in words:
            known[pointer, text] += 1
        else:
            new.append((pointer, value))
    if known:
        lost = known - Counter((p, t) for p, v in guess.leaves if (t := plain_text(v)) is not None)
        pointer, shown_value = next(iter(lost or known))
        yield finding(
            "unlike_earlier",
            "consistency",
            1 - lost.total() / known.total(),
            f"{pointer}: {shown_value}",
            f"{lost.total()} of {known.total()} values differ",
            weight=2.0,
        )
    yield from check_moving_numbers(new, guess.leaves)
    yield from _text_sizes(new, guess.leaves)


@lru_cache(maxsize=4)
def _words_before(history: tuple[Turn, ...], initial_state: str | None) -> frozenset[str]:
    """Return the words and the values of earlier answers and calls, newest first up to a bound."""
    words: set[str] = set(_WORD.findall((initial_state or "")[:MAX_HISTORY_CHARS]))
    left = MAX_HISTORY_CHARS
    for turn in reversed(history):
        for text in (turn.observation or "", turn.action):
            left -= len(text)
            if left < 0:
                return frozenset(words)
            words.update(_WORD.findall(text))
        words.update(value for _, value in arguments(turn.action))
        told = read_answer(turn.observation or "").records
        words.update(value for one in told for value in one.values.values() if len(value) >= 2)
    return frozenset(words)


@lru_cache(maxsize=4)
def _lines_before(history: tuple[Turn, ...]) -> frozenset[str]:
    lines: set[str] = set()
    left = MAX_HISTORY_CHARS
    for turn in reversed(history):
        left -= len(turn.observation or "")
        if left < 0:
            break
        lines.update(line.strip() for line in (turn.observation or "").split("\n"))
    return frozenset(line for line in lines if len(line) >= MIN_KNOWN_LINE_CHARS)


def _text(case: Case, truth: Answer) -> Iterator[Finding]:
    """Give whether a text keeps what is known, and is like the recorded one in what is not."""
    before = _lines_before(case.history)
    wanted = Counter(line for line in map(str.strip, case.recorded.split("\n")) if line in before)
    if wanted:
        lost = wanted - Counter(map(str.strip, case.prediction.split("\n")))
        yield finding(
            "lost_line",
            "factuality",
            strict(lost.total(), wanted.total()),
            next(iter(lost or wanted)),
            f"{lost.total()} of {wanted.total()} lines told before are missing",
            weight=2.0,
            blocking=True,
        )
    yield from check_given_in_text(case)
    if truth.form != "csv":
        yield from compare(case, case.recorded, case.prediction)
        yield from check_numbers_in_text(case)
        yield from _short_text(case)


def _short_text(case: Case) -> Iterator[Finding]:
    """Give whether a short answer shares a word with the recorded one, beside those of the call.

    The rest of an answer in a few words is what happened: there is no body to be made up.
    """
    if len(case.recorded) > SHORT_TEXT_CHARS:
        return
    call = {word for _, value in arguments(case.action.action) for word in _words(value)}
    call |= _words((case.action.action_name or "").replace("_", " "))
    words, got_words = (_words(side) - call for side in (case.recorded, case.prediction))
    common = len(words & got_words) / max(1, min(len(words), len(got_words)))
    alike = shape(case.recorded) == shape(case.prediction) and not (words or got_words)
    yield finding(
        "unlike_text",
        "factuality",
        1.0 if alike else common / LIKE_SHARE,
        case.recorded,
        case.prediction,
        content_class="pre_existing",
        blocking=True,
    )


def _words(text: str) -> set[str]:
    return set(_LETTERS.findall(text.lower()))


def _text_sizes(
    new: Sequence[tuple[str, Leaf]], got: Sequence[tuple[str, Leaf]]
) -> Iterator[Finding]:
    texts = [value for _, value in new if isinstance(value, str)]
    got_texts = [value for _, value in got if isinstance(value, str)]
    if texts and got_texts:
        size = sum(map(len, texts)) / len(texts)
        got_size = sum(map(len, got_texts)) / len(got_texts)
        yield finding(
            "unlike_texts",
            "realism",
            min(1.0, 2 * (min(size, got_size) + 10) / (max(size, got_size) + 10)),
            mask(texts[0][:1000]),
            mask(got_texts[0][:1000]),
            content_class="pre_existing",
        )
