"""Open a world model by its SPEC."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from trajkit.errors import TrajkitError, quote
from trajkit.worldmodel.embedded import EmbeddedWorldModel
from trajkit.worldmodel.http import HTTPWorldModel
from trajkit.worldmodel.protocol import PatternField, WorldModel
from trajkit.worldmodel.replay import ReplayWorldModel
from trajkit.worldmodel.vllm import VLLMWorldModel

GRAMMAR = (
    "embedded, vllm:MODEL, http://HOST:PORT/v1#MODEL"
    " (several servers of one model: http://A/v1,http://B/v1#MODEL), replay:FILE"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """How an engine runs: what it is asked, and so what it answers, stands in the requests."""

    max_model_len: int | None = None
    """Tokens of prompt and answer together; null leaves it to the model (`embedded`: 4096)."""
    batch_size: int | None = None
    """vLLM in this process: requests with the engine at a time (256, `embedded` 64)."""
    tensor_parallel_size: int = 1
    """vLLM in this process: GPUs that share one copy of the model."""
    data_parallel_size: int = 1
    """vLLM in this process: copies of the model, where its `LLM` takes more than one."""
    concurrency: int = 32
    """Servers: requests under way at a time, all servers together."""
    timeout_seconds: float = 600.0
    """Servers: the longest wait for one answer."""
    max_retries: int = 8
    """Servers: further tries of one request; also says how long dead servers are waited for."""
    pattern_field: PatternField = "structured_outputs"
    """Servers: the field that takes an answer pattern."""


def open_world_model(spec: str, options: EngineOptions | None = None) -> WorldModel:
    """Return the world model that a SPEC names; nothing is loaded or called yet.

    Of the options each kind takes what is its own. Raises TrajkitError when the SPEC is none.

    >>> open_world_model("vllm:Qwen/Qwen3-0.6B").name
    'vllm:Qwen/Qwen3-0.6B'
    >>> open_world_model("http://127.0.0.1:8000/v1,http://127.0.0.1:8001/v1#my-model").name
    'http:my-model'
    """
    options = options or EngineOptions()
    kind, _, rest = spec.partition(":")
    if spec == "embedded":
        return EmbeddedWorldModel(
            batch_size=options.batch_size or 64, max_model_len=options.max_model_len
        )
    if kind == "vllm" and rest:
        return VLLMWorldModel(
            rest,
            batch_size=options.batch_size or 256,
            max_model_len=options.max_model_len,
            tensor_parallel_size=options.tensor_parallel_size,
            data_parallel_size=options.data_parallel_size,
        )
    if kind in {"http", "https"}:
        addresses, _, model = spec.partition("#")
        urls = addresses.split(",")
        if model and all(_is_server(url) for url in urls):
            return HTTPWorldModel(
                urls,
                model,
                concurrency=options.concurrency,
                timeout_seconds=options.timeout_seconds,
                max_retries=options.max_retries,
                max_model_len=options.max_model_len,
                pattern_field=options.pattern_field,
            )
    if kind == "replay" and rest:
        return ReplayWorldModel(Path(rest))
    raise TrajkitError("world model", f"{quote(spec)} is no SPEC", f"give one of: {GRAMMAR}")


def _is_server(url: str) -> bool:
    place = urlsplit(url)
    return place.scheme in {"http", "https"} and bool(place.hostname)
