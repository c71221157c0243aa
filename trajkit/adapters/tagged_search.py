"""Search agents in tagged text: Search-R1, WebDancer, WebSailor, Tongyi DeepResearch.

Two shapes. **Search-R1** writes one string: `<think>`, `<search>` query `</search>`, then
`<information>` result `</information>`, at last `<answer>`, all inside the assistant's turn; as
text files with the marks of a chat template, one or many episodes in each, or as rows of a
trainer's dump (`input`, `output`, `score`). **WebDancer and its successors** are chats with
`<tool_call>` and `<tool_response>`: data rows of `type`, `messages`, `functions`, `answer`, `tag`,
and inference rows of `question`, `answer`, `messages` (older: `rollout`), `prediction`,
`termination`.

Traps: the prompt itself holds example tags, so it is never searched for calls. `<|im_start|>`
inside a result is text, not a turn. A call whose JSON is malformed is not valid and its answer is
the harness's; so is `My previous action is invalid ... Let me try again.`, which Search-R1 puts
into the agent's own words. Python stands in `<code>` beside the call's JSON. One response holds the
results of a whole array of queries, since it answers one call. `answer` in a row is the reference,
and `termination` the harness's word for the end; neither says whether the run succeeded.

Smallest shape: "<|im_start|>user\\n...<|im_end|>\\n<|im_start|>assistant\\n<search> q </search>
<information>...</information><answer> a </answer>"
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from trajkit.adapters import Adapter
from trajkit.adapters.chat_rows import LISTS, episode, read, said
from trajkit.adapters.fields import first_text, quantity, text
from trajkit.adapters.hermes import declared_tools, is_search_row, is_tagged, tagged_messages
from trajkit.adapters.marked_text import Mark, marked_messages
from trajkit.adapters.messages import Message, tools_text
from trajkit.model import Record, Reject, Trajectory

MARKS = (
    Mark("<think>", "</think>", "thought"),
    Mark("<search>", "</search>", "call", "search", "query"),
    Mark("<information>", "</information>", "result"),
    Mark("<answer>", "</answer>", "answer"),
    Mark("My previous action is invalid.", "Let me try again.", "feedback"),
)
_CHATS = (*LISTS, "rollout")
_OUTPUTS = ("output", "response", "sequence", "sequences_str", "text", "generation")
_PROMPTS = ("input", "prompt")
_TURN = re.compile(r"<\|im_start\|>(system|user|assistant)\n")
_QUESTION = re.compile(r".*(?:\n\nUser:|\bQuestion:)\s*(.*)\Z", re.DOTALL)


def detect(value: Any) -> bool:
    """Return whether a value is a text, or a row with a text or a chat, of a search agent."""
    if isinstance(value, str):
        return "<|im_start|>assistant\n" in value and _is_marked(value)
    if not isinstance(value, dict):
        return False
    if any(isinstance(value.get(key), str) and _is_marked(value[key]) for key in _OUTPUTS):
        return True
    return is_search_row(value) and is_tagged(value, *_CHATS)


def _is_marked(words: str) -> bool:
    """Return whether an agent's own words search; a prompt alone names the tags, too."""
    _, mark, own = words.partition("<|im_start|>assistant")
    own = own if mark else words
    return "<search>" in own and "<information>" in own


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the episodes of a text, or the one of a row."""
    if isinstance(record.value, str):
        for number, words in enumerate(_episodes(record.value)):
            key = f"[{number}]" if number or words != record.value else record.origin.key
            part = replace(record, origin=replace(record.origin, key=key))
            yield from _marked(part, {}, words, f"text {number}")
        return
    row = record.value
    output = next((row[k] for k in _OUTPUTS if isinstance(row.get(k), str)), None)
    if output is not None and _is_marked(output):
        yield from _marked(record, row, output, "text")
        return
    found = read(record, _CHATS)
    tools = declared_tools(said(found, "system", "user")) or tools_text(row.get("functions"))
    yield from episode(
        record,
        ADAPTER.name,
        tagged_messages(found),
        domain="search",
        task=text(row.get("question")) or _task(next(said(found, "user"), "")),
        action_space=tools,
        model=text(row.get("model")),
        exit_status=text(row.get("termination")),
        meta=_meta(row),
    )


def _marked(
    record: Record, row: dict[str, Any], output: str, name: str
) -> Iterator[Trajectory | Reject]:
    """Give the episode of one marked text and the prompt before it."""
    turns = list(_turns(first_text([row], *_PROMPTS) or "")) + list(_turns(output, "assistant"))
    messages: list[Message] = []
    for number, (role, words) in enumerate(turns):
        if role == "assistant":
            messages.extend(marked_messages(words, MARKS, record.ledger, f"{name} {number}"))
            continue
        event = (name, number)
        record.ledger.expect([event])
        is_system = role == "system"
        messages.append(
            Message(role="system" if is_system else "user", text=words.strip(), event=event)
        )
    asked = next((words for role, words in turns if role == "user"), "")
    score = next((row[k] for k in ("score", "reward") if quantity(row.get(k)) is not None), None)
    yield from episode(
        record,
        ADAPTER.name,
        messages,
        domain="search",
        task=text(row.get("question")) or _task(asked),
        reward=None if score is None else float(score),
        meta=_meta(row),
    )


def _episodes(words: str) -> list[str]:
    """Return the text of each episode: a new one begins where a system prompt or a user speaks."""
    heads = _heads(words)
    first = next((role for role, _, _ in heads), None)
    starts = [start for role, start, _ in heads if role == first and role != "assistant"]
    if len(starts) < 2:
        return [words]
    return [words[a:b] for a, b in zip(starts, [*starts[1:], len(words)], strict=True)]


def _heads(words: str) -> list[tuple[str, int, int]]:
    """Return role, start and end of the marks that open a turn; those inside a result do not."""
    heads: list[tuple[str, int, int]] = []
    at = 0
    found = _TURN.search(words)
    while found is not None:
        result = words.find("<information>", at, found.start()) if _acts(heads) else -1
        if result < 0:
            heads.append((found[1], found.start(), found.end()))
            at = found.end()
        else:
            at = result + len("<information>")
            following = words.find("<information>", at)
            closing = words.find("</information>", at, following if following >= 0 else None)
            at = closing if closing >= 0 else at
        if found.start() < at:
            found = _TURN.search(words, at)
    return heads


def _acts(heads: list[tuple[str, int, int]]) -> bool:
    return bool(heads) and heads[-1][0] == "assistant"


def _turns(words: str, role: str = "user") -> Iterator[tuple[str, str]]:
    """Give role and words of each turn; what stands before the first mark is of `role`."""
    heads = _heads(words)
    before = _ended(words[: heads[0][1] if heads else len(words)])
    if before:
        yield role, before
    ends = [start for _, start, _ in heads[1:]] + [len(words)]
    for (speaker, _, start), end in zip(heads, ends, strict=False):
        yield speaker, _ended(words[start:end])


def _ended(words: str) -> str:
    """Return the words of a turn without the marks that end it."""
    return words.rstrip().removesuffix("<|endoftext|>").removesuffix("<|im_end|>")


def _task(asked: str) -> str | None:
    """Return the question at the end of a prompt full of rules, else the prompt."""
    match = _QUESTION.match(asked)
    return (match[1] if match and match[1] else asked).strip() or None


def _meta(row: dict[str, Any]) -> dict[str, Any]:
    kept = ("answer", "gts", "prediction", "tag", "task", "step", "rollout_id", "id", "time")
    return {key: row.get(key) for key in kept}


ADAPTER = Adapter(
    name="tagged-search",
    title="Search agents in tagged text: Search-R1, WebDancer, WebSailor, DeepResearch",
    domains=("search",),
    detect=detect,
    extract=extract,
)
