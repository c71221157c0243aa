"""Claude Code sessions: `projects/<folder>/<session>.jsonl`, a printed stream, or a web export.

Written by the Claude Code command line, without a published definition; versions 1.0 to 2.1 were
seen. New line types appear every few weeks: what is not known here is counted, never an error.
Shapes: the session file; `claude -p --output-format stream-json`, whose first and last lines give
the tools, the outcome and the cost (`json` prints the last line alone: a reject, since it holds no
action); the web export, one object `{"loglines": [...]}` with lines without ids.

A session file is a tree. One reply of the model stands on several lines of one `message.id`, which
are merged; answers to parallel calls hang on their own calls, so they are taken along with them.
The way from the root to the last line is the main trajectory. What else hangs there was left by a
rewind: a trajectory of its own, marked `meta.branch`, whose steps from before the fork have the
`skip_reason` `shared_history`, since the main trajectory has them too.
Lines without any parent ids are read in order. A line whose parent is not in the file goes on from
the line before it, and is named in `meta.gaps`. A resumed or forked session repeats the lines of
another file with their ids; these are the step keys.

Sub-agents are trajectories with the main one as parent. Versions write them into the session
(`isSidechain`), beside it (`agent-<id>.jsonl`, found by the session's id), or below it
(`<session>/subagents/agent-<id>.jsonl` with an `agent-<id>.meta.json`, read together with it); the
printed stream marks them with the call that began them.

A person's words are user messages. Not a person's are: reminders, command echoes, meta lines, the
summary after a compaction, notes of an interruption; they become harness observations, or stand in
`meta.context` when they come before the agent speaks. Nothing is cut at a compaction:
`meta.context_windows` holds the step each window of the agent's context begins with. A title that
belongs to another session is left out and counted.
`meta.thinking` tells for each turn whether its reasoning is `present`, `withheld` (redacted, or
logged with a signature only) or `none`. `toolUseResult` is richer than what the model saw and only
tells whether a call was interrupted and which agent it ran.

Smallest shape: {"type": "user", "uuid": "u1", "parentUuid": null, "sessionId": "s", "message":
{"role": "user", "content": "..."}}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import orjson

from trajkit.adapters import Adapter
from trajkit.adapters.claude_messages import replies, talk
from trajkit.adapters.claude_tree import (
    Line,
    SessionFile,
    by_agent,
    by_session,
    is_init,
    is_result,
    read,
    speaks,
    text_of,
    ways,
)
from trajkit.adapters.messages import fold, skip_first, tools_text
from trajkit.adapters.step_keys import distinct
from trajkit.ledger import Ledger
from trajkit.model import (
    Bundle,
    Origin,
    OutcomeStatus,
    Record,
    Reject,
    Step,
    Trajectory,
    to_json_text,
)

_SUB_AGENT = re.compile(
    r"(?:(.*)/)?subagents/(?:.*/)?(agent-[^/]+\.jsonl|agent-[^/]+\.meta\.json|journal\.jsonl)"
)
_USAGE = (
    "input_tokens",
    "output_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
)
_PRINTED = ("total_cost_usd", "num_turns", "duration_ms", "duration_api_ms", "permission_denials")


def bundle(path: str) -> str | None:
    """Return the session of a session file, or of a file of its sub-agents."""
    match = _SUB_AGENT.fullmatch(path)
    if match is not None:
        return match.group(1)
    return path.removesuffix(".jsonl") if path.endswith(".jsonl") else None


def detect(value: Any) -> bool:
    """Return whether a value is a line of a session, a stream or an export, or files of one."""
    if isinstance(value, Bundle):
        agents = [name for name in value.files if _SUB_AGENT.fullmatch(name)]
        heads = (_lines(value.files[name])[:50] for name in agents if name.endswith(".jsonl"))
        return any(detect(line) for head in heads for line in head)
    if not isinstance(value, dict):
        return False
    lines = value.get("loglines")
    if isinstance(lines, list):
        return any(isinstance(line, dict) and speaks(line) for line in lines[:50])
    if value.get("type") == "summary":
        return isinstance(value.get("summary"), str) and "leafUuid" in value
    if speaks(value) and "session_id" in value and "parent_tool_use_id" in value:
        return True
    if is_init(value) or is_result(value):
        return True
    return speaks(value) and "uuid" in value and ("sessionId" in value or "parentUuid" in value)


def _lines(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [content]


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the sessions of a file: each main line and its dead branches, then the sub-agents."""
    found: list[Trajectory] = []
    spawned: dict[str, str] = {}
    for file, about in _files(record):
        spawned.update(file.spawned)
        found.extend(_sessions(file, record, found, spawned, about))
    yield from found
    if not found:
        yield Reject(
            origin=record.origin, reason="no_action", message="no line holds a reply of the agent"
        )


def _files(record: Record) -> Iterator[tuple[SessionFile, dict[str, Any]]]:
    """Give the session, then each file of a sub-agent with what is written beside it."""
    if not isinstance(record.value, Bundle):
        yield read(record.value, record.ledger), {}
        return
    files = record.value.files
    agents = [name for name in sorted(files) if _SUB_AGENT.fullmatch(name)]
    for name in sorted(files):
        if name not in agents:
            yield read(_lines(files[name]), record.ledger, name=name), {}
    for name in agents:
        if name.endswith(".meta.json"):
            record.ledger.expect([name])
            has_agent = name.replace(".meta.json", ".jsonl") in files
            if has_agent and isinstance(files[name], dict):
                record.ledger.became(name, "context")
            else:
                record.ledger.left_out(name, "metadata_only")
            continue
        beside = name.removesuffix(".jsonl") + ".meta.json"
        detail = files.get(beside)
        file = read(_lines(files[name]), record.ledger, name=name, all_side=True)
        yield file, detail if isinstance(detail, dict) else {}


def _sessions(
    file: SessionFile,
    record: Record,
    earlier: list[Trajectory],
    spawned: dict[str, str],
    about: dict[str, Any],
) -> list[Trajectory]:
    """Return the trajectories of one file; a sub-agent's have the first of all as parent."""
    sides = [line for line in file.lines if line.side_chain]
    mains = by_session([line for line in file.lines if not line.side_chain])
    taken = {one.origin.key for one in earlier}
    found: list[Trajectory] = []
    for session, lines in mains.items():
        origin = replace(record.origin, key=session or ("main" if sides else None))
        for one in _tree(lines, file, origin, record.ledger, parent_key=None):
            found.append(replace(one, names=() if found or session is None else (session,)))
    parents = [one.origin.key for one in [*earlier, *found][:1]]
    for agent, lines in by_agent(sides).items():
        key = agent if agent not in taken else f"{agent}~{len(taken)}"
        # The file of a sub-agent that lies alone names its parent by the session.
        parent = parents[0] if parents else next((i for line in lines if (i := line.session)), None)
        told = {
            "agent_type": text_of(about.get("agentType")),
            "description": text_of(about.get("description")),
            "spawned_by": spawned.get(agent) or text_of(about.get("toolUseId")),
        }
        for one in _tree(lines, file, replace(record.origin, key=key), record.ledger, parent):
            named = one.origin.key == key and lines[0].agent is not None
            one = _with(one, {name: text for name, text in told.items() if text})
            found.append(replace(one, names=(agent,) if named else ()))
    return found


def _tree(
    lines: list[Line], file: SessionFile, origin: Origin, ledger: Ledger, parent_key: str | None
) -> list[Trajectory]:
    """Return the live line of one tree, then what rewinds left; a bare prompt is only counted."""
    found: list[Trajectory] = []
    n_bare = 0
    for way, shared in ways(lines):
        n_shared = len(fold(talk(shared, Ledger()).messages).steps) if shared else 0
        key = origin.key if not found else f"{origin.key or 'session'}~{len(found)}"
        ids = {line.id for line in shared}
        trajectory = None
        if any(replies(line) for line in way if line.id not in ids):
            trajectory = _trajectory(way, file, replace(origin, key=key), n_shared, ledger)
        if trajectory is None:
            n_bare += 1
            for line in way:
                if line.message and line.id not in ids:
                    ledger.left_out(line.event, "no_reply")
            continue
        if found:
            branch = {"of": origin.key, "n_shared_steps": n_shared}
            trajectory = _with(trajectory, {"branch": branch})
        found.append(replace(trajectory, parent_key=parent_key))
    if n_bare and found:
        found[0] = _with(found[0], {"branches_without_reply": n_bare})
    return found


def _with(trajectory: Trajectory, more: dict[str, Any]) -> Trajectory:
    return replace(trajectory, meta=to_json_text(orjson.loads(trajectory.meta or "{}") | more))


def _trajectory(
    path: list[Line], file: SessionFile, origin: Origin, n_shared: int, ledger: Ledger
) -> Trajectory | None:
    """Return a way through the tree as a trajectory, without the steps shared with another."""
    told = talk(path, ledger)
    messages = told.messages
    folded = fold(messages, ledger)
    if all(step.action_kind == "none" for step in folded.steps[n_shared:]):
        return None
    steps = skip_first(folded.steps, n_shared, "shared_history")
    began = next(i for i, m in enumerate([*messages, None]) if m is None or m.role == "assistant")
    windows = sorted({0, *(folded.n_steps_of(n) for n in told.windows)})
    n_turns = steps[-1].turn + 1
    raws = [line.raw for line in path]
    spoken = [line for line in path if line.message]
    ids = {line.id for line in path}
    is_main = not path[0].side_chain
    meta = {
        "session_id": next((line.session for line in path if line.session), None),
        "cwd": _first(raws, "cwd") or text_of(file.init.get("cwd")),
        "git_branch": _first(raws, "gitBranch"),
        "agent_id": _first(raws, "agentId"),
        "summary": next((text for leaf, text in file.summaries.items() if leaf in ids), None),
        "context": [m.text for m in messages[:began] if m.source == "harness"] or None,
        "context_windows": windows if len(windows) > 1 else None,
        "thinking": ["none"] * (n_turns - len(told.thinking)) + told.thinking
        if set(told.thinking) - {"none"}
        else None,
        "usage": _usage(spoken),
        "linked_by": folded.linked_by,
        "gaps": [gap for gap in file.gaps if gap["before"] in ids] or None,
        "other_lines": dict(sorted(file.counts.items())) or None,
    } | {name: n for name, n in sorted(told.counts.items()) if n}
    if is_main:
        meta |= {key: file.result.get(key) for key in _PRINTED}
    return Trajectory(
        origin=origin,
        adapter=ADAPTER.name,
        format_version=_first(raws, "version") or text_of(file.init.get("claude_code_version")),
        domain=None if _acts(steps) else "swe",
        agent="claude-code",
        model=next((m for line in spoken if (m := _model(line))), text_of(file.init.get("model"))),
        task=folded.task,
        action_space=tools_text(file.init.get("tools")),
        outcome_status=_outcome(file.result) if is_main else "unknown",
        exit_status=text_of(file.result.get("subtype")) if is_main else None,
        started_at=_first(raws, "timestamp"),
        meta=to_json_text({key: item for key, item in meta.items() if item not in (None, [])}),
        steps=steps,
        step_keys=distinct(folded.step_keys),
    )


def _outcome(result: dict[str, Any]) -> OutcomeStatus:
    """Return how the last line of a printed stream says the run ended."""
    if not result:
        return "unknown"
    failed = result.get("is_error") is True or result.get("subtype") != "success"
    return "failure" if failed else "success"


def _acts(steps: tuple[Step, ...]) -> bool:
    return any(step.action_kind not in ("message", "none") for step in steps)


def _first(raws: list[dict[str, Any]], key: str) -> str | None:
    return next((text for raw in raws if (text := text_of(raw.get(key)))), None)


def _model(line: Line) -> str | None:
    model = text_of(line.message.get("model"))
    return None if model == "<synthetic>" else model


def _usage(lines: list[Line]) -> dict[str, int] | None:
    """Return token counts over all replies; the last line of a reply has its final count."""
    last = {line.reply_id or line.id: line.message.get("usage") for line in lines}
    known = [usage for usage in last.values() if isinstance(usage, dict)]
    total = {key: sum(u[key] for u in known if type(u.get(key)) is int) for key in _USAGE}
    return total if known else None


ADAPTER = Adapter(
    name="claude-code",
    title="Claude Code sessions, printed streams and web exports, with branches and sub-agents",
    domains=("swe", "terminal", "mcp", "search"),
    detect=detect,
    extract=extract,
    unit="session",
    bundle=bundle,
)
