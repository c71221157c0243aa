"""Verifiers: what each kind asks, and when one is proposed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from fidelity_cases import FILLED, PAGE, PRODUCT
from hypothesis import given
from hypothesis import strategies as st

from trajkit.errors import TrajkitError
from trajkit.fidelity.findings import Case, Turn
from trajkit.verifiers import (
    AXES,
    KINDS,
    Verifier,
    propose,
    prove,
    read,
    verify,
    written,
)
from trajkit.verifiers.errors import settled_by


def typed(*commands: str) -> str:
    return json.dumps([{"keystrokes": f"{command}\n", "duration": 0.5} for command in commands])


def shell(command: str, recorded: str, *past: tuple[str, str], **more: Any) -> Case:
    """A case of a terminal; `past` are earlier commands and screens."""
    history = tuple(
        Turn(action=typed(own), action_kind="keystrokes", observation=seen) for own, seen in past
    )
    action = Turn(action=typed(command), action_kind="keystrokes")
    return Case(
        domain="terminal",
        action=action,
        history=history,
        recorded=recorded,
        prediction="",
        **more,
    )


def call(tool: str, given: dict[str, Any], recorded: str | None = None) -> Turn:
    action = json.dumps({"name": tool, "arguments": given})
    return Turn(action=action, action_kind="tool_call", action_name=tool, observation=recorded)


def tool(domain: str, action: Turn, *past: Turn) -> Case:
    recorded = action.observation or ""
    return Case(
        domain=domain,
        action=replace(action, observation=None),
        history=past,
        recorded=recorded,
        prediction="",
    )


def kinds(found: list[Verifier], axis: str | None = None) -> set[str]:
    return {one.kind for one in found if axis in (None, one.axis)}


# --- what each kind asks


SCREEN = "URL: http://a.example/\nTitle: A\n\nRootWebArea 'A'\n\t[3] link 'B'\n\t[4] button 'C'"
ASKED: list[tuple[str, tuple[str, ...], str, str, str]] = [
    ("whole", ("a b, took 0.10s",), "", "a  b,\ntook 0.25s", "a b, took long"),
    ("region", ("x = 1", "y = 2"), "", "z\n  x = 1\n\ny = 2", "x = 1\nz\ny = 2"),
    ("lines", ("x", "x", "y"), "", "y\nx\nx", "y\nx"),
    ("pieces", ("ls: ", "a.txt", "No such file"), "", "ls: 'a.txt': No such file", "ls: b\na.txt"),
    ("pieces", ("a(", ".*"), "", "a(b).*", "ab"),
    ("json", ("1", "2"), "/a/*/b", '{"a": [{"b": 1}, {"b": 2}]}', '{"a": [{"b": 2}, {"b": 1}]}'),
    ("json", ("true",), "/a", '{"a": true}', '{"a": false}'),
    ("record", ("n", "4"), "A-17", '[{"sku": "A-17", "n": 4}]', '{"sku": "A-1", "n": 4}'),
    ("exit", ("2",), "", "<returncode>2</returncode>", "<returncode>1</returncode>"),
    ("error", ("no_such_file",), "", "cat: a: No such file or directory", "cat: a: denied"),
    ("error", ("no_such_file",), "programs", "cat: a: No such file", "a log: No such file"),
    ("failure", (), "", '{"error": "no", "isError": true}', '{"error": null, "ok": true}'),
    ("element", ("link 'B'",), "", SCREEN, SCREEN.replace("'B'", "'D'")),
    ("header", ("Title: A",), "", SCREEN, SCREEN.replace("Title: A", "Title: B")),
]


@pytest.mark.parametrize(("kind", "wanted", "where", "yes", "no"), ASKED)
def test_a_verifier_passes_what_it_asks_for_and_nothing_else(
    kind: Any, wanted: tuple[str, ...], where: str, yes: str, no: str
) -> None:
    one = Verifier(kind=kind, axis="long_context", wanted=wanted, where=where)
    assert verify(one, yes)
    assert verify(one, yes.replace("\n", "\r\n") + "  \n")
    assert not verify(one, no)
    assert not verify(one, "")


def test_every_kind_is_tried_above() -> None:
    assert {kind for kind, *_ in ASKED} == set(KINDS)


PLAIN = st.builds(
    Verifier,
    kind=st.sampled_from([kind for kind in KINDS if kind != "record"]),
    axis=st.sampled_from(AXES),
    wanted=st.lists(st.text(), min_size=1, max_size=4).map(tuple),
    where=st.text(max_size=9),
)


@given(st.lists(PLAIN, max_size=4), st.text())
def test_verifiers_survive_being_written_and_never_raise(found: list[Verifier], text: str) -> None:
    assert read(written(found)) == tuple(found)
    for one in found:
        assert verify(one, text) in (True, False)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "{}",
        "[1]",
        '[{"kind": "luck", "axis": "long_context", "wanted": ["a"], "where": ""}]',
        '[{"kind": "lines", "axis": "charm", "wanted": ["a"], "where": ""}]',
        '[{"kind": "lines", "axis": "long_context", "wanted": [], "where": ""}]',
        '[{"kind": "lines", "axis": "long_context", "wanted": "a", "where": ""}]',
        '[{"kind": "lines", "axis": "long_context", "wanted": [1], "where": ""}]',
        '[{"kind": "record", "axis": "long_context", "wanted": ["a"], "where": ""}]',
        '[{"kind": "lines", "axis": "long_context", "wanted": ["a"]}]',
    ],
)
def test_what_is_no_list_of_verifiers_is_an_error_and_no_reward(text: str) -> None:
    with pytest.raises(TrajkitError, match="verifiers"):
        read(text)


# --- long context


WRITE = "printf 'alpha one\\nbeta two\\ngamma three\\n' > notes.txt"
WROTE = f"ann@box:~$ {WRITE}\nann@box:~$"
NOTES = "alpha one\nbeta two\ngamma three"
SHOWN = f"ann@box:~$ cat notes.txt\n{NOTES}\nann@box:~$"


def test_what_was_shown_before_must_come_again() -> None:
    again = SHOWN.replace("cat notes.txt", "cat ./notes.txt")
    case = shell("cat ./notes.txt", again, (WRITE, WROTE), ("cat notes.txt", SHOWN))
    found = prove(case, [WROTE]).kept
    assert "region" in kinds(found, "long_context")
    (region,) = (one for one in found if one.kind == "region")
    assert verify(region, again)
    assert not verify(region, again.replace("beta two", "beta 2"))
    assert not verify(region, SHOWN)


def test_a_file_that_nobody_wrote_or_saw_has_no_verifier() -> None:
    assert (
        propose(shell("cat notes.txt", SHOWN, ("ls", "ann@box:~$ ls\nnotes.txt\nann@box:~$"))) == []
    )


def test_a_count_of_what_was_written_is_settled() -> None:
    screen = "ann@box:~$ wc -l notes.txt\n3 notes.txt\nann@box:~$"
    case = shell("wc -l notes.txt", screen, (WRITE, WROTE), ("cat notes.txt", SHOWN))
    found = prove(case, [WROTE, SHOWN]).kept
    assert found
    assert all(verify(one, screen) for one in found)
    assert not all(verify(one, screen.replace("3 notes", "4 notes")) for one in found)


def test_a_variable_that_was_set_is_read_back() -> None:
    setting = ("export STAGE=harbour-7", "ann@box:~$ export STAGE=harbour-7\nann@box:~$")
    screen = "ann@box:~$ echo $STAGE\nharbour-7\nann@box:~$"
    found = propose(shell("echo $STAGE", screen, setting))
    assert Verifier(kind="pieces", axis="long_context", wanted=("harbour-7",)) in found
    # Of another variable nothing is known.
    assert propose(shell("echo $OTHER", screen.replace("STAGE", "OTHER"), setting)) == []


def test_a_change_of_folder_is_seen_in_the_prompt() -> None:
    case = shell(
        "cd job", "ann@box:~$ cd job\nann@box:~/job$", ("pwd", "ann@box:~$ pwd\n/h\nann@box:~$")
    )
    (one,) = prove(case, ["ann@box:~/job$ ls\nann@box:~/job$"]).kept
    assert one.wanted == ("ann@box:~$ cd job", "ann@box:~/job$")


def test_times_are_no_part_of_what_is_settled() -> None:
    text = "build of notes\nfinished in 0.31s\nall parts there"
    seen = f"ann@box:~$ ./build\n{text}\nann@box:~$"
    case = shell("./build all", seen.replace("./build", "./build all"), ("./build", seen))
    wanted = {line for one in propose(case) for line in one.wanted}
    assert "all parts there" in wanted
    assert not any("0.31s" in line for line in wanted)


LISTED = "sku,name,stock\nA-17,plane,4\nB-20,rasp,9\nC-31,awl,2\n"


def test_values_of_an_object_that_was_told_of_must_agree() -> None:
    told = '{"sku": "A-17", "name": "plane", "stock": 4, "colour": "red"}'
    case = tool("mcp", call("get_item", {"sku": "A-17"}, told), call("list", {}, LISTED))
    (one,) = propose(case)
    assert (one.kind, one.where) == ("record", "A-17")
    assert verify(one, told)
    assert not verify(one, told.replace("plane", "saw"))
    # What nobody told may be anything.
    assert verify(one, told.replace("red", "blue"))


def test_a_change_of_a_number_by_the_call_is_settled() -> None:
    before = call("get_stock", {"sku": "A-17"}, '{"stock": 4}')
    case = tool("mcp", call("add_stock", {"sku": "A-17", "amount": 12}, '{"stock": 16}'), before)
    assert Verifier(kind="json", axis="long_context", wanted=("16",), where="/stock") in propose(
        case
    )
    odd = tool("mcp", call("add_stock", {"sku": "A-17", "amount": 12}, '{"stock": 17}'), before)
    assert propose(odd) == []


def test_the_same_call_with_the_same_answer_is_settled_whole() -> None:
    once = call("status", {"id": 3}, '{"state": "open", "owner": "Ann Vesle"}')
    (one,) = propose(tool("mcp", once, once))
    assert one.kind == "whole"


def test_the_title_of_a_page_was_told_by_the_list() -> None:
    listed = (
        "[1] https://a.example/x\nTitle: Of bridges\nSnippet: they cross water\nDate: 2020-01-01"
    )
    opened = "Page: https://a.example/x\n\n# Of bridges\n\nA bridge crosses what cannot be walked."
    action = call("web_extractor", {"urls": ["https://a.example/x"]}, opened)
    case = tool("search", action, call("web_search", {"query": "bridges"}, listed))
    (one,) = (one for one in prove(case, [listed]).kept)
    assert one.wanted == ("# Of bridges",)


def test_what_an_action_on_a_screen_must_change_is_settled() -> None:
    action = Turn(action="fill('5', 'lamp')", action_kind="gui")
    case = Case(domain="web", action=action, recorded=FILLED, prediction="", initial_state=PAGE)
    found = prove(case, [PRODUCT]).kept
    assert kinds(found) == {"element"}
    assert all(verify(one, FILLED) and not verify(one, PAGE) for one in found)


# --- errors: only those that action and history settle


GONE = "cat: gone.txt: No such file or directory"
MISSING = f"ann@box:~$ cat gone.txt\n{GONE}\nann@box:~$"


def quiet(command: str) -> tuple[str, str]:
    return command, f"ann@box:~$ {command}\nann@box:~$"


SETTLED: list[tuple[str, Case]] = [
    ("repeated", shell("cat gone.txt", MISSING, ("cat gone.txt", MISSING))),
    (
        "named",
        shell(
            "cat gone.txt", MISSING, ("head gone.txt", "head: gone.txt: No such file or directory")
        ),
    ),
    ("removed", shell("cat gone.txt", MISSING, quiet("rm gone.txt"))),
    (
        "unlisted",
        shell(
            "cat src/gone.txt",
            MISSING.replace("gone.txt", "src/gone.txt"),
            ("ls src", "ann@box:~$ ls src\nmain.c  util.c\nann@box:~$"),
        ),
    ),
    (
        "forbidden",
        shell(
            "cat key.pem",
            "ann@box:~$ cat key.pem\ncat: key.pem: Permission denied\nann@box:~$",
            quiet("chmod 000 key.pem"),
        ),
    ),
    (
        "unlisted",
        tool(
            "mcp",
            call("get_item", {"sku": "Z-99"}, "Error executing tool: no item with sku Z-99"),
            call("list", {}, LISTED),
        ),
    ),
    (
        "raised",
        tool(
            "swe",
            call(
                "python",
                {"code": "raise ValueError('no')"},
                'Traceback (most recent call last):\n  File "<stdin>", line 1\nValueError: no',
            ),
        ),
    ),
    (
        "code",
        tool(
            "swe",
            call(
                "python",
                {"code": "print(totl)"},
                'Traceback (most recent call last):\n  File "<stdin>", line 1\n'
                "NameError: name 'totl' is not defined",
            ),
        ),
    ),
    (
        "code",
        shell("ls --frob", "ann@box:~$ ls --frob\nls: unrecognized option '--frob'\nann@box:~$"),
    ),
    (
        "absent",
        Case(
            domain="web",
            action=Turn(action="click('99')", action_kind="gui"),
            initial_state=PAGE,
            recorded=f"Error from last action: Could not find element with bid 99\n{PAGE}",
            prediction="",
        ),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("why", "case"), SETTLED)
def test_a_failure_is_settled_by_what_came_before(why: str, case: Case) -> None:
    assert settled_by(case) == why


@pytest.mark.parametrize(("why", "case"), SETTLED)
def test_a_settled_failure_is_proposed_as_error_handling(why: str, case: Case) -> None:
    found = propose(case)
    assert all(verify(one, case.recorded) for one in found)
    if case.domain != "web" and why != "repeated":
        assert "pieces" in kinds(found, "error_handling")


def test_a_call_that_the_declared_tools_do_not_take_is_settled() -> None:
    schema = {"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]}
    space = json.dumps([{"name": "get_item", "input_schema": schema}])
    unknown = tool("mcp", call("get_itm", {"sku": "a"}, "Error: Unknown tool get_itm"))
    lacking = tool("mcp", call("get_item", {"id": "a"}, "Error: sku is required"))
    fine = tool("mcp", call("get_item", {"sku": "a"}, "Error: try again"))
    assert settled_by(unknown, space) == "undeclared"
    assert settled_by(lacking, space) == "undeclared"
    assert settled_by(fine, space) is None
    assert settled_by(unknown, None) is None
    assert kinds(propose(unknown, action_space=space), "error_handling") >= {"failure", "pieces"}


UNSETTLED: list[tuple[str, Case]] = [
    ("nobody ever saw the folder", shell("cat gone.txt", MISSING)),
    (
        "it was made again",
        shell("cat gone.txt", MISSING, quiet("rm gone.txt"), quiet("touch gone.txt")),
    ),
    (
        "another file was missing",
        shell("cat gone.txt", MISSING, ("cat away.txt", MISSING.replace("gone", "away"))),
    ),
    (
        "the listing has it",
        shell(
            "cat src/gone.txt",
            MISSING.replace("gone.txt", "src/gone.txt"),
            ("ls src", "ann@box:~$ ls src\ngone.txt\nann@box:~$"),
        ),
    ),
    (
        "tests fail as they will",
        tool(
            "swe",
            call(
                "bash",
                {"command": "pytest"},
                "Traceback (most recent call last):\nAssertionError: 4 != 5\nFAILED (failures=1)",
            ),
        ),
    ),
    (
        "the catalogue has it",
        tool(
            "mcp",
            call("get_item", {"sku": "A-17"}, "Error executing tool get_item: A-17 is locked"),
            call("list", {}, LISTED),
        ),
    ),
]


@pytest.mark.parametrize(("why", "case"), UNSETTLED)
def test_a_failure_that_nobody_could_know_has_no_verifier(why: str, case: Case) -> None:
    assert settled_by(case) is None, why
    assert propose(case) == []


# --- controllability


def test_what_an_instruction_announces_is_controllability() -> None:
    case = shell("cat gone.txt", MISSING, ("ls", "ann@box:~$ ls\nann@box:~$"))
    found = prove(case, [], instruction="`gone.txt` does not exist on this machine.").kept
    assert {one.axis for one in found} == {"controllability"}
    assert ("cat", "gone.txt", "No such file or directory") in {one.wanted for one in found}
    # An instruction about something else settles nothing.
    assert propose(case, instruction="The program `jq` is not installed.") == []


def test_a_value_that_an_instruction_sets_must_come() -> None:
    case = tool(
        "mcp", call("get_weather", {"city": "Sull"}, "It rains, 9 degrees, wind north-east")
    )
    found = propose(case, instruction='The wind in Sull is "wind north-east".')
    assert Verifier(kind="pieces", axis="controllability", wanted=("wind north-east",)) in found


def test_what_a_search_must_not_tell_is_never_asked_for() -> None:
    recorded = "[1] https://a.example/x\nTitle: Marrow\nSnippet: Marrow built it"
    case = tool("search", call("web_search", {"query": "bridge"}, recorded))
    assert propose(case, instruction="Never give away the reference answer: `Marrow`.") == []
