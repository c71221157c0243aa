"""The scripted episodes of `swe.py`: task, style, and what the model says and runs."""

from __future__ import annotations

from dataclasses import dataclass

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff"
TEST = "python3 -m unittest"

TEMPLATES = {
    "system": "You repair small programs. Use the tool bash; each command runs in a new shell.",
    "system_text": (
        "You repair small programs. Say what you think, then give one command in a block fenced "
        "as mswea_bash_command; each command runs in a new shell."
    ),
    "task": (
        "Solve this issue: {{task}}\n\n"
        "To finish, print the line COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT, followed by the change."
    ),
    # An output of over 4,000 characters loses its middle.
    "tags": (
        "{% if output.exception_info %}"
        "<exception>{{output.exception_info}}</exception>\n{% endif %}"
        "<returncode>{{output.returncode}}</returncode>\n"
        "{% if output.output | length <= 4000 %}<output>\n{{output.output}}</output>"
        "{% else %}<warning>The output is long; its middle is left out.</warning>\n"
        "<output_head>\n{{output.output[:2000]}}\n</output_head>\n"
        "<elided_chars>\n{{output.output | length - 4000}} characters elided\n</elided_chars>\n"
        "<output_tail>\n{{output.output[-2000:]}}\n</output_tail>{% endif %}"
    ),
    "json": (
        '{"returncode": {{output.returncode}}, "output": {{output.output | tojson}}'
        '{% if output.exception_info %}, "exception_info": {{output.exception_info | tojson}}'
        "{% endif %}}"
    ),
}

MERGE_TASK = "spans.merge([(1, 9), (2, 4)]) gives [(1, 4)], but it should give [(1, 9)]."
CLOCK_TASK = "clock.seconds('1h20m5s') gives 5 instead of 4805."
MERGE_EDIT = "sed -i 's/(merged\\[-1\\]\\[0\\], last)/(merged[-1][0], max(merged[-1][1], last))/'"
CLOCK_EDIT = "sed -i 's/result = int(number)/result += int(number)/' clock.py"


@dataclass(frozen=True)
class Script:
    """One episode. A turn is a thought and its commands; only `text` demands exactly one."""

    task: str
    style: str
    template: str
    turns: list[tuple[str, list[str]]]
    step_limit: int = 0
    timeout_seconds: int = 30
    pseudo_terminal: bool = False


SOLVED = Script(
    task=MERGE_TASK,
    style="tool_call",
    template="json",
    turns=[
        ("Look around first.", ["ls", "git log --format='%an: %s'"]),
        ("Read the module.", ["cat spans.py"]),
        ("See the failure.", [f"{TEST} test_spans"]),
        ("The end of the outer span is lost. Keep the larger end.", [f"{MERGE_EDIT} spans.py"]),
        ("Read the lines again.", ["sed -n '4,13p' spans.py"]),
        ("Run all tests of the module.", [f"{TEST} test_spans"]),
        ("Look at the change.", ["git diff", "git status --short"]),
        ("Hand it in.", [SUBMIT]),
    ],
)

OUT_OF_STEPS = Script(
    task=CLOCK_TASK,
    style="tool_call",
    template="json",
    turns=[
        ("What is there?", ["ls -R"]),
        ("Perhaps the history knows.", ["grep -c clock HISTORY.txt"]),
        ("Look at the last entries.", ["grep clock HISTORY.txt | tail -n 4"]),
        ("Count the lines of all modules.", ["wc -l *.py"]),
        ("Does it fail?", [f"{TEST} test_clock 2>&1 | tail -n 4"]),
        ("Now the module itself.", ["cat clock.py"]),
    ],
    step_limit=5,
)

MISTAKES = Script(
    task=CLOCK_TASK,
    style="text",
    template="tags",
    turns=[
        ("Run the tests.", ["pytest -q test_clock.py"]),
        ("There is no pytest; the tests use unittest.", [f"{TEST} test_clock"]),
        ("Is there a tool that runs them on each change?", ["python3 tools/watch.py"]),
        ("That never ends. Read the module.", ["cat src/clock.py"]),
        ("The module lies at the top.", ["cat clock.py"]),
        ("Each unit overwrites the sum.", ["sed -i 's/result = int(number)/result += ' clock.py"]),
        ("The expression was not closed.", [CLOCK_EDIT]),
        ("Test again.", [f"{TEST} test_clock && git diff --stat"]),
        ("Hand it in.", [SUBMIT]),
    ],
    timeout_seconds=3,
)

PROGRESS_BAR = Script(
    task="tools/rounds.py says that spans.total is wrong. Make all rounds agree.",
    style="tool_call",
    template="tags",
    turns=[
        ("Run it.", ["PYTHONPATH=. python3 tools/rounds.py"]),
        ("total uses merge.", ["grep -n 'merge' spans.py"]),
        ("Read merge.", ["sed -n '4,13p' spans.py"]),
        ("The larger end must stay.", [f"{MERGE_EDIT} spans.py && git diff --color=always"]),
        ("Once more.", ["PYTHONPATH=. python3 tools/rounds.py"]),
        ("Hand it in.", [SUBMIT]),
    ],
    pseudo_terminal=True,
)

LONG_OUTPUT = Script(
    task="Add a line '181  spans: keep the larger end' to HISTORY.txt, and make spans.merge do so.",
    style="text",
    template="tags",
    turns=[
        ("Read the history.", ["cat HISTORY.txt"]),
        ("Only its end matters.", ["tail -n 2 HISTORY.txt"]),
        (
            "Add the line.",
            ["echo '181  spans: keep the larger end' >> HISTORY.txt"],
        ),
        ("Read it again.", ["tail -n 2 HISTORY.txt && wc -l < HISTORY.txt"]),
        ("Now the module.", ["grep -n -A 3 'if merged' spans.py"]),
        ("Edit and read the same lines.", [f"{MERGE_EDIT} spans.py; sed -n '8,10p' spans.py"]),
        ("Test with names.", [f"{TEST} -v test_spans"]),
        ("Hand it in.", [SUBMIT]),
    ],
)

TWO_BUGS = Script(
    task=f"{MERGE_TASK} Besides, {CLOCK_TASK}",
    style="responses",
    template="json",
    turns=[
        ("Read both modules at once.", ["cat clock.py", "cat spans.py"]),
        ("Run everything.", [TEST]),
        ("Two edits.", [f"{MERGE_EDIT} spans.py", CLOCK_EDIT]),
        (
            "Run the tests and try the two cases.",
            [
                TEST,
                "python3 -c \"import clock; print(clock.seconds('1h20m5s'))\"",
                'python3 -c "import spans; print(spans.merge([(1, 9), (2, 4)]))"',
            ],
        ),
        ("What has changed?", ["git diff --stat"]),
        ("Hand it in.", [SUBMIT]),
    ],
)

EPISODES = {
    "long-output": LONG_OUTPUT,
    "mistakes": MISTAKES,
    "out-of-steps": OUT_OF_STEPS,
    "progress-bar": PROGRESS_BAR,
    "solved": SOLVED,
    "two-bugs": TWO_BUGS,
}
