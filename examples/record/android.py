"""Construct Android episodes with a small simulated phone; nothing here ran on a device.

The phone is a state machine of screens. A screen is laid out as a flat list of nodes with the
fields of AndroidControl's accessibility trees; a tap goes to the topmost node below it that takes
taps, so a tap beside a row changes nothing and a tap on the wrong row opens the wrong screen.
Writes ``episodes.json``: a list of episodes in AndroidControl's shape (``n`` actions, ``n + 1``
trees), each marked ``"constructed": true``. Needs nothing but Python; the same run always gives
the same file.

    python examples/record/android.py OUT_DIR
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

WIDTH, HEIGHT = 1080, 2400
STATUS_BAR, NAVIGATION_BAR = 136, 2274
ROW = 210
ROWS_SHOWN = 6
Node = dict[str, Any]
Tap = Callable[[], None]
FLAGS = (
    "is_visible", "is_enabled", "is_focused", "is_selected", "is_checked", "is_checkable",
    "is_clickable", "is_editable", "is_focusable", "is_long_clickable", "is_scrollable",
)  # fmt: skip


def nothing() -> None:
    """Take a tap without any effect."""


class Screen:
    """The nodes of one moment, and what a tap on them does."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.taps: list[tuple[Node, Tap]] = []
        self.y = STATUS_BAR

    def add(
        self,
        kind: str,
        box: tuple[int, int, int, int],
        text: str | None = None,
        description: str | None = None,
        tap: Tap | None = None,
        hint: str | None = None,
        **flags: bool,
    ) -> Node:
        left, top, right, bottom = box
        given = {f"is_{name}": value for name, value in flags.items()}
        given |= {"is_clickable": True, "is_focusable": True} if tap else {}
        prefix = "" if "." in kind else "android.widget."
        node: Node = {
            "text": text, "content_description": description, "hint_text": hint,
            "tooltip": None, "class_name": f"{prefix}{kind}", "resource_id": None,
            **{flag: flag in ("is_visible", "is_enabled") for flag in FLAGS}, **given,
        }  # fmt: skip
        node["bbox_pixels"] = {
            "x_min": left, "x_max": right, "y_min": top, "y_max": bottom,
            "center": [(left + right) / 2, (top + bottom) / 2],
            "width": right - left, "height": bottom - top,
        }  # fmt: skip
        self.nodes.append(node)
        if tap:
            self.taps.append((node, tap))
        return node

    def bar(self, title: str, up: Tap | None) -> None:
        """Add a toolbar."""
        top = self.y
        if up:
            self.add("ImageButton", (0, top, 147, top + 147), description="Navigate up", tap=up)
        self.add("TextView", (168 if up else 42, top, 800, top + 147), text=title)
        self.y += 147

    def row(self, title: str, note: str | None, tap: Tap, checked: bool | None = None) -> None:
        """Add a line of a list: a container that takes taps, its texts, maybe a switch."""
        top, self.y = self.y, self.y + ROW
        self.add("LinearLayout", (0, top, WIDTH, self.y), tap=tap)
        self.add("TextView", (63, top + 42, 700, top + 105), text=title)
        if note:
            self.add("TextView", (63, top + 108, 700, top + 165), text=note)
        if checked is not None:
            self.add("Switch", (880, top + 60, 1017, top + 150), text="On" if checked else "Off",
                     description=title, checked=checked, checkable=True)  # fmt: skip


@dataclass
class Phone:
    """The whole state of the phone; ``trail`` is the way back."""

    minute: int = 8 * 60 + 37
    screen: str = "home"
    trail: list[str] = field(default_factory=list)
    offset: int = 0
    dark: bool = False
    ring_volume: int = 60
    notes: list[tuple[str, str]] = field(
        default_factory=lambda: [("Books", "The salt road"), ("Boat", "Paint, rope, tar")]
    )
    title: str = ""
    body: str = ""
    focus: str = ""
    alarms: list[tuple[str, bool]] = field(default_factory=lambda: [("06:45", True)])
    hour: str = "06"
    minutes: str = "00"

    def go(self, screen: str) -> None:
        self.trail.append(self.screen)
        self.screen, self.offset = screen, 0

    def back(self) -> None:
        if self.screen == "note" and (self.title or self.body):
            self.notes.insert(0, (self.title, self.body))
        self.screen = self.trail.pop() if self.trail else "home"
        self.offset, self.focus = 0, ""

    def render(self) -> Screen:
        """Return the present screen: status bar, content, navigation bar."""
        screen = Screen()
        clock = f"{self.minute // 60}:{self.minute % 60:02d}"
        screen.add("TextView", (145, 1, 229, 136), text=clock, description=f"{clock} AM")
        screen.add("FrameLayout", (924, 39, 970, 97), description="Wifi three bars.")
        screen.add("LinearLayout", (986, 1, 1006, 136), description="Battery 82 percent.")
        getattr(self, f"draw_{self.screen}")(screen)
        screen.add("android.view.View", (0, HEIGHT, WIDTH, HEIGHT))
        return screen

    def draw_home(self, screen: Screen) -> None:
        screen.add("FrameLayout", (42, 200, 1038, 340), description="Search bar",
                   tap=nothing)  # fmt: skip
        for column, name in enumerate(("Clock", "Notes", "Settings", "Camera")):
            left = 42 + column * 250
            screen.add("TextView", (left, 1900, left + 230, 2150), text=name, description=name,
                       tap=partial(self.open, name), long_clickable=True)  # fmt: skip

    def draw_settings(self, screen: Screen) -> None:
        screen.bar("Settings", None)
        rows = (
            ("Network", "Wi-Fi, mobile, data use", "network"), ("Paired devices", "None", ""),
            ("Apps", "41 apps installed", ""), ("Notifications", "History, conversations", ""),
            ("Battery", "82 %, about two days left", ""), ("Storage", "31 % used", ""),
            ("Sound", "Volume, vibration", "sound"), ("Display", "Theme, font size", "display"),
            ("Wallpaper", "Colours, icons", ""), ("Privacy", "Permissions", ""),
            ("Location", "Off", ""), ("About phone", "Alder 5", ""),
        )  # fmt: skip
        screen.add("ScrollView", (0, screen.y, WIDTH, NAVIGATION_BAR), scrollable=True)
        for title, note, target in rows[self.offset : self.offset + ROWS_SHOWN]:
            tap = partial(self.go, target) if target else nothing
            screen.row(title, note, tap)

    def draw_network(self, screen: Screen) -> None:
        screen.bar("Network", self.back)
        screen.row("Wi-Fi", "Harbour house", nothing, True)
        screen.row("Mobile network", "Off", nothing)
        screen.row("Aeroplane mode", None, nothing, False)

    def draw_display(self, screen: Screen) -> None:
        screen.bar("Display", self.back)
        screen.row("Brightness", "54 %", nothing)
        screen.row("Dark theme", "On" if self.dark else "Off", self.toggle_dark, self.dark)
        screen.row("Font size", "Default", nothing)
        screen.row("Screen timeout", "After two minutes", nothing)

    def toggle_dark(self) -> None:
        self.dark = not self.dark

    def draw_sound(self, screen: Screen) -> None:
        screen.bar("Sound", self.back)
        for name, value in (("Media volume", 40), ("Ring volume", self.ring_volume)):
            top = screen.y
            screen.add("TextView", (63, top + 30, 700, top + 90), text=name)
            screen.add("SeekBar", (63, top + 100, 1017, top + 180), text=f"{value}.0",
                       description=name, focusable=True)  # fmt: skip
            screen.y += ROW
        screen.row("Vibrate for calls", None, nothing, True)
        screen.row("Ringtone", "Curlew", nothing)

    def draw_notes(self, screen: Screen) -> None:
        screen.bar("Notes", None)
        for title, body in self.notes:
            screen.row(title, body, nothing)
        screen.add("ImageButton", (880, 2060, 1038, 2218), description="New note",
                   tap=self.new_note)  # fmt: skip

    def new_note(self) -> None:
        self.title = self.body = ""
        self.go("note")
        self.focus = "title"

    def draw_note(self, screen: Screen) -> None:
        screen.bar("", self.back)
        top = screen.y
        for name, height in (("title", 150), ("body", 900)):
            value = getattr(self, name)
            screen.add("EditText", (42, top, 1038, top + height), text=value or None,
                       hint=name.capitalize(), tap=partial(setattr, self, "focus", name),
                       editable=True, focused=self.focus == name)  # fmt: skip
            top += height
        screen.add("TextView", (42, top, 600, top + 60), text=f"{len(self.body)} characters")

    def draw_clock(self, screen: Screen) -> None:
        screen.bar("Alarm", None)
        for index, (time, on) in enumerate(self.alarms):
            screen.row(time, "Every day" if on else None,
                       partial(self.toggle_alarm, index), on)  # fmt: skip
        screen.add("ImageButton", (461, 1980, 619, 2138), description="Add alarm",
                   tap=partial(self.go, "picker"))  # fmt: skip
        for column, name in enumerate(("Alarm", "World clock", "Timer")):
            left = column * 360
            screen.add("FrameLayout", (left, 2140, left + 360, 2274), description=name,
                       tap=nothing, selected=column == 0)  # fmt: skip

    def toggle_alarm(self, index: int) -> None:
        time, on = self.alarms[index]
        self.alarms[index] = (time, not on)

    def draw_picker(self, screen: Screen) -> None:
        screen.add("TextView", (150, 800, 930, 880), text="Enter time")
        for name, left in (("hour", 200), ("minutes", 560)):
            screen.add("EditText", (left, 950, left + 320, 1150), text=getattr(self, name),
                       description=name.capitalize(), editable=True, focused=self.focus == name,
                       tap=partial(setattr, self, "focus", name))  # fmt: skip
        screen.add("TextView", (520, 950, 560, 1150), text=":")
        screen.add("Button", (520, 1300, 700, 1420), text="Cancel", tap=self.back)
        screen.add("Button", (740, 1300, 900, 1420), text="OK", tap=self.keep_alarm)

    def keep_alarm(self) -> None:
        self.alarms = sorted([*self.alarms, (f"{self.hour}:{self.minutes}", True)])
        self.back()

    def open(self, name: str) -> None:
        self.trail = ["home"]
        self.screen, self.offset = (name.lower() if name != "Camera" else "home"), 0

    def do(self, action: dict[str, Any]) -> None:
        """Do one action; whatever finds no receiver changes nothing."""
        kind = action["action_type"]
        self.minute += kind in ("input_text", "wait")
        if kind == "open_app":
            self.open(action["app_name"])
        elif kind == "navigate_back":
            self.back()
        elif kind == "navigate_home":
            self.screen, self.trail = "home", []
        elif kind == "input_text" and self.focus:
            setattr(self, self.focus, action["text"])
        elif kind == "scroll" and self.screen == "settings":
            self.offset = ROWS_SHOWN if action["direction"] == "down" else 0
        elif kind == "click":
            for node, tap in reversed(self.render().taps):
                box = node["bbox_pixels"]
                inside = box["x_min"] <= action["x"] < box["x_max"]
                if inside and box["y_min"] <= action["y"] < box["y_max"]:
                    tap()
                    break


Step = tuple[dict[str, Any], str]


def click(x: int, y: int, instruction: str) -> Step:
    return {"action_type": "click", "x": x, "y": y}, instruction


def act(kind: str, instruction: str, **arguments: str) -> Step:
    return {"action_type": kind, **arguments}, instruction


def alarm_steps(hour: str, minutes: str) -> list[Step]:
    return [
        act("open_app", "Open the Clock app", app_name="Clock"),
        click(540, 2059, "Tap the plus button to add an alarm"),
        click(360, 1050, "Tap the hour"),
        act("input_text", f"Type {hour}", text=hour),
        click(720, 1050, "Tap the minutes"),
        act("input_text", f"Type {minutes}", text=minutes),
        click(820, 1360, "Confirm with OK"),
    ]


EPISODES: tuple[tuple[str, list[Step]], ...] = (
    ("Turn on the dark theme in the settings.", [
        act("open_app", "Open the Settings app", app_name="Settings"),
        act("scroll", "Scroll down to find Display", direction="down"),
        click(540, 598, "Open Display"),
        act("wait", "Wait for the page"),
        click(948, 600, "Turn on the switch of Dark theme"),
    ]),
    ("Write a note titled Market with the text 3 loaves, smoked eel.", [
        act("open_app", "Open the Notes app", app_name="Notes"),
        click(600, 1500, "Tap the empty space below the notes"),
        click(959, 2139, "Tap the button for a new note"),
        act("input_text", "Type the title", text="Market"),
        click(540, 900, "Tap the body of the note"),
        act("input_text", "Type the text", text="3 loaves, smoked eel"),
        act("navigate_back", "Go back, the note is kept"),
    ]),
    ("Set an alarm for 07:30.", alarm_steps("07", "30")),
    ("Set an alarm for 05:15.", alarm_steps("05", "15")),
    ("Make the font larger in the display settings.", [
        click(657, 2025, "Open the Settings app"),
        act("scroll", "Scroll down to find Display", direction="down"),
        click(540, 388, "Open Display"),
        act("scroll", "Look for the font size further down", direction="down"),
        act("navigate_back", "This is Sound, go back"),
        click(540, 380, "Try Network"),
        act("navigate_home", "The font size is not there either, leave"),
        act("status", "Give up: no font size found", goal_status="infeasible"),
    ]),
)  # fmt: skip


def episode(number: int, goal: str, steps: list[Step]) -> dict[str, Any]:
    """Return one episode: every state from the first to the one after the last action."""
    phone = Phone()
    trees = [phone.render().nodes]
    for action, _ in steps:
        phone.do(action)
        trees.append(phone.render().nodes)
    return {
        "episode_id": number,
        "goal": goal,
        "screenshots": [f"{number}/screenshot_{index}.png" for index in range(len(trees))],
        "accessibility_trees": trees,
        "screenshot_widths": [WIDTH] * len(trees),
        "screenshot_heights": [HEIGHT] * len(trees),
        "actions": [action for action, _ in steps],
        "step_instructions": [instruction for _, instruction in steps],
        "constructed": True,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Construct Android episodes on a simulated phone.")
    parser.add_argument("out_dir", type=Path, help="folder for episodes.json")
    options = parser.parse_args()
    options.out_dir.mkdir(parents=True, exist_ok=True)
    episodes = [episode(number, *given) for number, given in enumerate(EPISODES, 9001)]
    text = json.dumps(episodes, ensure_ascii=False, separators=(",", ":"))
    (options.out_dir / "episodes.json").write_text(text + "\n", encoding="utf-8")
    for one in episodes:
        print(f"{one['episode_id']}: {len(one['actions'])} actions, {one['goal']}")


if __name__ == "__main__":
    main()
