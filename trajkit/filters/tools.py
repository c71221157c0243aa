"""The tools an action space declares, in every shape logs have, and whether a call is among them.

Shapes: schemas of OpenAI (`function`, `custom`, hosted tools by `type`), Anthropic, MCP's
`tools/list`, Gemini's `functionDeclarations` and hosted tools, Bedrock's `toolSpec`, objects keyed
by name, and plain lists of names. A call may have its server's name before its own, or lack it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import orjson

_LISTS = ("tools", "functionDeclarations", "function_declarations", "functions", "allowed_tools")
_WRAPPERS = ("function", "custom", "toolSpec", "tool")
_NAMES = ("name", "name_for_model", "tool_name")
_SCHEMA_KEYS = {"description", "parameters", "inputSchema", "input_schema", "arguments"}
_SEPARATOR = re.compile(r"__|[.:/-]")
_VERSION = re.compile(r"(?:_preview)?(?:_20\d{6}|_20\d\d_\d\d_\d\d)?$")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


BUILT_IN = _words(
    "finish submit final_answer final_response complete_task mark_task_complete task_complete "
    "attempt_completion done end_task give_answer stop think plan update_plan todowrite todoread "
    "respond send_message_to_user message_user ask_user ask_followup_question"
)
"""Calls that end, plan or talk: the harness's own, and often not part of what it declares."""

PARTIAL = {
    "responses": _words(
        "shell local_shell apply_patch web_search file_search code_interpreter image_generation "
        "computer tool_search"
    ),
    "adp": _words("execute_bash execute_ipython ipython bash python"),
}
"""Tools that may be called undeclared, by adapter: those the provider or the format always has."""
OPEN = frozenset({"codex"})
"""Adapters whose logs never tell all tools: Codex names those a client added, and no server's."""


def declared_tools(action_space: str) -> set[str]:
    """Return the tool names of an action space; empty when it declares none that can be told.

    Empty also when it names a server without its tools, since then any call may be one of its own.

    >>> sorted(declared_tools('[{"function": {"name": "a"}}, {"name": "b"}, "c"]'))
    ['a', 'b', 'c']
    >>> sorted(declared_tools('{"tools": [{"functionDeclarations": [{"name": "d"}]}]}'))
    ['d']
    """
    try:
        value = orjson.loads(action_space)
    except ValueError:
        return set()
    try:
        return set(_names(value, 0))
    except _OpenSpaceError:
        return set()


class _OpenSpaceError(Exception):
    """The action space admits tools it does not name."""


def _names(value: Any, depth: int) -> Iterator[str]:
    if depth > 6:
        return
    if isinstance(value, list):
        for tool in value:
            if isinstance(tool, str) and tool.strip():
                yield tool.strip()
            else:
                yield from _names(tool, depth + 1)
    elif isinstance(value, dict):
        yield from _names_of_object(value, depth)


def _names_of_object(tool: dict[str, Any], depth: int) -> Iterator[str]:
    inner = next((tool[key] for key in _WRAPPERS if isinstance(tool.get(key), dict)), None)
    name = next((tool[key] for key in _NAMES if isinstance(tool.get(key), str)), None)
    lists = [tool[key] for key in _LISTS if isinstance(tool.get(key), list)]
    kind = tool.get("type")
    if kind == "mcp" and not lists:
        raise _OpenSpaceError
    if inner is not None:
        yield from _names_of_object(inner, depth + 1)
    elif name is not None and not lists:
        yield name
    elif lists:
        for members in lists:
            own = list(_names(members, depth + 1))
            yield from own
            if name is not None:
                yield from (f"{name}__{member}" for member in own)
    elif isinstance(kind, str) and kind not in ("function", "object"):
        yield _VERSION.sub("", kind)
    elif tool and all(isinstance(entry, dict) for entry in tool.values()):
        for key, entry in tool.items():
            # {"get": {schema}} is keyed by name; {"googleSearch": {}} is a hosted tool.
            if not entry or _SCHEMA_KEYS & entry.keys() or "type" in entry:
                yield re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key) if not entry else key
    else:
        for entry in tool.values():
            if isinstance(entry, list):
                yield from _names(entry, depth + 1)


@lru_cache(maxsize=65_536)
def _plain(name: str) -> str:
    return re.sub(r"\W+|_+", "_", name.removeprefix("functions.").strip()).strip("_").lower()


@lru_cache(maxsize=65_536)
def _endings(name: str) -> frozenset[str]:
    """Return a name without one, two, ... of the parts that may be its server's."""
    ends = [match.end() for match in _SEPARATOR.finditer(name)]
    return frozenset(_plain(name[end:]) for end in (0, *ends) if name[end:])


def undeclared(called: Iterable[str], declared: set[str], adapter: str = "") -> list[str]:
    """Return the called names that are not declared, sorted; built-in tools are known.

    >>> undeclared(["mcp__files__read", "write", "finish"], {"read", "files-list"})
    ['write']
    >>> undeclared(["shell", "read"], {"server/read"}, "responses")
    []
    """
    if adapter in OPEN:
        return []
    whole = {_plain(name) for name in declared}
    endings = {ending for name in declared for ending in _endings(name)}
    known = whole | BUILT_IN | PARTIAL.get(adapter, frozenset())
    return sorted(
        name
        for name in set(called)
        if _plain(name) not in endings and _plain(name) not in known and not _endings(name) & known
    )
