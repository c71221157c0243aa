"""WebArena runs: rendered HTML pages, one file a task, and the JSON of its published successes.

The HTML (`render_<task>.html`) is written by the rendering helper of WebArena and its many forks:
a `<pre>` of configuration lines, then for each page its URL, the observation, maybe a screenshot as
base64, the previous action and the predicted one. All text is put in without escaping, so a page
that shows `</pre>` or `&lt;` stands there as it is: the file is cut at the helper's own marks and
never parsed as markup. Drift handled here: `URL: ` before the address or not; `<h1>` for `<h2>`; a
`div` that is closed or not; forks that escape the text (told by `&#x27;` in an observation without
any quote) are unescaped; actions as raw prediction plus parsed action, or as bare text.

The JSON has `intent` and a `trajectory` of alternating `{url, axtree}` and `{metadata, action}`.

Observations stand before the action in both and are shifted: the first is the initial state. A
state is `URL: <address>`, an empty line and the tree, word for word with its private-use signs. The
action is the last ``` fence of the raw prediction (the rest is the thought), else the parsed
action; of the JSON, the action's name and its fields that are not empty. That a prediction was not
understood, or named no element, is told by the next page's `prev_action`. A stop that the runner
put in (`Early stop: ...`) is no action but the `exit_status`. Scores lie in another file.

Smallest shape: <pre>intent: ...</pre><h2>New Page</h2><h3 class='url'><a href=u>URL: u</a></h3>
<div class='state_obv'><pre>...</pre><div><div class='predict_action'>...</div>
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from trajkit.adapters import Adapter
from trajkit.adapters.content import bytes_left_out
from trajkit.adapters.fields import mapping, mappings, text
from trajkit.adapters.messages import call_text
from trajkit.adapters.screens import call_name, media_text, named_picture, state_text
from trajkit.model import Record, Reject, Step, Trajectory, to_json_text

_STATE = "<div class='state_obv'><pre>"
_URL = "<h3 class='url'><a href="
_PAGE = re.compile(rf"<h[12]>New Page</h[12]>\s{{0,9}}(?:<h2[^>\n]*>URL</h2>)?{_URL}")
_STATE_END = re.compile(
    r"</pre><(?:/?)div>\n(?=\s{0,9}(?:<h2[^>\n]*>[\w ]+</h2>)?(?:<div style=[^>\n]*>)?"
    r"(?:<img src='data:|<div class='(?:prev_action|predict_action)'))"
)
_IMAGE = re.compile(r"<img src='data:([\w/]+);base64,([A-Za-z0-9+/=]*)'")
_PARTS = ("raw_parsed_prediction", "action_object", "parsed_action")
_FENCE = re.compile(r"```(.*?)```", re.DOTALL)
_CONFIG = re.compile(
    r"^(sites|task_id|require_login|storage_state|start_url|geolocation|intent_template"
    r"|instantiation_dict|intent|require_reset|eval|intent_template_id|image|comments|\w+): ",
    re.MULTILINE,
)
_KEPT = ("task_id", "sites", "start_url", "intent_template", "intent_template_id")
_COMPLAINTS = ("The previous prediction you issued was", "Attempt to perfom", "Attempt to perform")
_EARLY = re.compile(r"stop \[(Early stop: .*)\]\s*\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Page:
    """One state and the action taken on it."""

    state: str | None
    media: str | None
    action: str
    thought: str | None
    name: str | None = None
    complaint: str | None = None
    """What the harness said of the action before."""
    early_stop: str | None = None
    understood: bool = True


def detect(value: Any) -> bool:
    """Return whether a value is a rendered run, or one of the published JSON runs."""
    if isinstance(value, str):
        return _STATE in value and _PAGE.search(value) is not None
    if not isinstance(value, dict) or "intent" not in value:
        return False
    trajectory = value.get("trajectory")
    first = trajectory[0] if isinstance(trajectory, list) and trajectory else None
    return isinstance(first, dict) and "axtree" in first and "url" in first


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the one episode of a run."""
    if isinstance(record.value, str):
        config, pages = _rendered(record.value)
    else:
        config, pages = record.value, _published(record.value["trajectory"])
    ledger = record.ledger
    ledger.expect(["config", *((kind, n) for n in range(len(pages)) for kind in ("state", "act"))])
    ledger.became("config", "context")
    for number, page in enumerate(pages):
        ledger.became(("state", number), "observation" if number else "context")
        ledger.became(("act", number), "context" if page.early_stop else "action")
    yield Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        domain="web",
        model=text(config.get("source")),
        task=text(config.get("intent")),
        initial_state=pages[0].state if pages else None,
        exit_status=next((page.early_stop for page in pages if page.early_stop), None),
        meta=to_json_text({key: config[key] for key in _KEPT if key in config}),
        steps=tuple(_steps(pages)),
    )


def _steps(pages: list[_Page]) -> Iterator[Step]:
    for number, page in enumerate(pages):
        following = pages[number + 1] if number + 1 < len(pages) else None
        if page.early_stop or not (page.action or page.thought):
            continue
        observation = following.state if following else None
        complaint = following.complaint if following else None
        yield Step(
            action=page.action,
            action_kind="gui" if page.action else "none",
            action_name=page.name,
            action_valid=page.understood and complaint is None,
            turn=number,
            thought=page.thought,
            observation=observation,
            observation_kind="none" if observation is None else "tree",
            error=complaint,
            media=following.media if following else None,
        )


def _rendered(document: str) -> tuple[dict[str, str], list[_Page]]:
    places = [found.start() for found in _PAGE.finditer(document)]
    ends = [*places[1:], len(document)]
    config = document[: places[0]].partition("<pre>")[2].rpartition("</pre>")[0]
    marks = list(_CONFIG.finditer(config))
    until = [mark.start() - 1 for mark in marks[1:]] + [len(config)]
    settings = {
        mark.group(1): config[mark.end() : end].removesuffix("\n")
        for mark, end in zip(marks, until, strict=True)
    }
    pages = [document[start:end] for start, end in zip(places, ends, strict=True)]
    return settings, [_page(page) for page in pages]


def _page(section: str) -> _Page:
    address = section.partition(_URL)[2].partition("</a></h3>")[0]
    # The address stands twice with `>` between, and may hold that sign itself.
    _, is_labelled, url = address.partition(">URL: ")
    url = url if is_labelled else address[len(address) // 2 + 1 :]
    rest = section.partition(_STATE)[2]
    end = _STATE_END.search(rest)
    tree, rest = (rest[: end.start()], rest[end.end() :]) if end else ("", rest)
    before = rest.partition("<div class='prev_action'")[2].partition(">")[2]
    said = before.partition("</div>\n")[0]
    picture = _IMAGE.search(rest)
    predicted = rest.partition("<div class='predict_action'>")[2]
    raw, _, parsed = _parts(predicted)
    if not any(f"<div class='{part}'" in predicted for part in _PARTS):
        parsed = predicted.rpartition("</div>")[0]
    if "&#x27;" in tree and "'" not in tree:
        tree, said, raw, parsed = map(html.unescape, (tree, said, raw, parsed))
    fences = list(_FENCE.finditer(raw))
    early = None if raw else _EARLY.match(parsed)
    around = raw[: fences[-1].start()] + raw[fences[-1].end() :] if fences else raw
    media = [bytes_left_out(picture.group(2), picture.group(1))] if picture else None
    understood = parsed != "none"
    action = fences[-1].group(1).strip() if fences else parsed
    if not fences and not understood:
        action, around = raw, ""
    return _Page(
        state=state_text([("URL", url)], tree),
        media=to_json_text(media) if media else None,
        action=action,
        name=call_name(action) if fences or understood else None,
        thought=around.strip() or None,
        complaint=said if said.startswith(_COMPLAINTS) else None,
        early_stop=early.group(1) if early else None,
        understood=understood,
    )


def _parts(predicted: str) -> list[str]:
    """Return the texts of the divisions in a prediction, empty where there is none."""
    starts = [predicted.find(f"<div class='{part}'") for part in _PARTS]
    found: list[str] = []
    for start in starts:
        end = min((other for other in starts if other > start >= 0), default=len(predicted))
        inner = predicted[start:end].partition(">")[2] if start >= 0 else ""
        closed = inner.rfind("</pre></div>")
        found.append(inner[:closed].removeprefix("<pre>") if closed >= 0 else "")
    return found


def _published(trajectory: list[Any]) -> list[_Page]:
    """Return the pages of the JSON form; a state without an action has an empty one."""
    pages: list[_Page] = []
    turns = mappings(trajectory)
    for number, turn in enumerate(turns):
        if "axtree" not in turn:
            continue
        follows = turns[number + 1] if number + 1 < len(turns) else {}
        fields = mapping(follows.get("action"))
        name = fields.get("action_name")
        unused = ("action_name", "action_type", "raw_prediction")
        given = {key: item for key, item in fields.items() if item and key not in unused}
        pages.append(
            _Page(
                state=state_text([("URL", turn.get("url"))], turn["axtree"]),
                media=media_text(named_picture(turn.get("screenshot_path"))),
                action=call_text(name, given)[0] if fields else "",
                name=text(name),
                thought=text(mapping(follows.get("metadata")).get("cot")),
            )
        )
    return pages


ADAPTER = Adapter(
    name="webarena",
    title="WebArena rendered runs (HTML) and published JSON runs",
    domains=("web",),
    detect=detect,
    extract=extract,
)
