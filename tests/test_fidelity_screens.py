"""What the rules of screens take for the same state, for a plausible one, and for a wrong one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fidelity_cases import DESK, PAGE, PHONE, PRODUCT, SWITCHED, make_case

from trajkit.fidelity import trees
from trajkit.fidelity.findings import Case
from trajkit.fidelity.gate import judge

NOTE = DESK.replace("entry\tTitle\t\t", 'entry\tTitle\t"salt\nrope\n"\t')
OUTPUT = NOTE + "\n\nstdout of the code:\nsalt\nrope"
RESULTS = (
    "Instruction: [SEP] find a rope [SEP] Back to Search [SEP] Page 1 (Total results: 50) [SEP] "
    "R1 [SEP] Hemp rope, 20 m, for boats and yards [SEP] $12.50 [SEP] "
    "R2 [SEP] Cotton cord, 5 m, for the kitchen [SEP] $4.00"
)
START = "WebShop [SEP] Instruction: [SEP] find a rope [SEP] Search"
BOXES = (
    '[{"text":"Oct 7","element_type":"TEXT","bounding_box":{"x":0.12,"y":0.0713}},'
    '{"text":"","element_type":"ICON_HOME","bounding_box":{"x":0.5,"y":0.95}},'
    '{"text":"Turn on sync?","element_type":"TEXT","bounding_box":{"x":0.1,"y":0.5}}]'
)
CART = PAGE.replace("[4] link 'Home'", "[4] link 'Cart (0)'")
FILLED_CART = CART.replace("Cart (0)", "Cart (1)")

CASES: dict[str, Case] = {
    "page": make_case("web", "click('9')", PRODUCT, kind="gui", initial_state=PAGE),
    "cart": make_case("web", "click('14')", FILLED_CART, kind="gui", initial_state=CART),
    "goto": make_case(
        "web", "goto('http://shop.example/goods')", "URL: http://shop.example/goods\n\n" + PRODUCT,
        kind="gui", initial_state=PAGE,
    ),
    "pieces": make_case("web", "search[rope]", RESULTS, kind="gui", initial_state=START),
    "json": make_case(
        "web", "http://shop.example/item/K113", '{"page":"item","content":{"asin":"K113","n":3}}',
        kind="gui", initial_state='{"page":"index"}',
    ),
    "output": make_case("os", "print(note)", OUTPUT, kind="code", initial_state=NOTE),
    "phone": make_case(
        "android", '{"action_type":"click","x":540,"y":410}', SWITCHED,
        kind="gui", initial_state=PHONE,
    ),
    "boxes": make_case(
        "android", '{"action_type":"navigate_back"}', BOXES,
        kind="gui", initial_state=BOXES.replace("Turn on sync?", "Add an account"),
    ),
}  # fmt: skip


def reason(name: str, old: str, new: str) -> str | None:
    """Return why a recording with one piece of it replaced is refused."""
    case = CASES[name]
    assert old in case.recorded
    return judge(replace(case, prediction=case.recorded.replace(old, new))).reason


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("phone", '"8:37"', '"8:39"'),
        ("boxes", "0.0713", "0.0722"),
        ("page", "[12] heading 'Oak stool'\n\t\t[13]", "[17] heading 'Oak stool'\n\t\t[18]"),
        ("page", "Turned legs, waxed seat.", "Three legs of ash, oiled."),
        ("pieces", "Cotton cord, 5 m, for the kitchen", "Jute string, 9 m, for the garden"),
        ("pieces", "$4.00", "$4.20"),
    ],
)
def test_what_nobody_could_know_may_differ(name: str, old: str, new: str) -> None:
    assert reason(name, old, new) is None


@pytest.mark.parametrize(
    ("name", "old", "new", "expected"),
    [
        ("cart", "Cart (1)", "Cart (2)", "altered_element"),
        ("cart", "[10] link", "[20] link", "wrong_number"),
        ("page", "[5] searchbox 'Find'", "[5] searchbox 'Seek'", "altered_element"),
        ("page", "[14] button 'Add to cart'", "Add to cart", "foreign_line"),
        ("page", "Title: Oak stool", "Title: Oak stand", "wrong_anchor"),
        ("page", "'Turned legs, waxed seat.'", "'404 Not Found'", "wrong_exit_class"),
        ("goto", "URL: http://shop.example/goods\n\n", "URL: http://shop.example/\n\n",
         "wrong_anchor"),
        ("pieces", "find a rope", "find a cord", "altered_element"),
        ("pieces", " [SEP] ", "\n", "not_a_tree"),
        ("json", "K113", "K114", "altered_element"),
        ("json", '"n":3}', '"n":3', "not_a_tree"),
        ("output", "\n\nstdout of the code:\nsalt\nrope", "", "stale_copy"),
        ("output", "stdout of the code:\nsalt\nrope",
         "stderr of the code:\nTraceback (most recent call last):\nNameError: note",
         "wrong_exit_class"),
        ("output", "\nrope\n\"", "\ncord\n\"", "altered_element"),
        ("output", "code:\nsalt", "code:\npepper", "altered_element"),
        ("phone", '[4] ImageButton description="Add alarm" clickable', '[4] Button text="Add"',
         "altered_element"),
        ("phone", '[1] TextView text="Alarms" bounds=(60,180,420,260)\n', "", "lost_element"),
        ("boxes", "Oct 7", "Oct 9", "altered_element"),
        ("boxes", BOXES, "The screen asks whether to turn on sync.", "not_a_tree"),
    ],
)  # fmt: skip
def test_what_the_action_and_the_history_tell_must_be_so(
    name: str, old: str, new: str, expected: str
) -> None:
    assert reason(name, old, new) == expected


def test_another_page_of_like_form_is_refused() -> None:
    other = RESULTS.replace("Hemp rope, 20 m, for boats and yards", "Lamp oil")
    other = other.replace("Cotton cord, 5 m, for the kitchen", "Wick trimmer of brass")
    other = other.replace("Page 1 (Total results: 50)", "All goods").replace(
        "Back to Search", "Home"
    )
    assert judge(replace(CASES["pieces"], prediction=other)).reason == "unlike_names"


@pytest.mark.parametrize("name", CASES)
def test_a_recording_passes_against_itself(name: str) -> None:
    assert [f for f in judge(CASES[name]).findings if f.score != 1.0] == []


@pytest.mark.parametrize(
    ("state", "form", "labels"),
    [
        ('{"page":"item","content":{"tags":["a","b"]}}', "json",
         ["/page item", "/content/tags/* a", "/content/tags/* b"]),
        (BOXES, "json", ["Oct 7 TEXT", " ICON_HOME", "Turn on sync? TEXT"]),
        ("<html><p>Pears</p></html>", "markup", ["html   ", "p   ", "Pears", "</p>", "</html>"]),
        (NOTE, "table", ["tag name", "frame Notes", "entry Title", "salt", "rope",
                         '"\t\t\t(180, 126)\t(420, 30)', "push-button Save", "push-button Close"]),
        ("URL: http://a.example/\nTitle: A", "header", []),
        ("[9]<a>Plum jam</a>", "tree", ["<a>Plum "]),
    ],
)  # fmt: skip
def test_every_form_of_state_is_taken_apart(state: str, form: str, labels: list[str]) -> None:
    screen = trees.parse(state)
    assert (screen.form, [node.label for node in screen.nodes]) == (form, labels)
