"""The laws of the fidelity gate, over any text and over recordings of every domain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fidelity_cases import CASES, make_case, tool, typed, verdict_on
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_logs import logged

from trajkit import domains
from trajkit.errors import TrajkitError
from trajkit.fidelity import content
from trajkit.fidelity.findings import AXES, Case, Turn
from trajkit.fidelity.gate import WEIGHTS, judge
from trajkit.fidelity.thresholds import NAMES, read_thresholds, shipped


@pytest.mark.parametrize("name", CASES)
def test_a_recording_judged_against_itself_passes_every_check(name: str) -> None:
    verdict = judge(CASES[name])
    assert [f for f in verdict.findings if f.score != 1.0] == []
    assert (verdict.passed, verdict.reason) == (True, None)
    assert all(getattr(verdict, axis) == 1.0 for axis in AXES)


def recorded_cases() -> Iterator[Case]:
    """Give a case for every observation in the recorded logs."""
    for domain, episode in logged():
        turns = [
            Turn(
                action=step.action,
                action_kind=step.action_kind,
                action_name=step.action_name,
                observation=step.observation,
            )
            for step in episode.steps
        ]
        for number, step in enumerate(episode.steps):
            if step.observation is not None:
                yield Case(
                    domain=domain,
                    action=replace(turns[number], observation=None),
                    history=tuple(turns[:number]),
                    initial_state=episode.initial_state,
                    task=episode.task,
                    recorded=step.observation,
                    prediction=step.observation,
                    error=step.error,
                    exit_code=step.exit_code,
                )


def test_every_recorded_observation_passes_and_none_may_be_replaced_by_the_one_before() -> None:
    n_cases = 0
    for case in recorded_cases():
        n_cases += 1
        assert [f for f in judge(case).findings if f.score != 1.0] == []
        previous = content.previous_state(case)
        if previous is not None and previous.strip() != case.recorded.strip():
            assert not judge(replace(case, prediction=previous)).passed
    assert n_cases >= 250


FRAGMENTS = (
    "ann@box:~$ ls", "error: x", "Traceback (most recent call last):", "[1] https://a.example/x",
    "Title: A", "Snippet: b", "[3] link 'B', focused", "\t[3] link 'B'", "RootWebArea 'A'",
    "entry\ta\tb\t\t\t(1, 2)\t(3, 4)", '[0] TextView text="a" bounds=(1,2,3,4)', '{"a": [1]}', "{",
    "<returncode>1</returncode>", "</output>", "exit code 2", "2026-01-05 10:00:00", "```", "> ",
    '<node class="a" text="b" />', "     1\tx = 1", "3 failed, 2 passed", "", " ", "\r", "\u2028",
    "</think>", "<|im_start|>", "As an AI language model", "‹timestamp›", "No results found", "🍸",
)  # fmt: skip
TEXTS = st.one_of(
    st.text(max_size=300), st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("\n".join)
)
ACTIONS = st.one_of(
    TEXTS,
    st.sampled_from([case.action.action for case in CASES.values()]),
)
KINDS = st.sampled_from(["tool_call", "keystrokes", "code", "gui"])


@st.composite
def any_case(draw: st.DrawFn) -> Case:
    """Draw a case of any domain whose texts may be anything."""
    turns = st.builds(
        Turn, action=ACTIONS, action_kind=KINDS, observation=st.one_of(st.none(), TEXTS)
    )
    return Case(
        domain=draw(st.sampled_from(domains.ORDER)),
        action=Turn(action=draw(ACTIONS), action_kind=draw(KINDS)),
        history=tuple(draw(st.lists(turns, max_size=3))),
        initial_state=draw(st.one_of(st.none(), TEXTS)),
        recorded=draw(TEXTS),
        prediction=draw(TEXTS),
        error=draw(st.sampled_from([None, "ValueError"])),
        exit_code=draw(st.sampled_from([None, 0, 1])),
    )


@given(any_case())
@settings(max_examples=500, deadline=None)
def test_any_recording_passes_against_itself(case: Case) -> None:
    verdict = judge(replace(case, prediction=case.recorded))
    assert [f for f in verdict.findings if f.score != 1.0] == []
    assert verdict.passed


@given(any_case())
@settings(max_examples=500, deadline=None)
def test_no_text_makes_the_gate_raise_and_scores_stay_in_range(case: Case) -> None:
    verdict = judge(case)
    assert verdict.passed == (verdict.reason is None)
    assert all(0.0 <= getattr(verdict, axis) <= 1.0 for axis in AXES)
    for found in verdict.findings:
        assert 0.0 <= found.score <= 1.0
        assert max(len(found.expected), len(found.got)) <= 200
        f"{found.expected}{found.got}".encode()
    assert judge(case) == verdict


@pytest.mark.parametrize("side", ["recorded", "prediction"])
@pytest.mark.parametrize("name", CASES)
def test_lone_surrogates_and_control_bytes_do_not_raise(name: str, side: str) -> None:
    text = "\ud83d\x00\x1b[31m \udfff {" + CASES[name].recorded
    assert judge(replace(CASES[name], **{side: text})).findings


@pytest.mark.parametrize("name", CASES)
def test_an_empty_prediction_fails_where_something_was_recorded(name: str) -> None:
    for nothing in ("", " \n\t"):
        assert verdict_on(name, nothing).reason == "empty_prediction"


@pytest.mark.parametrize("domain", domains.ORDER)
def test_where_nothing_was_recorded_only_nothing_passes(domain: str) -> None:
    case = make_case(domain, "x", "", kind="code")
    assert judge(case).passed
    assert judge(replace(case, prediction="done")).reason == "invented_output"


MOVING = {
    name: previous
    for name, case in CASES.items()
    if (previous := content.previous_state(case)) not in (None, case.recorded)
}


@pytest.mark.parametrize("name", MOVING)
def test_a_stale_copy_of_the_last_observation_fails(name: str) -> None:
    assert verdict_on(name, MOVING[name] or "").reason == "stale_copy"


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    ("prefix", "suffix", "reason"),
    [
        ("<predicted_observation>\n", "\n</predicted_observation>", "answer_mark"),
        ("Let me think.</think>\n", "", "answer_mark"),
        ("**Environment Observation:**\n", "", "answer_mark"),
        ("```\n", "\n```", "code_fence"),
        ("As an AI language model, I cannot run this.\n", "", "meta_talk"),
        ("Here is the predicted output:\n", "", "meta_talk"),
        ("", "\nThe environment would print this.", "meta_talk"),
        ("", "\nand again" * 2000, "runaway_length"),
    ],
)
def test_what_a_model_adds_around_an_answer_fails_it(
    name: str, prefix: str, suffix: str, reason: str
) -> None:
    assert verdict_on(name, prefix + CASES[name].recorded + suffix).reason == reason


@pytest.mark.parametrize("name", CASES)
def test_a_copy_of_the_action_is_no_observation(name: str) -> None:
    verdict = verdict_on(name, CASES[name].action.action)
    assert "action_copy" in {f.check for f in verdict.findings}
    assert not verdict.passed


def test_a_loop_inside_a_long_answer_fails() -> None:
    text = "\n".join(f"row {n * n} of {n**3} in {n:b}" for n in range(300))
    case = typed("cat big.log", f"ann@box:~/job$ cat big.log\n{text}\nann@box:~/job$")
    loop = f"ann@box:~/job$ cat big.log\n{'row 4 of 8 in 10' + chr(10)}" * 250
    verdict = judge(replace(case, prediction=loop))
    assert "repetition" in {f.check for f in verdict.findings if f.score == 0.0}
    assert not verdict.passed


METADATA = [
    ("2026-01-05 10:00:01", "2026-02-11 23:59:58"),
    ("pid 4711", "pid 90210"),
    ("9f3ab24c11", "00fe82ba9d"),
    ("0x7f3a22", "0x55d19e"),
    ("192.0.2.17:8080", "198.51.100.4:3000"),
    ("0.31s", "12.8s"),
    ("1.2 MB/s", "840 kB/s"),
    ("tmp.Xa92kQ", "tmp.b7Zp1d"),
    ("1b4e28ba-2fa1-11d2-883f-0016d3cca427", "9c858901-8a57-4791-81fe-4c455b099bc9"),
]


@pytest.mark.parametrize(("first", "second"), METADATA)
@pytest.mark.parametrize("domain", ["terminal", "swe", "mcp"])
def test_a_difference_in_runtime_metadata_alone_passes_in_full(
    domain: str, first: str, second: str
) -> None:
    text = "worker {} is ready\nnext check follows"
    if domain == "terminal":
        case = typed("start", f"ann@box:~/job$ start\n{text.format(first)}\nann@box:~/job$")
    else:
        case = tool(domain, "start", '{"kind": "worker"}', text.format(first))
    verdict = judge(replace(case, prediction=case.recorded.replace(first, second)))
    assert [f for f in verdict.findings if f.score != 1.0] == []


def block(line: Callable[[int], str], n_chars: int = 1_000_000) -> str:
    """Return about a million characters of lines."""
    return "\n".join(line(n) for n in range(n_chars // len(line(1000))))


LARGE = {
    "prose": block(lambda n: f"line {n} at 2026-01-05 10:00:{n % 60:02} error: x/{n}.py"),
    "axtree": block(lambda n: f"\t[{n}] link 'name {n}', value='x {n % 97}'"),
    "phone": block(lambda n: f'[{n}] TextView text="row {n}" bounds=({n % 99},1,{n % 99 + 5},9)'),
    "results": block(lambda n: f"[{n}] https://s{n}.example/p\nTitle: T\nSnippet: s {n}\nDate: 20"),
    "json": "[" + block(lambda n: f'{{"id": {n}, "price": {n}.5}},') + "{}]",
    "nested": "[" * 500_000 + "]" * 500_000,
    "one word": "a" * 1_000_000,
    "quotes": "[1] x '" + "'\\" * 500_000,
    "newlines": "x" + "\n" * 1_000_000 + "y",
}  # fmt: skip


@pytest.mark.parametrize("domain", domains.ORDER)
@pytest.mark.parametrize("shape", LARGE)
def test_an_observation_of_a_million_characters_is_judged_like_a_short_one(
    domain: str, shape: str
) -> None:
    """How long it takes is measured in `benchmarks/gate.py`."""
    text = LARGE[shape]
    action = '{"name": "fetch", "arguments": {"url": "https://s3.example/p", "x": 3, "y": 4}}'
    case = make_case(domain, action, text, before=text[:-3000] + "abc")
    middle = len(text) // 2
    verdict = judge(replace(case, prediction=text[:middle] + "zz" + text[middle:]))
    assert verdict.findings
    assert all(0.0 <= getattr(verdict, axis) <= 1.0 for axis in AXES)


def test_the_shipped_thresholds_name_every_axis_of_every_domain() -> None:
    assert set(shipped()) == set(domains.ORDER)
    for own in shipped().values():
        assert set(own) == set(NAMES)
        assert all(0 < least < 1 for least in own.values())
    assert set(WEIGHTS) == set(AXES)
    assert max(WEIGHTS.values()) == WEIGHTS["factuality"]


def test_thresholds_of_a_file_stand_in_place_of_the_shipped_ones(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[mcp]\noverall = 1.0\n")
    read = read_thresholds(path)
    assert read["mcp"] == {**shipped()["mcp"], "overall": 1.0}
    assert read["swe"] == shipped()["swe"]
    case = tool("mcp", "get", "{}", "the lamp is on")
    case = replace(case, prediction="the lamp is on and warm")
    assert judge(case).passed
    assert not judge(case, read).passed


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[mcp", "is not TOML"),
        ("[shell]\noverall = 1", "is no domain"),
        ("mcp = 1", "is no domain"),
        ("[mcp]\nmean = 0.5", "is no threshold"),
        ("[mcp]\noverall = 70", "is no score"),
        ("[mcp]\noverall = true", "is no score"),
        ("[mcp]\noverall = nan", "is no score"),
    ],
)
def test_a_file_that_holds_no_thresholds_is_refused(tmp_path: Path, text: str, what: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(TrajkitError, match=what):
        read_thresholds(path)
    with pytest.raises(TrajkitError, match="cannot be read"):
        read_thresholds(tmp_path / "none.toml")


def test_an_answer_of_another_kind_scores_on_no_axis_and_a_failure_elsewhere_on_the_others() -> (
    None
):
    call = tool("mcp", "get_price", '{"sku": "A-1"}', '{"sku": "A-1", "price": 4}')
    other_kind = judge(replace(call, prediction="nothing"))
    assert other_kind.reason == "not_json"
    assert {getattr(other_kind, axis) for axis in AXES} == {0.0}
    empty = judge(replace(call, prediction=""))
    assert {getattr(empty, axis) for axis in AXES} == {0.0}
    praised = judge(replace(call, prediction=call.recorded + "\nAs an AI I am sure of this."))
    assert praised.realism == 0.0


def test_a_failed_blocking_finding_bounds_its_own_axis() -> None:
    verdict = verdict_on("web page", CASES["web page"].initial_state or "")
    assert (verdict.passed, verdict.reason) == (False, "stale_copy")
    assert verdict.consistency == 0.0
    assert verdict.format > 0.5
