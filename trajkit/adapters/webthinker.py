"""WebThinker and Search-o1 runs: one growing output with `<|begin_search_query|>` tokens.

Defined by the WebThinker project's saved states: `item` (with `Question`), `prompt`, `output`,
`history`, `search_count`, `finished`, and `web_explorer`, one object (`search_query`, `Input`,
`Output`, `Extracted_info`) for each search that a second model explored. Drift handled here: result
files in which the state is merged with its item (`Question`, `Output`); report mode, whose
`write_section` and `edit_article` have no result and whose `check_article` shows the article.

Traps: `prompt` ends in the output, and `history` is the output in pieces: both are copies and left
out. A result is what the explorer extracted, not what the search engine said; the explorer's own
searches and clicks are a sub-agent's episode each, with the run as parent. The harness's own word
that a query was searched before is a result, too.

Smallest shape: {"item": {"Question": "..."}, "output": "<|begin_search_query|>q<|end_search_query|>
<|begin_search_result|>r<|end_search_result|>"}
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from trajkit.adapters import Adapter
from trajkit.adapters.chat_rows import from_folded
from trajkit.adapters.fields import first_text, mapping, mappings, no_action, text
from trajkit.adapters.marked_text import Mark, marked_messages
from trajkit.adapters.messages import Message, fold
from trajkit.model import Record, Reject, Trajectory


def _ends(name: str) -> tuple[str, str]:
    return f"<|begin_{name}|>", f"<|end_{name}|>"


_MARKS = (
    Mark("<think>", "</think>", "thought"),
    Mark(*_ends("search_query"), "call", "search", "query"),
    Mark(*_ends("search_result"), "result"),
    Mark(*_ends("click_link"), "call", "visit", "url"),
    Mark(*_ends("click_result"), "result"),
    Mark(*_ends("write_section"), "call", "write_section", "text"),
    Mark(*_ends("edit_article"), "call", "edit_article", "text"),
    Mark(*_ends("check_article"), "view", "check_article"),
)
_OUTPUTS = ("output", "Output")


def detect(value: Any) -> bool:
    """Return whether a value is a saved state with searches in its output."""
    return (
        isinstance(value, dict)
        and ("item" in value or "Question" in value)
        and any(isinstance(value.get(k), str) and _MARKS[1].opening in value[k] for k in _OUTPUTS)
    )


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the episode of a run, then one for each search that was explored."""
    state = record.value
    item = mapping(state.get("item")) or state
    output = next((state[k] for k in _OUTPUTS if isinstance(state.get(k), str)), "")
    for copied in ("prompt", "history"):
        if state.get(copied):
            record.ledger.left_out(copied, "repeated_prefix")
    key = record.origin.key or "$"
    asked = first_text([item], "Question", "question")
    meta = {
        "answer": first_text([item], "answer", "Correct Answer"),
        "prediction": first_text([state, item], "Pred_Answer"),
        "finished": state.get("finished"),
        "search_count": state.get("search_count"),
        "error": text(state.get("error")),
        "article": text(state.get("article")),
    }
    acted = False
    for found in _run(record, key, "output", output, asked, {"meta": meta}):
        acted = isinstance(found, Trajectory)
        yield found
    for number, explored in enumerate(mappings(state.get("web_explorer"))):
        words = explored.get("Output")
        name = f"{key}.web_explorer[{number}]"
        query = text(explored.get("search_query"))
        if isinstance(words, str) and "<|begin_" in words:
            told = {
                "system": text(explored.get("Input")),
                "parent_key": key if acted else None,
                "meta": {"extracted_info": text(explored.get("Extracted_info"))},
            }
            yield from _run(record, name, name, words, query, told)
        else:
            # It read the results and called nothing: what it said is the main run's observation.
            record.ledger.left_out(name, "no_action")


def _run(
    record: Record, key: str, name: str, output: str, asked: str | None, told: dict[str, Any]
) -> Iterator[Trajectory | Reject]:
    part = replace(record, origin=replace(record.origin, key=key))
    opening: list[Message] = []
    if told.get("system"):
        opening.append(Message(role="system", text=told["system"]))
    if asked:
        opening.append(Message(role="user", text=asked))
    folded = fold([*opening, *marked_messages(output, _MARKS, record.ledger, name)], record.ledger)
    if not folded.acts:
        yield no_action(part)
        return
    fields = {"domain": "search", "parent_key": told.get("parent_key")}
    yield from_folded(part, ADAPTER.name, folded, told["meta"], fields)


ADAPTER = Adapter(
    name="webthinker",
    title="WebThinker and Search-o1 runs",
    domains=("search",),
    detect=detect,
    extract=extract,
)
