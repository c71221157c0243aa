"""What the rules of each domain catch, and what they let pass."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fidelity_cases import (
    CHECKED,
    DESK,
    FILLED,
    PAGE,
    PHONE,
    PRODUCT,
    RESULTS,
    changed,
    make_case,
    tool,
    verdict_on,
)

from trajkit.fidelity import known, outcome, trees
from trajkit.fidelity.findings import Turn
from trajkit.fidelity.gate import judge


@pytest.mark.parametrize(
    ("name", "old", "new", "reason"),
    [
        ("terminal silent", "a.txt\nann", "a.txt\ncreated a.txt\nann", "broken_silence"),
        ("terminal silent", "touch a.txt", "touch b.txt", "missing_echo"),
        ("terminal silent", "a.txt\nann@box:~/job$", "a.txt\nroot@lab:/#", "wrong_prompt"),
        ("terminal error", "cat: lost: No such file or directory", "salt", "wrong_exit_class"),
        ("terminal echo", "\nsalt\n", "\n", "missing_output"),
        ("terminal echo", "\nsalt\n", "\npepper\n", "missing_known_line"),
        ("terminal output", "total 4", "ls: l: Permission denied", "wrong_exit_class"),
        ("terminal running", "sleep 60", "sleep 60\nann@box:~/job$", "wrong_prompt"),
        ("mcp object", '"id": 412', '"id": 413', "wrong_identifier"),
        ("mcp object", "}", "", "not_json"),
        (
            "mcp object",
            '"title": "Lamp flickers", "state": "open", "created"',
            '"when"',
            "wrong_shape",
        ),
        ("mcp object", "Lamp flickers", "Door sticks", "wrong_known_value"),
        ("mcp object", '{"id": 412,', '{"error": "no such ticket", "id": 412,', "wrong_exit_class"),
        ("mcp error", '{"error": {"code": "not_found"}}', '{"id": 9}', "wrong_exit_class"),
        ("mcp text", "31", "32", "wrong_identifier"),
        ("search list", RESULTS, "Error: 404 Not Found", "wrong_exit_class"),
        ("search list", RESULTS, "The bridge was opened in 1804.", "missing_results"),
        ("search list", "Snippet", "Summary", "wrong_entry_structure"),
        ("search page", "rivers.example", "lakes.example", "wrong_identifier"),
        ("search lost page", "Error: 404 Not Found", "# Sull\n\nA river.", "wrong_exit_class"),
        ("swe listing", "\t", " | ", "missing_line_numbers"),
        ("swe tests", "<returncode>1<", "<returncode>0<", "wrong_exit_class"),
        ("swe tests", "\n</output>", "", "wrong_frame"),
        ("swe tests", "1 failed, 1 passed", "7 failed, 9 passed", "wrong_test_outcome"),
        ("swe silent", "<output>\n", "<output>\nremoved a.py\n", "broken_silence"),
        ("web fill", "value='lamp'", "value='lantern'", "missing_typed_text"),
        ("web check", "'true', focused", "'false', focused=''", "wrong_change"),
        ("web check", "[9] link 'Oak stool'", "[29] link 'Elm chair'", "altered_element"),
        ("web check", "[9] link", "[29] link", "wrong_number"),
        ("web page", PRODUCT, FILLED, "wrong_anchor"),
        ("web page", "[3] banner ''\n", "[3] banner ''\nAll as it should be\n", "foreign_line"),
        ("web page", "URL: ", "Loaded\nURL: ", "foreign_line"),
        ("web page", "[4] link 'Home'\n\t\t", "", "lost_element"),
        ("web page", "Title: Oak", "Error from last action: x\nTitle: Oak", "wrong_exit_class"),
        ("web wait", PAGE, CHECKED.replace("Pine", "Elm").replace("Oak", "Fir"), "invented_change"),
        ("web fill", FILLED, "The field now holds the word lamp.", "not_a_tree"),
        ("os type", "week plan", "plan", "missing_typed_text"),
        ("os type", "push-button\tSave", "push-button\tStore", "altered_element"),
        ("android switch", '"06:30"', '"06:30" checked selected', "altered_element"),
        ("android switch", '"09:00" clickable', '"09:30" clickable', "altered_element"),
    ],
)
def test_a_wrong_prediction_fails_with_the_name_of_what_is_wrong(
    name: str, old: str, new: str, reason: str | None
) -> None:
    assert verdict_on(name, changed(name, old, new)).reason == reason


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("terminal output", "notes.md", "draft.md"),
        ("terminal output", "12 Jan  5 10:01", "19 Mar 11 08:40"),
        ("mcp object", "2026-01-05T10:00:00Z", "2026-03-09T21:14:05Z"),
        ("mcp object", '"state": "open"', '"state": "waiting"'),
        ("mcp weather", "20.0", "22.5"),
        ("search list", "was opened to carts in the autumn of 1804", "carried its first carts"),
        ("search list", "https://rivers.example/sull", "https://streams.example/s/sull"),
        ("search page", "The Sull is crossed by one road bridge.", "One bridge spans the Sull."),
        ("swe listing", "width * height", "height * width"),
        ("swe tests", "0.03s", "0.11s"),
        ("web page", "Turned legs, waxed seat.", "Three legs, oiled top."),
        ("web page", "oak-stool", "oak_stool"),
    ],
)
def test_a_plausible_difference_in_unseen_content_passes(name: str, old: str, new: str) -> None:
    assert verdict_on(name, changed(name, old, new)).reason is None


def test_numbers_of_the_running_world_may_differ_by_a_fifth_and_no_more() -> None:
    def score(value: str) -> float:
        verdict = verdict_on("mcp weather", changed("mcp weather", "20.0", value))
        return next(f.score for f in verdict.findings if f.check == "number_out_of_range")

    assert score("23.9") == score("16.1") == 1.0
    assert score("40.0") < 0.5


def test_a_page_seen_before_keeps_its_title_and_date() -> None:
    case = tool("search", "web_search", '{"query": "Sull"}', RESULTS + "\n", before=RESULTS)
    wrong = RESULTS.replace("Sull (river)", "Lake Sull").replace("2021-11-17", "1999-01-01")
    verdict = judge(replace(case, prediction=wrong.replace("The Sull bridge", "A bridge")))
    found = {f.check: f.score for f in verdict.findings}
    assert found["contradicted_page"] < 0.5
    assert not verdict.passed


def test_lines_from_the_action_or_the_history_are_deterministic() -> None:
    case = tool(
        "swe", "bash", '{"command": "echo salt and pepper; cat a; ps"}', "", before="old line here"
    )
    found = known.parts(case, "salt and pepper\nold line here\nnever seen\npid 4711 10:00:01")
    assert [part.content_class for part in found] == [
        "deterministic", "deterministic", "pre_existing", "runtime_metadata"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("command", "earlier", "computed"),
    [
        ("wc -c out.txt", "printf abc > out.txt", True),
        ("wc -c /etc/passwd", "printf abc > out.txt", False),
        ("echo $((6 * 7))", "ls", True),
        ("echo $HOME", "ls", False),
        ("wc -c *.txt", "printf abc > out.txt", False),
        ("sha256sum a.bin b.bin", "cp a.bin b.bin", True),
    ],
)
def test_a_command_on_files_of_the_session_has_a_computed_answer(
    command: str, earlier: str, computed: bool
) -> None:
    case = make_case("swe", command, "3 out.txt", kind="code")
    history = (Turn(action=earlier, action_kind="code", observation=""),)
    assert known.computes_from_known(case.action, history) is computed


def test_what_a_reader_shows_of_a_file_is_no_error_of_its_own() -> None:
    log = "10:00 error: disk full\nTraceback (most recent call last):"
    assert outcome.error_kinds(log)
    assert not outcome.error_kinds(log, of_programs_only=True)
    assert outcome.error_kinds("cat: a: Permission denied", of_programs_only=True)


@pytest.mark.parametrize(
    ("state", "numbered", "keys"),
    [
        ("Title: A\nRootWebArea 'A'\n\t[3] link 'B'", False, ["RootWebArea 'A'", "3"]),
        ("frame\tA\t\nentry\tB\tx", False, ["frame A", "entry B"]),
        ('[0] Switch text="a" bounds=(1,2,3,4)\n[1] Switch text="a"', True,
         ['Switch "a"', 'Switch "a"#2']),
        ('<node class="V" text="a" />\n<node class="V" text="b" />', False, ["V a  ", "V b  "]),
        ("no tree\nat all", False, ["no tree", "at all"]),
    ],
)  # fmt: skip
def test_a_state_is_read_as_elements_with_keys(state: str, numbered: bool, keys: list[str]) -> None:
    assert [node.key for node in trees.parse(state, numbered=numbered).nodes] == keys


def test_the_smallest_element_under_a_point_comes_first() -> None:
    assert trees.at(trees.parse(PHONE, numbered=True), 540, 410)[0].label == 'Switch "06:30"'
    assert trees.name_of(trees.at(trees.parse(DESK), 650, 140)[0]) == "Save"
