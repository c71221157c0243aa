"""Event logs whose lines name their parent: the live way through the tree, and what rewinds left.

Used by every adapter whose log links its lines by id and parent id. A person who goes back and
asks again begins a new branch; the old one stays in the file. The way to the last message is the
live one. Every other way with actions of its own is a trajectory too, whose first steps are marked
as shared.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from trajkit.adapters.messages import Folded, Message, fold
from trajkit.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Node:
    """One line that stands in a tree."""

    event: Hashable
    """Its name in the ledger."""
    raw: dict[str, Any]
    """The line as logged."""
    id: str
    """Its id; unique among the nodes."""
    parent: str | None
    """Id of the node it goes on from; always an earlier one."""


@dataclass(frozen=True, slots=True)
class Branch:
    """One way through a tree."""

    nodes: tuple[Node, ...]
    """From the root to the leaf."""
    folded: Folded
    """What the way tells."""
    n_shared_steps: int
    """First steps that an earlier branch has too; 0 for the live one."""


def link(
    lines: Iterable[tuple[Hashable, dict[str, Any]]],
    ledger: Ledger,
    *,
    id_key: str,
    parent_key: str,
    aliases: Callable[[dict[str, Any]], Iterable[str]] = lambda line: (),
) -> list[Node]:
    """Return lines as nodes with their links mended.

    `aliases` gives further ids by which a later line may call this one. A parent that is not known
    yet is replaced by the line before; so is a missing one in a log without any links. A line that
    is there twice counts once.
    """
    lines = list(lines)
    linked = any(isinstance(raw.get(parent_key), str) for _, raw in lines)
    nodes: list[Node] = []
    known: dict[str, Node] = {}
    names: dict[str, str] = {}
    for event, raw in lines:
        logged = raw.get(id_key)
        id_ = logged if isinstance(logged, str) and logged else f"line {event}"
        if id_ in known:
            if known[id_].raw == raw:
                ledger.left_out(event, "repeated_event")
                continue
            id_ = f"{id_}~{event}"
        before = nodes[-1].id if nodes else None
        parent = raw.get(parent_key)
        if isinstance(parent, str):
            above = names.get(parent, before)
        else:
            above = None if linked and isinstance(logged, str) else before
        node = Node(event, raw, id_, above)
        nodes.append(node)
        known[id_] = node
        for name in (*aliases(raw), id_):
            names[name] = id_
    return nodes


def branches(
    nodes: list[Node], read: Callable[[Node], Iterable[Message]], ledger: Ledger
) -> Iterator[Branch]:
    """Give the ways through a tree that hold actions, the live one first.

    `read` gives the messages of one node. A node that is on no such way is accounted for here.
    """
    told = {node.id: list(read(node)) for node in nodes}
    by_id = {node.id: node for node in nodes}
    taken: set[str] = set()
    tried: set[str] = set()
    for leaf in reversed(nodes):
        if leaf.id in tried or all(message.event is None for message in told[leaf.id]):
            continue
        way = _way(leaf, by_id)
        tried.update(node.id for node in way)
        new = (m for node in way if node.id not in taken for m in told[node.id])
        if not any(message.role in ("assistant", "result") for message in new):
            continue
        shared = [m for node in way if node.id in taken for m in told[node.id]]
        messages = [m for node in way for m in told[node.id]]
        n_shared = len(fold(shared).steps) if shared else 0
        folded = fold(messages)
        if not folded.acts or all(s.action_kind == "none" for s in folded.steps[n_shared:]):
            continue
        taken.update(node.id for node in way)
        yield Branch(tuple(way), fold(messages, ledger), n_shared)
    reason = "branch_without_action" if taken else "no_action"
    for node in nodes:
        if node.id not in taken:
            for message in told[node.id]:
                if message.event is not None:
                    ledger.left_out(message.event, reason)
            fold([m for m in told[node.id] if m.event is None], ledger)


def _way(leaf: Node, by_id: dict[str, Node]) -> list[Node]:
    way: list[Node] = []
    node: Node | None = leaf
    while node is not None:
        way.append(node)
        node = by_id[node.parent] if node.parent is not None else None
    return way[::-1]
