"""Terminal: keystrokes typed into a shell, answered by the screen."""

from __future__ import annotations

from trajkit.domains.base import Domain, acting_share
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
    check=check,
    shown=shown,
)
