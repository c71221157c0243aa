"""Marks on single steps: still history of the steps after them, no longer training targets."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

import polars as pl
from rapidfuzz import fuzz

GUI = ("web", "os", "android")
STEP_REASONS = {
    "leaked_answer": "a step of a solved run that read the answer from where it was kept",
    "harness_feedback": "the harness answered, not the environment",
    "user_reply": "a person answered, not the environment",
    "empty_action": "nothing was done: a pause or narration",
    "final_without_reply": "the end of the run, which nothing answered",
    "missing_observation": "the answer is not in the log",
    "truncated_observation": "the harness cut the answer",
    "captcha_or_http_error": "a search tool was shut out of a page",
    "no_change": "the screen was taken before the action showed",
    "retry_cycle": "a bad action that the next one puts right",
}
"""Reasons of marks, in the order in which they are asked."""

_MIN_LINES = 3
"""A text or JSON of fewer line breaks is a reply to an action, not a picture of a screen."""
_FENCES = re.compile(r"\A\s*```[\w-]*\s*|\s*```\s*\Z")
_WAITS = r"noop|no_op|wait|waitaction|sleep|pause|none"
_WAIT_ACTION = (
    rf"(?i)^\W*(?:{_WAITS})\s*(?:[\[(][^\])]*[\])])?\W*$|\"action(?:_type)?\":\s*\"(?:{_WAITS})\""
)
_ENDS = (
    "status|stop|finish|finished|done|terminate|answer|submit|complete|task_complete|impossible"
    "|task_impossible|infeasible|report_infeasible|fail|give_up|send_msg_to_user|response"
)
_ACKNOWLEDGED = (
    r"(?i)\bnothing (?:happen|chang)|\bno (?:visible )?(?:change|effect)\b|\bunchanged\b"
    r"|\balready (?:at|on|in|open|selected|checked|focused)\b|\bhas no effect\b"
)
_USAGE_FAULT = re.compile(
    r"command not found|: not found|No such file or directory|[Ss]yntax ?[Ee]rror|unterminated"
    r"|(?:invalid|unrecogni[sz]ed|unknown|illegal) (?:option|argument|command|flag|subcommand)"
    r"|not recognized|^usage: |Permission denied|cannot access|Is a directory|Not a directory"
    r"|unexpected (?:token|EOF)|bad substitution|missing (?:operand|argument)"
    r"|fatal: (?:ambiguous|bad|not a|pathspec|unknown)",
    re.MULTILINE | re.IGNORECASE,
)
_MAX_FAULT_CHARS = 20_000
"""How far into an answer a complaint is looked for."""
_FAULT_SIGNS = (
    "not found",
    "no such file",
    "syntax",
    "unterminated",
    "invalid ",
    "unrecogni",
    "unknown ",
    "illegal ",
    "not recognized",
    "usage: ",
    "denied",
    "cannot access",
    "a directory",
    "unexpected ",
    "substitution",
    "missing ",
    "fatal: ",
    "traceback",
)
_TRACEBACK = "Traceback (most recent call last)"
_INLINE_CODE = re.compile(r"\s-c\s|<<|%%")
_COMPLAINS = re.compile(r"(?:[\w/.-]*sh: (?:line )?(?:\d+: )?)?(?P<program>[\w.+-]+): ")
_SHELL_TOOLS = r"(?i)bash|shell|terminal|exec|command|python"
"""Tools whose error may be that of a program that ran as it should, such as a failing test."""
_FRAME = re.compile(r'^\{"name": "[^"]*", "arguments": ')
_KEYSTROKES = re.compile(r'"keystrokes":\s*"((?:[^"\\]|\\.)*)"')


def mark_steps(
    steps: pl.DataFrame,
    *,
    keep: Collection[str] = (),
    retry_similarity: float = 60.0,
    initial_states: pl.DataFrame | None = None,
    leaked: Collection[str] = (),
    walls: pl.Series | None = None,
) -> pl.DataFrame:
    """Return the steps with `skip_reason` set where a step must not be a training target.

    A reason that is already there stays; those in `keep` are not looked for. `initial_states` has
    `trajectory_id, initial_state`; `leaked` are ids of runs whose steps are all marked; `walls`
    says for each row whether its answer is a page that shut a search tool out.

    - An empty keystroke with a duration is a legal wait, and a silent command answers with an
      empty text: neither is marked.
    - The screen before a step is the last one seen, also across steps that show none. A screen
      that stays as it was is marked unless the environment says so itself: by an error, by words,
      by a reply instead of a screen, by the answer to a wait (of this step or the next), or because
      the action was not aimed at the screen.
    - A failed step is marked when the next action of a later turn is nearly the same; a failure is
      an error of the log, an action that could not be read, or a shell's complaint about the
      command itself. A test that fails or a search that finds nothing is an honest answer.
    """
    steps = steps.with_columns(unchanged=_unchanged(steps, initial_states))
    rules: dict[str, Callable[[], pl.Expr | pl.Series]] = {
        "leaked_answer": lambda: pl.col("trajectory_id").is_in(sorted(leaked)),
        "harness_feedback": lambda: pl.col("observation_source") == "harness",
        "user_reply": lambda: pl.col("observation_source") == "user",
        "empty_action": lambda: _empty_action(steps),
        "final_without_reply": lambda: _final_without_reply(),
        "missing_observation": lambda: pl.col("observation").is_null(),
        "truncated_observation": lambda: pl.col("truncated"),
        "captcha_or_http_error": lambda: pl.lit(False) if walls is None else walls,
        "no_change": lambda: pl.col("unchanged") & ~_is_acknowledged(),
        "retry_cycle": lambda: _retry_cycles(steps, retry_similarity),
    }
    marks = (
        pl.when(holds()).then(pl.lit(reason))
        for reason, holds in rules.items()
        if reason not in keep
    )
    reason = pl.coalesce(pl.col("skip_reason"), *marks)
    return steps.with_columns(skip_reason=reason).drop("unchanged")


def is_empty_action() -> pl.Expr:
    """Return whether an action does nothing, not even wait.

    Keystrokes are empty when no key and no duration is among them.
    """
    text = pl.col("action").str.strip_chars()
    keys = pl.col("action_kind") == "keystrokes"
    return (
        (pl.col("action_kind") == "none")
        | ((text == "") & ~keys)
        | (keys & text.is_in(["", "[]"]))
        | (
            keys
            & text.str.starts_with("[")
            & ~text.str.contains(r'"keystrokes":\s*"[^"]')
            & ~text.str.contains(r'"(?:duration|timeout_sec)":\s*(?:[1-9]|0*\.0*[1-9]|0\.\d*[1-9])')
        )
    )


def _empty_action(steps: pl.DataFrame) -> pl.Expr | pl.Series:
    """Return `is_empty_action`, and also code fences around nothing and narration over a screen."""
    narrates = (
        (pl.col("action_kind") == "message")
        & pl.col("domain").is_in(GUI)
        & (pl.col("observation_source") == "environment")
        & pl.col("observation").is_not_null()
        & pl.col("action_valid")
    )
    empty = steps.select(empty=is_empty_action() | narrates)["empty"]
    fenced = (steps["action_kind"] == "code") & steps["action"].str.starts_with("```")
    for row in fenced.arg_true():
        if not _FENCES.sub("", steps["action"][row]).strip():
            empty[row] = True
    return empty


def _final_without_reply() -> pl.Expr:
    """Return whether a step of the last turn that acts has no answer.

    A screen that a recorder repeats behind the word that ends a run is no answer either.
    """
    acting = pl.when(pl.col("action_kind") != "none").then(pl.col("turn"))
    last = pl.col("turn") >= acting.max().over("trajectory_id").fill_null(0)
    ends = pl.col("action_name").fill_null("").str.contains(rf"(?i)^(?:{_ENDS})$") & (
        pl.col("step_index") == pl.col("step_index").max().over("trajectory_id")
    )
    return last & (pl.col("observation").is_null() | (ends & pl.col("unchanged")))


def _seen() -> pl.Expr:
    """Return the screen of a step; null where it shows none."""
    shows = (
        pl.col("domain").is_in(GUI)
        & (pl.col("observation_source") == "environment")
        & (
            pl.col("observation_kind").is_in(["tree", "html", "screen"])
            | (pl.col("observation").str.count_matches("\n", literal=True) >= _MIN_LINES)
        )
        & (pl.col("observation").str.strip_chars() != "")
    )
    return pl.when(shows).then(pl.col("observation"))


def _unchanged(steps: pl.DataFrame, initial_states: pl.DataFrame | None) -> pl.Series:
    """Return whether a step's screen is the last one seen before it."""
    if not steps["domain"].is_in(GUI).any():
        return pl.Series([False] * steps.height, dtype=pl.Boolean)
    columns = ["trajectory_id", "domain", "observation", "observation_kind", "observation_source"]
    view = steps.select(columns)
    if initial_states is None:
        view = view.with_columns(initial_state=pl.lit(None, pl.String))
    else:
        view = view.join(
            initial_states.filter(pl.col("domain").is_in(GUI)).select(
                "trajectory_id", "initial_state"
            ),
            on="trajectory_id",
            how="left",
            maintain_order="left",
        )
    seen = _seen()
    before = pl.coalesce(
        seen.shift(1).forward_fill().over("trajectory_id"), pl.col("initial_state")
    )
    return view.select(same=(seen == before).fill_null(value=False))["same"]


def _is_acknowledged() -> pl.Expr:
    """Return whether an unchanged screen is the environment's own word, and not a late picture."""
    unchanged, name = pl.col("unchanged"), pl.col("action_name").fill_null("")
    action = pl.when(unchanged).then(pl.col("action"))
    waits = name.str.contains(rf"(?i)^(?:{_WAITS})$") | action.str.contains(_WAIT_ACTION)
    # The screen is the same after a pause too: there was nothing to be late.
    still = (waits & unchanged).shift(-1).over("trajectory_id")
    return (
        waits.fill_null(value=False)
        | still.fill_null(value=False)
        | (pl.col("error").is_not_null() & pl.col("action_valid"))
        | (pl.col("action_kind") == "message")
        | name.str.contains(rf"(?i)^(?:{_ENDS})$")
        | pl.when(unchanged).then(pl.col("observation")).str.contains(_ACKNOWLEDGED)
    ).fill_null(value=False)


def _retry_cycles(steps: pl.DataFrame, similarity: float) -> pl.Series:
    """Return for each step whether it failed and the next action repeats it, put right."""
    found = [False] * steps.height
    after = pl.col("turn", "action", "action_name", "action_kind").shift(-1).over("trajectory_id")
    of_terminal = pl.when(pl.col("domain") == "terminal").then(pl.col("observation"))
    complains = of_terminal.str.contains_any(list(_FAULT_SIGNS), ascii_case_insensitive=True)
    may_fail = (
        pl.col("error").is_not_null()
        | (pl.col("exit_code").fill_null(0) != 0)
        | ~pl.col("action_valid")
        | complains.fill_null(value=False)
    )
    candidates = (
        steps.with_row_index("row")
        .filter(pl.col("action_kind") != "none")
        .with_columns(after.name.prefix("next_"))
        .filter(
            may_fail
            & (pl.col("next_turn") > pl.col("turn"))
            & pl.col("action_name").eq_missing(pl.col("next_action_name"))
            & (pl.col("action_kind") != "message")
        )
        .select(
            "row",
            "action",
            "next_action",
            "observation",
            by_itself=~pl.col("action_valid")
            | (
                pl.col("error").is_not_null()
                & pl.col("action_kind").is_in(["tool_call", "gui"])
                & ~pl.col("action_name").fill_null("").str.contains(_SHELL_TOOLS)
            ),
        )
    )
    for row, action, following, seen, by_itself in candidates.iter_rows():
        if fuzz.ratio(_body(action), _body(following), score_cutoff=similarity) < similarity:
            continue
        fault = _USAGE_FAULT.search(seen or "", 0, _MAX_FAULT_CHARS)
        found[row] = (by_itself or _is_misuse(fault, action, seen or "")) and not (
            fault and _gave_up(fault, action, following)
        )
    return pl.Series(found, dtype=pl.Boolean)


def _is_misuse(fault: re.Match[str] | None, action: str, seen: str) -> bool:
    """Return whether a shell or interpreter complains about the command itself."""
    return fault is not None or (_TRACEBACK in seen and _INLINE_CODE.search(action) is not None)


def _gave_up(fault: re.Match[str], action: str, following: str) -> bool:
    """Return whether the program that complained is not run again: the error was the answer."""
    if "not found" in fault[0]:
        return False
    seen = fault.string
    complains = _COMPLAINS.match(seen, seen.rfind("\n", 0, fault.start()) + 1)
    program = complains["program"] if complains and complains.end() <= fault.end() else ""
    word = re.compile(rf"\b{re.escape(program)}\b")
    return bool(program and word.search(action) and not word.search(following))


def _body(action: str) -> str:
    """Return what an action says without the frame that all calls of one tool share."""
    keys = _KEYSTROKES.findall(action) if action.startswith("[") else []
    return "".join(keys) if keys else _FRAME.sub("", action)
