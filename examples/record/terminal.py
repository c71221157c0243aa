"""Record terminal episodes: a real bash in a real tmux pane, driven by scripted keystrokes.

Each episode is a list of turns. A turn is a batch of `bash_command` calls with the keystrokes to
type and the seconds to wait after them; an exact key name such as `C-c` or `Escape` presses that
key, any other text is typed as it stands and its newlines press Enter. What comes back is read
from the pane and never written here. After a batch the observation is one of two:

- `New Terminal Output:` and the rows from the one that held the cursor before the batch, when
  all rows above that one are as they were. The cursor's row comes again because it may still
  change: the prompt gains the typed command, a progress bar grows.
- `Current Terminal Screen:` and the whole visible pane, when the screen was redrawn (by a pager or
  an editor) or when nothing on it has changed.

Blank rows under the last written one are left out; a row longer than the pane stays wrapped.
`clear` is no redraw here: tmux moves the rows into its history, and the rest reads as new.
The pane is 100 by 30, its environment holds only what `start` sets, HOME is a folder made new for
each episode. Run as the superuser, the shell still runs as a user without a name, so that file
permissions mean something. A script with `ran_twice` is saved a second time under another name,
as happens when a folder of runs is copied.

Needs Linux, tmux, git, gcc, make, less, vim and a system Python with curses and sqlite3.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import terminal_files
import terminal_programs
from atif import Episode, now
from terminal_script import KEY_NAMES, Script

EPISODES = terminal_files.EPISODES | terminal_programs.EPISODES
BOX = Path("/tmp/box")
HOME = BOX / "agent"
SOCKETS = BOX / "tmux"
COLUMNS, ROWS = 100, 30
UNNAMED_USER = 4242
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "bash_command",
            "description": "Type keystrokes into the terminal, then wait.",
            "parameters": {
                "type": "object",
                "properties": {
                    "keystrokes": {"type": "string", "description": "May be empty: only wait."},
                    "duration": {"type": "number", "description": "Seconds to wait."},
                },
                "required": ["keystrokes"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "mark_task_complete",
            "description": "Say that the task is done and end the run.",
            "parameters": {"type": "object", "properties": {}},
        },
    },
]


class Terminal:
    """One tmux server with one pane, on a socket of its own."""

    def __init__(self, name: str) -> None:
        self._tmux = ["tmux", "-L", f"box-{name}"]
        self._owner = UNNAMED_USER if os.geteuid() == 0 else None
        self._rows: list[str] = []
        self._cursor = 0
        self._alternate = False

    def run_tmux(self, *arguments: str) -> str:
        """Return what a tmux command printed. It sees none of this program's environment."""
        environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "TMUX_TMPDIR": str(SOCKETS)}
        done = subprocess.run(
            [*self._tmux, *arguments],
            env=environment,
            cwd=HOME,
            user=self._owner,
            group=self._owner,
            extra_groups=None if self._owner is None else [],
            stdout=subprocess.PIPE,
            timeout=20,
            check=True,
        )
        return done.stdout.decode("utf-8", "replace")

    def start(self) -> str:
        """Start bash without start files and return the first screen."""
        for folder in (HOME, SOCKETS, *HOME.rglob("*")):
            if self._owner is not None:
                os.chown(folder, self._owner, self._owner)
        SOCKETS.chmod(0o700)
        shell = (
            f"exec env -i HOME={HOME} PATH={HOME}/bin:/usr/bin:/bin TERM=screen LANG=C.UTF-8 "
            r"'PS1=agent@box:\w$ ' HISTFILE= bash --noprofile --norc -i"
        )
        settings = ["-f", "/dev/null", "start-server", ";"]
        for option in ("status off", "history-limit 20000", "default-terminal screen"):
            settings += ["set-option", "-g", *option.split(), ";"]
        size = ["-x", str(COLUMNS), "-y", str(ROWS)]
        self.run_tmux(*settings, "new-session", "-d", *size, "-c", str(HOME), shell)
        time.sleep(0.6)
        return self.observe(whole_screen=True)

    def stop(self) -> None:
        """End the server and, with it, the shell."""
        self.run_tmux("kill-server")

    def press(self, keystrokes: str) -> None:
        """Press one named key, or type the text with Enter for each newline."""
        if keystrokes in KEY_NAMES:
            self.run_tmux("send-keys", keystrokes)
            return
        lines = keystrokes.split("\n")
        for index, line in enumerate(lines):
            if line.endswith(";"):  # tmux would read it as the end of its own command
                line = line[:-1] + "\\;"
            if line:
                self.run_tmux("send-keys", "-l", "--", line)
            if index < len(lines) - 1:
                self.run_tmux("send-keys", "Enter")

    def observe(self, *, whole_screen: bool = False) -> str:
        """Return the observation since the last call, laid out as the module text says."""
        state = self.run_tmux(
            "display-message", "-p", "#{history_size} #{cursor_y} #{alternate_on}"
        )
        n_scrolled, cursor_row, alternate = (int(part) for part in state.split())
        rows = self.run_tmux("capture-pane", "-p", "-S", "-").split("\n")[:-1]
        redrawn = bool(alternate) or self._alternate
        redrawn = redrawn or rows[: self._cursor] != self._rows[: self._cursor]
        unchanged = without_blank_end(rows) == without_blank_end(self._rows)
        if whole_screen or redrawn or unchanged:
            shown, title = rows[n_scrolled:], "Current Terminal Screen:\n"
        else:
            shown, title = rows[self._cursor :], "New Terminal Output:\n\n"
        self._rows, self._cursor = rows, n_scrolled + cursor_row
        self._alternate = bool(alternate)
        return title + "\n".join(without_blank_end(shown)) + "\n"


def without_blank_end(rows: list[str]) -> list[str]:
    """Return the rows up to the last one that holds something."""
    end = len(rows)
    while end and not rows[end - 1]:
        end -= 1
    return rows[:end]


def record(name: str, script: Script) -> Episode:
    """Return the finished episode. Its outcome is what the check of the final state says."""
    for folder in (HOME, SOCKETS):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    script.prepare(HOME)
    episode = Episode(agent_name="scripted-terminal", tool_definitions=TOOLS)
    terminal = Terminal(name)
    screen = terminal.start()
    try:
        episode.add_message(
            "user", f"Task Description:\n{script.task}\n\nCurrent terminal state:\n{screen}"
        )
        for turn in script.turns:
            started = now()
            for keystrokes, duration in turn.calls:
                terminal.press(keystrokes)
                time.sleep(duration)
            calls = [
                ("bash_command", {"keystrokes": keystrokes, "duration": duration})
                for keystrokes, duration in turn.calls
            ]
            seen = terminal.observe()
            episode.add_action(turn.message, calls, [seen], linked=False, time=started)
    finally:
        terminal.stop()
    if script.gives_up:
        episode.add_message("agent", script.last_words)
    else:
        episode.add_action(script.last_words, [("mark_task_complete", {})], None)
    outcome = "success" if script.check(HOME) else "failure"
    episode.extra = {"outcome": outcome, "recorded": "real tmux session, scripted policy"}
    return episode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out_dir", type=Path, help="gets one folder per episode")
    parser.add_argument("--only", choices=sorted(EPISODES), help="record this episode alone")
    arguments = parser.parse_args()
    for name, script in EPISODES.items():
        if arguments.only not in (None, name):
            continue
        target = arguments.out_dir / name / "trajectory.json"
        episode = record(name, script)
        episode.write(target)
        outcome = episode.extra["outcome"]
        print(f"{name}: {len(episode.steps)} steps, {outcome}", file=sys.stderr)
        if script.ran_twice:
            again = arguments.out_dir / f"{name}-copy" / "trajectory.json"
            again.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(target, again)
    for folder in (HOME, SOCKETS):
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
