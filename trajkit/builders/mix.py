"""Professional text that is mixed into continual pre-training: one turn a row, no environment.

A row is `{"text"}`, `{"prompt", "completion"}` or `{"messages"}` with one user and one assistant
message (a system message may stand before them); a file that is no JSON is one text. The loss lies
on the text, the completion, the assistant's message. In examples such a row has the domain `mix`,
the file's name as its source, and a hash of its content as `trajectory_id`, from which its group
follows: equal texts always stand on one side.

Source: Qwen-AgentWorld report, section 3.2 (specialised corpora as single-turn text).
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any

import orjson

from trajkit.control_tokens import escape
from trajkit.inputs import InputFile
from trajkit.readers import FileReader
from trajkit.split import group_name
from trajkit.trainers import Message

DOMAIN = "mix"
CATEGORY = "single_turn"
"""What its characters are counted under in the report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleTurn:
    """A text with loss on its last part; control tokens are broken up."""

    shared: dict[str, Any]
    """The columns that every example row carries."""
    context: str
    """What bears no loss; may be empty."""
    learned: str
    """What bears loss; never empty."""
    messages: tuple[Message, ...]
    """The same as a conversation."""
    n_control_tokens: int


def single_turns(
    files: Sequence[InputFile], seen: Path, counts: Counter[str]
) -> Iterator[SingleTurn]:
    """Give the rows of files, each text once; what cannot be used is counted with its reason.

    `counts` gets `read` and `dropped.REASON` by the time a row is given. Hashes of what was seen
    lie in the file `seen`, made anew: memory does not grow.
    """
    seen.unlink(missing_ok=True)
    with closing(sqlite3.connect(seen, isolation_level=None)) as hashes:
        hashes.execute("pragma journal_mode = off")
        hashes.execute("pragma synchronous = off")
        hashes.execute("create table seen (hash blob primary key) without rowid")
        for file in files:
            source = PurePosixPath(file.origin_path).name
            for row in _rows(file, counts):
                counts["read"] += 1
                parts = _parts(row)
                if isinstance(parts, str):
                    counts[f"dropped.{parts}"] += 1
                    continue
                digest = sha256(orjson.dumps(parts)).digest()
                added = hashes.execute("insert or ignore into seen values (?)", (digest[:16],))
                if not added.rowcount:
                    counts["dropped.mix_duplicate"] += 1
                    continue
                yield _single_turn(parts, digest.hex()[:24], source)
    seen.unlink(missing_ok=True)


def _rows(file: InputFile, counts: Counter[str]) -> Iterator[Any]:
    """Give the rows of a file, a text that is no JSON as a row too."""
    reader = FileReader(file)

    def count_rejects() -> None:
        for reject in reader.take_rejects():
            counts["read"] += 1
            counts[f"dropped.mix_{reject.reason}"] += 1

    for value in reader:
        count_rejects()
        if reader.kind == "text":
            yield {"text": value.value}
        elif reader.is_document and isinstance(value.value, list):
            yield from value.value
        else:
            yield value.value
    count_rejects()


def _parts(row: Any) -> list[str | None] | str:
    """Return system, prompt and answer (null where there is none), or why the row is unusable."""
    if not isinstance(row, Mapping):
        return "mix_no_text"
    if "text" in row:
        given = [row["text"]]
    elif "prompt" in row and "completion" in row:
        given = [row["prompt"], row["completion"]]
    elif isinstance(row.get("messages"), list):
        messages = [m for m in row["messages"] if isinstance(m, Mapping)]
        roles = [message.get("role") for message in messages]
        if roles not in (["user", "assistant"], ["system", "user", "assistant"]):
            return "mix_not_single_turn"
        given = [message.get("content") for message in messages]
    else:
        return "mix_no_text"
    if not all(isinstance(part, str) for part in given):
        return "mix_no_text"
    return [*[None] * (3 - len(given)), *given] if given[-1].strip() else "mix_empty"


def _single_turn(parts: Sequence[str | None], hash_: str, source: str) -> SingleTurn:
    n_control_tokens = 0
    clean: list[str | None] = []
    for part in parts:
        text, n_found = (None, 0) if part is None else escape(part)
        clean.append(text)
        n_control_tokens += n_found
    system, prompt, answer = clean
    messages = []
    if system is not None:
        messages.append(Message(role="system", content=system))
    if prompt is not None:
        messages.append(Message(role="user", content=prompt))
    messages.append(Message(role="assistant", content=answer or "", loss=True))
    return SingleTurn(
        shared={
            "trajectory_id": hash_,
            "step_index": None,
            "domain": DOMAIN,
            "source": source,
            "split_group": group_name(hash_),
        },
        context="".join(f"{text}\n\n" for text in (system, prompt) if text is not None),
        learned=answer or "",
        messages=tuple(messages),
        n_control_tokens=n_control_tokens,
    )
