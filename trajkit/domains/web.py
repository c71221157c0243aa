"""Web: browser actions, answered by the page's accessibility tree and the browser's state."""

from __future__ import annotations

import re

from trajkit.domains.base import Domain, acting_share
from trajkit.fidelity.gui import check_web
from trajkit.model import Step, Trajectory

ACTION_SPACE = """\
The action is one call; elements are named by the id in square brackets before their line.
- `click(bid)`, `dblclick(bid)`, `hover(bid)`, `focus(bid)`, `clear(bid)`, `check(bid)`,
  `uncheck(bid)`, `drag_and_drop(from_bid, to_bid)`
- `fill(bid, value)`, `press(bid, keys)`, `select_option(bid, options)`, `upload_file(bid, file)`
- `scroll(delta_x, delta_y)`, `keyboard_type(text)`, `keyboard_press(keys)`, `mouse_click(x, y)`
- `goto(url)`, `go_back()`, `go_forward()`, `new_tab()`, `tab_close()`, `tab_focus(index)`
- `noop(wait_ms)`, `send_msg_to_user(text)`, `report_infeasible(reason)`"""

DEMONSTRATIONS = """\
### Turn 1

**Action:**
```
fill('14', 'plum jam')
```

**Environment Observation:**
URL: http://larder.example/
Title: Larder
Focused element: 14

RootWebArea 'Larder', focused
\t[12] heading 'Larder'
\t[14] searchbox 'Find a jar', focused, value='plum jam'
\t\tStaticText 'plum jam'
\t[15] button 'Find'

### Turn 2

**Action:**
```
click('15')
```

**Environment Observation:**
URL: http://larder.example/find?q=plum+jam
Title: Results for plum jam

RootWebArea 'Results for plum jam', focused
\t[12] heading '1 jar found'
\t[13] link 'Plum jam, 340 g'
\t[14] searchbox 'Find a jar', value='plum jam'"""

_CALL_LIST = (
    "click dblclick hover focus clear check uncheck drag_and_drop fill press select_option "
    "upload_file scroll keyboard_type keyboard_press keyboard_insert_text keyboard_down "
    "keyboard_up mouse_click mouse_move mouse_down mouse_up mouse_dblclick mouse_drag_and_drop "
    "goto go_back go_forward new_tab tab_close tab_focus page_focus noop send_msg_to_user "
    "report_infeasible stop type"
)
_CALLS = _CALL_LIST.split()
_CALL = re.compile(rf"\s*(?:{'|'.join(_CALLS)})\s*[(\[]")
_BARE = re.compile(r"\s*(?:go_back|go_forward|new_tab|close_tab|noop|stop)\s*\Z")
_TOOLS = frozenset(_CALLS) - {"type", "stop", "check", "focus", "press", "clear"}


def _browses(step: Step) -> bool:
    if step.action_kind == "tool_call":
        return (step.action_name or "").lower() in _TOOLS and (
            '"bid"' in step.action or step.action_name in ("goto", "go_back", "go_forward")
        )
    if step.action_kind == "keystrokes":
        return False
    return _CALL.match(step.action) is not None or _BARE.match(step.action) is not None


def claims(trajectory: Trajectory) -> bool:
    """Return whether most acting steps are browser calls on elements of a page."""
    return acting_share(trajectory, _browses) > 0.5


DOMAIN = Domain(
    name="web",
    title="Web browser",
    claims=claims,
    fence="",
    action_space=ACTION_SPACE,
    demonstrations=DEMONSTRATIONS,
    check=check_web,
    state_mark="**Current State:**",
)
