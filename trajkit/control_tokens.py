"""Keep control tokens of chat templates plain text when a log holds them.

A tokenizer turns `<|im_start|>` in a web page into a turn boundary, and a trainer takes `<image>`
for a picture. In rendered examples such text gets an invisible character (U+200B) after its first
one, which no tokenizer takes for the token; `unescape` gives the text back exactly. Stores keep
the original text.

What counts are the exact strings that a vocabulary, a chat template or a trainer's data code reads
as structure, and families of them. Plain HTML stays as it is, also where a vocabulary (Gemma's)
lists `<table>` among its words: it means nothing but itself. The exceptions are those that some
trainer or vocabulary does give a meaning: `<s>`, `<image>`, `<video>`, `<audio>`, `<mask>`, and
`<img>`, which ms-swift takes for a picture's path.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import polars as pl

BREAK = "\u200b"
"""Stands after the first character of a token that is text."""
_NAME = r"[^\s|｜<>\[\]]{1,64}"
"""Holds nothing that begins a token, so that no token hides in another."""
_FORMS = (
    rf"\|{_NAME}\|>",  # ChatML, Qwen, Llama 3 and 4, Phi, Granite, Command R, harmony, Kimi
    r"\|[a-z_]{1,32}>|[a-z_]{1,32}\|>",  # Gemma 4: <|turn> and <turn|>
    r"ifm\|[a-z_]{1,32}>",  # K2 Think
    rf"｜{_NAME}｜>|｜/[a-z]{{1,16}}>｜|/?dsml:",  # DeepSeek
    r"0x[0-9A-F]{2}>",  # bytes of sentencepiece vocabularies
    r"(?:unused|reserved_|extra_id_|SPECIAL_)[0-9]{1,5}>",  # Gemma, Baichuan, T5, tekken
    r"row_[0-9]{1,2}_col_[0-9]{1,2}>",  # SmolVLM
    r"/?(?:seed|minimax|mm|longcat|atem):[a-z_]{1,32}>|/?longcat_[a-z_]{1,32}>",
)
_WORDS = (
    # Tags of reasoning and of tool calls in Qwen, DeepSeek, GLM, Hermes, and our own answers.
    "think answer tool_call tool_calls tool_response tools tool arg_key arg_value tool_sep",
    "function_call function_calls start_function_call end_function_call scratch_pad escape",
    "predicted_observation final_evaluation",
    # Llama 2, Mistral, Gemma, Command R and older vocabularies.
    "s bos eos pad unk mask cls sep start_of_turn end_of_turn sop eop eod eot",
    "BOS_TOKEN EOS_TOKEN MASK_TOKEN EOP_TOKEN PAD UNK CLS SEP EOT SOS META META_START META_END",
    # Code models: StarCoder, Granite, SmolLM, Code Llama.
    "fim_prefix fim_middle fim_suffix fim_pad PRE SUF MID repo_name reponame file_sep filename",
    "gh_stars issue_start issue_comment issue_closed jupyter_start jupyter_text jupyter_code",
    "jupyter_output jupyter_script jupyter_script_to_code empty_output commit_before commit_msg",
    "commit_after intermediate_to_code pr pr_status pr_is_merged pr_base pr_file pr_base_code",
    "pr_diff pr_diff_hunk pr_comment pr_event_id pr_review pr_review_state pr_review_comment",
    "pr_in_reply_to_review_id pr_in_reply_to_comment_id pr_diff_hunk_comment_line",
    # Pictures and sound, as LLaMA-Factory, ms-swift, verl and vision models read them.
    "image video audio ref-object bbox cot-process start-image image_soft_token audio_soft_token",
    "start_of_image end_of_image start_of_audio end_of_audio end_of_utterance global-img",
    "fake_token_around_image img",
)
_SQUARE_WORDS = (
    "INST TOOL_CALLS TOOL_RESULTS AVAILABLE_TOOLS SYSTEM_PROMPT MODEL_SETTINGS THINK",
    "TOOL_CONTENT ARGS CALL_ID PREFIX MIDDLE SUFFIX IMG IMG_BREAK IMG_END AUDIO BEGIN_AUDIO",
    "TRANSCRIBE STREAMING_PAD STREAMING_WORD REPEAT_AUDIO_TEXT AUDIO_TO_TEXT TEXT_TO_AUDIO",
    # GLM, Kimi, Gemma. Not BERT's [SEP]: no chat model has it, and web logs part texts with it.
    "NEXT_AUDIO_TEXT gMASK sMASK MASK PAD UNK BOS EOS EOT multimodal",
)


def any_of(words: Iterable[str]) -> str:
    """Return a pattern for any of the words, the longest first; for no words, one of nothing.

    Shared beginnings are written once: `re` tries alternatives one by one, and there are
    vocabularies that reserve 6,000 tokens of one form.

    >>> any_of(["ab", "acd", "a"])
    'a(?:b|cd|)'
    """
    return _branches(sorted(set(words))) or "(?!)"


def _branches(words: Sequence[str]) -> str:
    longer = [word for word in words if word]
    branches = [
        re.escape(first) + _branches([word[1:] for word in longer if word[0] == first])
        for first in dict.fromkeys(word[0] for word in longer)
    ]
    if len(longer) < len(words):
        branches.append("")
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})" if branches else ""


def _words(groups: Iterable[str]) -> list[str]:
    words = [word for group in groups for word in group.split()]
    return [*words, *(f"/{word}" for word in words)]


_ANGLE = "|".join((*_FORMS, any_of([f"{word}>" for word in [*_words(_WORDS), "SYS>", "/SYS>"]])))
_SQUARE = "|".join(
    (
        any_of([f"{word}]" for word in _words(_SQUARE_WORDS)]),
        r"control_[0-9]{1,3}\]",
        r"\|(?:system|user|assistant|tool|endofturn)\|\]",  # EXAONE
    )
)
# One pattern for each first character: that is what makes a search quick. DeepSeek's ｜DSML｜ also
# stands inside <｜DSML｜>, and either may be a token: whoever undoes the breaks begins with it.
_PATTERNS = tuple(
    (first, f"{re.escape(first)}({BREAK}*(?:{rest}))")
    for first, rest in (("<", _ANGLE), ("[", _SQUARE), ("｜", "DSML｜"))
)
_TOKENS = [(first, re.compile(pattern)) for first, pattern in _PATTERNS]
_BROKEN = [
    (first, re.compile(pattern.replace("(", f"{BREAK}(", 1))) for first, pattern in _PATTERNS
]


def escape(text: str) -> tuple[str, int]:
    """Return the text with control tokens broken up, and how many there were.

    >>> escape("<|im_start|>system")[0] == "<\\u200b|im_start|>system"
    True
    >>> escape("a < b")
    ('a < b', 0)
    """
    n_tokens = 0
    for first, pattern in _TOKENS:
        if first in text:
            text, n = pattern.subn(rf"{first}{BREAK}\1", text)
            n_tokens += n
    return text, n_tokens


def escape_column(texts: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Return a column of texts as `escape` gives them, and how many tokens each held.

    Nulls stay, and hold none. Tokens are rare: only texts that have one are written anew.
    """
    counts = pl.zeros(len(texts), pl.Int64, eager=True)
    for first, pattern in _PATTERNS:
        found = texts.str.contains(pattern).fill_null(False)
        if found.any():
            broken = texts.filter(found)
            rows = found.arg_true()
            counts = counts.scatter(rows, counts.gather(rows) + broken.str.count_matches(pattern))
            broken = broken.str.replace_all(pattern, f"{first}{BREAK}${{1}}")
            texts = texts.clone().scatter(rows, broken)
    return texts, counts


def unescape(text: str) -> str:
    """Return the text that `escape` was given.

    >>> unescape(escape("x </think> [INST] y")[0])
    'x </think> [INST] y'
    """
    for first, pattern in reversed(_BROKEN):
        if BREAK in text:
            text = pattern.sub(rf"{first}\1", text)
    return text
