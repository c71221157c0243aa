"""What the gate knows of tool answers and search answers from the call and the turns before."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajkit.fidelity.check import case as read_case
from trajkit.fidelity.findings import Case, Turn
from trajkit.fidelity.gate import judge
from trajkit.fidelity.json_shape import read_answer
from trajkit.fidelity.results import read_results

SHELF = "sku,name,quantity,price\nTAP-008,long tape,25,9.75\nSAW-210,tenon saw,3,27.0\n"
ITEM = '{"sku": "TAP-008", "name": "long tape", "quantity": 25, "price": 9.75}'
MOVED = '{"sku": "TAP-008", "before": 25, "after": 22}'
LIST = """Results for "Ommer flood":

[1] http://encyclopedia.example/wiki/Ommer
Title: Lake Ommer
Snippet: Lake Ommer lies above the mill of Hallin. Its flood of 1347 drowned...
Date: 2023-09-01

[2] http://herald.example/news/mill
Title: The mill turns again
Snippet: After a hundred years the mill of Hallin grinds rye.
Date: 2022-02-11"""
PAGE = """Page: http://encyclopedia.example/wiki/Ommer

# Lake Ommer

Lake Ommer lies above the mill of Hallin. Its flood of 1347 drowned two mills and a ferry.

Last changed: 2023-09-01"""
LINKS = """A Google search for 'Ommer flood' found 2 results:

## Web Results
1. [Lake Ommer - Wikipedia](https://en.wikipedia.org/wiki/Ommer)
Date published: Mar 25, 2024

The flood of Lake Ommer drowned two mills ...

2. [Floods of the north](https://floods.example/north)

A list of floods: Ommer, Hallin, Tolmen ..."""


def turn(name: str, arguments: str, observation: str | None = None) -> Turn:
    action = f'{{"name": "{name}", "arguments": {arguments}}}'
    return Turn(action=action, action_kind="tool_call", action_name=name, observation=observation)


def case(domain: str, action: Turn, recorded: str, *history: Turn, answer: str = "") -> Case:
    return Case(
        domain=domain,
        action=action,
        history=history,
        recorded=recorded,
        prediction=recorded,
        answer=answer or None,
    )


LISTED = turn("list_items", '{"category": "all"}', SHELF)
CASES = {
    "item": case("mcp", turn("get_item", '{"sku": "TAP-008"}'), ITEM, LISTED),
    "second": case(
        "mcp", turn("get_item", '{"sku": "CHS-012"}'),
        '{"sku": "CHS-012", "name": "wood chisel", "quantity": 12, "price": 15.4}',
        turn("get_item", '{"sku": "TAP-008"}', ITEM),
    ),
    "change": case("mcp", turn("change", '{"sku": "TAP-008", "by": -3}'), MOVED, LISTED),
    "shelf": case("mcp", turn("list_items", '{"category": "tools"}'), SHELF, LISTED),
    "framed": case(
        "mcp", turn("track", '{"id": "GHI789"}'),
        '{"error": "", "response": "{\'id\': \'GHI789\', \'status\': 200}"}',
        turn("track", '{"id": "ABC"}', '{"error": "", "response": ""}'),
    ),
    "broken": case(
        "mcp", turn("track", '{"id": "GHI789"}'),
        '{"error": "", "response": "{\'title\': \'Bad Request\', \'status\': 400}"}',
    ),
    "two items": case("mcp", turn("find", '{"text": "a"}'), f"{ITEM}\n{ITEM.replace('8', '9')}"),
    "weather": case("mcp", turn("get_weather", '{"city": "Rome"}'), "18C"),
    "refused": case("mcp", turn("moor_boat", '{"id": 1}'), "no boat of that name"),
    "list": case("search", turn("web_search", '{"queries": ["Ommer flood"]}'), LIST),
    "links": case("search", turn("search", '{"query": ["Ommer flood"]}'), LINKS),
    "page": case(
        "search", turn("web_extractor", '{"urls": ["http://encyclopedia.example/wiki/Ommer"]}'),
        PAGE, turn("web_search", '{"queries": ["Ommer flood"]}', LIST),
        answer="In all, 3,392 fish and two ferries were lost.",
    ),
    "again": case(
        "search", turn("web_search", '{"queries": ["Hallin mill"]}'),
        LIST.replace("Ommer flood", "Hallin mill"),
        turn("web_extractor", '{"urls": ["http://encyclopedia.example/wiki/Ommer"]}', PAGE),
    ),
    "none": case(
        "search", turn("web_search", '{"queries": ["Omer flod"]}'),
        'Results for "Omer flod":\n\nNo results.',
    ),
}  # fmt: skip


def reason(name: str, old: str, new: str) -> str | None:
    assert old in CASES[name].recorded
    changed = CASES[name].recorded.replace(old, new)
    return judge(replace(CASES[name], prediction=changed)).reason


@pytest.mark.parametrize("name", CASES)
def test_what_was_recorded_passes(name: str) -> None:
    assert judge(CASES[name]).reason is None


@pytest.mark.parametrize(
    ("name", "old", "new", "why"),
    [
        ("item", "9.75", "9.35", "wrong_known_value"),
        ("item", '"sku": "TAP-008", ', "", "wrong_identifier"),
        ("second", ', "name": "wood chisel"', "", "missing_key"),
        ("change", '"after": 22', '"after": 23', "wrong_sum"),
        ("change", "TAP-008", "TAP-009", "wrong_identifier"),
        ("shelf", "SAW-210,tenon saw,3,27.0\n", "", "wrong_known_value"),
        ("shelf", "sku,name,quantity,price\n", "", "wrong_shape"),
        ("framed", ", \"response\": \"{'id': 'GHI789', 'status': 200}\"", "", "wrong_shape"),
        ("framed", "GHI789", "GHI780", "wrong_identifier"),
        ("framed", "200", "500", "wrong_exit_class"),
        ("broken", "'status': 400", "'status': 200", "wrong_exit_class"),
        ("weather", "18C", "a fine day", "unlike_text"),
        ("refused", "no boat of that name", "1 is moored at the pier", "unlike_text"),
        ("list", 'Results for "Ommer flood":', "", "wrong_identifier"),
        ("list", "Ommer flood", "Omer flood", "wrong_identifier"),
        ("list", "Title: The mill turns again\n", "", "wrong_entry_structure"),
        ("list", "http://herald.example/news/mill", "the herald", "malformed_url"),
        ("links", "1. [Lake Ommer - Wikipedia]", "1. Lake Ommer - Wikipedia", "wrong_numbering"),
        ("links", "https://floods.example/north", "floods", "malformed_url"),
        ("page", "# Lake Ommer", "# Lake Omner", "contradicted_page"),
        ("page", "2023-09-01", "2021-09-01", "contradicted_page"),
        ("page", "above the mill", "below the mill", "contradicted_page"),
        ("page", "two mills", "3,392 fish", "answer_leaked"),
        ("page", "wiki/Ommer", "wiki/Omer", "wrong_identifier"),
        ("again", "Title: Lake Ommer", "Title: Ommer dam", "contradicted_page"),
        ("none", "No results.", LIST, "wrong_exit_class"),
    ],
)
def test_what_goes_against_the_call_or_the_past_fails(
    name: str, old: str, new: str, why: str
) -> None:
    assert reason(name, old, new) == why


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("weather", "18", "20"),
        ("refused", "no boat of that name", "no boat 1"),
        ("two items", "long tape", "short tape"),
        ("list", "grinds rye", "saws planks"),
        ("list", "2022-02-11", "2020-12-01"),
        ("list", "http://herald.example/news/mill", "http://herald.example/2022/rye"),
        ("links", "Mar 25, 2024", "Jan 2, 2019"),
        ("links", "found 2 results", "found 9 results"),
        ("page", "two mills and a ferry", "three barns and a bridge"),
    ],
)
def test_what_nothing_told_before_may_differ(name: str, old: str, new: str) -> None:
    assert reason(name, old, new) is None


@pytest.mark.parametrize(
    ("name", "form", "why"),
    [
        ("item", "The tape TAP-008 costs 9.75 and there are 25.", "not_json"),
        ("item", "sku: TAP-008\nname: long tape\nquantity: 25\nprice: 9.75", "not_json"),
        ("shelf", '[{"sku": "TAP-008"}, {"sku": "SAW-210"}]', "wrong_form"),
        ("shelf", "| sku | name |\n| --- | --- |\n| TAP-008 | long tape |", "wrong_form"),
        ("weather", '{"result": "18C"}', "wrong_form"),
        ("list", f'{{"results": "{LIST[:10]}"}}', "wrong_form"),
        ("list", 'Results for "Ommer flood":\n\n* Lake Ommer\n* The mill', "missing_results"),
        ("page", '{"url": "http://encyclopedia.example/wiki/Ommer"}', "wrong_form"),
    ],
)
def test_the_same_content_in_another_form_fails(name: str, form: str, why: str) -> None:
    assert judge(replace(CASES[name], prediction=form)).reason == why


def test_a_call_made_again_is_answered_again_in_the_same_words() -> None:
    call = turn("look", '{"what": "door"}', "A green door, shut since 10:00:01.")
    later = "A green door, shut since 10:07:44."
    again = case("mcp", replace(call, observation=None), later, call)
    assert judge(replace(again, prediction="A green door, shut since 11:30:09.")).reason is None
    other = judge(replace(again, prediction="A green gate, shut since 10:07:44."))
    assert not other.passed
    assert any(f.check == "unlike_repeat" and f.score == 0 for f in other.findings)


def test_values_inside_texts_are_read_as_json_and_as_python() -> None:
    nested = """{"a": "{\\"b\\": 1}", "c": "{'d': None, 'e': [True]}"}"""
    assert read_answer(nested).leaves == (("/a/~/b", 1), ("/c/~/d", None), ("/c/~/e/*", True))


def test_values_one_after_the_other_are_read_as_those_of_one_answer() -> None:
    answer = read_answer('{"id": 1}\n{\n  "id": 2\n}\n')
    assert (answer.form, answer.leaves) == ("json", (("/id", 1), ("/id", 2)))
    assert read_answer('{"id": 1}\nand so on').form == "text"


def test_a_result_list_is_read_in_each_of_its_usual_forms() -> None:
    documents = 'Doc 1(Title: "Ommer") A lake.\nDoc 2(Title: "Hallin") A town.'
    for text, form, titles in (
        (LIST, "labels", ["Lake Ommer", "The mill turns again"]),
        (LINKS, "links", ["Lake Ommer - Wikipedia", "Floods of the north"]),
        (documents, "documents", ["Ommer", "Hallin"]),
        (PAGE, "none", []),
    ):
        results = read_results(text)
        assert (results.form, [entry.title for entry in results.entries]) == (form, titles)


def test_the_answer_to_keep_back_is_the_reference_or_what_the_run_ends_with() -> None:
    step = {"action": "{}", "action_kind": "tool_call", "action_name": "web_search", "turn": 0}
    seen = {"observation": LIST, "error": None, "exit_code": None}
    steps = [step | seen, step | {"action": "In 1347.", "action_kind": "message", "turn": 1}]
    episode = {"domain": "search", "initial_state": None, "task": "When was the flood?"}
    assert read_case(episode, steps, 0, "").answer == "In 1347."
    assert read_case(episode, steps[:1], 0, "").answer is None
    told = {"simulation_instruction": "Target query: the flood\nReference answer: in 1348\n"}
    assert read_case(episode | told, steps, 0, "").answer == "in 1348"


FRAGMENTS = st.sampled_from(
    ["{'a': ", '{"a": ', "[", "]", "}", '"', "'", "\\", "1e999", "9" * 400, "\ud800", "\n", ",",
     "[1] http://a.example/b\nTitle: c", "1. [a](b)", "Doc 1(Title: x)", "Page: http://a.example/b",
     "None", "TAP-008", "error", "status", "\u2028", "(" * 200]
)  # fmt: skip


@given(st.lists(FRAGMENTS, max_size=12).map("".join), st.lists(FRAGMENTS, max_size=12).map("".join))
def test_no_text_a_log_may_hold_stops_the_gate(recorded: str, prediction: str) -> None:
    for domain in ("mcp", "search"):
        one = turn("get", '{"url": "http://a.example/b", "id": "TAP-008"}')
        asked = case(domain, one, recorded, replace(one, observation=prediction), answer="TAP-008")
        verdict = judge(replace(asked, prediction=prediction))
        assert verdict.passed is (verdict.reason is None)
