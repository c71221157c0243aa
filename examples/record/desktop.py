"""Record desktop episodes: real GTK programs under Xvfb, scripted policies.

Starts a private X server, window manager, session bus and accessibility registry. An action is a
block of Python that calls ``pyautogui``, run in a process of its own; the observation is the
list of windows, the accessibility tree of the program in front as tab-separated lines (as OSWorld
writes it), and what the code printed. Writes one ATIF file per episode.

Needs Debian's ``xvfb openbox dbus at-spi2-core python3-pyatspi python3-tk mousepad galculator``
and PyPI's ``pyautogui`` in a virtual environment of ``/usr/bin/python3`` that was made with
``--system-site-packages``. Run it as an ordinary user: as root the editor warns in its window.

    python examples/record/desktop.py OUT_DIR
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from atif import Episode, now

HEADER = "tag\tname\ttext\tclass\tdescription\tposition (top-left x&y)\tsize (w&h)"
TOOL = {
    "type": "function",
    "function": {
        "name": "execute_python",
        "description": "Run a block of Python on the desktop; pyautogui moves mouse and keyboard.",
        "parameters": {
            "type": "object",
            "properties": {"code": {"type": "string"}},
            "required": ["code"],
        },
    },
}


def cell(text: str) -> str:
    """Return a value as one cell: quoted where it would break the line."""
    text = text.replace("\ufffc", "")
    if any(mark in text for mark in '"\t\n'):
        text = '"' + text.replace('"', '""') + '"'
    return text


def look() -> dict[str, Any]:
    """Return the windows and the tree of the program in front; runs in a process of its own.

    A process that stays would answer from its cache what stood there a moment ago.
    """
    import pyatspi

    def box(node: Any) -> tuple[int, int, int, int]:
        try:
            found = node.queryComponent().getExtents(pyatspi.DESKTOP_COORDS)
        except NotImplementedError:
            return (0, 0, 0, 0)
        return (found.x, found.y, found.width, found.height)

    def text(node: Any) -> str:
        for interface, read in (
            ("queryText", lambda one: one.getText(0, -1)),
            ("queryValue", lambda one: str(one.currentValue)),
        ):
            try:
                return str(read(getattr(node, interface)()))
            except NotImplementedError:
                continue
        return ""

    def visible(node: Any) -> Iterator[Any]:
        for child in node:
            if child is not None and child.getState().contains(pyatspi.STATE_SHOWING):
                yield child
                yield from visible(child)

    windows, rows, focused, front = [], [], None, None
    applications = [one for one in pyatspi.Registry.getDesktop(0) if one is not None]
    for application in applications:
        for window in application:
            if window is None or not window.getState().contains(pyatspi.STATE_SHOWING):
                continue
            active = window.getState().contains(pyatspi.STATE_ACTIVE)
            front = application if active else front
            windows.append({"title": window.name, "active": active, "box": box(window),
                            "program": application.name})  # fmt: skip
    for node in visible(front) if front is not None else ():
        x, y, width, height = box(node)
        if width <= 0 or height <= 0:
            continue
        attributes = dict(pair.split(":", 1) for pair in node.getAttributes())
        rows.append([node.getRoleName(), node.name, text(node), attributes.get("class", ""),
                     node.description, (x, y), (width, height)])  # fmt: skip
        if node.getState().contains(pyatspi.STATE_FOCUSED):
            focused = [node.getRoleName(), node.name]
    return {"windows": windows, "rows": rows, "focused": focused}


def render(state: dict[str, Any]) -> str:
    """Return a state as the text of an observation."""
    lines = ["Windows:"]
    for window in state["windows"]:
        x, y, width, height = window["box"]
        mark = "* " if window["active"] else "  "
        lines.append(
            f"{mark}{window['title']} [{window['program']}] ({x}, {y}) ({width}, {height})"
        )
    if not state["windows"]:
        lines.append("  none")
    if state["focused"]:
        lines.append("Focused element: {} {!r}".format(*state["focused"]))
    lines += ["Accessibility tree:", HEADER]
    for *texts, (x, y), (width, height) in state["rows"]:
        lines.append("\t".join([*map(cell, texts), f"({x}, {y})", f"({width}, {height})"]))
    return "\n".join(lines)


def authority(display: str) -> bytes:
    """Return an X authority file with a fresh key; without one, every block prints a warning."""
    local_family = struct.pack(">H", 256)
    parts = (socket.gethostname(), display.removeprefix(":"), "MIT-MAGIC-COOKIE-1")
    cells = [part.encode() for part in parts] + [os.urandom(16)]
    return local_family + b"".join(struct.pack(">H", len(part)) + part for part in cells)


class Desktop:
    """A private desktop; its processes end with it."""

    def __init__(self, home: Path, display: str) -> None:
        self.home = home
        runtime = home.parent / f"{home.name}-run"
        for folder in (home, runtime):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True, mode=0o700)
        self.environment = {
            "HOME": str(home), "XDG_RUNTIME_DIR": str(runtime), "DISPLAY": display,
            "XDG_CONFIG_HOME": str(runtime / "config"), "XDG_CACHE_HOME": str(runtime / "cache"),
            "XDG_DATA_HOME": str(runtime / "data"), "GSETTINGS_BACKEND": "memory",
            "XAUTHORITY": str(runtime / "authority"), "LANG": "C.UTF-8", "PATH": "/usr/bin:/bin",
        }  # fmt: skip
        (runtime / "authority").write_bytes(authority(display))
        self.processes: list[subprocess.Popen[str]] = []
        self.start("Xvfb", display, "-screen", "0", "1024x768x24", "-nolisten", "tcp",
                   "-auth", str(runtime / "authority"))  # fmt: skip
        time.sleep(2)
        bus = self.start("dbus-daemon", "--session", "--nofork", "--print-address=1")
        assert bus.stdout is not None
        self.environment["DBUS_SESSION_BUS_ADDRESS"] = bus.stdout.readline().strip()
        self.start("openbox")
        time.sleep(1)

    def start(self, *command: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command, env=self.environment, cwd=self.home, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.processes.append(process)
        return process

    def end(self, process: subprocess.Popen[str]) -> None:
        process.terminate()
        process.wait(timeout=10)
        self.processes.remove(process)

    def close(self) -> None:
        for process in reversed(self.processes.copy()):
            self.end(process)

    def run_python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments], env=self.environment, cwd=self.home, text=True,
            capture_output=True, timeout=60, check=False,
        )  # fmt: skip

    def state(self) -> dict[str, Any]:
        """Return the state of the desktop, once two looks at it agree."""
        last: dict[str, Any] = {}
        for _ in range(10):
            time.sleep(0.5)
            done = self.run_python(str(Path(__file__).resolve()), "--look", ".")
            if done.returncode != 0:
                continue  # a window vanished while it was looked at
            state = json.loads(done.stdout)
            if state == last:
                break
            last = state
        return last


class Recorder:
    """One policy at work on the desktop."""

    def __init__(self, desktop: Desktop, task: str) -> None:
        self.desktop = desktop
        self.episode = Episode("scripted", [TOOL])
        self.state = desktop.state()
        self.episode.add_message("system", "The desktop at the start.", render(self.state))
        self.episode.add_message("user", task)

    def point(self, tag: str, name: str) -> str:
        """Return the middle of the first element with this tag and name, as two arguments."""
        for row in self.state["rows"]:
            if row[0] == tag and row[1].strip() == name:
                (x, y), (width, height) = row[5:]
                return f"{x + width // 2}, {y + height // 2}"
        raise LookupError(f"no {tag} {name!r} in\n{render(self.state)}")

    def code(self, message: str, *lines: str) -> None:
        """Run a block of code and keep what came of it."""
        code = "\n".join(["import pyautogui", *lines])
        start = now()
        done = self.desktop.run_python("-c", code)
        self.state = self.desktop.state()
        parts = [render(self.state)]
        for name, text in (("stdout", done.stdout), ("stderr", done.stderr)):
            if text:
                parts.append(f"{name} of the code:\n{text.rstrip()}")
        arguments = {"code": code}
        self.episode.add_action(
            message, [("execute_python", arguments)], ["\n\n".join(parts)], time=start
        )

    def click(self, message: str, tag: str, name: str) -> None:
        self.code(message, f"pyautogui.click({self.point(tag, name)})")

    def say(self, message: str) -> None:
        self.episode.add_message("agent", message)


def save_list(run: Recorder) -> None:
    run.code(
        "Write the three lines.",
        'pyautogui.typewrite("oats\\ndried apples\\nlamp oil\\n", interval=0.02)',
    )
    run.code("Save it.", 'pyautogui.hotkey("ctrl", "s")')
    run.code("Give it its name.", 'pyautogui.typewrite("pantry.txt", interval=0.02)')
    run.code("Confirm.", 'pyautogui.press("enter")')
    run.code("See what stands on the disk.", 'print(open("pantry.txt").read(), end="")')
    run.say("The list is saved as pantry.txt.")


def replace_word(run: Recorder) -> None:
    run.click("Find and replace is in the Search menu.", "menu", "Search")
    run.click("Open the dialog.", "menu item", "Find and Replace...")
    run.code("Type the word to look for.", 'pyautogui.typewrite("ferry", interval=0.02)')
    run.code(
        "Type the new word in the next field.",
        'pyautogui.press("tab")',
        'pyautogui.typewrite("night train", interval=0.02)',
    )
    run.click("Replace.", "push button", "Replace")
    run.click("Only the first one is replaced; the box is for all.", "check box", "Replace all in:")
    run.click("Now all of them.", "push button", "Replace All")
    run.code("Close the dialog and save.", 'pyautogui.press("escape")',
             'pyautogui.hotkey("ctrl", "s")')  # fmt: skip
    run.say("Every ferry is a night train now, and the file is saved.")


def compute(run: Recorder, product: str, less: str, result: str) -> None:
    run.code("Type the product.", f'pyautogui.typewrite("{product}", interval=0.1)')
    run.code("Enter gives the result.", 'pyautogui.presss("enter")')
    run.code("A letter too many; again.", 'pyautogui.press("enter")')
    run.click("Subtract: first the sign.", "toggle button", "-")
    run.click("Then the number.", "toggle button", less)
    run.click("Then the result.", "toggle button", "=")
    run.say(f"{product} - {less} = {result}")


def lost_note(run: Recorder) -> None:
    run.code(
        "Write the sentence.",
        'pyautogui.typewrite("The heron left at noon.", interval=0.02)',
    )
    run.code("Click into the text once more.", "pyautogui.click(500, 500)")
    run.code("Close the window, that will save it.", 'pyautogui.hotkey("ctrl", "q")')
    run.click("It asks something; go on without it.", "push button", "Don't Save")
    run.code("Look for the file.", "import os", 'print(sorted(os.listdir(".")))')
    run.say("I could not save the sentence.")


Policy = Callable[[Recorder], None]
Check = Callable[[Recorder], bool]


def holds(name: str, wanted: str) -> Check:
    """Return the check that a file of the home folder holds exactly this text."""

    def check(run: Recorder) -> bool:
        path = run.desktop.home / name
        return path.exists() and path.read_text(encoding="utf-8") == wanted

    return check


PLAN = "Monday: ferry to Skarne.\nTuesday: walk.\nWednesday: ferry back, one ferry only.\n"
EPISODES: dict[str, tuple[str, list[str], Policy, Check]] = {
    "save_list": (
        "Write a list of oats, dried apples and lamp oil, one a line, and save it as pantry.txt in "
        "the home folder.",
        ["mousepad"],
        save_list,
        holds("pantry.txt", "oats\ndried apples\nlamp oil\n"),
    ),
    "replace_word": (
        "Replace every ferry in plan.txt by night train and save the file.",
        ["mousepad", "plan.txt"],
        replace_word,
        holds("plan.txt", PLAN.replace("ferry", "night train")),
    ),
    "compute": (
        "Compute 12.5 times 16, less 7, with the calculator.",
        ["galculator"],
        lambda run: compute(run, "12.5*16", "7", "193"),
        lambda run: any(row[2] == "193" for row in run.state["rows"]),
    ),
    "compute_again": (
        "Compute 12.5 times 18, less 7, with the calculator.",
        ["galculator"],
        lambda run: compute(run, "12.5*18", "7", "218"),
        lambda run: any(row[2] == "218" for row in run.state["rows"]),
    ),
    "lost_note": (
        "Save the sentence 'The heron left at noon.' as heron.txt in the home folder.",
        ["mousepad"],
        lost_note,
        holds("heron.txt", "The heron left at noon.\n"),
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Record desktop episodes under Xvfb.")
    parser.add_argument("out_dir", type=Path, help="folder for one ATIF file per episode")
    parser.add_argument("--home", type=Path, default=Path("/tmp/box/home"),
                        help="home folder of the desktop; emptied first")  # fmt: skip
    parser.add_argument("--display", default=":97", help="a free X display")
    parser.add_argument("--only", choices=EPISODES, help="record this episode alone")
    parser.add_argument("--look", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.look:
        print(json.dumps(look()))
        return
    for name, (task, command, policy, check) in EPISODES.items():
        if options.only not in (None, name):
            continue
        desktop = Desktop(options.home, options.display)
        (desktop.home / "plan.txt").write_text(PLAN)
        try:
            desktop.start(*command)
            time.sleep(3)
            run = Recorder(desktop, task)
            policy(run)
            outcome = "success" if check(run) else "failure"
        finally:
            desktop.close()
        run.episode.extra = {
            "outcome": outcome,
            "recorded": "real desktop under Xvfb, scripted policy",
            "program": command[0],
        }
        run.episode.write(options.out_dir / f"{name}.json")
        print(f"{name}: {len(run.episode.steps)} steps, {outcome}")


if __name__ == "__main__":
    main()
