"""browser-use agent histories: `AgentHistoryList` as its `save_to_file` writes it.

Defined by the browser-use project. Drift between 0.1 and 0.7: the agent's words stood in
`model_output.current_state` and stand in `model_output` itself (with `thinking`); the screenshot
was base64 in `state.screenshot` and is a path; tabs had a `page_id` and have a `target_id`; later
versions add `state_message`, the text the model was given. Action names drift too and are kept.

An element of `history` holds the state before, the model's output with one or more actions (one
turn), and a `result` for each action by position. The list of results may be shorter: the rest did
not run, and their steps have the error `not_executed`. An output that is null means the model gave
nothing usable: a step without an action, with the harness's error as its `error`.

The observation of an action is its result's `extracted_content` (else `long_term_memory`, else the
error); the last action that ran also gets, after an empty line, the state that the next element
begins with: `URL`, `Title` and `Tab` lines, and of a `state_message` its `<browser_state>`. The
file has no task but in a `state_message` (`<user_request>`). That the agent calls itself
successful is no reward: it stands in `meta`.

Smallest shape: {"history": [{"model_output": {"next_goal": "...", "action": [{"click": {"index":
3}}]}, "result": [{"extracted_content": "..."}], "state": {"url": "...", "title": "", "tabs": []}}]}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trajkit.adapters import Adapter
from trajkit.adapters.content import bytes_left_out
from trajkit.adapters.fields import mapping, mappings, text, time_text
from trajkit.adapters.messages import make_call
from trajkit.adapters.screens import media_text, named_picture, state_text
from trajkit.model import Record, Reject, Step, Trajectory, to_json_text

_WORDS = ("thinking", "thought", "evaluation_previous_goal", "memory", "next_goal")


def detect(value: Any) -> bool:
    """Return whether a value is a history of outputs, results and states."""
    history = value.get("history") if isinstance(value, dict) else None
    first = history[0] if isinstance(history, list) and history else None
    return isinstance(first, dict) and {"model_output", "result", "state"} <= first.keys()


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the one episode of a history."""
    history = mappings(record.value["history"])
    steps: list[Step] = []
    for number, element in enumerate(history):
        following = history[number + 1] if number + 1 < len(history) else None
        _account(record, number, element)
        steps.extend(_steps(element, following, number))
    first = history[0]
    last = _placed(history[-1].get("result"))[-1:]
    done = next((result for result in last if result.get("is_done") is True), None)
    meta = {
        "self_reported_success": done.get("success") if done else None,
        "judgement": done.get("judgement") if done else None,
        "initial_media": _media(mapping(first.get("state"))),
        "n_not_executed": sum(step.error == "not_executed" for step in steps) or None,
    }
    yield Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        domain="web",
        agent="browser-use",
        task=_tagged(first, "user_request"),
        initial_state=_state(first),
        exit_status="done" if done else None,
        started_at=time_text(mapping(first.get("metadata")).get("step_start_time")),
        meta=to_json_text({key: item for key, item in meta.items() if item is not None}),
        steps=tuple(steps),
    )


def _account(record: Record, number: int, element: dict[str, Any]) -> None:
    results = [("result", number, n) for n in range(len(_placed(element.get("result"))))]
    output, state = ("output", number), ("state", number)
    record.ledger.expect([state, output, *results])
    record.ledger.became(state, "observation" if number else "context")
    if element.get("model_output") is None:
        record.ledger.left_out(output, "no_output")
    else:
        record.ledger.became(output, "action")
    for event in results:
        record.ledger.became(event, "observation")


def _steps(element: dict[str, Any], following: dict[str, Any] | None, turn: int) -> Iterator[Step]:
    output = mapping(element.get("model_output"))
    actions = _placed(output.get("action"))
    results = _placed(element.get("result"))
    thought = _thought(output)
    time = time_text(mapping(element.get("metadata")).get("step_end_time"))
    n_steps = max(len(actions), len(results), 1)
    n_ran = len(results) or n_steps
    for number in range(n_steps):
        ran = number < n_ran
        result = results[number] if number < len(results) else {}
        after = following if ran and number == n_ran - 1 else None
        has_action = number < len(actions)
        said = _said(result) if has_action else text(result.get("extracted_content"))
        state = None if after is None else _state(after)
        observation = "\n\n".join(part for part in (said, state) if part is not None)
        seen = said is not None or state is not None
        name, arguments = _call(actions[number]) if has_action else (None, None)
        call = make_call(name, arguments) if name is not None else None
        harness = call is None or result.get("is_done") is True
        yield Step(
            action=call.action if call else "",
            action_kind="tool_call" if call else "none",
            action_name=name,
            action_valid=call is not None and call.valid,
            turn=turn,
            thought=thought if number == 0 else None,
            observation=observation if seen else None,
            observation_kind="none" if not seen else "tree" if state else "text",
            observation_source="harness" if harness and state is None else "environment",
            error=text(result.get("error")) if ran else "not_executed",
            media=None if after is None else media_text(_media(mapping(after.get("state")))),
            time=time,
        )


def _placed(value: Any) -> list[dict[str, Any]]:
    """Return the elements of a list as objects, each in its place."""
    return [mapping(item) for item in value] if isinstance(value, list) else []


def _call(action: dict[str, Any]) -> tuple[str | None, Any]:
    """Return the tool of an action, whose other tools are null in early dumps."""
    used = ((key, item) for key, item in action.items() if item is not None)
    return next((pair for pair in used if pair[0] != "interacted_element"), (None, None))


def _said(result: dict[str, Any]) -> str | None:
    content = text(result.get("extracted_content")) or text(result.get("long_term_memory"))
    parts = [part for part in (content, text(result.get("error"))) if part]
    return "\n".join(parts) if parts else None


def _thought(output: dict[str, Any]) -> str | None:
    words = mapping(output.get("current_state")) or output
    said = [(key, text(words.get(key))) for key in _WORDS]
    lines = [line if key == "thinking" else f"{key}: {line}" for key, line in said if line]
    return "\n\n".join(lines) or None


def _state(element: dict[str, Any]) -> str | None:
    state = mapping(element.get("state"))
    tabs = [
        (f"Tab {tab.get('target_id', tab.get('page_id'))}", f"{tab.get('url')} {tab.get('title')}")
        for tab in mappings(state.get("tabs"))
    ]
    lines = [("URL", state.get("url")), ("Title", state.get("title")), *tabs]
    return state_text(lines, _tagged(element, "browser_state"))


def _tagged(element: dict[str, Any], tag: str) -> str | None:
    """Return what stands inside a tag of the text that the model was given."""
    _, opened, rest = (text(element.get("state_message")) or "").partition(f"<{tag}>")
    inside, closed, _ = rest.partition(f"</{tag}>")
    return inside.removeprefix("\n").removesuffix("\n") if opened and closed else None


def _media(state: dict[str, Any]) -> list[dict[str, Any]] | None:
    data = text(state.get("screenshot"))
    if data is None:
        return named_picture(state.get("screenshot_path"))
    return [bytes_left_out(data.rpartition(",")[2], "image/png")]


ADAPTER = Adapter(
    name="browser-use",
    title="browser-use AgentHistoryList, 0.1 to 0.7 and later",
    domains=("web",),
    detect=detect,
    extract=extract,
)
