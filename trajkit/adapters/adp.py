"""Agent Data Protocol rows: the standardised form of NeuLab's collection, versions up to 1.3.

Defined by the `schema/` of the agent-data-protocol repository. A row has an `id`, its `content`
(actions and observations in order) and `details`.

Drift handled here: no version and no links at first, so that an observation belongs to the action
before it; `schema_version`, `reasoning_content` and `reward` (1.2); `tool_call_id` on actions and
observations (1.3); the source of a text was first user, agent or environment, later system, user
or assistant; `available_apis`, later `available_custom_tools` and `available_code_languages`.

Traps: the goal is the first text a person said, in some sets a `message_action`, and it may stand
behind the first screen. Early rows call every observation a person's words, so the text after an
action is the environment's whatever it says. A person's short line between the last call and a
closing `<finish>` was put there by a converter and is the harness's. Several observations of one
action are joined by an empty line. A page with `axtree` and `html` is kept as the former. A picture
is only a path; what its annotations say stands in its place. Sets made from text grammars have
`Thought:` and `Action:` inside messages.

Smallest shape: {"id": "1", "content": [{"class_": "text_observation", "content": "...", "source":
"user"}, {"class_": "api_action", "function": "f", "kwargs": {}}, {"class_": "text_observation",
"content": "...", "source": "environment"}], "details": {}}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from trajkit.adapters import Adapter
from trajkit.adapters.fields import first_text, mapping, mappings, no_action, quantity, text
from trajkit.adapters.messages import Call, Message, fold, id_text, make_call, tools_text
from trajkit.adapters.text_calls import labelled
from trajkit.model import (
    DOMAINS,
    Domain,
    ObservationKind,
    OutcomeStatus,
    Record,
    Reject,
    Step,
    Trajectory,
    to_json_text,
)

_CLASS = re.compile(r"(api|code|message)_action|(text|web|image|json)_observation")
_TOUCH = {"touch_and_lift", "touch", "swipe", "press_back", "press_home", "press_enter"}
_TOOLS = ("available_apis", "available_custom_tools", "available_code_languages")
_VERB = re.compile(r"\s*([A-Za-z_]\w*)\s*[\[(]")
_MAX_DETAIL_CHARS = 4_000
_MAX_VERDICT_CHARS = 120
_SHOP = "WebShop [SEP]"


def detect(value: Any) -> bool:
    """Return whether a value is a row of actions and observations."""
    if not isinstance(value, dict) or not isinstance(value.get("content"), list):
        return False
    content = value["content"]
    return bool(content) and all(
        isinstance(event, dict)
        and isinstance(event.get("class_"), str)
        and _CLASS.fullmatch(event["class_"]) is not None
        for event in content
    )


@dataclass(frozen=True, slots=True)
class _Seen:
    """An observation as text."""

    text: str
    kind: ObservationKind | None = None
    media: tuple[dict[str, Any], ...] = ()


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the one episode of a row, or the reason why it is none."""
    row = record.value
    content: list[dict[str, Any]] = row["content"]
    record.ledger.expect(range(len(content)))
    n_given = next((n for n, event in enumerate(content) if _acts(event, n)), len(content))
    task, state = _beginning(content[:n_given])
    kinds: dict[str, ObservationKind] = {}
    folded = fold(_messages(content, n_given, kinds), record.ledger)
    if not folded.acts:
        yield no_action(record)
        return
    for number in range(n_given):
        record.ledger.became(number, "context")
    details = mapping(row.get("details"))
    rewards = [event["reward"] for event in content if quantity(event.get("reward")) is not None]
    kept = {
        name: value
        for name, value in details.items()
        if name not in ("model_name", "exit_status")
        and len(to_json_text(value)) <= _MAX_DETAIL_CHARS
    }
    meta = {"id": row.get("id"), "details": kept, "linked_by": folded.linked_by}
    tools = {name: row[name] for name in _TOOLS if row.get(name)}
    yield Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        format_version=text(row.get("schema_version")),
        domain=_domain(content),
        model=text(details.get("model_name")),
        task=task,
        agent_system_prompt=first_text(
            [e for e in content[:n_given] if e.get("source") == "system"], "content"
        ),
        action_space=tools_text(tools),
        initial_state=state,
        outcome_status=_outcome(details),
        reward=float(rewards[-1]) if rewards else None,
        exit_status=text(details.get("exit_status")),
        meta=to_json_text(meta),
        steps=tuple(_with_kind(step, kinds) for step in folded.steps),
    )


def _acts(event: dict[str, Any], number: int) -> bool:
    """Return whether an event is the agent's own; some sets open with the goal as a message."""
    return event["class_"].endswith("_action") and (number > 0 or "function" in event)


def _beginning(events: list[dict[str, Any]]) -> tuple[str | None, str | None]:
    """Return the goal, and what the environment showed before the agent acted."""
    asked: list[str] = []
    states: list[str] = []
    for event in events:
        if event["class_"] == "message_action" or event.get("source") == "user":
            asked.append(_seen(event).text)
        elif event.get("source") != "system":
            states.append(_seen(event).text)
    if not asked and states and events[0]["class_"] == "text_observation":
        asked.append(states.pop(0))
    return "\n\n".join(asked) or None, "\n\n".join(states) or None


def _messages(
    content: list[dict[str, Any]], first: int, kinds: dict[str, ObservationKind]
) -> Iterator[Message]:
    place = first
    while place < len(content):
        event = content[place]
        run = _run(content, place, actions=event["class_"].endswith("_action"))
        place += len(run)
        if not event["class_"].endswith("_action"):
            yield from _results(run, content, place, kinds)
            continue
        answers = _run(content, place, actions=False)
        linked = all(item.get("tool_call_id") for _, item in run)
        for calls in [run] if linked or 1 < len(run) == len(answers) else [[one] for one in run]:
            yield from _turn(calls)


def _run(
    content: list[dict[str, Any]], place: int, *, actions: bool
) -> list[tuple[int, dict[str, Any]]]:
    """Return the actions (or observations) that follow each other; a message ends a turn."""
    found: list[tuple[int, dict[str, Any]]] = []
    for number in range(place, len(content)):
        event = content[number]
        if event["class_"].endswith("_action") is not actions:
            break
        if found and "message_action" in (event["class_"], found[-1][1]["class_"]):
            break
        found.append((number, event))
    return found


def _turn(run: list[tuple[int, dict[str, Any]]]) -> Iterator[Message]:
    thoughts = [event.get("reasoning_content") for _, event in run]
    said = [event.get("description") for _, event in run]
    number, first = run[0]
    call = _call(first)
    if call is None:
        yield Message(
            role="assistant",
            text=text(first.get("content")),
            thought=_joined([*thoughts, *said]),
            event=number,
        )
        return
    if first["class_"] == "message_action":
        parts = labelled(first["content"], "Thought", "Action")
        thoughts += [part.strip() for label, part in parts if label != "Action"]
    yield Message(
        role="assistant",
        thought=_joined([*thoughts, *said]),
        calls=tuple(made for _, event in run if (made := _call(event)) is not None),
        event=number,
        also=tuple((other, "action") for other, _ in run[1:]),
    )


def _call(event: dict[str, Any]) -> Call | None:
    call_id = id_text(event.get("tool_call_id"))
    if event["class_"] == "api_action":
        return make_call(event.get("function"), event.get("kwargs"), call_id)
    said = text(event.get("content")) or ""
    if event["class_"] == "code_action":
        return Call(action=said, name=text(event.get("language")), id=call_id, kind="code")
    acts = [part.strip() for label, part in labelled(said, "Thought", "Action") if label]
    if len(acts) < 2 or said.startswith("<finish>"):
        return None
    verb = _VERB.match(acts[-1])
    return Call(action=acts[-1], name=verb[1] if verb else None, kind="gui")


def _results(
    run: list[tuple[int, dict[str, Any]]],
    content: list[dict[str, Any]],
    after: int,
    kinds: dict[str, ObservationKind],
) -> Iterator[Message]:
    """Give what answered the actions before: by id, else one for each of them, else joined."""
    start = after - len(run)
    n_actions = 0
    while n_actions < start and content[start - 1 - n_actions]["class_"].endswith("_action"):
        n_actions += 1
    asked = content[start - 1]
    talks = asked["class_"] == "message_action" and _call(asked) is None
    closing = after == len(content) - 1 and _closes(content[after])
    closing = closing and asked["class_"] != "message_action"
    if talks or any(event.get("tool_call_id") for _, event in run) or n_actions == len(run):
        groups = [[one] for one in run]
    else:
        heard = [one for one in run[1:] if one[1].get("source") == "user"]
        groups = [[one for one in run if one not in heard], *([one] for one in heard)]
    for number, group in enumerate(groups):
        place, first = group[0]
        seen = [_seen(event) for _, event in group]
        told = "\n\n".join(one.text for one in seen)
        kind = next((one.kind for one in seen if one.kind is not None), None)
        if kind is not None:
            kinds[told] = kind
        user = first.get("source") == "user" and (talks or number > 0)
        brief = len(told) <= _MAX_VERDICT_CHARS and "\n" not in told
        invented = closing and brief and first.get("source") == "user" and group is groups[-1]
        media = [picture for one in seen for picture in one.media]
        yield Message(
            role="user" if user and not first.get("tool_call_id") else "result",
            text=told,
            call_id=id_text(first.get("tool_call_id")),
            source="harness" if invented else None,
            media=to_json_text(media) if media else None,
            event=place,
            also=tuple((other, "observation") for other, _ in group[1:]),
        )


def _closes(event: dict[str, Any]) -> bool:
    said = event.get("content")
    return event["class_"] == "message_action" and str(said).lstrip().startswith("<finish>")


def _seen(event: dict[str, Any]) -> _Seen:
    if event["class_"] == "image_observation":
        picture = {"mime": None, "sha256": None, "bytes": None, "name": text(event.get("content"))}
        notes = mappings(event.get("annotations"))
        return _Seen(to_json_text(notes) if notes else "<picture:1>", None, (picture,))
    if event["class_"] == "web_observation":
        page = next((page for key in ("axtree", "html") if (page := text(event.get(key)))), "")
        shown = mapping(event.get("image_observation"))
        media = _seen(shown | {"class_": "image_observation"}).media if shown else ()
        return _Seen(page, "html" if page.lstrip().startswith("<") else "tree", media)
    said = event.get("content")
    return _Seen(said if isinstance(said, str) else to_json_text(said))


def _with_kind(step: Step, kinds: dict[str, ObservationKind]) -> Step:
    kind = kinds.get(step.observation or "")
    if kind is None or step.observation_source != "environment":
        return step
    return replace(step, observation_kind=kind)


def _joined(texts: list[Any]) -> str | None:
    return "\n\n".join(one for one in texts if isinstance(one, str) and one) or None


def _domain(content: list[dict[str, Any]]) -> Domain | None:
    """Return the domain that only one kind of content can have."""
    if any(
        event["class_"] == "web_observation" or str(event.get("content")).startswith(_SHOP)
        for event in content
    ):
        return "web"
    if not any(event["class_"] == "image_observation" for event in content):
        return None
    if any("pyautogui" in str(e.get("content")) for e in content if e["class_"] == "code_action"):
        return "os"
    names = {event.get("function") for event in content if event["class_"] == "api_action"}
    return "android" if names & _TOUCH else None


def _outcome(details: dict[str, Any]) -> OutcomeStatus:
    said = details.get("resolved", details.get("success"))
    if said in (True, "True", "true"):
        return "success"
    return "failure" if said in (False, "False", "false") else "unknown"


ADAPTER = Adapter(
    name="adp",
    title="Agent Data Protocol rows, up to 1.3",
    domains=DOMAINS,
    detect=detect,
    extract=extract,
)
