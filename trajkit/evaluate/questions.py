"""What a benchmark asks: rows of AgentWorldBench, or the targets of a store.

A question holds the prompt of the world model and the case of the gate. Of a row only what lies
before its turn is taken into either: the answer and what came after it never reach a prompt.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from trajkit.adapters import agentworldbench
from trajkit.builders import render
from trajkit.builders.examples import episodes
from trajkit.control_tokens import escape
from trajkit.domains.base import ANSWER_CLOSE, ANSWER_OPEN, ASK
from trajkit.errors import TrajkitError
from trajkit.fidelity.check import case
from trajkit.fidelity.findings import Case
from trajkit.inputs import InputFile
from trajkit.model import DOMAINS, Origin, Record, Reject, Trajectory, to_json_text
from trajkit.rationales.queries import plain
from trajkit.readers import FileReader
from trajkit.store import Store, inputs_of
from trajkit.tables import file_sha256

_HEAD = re.compile(r"\A(?:### Turn \d+[ \t]*\n+)?(.*?)^\*\*Action:\*\*", re.DOTALL | re.MULTILINE)
_TURN = re.compile(r"\A### Turn \d+[ \t]*\n+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One observation to be predicted."""

    key: str
    """Unique in a benchmark; made of the content, or of the ids in a store."""
    trajectory: str
    """What the questions of one episode share."""
    domain: str
    place: str
    """Where it was read: `FILE:LINE`, or `TRAJECTORY:STEP` of a store."""
    turn: int
    """1-based turn of the episode."""
    messages: tuple[dict[str, str], ...]
    """System, history, and the prompt that asks; control tokens of the log are broken up."""
    case: Case
    """What the gate needs but the prediction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A benchmark that can be read again and again, always in the same order."""

    name: str
    kind: str
    """`agentworldbench` or `store`."""
    inputs: list[dict[str, str]]
    """What it is made of, for the manifest."""
    read: Callable[[list[Reject]], Iterator[Question]]
    """Gives the questions; what is none is added to the list. Holds one row or part at a time."""


def open_bench(path: str | Path) -> Bench:
    """Return the benchmark of a folder: one with `mcp_test.jsonl` and so on, or any store.

    Raises TrajkitError when it is neither, or a store without transitions.
    """
    folder = Path(path)
    files = [folder / f"{domain}_test.jsonl" for domain in DOMAINS]
    found = [file for file in files if file.is_file()]
    if found:
        return Bench(
            name=folder.resolve().name,
            kind="agentworldbench",
            inputs=[{"name": file.name, "sha256": file_sha256(file)} for file in found],
            read=lambda rejects: _unique(_rows(found, rejects)),
        )
    if folder.is_dir() and not (folder / "manifest.json").exists():
        raise TrajkitError(
            str(path),
            "is no benchmark: it holds neither files such as mcp_test.jsonl nor a store",
            "give the folder of AgentWorldBench, of `trajkit build-bench`, or a store with"
            " transitions",
        )
    store = Store(path).require("trajectories", "steps", "transitions")
    return Bench(
        name=store.path.resolve().name,
        kind="store",
        inputs=inputs_of(store),
        read=lambda rejects: _targets(store),
    )


def shortened(question: Question, n_turns: int) -> Question:
    """Return a question without that many of its oldest turns; task and first state stay.

    Raises IndexError when it has fewer.
    """
    messages = list(question.messages)
    start = 1 if messages[0]["role"] == "system" else 0
    if n_turns > n_turns_before(question):
        raise IndexError(f"{n_turns} turns of {n_turns_before(question)}")
    kept = [*messages[:start], *messages[start + 2 * n_turns :]]
    head = _HEAD.match(messages[start]["content"])
    if n_turns and head is not None and head[1].strip():
        # In GUI domains the first turn tells task and state, which no later one repeats.
        asked = kept[start]["content"]
        turn = _TURN.match(asked)
        place = turn.end() if turn else 0
        kept[start] = kept[start] | {"content": asked[:place] + head[1] + asked[place:]}
    return replace(question, messages=tuple(kept))


def n_turns_before(question: Question) -> int:
    """Return how many answered turns stand in the prompt."""
    return sum(message["role"] == "assistant" for message in question.messages)


def _unique(questions: Iterator[Question]) -> Iterator[Question]:
    """Give every question a key of its own: a row may stand in a file twice."""
    met: Counter[str] = Counter()
    for question in questions:
        met[question.key] += 1
        n = met[question.key]
        yield question if n == 1 else replace(question, key=f"{question.key}~{n}")


def _rows(files: list[Path], rejects: list[Reject]) -> Iterator[Question]:
    for path in files:
        domain = path.name.removesuffix("_test.jsonl")
        reader = FileReader(InputFile(path, path.name, path.stat().st_size))
        for value in reader:
            listed = value.value if isinstance(value.value, list) else [value.value]
            for row in listed:
                origin = Origin(path=path.name, line=value.line)
                fault = _fault(row)
                if fault is None:
                    yield _question(row, domain, origin)
                else:
                    text = to_json_text(row)
                    rejects.append(
                        Reject(
                            origin=origin,
                            reason="invalid_row",
                            message=fault,
                            record=text[:64_000],
                            n_record_chars=len(text),
                        )
                    )
        rejects.extend(reader.take_rejects())


def _fault(row: Any) -> str | None:
    """Return what keeps a value from being a question, null when nothing does."""
    if not agentworldbench.detect(row):
        return "no row of AgentWorldBench: task, prompt, response, turn_idx or total_turns missing"
    prompts, responses, turn = row["prompt"], row["response"], row["turn_idx"]
    if not all(isinstance(part, list) for part in (prompts, responses)):
        return "prompt and response are no lists"
    if not all(isinstance(text, str) for text in [*prompts, *responses]):
        return "prompt or response holds something that is no text"
    if isinstance(turn, bool) or not isinstance(turn, int):
        return "turn_idx is no whole number"
    if not 1 <= turn <= min(len(prompts), len(responses)):
        return f"turn_idx {turn} points outside prompt or response"
    return None


def _question(row: Mapping[str, Any], domain: str, origin: Origin) -> Question:
    turn: int = row["turn_idx"]
    prompts, responses = row["prompt"][:turn], row["response"][:turn]
    ours = {"trajectory_id", "step_index"} <= set(row)
    # Rows of `trajkit build-bench` have their control tokens broken up already.
    clean = str if ours else _escaped
    messages = []
    if isinstance(row.get("system_str"), str) and row["system_str"]:
        messages.append({"role": "system", "content": clean(row["system_str"])})
    for prompt, response in zip(prompts[:-1], responses[:-1], strict=True):
        messages.append({"role": "user", "content": clean(prompt)})
        messages.append({"role": "assistant", "content": clean(response)})
    last = clean(prompts[-1])
    if ANSWER_OPEN not in last:
        last = f"{last.rstrip()}\n\n{ASK}"
    messages.append({"role": "user", "content": last})
    current = row.get("current_prompt")
    # The prompt that asks goes on behind the action; this one does not.
    asked = current if isinstance(current, str) and current.strip() else prompts[-1]
    past = {**row, "prompt": [*prompts[:-1], asked], "response": responses}
    content = to_json_text([row.get("id"), row.get("system_str"), prompts, responses, turn])
    return Question(
        key=hashlib.sha256(content.encode()).hexdigest()[:24],
        trajectory=agentworldbench.row_key(row),
        domain=domain,
        place=f"{origin.path}:{origin.line}" if origin.line else origin.path,
        turn=turn,
        messages=tuple(messages),
        case=_case(past, domain, origin),
    )


def _escaped(text: str) -> str:
    """Return a text with its control tokens broken up, but the benchmark's own tag."""
    text = escape(text)[0]
    for tag in (ANSWER_OPEN, ANSWER_CLOSE):
        text = text.replace(escape(tag)[0], tag)
    return text


def _case(row: Mapping[str, Any], domain: str, origin: Origin) -> Case:
    (trajectory,) = (
        found
        for found in agentworldbench.extract(Record(value=[row], origin=origin))
        if isinstance(found, Trajectory)
    )
    episode = {
        "domain": domain,
        "task": trajectory.task,
        "initial_state": trajectory.initial_state,
    }
    steps = [asdict(step) for step in trajectory.steps]
    return case(episode, steps, len(steps) - 1, "")


def _targets(store: Store) -> Iterator[Question]:
    for part in store.parts():
        for episode, steps in episodes(store, part):
            wanted = [step["step_index"] for step in steps if step["target"]]
            if not wanted:
                continue
            rendered = render.render(episode, steps, "v0")
            numbers = {turn.step_index: turn.number for turn in rendered.turns}
            for step_index in wanted:
                *history, last = render.chat(rendered, step_index)
                asked = {"role": "user", "content": f"{last.content}\n\n{ASK}"}
                yield Question(
                    key=f"{episode['trajectory_id']}:{step_index}",
                    trajectory=episode["trajectory_id"],
                    domain=episode["domain"],
                    place=f"{episode['trajectory_id']}:{step_index}",
                    turn=numbers[step_index],
                    messages=(*plain(history), asked),
                    case=case(episode, steps, step_index, ""),
                )
