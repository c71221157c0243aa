"""A model behind any OpenAI-compatible server: vLLM, SGLang, or what speaks like them."""

from __future__ import annotations

import asyncio
import os
import queue
import random
import time
from collections.abc import Coroutine, Iterable, Iterator
from concurrent.futures import Future
from threading import Thread
from typing import Any, Literal
from urllib.parse import urlsplit

from trajkit.errors import TrajkitError, alternatives
from trajkit.worldmodel.protocol import Completion, Request
from trajkit.worldmodel.reasoning import failed, judged, one_line, split_reasoning

PatternField = Literal["structured_outputs", "guided_regex", "regex", "none"]
"""How a server takes an answer pattern: vLLM, vLLM before 0.12, SGLang, not at all."""
_FIRST_WAIT_SECONDS = 0.5
_LONGEST_WAIT_SECONDS = 60.0
_CHECK_SECONDS = 30.0
_TOO_LONG = ("context length", "context_length", "max_model_len", "maximum model length")


class HTTPWorldModel:
    """A server, asked by up to `concurrency` requests at a time.

    Answers are yielded as they come. Status 408, 409, 429, 5xx and lost connections are tried
    again with growing waits, `max_retries` times, then counted as `call_failed`. A time-out is
    counted at once: the same prompt would take as long again. Any other 4xx is
    `refused_by_server`, or `prompt_too_long` when the server says so.

    The key is read from TRAJKIT_API_KEY; it is never written anywhere.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        concurrency: int = 32,
        timeout_seconds: float = 600.0,
        max_retries: int = 5,
        pattern_field: PatternField = "structured_outputs",
    ) -> None:
        """Remember the server; the first `generate` looks whether it is there."""
        self.name = f"http:{model}"
        self.engine: str | None = None
        """The fingerprint that the server gives itself, null when it gives none."""
        self._url = url
        self._model = model
        self._concurrency = concurrency
        self._timeout = timeout_seconds
        self._max_retries = max_retries
        self._pattern_field = pattern_field
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        self._client: Any = None

    def generate(self, requests: Iterable[Request]) -> Iterator[Completion]:
        """Yield one completion for each request, as they finish."""
        self._start()
        source = iter(requests)
        done: queue.SimpleQueue[Future[Completion]] = queue.SimpleQueue()
        flying: set[Future[Completion]] = set()
        more = True
        try:
            while more or flying:
                while more and len(flying) < self._concurrency:
                    request = next(source, None)
                    if request is None:
                        more = False
                        break
                    future = self._submit(self._ask(request))
                    flying.add(future)
                    future.add_done_callback(done.put)
                if flying:
                    future = done.get()
                    flying.discard(future)
                    yield future.result()
        finally:
            for future in flying:
                future.cancel()

    def close(self) -> None:
        """Close the connections and end the thread."""
        if self._loop is None or self._thread is None:
            return
        self._submit(self._end_calls()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._loop = self._thread = None

    async def _end_calls(self) -> None:
        calls = asyncio.all_tasks() - {asyncio.current_task()}
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        if self._client is not None:
            await self._client.close()
            self._client = None

    def _submit(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _start(self) -> None:
        if self._client is not None:
            return
        from openai import AsyncOpenAI

        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="trajkit-http", daemon=True)
        self._thread.start()
        self._client = AsyncOpenAI(
            base_url=self._url,
            api_key=os.environ.get("TRAJKIT_API_KEY") or "none",
            max_retries=0,
            timeout=self._timeout,
        )
        try:
            self._submit(self._check()).result()
        except BaseException:
            self.close()
            raise

    async def _check(self) -> None:
        """Raise TrajkitError when no request could succeed: no server, no entry, no such model."""
        import openai

        place = urlsplit(self._url)
        where = f"{place.scheme}://{place.netloc.rpartition('@')[2]}{place.path}"
        try:
            page = await self._client.models.list(timeout=_CHECK_SECONDS)
            served = [model.id for model in page.data]
        except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
            hint = "set TRAJKIT_API_KEY to the key of the server"
            raise TrajkitError(where, f"lets nobody in: {error.status_code}", hint) from None
        except openai.APIConnectionError as error:
            hint = "start the server, or check host and port; the path mostly ends in /v1"
            raise TrajkitError(
                where, f"does not answer: {one_line(error.__cause__ or error)}", hint
            ) from None
        except openai.APIError:
            return  # A server need not list its models.
        if served and self._model not in served:
            hint = f"it serves: {alternatives(served)}"
            raise TrajkitError(where, f"serves no model {self._model!r}", hint)

    async def _ask(self, request: Request) -> Completion:
        import openai

        started = time.monotonic()

        def give_up(failure: str, detail: str) -> Completion:
            return failed(request, failure, detail, seconds=time.monotonic() - started)

        n_tries = 0
        while True:
            n_tries += 1
            try:
                async with asyncio.timeout(self._timeout):
                    reply = await self._call(request)
                return self._read(request, reply, started)
            except (TimeoutError, openai.APITimeoutError):
                return give_up("timeout", f"no answer in {self._timeout:g} s")
            except openai.APIError as error:
                if not _may_pass(error):
                    return give_up(_refusal(error), one_line(error))
                if n_tries > self._max_retries:
                    return give_up("call_failed", f"tried {n_tries} times: {one_line(error)}")
                await asyncio.sleep(_wait(n_tries, error, random.random()))
            except Exception as error:
                return give_up("call_failed", one_line(error))

    async def _call(self, request: Request) -> Any:
        sampling = request.sampling
        body: dict[str, Any] = {}
        if request.answer_pattern is not None and self._pattern_field != "none":
            pattern: Any = request.answer_pattern
            if self._pattern_field == "structured_outputs":
                pattern = {"regex": pattern}
            body[self._pattern_field] = pattern
        return await self._client.chat.completions.create(
            model=self._model,
            messages=[dict(message) for message in request.messages],
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            max_tokens=sampling.max_tokens,
            seed=sampling.seed,
            extra_body=body or None,
        )

    def _read(self, request: Request, reply: Any, started: float) -> Completion:
        self.engine = getattr(reply, "system_fingerprint", None) or self.engine
        seconds = time.monotonic() - started
        if not reply.choices:
            return failed(request, "call_failed", "the reply holds no choice", seconds=seconds)
        choice = reply.choices[0]
        text = choice.message.content or ""
        # vLLM says `reasoning`; SGLang, and vLLM before 0.12, `reasoning_content`.
        reasoning = (
            getattr(choice.message, "reasoning", None)
            or getattr(choice.message, "reasoning_content", None)
            or None
        )
        if reasoning is None:
            reasoning, text = split_reasoning(text)
        return judged(
            request,
            text=text,
            reasoning=reasoning,
            finish_reason=choice.finish_reason,
            n_prompt_tokens=getattr(reply.usage, "prompt_tokens", None),
            n_completion_tokens=getattr(reply.usage, "completion_tokens", None),
            seconds=seconds,
        )


def _may_pass(error: Any) -> bool:
    """Return whether the same request may fare better a little later."""
    status = getattr(error, "status_code", None)
    return status is None or status in {408, 409, 429} or status >= 500


def _refusal(error: Any) -> str:
    too_long = any(words in str(error) for words in _TOO_LONG)
    return "prompt_too_long" if too_long else "refused_by_server"


def _wait(n_tries: int, error: Any, chance: float) -> float:
    """Return how many seconds to wait before the next try: what the server says, else doubling."""
    response = getattr(error, "response", None)
    asked = response.headers.get("retry-after", "") if response is not None else ""
    if asked.isdecimal():
        return min(float(asked), _LONGEST_WAIT_SECONDS)
    longest = min(_FIRST_WAIT_SECONDS * 2.0**n_tries, _LONGEST_WAIT_SECONDS)
    return longest * (0.5 + chance / 2)
