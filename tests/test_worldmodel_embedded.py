"""The embedded model through vLLM: the real engine, started once."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from openai_server import by_key

from trajkit.worldmodel import (
    CachedWorldModel,
    Request,
    Sampling,
    Scoring,
    WorldModel,
    open_world_model,
)

SHORT = Sampling(max_tokens=12)
ANSWER = r"<predicted_observation>\n[a-z ]{0,20}\n</predicted_observation>"
PATTERN = rf"<think>\n[^<>]{{20,60}}\n</think>\n\n{ANSWER}"


def ask(key: str, content: str, sampling: Sampling = SHORT) -> Request:
    system = {"role": "system", "content": "You are a terminal."}
    messages = (system, {"role": "user", "content": content})
    return Request(key=key, messages=messages, sampling=sampling)


class Borrowed:
    """The model of the session, which its borrower must not close."""

    def __init__(self, model: WorldModel) -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def close(self) -> None:
        """Leaves the engine running."""


def test_two_processes_that_unpack_at_once_get_the_same_whole_model(
    embedded_cache: tuple[Path, list[str]],
) -> None:
    cache, found = embedded_cache
    folder = Path(found[0])
    assert found == [str(folder)] * 2
    assert folder.parent == cache
    assert {path.name for path in cache.iterdir()} == {folder.name, "SmolLM2-135M-Instruct.lock"}
    assert (folder / "model.safetensors").stat().st_size > 200_000_000
    assert "<|im_start|>" in (folder / "chat_template.jinja").read_text()


def test_each_request_gets_its_own_answer_and_bad_ones_are_counted(
    embedded_world_model: WorldModel,
) -> None:
    """Case VL01: one prompt too long, or empty, costs no other its answer or its place."""
    too_long = "the log goes on and on " * 2000
    got = by_key(
        embedded_world_model,
        ask("short", "short"),
        ask("long", too_long),
        replace(ask("no pattern", "x"), answer_pattern="(["),
        ask("another", "another short one"),
        ask("empty", ""),
    )
    assert got["long"].failure == "prompt_too_long"
    assert "max_model_len=4096" in (got["long"].failure_detail or "")
    assert (got["long"].n_prompt_tokens or 0) > 4096
    assert got["no pattern"].failure == "call_failed"
    assert got["empty"].failure == "empty_prompt"
    for key in ("short", "another"):
        assert got[key].failure in (None, "cut_answer")
        assert 1 <= (got[key].n_completion_tokens or 0) <= 12
    lengths = [got[key].n_prompt_tokens or 0 for key in ("short", "another")]
    assert lengths == sorted(set(lengths)), "each answer belongs to its own prompt"
    assert (embedded_world_model.engine or "").startswith("vllm ")


def test_max_tokens_is_never_shrunk_to_make_a_prompt_fit(embedded_world_model: WorldModel) -> None:
    fits = ask("fits", "x", replace(SHORT, max_tokens=12))
    n_prompt = by_key(embedded_world_model, fits)["fits"].n_prompt_tokens or 0
    over = ask("over", "x", Sampling(max_tokens=4096 - n_prompt + 1))
    got = by_key(embedded_world_model, over)["over"]
    assert (got.failure, got.n_completion_tokens) == ("prompt_too_long", None)


def test_an_answer_keeps_to_its_pattern(embedded_world_model: WorldModel) -> None:
    sampling = Sampling(max_tokens=90)
    requests = [
        replace(ask(str(n), "ls", replace(sampling, seed=n)), answer_pattern=PATTERN)
        for n in range(3)
    ]
    got = by_key(embedded_world_model, *requests).values()
    answers = [completion for completion in got if completion.failure is None]
    assert answers, [completion.failure_detail for completion in got]
    for completion in answers:
        assert re.fullmatch(ANSWER, completion.text or "")
        assert 0 < len(completion.reasoning or "") <= 60


def test_an_answer_that_max_tokens_cuts_is_no_answer(embedded_world_model: WorldModel) -> None:
    request = ask("cut", "Count from one to one hundred.", Sampling(max_tokens=3))
    got = by_key(embedded_world_model, request)["cut"]
    assert (got.text, got.failure, got.finish_reason) == (None, "cut_answer", "length")


def test_a_second_run_asks_nothing_and_starts_no_engine(
    embedded_world_model: WorldModel, tmp_path: Path
) -> None:
    path = tmp_path / "completions.jsonl"
    requests = [ask("a", "pwd"), ask("b", "ls"), ask("c", "pwd")]

    first = CachedWorldModel(Borrowed(embedded_world_model), path)
    before = by_key(first, *requests)
    first.close()
    assert (first.n_generated, first.n_reused) == (3, 0)
    raw = path.read_bytes()

    unstarted = open_world_model("embedded")
    second = CachedWorldModel(unstarted, path)
    after = by_key(second, *reversed(requests))
    second.close()
    assert (second.n_generated, second.n_reused) == (0, 3)
    assert unstarted.engine is None
    assert path.read_bytes() == raw
    assert after["b"] == before["b"]

    replayed = open_world_model(f"replay:{path}")
    assert by_key(replayed, *requests) == before
    assert replayed.name == "embedded:SmolLM2-135M-Instruct"
    replayed.close()


def test_a_request_that_breaks_the_engine_costs_no_other_its_answer(
    embedded_world_model: WorldModel,
) -> None:
    # No random generator takes such a seed, and the engine finds out in the middle of a batch.
    poison = ask("poison", "ls", replace(SHORT, seed=2**70))
    got = by_key(embedded_world_model, ask("a", "ls"), poison, ask("b", "pwd"))
    assert got["poison"].failure == "call_failed"
    assert {got["a"].failure, got["b"].failure} <= {None, "cut_answer"}
    assert by_key(embedded_world_model, ask("later", "ls"))["later"].n_completion_tokens


def shuffled(text: str) -> str:
    words = text.split(" ")
    random.Random(1).shuffle(words)
    return " ".join(words)


def test_a_text_scores_the_same_twice_and_the_models_own_words_score_best(
    embedded_world_model: WorldModel,
) -> None:
    prompt = ask("x", "What does the command pwd print?", Sampling(max_tokens=60, temperature=0))
    own = by_key(embedded_world_model, prompt)["x"].text or ""
    assert len(own.split()) > 4
    thoughts = "<think>\nThe working directory.\n</think>\n\n"
    scorings = [
        Scoring(key=key, messages=prompt.messages, prefix=prefix, continuation=text)
        for key, prefix, text in (
            ("own", "", own),
            ("shuffled", "", shuffled(own)),
            ("behind thoughts", thoughts, own),
            ("nothing", thoughts, ""),
            ("too long", "", "the log goes on " * 2000),
        )
    ]
    first = {scored.key: scored for scored in embedded_world_model.score(scorings)}
    again = {scored.key: scored for scored in embedded_world_model.score(scorings[::-1])}
    assert first.keys() == again.keys() == {scoring.key for scoring in scorings}
    assert first["too long"].failure == "prompt_too_long"
    assert (first["nothing"].logprob, first["nothing"].n_tokens) == (0.0, 0)
    for key in ("own", "shuffled", "behind thoughts"):
        assert abs(logprob(first[key]) - logprob(again[key])) < 1e-2
        assert (first[key].n_tokens or 0) >= len(own.split())
    assert logprob(first["own"]) > logprob(first["shuffled"]) + 5
    assert logprob(first["own"]) != logprob(first["behind thoughts"])


def logprob(scored: Any) -> float:
    assert scored.failure is None, scored.failure_detail
    assert scored.logprob <= 0
    return float(scored.logprob)


def test_a_prompt_is_counted_as_the_engine_will_count_it(embedded_world_model: WorldModel) -> None:
    request = ask("x", "ls -la /home/ann")
    counted = embedded_world_model.count_tokens(request.messages)
    assert counted == by_key(embedded_world_model, request)["x"].n_prompt_tokens
    assert embedded_world_model.max_model_len == 4096
    unstarted = open_world_model("embedded")
    assert unstarted.count_tokens(request.messages) == counted
    assert unstarted.engine is None, "counting starts no engine"


def test_a_second_call_before_the_first_is_read_is_a_mistake_of_the_caller(
    embedded_world_model: WorldModel,
) -> None:
    first = embedded_world_model.generate([ask("a", "ls"), ask("b", "pwd")])
    next(first)
    with pytest.raises(RuntimeError, match="not read to its end"):
        next(embedded_world_model.generate([ask("c", "ls")]))
    assert len(list(first)) == 1
