"""Berkeley Function-Calling Leaderboard result files, versions 3 and 4: JSON lines named `.json`.

Defined by the leaderboard's `base_handler`. A result row has an `id` that names its category, the
`result`, counts and times; multi-turn rows also have the `inference_log` that tells what the tools
answered. Questions lie in a file of their own (`BFCL_v4_<category>.json`); where it stands beside
the result file (`BFCL_v4_<category>_result.json`), the two are read together.

Drift and traps handled here: a function-calling model's result is a list of objects of one name
and its arguments as JSON text; a prompted model's is text, and what was run of it stands in the
handler's log as Python calls, which are kept as they are. Results have no ids and follow the order
of the calls. A turn that withholds a function begins with the harness's words, logged as a user's.
Single-turn calls are never run, so they have no observation. The state of the tools is logged
before the first turn (kept) and after each (left out). An error of inference stands in `result`.
Questions, answers and scores alone are no episodes.

Smallest shape: {"id": "multi_turn_base_0", "result": [[[{"ls": "{}"}]]], "inference_log": [
{"begin_of_turn_query": [{"role": "user", "content": "..."}], "step_0": [{"role": "assistant",
"content": [{"ls": "{}"}]}, {"role": "tool", "content": "..."}]}]}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from trajkit.adapters import Adapter
from trajkit.adapters.fields import first_text, mapping, mappings, meta_text, text
from trajkit.adapters.messages import Call, Message, fold, make_call, tools_text
from trajkit.ledger import Ledger
from trajkit.model import Bundle, Record, Reject, Trajectory, to_json_text

_FILE = re.compile(r"(.*/)?(BFCL_[\w-]+?)(_result)?\.(json|jsonl)")
_CATEGORIES = (
    *("multi_turn", "simple", "parallel", "multiple", "live", "irrelevance", "relevance", "java"),
    *("rest", "sql", "chatable", "exec", "memory", "web_search", "format_sensitivity"),
)
_COUNTS = {"inference_log", "latency", "input_token_count", "output_token_count"}
_ALONE = {"question": "question_only", "ground_truth": "answer_only", "valid": "score_only"}
_CALLS = re.compile(r"\[?([A-Za-z_][\w.]*)\(.*\)\]?", re.DOTALL)
_FAILED = "Error during inference"
_QUIT = "Model has been forced to quit"


def detect(value: Any) -> bool:
    """Return whether a value is a row of results, questions, answers or scores, or two files."""
    if isinstance(value, Bundle):
        return any(_is_result(row) for name in value.files for row in mappings(value.files[name]))
    row = mapping(value)
    name = row.get("id")
    named = isinstance(name, str) and name.startswith(_CATEGORIES) and name[-1].isdigit()
    return named and (_is_result(row) or _is_question(row) or _is_verdict(row))


def _is_result(row: dict[str, Any]) -> bool:
    return "result" in row and bool(_COUNTS & set(row))


def _is_question(row: dict[str, Any]) -> bool:
    turns = row.get("question")
    return isinstance(turns, list) and bool(turns) and isinstance(turns[0], list)


def _is_verdict(row: dict[str, Any]) -> bool:
    answers = set(row) == {"id", "ground_truth"} and isinstance(row["ground_truth"], list)
    return answers or isinstance(row.get("valid"), bool)


def bundle(path: str) -> str | None:
    """Return the common name of a result file and the question file beside it."""
    match = _FILE.fullmatch(path)
    return None if match is None else f"{match[1] or ''}{match[2]}"


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the episode of every result row, or the reason why one is none."""
    numbers = _Numbers(record.ledger)
    if not isinstance(record.value, Bundle):
        if _is_result(record.value):
            yield _episode(record, record.value, {}, numbers)
        else:
            yield _alone(record, record.value)
        return
    rows = [row for name in record.value.files for row in mappings(record.value.files[name])]
    questions = {str(row.get("id")): row for row in rows if _is_question(row)}
    for row in rows:
        if not _is_result(row):
            continue
        key = str(row.get("id"))
        question = questions.pop(key, {})
        if question:
            numbers.became("context")
        keyed = replace(record, origin=replace(record.origin, key=key))
        yield _episode(keyed, row, question, numbers)
    for _ in questions:
        numbers.left_out("question_only")


def _alone(record: Record, row: dict[str, Any]) -> Reject:
    reason = next(slug for name, slug in _ALONE.items() if name in row)
    what = reason.removesuffix("_only")
    message = f"a row of the {what} file, which does not say what was done"
    return Reject(origin=record.origin, reason=reason, message=message)


@dataclass
class _Numbers:
    """Hands out the numbers of source events."""

    ledger: Ledger
    n_events: int = 0

    def take(self) -> int:
        self.n_events += 1
        self.ledger.expect([self.n_events])
        return self.n_events

    def became(self, fate: Any) -> None:
        self.ledger.became(self.take(), fate)

    def left_out(self, reason: str) -> None:
        self.ledger.left_out(self.take(), reason)


def _episode(
    record: Record, row: dict[str, Any], question: dict[str, Any], numbers: _Numbers
) -> Trajectory | Reject:
    log = row.get("inference_log")
    state = None
    if isinstance(log, list):
        state = _state(log[0]) if log and isinstance(log[0], list) else None
        messages = list(_messages(log, numbers))
    else:
        asked = [turn for turns in question.get("question") or [] for turn in mappings(turns)]
        messages = [*_asked(asked, numbers), _answer(row, numbers.take())]
    folded = fold(messages, numbers.ledger)
    if not folded.acts:
        result = row.get("result")
        failed = isinstance(result, str) and result.startswith(_FAILED)
        return Reject(
            origin=record.origin,
            reason="inference_error" if failed else "no_action",
            message="inference failed" if failed else "an answer without any call",
            pointer="$.result",
        )
    tools = question.get("function") or question.get("involved_classes")
    return Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        domain="mcp",
        model=_model(record.origin.path),
        task=folded.task,
        agent_system_prompt=folded.agent_system_prompt,
        action_space=tools_text(tools),
        initial_state=state,
        exit_status="forced_to_quit" if _was_stopped(log) else None,
        meta=meta_text(
            folded,
            id=row.get("id"),
            involved_classes=question.get("involved_classes"),
            excluded_function=question.get("excluded_function"),
        ),
        steps=folded.steps,
    )


def _model(path: str) -> str | None:
    """Return the folder of a model in the leaderboard's own layout."""
    parts = path.split("/")[:-1]
    return parts[parts.index("result") + 1] if "result" in parts[:-1] else None


def _state(entries: list[Any]) -> str | None:
    states = {str(one.get("class_name")): one.get("content") for one in mappings(entries)}
    return to_json_text(states) if states else None


def _was_stopped(log: Any) -> bool:
    steps = [step for turn in mappings(log) for step in turn.values() if isinstance(step, list)]
    return any(
        str(one.get("content")).startswith(_QUIT) for step in steps for one in mappings(step)
    )


def _asked(turns: list[dict[str, Any]], numbers: _Numbers) -> Iterator[Message]:
    for turn in turns:
        yield Message(
            role="system" if turn.get("role") == "system" else "user",
            text=text(turn.get("content")),
            event=numbers.take(),
        )


def _messages(log: list[Any], numbers: _Numbers) -> Iterator[Message]:
    for place, turn in enumerate(log):
        if isinstance(turn, list):
            for _ in turn:
                if place == 0:
                    numbers.became("context")
                else:
                    numbers.left_out("state_snapshot")
            continue
        yield from _asked(mappings(mapping(turn).get("begin_of_turn_query")), numbers)
        steps = [name for name in mapping(turn) if re.fullmatch(r"step_\d+", name)]
        for name in sorted(steps, key=lambda name: int(name[5:])):
            yield from _step(mappings(turn[name]), numbers)


def _step(entries: list[dict[str, Any]], numbers: _Numbers) -> Iterator[Message]:
    decoded = [entry for entry in entries if "model_response_decoded" in entry]
    ran = decoded[0]["model_response_decoded"] if decoded else None
    for entry in entries:
        role = entry.get("role")
        if role == "assistant":
            calls, said = _calls(entry.get("content"), ran)
            yield Message(
                role="assistant",
                text=said,
                thought=text(entry.get("reasoning_content")),
                calls=calls,
                event=numbers.take(),
            )
        elif role == "tool":
            content = entry.get("content")
            told = content if isinstance(content, str) else to_json_text(content)
            yield Message(role="result", text=told, event=numbers.take())
        elif role in ("handler_log", "inference_input"):
            numbers.left_out(str(role))
        else:
            numbers.left_out("unknown_event")


def _calls(content: Any, ran: Any) -> tuple[tuple[Call, ...], str | None]:
    """Return the calls of a reply, and its text: all of it where what was run is told apart."""
    if isinstance(content, list):
        named = [pair for one in mappings(content) for pair in one.items()]
        return tuple(make_call(name, arguments) for name, arguments in named), None
    said = content if isinstance(content, str) else None
    if not isinstance(ran, list):
        return (), said
    calls = tuple(_code(one) for one in ran if isinstance(one, str))
    # A reply that is nothing but its calls would only be said twice.
    bare = calls and said is not None and _CALLS.fullmatch(said.strip()) is not None
    return calls, None if bare else said


def _code(call: str) -> Call:
    match = _CALLS.fullmatch(call.strip())
    return Call(action=call, name=match[1] if match else None, kind="code")


def _answer(row: dict[str, Any], number: int) -> Message:
    """Return the reply of a single turn, whose calls nobody ran."""
    result = row.get("result")
    thought = first_text([row], "reasoning_content")
    calls, said = _calls(result, None)
    if said is not None and _CALLS.fullmatch(said.strip()):
        calls, said = (_code(said),), None
    return Message(role="assistant", text=said, thought=thought, calls=calls, event=number)


ADAPTER = Adapter(
    name="bfcl",
    title="Berkeley Function-Calling Leaderboard results, versions 3 and 4",
    domains=("mcp",),
    detect=detect,
    extract=extract,
    bundle=bundle,
)
