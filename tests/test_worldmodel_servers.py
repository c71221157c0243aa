"""Many servers of one model: work moves away from dead ones and comes back to mended ones."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import pytest
from openai_server import OpenAIServer, Reply, ask, by_key

from trajkit.errors import TrajkitError
from trajkit.worldmodel import EngineOptions, Request, Scoring, WorldModel, open_world_model
from trajkit.worldmodel.http import HTTPWorldModel

BROKEN = Reply(status=500, error="engine is dead", retry_after="0")


@pytest.fixture
def opened() -> Iterator[list[WorldModel]]:
    """World models to be closed when the test ends."""
    models: list[WorldModel] = []
    yield models
    for model in models:
        model.close()


def client(opened: list[WorldModel], *servers: OpenAIServer, **options: object) -> WorldModel:
    spec = ",".join(server.url for server in servers) + "#my-model"
    model = open_world_model(spec, EngineOptions(**options))  # type: ignore[arg-type]
    opened.append(model)
    return model


def slowly(n: int, seconds: float) -> dict[str, list[Reply]]:
    return {str(k): [Reply(content=f"echo {k}", delay_seconds=seconds)] for k in range(n)}


def test_work_is_spread_by_who_is_least_busy_and_bounded_over_all(
    opened: list[WorldModel],
) -> None:
    with OpenAIServer(slowly(40, 0.2)) as slow, OpenAIServer(slowly(40, 0.02)) as fast:
        model = client(opened, slow, fast, concurrency=6)
        got = by_key(model, *(ask(str(k)) for k in range(40)))
    assert {key: completion.text for key, completion in got.items()} == {
        str(k): f"echo {k}" for k in range(40)
    }
    assert slow.most_at_once + fast.most_at_once <= 8
    assert len(fast.bodies) > 2 * len(slow.bodies) > 0


def test_the_work_of_a_server_killed_in_mid_run_moves_to_the_living_one(
    opened: list[WorldModel],
) -> None:
    replies = slowly(60, 0.05)
    with OpenAIServer(replies) as living:
        with OpenAIServer(replies) as dying:
            model = client(opened, living, dying, concurrency=8)
            completions = model.generate(ask(str(k)) for k in range(60))
            got = [next(completions) for _ in range(12)]
            assert dying.bodies
        got += completions
        n_dead = len(dying.bodies)
    assert sorted(int(completion.key) for completion in got) == list(range(60))
    assert all(completion.text == f"echo {completion.key}" for completion in got)
    assert n_dead < 20
    assert 60 <= len(living.bodies) + n_dead <= 60 + 8, "only what was under way is asked again"
    assert max(living.n_calls.values()) == 1


def test_a_server_that_comes_back_is_used_again(opened: list[WorldModel]) -> None:
    with OpenAIServer() as reserved:
        port = reserved.port
    with OpenAIServer() as living:
        model = client(opened, living, reserved)
        completions = model.generate(ask(str(k)) for k in itertools.count())
        for _ in range(100):
            assert next(completions).failure is None
        with OpenAIServer(port=port) as back:
            for completion in completions:
                assert completion.failure is None
                if len(back.bodies) >= 50:
                    break
            completions.close()  # type: ignore[attr-defined]


def test_when_all_are_dead_they_are_waited_for(opened: list[WorldModel]) -> None:
    with OpenAIServer(slowly(20, 0.05)) as first:
        model = client(opened, first, concurrency=4)
        completions = model.generate(ask(str(k)) for k in range(20))
        got = [next(completions)]
    with OpenAIServer(port=first.port) as again:
        got += completions
    assert all(completion.text == f"echo {completion.key}" for completion in got)
    assert sorted(int(completion.key) for completion in got) == list(range(20))
    assert len(first.bodies) + len(again.bodies) <= 20 + 4


def test_servers_that_stay_dead_are_waited_for_once_and_the_rest_is_counted(
    opened: list[WorldModel],
) -> None:
    with OpenAIServer() as first, OpenAIServer() as second:
        model = client(opened, first, second, max_retries=1, concurrency=2)
        assert by_key(model, ask("x"))["x"].text == "echo x"
    started = time.monotonic()
    got = by_key(model, *(ask(str(k)) for k in range(30))).values()
    assert {completion.failure for completion in got} == {"call_failed"}
    assert all("no server is left" in (completion.failure_detail or "") for completion in got)
    assert 0.9 < time.monotonic() - started < 12, "one wait of a second for all, not fifteen"


def test_a_server_that_fails_every_request_is_set_aside(opened: list[WorldModel]) -> None:
    with OpenAIServer({str(k): [BROKEN] for k in range(80)}) as broken, OpenAIServer() as fine:
        model = client(opened, broken, fine, concurrency=4)
        got = by_key(model, *(ask(str(k)) for k in range(80)))
    assert all(completion.text == f"echo {key}" for key, completion in got.items())
    assert 3 <= len(broken.bodies) <= 20


def test_a_server_that_falls_silent_loses_its_work_to_another(opened: list[WorldModel]) -> None:
    silent_replies = {str(k): [Reply(delay_seconds=60)] for k in range(6)}
    with OpenAIServer(silent_replies) as silent, OpenAIServer() as fine:
        model = client(opened, silent, fine, timeout_seconds=0.5)
        assert by_key(model, ask("hello"))["hello"].text == "echo hello"
        silent.is_silent = True
        got = by_key(model, *(ask(str(k)) for k in range(6)))
    assert [got[str(k)].text for k in range(6)] == [f"echo {k}" for k in range(6)]
    assert silent.bodies


def test_one_living_server_is_enough_to_start_and_none_is_said_with_all_names() -> None:
    with OpenAIServer() as gone, OpenAIServer() as gone_too:
        pass
    model = HTTPWorldModel([gone.url, gone_too.url], "my-model")
    with pytest.raises(TrajkitError) as caught:
        next(model.generate([ask("x")]))
    assert str(caught.value).startswith(f"{gone.url}, {gone_too.url}: does not answer: ")


def test_one_server_with_another_model_is_a_mistake_that_is_said() -> None:
    with OpenAIServer() as right, OpenAIServer() as wrong:
        wrong.model = "another"
        with pytest.raises(TrajkitError) as caught:
            next(HTTPWorldModel([right.url, wrong.url], "my-model").generate([ask("x")]))
    assert caught.value.where == wrong.url
    assert caught.value.hint == "it serves: another"


def test_a_server_without_a_token_interface_refuses_scores_and_counts_nothing(
    opened: list[WorldModel],
) -> None:
    with OpenAIServer() as server:
        model = client(opened, server)
        scoring = Scoring(key="a", messages=ask("x").messages, prefix="", continuation="y")
        (scored,) = model.score([scoring])
        assert (scored.failure, scored.logprob) == ("refused_by_server", None)
        assert model.count_tokens(ask("x").messages) is None
        assert model.max_model_len is None
    limited = HTTPWorldModel([server.url], "my-model", max_model_len=77)
    assert limited.max_model_len == 77, "what the user says needs no server"


@pytest.mark.parametrize("n_servers", [1, 2])
def test_no_more_than_the_agreed_number_of_requests_is_under_way_or_read(
    opened: list[WorldModel], n_servers: int
) -> None:
    read = 0

    def requests() -> Iterator[Request]:
        nonlocal read
        for number in range(12):
            read += 1
            yield ask(str(number))

    with OpenAIServer(slowly(12, 0.05)) as one, OpenAIServer(slowly(12, 0.05)) as other:
        servers = (one, other)[:n_servers]
        completions = client(opened, *servers, concurrency=3).generate(requests())
        next(completions)
        assert read == 3, "requests are read as there is room for them"
        assert len(list(completions)) == 11
    if n_servers == 1:
        assert one.most_at_once == 3
