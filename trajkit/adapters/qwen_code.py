"""Qwen Code sessions: JSON lines in `~/.qwen/projects/<folder>/chats/<session>.jsonl`.

Written by the `qwen` command line since 0.2; the format has no definition but its source. Every
line is a record with `uuid` and `parentUuid`; `message` is a content of the Gemini API (`role`,
`parts`), in the form in which the model got it. A rewind is a `system` line whose parent lies
further back: what hung there before is left as a branch. The way to the last message is the live
one, each other way with actions is a trajectory marked `meta.branch`. New `subtype`s of `system`
lines appear with every version; those of telemetry, titles, snapshots and goals count as
`bookkeeping`, one that is not known here as `unknown_event`.

Not a person's words, though the line has the type `user`: parts in `<qwen:...>` tags (what hooks
add), and lines with the subtype `notification`, `cron` or `background_task_completed` or with
another `provenance` than `real_user`. The request to a sub-agent (`agent_launch_prompt`) is its
task. `toolCallResult.resultDisplay` is for the screen; the model saw the parts. A fork copies
records under new ids and names the old ones in `forkedFrom`, which mark the copies.

Smallest shape: {"uuid": "u", "parentUuid": null, "sessionId": "s", "timestamp": "...", "type":
"user", "cwd": "/", "version": "0.21.0", "message": {"role": "user", "parts": [{"text": "..."}]}}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from trajkit.adapters import Adapter, gemini_parts
from trajkit.adapters.anthropic_blocks import Place
from trajkit.adapters.content import content_text
from trajkit.adapters.event_tree import Node, branches, link
from trajkit.adapters.fields import (
    first_text,
    integer,
    mapping,
    mappings,
    meta_text,
    no_action,
    text,
)
from trajkit.adapters.messages import Message, skip_first
from trajkit.adapters.talk import heard, injected
from trajkit.model import Record, Reject, Trajectory

_TYPES = ("user", "assistant", "tool_result", "system")
_PROGRAM = ("notification", "background_task_completed", "cron", "goal_runtime")
_PERSON = ("real_user", None)
_HOOK = re.compile(r"\s*<qwen:[\w-]+>")
_BOOKKEEPING = re.compile(
    r"chat_compression|slash_command|ui_telemetry|at_command|attribution_snapshot|session_\w+"
    r"|agent_(bootstrap|retry|session_ready)|file_history_snapshot|user_text_elements|omni_recall"
    r"|branch_checkpoint|goal_\w+|turn_result|managed_session_\w+|rewind"
)
_CONTEXT = ("custom_title", "parent_session")


def detect(value: Any) -> bool:
    """Return whether a value is a record of a session."""
    if not isinstance(value, dict) or value.get("type") not in _TYPES:
        return False
    if not isinstance(value.get("uuid"), str) or not isinstance(value.get("sessionId"), str):
        return False
    if value["type"] == "system":
        return "systemPayload" in value or _has_parts(value)
    return _has_parts(value)


def _has_parts(value: dict[str, Any]) -> bool:
    return isinstance(mapping(value.get("message")).get("parts"), list)


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the live branch of a session, then those that rewinds left."""
    lines = [mapping(line) for line in record.value]
    record.ledger.expect(range(len(lines)))
    nodes = link(enumerate(lines), record.ledger, id_key="uuid", parent_key="parentUuid")
    session, agent = first_text(lines, "sessionId"), first_text(lines, "agentId")
    n_found = 0
    for branch in branches(nodes, _messages, record.ledger):
        raws = [node.raw for node in branch.nodes]
        payloads = [mapping(raw.get("systemPayload")) for raw in lines]
        key = f"{record.origin.key or session or 'session'}~{n_found}" if n_found else None
        parent = session if agent else first_text(payloads, "parentSessionId")
        name = agent or session
        yield Trajectory(
            origin=replace(record.origin, key=key or record.origin.key),
            adapter=ADAPTER.name,
            format_version=first_text(raws, "version"),
            agent="qwen-code",
            model=first_text((r for r in raws if r.get("type") == "assistant"), "model"),
            task=branch.folded.task,
            parent_key=parent,
            names=(name,) if name and not n_found else (),
            step_keys=branch.folded.step_keys,
            started_at=first_text(raws, "timestamp"),
            meta=meta_text(
                branch.folded,
                session_id=session,
                agent_id=agent,
                cwd=first_text(raws, "cwd"),
                git_branch=first_text(raws, "gitBranch"),
                title=first_text(payloads, "customTitle", "title"),
                compactions=sum(r.get("subtype") == "chat_compression" for r in raws) or None,
                branch={"n_shared_steps": branch.n_shared_steps} if n_found else None,
            ),
            steps=skip_first(branch.folded.steps, branch.n_shared_steps, "shared_history"),
        )
        n_found += 1
    if n_found == 0:
        yield no_action(record)


def _messages(node: Node) -> Iterator[Message]:
    raw = node.raw
    kind, subtype = raw.get("type"), text(raw.get("subtype"))
    copied = text(mapping(raw.get("forkedFrom")).get("messageUuid"))
    key = copied or text(raw.get("uuid"))
    place = Place(event=node.event, time=text(raw.get("timestamp")), key=key)
    message = mapping(raw.get("message"))
    if kind == "user":
        yield from _user(raw, mappings(message.get("parts")), place)
    elif kind in ("assistant", "tool_result"):
        role = "model" if kind == "assistant" else "user"
        for found in gemini_parts.read(role, message.get("parts"), place.event, place.time):
            yield _finished(replace(found, key=key), mapping(raw.get("toolCallResult")))
    else:
        fate = "unknown_event"
        if kind == "system" and subtype in _CONTEXT:
            fate = "context"
        elif kind == "system" and subtype and _BOOKKEEPING.fullmatch(subtype):
            fate = "bookkeeping"
        yield Message(role="system", also=((node.event, fate),))


def _user(raw: dict[str, Any], parts: list[dict[str, Any]], place: Place) -> Iterator[Message]:
    launch = raw.get("subtype") == "agent_launch_prompt"
    foreign = raw.get("subtype") in _PROGRAM or raw.get("provenance") not in _PERSON
    if foreign and not launch:
        yield injected(content_text(parts)[0], place)
        return
    hooks = [part for part in parts if _HOOK.match(text(part.get("text")) or "")]
    said, media = content_text([part for part in parts if part not in hooks])
    if said or not hooks:
        yield from heard(said, place, media=media)
    if hooks:
        yield injected(content_text(hooks)[0], place)


def _finished(message: Message, outcome: dict[str, Any]) -> Message:
    """Return a result with what the record says of the call beside what the model saw."""
    if message.role != "result":
        return message
    status = text(outcome.get("status"))
    failed = status if status in ("error", "cancelled") else None
    return replace(
        message,
        error=text(outcome.get("errorType")) or failed or message.error,
        exit_code=integer(outcome.get("exitCode")),
    )


ADAPTER = Adapter(
    name="qwen-code",
    title="Qwen Code sessions, with branches",
    domains=("swe", "terminal", "mcp", "search"),
    detect=detect,
    extract=extract,
    unit="session",
)
