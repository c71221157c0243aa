"""Which steps are marked as context only, and why."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from steps_frames import SCREEN, steps_frame

from trajkit.filters import mark_steps


def marks(*steps: dict[str, Any]) -> list[str | None]:
    return mark_steps(steps_frame(*steps))["skip_reason"].to_list()


def test_steps_are_marked_by_cause_and_stay() -> None:
    assert marks(
        {"action_kind": "none", "action": ""},
        {"observation_source": "harness"},
        {"observation_source": "user"},
        {"truncated": True},
        {"observation": None},
        {},
        {"observation": None},
    ) == [
        "empty_action",
        "harness_feedback",
        "user_reply",
        "truncated_observation",
        "missing_observation",
        None,
        "final_without_reply",
    ]


def test_a_terminal_wait_and_a_silent_command_are_no_empty_actions() -> None:
    wait = {"action_kind": "keystrokes", "action": '[{"keystrokes":"","duration":5.0}]'}
    assert marks(wait, {"action": "mkdir a", "observation": ""}) == [None, None]


def test_no_change_is_marked_on_screens_of_a_gui_only() -> None:
    same = {"observation": "button", "observation_kind": "tree", "action_kind": "gui"}
    assert marks(*({**same, "domain": "web", "action": str(n)} for n in range(2))) == [
        None,
        "no_change",
    ]
    assert marks(*({**same, "action": f"cmd{n}"} for n in range(2))) == [None, None]


def test_a_screen_that_comes_late_is_marked_and_a_true_no_op_stays() -> None:
    click, wait = SCREEN | {"action": "click(2)"}, SCREEN | {"action": "noop()"}
    assert marks(SCREEN, click, click) == [None, "no_change", "no_change"]
    assert marks(SCREEN, wait) == [None, None]
    assert marks(SCREEN, click, wait) == [None, None, None]
    assert marks(SCREEN, click, wait | {"observation": "[1] b"}) == [None, "no_change", None]
    assert marks(SCREEN, click | {"error": "no element 2"}) == [None, None]
    unread = click | {"error": "unparsed", "action_valid": False, "action": "press and so on"}
    assert marks(SCREEN, unread) == [None, "no_change"]
    told = {"observation": "Nothing happens.", "domain": "web", "action_kind": "gui"}
    assert marks(told, told | {"action": "click[b]"}) == [None, None]
    page = {"observation_kind": "text", "observation": "a\nb\nc\nd"}
    assert marks(SCREEN | page, click | page) == [None, "no_change"]


def test_the_screen_before_is_carried_over_steps_that_show_none_and_from_the_start() -> None:
    blind = SCREEN | {"observation": None, "observation_kind": "none", "action": "click(9)"}
    late = SCREEN | {"action": "click(2)"}
    assert marks(SCREEN, blind, late, SCREEN | {"observation": "[1] b"}) == [
        None,
        "missing_observation",
        "no_change",
        None,
    ]
    frame = steps_frame(SCREEN)
    start = pl.DataFrame([{"trajectory_id": "t", "domain": "web", "initial_state": "[1] a"}])
    assert mark_steps(frame, initial_states=start)["skip_reason"].to_list() == ["no_change"]


def test_a_screen_repeated_behind_the_word_that_ends_a_run_is_no_reply() -> None:
    end = SCREEN | {"action": "stop [4]", "action_name": "stop"}
    assert marks(SCREEN, end) == [None, "final_without_reply"]
    assert marks(SCREEN, end, SCREEN | {"observation": "[1] b"}) == [None, None, None]


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        ('[{"keystrokes":"","duration":0.5}]', None),
        ('[{"keystrokes":"","timeout_sec":10}]', None),
        ('[{"keystrokes":"ls\\n","duration":0}]', None),
        ('[{"keystrokes":"","duration":0.0}]', "empty_action"),
        ('[{"keystrokes":""}]', "empty_action"),
        ("[]", "empty_action"),
    ],
)
def test_keystrokes_are_empty_without_a_key_and_without_a_duration(
    action: str, reason: str | None
) -> None:
    assert marks({"action_kind": "keystrokes", "action": action}) == [reason]


def test_narration_over_a_screen_and_fences_around_nothing_are_empty_actions() -> None:
    said = {"action_kind": "message", "action": "Next I open the menu."}
    assert marks(SCREEN | said | {"observation": "[1] b"}, SCREEN) == ["empty_action", None]
    assert marks(said) == [None]
    assert marks({"action_kind": "code", "action": "```bash\n\n```"}) == ["empty_action"]
    assert marks({"action_kind": "code", "action": "```bash\nls\n```"}) == [None]


def test_all_unanswered_calls_of_the_last_turn_are_final() -> None:
    assert marks({}, {"observation": None, "turn": 1}, {"observation": None, "turn": 1}) == [
        None,
        "final_without_reply",
        "final_without_reply",
    ]


def test_a_failed_call_is_marked_when_the_next_one_puts_it_right() -> None:
    wrong = {
        "action": '{"name": "read", "arguments": {"path": "/srv/notes.tx"}}',
        "error": "no file",
    }
    right = {"action": '{"name": "read", "arguments": {"path": "/srv/notes.txt"}}'}
    other = {"action": '{"name": "read", "arguments": {"query": "weather in Oslo", "n": 3}}'}
    assert marks(wrong, right) == ["retry_cycle", None]
    assert marks(wrong, other) == [None, None]
    assert marks(right, right) == [None, None]


def test_an_honest_failure_of_a_program_is_no_bad_action() -> None:
    def shell(action: str, seen: str, code: int) -> dict[str, Any]:
        return {"domain": "swe", "action_kind": "code", "action": action} | {
            "observation": seen,
            "exit_code": code,
        }

    again = shell("pytest tests/test_b.py", "2 passed", 0)
    assert marks(shell("pytest tests/test_a.py", "1 failed", 1), again) == [None, None]
    assert marks(shell("grep -n x a.py", "", 1), shell("grep -n y a.py", "3:y", 0)) == [None, None]
    usage = shell("grep --foo x a.py", "grep: unrecognized option '--foo'", 2)
    assert marks(usage, shell("grep -i x a.py", "3:X", 0)) == ["retry_cycle", None]
    inline = shell("python -c 'print(x)'", "Traceback (most recent call last):\nNameError", 1)
    assert marks(inline, shell("python -c 'print(1)'", "1", 0)) == ["retry_cycle", None]


def test_an_error_that_was_the_answer_is_not_put_right_by_another_program() -> None:
    denied = {
        "action": '[{"keystrokes":"chmod 0 a; cat a\\n","duration":0.5}]',
        "action_kind": "keystrokes",
        "observation": "$ chmod 0 a; cat a\ncat: a: Permission denied",
    }
    other = denied | {"action": '[{"keystrokes":"chmod 6 a; tar a\\n"}]', "observation": "$"}
    again = denied | {"action": '[{"keystrokes":"sudo cat a\\n"}]', "observation": "x"}
    assert marks(denied, other) == [None, None]
    assert mark_steps(steps_frame(denied, again), retry_similarity=50)["skip_reason"].to_list() == [
        "retry_cycle",
        None,
    ]


def test_a_retry_is_of_a_later_turn_and_feedback_between_does_not_hide_it() -> None:
    wrong = {"action": '{"name": "read", "arguments": {"p": "a.tx"}}', "error": "no file"}
    right = {"action": '{"name": "read", "arguments": {"p": "a.txt"}}'}
    said = {"action_kind": "none", "action": "", "observation_source": "harness"}
    assert marks(wrong | {"turn": 0}, right | {"turn": 0}) == [None, None]
    assert marks(wrong, said, right) == ["retry_cycle", "harness_feedback", None]


def test_a_mark_does_not_cross_into_the_next_episode() -> None:
    wrong = {"action": "cat a.tx", "error": "no file"}
    other = {"action": "cat a.txt", "trajectory_id": "u", "step_index": 0}
    assert marks(wrong, other) == [None, None]


def test_a_mark_of_ingest_stays_as_it_is() -> None:
    for reason in ("copied_context", "shared_history"):
        assert marks({"skip_reason": reason, "observation": None, "truncated": True}, {}) == [
            reason,
            None,
        ]
