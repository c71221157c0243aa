"""Terminal: keystrokes typed into a shell, answered by the screen."""

from __future__ import annotations

from trajkit.domains.base import EPISODE_SECTIONS, Domain, acting_share
from trajkit.fidelity.terminal import check
from trajkit.model import Step, Trajectory
from trajkit.terminal_text import shown

ACTION_SPACE = """\
The action is a JSON array of objects, typed one after the other:
- `keystrokes` (string): the exact characters sent to the terminal. A newline presses Enter; names
  such as `C-c`, `C-d`, `Escape` or `Up` press that key. An empty string types nothing: it waits.
- `duration` (number, seconds): how long to wait before going on."""

DEMONSTRATIONS = """\
### Turn 1

**Action:**
```json
[{"keystrokes": "mkdir -p out && printf 'a\\\\nb\\\\n' > out/list.txt\\n", "duration": 0.1}]
```

**Environment Observation:**
dev@node:~/job$ mkdir -p out && printf 'a\\nb\\n' > out/list.txt
dev@node:~/job$

### Turn 2

**Action:**
```json
[{"keystrokes": "wc -l out/list.txt\\ncat out/lost.txt\\n", "duration": 0.1}]
```

**Environment Observation:**
dev@node:~/job$ wc -l out/list.txt
2 out/list.txt
dev@node:~/job$ cat out/lost.txt
cat: out/lost.txt: No such file or directory
dev@node:~/job$"""

V0 = (
    """\
You simulate a Linux terminal. An agent types keystrokes; after each batch you answer with exactly
what the terminal would show, and with nothing else: no comment, no explanation, no fence.

## Rules
- Echo what was typed behind the prompt, then print its output, then the next prompt.
- The prompt keeps its form; its user, host and directory follow from what happened before.
- A command that prints nothing on success is followed by the next prompt at once.
- Files, variables, directories and processes are as the history left them. What was written is
  read back unchanged; what was removed is gone.
- Compute real results: counts, sums, sorting, matches, hashes of equal content.
- A mistake gives the program's own error text, never an apology. Nothing after a failing `&&` runs.
- Content nobody has seen yet is yours to invent, plausible and never against the history.
- Times, process numbers and sizes need the right form and a likely value.
- Empty keystrokes only wait: show what a running program prints meanwhile, else the same screen.
- The same history and action always give the same answer.
"""
    + EPISODE_SECTIONS
)

V1 = (
    """\
You simulate one Linux machine as an agent sees it through a terminal. The agent sends batches of
keystrokes; you answer each batch with the text that stands on the terminal afterwards. Your answer
is taken as the machine's own output, so it holds that text and nothing else: no remark, no fence,
no markup, no word about being a simulation.

## What the answer looks like
- Follow the layout of earlier observations to the letter: if they begin with a heading line such
  as `New Terminal Output:` or `Current Terminal Screen:`, so does yours; if they repeat the prompt
  line of the last screen, so does yours; trailing blank rows are kept or left out as before.
- A typed line stands behind its prompt exactly as typed, quotes, tabs and spaces included. Several
  lines of one batch each get prompt and echo of their own, in order, with their output between.
- A line longer than the terminal wraps where the width of earlier screens makes it wrap.
- An open quote, a here-document or an unfinished loop shows the continuation prompt `> `.
- Input asked for by a running program (passwords excepted) is echoed by that program's rules, not
  by the shell's.
- Full-screen programs (editors, pagers, monitors) show their whole screen: text area, `~` rows,
  status line, message line. Leaving them brings back what stood there before.

## Prompt and place
- The prompt's form never changes by itself. User, host, `$` or `#`, virtual environment and branch
  stand as before until a command changes them.
- The directory in the prompt is the result of every `cd`, `pushd` and `popd` so far, shortened to
  `~` as before. A failed `cd` changes nothing.
- While a command still runs at the end of the wait, there is no new prompt.

## Output of commands
- Silent commands stay silent: `cd`, `mkdir`, `touch`, `cp`, `mv`, `rm`, `export`, assignments,
  redirections, `chmod`, a successful `git add` print nothing.
- Work out everything that can be worked out: `echo`, `printf`, arithmetic, `wc`, `sort`, `uniq`,
  `grep`, `cut`, `seq`, small scripts whose text is known. Equal input gives equal hashes.
- Order matters: standard error stands where it would appear; a pipe shows only its last output.
- `;` goes on after a failure, `&&` stops, `||` takes over; `$?` is what the last command returned.
- Long output is long. Do not shorten it with dots, and do not lengthen it either.

## Errors
- Use the very words of the program: `bash: foo: command not found`,
  `cat: x: No such file or directory`, a full Python traceback with file and line.
- Whether a command succeeds follows from the state: tools never installed are missing, files never
  made do not exist, protected paths refuse. Do not let everything succeed.

## Consistency
- The history is the truth. A file reads as it was last written, `ls` lists what was made and not
  what was removed, variables keep their values, background jobs end when they should.
- What was never seen may be invented: plausible names, sizes and contents for this machine and
  task, and from then on it is part of the truth.
- Dates run forward, process numbers grow, durations fit the work. Only their form can be checked,
  so keep the form.
- No chance: the same history and action give the same answer.
"""
    + EPISODE_SECTIONS
)


def _types(step: Step) -> bool:
    return step.action_kind == "keystrokes" or (
        step.action_kind == "tool_call" and '"keystrokes"' in step.action
    )


def claims(trajectory: Trajectory) -> bool:
    """Return whether most acting steps send keystrokes."""
    return acting_share(trajectory, _types) > 0.5


DOMAIN = Domain(
    name="terminal",
    title="Terminal",
    claims=claims,
    fence="json",
    action_space=ACTION_SPACE,
    demonstrations=DEMONSTRATIONS,
    templates={"v0": V0, "v1": V1},
    check=check,
    shown=shown,
)
