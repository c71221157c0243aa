"""A real vLLM server on loopback: the http road, killed in mid-run and started again."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType

import orjson
import pytest
from openai_server import ask, by_key

from trajkit.worldmodel import (
    CachedWorldModel,
    EngineOptions,
    Scoring,
    WorldModel,
    open_world_model,
)

_VARIABLES = {
    "VLLM_LOGGING_LEVEL": "WARNING",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "OMP_WAIT_POLICY": "PASSIVE",
    "TORCHDYNAMO_DISABLE": "1",
    "HF_HUB_OFFLINE": "1",
}


class VLLMServer:
    """Starts with the context, dies by SIGKILL with its end; `ready` waits until it serves."""

    def __init__(self, folder: str, port: int, log: Path) -> None:
        self._url = f"http://127.0.0.1:{port}"
        self._log = log
        command = f"-m vllm.entrypoints.openai.api_server --host 127.0.0.1 --port {port}"
        command += " --served-model-name my-model --dtype bfloat16 --max-model-len 1024"
        command += " --enforce-eager --no-enable-chunked-prefill --model"
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, *command.split(), folder],
                stdout=file,
                stderr=subprocess.STDOUT,
                env=os.environ | _VARIABLES,
                start_new_session=True,
            )

    def __enter__(self) -> VLLMServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def ready(self) -> None:
        deadline = time.monotonic() + 400
        while True:
            assert self._process.poll() is None, self._log.read_text()[-2000:]
            assert time.monotonic() < deadline, self._log.read_text()[-2000:]
            try:
                urllib.request.urlopen(f"{self._url}/health", timeout=5).close()
                return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(0.5)

    @property
    def n_answered(self) -> int:
        return len(re.findall(r"POST /v1/chat/completions .* 200", self._log.read_text()))


def test_a_server_killed_in_mid_run_and_started_again_loses_nothing_and_is_asked_nothing_twice(
    embedded_cache: tuple[Path, list[str]], embedded_world_model: WorldModel, tmp_path: Path
) -> None:
    folder = embedded_cache[1][0]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    spec = f"http://127.0.0.1:{port}/v1#my-model"
    options = EngineOptions(concurrency=3, max_retries=14)
    path = tmp_path / "answers.jsonl"
    requests = [ask(str(n), f"echo {n}", max_tokens=8, seed=n) for n in range(12)]
    with ExitStack() as living:
        model = CachedWorldModel(open_world_model(spec, options), path)
        living.callback(model.close)
        with VLLMServer(folder, port, tmp_path / "first.log") as first:
            first.ready()
            completions = model.generate(requests)
            got = [next(completions) for _ in range(3)]
        second = living.enter_context(VLLMServer(folder, port, tmp_path / "second.log"))
        got += completions
        assert sorted(int(completion.key) for completion in got) == list(range(12))
        assert {completion.failure for completion in got} <= {None, "cut_answer"}
        assert 3 <= first.n_answered <= 6
        assert 12 - first.n_answered <= second.n_answered <= 9
        lines = [orjson.loads(line) for line in path.read_bytes().splitlines()]
        assert len({line["request"] for line in lines}) == len(lines) == 12

        prompt = ask("x", "What does pwd print?").messages
        assert model.max_model_len == 1024
        assert model.count_tokens(prompt) == embedded_world_model.count_tokens(prompt)
        scorings = [
            Scoring(key=key, messages=prompt, prefix=prefix, continuation=text)
            for key, prefix, text in (
                ("plain", "", "It prints /home/ann."),
                ("behind thoughts", "<think>\nwhere am I\n</think>\n\n", "/home/ann\n"),
                ("too long", "", "on and on " * 1000),
            )
        ]
        here = {scored.key: scored for scored in embedded_world_model.score(scorings[:2])}
        there = {scored.key: scored for scored in model.score(scorings)}
        assert there["too long"].failure == "prompt_too_long"
        for key, scored in here.items():
            assert scored.n_tokens == there[key].n_tokens
            # In bfloat16 the companions of a batch move a sum by about one percent.
            assert there[key].logprob == pytest.approx(scored.logprob, rel=0.04)

        shaped = replace(ask("shaped", "pwd", max_tokens=20), answer_pattern="/home/[a-z]{3}")
        assert re.fullmatch("/home/[a-z]{3}", by_key(model, shaped)["shaped"].text or "")

    again = CachedWorldModel(open_world_model(spec, options), path)
    assert by_key(again, *requests) == {completion.key: completion for completion in got}
    assert again.n_generated == 0, "the server is dead by now, and not missed"
    again.close()
