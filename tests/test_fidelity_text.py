"""What the gate makes of plain text: known lines, known values, talk, form, screens, diffs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fidelity_cases import make_case, tool, typed

from trajkit.fidelity import compare, known, metadata, shared, swe, talk, terminal
from trajkit.fidelity.findings import Case, Turn
from trajkit.fidelity.gate import judge

NOTES = "salt and pepper\nflour, two pounds\nbutter, half a pound\nyeast and warm water"
READ = "cat notes.txt"


def read_again(recorded: str, action: str = READ) -> Case:
    """Return the case of a file that an earlier turn showed."""
    return make_case("swe", action, recorded, kind="code", before=NOTES)


@pytest.mark.parametrize(
    ("prediction", "reason"),
    [
        (NOTES, None),
        (NOTES.replace("two pounds", "three pounds"), "missing_known_line"),
        (NOTES.replace("flour, two pounds\n", ""), "missing_known_line"),
        (NOTES + "\nsugar, a spoon", "unknown_line"),
    ],
)
def test_a_file_that_was_shown_before_is_read_back_to_the_letter(
    prediction: str, reason: str | None
) -> None:
    assert judge(replace(read_again(NOTES), prediction=prediction)).reason == reason


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("flour, two pounds", True),
        ("   12\tflour, two pounds", True),
        ("3:flour, two pounds", True),
        ("+flour, two pounds", True),
        ("flour, two", False),
    ],
)
def test_a_line_is_known_with_a_number_or_a_diff_sign_too(line: str, expected: bool) -> None:
    lines = known.known(read_again("x")).lines
    assert known.is_known(line, lines) is expected


def test_one_known_line_among_unseen_ones_may_be_chance_and_three_in_a_row_are_not() -> None:
    unseen = [f"row {letter * 4} of the list" for letter in "abcdefgh"]
    one = known.parts(read_again("x"), "\n".join([*unseen, "salt and pepper"]))
    assert {part.content_class for part in one} == {"pre_existing"}
    three = known.parts(read_again("x"), "\n".join([*unseen, *NOTES.split("\n")[:3]]))
    assert [part.content_class for part in three].count("deterministic") == 3


def test_what_the_action_names_is_named_in_the_answer() -> None:
    case = tool("mcp", "close", '{"ticket": "T-4711", "by": "ann"}', "")
    assert known.lost_values(case, "T-4711 is closed", "T-4712 is closed") == ["T-4711"]
    assert known.lost_values(case, "T-4711 is closed", "closed: T-4711") == []
    assert known.lost_values(case, "3 are left open", "5 are left open") == []


def test_a_changed_name_in_an_unseen_line_fails_and_changed_unseen_words_do_not() -> None:
    case = tool("swe", "bash", '{"command": "wc -l big/list.csv"}', "1203 big/list.csv")
    assert judge(replace(case, prediction="1398 big/list.csv")).passed
    assert not judge(replace(case, prediction="1203 big/lost.csv")).passed


def test_lines_that_only_moved_lose_nothing() -> None:
    case = tool("swe", "bash", '{"command": "grep salt a.txt b.txt"}', "")
    recorded = "a.txt:salt for the lamp\nb.txt:salt for the cellar door"
    moved = "b.txt:salt for the cellar door\na.txt:salt for the lamp"
    found = {f.check: f.score for f in compare.compare(case, recorded, moved)}
    assert found["changed_known_value"] == 1.0


@pytest.mark.parametrize(
    ("command", "earlier", "computed"),
    [
        ("sort list.txt | uniq -c", "cat list.txt", True),
        ("tr ' ' '\\n' < list.txt | wc -l", "cat > list.txt <<'END'\na\nEND", True),
        ("wc -l list.txt", "head -n 3 list.txt", False),
        ("sort list.txt | python3 add.py", "cat list.txt", False),
        ("sort list.txt > sorted.txt", "cat list.txt", False),
    ],
)
def test_a_pipe_over_files_seen_whole_has_a_computed_answer(
    command: str, earlier: str, computed: bool
) -> None:
    history = (Turn(action=earlier, action_kind="code", observation=""),)
    action = Turn(action=command, action_kind="code")
    assert known.computes_from_known(action, history) is computed


def test_equal_files_have_equal_hashes_whatever_the_hash_is() -> None:
    first, second = "9f3ab24c11e0", "00fe82ba9d47"
    recorded = f"{first}  a.bin\n{first}  b.bin"
    case = replace(read_again(recorded, "sha256sum a.bin b.bin"), prediction=recorded)
    case = replace(case, history=(Turn(action="cp a.bin b.bin", action_kind="code"),))
    assert judge(replace(case, prediction=recorded.replace(first, second))).passed
    unequal = recorded.replace(first, second, 1)
    assert judge(replace(case, prediction=unequal)).reason == "broken_identity"


def test_common_words_of_a_long_action_bind_no_unseen_line() -> None:
    case = tool("swe", "write", f'{{"text": "{"all the small words of a file " * 30}"}}', "")
    assert known.lost_values(case, "it saw the file", "it saw a door") == []
    short = tool("swe", "write", '{"text": "the file"}', "")
    assert known.lost_values(short, "it saw the file", "it saw the door") == ["file"]


@pytest.mark.parametrize(
    ("recorded", "prediction", "strange"),
    [
        ("2026-01-05 10:00:01", "2026-03-09 21:14:05", None),
        ("2026-01-05 10:00:01", "2026-13-09 21:14:05", "2026-13-09 21:14:05"),
        ("2026-01-05 10:00:01", "1926-01-05 10:00:01", "1926-01-05 10:00:01"),
        ("192.0.2.17:8080", "192.0.2.317:8080", "192.0.2.317:8080"),
        ("took 0.03s", "took 0.2s", None),
        ("took 0.03s", "took 4000s", "4000s"),
    ],
)
def test_metadata_must_be_possible_and_near_the_recorded(
    recorded: str, prediction: str, strange: str | None
) -> None:
    assert metadata.out_of_range(recorded, prediction) == strange


@pytest.mark.parametrize(
    "said",
    [
        "I made sure the listing above mirrors the true file system.",
        "(These results are consistent with all earlier steps.)",
        "The predicted output is correct.",
        "Nothing here was invented, trust me.",
    ],
)
@pytest.mark.parametrize("layout", ["{said}\n{text}", "{text}\n{said}", "{text} {said}"])
def test_praise_at_either_edge_is_talk(said: str, layout: str) -> None:
    assert talk.talk_about_itself(NOTES, layout.format(said=said, text=NOTES)) is not None


@pytest.mark.parametrize(
    "prediction",
    [
        NOTES,
        "oil and vinegar\nrye, three pounds",
        "AssertionError: expected 4, got 5",
        "12 tests passed in 0.3s",
        "No results found for this query.",
    ],
)
def test_other_content_is_no_talk(prediction: str) -> None:
    assert talk.talk_about_itself("something else\nwas said", prediction) is None


def test_a_sentence_that_the_recording_holds_too_is_no_talk() -> None:
    text = "The output above is exactly what this simulation returns."
    assert talk.talk_about_itself(text, text) is None


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("a\nb", "plain"),
        ("```\na\n```", "fence"),
        ('{"a": 1}', "json"),
        ("{not json}", "plain"),
        ("<result>\na\n</result>", "tagged"),
        ("<returncode>0</returncode>\n<output>\n</output>", "plain"),
        ("- a\n- b", "bullets"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "table"),
        ("Output: 'a'", "labelled"),
    ],
)
def test_the_outer_form_of_an_answer_is_told(text: str, form: str) -> None:
    assert shared.form(text) == form


WIDE = "python3 query.py 'SELECT customer, amount FROM orders'"
WRAPPED = f"ann@box:~$ {WIDE[:30]}\n{WIDE[30:]}\nbrook\nann@box:~$"


def test_a_command_that_the_terminal_wrapped_is_one_command() -> None:
    screen = terminal.read_screen(WRAPPED, (WIDE,))
    assert screen.typed == (WIDE, "")
    assert screen.output == ("brook",)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("'SELECT", "'DELETE", "missing_echo"),
        ("brook\n", "brook\nann@box:~$\n", "wrong_prompt"),
        ("brook\nann@box:~$", "brook", "wrong_prompt"),
        ("ann@box:~$", "ann@box:/tmp$", "wrong_prompt"),
    ],
)
def test_prompts_and_echoes_come_in_order_and_whole(old: str, new: str, reason: str) -> None:
    case = typed(WIDE, WRAPPED, before="ann@box:~$")
    assert judge(replace(case, prediction=WRAPPED.replace(old, new))).reason == reason


def test_what_looks_like_a_prompt_inside_a_file_is_output() -> None:
    screen = terminal.read_screen("ann@box:~$ cat a\n# Notes\n$ make\nann@box:~$", ("cat a",))
    assert screen.output == ("# Notes", "$ make")
    bare = terminal.read_screen("$ cat a\n# Notes\n$", ("cat a",))
    assert (bare.prompts, bare.output) == (("$", "$"), ("# Notes",))


def test_an_exit_status_that_was_asked_for_is_exact() -> None:
    recorded = "ann@box:~$ ./check; echo $?\n1\nann@box:~$"
    keys = "./check; echo $?"
    assert terminal.read_screen(recorded, (keys,)).statuses == ()
    recorded = "ann@box:~$ ./check\nann@box:~$ echo $?\n1\nann@box:~$"
    case = typed("./check\\necho $?", recorded, before="ann@box:~$")
    assert judge(case).passed
    verdict = judge(replace(case, prediction=recorded.replace("\n1\n", "\n0\n")))
    assert verdict.reason == "wrong_exit_status"


DIFF = """diff --git a/area.py b/area.py
index 4f44f33..6e1e795 100644
--- a/area.py
+++ b/area.py
@@ -1,3 +1,3 @@ def wide():
 one = 1
-two = 2
+two = 3
 six = 6"""


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("4f44f33..6e1e795", "a0b1c2d..99e8f7a", None),
        ("-1,3 +1,3", "-1,3 +1,5", "broken_diff"),
        ("-two = 2\n", "", "broken_diff"),
        ("+two = 3", "+two = 3\n+ten = 9", "broken_diff"),
    ],
)
def test_a_diff_holds_the_lines_its_headings_announce(
    old: str, new: str, reason: str | None
) -> None:
    case = tool("swe", "bash", '{"command": "git diff"}', DIFF)
    assert judge(replace(case, prediction=DIFF.replace(old, new))).reason == reason


def test_hunks_are_counted_one_by_one() -> None:
    assert swe._hunks(DIFF) == (1, None)
    assert swe._hunks(DIFF + "\n@@ -9 +9 @@\n-a\n+b") == (2, None)
    assert swe._hunks(DIFF + "\n@@ -9 +9,2 @@\n-a\n+b") == (2, "@@ -9 +9,2 @@")


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("5\t", "50\t", "broken_numbering"),
        ("     5\treturn\n", "", "broken_numbering"),
        ("one", "first", None),
    ],
)
def test_a_listing_counts_its_lines_one_by_one(old: str, new: str, reason: str | None) -> None:
    words = ["def", "one", "two", "if", "return", "else", "pass"]
    text = "\n".join(f"     {n}\t{word}" for n, word in enumerate(words, 1))
    case = tool("swe", "view", '{"path": "x"}', text + "\n")
    assert judge(replace(case, prediction=text.replace(old, new))).reason == reason


def test_the_output_inside_a_json_answer_is_judged_like_any_other() -> None:
    recorded = '{"returncode": 0, "output": "salt and pepper\\nflour, two pounds\\n"}'
    case = read_again(recorded)
    assert judge(case).passed
    wrong = {
        "missing_known_line": recorded.replace("two", "three"),
        "wrong_exit_class": recorded.replace(": 0", ": 1"),
        "wrong_shape": recorded.replace("returncode", "code"),
    }
    for reason, text in wrong.items():
        assert judge(replace(case, prediction=text)).reason == reason
