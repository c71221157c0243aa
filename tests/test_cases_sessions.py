"""Sessions of command-line agents as they really lie on disk, read into a store and looked at.

A comment names the case of the project's collection that a test stands for.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from session_lines import (
    SESSION,
    answer,
    codex,
    line,
    only_session,
    reply,
    rows_of,
    spoken,
    taken_in,
    use,
)

from trajkit.adapters.injected import split_injected
from trajkit.loss import loss_report
from trajkit.store import Store
from trajkit.transitions import transitions


# FM01
def test_the_lines_of_one_reply_are_one_turn_with_the_last_count_of_tokens(tmp_path: Path) -> None:
    thinking = {"type": "thinking", "thinking": "Look twice.", "signature": "c2ln"}
    episode, steps = only_session(
        tmp_path,
        [
            line("user", "why is the lamp dark?", "u1", None),
            line("assistant", [thinking], "a1", "u1", message=reply("msg_1", 2)),
            line("assistant", "I look.", "a2", "a1", message=reply("msg_1", 2)),
            line("assistant", [use("t1", "lamp")], "a3", "a2", message=reply("msg_1", 40)),
            line("assistant", [use("t2", "fuse")], "a4", "a3", message=reply("msg_1", 73)),
            line("user", [answer("t2", "blown")], "u2", "a4"),
            line("user", [answer("t1", "dark")], "u3", "a3"),
            line("assistant", "The fuse is blown.", "a5", "u3", message=reply("msg_2", 9)),
        ],
    )
    assert [(step["turn"], step["observation"]) for step in steps] == [
        (0, "dark"),
        (0, "blown"),
        (1, None),
    ]
    assert [step["thought"] for step in steps] == ["Look twice.\n\nI look.", None, None]
    assert episode["meta"]["usage"]["output_tokens"] == 73 + 9


# FM02
def test_what_a_rewind_left_and_a_sub_agent_never_mix_with_the_live_line(tmp_path: Path) -> None:
    _, store = taken_in(
        tmp_path,
        session=[
            line("user", "paint the door", "u1", None),
            line("assistant", [use("t1", "paint red")], "a1", "u1"),
            line("user", "blue, not red", "u2", "u1"),
            line("assistant", [use("t2", "paint blue")], "a2", "u2"),
            line("user", "mix the paint", "s1", None, isSidechain=True, agentId="mixer"),
            line("assistant", "mixed", "s2", "s1", isSidechain=True, agentId="mixer"),
            line("user", [answer("t2", "wet")], "u3", "a2"),
            line("assistant", "It is blue.", "a3", "u3"),
        ],
    )
    told = {
        row["origin_key"]: [
            row["task"],
            *(
                text
                for step in rows_of(store, "steps")
                if step["trajectory_id"] == row["trajectory_id"]
                for text in (step["action"], step["observation"])
                if text
            ),
        ]
        for row in rows_of(store, "trajectories")
    }
    red, blue = (
        f'{{"name": "Bash", "arguments": {{"command":"paint {color}"}}}}'
        for color in ("red", "blue")
    )
    assert told == {
        SESSION: ["paint the door\n\nblue, not red", blue, "wet", "It is blue."],
        f"{SESSION}~1": ["paint the door", red],
        "mixer": ["mix the paint", "mixed"],
    }
    by_key = {row["origin_key"]: row for row in rows_of(store, "trajectories")}
    assert by_key["mixer"]["parent_id"] == by_key[SESSION]["trajectory_id"]
    branch = json.loads(by_key[f"{SESSION}~1"]["meta"])["branch"]
    assert branch == {"of": SESSION, "n_shared_steps": 0}


COMPACTED = [
    {"type": "summary", "summary": "About a boat", "leafUuid": "elsewhere"},
    line("user", "build the shed", "u1", None),
    line("assistant", [use("t1", "saw")], "a1", "u1"),
    line("user", [answer("t1", "sawn")], "u2", "a1"),
    {"type": "system", "subtype": "compact_boundary", "uuid": "b1", "parentUuid": None}
    | {"logicalParentUuid": "u2", "sessionId": SESSION},
    line("user", "Summary: the wood is sawn.", "u3", "b1", isCompactSummary=True),
    line("assistant", [use("t2", "nail")], "a2", "u3"),
    line("user", [answer("t2", "nailed")], "u4", "a2"),
    {"type": "summary", "summary": "The shed", "leafUuid": "u4"},
]


# FM04
def test_a_compaction_begins_a_second_window_with_a_summary_nobody_said(tmp_path: Path) -> None:
    episode, steps = only_session(tmp_path, COMPACTED)
    assert episode["task"] == "build the shed"
    assert episode["meta"]["context_windows"] == [0, 1]
    assert [step["observation"] for step in steps] == [
        "sawn",
        "Summary: the wood is sawn.",
        "nailed",
    ]
    assert [step["observation_source"] for step in steps].count("user") == 0
    assert steps[1]["observation_source"] == "harness"
    transitions(tmp_path / "raw", tmp_path / "tr", quiet=True)
    assert [row["target"] for row in rows_of(tmp_path / "tr", "transitions")] == [True, False, True]


# FM04
def test_the_title_of_another_session_is_left_out_and_counted(tmp_path: Path) -> None:
    episode, _ = only_session(tmp_path, COMPACTED)
    assert episode["meta"]["summary"] == "The shed"
    assert "boat" not in json.dumps(episode)
    total = loss_report(Store(tmp_path / "raw"))["total"]
    assert total["left_out"] == {"foreign_summary": 1}
    assert total["events"] == len(COMPACTED)


# FM05
def test_history_that_a_resumed_session_repeats_is_a_target_once(tmp_path: Path) -> None:
    first = [
        line("user", "add a shelf", "u1", None),
        line("assistant", [use("t1", "measure"), use("t2", "drill")], "a1", "u1"),
        line("user", [answer("t1", "90 cm"), answer("t2", "drilled")], "u2", "a1"),
    ]
    copied = [row | {"sessionId": "c1a0de00-0000-4000-8000-000000000002"} for row in first]
    own = [
        line("user", "now paint it", "u3", "u2"),
        line("assistant", [use("t3", "paint")], "a2", "u3"),
        line("user", [answer("t3", "painted")], "u4", "a2"),
    ]
    resumed = [*copied, *(row | {"sessionId": copied[0]["sessionId"]} for row in own)]
    _, store = taken_in(tmp_path, a=first, b=resumed)
    steps = rows_of(store, "steps")
    assert [(step["action_name"], step["skip_reason"]) for step in steps] == [
        ("Bash", None),
        ("Bash", None),
        ("Bash", "copied_context"),
        ("Bash", "copied_context"),
        (None, None),
        ("Bash", None),
    ]
    transitions(store, tmp_path / "tr", quiet=True)
    targets = [row for row in rows_of(tmp_path / "tr", "transitions") if row["target"]]
    assert len(targets) == 3


COMMAND = ["bash", "-lc", "ring"]
OLDER = [
    codex("session_meta", {"id": "0" * 31 + "1", "cwd": "/tower", "cli_version": "0.130.0"}),
    codex("event_msg", {"type": "user_message", "message": "ring the bell"}),
    codex(
        "response_item",
        {"type": "function_call", "name": "shell", "call_id": "c1"}
        | {"arguments": json.dumps({"command": COMMAND}, separators=(",", ":"))},
    ),
    codex(
        "response_item",
        {"type": "function_call_output", "call_id": "c1"}
        | {"output": json.dumps({"output": "dong\n", "metadata": {"exit_code": 4}})},
    ),
    codex("event_msg", {"type": "agent_message", "message": "It rang."}),
]
NEWER = [
    codex("session_meta", {"id": "0" * 31 + "2", "cwd": "/tower", "cli_version": "0.149.0"}),
    spoken("user", "# AGENTS.md instructions for /tower\n\nRing softly."),
    spoken("user", "<environment_context><cwd>/tower</cwd></environment_context>"),
    spoken("user", "ring the bell"),
    codex(
        "event_msg",
        {
            "type": "item_completed",
            "item": {"type": "CommandExecution", "id": "i1", "command": COMMAND, "exit_code": 4}
            | {"status": "failed", "stdout": "dong\n", "stderr": ""},
        },
    ),
    codex(
        "event_msg",
        {
            "type": "item_completed",
            "item": {"type": "AgentMessage", "content": [{"type": "Text", "text": "It rang."}]},
        },
    ),
    codex("event_msg", {"type": "carillon_began", "bells": 3}),
]


# FM07
def test_two_generations_of_codex_tell_the_same_session(tmp_path: Path) -> None:
    told = []
    for name, rows in (("older", OLDER), ("newer", NEWER)):
        (tmp_path / name).mkdir()
        episode, steps = only_session(tmp_path / name, rows)
        columns = ("turn", "action_kind", "action_name", "action", "observation", "exit_code")
        told.append([episode["task"], [[step[column] for column in columns] for step in steps]])
    assert told[0] == told[1]
    action = '{"name": "shell", "arguments": {"command":["bash","-lc","ring"]}}'
    assert told[0] == [
        "ring the bell",
        [
            [0, "tool_call", "shell", action, "dong\n", 4],
            [1, "message", None, "It rang.", None, None],
        ],
    ]


# FM07
def test_a_type_that_is_not_known_is_named_and_counted(tmp_path: Path) -> None:
    episode, _ = only_session(tmp_path, NEWER)
    assert episode["meta"]["unknown_events"] == {"carillon_began": 1}
    total = loss_report(Store(tmp_path / "raw"))["total"]
    assert total["left_out"] == {"unknown_event": 1}
    assert total["events"] == len(NEWER)


# FM07
def test_a_session_without_any_answer_is_a_reject(tmp_path: Path) -> None:
    renamed = codex("event_msg", {"type": "reply_v2", "text": "It rang."})
    report, store = taken_in(tmp_path, session=[*NEWER[:4], renamed])
    assert (report.kept, report.dropped) == (0, {"no_action": 1})
    (reject,) = rows_of(store, "rejects")
    assert reject["origin_path"] == "logs/session.jsonl"


# FM08
def test_withheld_thinking_is_told_from_none_and_leaves_no_empty_thought(tmp_path: Path) -> None:
    hollow = {"type": "thinking", "thinking": "", "signature": "c2ln"}
    redacted = {"type": "redacted_thinking", "data": "Z2Fy"}
    real = {"type": "thinking", "thinking": "Say goodbye.", "signature": "c2ln"}
    said = [{"type": "text", "text": "Yes."}]
    rows = [line("user", "is it level?", "u0", None)]
    for number, thought in enumerate(([hollow], [redacted], [], [real])):
        above = rows[-1]["uuid"]
        rows.append(line("assistant", [*thought, *said], f"a{number}", above))
        rows.append(line("user", "and now?", f"u{number + 1}", f"a{number}"))
    episode, steps = only_session(tmp_path, rows)
    assert episode["meta"]["thinking"] == ["withheld", "withheld", "none", "present"]
    assert [step["thought"] for step in steps] == [None, None, None, "Say goodbye."]
    assert [step["turn"] for step in steps] == [0, 1, 2, 3]


# FM10
def test_only_what_a_person_wrote_counts_as_their_words(tmp_path: Path) -> None:
    reminder = "<system-reminder>the list is empty</system-reminder>"
    rows = [
        line(
            "user",
            "<command-name>/model</command-name>\n<command-args>s</command-args>",
            "u0",
            None,
        ),
        line("user", "<local-command-stdout>set</local-command-stdout>", "u1", "u0"),
        line("user", "Answer nothing of this.", "u2", "u1", isMeta=True),
        line("user", "<nav>is crooked</nav>, straighten it", "u3", "u2"),
        line("assistant", "Straight now.", "a1", "u3"),
        line("user", [{"type": "text", "text": f"{reminder}use a grid"}], "u4", "a1"),
        line("user", "[Request interrupted by user]", "u5", "u4"),
        line("assistant", "A grid.", "a2", "u5"),
    ]
    episode, steps = only_session(tmp_path, rows)
    person = [step["observation"] for step in steps if step["observation_source"] == "user"]
    assert [episode["task"], *person] == ["<nav>is crooked</nav>, straighten it", "use a grid"]
    harness = [step["observation"] for step in steps if step["observation_source"] == "harness"]
    assert harness == [reminder, "[Request interrupted by user]"]
    assert len(episode["meta"]["context"]) == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "# Context from my IDE setup:\n\n## Open tabs:\n\n## My request for Codex:\nfix a",
            "fix a",
        ),
        ("what does <environment_context> mean?", "what does <environment_context> mean?"),
        ("<user_instructions>tabs</user_instructions>\n\nsort it", "\n\nsort it"),
        ("<system-reminder>that never ends", ""),
        ("a <system-reminder>x</system-reminder> b", "a  b"),
        ("# AGENTS.md\nrewrite this file", "# AGENTS.md\nrewrite this file"),
    ],
)
def test_injected_text_is_cut_off_where_it_stands(text: str, words: str) -> None:
    said, around = split_injected(text)
    assert said == words
    assert bool(around) == (words != text)


# JL03
def test_a_torn_line_is_put_aside_and_the_gap_it_leaves_is_named(tmp_path: Path) -> None:
    def text(kind: str, content: str, uuid: str, parent: str | None) -> str:
        row = line(kind, content, uuid, parent)
        del row["sessionId"]
        return json.dumps(row)

    written = [
        text("user", "mend it", "v", None) + "\n",
        text("assistant", 'if(a){b}{c} "}{" done', "w", "v"),
        text("user", "go on", "x", "w") + "\n",
        text("assistant", "half of a sentence", "y", "x")[:-12],
        text("user", "are you there?", "z", "y") + "\n",
        text("assistant", "yes", "zz", "z") + "\n",
    ]
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "session.jsonl").write_text("".join(written))
    report, store = taken_in(tmp_path)
    (episode,) = rows_of(store, "trajectories")
    assert json.loads(episode["meta"])["gaps"] == [{"missing": "y", "after": "x", "before": "z"}]
    assert [(step["action"], step["observation"]) for step in rows_of(store, "steps")] == [
        ('if(a){b}{c} "}{" done', "go on"),
        ("", "are you there?"),
        ("yes", None),
    ]
    assert episode["task"] == "mend it"
    assert sum(report.dropped.values()) == 1
    (fragment,) = rows_of(store, "rejects")
    assert "half of a" in fragment["record"]


def test_a_sub_agent_in_a_file_beside_its_session_finds_its_parent(tmp_path: Path) -> None:
    helper = {"isSidechain": True, "agentId": "a1b2c3d4"}
    _, store = taken_in(
        tmp_path,
        **{
            "agent-a1b2c3d4": [
                line("user", "count the nails", "s1", None, **helper),
                line("assistant", [use("t9", "count")], "s2", "s1", **helper),
            ],
            SESSION: [
                line("user", "are there nails?", "u1", None),
                line("assistant", [use("t1", "ask")], "a1", "u1"),
            ],
        },
    )
    by_key = {row["origin_key"]: row for row in rows_of(store, "trajectories")}
    assert by_key["a1b2c3d4"]["parent_id"] == by_key[SESSION]["trajectory_id"]
    assert by_key[SESSION]["parent_id"] is None


def test_the_history_a_codex_sub_agent_begins_with_is_no_target(tmp_path: Path) -> None:
    parent, child = "0" * 31 + "a", "0" * 31 + "b"
    spawn = {"subagent": {"thread_spawn": {"parent_thread_id": parent, "agent_role": "ringer"}}}
    meta = {"id": child, "source": spawn, "subagent_history_start_ordinal": 4}
    copied = [OLDER[1], OLDER[2], OLDER[3]]
    own = [
        spoken("user", "ring twice"),
        codex(
            "response_item",
            {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c2"},
        ),
        codex(
            "response_item",
            {"type": "function_call_output", "call_id": "c2", "output": "dong dong"},
        ),
    ]
    rows = [codex("session_meta", meta), *copied, *own]
    first = codex("session_meta", {"id": parent, "cwd": "/tower"})
    _, store = taken_in(
        tmp_path,
        child=[row | {"ordinal": number} for number, row in enumerate(rows)],
        parent=[first, *OLDER[1:]],
    )
    by_path = {row["origin_path"]: row for row in rows_of(store, "trajectories")}
    one, other = by_path["logs/child.jsonl"], by_path["logs/parent.jsonl"]
    assert (one["task"], one["parent_id"]) == ("ring twice", other["trajectory_id"])
    steps = [s for s in rows_of(store, "steps") if s["trajectory_id"] == one["trajectory_id"]]
    assert [(step["observation"], step["skip_reason"]) for step in steps] == [
        ("dong\n", "copied_context"),
        ("ring twice", None),
        ("dong dong", None),
    ]
