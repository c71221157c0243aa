"""Open a world model by its SPEC."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from trajkit.errors import TrajkitError, quote
from trajkit.worldmodel.embedded import EmbeddedWorldModel
from trajkit.worldmodel.http import HTTPWorldModel, PatternField
from trajkit.worldmodel.protocol import WorldModel
from trajkit.worldmodel.replay import ReplayWorldModel
from trajkit.worldmodel.vllm import VLLMWorldModel

GRAMMAR = "embedded, vllm:MODEL, http://HOST:PORT/v1#MODEL, replay:FILE"


def open_world_model(
    spec: str,
    *,
    batch_size: int | None = None,
    max_model_len: int | None = None,
    tensor_parallel_size: int = 1,
    concurrency: int = 32,
    timeout_seconds: float = 600.0,
    max_retries: int = 5,
    pattern_field: PatternField = "structured_outputs",
) -> WorldModel:
    """Return the world model that a SPEC names; nothing is loaded or called yet.

    `batch_size`, `max_model_len` and `tensor_parallel_size` are for vLLM in this process,
    `concurrency` and what follows for servers; each kind takes what is its own.
    Raises TrajkitError when the SPEC is none.

    >>> open_world_model("vllm:Qwen/Qwen3-0.6B").name
    'vllm:Qwen/Qwen3-0.6B'
    >>> open_world_model("http://127.0.0.1:8000/v1#my-model").name
    'http:my-model'
    """
    kind, _, rest = spec.partition(":")
    if spec == "embedded":
        return EmbeddedWorldModel(batch_size=batch_size or 32, max_model_len=max_model_len)
    if kind == "vllm" and rest:
        return VLLMWorldModel(
            rest,
            batch_size=batch_size or 256,
            max_model_len=max_model_len,
            engine_options={"tensor_parallel_size": tensor_parallel_size},
        )
    if kind in {"http", "https"}:
        url, _, model = spec.partition("#")
        if model and urlsplit(url).hostname:
            return HTTPWorldModel(
                url,
                model,
                concurrency=concurrency,
                timeout_seconds=timeout_seconds,
                max_retries=max_retries,
                pattern_field=pattern_field,
            )
    if kind == "replay" and rest:
        return ReplayWorldModel(Path(rest))
    raise TrajkitError("world model", f"{quote(spec)} is no SPEC", f"give one of: {GRAMMAR}")
