"""Software engineering: reading, editing and running code in a repository."""

from __future__ import annotations

from trajkit.domains.base import Domain, acting_share
from trajkit.domains.search import searches, tool_name
from trajkit.fidelity.swe import check
from trajkit.model import Step, Trajectory
from trajkit.terminal_text import shown

ACTION_SPACE = """\
The action is one tool call (a JSON object with `name` and `arguments`) or a shell command. Usual
tools read, list and search files, edit or write them, and run commands in a shell; their names,
arguments and answer formats are shown by the calls of the episode itself."""

DEMONSTRATIONS = """\
### Turn 1

**Action:**
```json
{"name": "read_file", "arguments": {"path": "src/area.py"}}
```

**Environment Observation:**
     1\tdef area(width, height):
     2\t    return width + height

### Turn 2

**Action:**
```json
{"name": "bash", "arguments": {"command": "python -c 'import area; print(area.area(2, 5))'"}}
```

**Environment Observation:**
Traceback (most recent call last):
  File "<string>", line 1, in <module>
ModuleNotFoundError: No module named 'area'
[exit code 1]"""

_NAME_LIST = (
    "bash shell sh execute_bash run_shell_command run_command run_terminal_cmd "
    "run_terminal_command run_in_terminal run_terminal shell_command local_shell exec "
    "exec_command execute_command terminal command write_stdin bashoutput killshell killbash "
    "kill_shell mswea_bash_command python execute_python python_interpreter execute_ipython_cell "
    "ipython run_ipython jupyter read read_file read_many_files view view_file open open_file cat "
    "view_image write write_file create create_file save_file insert insert_line append edit "
    "edit_file multiedit multi_edit edit_notebook_file notebookedit notebook_edit replace "
    "str_replace str_replace_editor str_replace_based_edit_tool replace_in_file search_replace "
    "apply_patch apply_diff patch undo_edit delete_file move_file rename_file ls list_dir "
    "list_directory list_files tree glob glob_file_search find_file find_files find grep "
    "grep_search search_file search_dir search_file_content search_files file_search "
    "codebase_search ripgrep rg semantic_search list_code_definition_names lsp read_lints "
    "get_errors diagnostics goto scroll_up scroll_down git git_diff git_status run_tests"
)
_NAMES = frozenset(_NAME_LIST.split())
_SHELL_KINDS = frozenset({"code"})


def edits_code(step: Step) -> bool:
    """Return whether a step reads, edits or runs code."""
    if step.action_kind in _SHELL_KINDS:
        return "pyautogui" not in step.action
    return step.action_kind == "tool_call" and tool_name(step) in _NAMES


def claims(trajectory: Trajectory) -> bool:
    """Return whether code work leads; searches in between do not count against it."""
    if not any(edits_code(step) for step in trajectory.steps):
        return False
    return acting_share(trajectory, lambda step: edits_code(step) or searches(step)) >= 0.5


DOMAIN = Domain(
    name="swe",
    title="Software engineering",
    claims=claims,
    fence="json",
    action_space=ACTION_SPACE,
    demonstrations=DEMONSTRATIONS,
    check=check,
    shown=shown,
)
