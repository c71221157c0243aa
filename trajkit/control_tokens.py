"""Keep control tokens of chat templates plain text when a log holds them.

A tokenizer turns `<|im_start|>` in a web page into a turn boundary. In rendered examples such
text gets an invisible character (U+200B) after its first one, which no tokenizer takes for the
token; `unescape` gives the text back exactly. Stores keep the original text.
"""

from __future__ import annotations

import re

_BREAK = "\u200b"
_NAMES = (
    r"\|[^\s|<>]{1,48}\|>",  # ChatML, Qwen, Llama 3, Phi, Kimi
    r"｜[^\s｜<>]{1,48}｜>",  # DeepSeek
    r"/?(?:think|answer|tool_call|tool_response|tools|predicted_observation|final_evaluation)>",
    r"/?s>|(?:bos|eos|pad|unk|mask)>|(?:start|end)_of_turn>|/?SYS>>",  # Llama 2, Gemma
    r"\|endoftext\|>|0x[0-9A-F]{2}>",
)
_ANGLE = re.compile(f"<(<?)({_BREAK}*)(?={'|'.join(_NAMES)})")
_SQUARE_NAMES = (
    r"/?(?:INST|TOOL_CALLS|TOOL_RESULTS|AVAILABLE_TOOLS|SYSTEM_PROMPT|gMASK|IMG|THINK)\]"
)
_SQUARE = re.compile(rf"\[({_BREAK}*)(?={_SQUARE_NAMES})")
_ANGLE_ESCAPED = re.compile(f"<(<?){_BREAK}({_BREAK}*)(?={'|'.join(_NAMES)})")
_SQUARE_ESCAPED = re.compile(rf"\[{_BREAK}({_BREAK}*)(?={_SQUARE_NAMES})")


def escape(text: str) -> tuple[str, int]:
    """Return the text with control tokens broken up, and how many there were.

    >>> escape("<|im_start|>system")[0] == "<\\u200b|im_start|>system"
    True
    >>> escape("a < b")
    ('a < b', 0)
    """
    if "<" not in text and "[" not in text:
        return text, 0
    text, n_angle = _ANGLE.subn(rf"<\1{_BREAK}\2", text)
    text, n_square = _SQUARE.subn(rf"[{_BREAK}\1", text)
    return text, n_angle + n_square


def unescape(text: str) -> str:
    """Return the text that `escape` was given.

    >>> unescape(escape("x </think> [INST] y")[0])
    'x </think> [INST] y'
    """
    text = _ANGLE_ESCAPED.sub(r"<\1\2", text)
    return _SQUARE_ESCAPED.sub(r"[\1", text)
