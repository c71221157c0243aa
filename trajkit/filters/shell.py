"""The shell commands of an action: which programs it runs, with which words.

Text that only stands in an action is no command: the body of a heredoc that goes into a file, a
quoted text, the content of a file that an editor writes. Nothing is ever run.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import orjson

_COMMAND_KEYS: tuple[str, ...] = ("command", "cmd", "commands", "script", "code", "keystrokes")
_COMMAND_KEYS += ("bash_command", "shell_command", "chars", "input")
_ADDRESS_KEYS = ("url", "urls", "uri", "link", "address")
_HEREDOC = re.compile(
    r"(?P<before>[^\n]*?)<<-?[ \t]*(?P<q>['\"]?)(?P<word>\w+)(?P=q)(?P<rest>[^\n]*)\n"
    r"(?P<body>.*?)(?:\n[ \t]*(?P=word)[ \t]*(?=\n|\Z)|\Z)",
    re.DOTALL,
)
_INTERPRETERS = re.compile(
    r"(?:^|[;&|(]|\bsudo\b)\s*(?:/\w+)*/?(?:(?:ba|z|da)?sh|python[\d.]*|node)(?=\s*(?:-\S*\s*)*$)"
)
_COMMENT = re.compile(r"^[ \t]*#[^\n]*$", re.MULTILINE)
_INNER = re.compile(r"\$\(([^()]*)\)|`([^`\n]*)`")
_SEPARATORS = frozenset(";&|\n()")
_WRAPPER = re.compile(
    r"sudo|time|env|command|exec|nohup|xargs|then|do|else|if|while|[!{]|\w+=.*", re.DOTALL
)
_SHELLS = frozenset(["bash", "sh", "zsh", "dash", "/bin/bash", "/bin/sh"])
_OF_PYTHON = re.compile(
    r"(?:os\.system|os\.popen|subprocess\.\w+|check_output|check_call|Popen|\brun)\(\s*"
    r"(?:[rfb]*(?P<q>\"\"\"|'''|\"|')(?P<text>.*?)(?P=q)|\[(?P<list>[^\]]*)\])",
    re.DOTALL,
)
_FENCES = re.compile(r"\A\s*```[\w-]*[ \t]*\n?|\n?\s*```\s*\Z")
_FETCHES = re.compile(
    r"\b(?:requests|httpx|session|client)\.get\(|\burl(?:open|retrieve)\(|\bfetch\("
)
_MAX_CHARS = 100_000


def texts_run(kind: str, action: str) -> Iterator[str]:
    """Give the texts that an action hands to a shell or interpreter, and addresses it opens.

    An address comes as the command `open ADDRESS`.

    >>> list(texts_run("tool_call", '{"name": "bash", "arguments": {"command": "ls -l"}}'))
    ['ls -l']
    """
    if kind == "code":
        yield _FENCES.sub("", action)
    elif kind in ("tool_call", "keystrokes"):
        yield from _texts_of_json(action)


def _texts_of_json(action: str) -> Iterator[str]:
    try:
        value = orjson.loads(action)
    except ValueError:
        return
    if isinstance(value, list):
        keys = [item.get("keystrokes") for item in value if isinstance(item, dict)]
        yield "".join("\n" if key == "Enter" else key for key in keys if isinstance(key, str))
        return
    arguments = value.get("arguments") if isinstance(value, dict) else None
    if isinstance(arguments, str):
        try:
            arguments = orjson.loads(arguments)
        except ValueError:
            yield arguments
            return
    if isinstance(arguments, dict):
        for key in _COMMAND_KEYS:
            yield from _text_of_argument(arguments.get(key))
        for key in _ADDRESS_KEYS:
            found = arguments.get(key)
            for address in found if isinstance(found, list) else [found]:
                if isinstance(address, str):
                    yield f"open {shlex.quote(address)}"


def _text_of_argument(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        words = [word for word in value if isinstance(word, str)]
        if words and words[0] in _SHELLS:
            yield words[-1]
        elif all(" " in word for word in words):
            yield "\n".join(words)
        else:
            yield shlex.join(words)


def commands(text: str) -> list[list[str]]:
    """Return the words of each simple command in a text, in order; redirections stay words.

    What stands in `$(...)` comes first, as it is run first.

    A program that fetches something is one command, `python TEXT`.

    >>> commands("cd a && git log -3 | head; echo 'git show x'")
    [['cd', 'a'], ['git', 'log', '-3'], ['head'], ['echo', 'git show x']]
    >>> commands("cat > n.sh <<'E'\\ngit show x\\nE\\nls")
    [['cat', '>', 'n.sh'], ['ls']]
    """
    return list(_commands(text[:_MAX_CHARS], 0))


def _commands(text: str, depth: int) -> Iterator[list[str]]:
    if depth > 3:
        return
    inner: list[str] = []

    def without_body(match: re.Match[str]) -> str:
        if _INTERPRETERS.search(match["before"]):
            inner.append(match["body"])
        return match["before"] + match["rest"]

    text = _COMMENT.sub("", _HEREDOC.sub(without_body, text)).replace("\\\n", " ")
    inner.extend(match[1] or match[2] or "" for match in _INNER.finditer(text))
    for match in _OF_PYTHON.finditer(text):
        listed = match["list"]
        inner.append(match["text"] if listed is None else re.sub(r"['\",]+", " ", listed))
    for part in inner:
        yield from _commands(part, depth + 1)
    if _FETCHES.search(text):
        yield ["python", text]
    words: list[str] = []
    for token in [*_tokens(text), "\n"]:
        if token and set(token) <= _SEPARATORS:
            yield from _simple(words, depth)
            words = []
        else:
            words.append(token)


def _tokens(text: str) -> list[str]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|\n()")
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:
        return [token.strip("'\"") for token in re.findall(r"[;&|\n()]+|[^\s;&|()]+", text)]


def _simple(words: list[str], depth: int) -> Iterator[list[str]]:
    while words and (_WRAPPER.fullmatch(words[0]) or (words[0] == "timeout" and len(words) > 2)):
        words = words[2:] if words[0] == "timeout" else words[1:]
    if not words:
        return
    if words[0] in _SHELLS:
        flags = [n for n, word in enumerate(words) if re.fullmatch(r"-\w*c", word)]
        if flags and flags[0] + 1 < len(words):
            yield from _commands(words[flags[0] + 1], depth + 1)
            return
    if words[0].startswith("python") and "-c" in words[:-1]:
        yield from _commands(words[words.index("-c") + 1], depth + 1)
    yield words
