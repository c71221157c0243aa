"""Open a tokenizer that lies on this machine; nothing is fetched and no code of it is run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from trajkit.errors import TrajkitError, quote
from trajkit.tokens.ids import PROBES, FastIds
from trajkit.tokens.tokenizer import TextTokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

EMBEDDED = "embedded"
_HINT = "give `embedded`, a tokenizer.json, or the folder of a downloaded model; nothing is fetched"
_CONFIGURATIONS = ("tokenizer_config.json", "generation_config.json", "config.json")


def open_tokenizer(spec: str, *, fast: bool = False) -> TextTokenizer:
    """Return the tokenizer of a spec, proven to keep text of logs text.

    A spec is `embedded`, a `tokenizer.json`, or a folder that holds one; a folder in an older form
    (sentencepiece) is converted by `transformers`. `fast` takes the ids from `fastokens`, as long
    as they equal those of `tokenizers`.
    """
    path = _path(spec)
    file = path / "tokenizer.json" if path.is_dir() else path
    folder = file.parent
    backend = _read(file) if file.is_file() else _converted(folder)
    # A tokenizer that another program saved may cut, pad, or draw its merges by lot.
    backend.no_truncation()
    backend.no_padding()
    if getattr(backend.model, "dropout", None) is not None:
        backend.model.dropout = None
    content = file.read_bytes() if file.is_file() else backend.to_str().encode()
    title = _embedded_title() if spec == EMBEDDED else folder.resolve().name
    name = f"{title}@{hashlib.sha256(content).hexdigest()[:16]}"
    tokenizer = TextTokenizer(
        backend,
        name=name,
        end_id=_end_id(folder, backend),
        ids=FastIds(backend, name) if fast else None,
    )
    if fast:
        tokenizer.encode(PROBES)
        tokenizer.counts.clear()
    return tokenizer


def _path(spec: str) -> Path:
    if spec == EMBEDDED:
        from trajkit.worldmodel.embedded import tokenizer_folder

        return tokenizer_folder()
    path = Path(spec)
    if not path.exists():
        raise TrajkitError(quote(spec), "is no tokenizer on this machine", _HINT)
    return path


def _embedded_title() -> str:
    from trajkit.worldmodel.embedded import MODEL

    return MODEL


def _read(file: Path) -> Tokenizer:
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises nothing narrower
        raise TrajkitError(
            file.name, f"is no tokenizer.json: {quote(str(error))}", _HINT
        ) from error


def _converted(folder: Path) -> Tokenizer:
    """Return the tokenizer of a folder without tokenizer.json, as `transformers` converts it."""
    try:
        from transformers import AutoTokenizer
    except ImportError:
        raise TrajkitError(
            folder.name, "holds no tokenizer.json, and converting it needs transformers", _HINT
        ) from None
    try:
        loaded: Any = AutoTokenizer.from_pretrained(
            str(folder), local_files_only=True, trust_remote_code=False
        )
        backend: Tokenizer = loaded.backend_tokenizer
    except Exception as error:  # whatever an unreadable folder makes the library raise
        raise TrajkitError(
            folder.name, f"holds no tokenizer that can be read: {quote(str(error))}", _HINT
        ) from error
    return backend


def _end_id(folder: Path, backend: Tokenizer) -> int | None:
    """Return the id of the token that ends a text, as the files beside the vocabulary say."""
    for value in _end_tokens(folder):
        id_ = backend.token_to_id(value) if isinstance(value, str) else value
        if isinstance(id_, int):
            return id_
    return None


def _end_tokens(folder: Path) -> Iterator[Any]:
    """Give what the configurations name as the end of a text: a token or an id."""
    for name in _CONFIGURATIONS:
        path = folder / name
        if not path.is_file():
            continue
        try:
            values = orjson.loads(path.read_bytes())
        except orjson.JSONDecodeError as error:
            raise TrajkitError(name, f"is no JSON: {quote(str(error))}", _HINT) from error
        for key in ("eos_token", "eos_token_id"):
            value = values.get(key) if isinstance(values, dict) else None
            yield value.get("content") if isinstance(value, dict) else value
            if isinstance(value, list):
                yield from value
