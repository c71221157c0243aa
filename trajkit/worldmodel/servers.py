"""Several servers of one model: the least busy one is asked, dead ones are set aside."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit

from trajkit.errors import TrajkitError, alternatives
from trajkit.worldmodel.reasoning import one_line

_FIRST_WAIT_SECONDS = 0.5
_LONGEST_WAIT_SECONDS = 60.0
_CONNECT_SECONDS = 10.0
_CHECK_SECONDS = 30.0
_MOST_STRIKES = 3
"""Failures in a row, on any requests, after which a server is set aside."""


_TOO_LONG = ("context length", "context_length", "max_model_len", "maximum model length")
_T = TypeVar("_T")


class CallError(Exception):
    """A call that got no answer, with the reason slug and a detail."""

    def __init__(self, failure: str, detail: str) -> None:
        """Remember both."""
        super().__init__(failure, detail)
        self.failure = failure
        self.detail = detail


class Server:
    """One server and what is known of it."""

    def __init__(self, url: str, timeout_seconds: float) -> None:
        """Make the client; no connection is opened yet."""
        from openai import AsyncOpenAI, Timeout

        place = urlsplit(url)
        self.where = f"{place.scheme}://{place.netloc.rpartition('@')[2]}{place.path}"
        """Its address without user and password."""
        self.root = url.rstrip("/").removesuffix("/v1")
        """Where vLLM and SGLang have what the OpenAI interface lacks."""
        self.client: Any = AsyncOpenAI(
            base_url=url,
            api_key=os.environ.get("TRAJKIT_API_KEY") or "none",
            max_retries=0,
            timeout=Timeout(timeout_seconds, connect=min(timeout_seconds, _CONNECT_SECONDS)),
        )
        self.alive = True
        self.n_flying = 0
        self.n_strikes = 0
        self.wait_seconds = _FIRST_WAIT_SECONDS
        """How long it rests before the next look at it; doubles until it answers a request."""
        self.max_model_len: int | None = None


class Servers:
    """Servers of one model.

    A server that takes no connection, or fails three times in a row, is set aside and looked at
    again with growing waits. What it was asked goes to the others. When none is left, all who wait
    for one wait together, as long as all retries of one call would take; from then on calls fail
    at once, until a server is back.
    """

    def __init__(
        self, urls: Sequence[str], model: str, *, timeout_seconds: float, max_retries: int
    ) -> None:
        """Remember the servers; nothing is called yet."""
        self.all = [Server(url, timeout_seconds) for url in urls]
        self._model = model
        self._timeout = timeout_seconds
        self._max_retries = max_retries
        self._patience = sum(_longest_wait(n) for n in range(1, max_retries + 1))
        self._probes: set[asyncio.Task[None]] = set()
        self._any_alive = asyncio.Event()
        self._any_alive.set()
        self._dark_since = 0.0

    async def open(self) -> None:
        """Look at every server; raise TrajkitError when no request could succeed anywhere."""
        import openai

        checks = (self._check(server) for server in self.all)
        errors = await asyncio.gather(*checks, return_exceptions=True)
        broken = [error for error in errors if error is not None]
        for error in broken:
            if not isinstance(error, openai.APIError):
                raise error
        if len(broken) == len(self.all):
            where = ", ".join(server.where for server in self.all)
            cause = broken[0].__cause__ or broken[0]
            hint = "start the server, or check host and port; the path mostly ends in /v1"
            raise TrajkitError(where, f"does not answer: {one_line(cause)}", hint)
        for server, missing in zip(self.all, errors, strict=True):
            if missing is not None:
                self._set_aside(server)

    async def close(self) -> None:
        """Close all connections and look at no server any more."""
        for probe in self._probes:
            probe.cancel()
        await asyncio.gather(*self._probes, return_exceptions=True)
        await asyncio.gather(*(server.client.close() for server in self.all))

    async def call(self, what: Callable[[Server], Awaitable[_T]]) -> _T:
        """Return what a server answers, after as many tries as a call may take.

        Raises CallError when none does, or when the answer is that none ever will.
        """
        import openai

        n_tries = 0
        unreachable: set[Server] = set()
        server: Server | None = None
        last = ""
        while True:
            server = await self._take(but=server, last=last)
            n_tries += 1
            server.n_flying += 1
            try:
                async with asyncio.timeout(self._timeout):
                    answer = await what(server)
                self._answered(server)
                return answer
            except openai.APIConnectionError as error:
                if isinstance(error, openai.APITimeoutError) and _was_taken(error):
                    await self._timed_out(server)
                last = one_line(error.__cause__ or error)
                if _was_taken(error):
                    self._struck(server)
                else:
                    self._set_aside(server)
                    if server not in unreachable:
                        n_tries -= 1  # Nobody was asked.
                        unreachable.add(server)
                wait = _wait(n_tries, None) if self._is_last(server) else 0.0
            except TimeoutError:
                await self._timed_out(server)
                last, wait = "silent", 0.0
            except openai.APIError as error:
                if not _may_pass(error):
                    self._answered(server)
                    raise CallError(_refusal(error), one_line(error)) from None
                last = one_line(error)
                if getattr(error, "status_code", 500) >= 500:
                    self._struck(server)
                wait = _wait(n_tries, error)
            except Exception as error:
                raise CallError("call_failed", one_line(error)) from None
            finally:
                server.n_flying -= 1
            if n_tries > self._max_retries:
                raise CallError("call_failed", f"tried {n_tries} times: {last}")
            await asyncio.sleep(wait)

    async def _take(self, *, but: Server | None, last: str) -> Server:
        """Return the least busy living server, not `but` where there is another."""
        while not (living := [server for server in self.all if server.alive]):
            left = self._dark_since + self._patience - time.monotonic()
            try:
                await asyncio.wait_for(self._any_alive.wait(), left)
            except TimeoutError:
                raise CallError("call_failed", f"no server is left: {last}".rstrip(": ")) from None
        return min(living, key=lambda server: (server is but, server.n_flying))

    async def _timed_out(self, server: Server) -> None:
        """Give the call up when the server lives, else set the server aside."""
        import openai

        try:
            await self._check(server)
        except openai.APIError:
            self._set_aside(server)
        else:
            raise CallError("timeout", f"no answer in {self._timeout:g} s")

    def _is_last(self, server: Server) -> bool:
        """Return whether a server that failed a call is still the one to ask."""
        return server.alive and not any(other.alive for other in self.all if other is not server)

    def _answered(self, server: Server) -> None:
        """Note an answer: whatever was held against the server is forgotten."""
        server.n_strikes = 0
        server.wait_seconds = _FIRST_WAIT_SECONDS

    def _struck(self, server: Server) -> None:
        """Note a failure that is the server's; too many in a row and it is set aside."""
        server.n_strikes += 1
        if server.n_strikes >= _MOST_STRIKES:
            self._set_aside(server)

    def _set_aside(self, server: Server) -> None:
        if not server.alive:
            return
        server.alive = False
        if not any(other.alive for other in self.all):
            self._any_alive.clear()
            self._dark_since = time.monotonic()
        probe = asyncio.create_task(self._probe(server))
        self._probes.add(probe)
        probe.add_done_callback(self._probes.discard)

    async def _probe(self, server: Server) -> None:
        while True:
            await asyncio.sleep(server.wait_seconds * (0.5 + random.random() / 2))
            server.wait_seconds = min(server.wait_seconds * 2, _LONGEST_WAIT_SECONDS)
            try:
                await self._check(server)
            except Exception:
                continue  # Not there, not ready, or with another model by now.
            server.alive = True
            server.n_strikes = 0
            self._any_alive.set()
            return

    async def _check(self, server: Server) -> None:
        """Raise when a server is not there, lets nobody in or serves other models.

        A server need not list its models: any other answer of it will do, but for its own faults.
        """
        import openai

        try:
            page = await server.client.models.list(timeout=min(self._timeout, _CHECK_SECONDS))
        except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
            hint = "set TRAJKIT_API_KEY to the key of the server"
            raise TrajkitError(server.where, f"lets nobody in: {error.status_code}", hint) from None
        except (openai.APIConnectionError, openai.InternalServerError):
            raise
        except openai.APIError:
            return
        served = {model.id: model for model in page.data}
        if served and self._model not in served:
            hint = f"it serves: {alternatives(served)}"
            raise TrajkitError(server.where, f"serves no model {self._model!r}", hint)
        if served:
            server.max_model_len = getattr(served[self._model], "max_model_len", None)


def _was_taken(error: BaseException) -> bool:
    """Return whether a lost call had reached its server.

    By name: the client has its errors from one of two packages, as its version goes.
    """
    return type(error.__cause__).__name__ not in {"ConnectError", "ConnectTimeout"}


def _may_pass(error: Any) -> bool:
    """Return whether the same request may fare better a little later."""
    status = getattr(error, "status_code", None)
    return status is None or status in {408, 409, 429} or status >= 500


def _refusal(error: Any) -> str:
    too_long = any(words in str(error) for words in _TOO_LONG)
    return "prompt_too_long" if too_long else "refused_by_server"


def _longest_wait(n_tries: int) -> float:
    return float(min(_FIRST_WAIT_SECONDS * 2.0**n_tries, _LONGEST_WAIT_SECONDS))


def _wait(n_tries: int, error: Any) -> float:
    """Return how many seconds to wait before the next try: what the server says, else doubling."""
    response = getattr(error, "response", None)
    asked = response.headers.get("retry-after", "") if response is not None else ""
    if asked.isdecimal():
        return min(float(asked), _LONGEST_WAIT_SECONDS)
    return _longest_wait(n_tries) * (0.5 + random.random() / 2)
