"""WebLINX demonstrations: a person tells another what to do in a browser, and it is recorded.

Defined by the WebLINX data set: `demonstrations/<id>/replay.json` with turns of type `chat` and
`browser`, beside it `form.json` (the task in words), `metadata.json` and the pages as
`pages/page-<n>-<m>.html`. A folder is read as one bundle; `replay.json` alone is read too, then
the pages are not known.

A browser turn holds the state before its action (`state.page`, `state.screenshot`; `state` may be
null), so pages are shifted: the observation of an action is the page of the next browser turn, and
null where that turn has none. The instructor's words are a person's, the navigator's are messages
of the agent, who is a person too. The action is JSON text: `intent`, the element (tag, xpath, text,
attributes, box) and the other arguments; the element's own HTML and the browser's metadata but the
address are left out. Form and metadata reach the task and `meta`.

Smallest shape: {"data": [{"type": "chat", "speaker": "instructor", "utterance": "..."}, {"type":
"browser", "action": {"intent": "click", "arguments": {}}, "state": {"page": "page-1-0.html"}}]}
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from trajkit.adapters import Adapter
from trajkit.adapters.fields import first_text, mapping, text
from trajkit.adapters.messages import Call, Message, fold
from trajkit.adapters.screens import media_text, named_picture
from trajkit.model import Bundle, Record, Reject, Step, Trajectory, to_json_text

_FILES = re.compile(r"(.+)/(?:replay\.json|form\.json|metadata\.json|pages/page-\d+-\d+\.html)\Z")
_ELEMENT = ("tagName", "xpath", "textContent", "attributes", "bbox")
_INTENTS = {"load", "click", "textInput", "scroll", "change", "submit", "hover", "copy", "paste"}
_INTENTS |= {"tabcreate", "tabremove", "tabswitch", "say"}


def bundle(path: str) -> str | None:
    """Return the folder of a demonstration."""
    found = _FILES.match(path)
    return found.group(1) if found else None


def detect(value: Any) -> bool:
    """Return whether a value is a replay, or a folder with one."""
    if isinstance(value, Bundle):
        return "replay.json" in value.files and detect(value.files["replay.json"])
    turns = value.get("data") if isinstance(value, dict) else None
    if not isinstance(turns, list) or not turns:
        return False
    return all(isinstance(turn, dict) for turn in turns) and any(_is_turn(turn) for turn in turns)


def _is_turn(turn: dict[str, Any]) -> bool:
    intent = mapping(turn.get("action")).get("intent")
    if turn.get("type") == "chat":
        return "utterance" in turn and turn.get("speaker") in ("instructor", "navigator")
    return turn.get("type") == "browser" and isinstance(intent, str) and intent in _INTENTS


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the one episode of a demonstration."""
    files: Mapping[str, Any] = (
        record.value.files if isinstance(record.value, Bundle) else {"replay.json": record.value}
    )
    turns = files["replay.json"]["data"]
    pages = {name: files[name] for name in files if name.startswith("pages/")}
    record.ledger.expect([*range(len(turns)), *files])
    for name in files:
        if name in pages:
            record.ledger.left_out(name, "unused_page")
        else:
            record.ledger.became(name, "context")
    told = [mapping(files[name]) for name in ("form.json", "metadata.json") if name in files]
    folded = fold(_messages(turns, pages, record), record.ledger)
    first_name, first, _ = _next_state(turns, pages)
    if first_name is not None:
        record.ledger.became(f"pages/{first_name}", "context")
    meta = {
        "demonstration": record.origin.path.rpartition("/")[2] if told or pages else None,
        "category": first_text(told, "category", "domain"),
        "linked_by": folded.linked_by,
    }
    yield Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        domain="web",
        agent="human",
        task=first_text(told, "description", "task") or folded.task,
        initial_state=first,
        meta=to_json_text({key: item for key, item in meta.items() if item is not None}),
        steps=tuple(map(_shown, folded.steps)),
    )


def _shown(step: Step) -> Step:
    """Return a step with its page as HTML, or without one where only the picture is known."""
    if step.action_kind != "gui" or step.observation is None:
        return step
    if step.observation == "":
        return replace(step, observation=None, observation_kind="none")
    return replace(step, observation_kind="html")


def _messages(
    turns: list[dict[str, Any]], pages: Mapping[str, Any], record: Record
) -> Iterator[Message]:
    for number, turn in enumerate(turns):
        time = turn.get("timestamp")
        when = None if time is None else str(time)
        if turn.get("type") == "chat":
            said = text(turn.get("utterance"))
            role: Any = "user" if turn.get("speaker") == "instructor" else "assistant"
            yield Message(role=role, text=said, time=when, event=number)
            continue
        action = mapping(turn.get("action"))
        intent = text(action.get("intent"))
        if intent is None:
            record.ledger.left_out(number, "no_intent")
            continue
        written = to_json_text({"intent": intent, **_arguments(mapping(action.get("arguments")))})
        call = Call(action=written, name=intent, kind="gui")
        yield Message(role="assistant", calls=(call,), time=when, event=number)
        name, page, shot = _next_state(turns[number + 1 :], pages)
        if name is not None:
            record.ledger.became(f"pages/{name}", "observation")
        if page is not None or shot is not None:
            yield Message(role="result", text=page, media=media_text(named_picture(shot)))


def _next_state(
    turns: list[dict[str, Any]], pages: Mapping[str, Any]
) -> tuple[str | None, str | None, Any]:
    """Return name and text of the page that the next browser turn saw, and its screenshot."""
    turn = next((turn for turn in turns if turn.get("type") == "browser"), {})
    state = mapping(turn.get("state"))
    name = text(state.get("page"))
    page = None if name is None else text(pages.get(f"pages/{name}"))
    return name if page is not None else None, page, state.get("screenshot")


def _arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for key, item in arguments.items():
        if key == "element":
            element = mapping(item)
            given[key] = {name: element[name] for name in _ELEMENT if name in element}
        elif key == "metadata":
            given["url"] = mapping(item).get("url")
        else:
            given[key] = item
    return given


ADAPTER = Adapter(
    name="weblinx",
    title="WebLINX demonstrations (replay.json with its pages)",
    domains=("web",),
    detect=detect,
    extract=extract,
    bundle=bundle,
)
