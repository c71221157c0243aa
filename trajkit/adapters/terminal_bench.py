"""Terminal-Bench 1 trial folders: what an agent typed into tmux, screens, and the verdict.

Written by the `tb` harness, one folder a trial: `results.json`, `commands.txt`, `panes/*.txt`,
`sessions/agent.cast` (older runs: `.log`) and, for Terminus agents, `agent-logs/episode-N/` with
`prompt.txt`, `response.json` (Terminus 2: `response.txt`) and `debug.json`. Published runs often
lack parts of it; the actions come from the first of these that is there:

1. `agent-logs`: the `commands` of each reply are one action (Terminus 1 with `is_blocking` and
   `timeout_sec`, Terminus 2 with `duration`), its other fields the thought; the observation is the
   next prompt, after the last reply the pane `post-agent`. A reply that is no such object is an
   invalid action, and a prompt that begins with the harness's complaint is the harness's.
2. Key events of `agent.cast`, cut as in `asciinema`.
3. `commands.txt`: a line is a Python list of tmux keys and one action; only the last has an
   observation, the pane `post-agent`.

The harness itself types `clear` first, a control-D last and the test script; those are left out,
but its `; tmux wait -S done` behind a blocking command stays as typed. The last `failure_mode` is
the exit status (`unset` is no success), `is_resolved` the outcome. An agent that was never started
(no command at all, or only `command not found` on the screen) has the exit status or the reject
`agent_never_ran`. Results without a trial folder, run or trial, are the reject `metadata_only`.

Smallest shape: `results.json` with {"task_id": "t", "instruction": "...", "is_resolved": true}
beside `sessions/agent.cast`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import orjson

from trajkit.adapters import Adapter
from trajkit.adapters.atif import split_terminus_task
from trajkit.adapters.casts import Typed, actions, read, steps
from trajkit.ledger import Ledger
from trajkit.model import Bundle, OutcomeStatus, Record, Reject, Step, Trajectory, to_json_text
from trajkit.terminal_text import cut_marks, shown

_PATH = re.compile(
    r"(?P<root>.+?)/(?:results\.json|commands\.txt|panes/(?:pre-agent|post-agent|post-test)\.txt"
    r"|sessions/(?:agent|tests)\.(?:cast|log)"
    r"|agent-logs/episode-\d+/(?:prompt\.txt|response\.(?:json|txt)|debug\.json))"
)
_EPISODE = re.compile(r"agent-logs/episode-(\d+)/")
_STATE = re.compile(r"(.*?)\n[^\n]*current terminal state is:\n(.*)\Z", re.DOTALL | re.IGNORECASE)
_COMPLAINT = re.compile(
    r"Previous response had (?:parsing errors|warnings)|Failed to parse|Current terminal state:"
)
_MISSING = re.compile(r"(?:^|: )(?P<name>[\w./-]+): (?:command )?not found", re.MULTILINE)
_META = (
    "id",
    "trial_name",
    "task_id",
    "parser_results",
    "total_input_tokens",
    "total_output_tokens",
    "agent_started_at",
    "agent_ended_at",
)


def detect(value: Any) -> bool:
    """Return whether a bundle is a trial, or a document the results of a trial or a run."""
    if isinstance(value, Bundle):
        names = set(value.files)
        if any(_EPISODE.match(name) and "/response." in name for name in names):
            return True
        return "results.json" in names and _is_trial(value.files["results.json"])
    return _is_trial(value) or (
        isinstance(value, dict) and isinstance(value.get("results"), list) and "pass_at_k" in value
    )


def _is_trial(value: Any) -> bool:
    return isinstance(value, dict) and {"task_id", "is_resolved", "failure_mode"} <= value.keys()


def bundle(path: str) -> str | None:
    """Return the trial folder that a file belongs to."""
    match = _PATH.fullmatch(path)
    return match["root"] if match else None


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the episode of a trial, or the reason why it tells none."""
    if not isinstance(record.value, Bundle):
        record.ledger.expect(["results"])
        yield Reject(
            origin=record.origin,
            reason="metadata_only",
            message="results of Terminal-Bench without what was typed and shown",
        )
        return
    files = record.value.files
    record.ledger.expect(files)
    results = files.get("results.json")
    results = results if isinstance(results, dict) else {}
    panes = {name: _text(files.get(f"panes/{name}.txt")) for name in ("pre-agent", "post-agent")}
    initial, found, how = _found(files, panes, record.ledger)
    for name in files:
        if files[name] is None or "post-test" in name or "/tests." in name:
            record.ledger.left_out(name, "undecoded" if files[name] is None else "test_phase")
    record.ledger.leave_the_rest("same_as_used_files")
    never = _never_ran(found, files)
    if not found:
        yield Reject(
            origin=record.origin,
            reason="agent_never_ran" if never else "no_action",
            message="the trial holds nothing that an agent typed",
        )
        return
    if results:
        record.ledger.became("results.json", "context")
    resolved = results.get("is_resolved")
    exit_status = "agent_never_ran" if never else _text(results.get("failure_mode"))
    prompt, _, _ = _opening(files)
    meta = {key: results[key] for key in _META if results.get(key) is not None}
    yield Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        domain="terminal",
        agent="terminus" if how == "agent-logs" else None,
        model=_model(files, record.ledger),
        task=_text(results.get("instruction")) or _opening(files)[1],
        agent_system_prompt=prompt,
        initial_state=initial,
        outcome_status="success" if resolved is True else _failed(resolved),
        exit_status=exit_status,
        started_at=_text(results.get("trial_started_at")),
        meta=to_json_text(meta | {"actions_from": how}),
        steps=tuple(found),
    )


def _failed(resolved: Any) -> OutcomeStatus:
    return "failure" if resolved is False else "unknown"


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _found(
    files: Mapping[str, Any], panes: Mapping[str, str | None], ledger: Ledger
) -> tuple[str | None, list[Step], str]:
    """Return the first state, the steps, and the kind of file they were read from."""
    if any(_EPISODE.match(name) and "/response." in name for name in files):
        initial = _opening(files)[2] or panes["pre-agent"]
        return initial, _replies(files, panes["post-agent"], ledger), "agent-logs"
    cast = files.get("sessions/agent.cast")
    if isinstance(cast, list):
        recording = read(cast)
        before, first, typed = actions(recording)
        harness = [action for action in typed if _of_harness(action, typed)]
        typed = [action for action in typed if action not in harness]
        if typed:
            ledger.became("sessions/agent.cast", "action")
            for index in range(len(cast)):
                ledger.left_out(("cast", index), "bookkeeping")
            _book(ledger, "context", first)
            for action in harness:
                before = (before or "") + action.output if action.start < typed[0].start else before
                for index in (*action.inputs, *action.outputs):
                    ledger.left_out(("cast", index), "harness_keystrokes")
            for action in typed:
                _book(ledger, "action", action.inputs)
                _book(ledger, "observation", action.outputs)
            return before or panes["pre-agent"], list(steps(recording, typed)), "cast"
    return panes["pre-agent"], _commands(files, panes["post-agent"], ledger), "commands.txt"


def _book(ledger: Ledger, fate: Any, indices: list[int]) -> None:
    for index in indices:
        ledger.became(("cast", index), fate)


def _of_harness(action: Typed, typed: list[Typed]) -> bool:
    """Return whether the harness typed it: its first `clear`, its last control-D."""
    return (action is typed[0] and action.keys == "clear\r") or (
        action is typed[-1] and action.keys == "\x04"
    )


def _numbered(files: Mapping[str, Any], name: str) -> list[tuple[int, str]]:
    """Return the numbers of the episodes that have such a file, and its path, in order."""
    matches = ((_EPISODE.match(path), path) for path in files if f"/{name}" in path)
    return sorted((int(match[1]), path) for match, path in matches if match)


def _opening(files: Mapping[str, Any]) -> tuple[str | None, str | None, str | None]:
    """Return rules, task and first screen of the first prompt."""
    prompts = _numbered(files, "prompt.txt")
    text = _text(files[prompts[0][1]]) if prompts else None
    rules, task, state = split_terminus_task(text)
    if state is None and (match := _STATE.match(text or "")):
        return match[1], None, match[2]
    return (rules, task, state) if state is not None else (text, None, None)


def _replies(files: Mapping[str, Any], last_pane: str | None, ledger: Ledger) -> list[Step]:
    prompts = dict(_numbered(files, "prompt.txt"))
    replies = _numbered(files, "response.")
    found = []
    for turn, (number, path) in enumerate(replies):
        reply = _reply(files[path])
        following = replies[turn + 1][0] if turn + 1 < len(replies) else number + 1
        screen = _text(files[prompts[following]]) if following in prompts else None
        if following in prompts:
            ledger.became(prompts[following], "observation")
        elif turn + 1 == len(replies) and last_pane is not None:
            screen = last_pane
            ledger.became("panes/post-agent.txt", "observation")
        ledger.became(path, "action")
        complaint = screen is not None and _COMPLAINT.match(screen) is not None
        commands = None if reply is None else reply.get("commands")
        step = Step(
            action=_text(files[path]) or to_json_text(files[path]),
            action_kind="message",
            action_valid=False,
            turn=turn,
            observation=screen,
            observation_kind="none" if screen is None else "text" if complaint else "screen",
            observation_source="harness" if complaint else "environment",
            truncated=screen is not None and cut_marks(screen)[0],
        )
        if reply is not None and isinstance(commands, list):
            told = {key: item for key, item in reply.items() if key != "commands" and item}
            said = [item for item in told.values() if isinstance(item, str)]
            step = replace(
                step,
                action=to_json_text(commands),
                action_kind="keystrokes",
                action_valid=True,
                thought="\n\n".join(said) or None,
            )
        found.append(step)
    if prompts and replies and min(prompts) in prompts:
        ledger.became(prompts[min(prompts)], "context")
    return found


def _reply(content: Any) -> dict[str, Any] | None:
    """Return the object of a reply, which may stand in a text."""
    if isinstance(content, str):
        try:
            content = orjson.loads(content[content.index("{") : content.rindex("}") + 1])
        except ValueError:
            return None
    return content if isinstance(content, dict) else None


def _commands(files: Mapping[str, Any], last_pane: str | None, ledger: Ledger) -> list[Step]:
    text = files.get("commands.txt")
    found: list[Step] = []
    for number, line in enumerate(text.split("\n") if isinstance(text, str) else ()):
        if not line.strip():
            continue
        ledger.expect([("command", number)])
        keys = _keys(line)
        if (not found and keys[:1] == ["clear"]) or any("run-tests.sh" in key for key in keys):
            ledger.left_out(("command", number), "harness_keystrokes")
            continue
        ledger.became(("command", number), "action")
        ledger.became("commands.txt", "action")
        batch = [{"keystrokes": key} for key in keys]
        found.append(
            Step(
                action=to_json_text(batch),
                action_kind="keystrokes",
                turn=len(found),
                observation_kind="none",
            )
        )
    if found and last_pane is not None:
        ledger.became("panes/post-agent.txt", "observation")
        found[-1] = replace(found[-1], observation=last_pane, observation_kind="screen")
    return found


def _keys(line: str) -> list[str]:
    """Return the keys of a line: a Python list of texts, or one text; anything else is one key."""
    try:
        value = ast.literal_eval(line)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return [line]
    keys = value if isinstance(value, list) else [value]
    return keys if all(isinstance(key, str) for key in keys) else [line]


def _never_ran(found: list[Step], files: Mapping[str, Any]) -> bool:
    """Return whether no agent was there to act, as far as files and screen show it."""
    if not found:
        return isinstance(files.get("commands.txt"), str)
    last = shown(found[-1].observation or "")
    missing = {match["name"] for match in _MISSING.finditer(last)}
    return len(found) == 1 and any(f'"{name} ' in found[0].action for name in missing)


def _model(files: Mapping[str, Any], ledger: Ledger) -> str | None:
    model = None
    for _, path in _numbered(files, "debug.json"):
        content = files[path]
        if isinstance(content, dict) and isinstance(content.get("model"), str):
            model = model or content["model"]
            ledger.became(path, "context")
        else:
            ledger.left_out(path, "bookkeeping")
    return model


ADAPTER = Adapter(
    name="terminal-bench",
    title="Terminal-Bench 1 trial folders (Terminus logs, casts, panes)",
    domains=("terminal",),
    detect=detect,
    extract=extract,
    bundle=bundle,
)
