"""The seven domains: what they claim, and the texts they give to a world model."""

from __future__ import annotations

import re

import orjson
import pytest
from recorded_logs import logged

from trajkit import domains
from trajkit.domains.base import OBSERVATION_MARK, action_turn
from trajkit.model import Origin, Step, Trajectory

GUI = ("web", "os", "android")


def episode(*steps: tuple[str, str | None, str]) -> Trajectory:
    """Return an episode of steps given as kind, name and action."""
    return Trajectory(
        origin=Origin(path="a.json"),
        adapter="test",
        steps=tuple(
            Step(action=action, action_kind=kind, action_name=name, turn=number, observation="x")  # type: ignore[arg-type]
            for number, (kind, name, action) in enumerate(steps)
        ),
    )


def calls(*names: str) -> Trajectory:
    """Return an episode of tool calls."""
    return episode(
        *(("tool_call", name, f'{{"name": "{name}", "arguments": {{}}}}') for name in names)
    )


@pytest.mark.parametrize(
    ("names", "domain"),
    [
        (["web_search", "web_extractor"], "search"),
        (["search", "visit"], "search"),
        (["exa-search-web_search_exa"], "search"),
        (["google_web_search", "dict_memory", "dict_memory"], "search"),
        (["bash"], "swe"),
        (["Bash", "Read", "Edit", "Grep", "TodoWrite", "TodoWrite"], "swe"),
        (["run_shell_command", "read_file", "write_file"], "swe"),
        (["str_replace_editor", "execute_bash", "think", "finish"], "swe"),
        (["apply_patch", "shell"], "swe"),
        (["get_weather"], "mcp"),
        (["notion-API-post-search", "local-claim_done"], "mcp"),
        (["mcp__shop__list_items", "mcp__shop__get_item", "Read"], "mcp"),
        (["dict_memory"], "mcp"),
    ],
)
def test_tool_names_tell_the_domain(names: list[str], domain: str) -> None:
    assert domains.guess(calls(*names)) == domain


def test_a_web_search_inside_a_coding_session_leaves_it_a_coding_session() -> None:
    assert domains.guess(calls("Bash", "WebSearch", "Read", "WebFetch", "Edit")) == "swe"


def test_more_searches_than_code_make_a_search_session() -> None:
    assert domains.guess(calls("WebSearch", "WebFetch", "WebSearch", "Read")) == "search"


@pytest.mark.parametrize(
    ("kind", "name", "action", "domain"),
    [
        ("keystrokes", "bash_command", '[{"keystrokes":"ls\\n"}]', "terminal"),
        ("tool_call", "send", '{"name": "send", "arguments": {"keystrokes": "ls"}}', "terminal"),
        ("code", "python", "import pyautogui\npyautogui.click(1, 2)", "os"),
        ("tool_call", "run", '{"name": "run", "arguments": {"code": "pyautogui.press(1)"}}', "os"),
        ("code", "bash", "ls -la", "swe"),
        ("gui", "click", "click('12')", "web"),
        ("gui", "click", "click [1234]", "web"),
        ("gui", "goto", "goto('http://a.example')", "web"),
        ("gui", "go_back", "go_back", "web"),
        ("tool_call", "click", '{"name": "click", "arguments": {"bid": "12"}}', "web"),
        ("gui", "click", '{"action_type":"click","x":540,"y":598}', "android"),
        ("gui", "touch", "TouchEvent(view=abc)", "android"),
    ],
)
def test_the_form_of_an_action_tells_the_domain(
    kind: str, name: str, action: str, domain: str
) -> None:
    assert domains.guess(episode((kind, name, action))) == domain


def test_talk_alone_belongs_to_no_domain() -> None:
    assert domains.guess(episode(("message", None, "hello"), ("none", None, ""))) is None


def test_plain_python_between_mouse_actions_does_not_leave_the_desktop() -> None:
    steps = [("code", "python", "pyautogui.click(1, 2)")] + [("code", "python", "print(1)")] * 2
    assert domains.guess(episode(*steps)) == "os"


def test_recorded_logs_belong_to_the_domain_of_their_folder() -> None:
    guessed = [(folder, domains.guess(found)) for folder, found in logged()]
    assert len(guessed) >= 30
    assert [pair for pair in guessed if pair[0] != pair[1]] == []


def demonstrated(name: str) -> list[tuple[str, str]]:
    """Return the actions and observations of a domain's demonstrations."""
    turns = re.split(r"(?m)^### Turn \d+\n\n", domains.load(name).demonstrations)[1:]
    pairs = []
    for turn in turns:
        action, observation = turn.split(f"\n\n{OBSERVATION_MARK}")
        match = re.fullmatch(r"\*\*Action:\*\*\n```\w*\n(.*)\n```", action, re.DOTALL)
        assert match is not None
        pairs.append((match.group(1), observation.strip("\n")))
    return pairs


@pytest.mark.parametrize("name", domains.ORDER)
def test_demonstrations_have_the_layout_of_a_turn(name: str) -> None:
    domain = domains.load(name)
    pairs = demonstrated(name)
    assert pairs
    expected = "\n\n".join(
        action_turn(domain, number, action, task=None, initial_state=None)
        + f"\n\n{OBSERVATION_MARK}{observation}"
        for number, (action, observation) in enumerate(pairs, 1)
    )
    assert domain.demonstrations == expected


@pytest.mark.parametrize("name", [name for name in domains.ORDER if name not in ("web", "os")])
def test_demonstrated_json_actions_parse(name: str) -> None:
    assert all(orjson.loads(action) for action, _ in demonstrated(name))


def test_the_demonstrated_terminal_echoes_what_is_typed() -> None:
    for action, observation in demonstrated("terminal"):
        for batch in orjson.loads(action):
            for line in filter(None, batch["keystrokes"].split("\n")):
                assert f"$ {line}\n" in observation


@pytest.mark.parametrize("name", domains.ORDER)
def test_only_gui_domains_show_a_state_in_the_first_turn(name: str) -> None:
    marks = {"web": "**Current State:**", "os": "**Current State:**"}
    marks["android"] = "**Current Phone State:**"
    assert domains.load(name).state_mark == marks.get(name)
