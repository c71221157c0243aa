"""Recordings of completions: written as a run goes, taken up again, replayed."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from openai_server import OpenAIServer, Reply, ask, by_key

from trajkit.errors import TrajkitError
from trajkit.worldmodel import (
    CachedWorldModel,
    Completion,
    Request,
    Scored,
    Scoring,
    open_world_model,
)
from trajkit.worldmodel.http import HTTPWorldModel
from trajkit.worldmodel.protocol import FAILURES, LASTING_FAILURES
from trajkit.worldmodel.recording import request_hash

BROKEN = Reply(status=500, retry_after="0")


def cached(server: OpenAIServer, path: Path, **options: object) -> CachedWorldModel:
    model = HTTPWorldModel([server.url], server.model, **options)  # type: ignore[arg-type]
    return CachedWorldModel(model, path)


def test_a_second_run_asks_nothing_and_leaves_the_same_bytes(tmp_path: Path) -> None:
    """Case VL03: no run is the same bit for bit, so what one run was told is kept and reused."""
    path = tmp_path / "answers.jsonl"
    requests = [ask("a"), ask("b", "<think>x"), ask("c", "same", seed=1), ask("d", "same", seed=2)]
    with OpenAIServer() as server:
        first = cached(server, path)
        before = by_key(first, *requests)
        first.close()
        raw = path.read_bytes()
        second = cached(server, path)
        after = by_key(second, *reversed(requests))
        second.close()
    assert after == before
    assert (first.n_generated, first.n_reused) == (4, 0)
    assert (second.n_generated, second.n_reused) == (0, 4)
    assert len(server.bodies) == 4
    assert path.read_bytes() == raw
    first_line = orjson.loads(raw.partition(b"\n")[0])
    assert (first_line["model"], first_line["engine"]) == ("http:my-model", "loopback-1")
    assert first_line["sampling"]["temperature"] == 0.6
    assert len(first_line["request"]) == 64


def test_a_run_that_finds_every_answer_needs_no_server(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    with OpenAIServer() as server:
        first = cached(server, path)
        before = by_key(first, ask("a"), ask("b"))
        first.close()
    second = cached(server, path)
    assert by_key(second, ask("a"), ask("b")) == before
    second.close()


def test_a_changed_input_and_a_torn_line_cost_only_what_is_new(tmp_path: Path) -> None:
    """Case VL04: found again by content and occurrence, never by the number of a row."""
    path = tmp_path / "answers.jsonl"
    with OpenAIServer() as server:
        first = cached(server, path)
        by_key(first, ask("0", "alpha"), ask("1", "beta"))
        first.close()
        with path.open("ab") as file:
            file.write(b'{"model":"http:my-model","request":"00ff","occurrence":0,"te')
        n_before = len(server.bodies)
        second = cached(server, path)
        texts = ["NEW", "alpha", "beta", "beta", "gamma"]
        got = by_key(second, *(ask(str(n), text) for n, text in enumerate(texts)))
        second.close()
        assert sorted(server.prompts[n_before:]) == ["NEW", "beta", "gamma"]
    assert [got[str(n)].text for n in range(5)] == [f"echo {text}" for text in texts]
    lines = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    assert len(lines) == 5
    assert len({(line["request"], line["occurrence"]) for line in lines}) == 5


def test_other_sampling_or_another_pattern_is_another_request(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    same = ask("x")
    others = [
        replace(same, sampling=replace(same.sampling, **{name: value}))
        for name, value in [("temperature", 0.1), ("top_p", 0.5), ("max_tokens", 7), ("seed", 3)]
    ]
    others += [
        replace(same, answer_pattern="a+"),
        replace(same, messages=same.messages[1:]),
        replace(same, messages=({"role": "user", "content": "You are a terminal."},)),
    ]
    assert len({request_hash(request) for request in [same, *others]}) == 8
    assert request_hash(same) == request_hash(replace(same, key="other"))
    with OpenAIServer() as server:
        first = cached(server, path)
        by_key(first, same)
        first.close()
        second = cached(server, path)
        by_key(second, *(replace(r, key=str(n)) for n, r in enumerate([*others, same])))
        second.close()
    assert (second.n_generated, second.n_reused) == (7, 1)


def test_only_answers_and_lasting_failures_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    limit = Reply(status=400, error="maximum context length is 4096")
    replies = {"broken": [BROKEN, Reply(content="mended")], "long": [limit]}
    with OpenAIServer(replies) as server:
        first = cached(server, path, max_retries=0)
        before = by_key(first, ask("broken"), ask("long"), ask("fine"))
        first.close()
        second = cached(server, path, max_retries=0)
        after = by_key(second, ask("broken"), ask("long"), ask("fine"))
        second.close()
    assert before["broken"].failure == "call_failed"
    assert after["broken"].text == "mended"
    assert before["long"].failure == "prompt_too_long"
    assert after["long"] == before["long"]
    assert second.n_generated == 1
    assert FAILURES.keys() > LASTING_FAILURES


_RUN = """
import sys
from trajkit.worldmodel import (
    CachedWorldModel, EngineOptions, Request, Sampling, open_world_model
)
from pathlib import Path
inner = open_world_model(sys.argv[1], EngineOptions(concurrency=1))
model = CachedWorldModel(inner, Path(sys.argv[2]))
requests = (
    Request(key=str(n), messages=({"role": "user", "content": f"prompt {n}"},), sampling=Sampling())
    for n in range(6)
)
for completion in model.generate(requests):
    pass
"""


def test_what_a_killed_run_was_told_is_not_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    replies = {f"prompt {n}": [Reply(content=f"answer {n}", delay_seconds=0.1)] for n in range(6)}
    with OpenAIServer(replies) as server:
        command = [sys.executable, "-c", _RUN, server.spec, str(path)]
        run = subprocess.Popen(command)
        deadline = time.monotonic() + 60
        while not path.exists() or path.read_bytes().count(b"\n") < 3:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        run.send_signal(signal.SIGKILL)
        run.wait()
        n_kept = path.read_bytes().count(b"\n")
        n_asked = len(server.bodies)
        assert 3 <= n_kept <= n_asked < 6
        subprocess.run(command, check=True, timeout=60)
        assert len(server.bodies) == n_asked + (6 - n_kept)
    texts = {orjson.loads(line)["text"] for line in path.read_bytes().splitlines()}
    assert texts == {f"answer {n}" for n in range(6)}


def test_recorded_answers_come_before_all_requests_are_read(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    with OpenAIServer() as server:
        first = cached(server, path)
        by_key(first, ask("a"))
        first.close()
        endless = (ask("a") if n == 0 else ask(f"new {n}") for n in itertools.count())
        second = cached(server, path, concurrency=2)
        completions = second.generate(endless)
        assert next(completions).key == "a"
        assert len(server.bodies) == 1
        assert next(completions).text
        completions.close()  # type: ignore[attr-defined]
        second.close()


def test_a_recorded_answer_after_the_last_new_one_still_comes(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    with OpenAIServer() as server:
        first = cached(server, path)
        by_key(first, ask("old"))
        first.close()
        second = cached(server, path, concurrency=1)
        got = by_key(second, ask("new"), ask("old"))
        second.close()
    assert (got["new"].text, got["old"].text) == ("echo new", "echo old")


def test_two_new_requests_with_one_key_are_a_mistake_of_the_caller(tmp_path: Path) -> None:
    with OpenAIServer() as server:
        model = cached(server, tmp_path / "answers.jsonl", concurrency=8)
        with pytest.raises(ValueError, match="two requests have the key 'a'"):
            list(model.generate([ask("a", "one"), ask("a", "two")]))
        model.close()


def test_a_recording_is_written_by_one_run_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    with OpenAIServer() as server:
        first = cached(server, path)
        with pytest.raises(TrajkitError, match="is being written by another process"):
            cached(server, path)
        first.close()
        cached(server, path).close()


@pytest.mark.parametrize(
    "line",
    [
        b"not json",
        b"[1]",
        b'{"model": "m"}',
        b'{"model": "m", "request": "no hash", "occurrence": 0, "text": "x"}',
    ],
)
def test_a_file_that_is_no_recording_is_left_alone(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_bytes(line + b"\n")
    with OpenAIServer() as server, pytest.raises(TrajkitError) as caught:
        cached(server, path)
    assert caught.value.where == f"{path}:1"
    with pytest.raises(TrajkitError):
        open_world_model(f"replay:{path}")
    assert path.read_bytes() == line + b"\n"


def test_a_replay_gives_what_was_recorded_and_counts_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    replies = {"twice": [Reply(content="first"), Reply(content="second")]}
    with OpenAIServer(replies) as server:
        model = cached(server, path, concurrency=1)
        before = by_key(model, ask("a"), ask("x", "twice"), ask("y", "twice"))
        model.close()
    replay = open_world_model(f"replay:{path}")
    again = by_key(replay, ask("x", "twice"), ask("y", "twice"), ask("a"), ask("new"))
    replay.close()
    assert (replay.name, replay.engine) == ("http:my-model", "loopback-1")
    assert again["new"].failure == "not_recorded"
    assert {key: again[key] for key in before} == before
    assert [again["x"].text, again["y"].text] == ["first", "second"]


class Fixed:
    """A world model with fixed scores and counts, which says how often it was asked."""

    name = "fixed"
    engine = "none"

    def __init__(self) -> None:
        self.n_scored = 0
        self.n_counted = 0
        self.limit: int | None = 100

    @property
    def max_model_len(self) -> int | None:
        if self.limit is None:
            raise TrajkitError("fixed", "is out of reach")
        return self.limit

    def count_tokens(self, messages: Iterable[Mapping[str, str]]) -> int | None:
        self.n_counted += 1
        return sum(len(message["content"]) for message in messages)

    def generate(self, requests: Iterable[Request]) -> Iterator[Completion]:
        raise AssertionError("nothing is to be generated")

    def score(self, scorings: Iterable[Scoring]) -> Iterator[Scored]:
        for scoring in scorings:
            self.n_scored += 1
            if scoring.continuation == "too long":
                yield Scored(key=scoring.key, logprob=None, failure="prompt_too_long")
            elif scoring.continuation == "lost":
                yield Scored(key=scoring.key, logprob=None, failure="call_failed")
            else:
                yield Scored(key=scoring.key, logprob=-0.5 * self.n_scored, n_tokens=2)

    def close(self) -> None:
        """Holds nothing."""


def test_scores_and_counts_are_recorded_beside_answers_and_replayed(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    with OpenAIServer() as server:
        server.model = "fixed"
        for_answers = HTTPWorldModel([server.url], "fixed")
        for_answers.name = "fixed"
        model = CachedWorldModel(for_answers, path)
        answer = by_key(model, ask("a"))["a"]
        model.close()
    prompt = ask("a").messages
    texts = [("", "text"), ("behind a prefix", "text"), ("", "too long"), ("", "lost")]
    scorings = [
        Scoring(key=str(n), messages=prompt, prefix=prefix, continuation=text)
        for n, (prefix, text) in enumerate(texts)
    ]
    inner = Fixed()
    first = CachedWorldModel(inner, path)
    before = {scored.key: scored for scored in first.score(scorings)}
    assert first.count_tokens(prompt) == first.count_tokens(iter(prompt)) == 20
    first.close()
    assert (inner.n_scored, inner.n_counted) == (4, 1)

    inner.limit = None
    second = CachedWorldModel(inner, path)
    after = {scored.key: scored for scored in second.score(reversed(scorings))}
    assert {key: after[key] for key in "012"} == {key: before[key] for key in "012"}
    assert (second.n_generated, second.n_reused) == (1, 3), "a lost call is made again"
    assert second.count_tokens(prompt) == 20
    assert (second.max_model_len, inner.n_counted) == (100, 1)
    second.close()

    replay = open_world_model(f"replay:{path}")
    assert by_key(replay, ask("a"))["a"] == answer
    replayed = {scored.key: scored for scored in replay.score(scorings)}
    assert {key: replayed[key] for key in "012"} == {key: before[key] for key in "012"}
    assert replayed["3"].failure == "not_recorded"
    assert replay.max_model_len == 100
    assert replay.count_tokens(prompt) == 20
    assert replay.count_tokens(ask("never counted").messages) is None
    replay.close()


def test_a_recording_of_several_models_is_not_replayed(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    with OpenAIServer() as server:
        for name in ("my-model", "other-model"):
            server.model = name
            model = cached(server, path)
            by_key(model, ask("a"))
            model.close()
            assert model.n_generated == 1, "one model's answer is not another's"
    with pytest.raises(TrajkitError, match="several models: http:my-model, http:other-model"):
        open_world_model(f"replay:{path}")
