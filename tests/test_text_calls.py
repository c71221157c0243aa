"""Laws of the readers of calls that stand in text, whichever notation they are written in."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajkit.adapters import text_calls
from trajkit.adapters.marked_text import Mark, marked_messages, stretches
from trajkit.adapters.messages import fold
from trajkit.adapters.text_calls import Grammar, agent_message, pieces, results
from trajkit.ledger import Ledger

GRAMMARS: dict[str, Grammar] = {
    "function": text_calls.function_tags,
    "tool_call": text_calls.tool_call_tags,
    "mcp": text_calls.mcp_tool_tags,
    "tool": text_calls.tool_tags("read_file", "write"),
    "code": text_calls.code_tags("execute"),
    "fence": text_calls.code_fences("bash", ""),
    "label": text_calls.labelled_tools,
}
FRAGMENTS = [
    *("<think>", "</think>", "<function=run>", "</function>", "<parameter=a>", "</parameter>"),
    *("<tool_call>", "</tool_call>", '{"name": "f", "arguments": {"a": 1}}', "{'name': 'f'}", "{"),
    *("<use_mcp_tool>", "</use_mcp_tool>", "<server_name>s</server_name>", "<tool_name>t"),
    *("</tool_name>", "<arguments>", "{}", "</arguments>", "<code>", "</code>", "```", "```bash\n"),
    *("<read_file>", "</read_file>", "<path>", "</path>", "<execute>", "</execute>", "\n", "\r\n"),
    *("Action: f", "\nAction:", "\nAction Input:", "\nThought: t", "words", " ", "<", "\u2028"),
]
TEXTS = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=3), max_size=20).map("".join)
USED = st.lists(st.sampled_from(sorted(GRAMMARS)), max_size=4).map(
    lambda names: [GRAMMARS[name] for name in names]
)
# Values that hold neither the tags of the notation nor a line break at their ends.
VALUES = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="<>`"), min_size=1
)


@given(TEXTS, USED)
def test_the_pieces_of_a_text_joined_are_the_text(text: str, grammars: list[Grammar]) -> None:
    cut = pieces(text, *grammars)
    assert "".join(piece.raw for piece in cut) == text
    assert all(piece.raw for piece in cut)
    assert all((piece.kind == "call") == bool(piece.calls) for piece in cut)


@given(TEXTS, USED)
def test_an_invalid_call_is_a_part_of_the_text(text: str, grammars: list[Grammar]) -> None:
    for piece in pieces(text, *grammars):
        for call in piece.calls:
            if call.valid and call.kind == "tool_call":
                assert json.loads(call.action)["name"] == call.name
            elif call.kind != "tool_call" or not call.action.startswith('{"name": '):
                assert call.action in text


@given(VALUES, VALUES)
def test_a_value_is_the_same_in_every_notation(first: str, second: str) -> None:
    arguments = {"path": first, "text": second}
    as_json = json.dumps({"name": "write", "arguments": arguments})
    written = {
        "function": f"<function=write>\n<parameter=path>\n{first}\n</parameter>\n"
        f"<parameter=text>{second}</parameter>\n</function>",
        "tool_call": f"<tool_call>\n{as_json}\n</tool_call>",
        "tool": f"<write>\n<path>{first}</path>\n<text>\n{second}\n</text>\n</write>",
        "label": f"Action: write\nAction Input: {json.dumps(arguments)}",
    }
    for notation, text in written.items():
        (call,) = agent_message(text, GRAMMARS[notation]).calls
        assert (call.name, call.valid) == ("write", True)
        assert json.loads(call.action) == {"name": "write", "arguments": arguments}


@given(TEXTS)
def test_a_thought_holds_no_call(text: str) -> None:
    closed = text.replace("</think>", "").replace("<think>", "")
    message = agent_message(f"<think>{closed}</think>done", *GRAMMARS.values())
    assert (message.calls, message.text, message.thought) == ((), "done", closed.strip() or None)


def test_a_tag_of_thinking_inside_a_call_is_its_text() -> None:
    for inside in ("<think>", "</think>", "<think>a</think>"):
        text = f"<function=write><parameter=text>{inside}</parameter></function>"
        message = agent_message(f"So: {text}", text_calls.function_tags)
        assert (message.text, message.thought) == ("So:", None)
        assert json.loads(message.calls[0].action)["arguments"] == {"text": inside}


def test_a_template_may_have_eaten_the_first_tag_of_a_thought() -> None:
    message = agent_message("I call <tool_call> next</think><tool_call>{}", GRAMMARS["tool_call"])
    assert message.thought == "I call <tool_call> next"
    assert [call.action for call in message.calls] == ["{}"]


@pytest.mark.parametrize(
    ("notation", "text", "name"),
    [
        ("function", "<function=run><parameter=a>1", "run"),
        ("function", "<function=run><parameter=a>1</parameter> and </function>", "run"),
        ("function", "<function=run><parameter=a>1</parameter><parameter=a>2</parameter>", "run"),
        ("tool_call", '<tool_call>{"name": "f", "arguments": {</tool_call>', "f"),
        ("tool_call", "<tool_call>['f']</tool_call>", None),
        ("tool_call", '<tool_call>{"name": "f", "arguments": [1]}</tool_call>', "f"),
        ("tool_call", '<tool_call>{"name": "f"}<code>1</tool_call>', "f"),
        ("mcp", "<use_mcp_tool><tool_name>t</tool_name></use_mcp_tool>", "t"),
        ("tool", "<read_file><path>a</read_file>", "read_file"),
        ("tool", "<read_file><path>a</path>", "read_file"),
        ("code", "<execute>print(1)", None),
        ("fence", "```bash\nls", "bash"),
        ("label", "Action: f\nAction Input: none", "f"),
    ],
)
def test_what_cannot_be_parsed_is_still_a_call(notation: str, text: str, name: str | None) -> None:
    (call,) = agent_message(text, GRAMMARS[notation]).calls
    assert (call.name, call.valid) == (name, False)


def test_a_list_in_one_tag_is_as_many_calls() -> None:
    calls = agent_message(
        '<tool_call>[{"name": "a", "arguments": {}}, {"name": "b", "args": {}}]</tool_call>',
        text_calls.tool_call_tags,
    ).calls
    assert [call.name for call in calls] == ["a", "b"]


def test_code_beside_a_call_is_its_argument() -> None:
    (call,) = agent_message(
        '<tool_call>{"name": "python", "arguments": {}}\n<code>\nx = "</a>"\n</code></tool_call>',
        text_calls.tool_call_tags,
    ).calls
    assert json.loads(call.action) == {"name": "python", "arguments": {"code": 'x = "</a>"'}}


def test_function_tags_in_a_tool_call_are_one_call() -> None:
    (call,) = agent_message(
        "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>",
        text_calls.tool_call_tags,
    ).calls
    assert call.action == '{"name": "f", "arguments": {"a":"1"}}'


def test_a_fence_in_another_language_hides_what_is_in_it() -> None:
    text = "````text\n```bash\nrm\n```\n````\n```bash\nls\n```"
    message = agent_message(text, text_calls.code_fences("bash"))
    assert [call.action for call in message.calls] == ["ls"]


@given(st.lists(VALUES, min_size=1, max_size=4))
def test_results_that_share_a_message_are_parted(observations: list[str]) -> None:
    text = "\n".join(f"<tool_response>\n{one}\n</tool_response>" for one in observations)
    assert results(text) == observations


def test_a_closing_tag_inside_a_result_stays_in_it() -> None:
    text = "<tool_response>\nuse </tool_response> to end\n</tool_response>"
    assert results(text) == ["use </tool_response> to end"]


MARKS = (
    Mark("<search>", "</search>", "call", "search", "query"),
    Mark("<information>", "</information>", "result"),
    Mark("<think>", "</think>", "thought"),
    Mark("<view>", "</view>", "view", "view"),
    Mark("Wrong.", "Again.", "feedback"),
)
ENDS = [end for mark in MARKS for end in (mark.opening, mark.closing)]
MARKED = st.lists(st.sampled_from([*ENDS, "words", " ", "<"]), max_size=20).map("".join)


@given(MARKED)
def test_the_stretches_of_a_marked_text_joined_are_the_text(text: str) -> None:
    assert "".join(stretch.raw for stretch in stretches(text, MARKS)) == text


@given(MARKED)
def test_every_result_in_a_marked_text_is_observed_as_it_is(text: str) -> None:
    ledger = Ledger()
    messages = list(marked_messages(text, MARKS, ledger, "text"))
    shown = [
        one.inner
        for one in stretches(text, MARKS)
        if one.mark is not None and one.mark.what in ("result", "view")
    ]
    heard = [one.text for one in messages if one.role == "result" and one.source is None]
    assert heard == shown
    fold(messages, ledger)
    assert not ledger.reasons()


def test_many_openings_take_no_time_that_grows_with_their_square() -> None:
    # Read in far under a second; a reader that looks ahead from each opening needs minutes.
    for opening in (
        "<function=a>",
        "<tool_call>",
        "<use_mcp_tool>",
        "<read_file>",
        "<think>",
        "```",
    ):
        assert pieces(opening * 100_000, *GRAMMARS.values())
        assert pieces(f"{opening}\n" * 100_000, *GRAMMARS.values())
    for end in ENDS:
        assert list(stretches(end * 100_000, MARKS))
