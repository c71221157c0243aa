"""Cases from the field about terminals: raw screens, commands cut wrongly, cut output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from golden.update import FOLDER, read_case
from hypothesis import given, settings
from hypothesis import strategies as st

from trajkit import domains
from trajkit.adapters import asciinema
from trajkit.adapters.casts import is_open
from trajkit.adapters.messages import Message, fold, make_call
from trajkit.builders import render
from trajkit.builders.examples import episodes
from trajkit.ingest import ingest
from trajkit.marks import finished
from trajkit.model import Origin, Record, Reject, Trajectory
from trajkit.store import Store
from trajkit.terminal_text import Terminal, cut_marks, is_raw, screen, shown
from trajkit.transitions import transitions

# Raw output and what a terminal shows of it (TM01).
SCREENS = {
    "a progress line that a shorter one overwrites": (
        "Fetching ducks\r  5%\r100%\nready\n",
        "100%hing ducks\nready\n",
    ),
    "a spinner that erases its line": ("wait |\r\x1b[Kwait /\r\x1b[2K\rquack\n", "quack\n"),
    "a hidden cursor and bracketed paste": ("\x1b[?25l\x1b[?2004hdig\x1b[?25h\n", "dig\n"),
    "a title and a link": ("\x1b]2;pond\x1b\\\x1b]8;;http://p/\x07north\x1b]8;;\x07\n", "north\n"),
    "line ends of Windows": ("one\r\ntwo\r\n", "one\ntwo\n"),
    "typing that was corrected": ("ls /pont\bd\b \b\n", "ls /pon\n"),
    "colours": ("\x1b[1;33mWARN\x1b[0m \x1b[38;5;9m3\x1b[m\n", "WARN 3\n"),
    "colours by their name": (
        r"echo '\x1b[31m' and \033[0m or [32m" + "\n",
        r"echo '\x1b[31m' and \033[0m or [32m" + "\n",
    ),
    "two bars that go up": ("a 0%\nb 0%\n\x1b[2A\ra 9%\x1b[K\n\x1b[1B", "a 9%\nb 0%\n"),
    "a cleared screen": ("old\nolder\n\x1b[H\x1b[2J\x1b[3Jnew\n", "new\n"),
    "an editor that was left": ("$ vi\r\n\x1b[?1049h\x1b[Htext\x1b[2;1H~\x1b[?1049l$ ", "$ vi\n$ "),
    "an editor that was not": ("$ vi\r\n\x1b[?1049h\x1b[Htext\x1b[2;1H~", "text\n~"),
    "an order cut off": ("done\x1b[3", "done"),
    "letters with marks and joined signs": (
        "\x1b[1me\u0301 \u2764\ufe0f日本\x1b[0m!",
        "e\u0301 \u2764\ufe0f日本!",
    ),
    "tabs beside a progress line": ("1%\r2%\nname\tsize \n", "2%\nname\tsize \n"),
}


@pytest.mark.parametrize("name", SCREENS)
def test_a_terminal_shows(name: str) -> None:
    raw, expected = SCREENS[name]
    assert screen(raw) == expected
    assert not is_raw(screen(raw))


def test_text_without_orders_is_taken_as_it_is() -> None:
    for text in ("a\r\nb\r\n", r"print('\x1b[0m')", "plain  \n\ttab", ""):
        assert not is_raw(text)
        assert shown(text) is text


def test_a_terminal_of_a_size_wraps_and_keeps_what_scrolled_away() -> None:
    assert screen("abcdefg\n1\n2\n3", columns=4, lines=2) == "abcd\nefg\n1\n2\n3"


_ORDERS = "2J 3J A 31m ?1049h ?1049l 2S T K s u 4h 2;3r"
PIECES = st.sampled_from(
    [
        *("ab", "\r", "\n", "\b", "\t", "日本", "e\u0301", "\U0001f44d\U0001f3fd"),
        *("\x1b]0;t\x07", "\x1bM", "\x1b7", "\x1b8"),
        *(f"\x1b[{order}" for order in _ORDERS.split()),
    ]
)


@settings(deadline=None)
@given(st.lists(PIECES, max_size=20).map("".join), st.integers(1, 4))
def test_where_output_is_split_changes_nothing(text: str, n_chars: int) -> None:
    whole, pieces = Terminal(20, 5), Terminal(20, 5)
    whole.feed(text)
    for start in range(0, len(text), n_chars):
        pieces.feed(text[start : start + n_chars])
    assert pieces.text() == whole.text()


@settings(deadline=None)
@given(st.lists(PIECES | st.sampled_from(["\x1b", "\x1b[", "\x1b]", "\x1bP", ";", "9", "H", "?"])))
def test_no_output_is_too_broken_to_be_shown(pieces: list[str]) -> None:
    assert not is_raw(screen("".join(pieces)))
    assert not is_raw(screen("".join(pieces), columns=7, lines=3))


# Output that a harness cut, the size it gives, and prose about cutting (TM05).
CUT: dict[str, tuple[bool, int | None]] = {
    "duck 1\n[...truncated 812 chars...]\nduck 9": (True, 812),
    "duck 1\n[... Observation truncated due to length ...]\nduck 9": (True, None),
    "duck 1<response clipped><NOTE>Observations should not exceeded 100 characters. "
    "77 characters were elided. Please try again.</NOTE>": (True, 77),
    "Old environment output: (31 lines omitted)": (True, 31),
    "<output_head>\na\n</output_head>\n<elided_chars>\n4051 characters elided\n</elided_chars>": (
        True,
        4051,
    ),
    "duck 1\n\n... [1,204 lines truncated] ...\n\nduck 9": (True, 1204),
    "duck…905 tokens truncated…duck": (True, 905),
    "duck\n[... omitted 40 of 90 lines ...]\nduck": (True, 40),
    "duck\n[... output limited to 10000 bytes; 71 interior bytes omitted ...]\nduck": (True, 71),
    "The output of your call to bash was too long to be displayed.\nHere is a truncated version:\n"
    "<START_TOOL_OUTPUT>\nduck\n<END_TOOL_OUTPUT>": (True, None),
    "duck\nduck\n[truncated because the output is too long]": (True, None),
    "duck\n<truncated 12 lines>\nduck": (True, 12),
    "duck\n... (90000 characters)": (True, None),
    '{"out": "duck\\n[...truncated 5 chars...]\\nduck"}': (True, 5),
    "half a duck \ufffd\n[...truncated 9 chars...]": (True, 9),
    "How output gets truncated ... and what is omitted": (False, None),
    "Harnesses write `<response clipped>` or `[... truncated ...]` there.": (False, None),
    'return f"[... truncated {n} chars ...]"': (False, None),
    "E  ...Full output truncated (12 lines hidden), use '-vv' to show": (False, None),
    "  [21 lines above omitted]\nduck\n(40 more lines below)": (False, None),
    "x" * 10_000: (False, None),
}


@pytest.mark.parametrize("text", CUT, ids=[text[:40] for text in CUT])
def test_a_mark_of_cutting_is_known_with_its_size(text: str) -> None:
    assert cut_marks(text) == CUT[text]


def test_a_result_is_marked_as_cut_where_the_log_did_not_say() -> None:
    call = make_call("bash", {"command": "cat pond"}, "c")
    messages = [
        Message(role="assistant", calls=(call,)),
        Message(role="result", call_id="c", text="duck\n<truncated 12 lines>\nduck"),
        Message(role="assistant", text="Shall I go on?"),
        Message(role="user", text="I saw\n<truncated 12 lines>\nthere"),
    ]
    steps = fold(messages).steps
    origin = Origin(path="p")
    found = finished(Trajectory(origin=origin, adapter="a", steps=steps))
    assert [step.truncated for step in found.steps] == [True, False]


# Commands that contain what looks like prompts and commands (TM04).
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cat > f <<'EOF'\n$ ls\n# root@evil:/# no\n", True),
        ("cat > f <<'EOF'\n$ ls\nEOF\n", False),
        ("python - <<PY\nprint(1)\n  PY\n", True),
        ("cat <<-END\n\tx\n\tEND\n", False),
        ("cat <<A <<B\n1\nA\n2\n", True),
        ("echo 'one\ntwo", True),
        ("echo 'one\ntwo'\n", False),
        ("make \\\n", True),
        ("echo \"it's\" # don't\n", False),
        ("ls\n", False),
    ],
)
def test_a_command_is_open_until_its_last_line(command: str, expected: bool) -> None:
    assert is_open(command) is expected


def _episode(case: str) -> Trajectory:
    (found,) = read_case(FOLDER / case)
    assert isinstance(found, Trajectory)
    return found


def test_a_here_document_is_one_action_and_its_text_no_prompt() -> None:
    keys = [
        orjson.loads(step.action)[0]["keystrokes"]
        for step in _episode("asciinema/keys_v2.raw.cast").steps
    ]
    assert keys[:3] == [
        "ls\r",
        "cat > say.py <<'END'\rprint(\"kim@pond:~$ not a prompt\")\rEND\r",
        "python say.py\r",
    ]


def test_an_unfinished_command_is_marked() -> None:
    assert [step.action_valid for step in _episode("asciinema/deltas_v3_stuck.raw.cast").steps] == [
        False
    ]


def test_the_last_mark_of_the_shell_gives_the_exit_code_and_one_in_the_output_does_not() -> None:
    steps = _episode("asciinema/marks_without_keys.raw.cast").steps
    assert [(step.action, step.exit_code) for step in steps] == [("make", 2), ("echo done", 0)]


def test_no_observation_of_a_recording_holds_the_next_command() -> None:
    steps = _episode("asciinema/marks_without_keys.raw.cast").steps
    assert "echo done" not in (steps[0].observation or "")


def test_output_is_never_cut_at_what_looks_like_a_prompt() -> None:
    lines: list[Any] = [
        {"version": 2, "width": 40, "height": 5},
        [0.1, "o", "me@pond:~$ ls\r\na\r\nme@pond:~$ pwd\r\n/pond\r\nme@pond:~$ "],
    ]
    (found,) = asciinema.extract(Record(value=lines, origin=Origin(path="a.cast")))
    assert isinstance(found, Reject)
    assert found.reason == "no_action"


def test_a_store_keeps_raw_output_and_a_model_is_shown_the_screen(tmp_path: Path) -> None:
    lines = [
        {"version": 2, "width": 40, "height": 5},
        [0.1, "o", "$ "],
        [1.0, "i", "fetch\r"],
        [1.1, "o", "fetch\r\n 1%\r\x1b[K99%\r\x1b[Kdone\r\n$ "],
        [2.0, "i", "pwd\r"],
        [2.1, "o", "pwd\r\n/pond\r\n$ "],
    ]
    log = tmp_path / "a.cast"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    ingest((str(log),), tmp_path / "raw", quiet=True)
    transitions(tmp_path / "raw", tmp_path / "cut", quiet=True)
    store = Store(tmp_path / "cut")
    (part,) = store.parts()
    ((episode, steps),) = episodes(store, part)
    cut = store.read("transitions", part).to_dicts()
    assert steps[0]["observation"] == "fetch\r\n 1%\r\x1b[K99%\r\x1b[Kdone\r\n$ "
    assert cut[0]["n_observation_chars"] == len("fetch\ndone\n$ ")
    rendered = render.render(episode, steps, "v0")
    assert rendered.turns[0].observation == "fetch\ndone\n$ "


def test_only_domains_of_terminals_show_another_form() -> None:
    raw = "a\rb"
    shows = {name: domains.load(name).shown(raw) for name in domains.ORDER}
    assert {name for name, text in shows.items() if text != raw} == {"terminal", "swe"}


@given(st.text(alphabet="ab \r\b~", max_size=40))
def test_a_line_that_only_goes_back_is_what_a_whole_terminal_makes_of_it(line: str) -> None:
    terminal = Terminal(80, 1)
    terminal.feed(line)
    assert screen(line) == terminal.text()
