"""Android: touches, swipes and text, answered by the hierarchy of the screen."""

from __future__ import annotations

import re

from trajkit.domains.base import Domain, acting_share
from trajkit.fidelity.gui import check_android
from trajkit.model import Step, Trajectory

ACTION_SPACE = """\
The action is one JSON object with `action_type` and its fields:
- `click`, `long_press`, `double_tap` (`x`, `y` in pixels, or `index` of an element)
- `input_text` (`text`), `scroll` or `swipe` (`direction`: up, down, left, right)
- `open_app` (`app_name`), `navigate_back`, `navigate_home`, `keyboard_enter`, `wait`
- `status` (`goal_status`), `answer` (`text`)"""

DEMONSTRATIONS = """\
### Turn 1

**Action:**
```json
{"action_type": "click", "x": 540, "y": 410}
```

**Environment Observation:**
[0] TextView text="8:37" bounds=(145,1,229,136)
[1] TextView text="Alarms" bounds=(60,180,420,260)
[2] Switch text="06:30" checked clickable bounds=(60,320,1020,500)
[3] ImageButton description="Add alarm" clickable bounds=(470,2040,610,2180)

### Turn 2

**Action:**
```json
{"action_type": "click", "x": 540, "y": 400}
```

**Environment Observation:**
[0] TextView text="8:37" bounds=(145,1,229,136)
[1] TextView text="Alarms" bounds=(60,180,420,260)
[2] Switch text="06:30" clickable bounds=(60,320,1020,500)
[3] ImageButton description="Add alarm" clickable bounds=(470,2040,610,2180)"""

_JSON_ACTION = re.compile(r'\s*\{\s*"action_type"\s*:')
_DROIDBOT = re.compile(
    r"\s*(?:TouchEvent|LongTouchEvent|SwipeEvent|ScrollEvent|SetTextEvent|KeyEvent|IntentEvent)\("
)
_DEVICE = re.compile(r"\s*(?:adb shell input|do\(action=|<invoke\b)")
_TOOLS = frozenset({"mobile_use", "mobile_action", "android_action"})


def _touches(step: Step) -> bool:
    if step.action_kind == "tool_call":
        return (step.action_name or "").lower() in _TOOLS
    return any(
        pattern.match(step.action) is not None for pattern in (_JSON_ACTION, _DROIDBOT, _DEVICE)
    )


def claims(trajectory: Trajectory) -> bool:
    """Return whether most acting steps touch a phone."""
    return acting_share(trajectory, _touches) > 0.5


DOMAIN = Domain(
    name="android",
    title="Android phone",
    claims=claims,
    fence="json",
    action_space=ACTION_SPACE,
    demonstrations=DEMONSTRATIONS,
    check=check_android,
    state_mark="**Current Phone State:**",
)
