"""Which episodes are left out: pages, action spaces, agents and screens."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest
from steps_frames import SCREEN, steps_frame

from trajkit.filters.episodes import blocked_pages, drop_reasons
from trajkit.filters.pages import blocked_page
from trajkit.filters.tools import declared_tools, undeclared
from trajkit.tables import TABLES

ERROR_PAGES = [
    ("Title: Just a moment...\nRootWebArea 'Just a moment...'", "captcha"),
    ("Tab 0 (current): Robot Check\n\n[1] textbox 'characters'", "captcha"),
    ("RootWebArea 'Shop'\n\tStaticText 'Enter the characters you see below'", "captcha"),
    ("Our systems have detected unusual traffic from your computer network.", "captcha"),
    ("Please solve the CAPTCHA to go on.", "captcha"),
    ("<html><head><title>403 Forbidden</title></head><body>nginx</body></html>", "http_error"),
    ("Title: 502 Bad Gateway | Mill\n\nRootWebArea '502 Bad Gateway'", "http_error"),
    ("RootWebArea 'mill.example'\n\theading 'HTTP ERROR 500'", "http_error"),
    ("This page is gone. net::ERR_NAME_NOT_RESOLVED", "http_error"),
    ("Client error '429 Too Many Requests' for url 'http://mill.example/a'", "http_error"),
    ("Page: http://mill.example/x\n\nError: HTTP 404 Not Found", "not_found"),
    ("Title: Page not found - Mill\n\nRootWebArea 'Page not found - Mill'", "not_found"),
]
ORDINARY_PAGES = [
    "Title: HTTP 404 - An encyclopedia\n\n404 Not Found is a status code of HTTP.",
    "Title: What a CAPTCHA is\n\nA CAPTCHA tells people and robots apart.",
    "Title: nginx says 403 Forbidden, why?\n\nI get 403 Forbidden. Check the rights of the folder.",
    "[1] http://a.example\nTitle: 403 Forbidden\nSnippet: x\n[2] http://b.example\nTitle: Mill",
    "Title: Sign up\n[1] textbox 'Name'\n[2] textbox 'Mail'\n[3] textbox 'Town'\n"
    "[4] checkbox 'Confirm that you are not a robot'",
    "   419\t    def close(self):\n   420\t\n   421\t        pass",
    "Room 404, 500 Mill Street: not found on the map? Ask at the door.",
    "Title: 500 days of milling\n\nRootWebArea '500 days of milling'",
    "Title: 404 Not Found - Mill\n\n" + "A long page about an error. " * 400,
]


@pytest.mark.parametrize(("page", "kind"), ERROR_PAGES)
def test_a_page_that_is_a_captcha_or_an_error_is_known(page: str, kind: str) -> None:
    assert blocked_page(page) == kind


@pytest.mark.parametrize("page", ORDINARY_PAGES)
def test_a_page_that_mentions_one_is_a_page_like_any_other(page: str) -> None:
    assert blocked_page(page) is None


@pytest.mark.parametrize(
    "space",
    [
        [{"type": "function", "function": {"name": "look", "parameters": {}}}],
        [{"type": "function", "name": "look"}, {"type": "custom", "custom": {"name": "x"}}],
        [{"name": "look", "input_schema": {"type": "object"}}],
        {"tools": [{"name": "look", "inputSchema": {"type": "object"}}]},
        [{"functionDeclarations": [{"name": "look"}]}, {"googleSearch": {}}],
        {"function_declarations": [{"name": "look"}]},
        [{"toolSpec": {"name": "look", "inputSchema": {"json": {}}}}],
        {"look": {"description": "sees", "parameters": {}}},
        [{"name_for_model": "look"}],
        {"available_custom_tools": ["look"]},
        ["look"],
        [{"type": "namespace", "name": "eyes", "tools": [{"type": "function", "name": "look"}]}],
        [{"type": "mcp", "server_label": "eyes", "allowed_tools": ["look"]}],
    ],
)
def test_an_action_space_of_any_shape_declares_its_tools(space: Any) -> None:
    declared = declared_tools(json.dumps(space))
    assert "look" in declared
    assert undeclared(["look", "mcp__eyes__look", "eyes.look", "finish"], declared) == []
    assert undeclared(["hear"], declared) == ["hear"]


def test_hosted_tools_are_declared_by_their_type_and_a_bare_server_declares_nothing() -> None:
    hosted = [{"type": "web_search_preview_2025_03_11"}, {"codeExecution": {}}]
    assert undeclared(["web_search", "code_execution"], declared_tools(json.dumps(hosted))) == []
    assert declared_tools('[{"name": "a"}, {"type": "mcp", "server_label": "eyes"}]') == set()
    assert declared_tools("def look(): ...") == declared_tools("[") == declared_tools("3") == set()


def test_a_server_s_name_is_no_part_of_a_tool_but_the_tool_of_another_server_is_another() -> None:
    assert undeclared(["fetch_page"], {"web-fetch_page"}) == []
    assert undeclared(["disk-read"], {"web-read"}) == ["disk-read"]
    assert undeclared(["item"], {"get_item"}) == ["item"]


def reasons(*steps: dict[str, Any], **episode: Any) -> dict[str, str]:
    base = dict.fromkeys(TABLES["trajectories"].names) | {"trajectory_id": "t", "adapter": "x"}
    row = base | {"domain": steps[0].get("domain", "terminal")} | episode
    episodes = pl.DataFrame([row], infer_schema_length=None).cast(
        {"exit_status": pl.String, "action_space": pl.String}
    )
    frame = steps_frame(*steps)
    dropped = drop_reasons(episodes, frame, blocked_pages(frame))
    return dict(dropped.select("reason", "detail").iter_rows())


def keys(text: str, seen: str) -> dict[str, Any]:
    action = json.dumps([{"keystrokes": text}, {"keystrokes": "Enter"}], separators=(",", ":"))
    return {"action_kind": "keystrokes", "action": action, "observation": seen}


def test_a_run_whose_agent_was_not_found_never_ran() -> None:
    setup = keys("source /installed-agent/setup-env.sh", "$ ")
    started = keys(
        "mini -y -t 'sort the sacks'", "$ mini -y -t 'sort'\nbash: mini: command not found"
    )
    assert reasons(setup, started) == {"never_ran": "mini was not found"}
    unknown = keys("duckbot --task x", "bash: line 1: duckbot: command not found")
    assert reasons(unknown) == {"never_ran": "duckbot was not found"}


def test_a_run_in_which_nothing_is_done_or_that_was_not_set_up_never_ran() -> None:
    idle = {"action_kind": "none", "action": ""}
    assert reasons(idle, idle | {"observation": "x"}) == {"never_ran": "not one step does anything"}
    two = (keys("ls", "a"), keys("pwd", "/b"))
    assert reasons(*two) == {}
    for status in ("agent_never_ran", "AgentSetupTimeoutError", "agent_installation_failed"):
        assert reasons(*two, exit_status=status) == {"never_ran": status}
    assert reasons(*two, exit_status="AgentTimeoutError") == {}


def test_a_command_that_an_agent_did_not_find_is_no_agent_that_was_not_found() -> None:
    missing = keys("jq . a.json", "$ jq . a.json\nbash: jq: command not found")
    assert reasons(keys("ls", "a.json"), missing) == {}
    assert reasons(keys("make", "ok"), keys("codex --help", "bash: codex: command not found")) == {}
    seen = keys("cat log.txt", "bash: mini: command not found")
    assert reasons(keys("clear", "$ "), seen) == {}


def test_a_screen_is_owed_once_a_turn_and_not_for_talk_or_the_end() -> None:
    blind = SCREEN | {"observation": None, "observation_kind": "none"}
    talk = blind | {"action_kind": "message"}
    assert reasons(blind | {"turn": 0}, SCREEN | {"turn": 0}, SCREEN) == {}
    assert reasons(talk, SCREEN, SCREEN, blind) == {}
    assert reasons(SCREEN, blind, SCREEN) == {"missing_state": "2 of 3 screens as text"}
