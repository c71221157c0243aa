"""ToolBench answers: a search tree of tool calls (DFSDT), its linear answer, and training rows.

Defined by ToolBench. An answer file holds `answer_generation` (`query`, `function`,
`train_messages`, `final_answer`, `finish_type`) and under `tree.tree` nodes of `node_type` Thought,
Action and Action Input, the last with `observation`. Drift handled here: files without a tree are
read from `train_messages` (OpenAI messages with `function_call`); training rows are conversations
with `Thought:`, `Action:` and `Action Input:` in the text and `function` turns as answers.

Every leaf is an episode. The path of `train_messages` is the main one and comes first; the others
follow in the order of the tree, and the steps they share with an earlier one have the skip reason
`shared_history`, so that no call is a target twice. `meta` says which leaf is the main one and
which were pruned. Traps: `win` means that some leaf gave an answer, not that it was right, so the
outcome is unknown; the observation of `Finish` is the harness's; an observation is JSON text of
`error` and `response`, kept as it is. Query files (`api_list`, `query`) are questions and rejected.

Smallest shape: {"answer_generation": {"query": "...", "function": [], "train_messages": []},
"tree": {"tree": {"node_type": "Action Input", "description": "", "children": [{"node_type":
"Action", "description": "f", "children": [{"node_type": "Action Input", "description": "{}",
"observation": "{}", "children": []}]}]}}}
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import orjson

from trajkit.adapters import Adapter, agent_grammars, openai_chat
from trajkit.adapters.chat_rows import episode, head, read, said
from trajkit.adapters.fields import mapping, mappings, meta_text, text
from trajkit.adapters.json_calls import unparsed
from trajkit.adapters.messages import Message, fold, make_call, skip_first, tools_text
from trajkit.model import Record, Reject, Trajectory

_LISTS = ("conversations",)
_CODES = {3: "give_answer", 4: "give_up"}


@dataclass(frozen=True, slots=True)
class _Node:
    """A node of the tree and its place in it."""

    place: tuple[int, ...]
    fields: dict[str, Any]

    @property
    def words(self) -> str:
        return text(self.fields.get("description")) or ""


def detect(value: Any) -> bool:
    """Return whether a value is an answer file, a training row or a query."""
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("answer_generation"), dict):
        return "tree" in value or "train_messages" in value["answer_generation"]
    if isinstance(value.get("api_list"), list) and isinstance(value.get("query"), str):
        return True
    found = head(value, _LISTS)
    return any(turn.fields.get("from") == "function" for turn in found) and any(
        "Action Input:" in words for words in said(found, "assistant")
    )


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give an episode a leaf, the main one first; that of a row; or the reject of a query."""
    value = record.value
    if "answer_generation" in value:
        root = mapping(mapping(value.get("tree")).get("tree"))
        paths = list(_paths(root))
        yield from _leaves(record, paths) if len(paths[0]) > 1 else _linear(record)
    elif "api_list" in value:
        record.ledger.expect(("query",))
        record.ledger.left_out("query", "question_only")
        yield Reject(
            origin=record.origin, reason="question_only", message="a query and the tools for it"
        )
    else:
        talk = agent_grammars.read_talk(read(record, _LISTS), "toolbench", record.ledger)
        meta = {"id": text(value.get("id"))}
        yield from episode(record, ADAPTER.name, talk.messages, domain="mcp", meta=meta)


def _linear(record: Record) -> Iterator[Trajectory | Reject]:
    answer = record.value["answer_generation"]
    told = answer.get("train_messages")
    chats = [chat for chat in told if isinstance(chat, list)] if isinstance(told, list) else []
    listed = max(chats, key=len, default=[])
    record.ledger.expect(range(len(listed)))
    yield from episode(
        record,
        ADAPTER.name,
        openai_chat.messages(listed),
        domain="mcp",
        task=text(answer.get("query")),
        action_space=tools_text(answer.get("function")),
        exit_status=text(answer.get("finish_type")),
        meta={"query_count": answer.get("query_count")},
    )


def _paths(root: dict[str, Any]) -> Iterator[list[_Node]]:
    """Give the path from the root to each leaf, in the order of the tree."""
    stack: list[list[_Node]] = [[_Node((), root)]]
    while stack:
        path = stack.pop()
        children = mappings(path[-1].fields.get("children"))
        if not children:
            yield path
        for number, child in reversed(list(enumerate(children))):
            stack.append([*path, _Node((*path[-1].place, number), child)])


def _leaves(record: Record, paths: list[list[_Node]]) -> Iterator[Trajectory | Reject]:
    answer, ledger = record.value["answer_generation"], record.ledger
    for path in paths:
        ledger.expect(node.place for node in path)
    ledger.became((), "context")
    wanted = _wanted(answer)
    main = next((n for n, path in enumerate(paths) if _calls(path) == wanted), 0)
    opening = _opening(answer)
    told: set[tuple[int, ...]] = set()
    for number in sorted(range(len(paths)), key=lambda n: n != main):
        messages = list(_messages(paths[number]))
        folded = fold([*opening, *messages], ledger)
        if not folded.acts:
            continue
        n_shared = sum(node.place in told for node in paths[number] if _is_input(node))
        told.update(node.place for node in paths[number])
        leaf = paths[number][-1].fields
        key = record.origin.key
        if number != main:
            key = f"{key or '$'}.leaf[{number}]"
        yield Trajectory(
            origin=replace(record.origin, key=key),
            adapter=ADAPTER.name,
            domain="mcp",
            task=text(answer.get("query")) or folded.task,
            agent_system_prompt=folded.agent_system_prompt,
            action_space=tools_text(answer.get("function")),
            exit_status=_exit_status(leaf, answer, number == main),
            meta=meta_text(
                folded,
                main=number == main,
                leaf=number,
                pruned=leaf.get("pruned") is True,
                win=record.value.get("win"),
                n_shared_steps=n_shared or None,
                query_count=answer.get("query_count"),
                total_tokens=answer.get("total_tokens"),
                forward_args=record.value.get("forward_args"),
            ),
            steps=skip_first(folded.steps, n_shared, "shared_history"),
        )
    if not told:
        yield Reject(
            origin=record.origin, reason="no_action", message="no leaf of the tree calls a tool"
        )


def _exit_status(leaf: dict[str, Any], answer: dict[str, Any], is_main: bool) -> str | None:
    code = leaf.get("observation_code")
    own = _CODES.get(code) if isinstance(code, int) else None
    return own or (text(answer.get("finish_type")) if is_main else None)


def _is_input(node: _Node) -> bool:
    return bool(node.place) and node.fields.get("node_type") == "Action Input"


def _opening(answer: dict[str, Any]) -> list[Message]:
    """Return the prompt of the training messages: the tree does not hold it."""
    chats = answer.get("train_messages")
    chat = chats[-1] if isinstance(chats, list) and chats else []
    first = mappings(chat)[:1]
    if not first or first[0].get("role") != "system":
        return []
    return [Message(role="system", text=text(first[0].get("content")))]


def _wanted(answer: dict[str, Any]) -> list[tuple[Any, Any]]:
    """Return the calls of the linear answer."""
    chats = answer.get("train_messages")
    chat = chats[-1] if isinstance(chats, list) and chats else []
    calls = [mapping(message.get("function_call")) for message in mappings(chat)]
    return [(call.get("name"), call.get("arguments")) for call in calls if call]


def _calls(path: list[_Node]) -> list[tuple[Any, Any]]:
    names = [node.words for node in path if node.fields.get("node_type") == "Action"]
    inputs = [node.words for node in path if _is_input(node)]
    return list(zip(names, inputs, strict=False))


def _messages(path: list[_Node]) -> Iterator[Message]:
    thoughts: list[_Node] = []
    action: _Node | None = None
    for node in path[1:]:
        kind = node.fields.get("node_type")
        if kind == "Action":
            thoughts += [action] if action else []
            action = node
        elif kind == "Action Input":
            also = tuple((thought.place, "thought") for thought in thoughts)
            if action is not None:
                also = (*also, (action.place, "action"))
            yield Message(
                role="assistant",
                thought="\n\n".join(thought.words for thought in thoughts) or None,
                calls=(make_call(action.words if action else None, node.words),),
                event=node.place,
                also=also,
            )
            yield from _observed(node, action)
            thoughts, action = [], None
        else:
            thoughts.append(node)
    if thoughts or action is not None:
        # A leaf may be a last thought, or break off before the arguments were written.
        words = "\n\n".join(thought.words for thought in thoughts) or None
        yield Message(
            role="assistant",
            text=None if action else words,
            thought=words if action else None,
            calls=(unparsed(action.words, action.words),) if action else (),
            event=action.place if action else None,
            also=tuple((node.place, "thought" if action else "action") for node in thoughts),
        )


def _observed(node: _Node, action: _Node | None) -> Iterator[Message]:
    observation = node.fields.get("observation")
    if not isinstance(observation, str):
        return
    ends = action is not None and action.words == "Finish"
    yield Message(
        role="result",
        text=observation,
        error=_error(observation),
        source="harness" if ends else "environment",
        event=node.place,
    )


def _error(observation: str) -> str | None:
    try:
        return text(mapping(orjson.loads(observation)).get("error"))
    except ValueError:
        return None


ADAPTER = Adapter(
    name="toolbench",
    title="ToolBench answers (DFSDT trees), training rows; queries are rejected",
    domains=("mcp",),
    detect=detect,
    extract=extract,
)
