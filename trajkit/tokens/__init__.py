"""Turn text into token ids that no log can steer, and pack examples into windows."""

from trajkit.tokens.opening import open_tokenizer
from trajkit.tokens.packing import pack
from trajkit.tokens.tokenizer import TextTokenizer

__all__ = ["TextTokenizer", "open_tokenizer", "pack"]
