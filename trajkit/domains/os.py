"""Desktop: Python that moves mouse and keyboard, answered by the accessibility tree."""

from __future__ import annotations

import re

from trajkit.domains.base import Domain, acting_share
from trajkit.fidelity.gui import check_os
from trajkit.model import Step, Trajectory

ACTION_SPACE = """\
The action is a block of Python, run on the desktop. It may use:
- `pyautogui`: `click(x, y)`, `doubleClick`, `rightClick`, `moveTo`, `dragTo`, `scroll`,
  `write(text)`, `press(key)`, `hotkey(key, ...)`
- `time.sleep(seconds)`, `subprocess`, and helpers of the running applications
- the bare words `WAIT`, `DONE` and `FAIL`"""

DEMONSTRATIONS = """\
### Turn 1

**Action:**
```python
pyautogui.click(212, 140)
pyautogui.write("plan")
```

**Environment Observation:**
tag\tname\ttext\tclass\tdescription\tposition (top-left x&y)\tsize (w&h)
frame\tNotes\t\t\t\t(0, 27)\t(1280, 693)
entry\tTitle\tplan\t\t\t(180, 126)\t(420, 30)
push-button\tSave\t\t\t\t(620, 126)\t(80, 30)

### Turn 2

**Action:**
```python
pyautogui.click(660, 141)
```

**Environment Observation:**
tag\tname\ttext\tclass\tdescription\tposition (top-left x&y)\tsize (w&h)
frame\tplan - Notes\t\t\t\t(0, 27)\t(1280, 693)
entry\tTitle\tplan\t\t\t(180, 126)\t(420, 30)
push-button\tSave\t\t\t\t(620, 126)\t(80, 30)
label\tSaved\t\t\t\t(720, 130)\t(60, 22)"""

_GUI_CODE = re.compile(r"\bpyautogui\b|\bcomputer\.(?:click|wait|terminate|triple|move|type)")
_WORDS = frozenset({"WAIT", "DONE", "FAIL"})
_TOOLS = frozenset({"computer", "computer_use", "computer_20241022", "computer_20250124"})


def _operates(step: Step) -> bool:
    if step.action_kind == "tool_call":
        return (step.action_name or "").lower() in _TOOLS or "pyautogui." in step.action
    if step.action_kind not in ("code", "gui"):
        return False
    return _GUI_CODE.search(step.action) is not None or step.action.strip() in _WORDS


def claims(trajectory: Trajectory) -> bool:
    """Return whether a desktop is operated; beside GUI calls, plain Python may stand."""
    share = acting_share(trajectory, _operates)
    plain = acting_share(trajectory, lambda step: step.action_kind == "code" or _operates(step))
    return share > 0.5 or (share > 0.2 and plain > 0.5)


DOMAIN = Domain(
    name="os",
    title="Desktop",
    claims=claims,
    fence="python",
    action_space=ACTION_SPACE,
    demonstrations=DEMONSTRATIONS,
    check=check_os,
    state_mark="**Current State:**",
)
