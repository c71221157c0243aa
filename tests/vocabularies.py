"""Small vocabularies for tests: all bytes, no merges, and the tokens of a model family."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from tokenizers.pre_tokenizers import ByteLevel

FAMILIES = {
    "ChatML": "<|im_start|> <|im_end|> <|endoftext|>",
    "Qwen": (
        "<|im_start|> <|im_end|> <|endoftext|> <think> </think> <tool_call> </tool_call> "
        "<tool_response> </tool_response> <|vision_start|> <|vision_end|> <|image_pad|> "
        "<|video_pad|> <|box_start|> <|fim_prefix|> <|repo_name|> <|file_sep|>"
    ),
    "Llama 2": "<s> </s> <unk> [INST] [/INST] <<SYS>> <</SYS>>",
    "Llama 3": (
        "<|begin_of_text|> <|start_header_id|> <|end_header_id|> <|eot_id|> <|eom_id|> "
        "<|python_tag|> <|end_of_text|> <|finetune_right_pad_id|> <|reserved_special_token_7|>"
    ),
    "Llama 4": "<|header_start|> <|header_end|> <|eot|> <|eom|> <|image|> <|patch|> <|python_end|>",
    "Mistral": (
        "<s> </s> <unk> <pad> [INST] [/INST] [TOOL_CALLS] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] "
        "[TOOL_RESULTS] [/TOOL_RESULTS] [SYSTEM_PROMPT] [/SYSTEM_PROMPT] [TOOL_CONTENT] [IMG] "
        "[IMG_BREAK] [IMG_END] [PREFIX] [MIDDLE] [SUFFIX] [ARGS] [CALL_ID] [THINK] [/THINK] "
        "[AUDIO] [BEGIN_AUDIO] [MODEL_SETTINGS] [control_17] <SPECIAL_20>"
    ),
    "Gemma 3": (
        "<bos> <eos> <pad> <unk> <mask> <start_of_turn> <end_of_turn> <unused17> [multimodal] "
        "<start_of_image> <end_of_image> <image_soft_token>"
    ),
    "Gemma 4": '<|turn> <turn|> <|channel> <channel|> <|tool_call> <tool_call|> <|think|> <|"|>',
    "DeepSeek": (
        "<｜begin▁of▁sentence｜> <｜end▁of▁sentence｜> <｜User｜> <｜Assistant｜> <｜tool▁sep｜> "
        "<think> </think> ｜DSML｜ <dsml: </dsml: <｜/table>｜ <|EOT|>"
    ),
    "gpt-oss": "<|start|> <|end|> <|message|> <|channel|> <|constrain|> <|return|> <|call|>",
    "GLM": (
        "[gMASK] [sMASK] [MASK] <sop> <eop> <|system|> <|user|> <|assistant|> <|observation|> "
        "<think> </think> <arg_key> </arg_key> <arg_value> </arg_value> <|begin_of_image|>"
    ),
    "Kimi": (
        "<|im_system|> <|im_user|> <|im_assistant|> <|im_middle|> <|im_end|> [BOS] [EOS] [PAD] "
        "[UNK] [EOT] <|tool_calls_section_begin|> <|tool_call_argument_begin|> <|media_pad|>"
    ),
    "Phi": "<|system|> <|user|> <|assistant|> <|end|> <|tool|> <|tool_call|> <|endoftext10|>",
    "Granite": "<|start_of_role|> <|end_of_role|> <|end_of_text|> <|tool_call|> <fim_prefix>",
    "Command R": (
        "<BOS_TOKEN> <EOS_TOKEN> <PAD> <UNK> <|START_OF_TURN_TOKEN|> <|END_OF_TURN_TOKEN|> "
        "<|CHATBOT_TOKEN|> <|USER_TOKEN|> <|START_THINKING|>"
    ),
    "MiniMax": "<minimax:tool_call> </minimax:tool_call> <mm:think> </mm:think>",
    "Seed": "<seed:think> </seed:think> <seed:tool_call> <seed:bos> <seed:eos>",
    "LFM2": "<|tool_list_start|> <|tool_list_end|> <|tool_response_start|> <|startoftext|>",
    "EXAONE": "[|system|] [|user|] [|assistant|] [|endofturn|]",
    "StarCoder": "<fim_prefix> <fim_suffix> <filename> <gh_stars> <commit_msg> <pr_diff_hunk>",
    "Code Llama": "<PRE> <SUF> <MID> <EOT>",
    "Claude": "<EOT> <META> <META_START> <META_END> <SOS>",
    "pictures": (
        "<image> </image> <video> <audio> <ref-object> <bbox> <cot-process> <start-image> "
        "<fake_token_around_image> <global-img> <row_1_col_2> <end_of_utterance>"
    ),
}
"""What chat templates, vocabularies and trainers of model families read as structure."""


def byte_level(
    tokens: Iterable[str | AddedToken] = (),
    *,
    without: Iterable[str] = (),
    merges: Sequence[tuple[str, str]] = (),
    **options: Any,
) -> Tokenizer:
    """Return a vocabulary of the 256 byte symbols, less some, with these special tokens."""
    symbols = sorted(set(ByteLevel.alphabet()) - set(without))
    symbols += [left + right for left, right in merges]
    vocabulary = {symbol: id_ for id_, symbol in enumerate(symbols)}
    tokenizer = Tokenizer(models.BPE(vocabulary, list(merges), **options))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(t, normalized=False) if isinstance(t, str) else t for t in tokens]
    )
    return tokenizer


def of_family(name: str) -> Tokenizer:
    """Return a small vocabulary with the tokens of one family."""
    return byte_level(FAMILIES[name].split())


def saved(tokenizer: Tokenizer, folder: Path) -> Path:
    """Return the folder after writing `tokenizer.json` into it."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder
