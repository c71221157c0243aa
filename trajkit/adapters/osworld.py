"""OSWorld runs: `traj.jsonl`, one line an action, with `result.txt` and the task's own file.

Defined by OSWorld's runner and its many forks. The log has no task, no model and no tree: they come
from the path (`.../<action space>/<observation type>/<model>/<domain>/<task id>/traj.jsonl`), from
`result.txt` (the score) and from `evaluation_examples/**/<task id>.json` (the instruction). All
files of one task id make one bundle, wherever they lie, and each `traj.jsonl` in it is a run of its
own; a file to which a second attempt was appended (its `step_num` falls) holds one run more.

Lines of one `step_num` come from one answer of the model and share a turn; `response` is the
thought. The action is PyAutoGUI code, `WAIT`, `DONE`, `FAIL`, or an object; a block of reasoning
that some agents quote inside their code is taken out of it, into the thought. Drift: a first line
`__init__` that is no action; the `instruction` in each line; the picture after the action
(`screenshot_file`), or in some forks the one before it (`screenshot_file_before_exec`, shifted); an
`accessibility_tree` in few forks. Pictures are named in `media`, their pixels are not in the log,
so most steps have no observation. The `reward` of a line is always 0 and is not read. A line
`{"Error": ...}` ends a run: it is the `exit_status`. `args.json` and task files without a run are
rejects, for they hold no action.

Smallest shape: {"step_num": 1, "action_timestamp": "20250828@194631", "action": "WAIT", "reward":
0, "done": false, "info": {}, "screenshot_file": "step_1_20250828@194631.png"}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from trajkit.adapters import Adapter
from trajkit.adapters.content import content_text
from trajkit.adapters.fields import first_text, mapping, mappings, quantity, text
from trajkit.adapters.screens import call_name, media_text, named_picture, outcome_of
from trajkit.model import ActionKind, Bundle, Origin, Record, Reject, Step, Trajectory, to_json_text

_ID = r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}[\w-]*"
_TASK_FILE = re.compile(rf"(?:.*/)?evaluation_examples\w*/(?:.*/)?({_ID})\.json\Z")
_RUN_FILE = re.compile(r"(.+)/(?:traj\.jsonl|result\.txt|args\.json)\Z")
_TREES = ("accessibility_tree", "a11y_tree")
_ERROR = re.compile(r"(?:\A|\s)[\w-]+/[\w-]+(?:\Z|\s)")
_OBSERVATIONS = ("screenshot", "a11y_tree", "screenshot_a11y_tree", "som")
_REASONING = re.compile(r"\n'''\n(Observation:.*?)\n'''\n", re.DOTALL)
_SPECIAL = {"WAIT", "DONE", "FAIL", "CALL_USER"}


def bundle(path: str) -> str | None:
    """Return the task id of a file, or the folder of a run that is named otherwise."""
    if task := _TASK_FILE.match(path):
        return f"osworld/{task.group(1)}"
    run = _RUN_FILE.match(path)
    if run is None:
        return None
    folder = run.group(1).rpartition("/")[2]
    return f"osworld/{folder}" if re.fullmatch(_ID, folder) else run.group(1)


def detect(value: Any) -> bool:
    """Return whether a value is a line, a file that goes with runs, or a bundle with a run."""
    if isinstance(value, Bundle):
        return any(
            _is_trajectory(name) and any(map(_is_line, mappings(_listed(value.files[name]))))
            for name in value.files
        )
    return _is_line(value) or _is_task(value) or _is_settings(value)


def _is_trajectory(name: str) -> bool:
    return name.rpartition("/")[2] == "traj.jsonl"


def _listed(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [content]


def _is_line(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    if value.keys() == {"Error"}:
        return isinstance(value["Error"], str) and bool(_ERROR.search(value["Error"]))
    return {"step_num", "action_timestamp", "action"} <= value.keys()


def _is_task(value: Any) -> bool:
    keys = {"id", "instruction", "evaluator", "config"}
    return isinstance(value, dict) and keys <= value.keys()


def _is_settings(value: Any) -> bool:
    keys = {"action_space", "observation_type", "test_all_meta_path"}
    return isinstance(value, dict) and keys <= value.keys()


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the runs of a bundle or of one file."""
    if isinstance(record.value, Bundle):
        yield from _bundled(record, record.value)
        return
    if isinstance(record.value, dict) and not _is_line(record.value):
        is_task = _is_task(record.value)
        yield Reject(
            origin=record.origin,
            reason="question_only" if is_task else "metadata_only",
            message="a task without a run" if is_task else "the settings of runs, without a run",
        )
        return
    lines = _listed(record.value)
    yield from _runs(record, record.origin, lines, [], {}, None)


def _bundled(record: Record, files: Bundle) -> Iterator[Trajectory | Reject]:
    contents = {name: files.files[name] for name in sorted(files.files)}
    runs = [name for name in contents if _is_trajectory(name)]
    task: dict[str, Any] = {}
    for name, content in contents.items():
        if name not in runs:
            record.ledger.expect([name])
            record.ledger.became(name, "context")
        if _is_task(content):
            task = content
    for name in runs:
        folder = name.rpartition("/")[0]
        beside = f"{folder}/" if folder else ""
        whole = name if folder else f"{record.origin.path}/{name}"
        settings = mapping(contents.get(f"{beside}args.json"))
        score = _score(contents.get(f"{beside}result.txt"))
        origin = Origin(path=whole, key=name)
        yield from _runs(record, origin, _listed(contents[name]), [name], task, score, settings)


def _score(content: Any) -> float | None:
    try:
        return quantity(content) if not isinstance(content, str) else float(content.strip())
    except ValueError:
        return None


def _runs(
    record: Record,
    origin: Origin,
    lines: list[Any],
    prefix: list[str],
    task: dict[str, Any],
    score: float | None,
    settings: dict[str, Any] | None = None,
) -> Iterator[Trajectory | Reject]:
    """Give one trajectory for each attempt that the lines of a file hold."""
    record.ledger.expect((*prefix, place) if prefix else place for place in range(len(lines)))
    attempts: list[list[dict[str, Any]]] = [[]]
    error: str | None = None
    latest = 0
    for place, line in enumerate(lines):
        event: Any = (*prefix, place) if prefix else place
        if not _is_line(line):
            record.ledger.left_out(event, "unknown_event")
            continue
        if "Error" in line:
            error = line["Error"]
            record.ledger.became(event, "context")
            continue
        if line["action"] == "__init__":
            record.ledger.became(event, "context")
            continue
        turn = line["step_num"] if isinstance(line["step_num"], int) else latest
        if turn < latest:
            attempts.append([])
        latest = turn
        attempts[-1].append(line)
        record.ledger.became(event, "action")
    if not attempts[-1]:
        message = f"the run ended before its first action: {error}"[:200]
        yield Reject(origin=origin, reason="error_only", message=message)
        return
    told = _told(origin.path)
    known = mapping(settings) or told
    for count, attempt in enumerate(attempts, 1):
        is_last = count == len(attempts)
        meta = {
            "task_id": text(task.get("id")) or told.get("task_id"),
            "application": told.get("application"),
            "action_space": known.get("action_space"),
            "observation_type": known.get("observation_type"),
            "snapshot": task.get("snapshot"),
            "error": error if is_last else None,
        }
        yield Trajectory(
            origin=Origin(path=origin.path, line=origin.line, key=_key(origin.key, count)),
            adapter=ADAPTER.name,
            domain="os",
            model=first_text([known], "model"),
            task=first_text([task, *mappings(lines)], "instruction"),
            outcome_status=outcome_of(score) if is_last else "unknown",
            reward=score if is_last else None,
            exit_status="error" if error and is_last else _ending(attempt[-1]),
            started_at=text(attempt[0].get("action_timestamp")),
            meta=to_json_text({key: item for key, item in meta.items() if item}),
            steps=tuple(_steps(attempt)),
        )


def _told(path: str) -> dict[str, str]:
    """Return what the folders above a run say, when they are laid out as the runner does."""
    parts = path.split("/")
    place = next((n for n, part in enumerate(parts[:-4]) if part in _OBSERVATIONS), 0)
    if place == 0:
        return {}
    return {
        "action_space": parts[place - 1],
        "observation_type": parts[place],
        "model": "/".join(parts[place + 1 : -3]),
        "application": parts[-3],
        "task_id": parts[-2],
    }


def _key(key: str | None, count: int) -> str | None:
    return key if count == 1 else f"{key or ''}#{count}"


def _ending(line: dict[str, Any]) -> str | None:
    action = line["action"]
    return action.lower() if isinstance(action, str) and action in ("DONE", "FAIL") else None


def _steps(lines: list[dict[str, Any]]) -> Iterator[Step]:
    turn = -1
    for place, line in enumerate(lines):
        follows = lines[place + 1] if place + 1 < len(lines) else {}
        begins = place == 0 or line["step_num"] != lines[place - 1]["step_num"]
        turn += begins
        action, kind, name = _action(line["action"])
        reasoning = _REASONING.search(action) if kind == "code" else None
        if reasoning:
            action = action.replace(reasoning.group(), "\n", 1)
            name = call_name(action)
        said = content_text(line.get("response"))[0] or (reasoning and reasoning.group(1))
        tree = first_text([line], *_TREES)
        shot = line.get("screenshot_file") or follows.get("screenshot_file_before_exec")
        yield Step(
            action=action,
            action_kind=kind,
            action_name=name,
            turn=turn,
            thought=said or None if begins else None,
            observation=tree,
            observation_kind="none" if tree is None else "tree",
            error=first_text([mapping(line.get("info"))], "error"),
            media=media_text(named_picture(shot)),
            time=text(line.get("action_timestamp")),
        )


def _action(value: Any) -> tuple[str, ActionKind, str | None]:
    if isinstance(value, str):
        if value in _SPECIAL:
            return value, "gui", value
        return value, "code" if value else "none", call_name(value)
    if value is None:
        return "", "none", None
    return to_json_text(value), "gui", first_text([mapping(value)], "action_type", "name")


ADAPTER = Adapter(
    name="osworld",
    title="OSWorld runs (traj.jsonl with result.txt and task file)",
    domains=("os",),
    detect=detect,
    extract=extract,
    unit="session",
    bundle=bundle,
)
