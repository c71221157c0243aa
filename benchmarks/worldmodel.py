"""Tokens a second of each road to a model, as a ratio to bare `LLM.chat` in the same run.

The embedded model; 64 prompts of 200 to 400 tokens, 64 new tokens each. Roads take turns, every
turn with prompts of its own and an empty prefix cache; engines are started and warm before. The
ratio of a road is the median over its turns. `build-sft` is the whole stage, gate and files
included, beside `LLM.chat` with the very requests that the stage made.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

from trajkit.builders.sft import Options, build_sft
from trajkit.ingest import ingest
from trajkit.transitions import transitions
from trajkit.worldmodel import (
    Completion,
    EngineOptions,
    Request,
    Sampling,
    WorldModel,
    open_world_model,
)
from trajkit.worldmodel.embedded import EmbeddedWorldModel, model_folder

N_PROMPTS = 64
MAX_TOKENS = 64
LOGS = Path(__file__).parent.parent / "examples" / "logs"
WORDS = (
    "the",
    "file",
    "of",
    "a",
    "user",
    "is",
    "in",
    "this",
    "folder",
    "log",
    "and",
    "one",
    "line",
)
Road = Callable[[Sequence[Request]], int]


def main() -> None:
    """Print one line for each road."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    with server() as spec:
        embedded = EmbeddedWorldModel()
        on_loopback = open_world_model(spec, EngineOptions(concurrency=N_PROMPTS))
        roads: dict[str, Road] = {
            "LLM.chat": lambda requests: chat(embedded, requests),
            "embedded": lambda requests: answer(embedded, requests),
            "http, 64 in flight": lambda requests: answer(on_loopback, requests),
        }
        list(embedded.generate(prompts(0)[:16]))
        list(on_loopback.generate(prompts(0)[:16]))
        speeds: dict[str, list[float]] = {name: [] for name in roads}
        for turn in range(rounds):
            for place, (name, road) in enumerate(roads.items()):
                requests = prompts(1 + turn * len(roads) + place)
                speeds[name].append(timed(embedded, road, requests))
        show("LLM.chat", speeds["LLM.chat"], speeds["LLM.chat"])
        for name in ("embedded", "http, 64 in flight"):
            show(name, speeds[name], speeds["LLM.chat"])
        on_loopback.close()
        show("build-sft", *stage(embedded, rounds))
        embedded.close()


def prompts(number: int) -> list[Request]:
    """Return prompts that share nothing with those of another number but their lengths."""
    drawn = random.Random(1)
    requests = []
    for n in range(N_PROMPTS):
        text = " ".join(drawn.choices(WORDS, k=drawn.randint(170, 340)))
        messages = (
            {"role": "system", "content": f"{number:03} {n:03}: you are a terminal."},
            {"role": "user", "content": f"{text}. Tell it again in your own words."},
        )
        sampling = Sampling(max_tokens=MAX_TOKENS, seed=n)
        requests.append(Request(key=str(n), messages=messages, sampling=sampling))
    return requests


def timed(embedded: EmbeddedWorldModel, road: Road, requests: Sequence[Request]) -> float:
    """Return the tokens a second of one turn."""
    engine(embedded).reset_prefix_cache()
    started = time.monotonic()
    n_tokens = road(requests)
    return n_tokens / (time.monotonic() - started)


def engine(embedded: EmbeddedWorldModel) -> Any:
    """Return the `vllm.LLM` that runs inside."""
    return embedded._unpacked()._start()


def chat(embedded: EmbeddedWorldModel, requests: Sequence[Request]) -> int:
    """Return how many tokens bare `LLM.chat` makes of requests."""
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    parameters = [
        SamplingParams(
            temperature=request.sampling.temperature,
            top_p=request.sampling.top_p,
            max_tokens=request.sampling.max_tokens,
            seed=request.sampling.seed,
            structured_outputs=StructuredOutputsParams(regex=request.answer_pattern)
            if request.answer_pattern
            else None,
        )
        for request in requests
    ]
    conversations: Any = [[dict(message) for message in request.messages] for request in requests]
    outputs = engine(embedded).chat(conversations, parameters, use_tqdm=False)
    return sum(len(output.outputs[0].token_ids) for output in outputs)


def answer(model: WorldModel, requests: Iterable[Request]) -> int:
    """Return how many tokens a world model makes of requests."""
    completions = list(model.generate(requests))
    lost = [each for each in completions if each.failure not in (None, "cut_answer")]
    if lost:
        raise SystemExit(f"{lost[0].failure}: {lost[0].failure_detail}")
    return sum(each.n_completion_tokens or 0 for each in completions)


class Heard:
    """A world model that another one is, and that keeps what it was asked and said."""

    def __init__(self, model: WorldModel) -> None:
        """Remember the model, which stays open."""
        self.requests: list[Request] = []
        self.n_tokens = 0
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def generate(self, requests: Iterable[Request]) -> Iterator[Completion]:
        """Yield what the model says."""
        for completion in self._model.generate(self._noted(requests)):
            self.n_tokens += completion.n_completion_tokens or 0
            yield completion

    def _noted(self, requests: Iterable[Request]) -> Iterator[Request]:
        for request in requests:
            self.requests.append(request)
            yield request

    def close(self) -> None:
        """Leaves the engine running."""


def stage(embedded: EmbeddedWorldModel, rounds: int) -> tuple[list[float], list[float]]:
    """Return tokens a second of `build-sft`, and of `LLM.chat` with the same requests."""
    ours, bare = [], []
    with tempfile.TemporaryDirectory() as folder:
        raw, cut = Path(folder) / "raw", Path(folder) / "transitions"
        ingest((str(LOGS),), raw, quiet=True)
        transitions(raw, cut, quiet=True)
        options = Options(
            rationale="rollout",
            world_model="embedded",
            n_rollouts=3,
            per_domain=3,
            max_tokens=MAX_TOKENS,
            max_prompt_chars=9000,
        )
        for turn in range(rounds):
            heard = Heard(embedded)
            engine(embedded).reset_prefix_cache()
            started = time.monotonic()
            opening = mock.Mock(return_value=heard)
            with mock.patch("trajkit.rationales.writing.open_world_model", opening):
                build_sft(cut, Path(folder) / str(turn), options=options, quiet=True)
            ours.append(heard.n_tokens / (time.monotonic() - started))
            fitting = [request for request in heard.requests if fits(embedded, request)]
            bare.append(timed(embedded, lambda asked: chat(embedded, asked), fitting))
    return ours, bare


def fits(embedded: EmbeddedWorldModel, request: Request) -> bool:
    """Return whether bare `LLM.chat` would take a request: one that does not fit ends it all."""
    count = embedded.count_tokens(request.messages) or 0
    return count + request.sampling.max_tokens <= embedded.max_model_len


@contextmanager
def server() -> Iterator[str]:
    """Give the SPEC of a vLLM server with the same model, as long as the context is open."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = f"-m vllm.entrypoints.openai.api_server --host 127.0.0.1 --port {port}"
    command += " --served-model-name smollm --dtype bfloat16 --max-model-len 4096"
    command += " --enforce-eager --no-enable-chunked-prefill --model"
    variables = {
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, sorted(os.sched_getaffinity(0)))),
        "OMP_WAIT_POLICY": "PASSIVE",
        "TORCHDYNAMO_DISABLE": "1",
    }
    process = subprocess.Popen(
        [sys.executable, *command.split(), str(model_folder()), "--disable-uvicorn-access-log"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | variables,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline and process.poll() is None:
            with suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
                break
            time.sleep(0.5)
        yield f"http://127.0.0.1:{port}/v1#smollm"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def show(name: str, speeds: Sequence[float], bare: Sequence[float]) -> None:
    """Print one line: tokens a second, and the ratio to `LLM.chat`."""
    ratio = median(own / other for own, other in zip(speeds, bare, strict=True))
    print(f"{name:<20}{median(speeds):>8.0f} tokens/s{ratio:>8.2f}", flush=True)


if __name__ == "__main__":
    main()
