"""Rows with rationales, from store to Parquet: both roads, judge, gain, long prompts, order."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from chats import chat, cut
from jinja2 import Environment
from openai_server import Reply
from test_sft import VALUES, WHY, laid_out, right, rows_of, server, store

from trajkit.builders.sft import Options, build_sft
from trajkit.errors import TrajkitError
from trajkit.rationales import writing
from trajkit.store import Store
from trajkit.worldmodel import EngineOptions, Scored, Scoring, WorldModel, open_world_model

__all__ = ["store"]
Messages = list[dict[str, str]]


def options(spec: str, **chosen: Any) -> Options:
    chosen = {"rationale": "rollout", "n_rollouts": 1, "validation": 0.0} | chosen
    return Options(world_model=spec, **chosen)


def number_of(messages: Messages) -> int:
    """The step that is asked about."""
    return len(messages) // 2 - 1


def test_hindsight_shows_the_answer_to_the_model_and_nothing_of_it_to_the_row(
    store: Path, tmp_path: Path
) -> None:
    def explain(messages: Messages, body: dict[str, Any]) -> str:
        assert VALUES[number_of(messages)] in messages[-1]["content"]
        return f"Thoughts first.\n<rationale>\n{WHY}\n</rationale>"

    with server(explain) as (spec, asked):
        chosen = options(spec, rationale="hindsight", n_rollouts=3)
        report = build_sft(store, tmp_path / "sft", options=chosen, quiet=True)
    assert (report.read, report.kept, len(asked)) == (3, 3, 3)
    assert report.extra["calls"] == {"accepted": 3}
    for row in rows_of(tmp_path / "sft"):
        prompt = json.dumps(row["prompt"])
        assert f"item {row['step_index']}" not in prompt and "Recorded answer" not in prompt
        assert row["completion"][0]["reasoning_content"] == WHY
        assert VALUES[row["step_index"]] in row["completion"][0]["content"]
        assert row["rationale_kind"] == "hindsight"
    assert Store(tmp_path / "sft").files("verdicts") == []


def test_a_hindsight_text_that_leaks_is_asked_for_again_and_then_dropped_by_its_reason(
    store: Path, tmp_path: Path
) -> None:
    seeds: dict[int, list[int]] = {0: [], 1: [], 2: []}

    def explain(messages: Messages, body: dict[str, Any]) -> str | Reply:
        number = number_of(messages)
        seeds[number].append(body["seed"])
        if number == 0:
            return f"<rationale>The reply will be {VALUES[0]} as always.</rationale>"
        if number == 1:
            return ("no tags", f"<rationale>{WHY}</rationale>")[len(seeds[1]) - 1]
        return Reply(content="<rationale>It was going to sa", finish_reason="length")

    with server(explain) as (spec, _):
        chosen = options(spec, rationale="hindsight", n_rollouts=2)
        report = build_sft(store, tmp_path / "sft", options=chosen, quiet=True)
    assert report.kept == 1
    assert report.dropped == {"cut_answer": 1, "future_quote": 1}
    assert report.extra["calls"] == {
        "accepted": 1,
        "cut_answer": 2,
        "future_quote": 2,
        "no_rationale_tag": 1,
    }
    assert all(len(set(own)) == 2 for own in seeds.values())


def test_a_predicted_target_teaches_the_accepted_answer_and_says_so(
    store: Path, tmp_path: Path
) -> None:
    def spaced(messages: Messages, _: object) -> str:
        return laid_out(WHY, VALUES[number_of(messages)].replace(", ", ",   "))

    with server(spaced) as (spec, _):
        for target in ("recorded", "predicted"):
            chosen = options(spec, target=target)
            report = build_sft(store, tmp_path / target, options=chosen, quiet=True)
            assert report.kept == 3
    for target, mark in (("recorded", ', "name"'), ("predicted", ',   "name"')):
        for row in rows_of(tmp_path / target):
            assert mark in row["completion"][0]["content"]
            assert row["target_kind"] == target


def judging(low: int) -> Any:
    """A judge that scores step `low` badly and holds the answer with the word `better` higher."""

    def verdict(messages: Messages, _: object) -> str:
        text = messages[-1]["content"]
        if "PREDICTION B" in text:
            first = text.index("PREDICTION A") < text.find("better") < text.index("PREDICTION B")
            return json.dumps({"reason": "r", "choice": "A" if first else "B"})
        axes = ("format", "factuality", "consistency", "realism", "quality")
        value = 2 if f'"n": {low}, "name"' in text.partition("RECORDED")[2] else 4
        return json.dumps(
            {"strengths": "s", "weaknesses": "w", "scores": dict.fromkeys(axes, value)}
        )

    return verdict


def test_a_judge_sets_a_least_score_and_the_answer_it_prefers_is_kept(
    store: Path, tmp_path: Path
) -> None:
    def differing(messages: Messages, body: dict[str, Any]) -> str:
        n_before = sum(one["messages"] == messages for one in asked) - 1
        value = VALUES[number_of(messages)]
        said = value if n_before % 2 == 0 else value.replace("}", ', "note": "better"}')
        return laid_out(f"{WHY} Try {n_before % 2}.", said)

    with server(differing) as (spec, asked), server(judging(low=1)) as (judge, judged):
        chosen = options(spec, n_rollouts=2, judge=judge, min_score=3.5)
        one_by_one = EngineOptions(concurrency=1)
        report = build_sft(store, tmp_path / "sft", options=chosen, engine=one_by_one, quiet=True)
    accepted = report.extra["calls"]["accepted"]
    assert accepted == 6
    assert report.dropped == {"low_score": 1}
    assert report.extra["judge"] == {
        "model": "http:my-model",
        "tokens": 3 * len(judged),
        "scored": 4,
        "low_score": 2,
        "choice_second": 2,
    }
    assert len(judged) == 6 + 2 * 2
    rows = rows_of(tmp_path / "sft")
    assert [row["step_index"] for row in rows] == [0, 2]
    assert all(row["judge_score"] == 4.0 for row in rows)
    assert all(row["completion"][0]["reasoning_content"].endswith("Try 1.") for row in rows)
    assert (tmp_path / "sft" / "judgements.jsonl").stat().st_size > 0


def test_a_judge_that_gives_no_verdict_is_a_counted_drop_and_no_score(
    store: Path, tmp_path: Path
) -> None:
    with server(right) as (spec, _), server(lambda *_: "I like it: 5!") as (judge, judged):
        chosen = options(spec, judge=judge)
        report = build_sft(store, tmp_path / "sft", options=chosen, quiet=True)
    assert (report.kept, report.dropped) == (0, {"judge_invalid": 3})
    assert len(judged) > 3


PADDING = (
    " The keys come in the order that earlier replies had, and the stock is a whole number"
    " that nobody can know before the call is made."
)


class Weighed:
    """A model behind a server, whose scores grow with the length of the thought."""

    def __init__(self, inner: WorldModel) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def score(self, scorings: Iterable[Scoring]) -> Iterator[Scored]:
        for one in scorings:
            yield Scored(key=one.key, logprob=len(one.prefix) / 10, n_tokens=10)


def test_gains_stand_in_the_rows_and_the_report_and_a_least_gain_drops_what_is_under_it(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(spec: str, engine: EngineOptions | None) -> WorldModel:
        return Weighed(open_world_model(spec, engine))  # type: ignore[return-value]

    monkeypatch.setattr(writing, "open_world_model", opened)

    def growing(messages: Messages, _: object) -> str:
        number = number_of(messages)
        return laid_out(WHY + PADDING * (number == 2), VALUES[number])

    with server(growing) as (spec, _):
        measured = build_sft(store, tmp_path / "sft", options=options(spec, gain=True), quiet=True)
        filtered = build_sft(
            store, tmp_path / "few", options=options(spec, min_gain=1.5), quiet=True
        )
    rows = {row["step_index"]: row for row in rows_of(tmp_path / "sft")}
    base = len(f"<think>\n{WHY}\n</think>\n\n") / 100
    more = len(PADDING) / 100
    assert [rows[n]["gain_none"] for n in range(3)] == pytest.approx([base, base, base + more])
    assert [rows[n]["gain_other"] for n in range(3)] == pytest.approx([0.0, -more, more])
    assert measured.extra["gain_nats_per_token"]["positive_over_other"] == pytest.approx(0.3333)
    assert (filtered.kept, filtered.dropped) == (1, {"no_gain": 2})
    assert [row["step_index"] for row in rows_of(tmp_path / "few")] == [2]


def test_a_server_that_cannot_score_is_counted_and_no_gain_is_made_up(
    store: Path, tmp_path: Path
) -> None:
    with server(right) as (spec, _):
        measured = build_sft(store, tmp_path / "sft", options=options(spec, gain=True), quiet=True)
        filtered = build_sft(
            store, tmp_path / "few", options=options(spec, min_gain=0.0), quiet=True
        )
    assert measured.kept == 3
    assert measured.extra["gain_nats_per_token"] == {"failed_refused_by_server": 3}
    assert {row["gain_none"] for row in rows_of(tmp_path / "sft")} == {None}
    assert (filtered.kept, filtered.dropped) == (0, {"gain_refused_by_server": 3})


def test_a_prompt_too_long_for_the_model_loses_its_oldest_turns_whole_and_is_asked_again(
    tmp_path: Path,
) -> None:
    turns = [
        ("get", {"n": n}, json.dumps({"item": f"T{n}", "text": "abcdefghi"[n] * 900}))
        for n in range(9)
    ]
    cut(tmp_path, [chat(turns, task="THE-TASK")])

    def small(messages: Messages, _: object) -> str | Reply:
        n_chars = sum(len(message["content"]) for message in messages[1:])
        if n_chars > 4_000 or '"n": 7}' in messages[-1]["content"]:
            return Reply(status=400, error="over the maximum context length of this model")
        (number,) = re.findall(r'"n": (\d)}', messages[-1]["content"])
        return laid_out(WHY, turns[int(number)][2] or "")

    with server(small) as (spec, _):
        report = build_sft(tmp_path / "tr", tmp_path / "sft", options=options(spec), quiet=True)
    assert (report.kept, report.dropped) == (8, {"prompt_too_long": 1})
    assert report.extra["turns_left_out"] > 8
    assert report.extra["calls"]["accepted"] == 8
    n_shown = {}
    for row in rows_of(tmp_path / "sft"):
        text = "".join(message["content"] for message in row["prompt"])
        shown = [n for n in range(9) if f'"item": "T{n}"' in text]
        last = row["step_index"]
        assert shown == list(range(last - len(shown), last))
        assert "THE-TASK" in text
        n_shown[last] = len(shown)
    assert n_shown[2] == 2 and n_shown[8] >= 2


def test_requests_come_by_episode_and_step_with_all_tries_of_a_query_in_a_row(
    tmp_path: Path,
) -> None:
    episodes = [
        chat([("get", {"n": n}, value) for n, value in enumerate(VALUES)], task=task)
        for task in ("TASK-A", "TASK-B")
    ]
    cut(tmp_path, episodes)
    with server(right) as (spec, asked):
        build_sft(
            tmp_path / "tr",
            tmp_path / "sft",
            options=options(spec, n_rollouts=2),
            engine={"concurrency": 1},
            quiet=True,
        )
    met = [
        ("TASK-A" in body["messages"][0]["content"], number_of(body["messages"])) for body in asked
    ]
    assert len(met) == 12
    assert [step for _, step in met] == [0, 0, 1, 1, 2, 2] * 2
    assert len({task for task, _ in met[:6]}) == len({task for task, _ in met[6:]}) == 1
    for sooner, later in pairwise(asked):
        if number_of(later["messages"]) > number_of(sooner["messages"]):
            kept = sooner["messages"][:-1]
            assert later["messages"][: len(kept)] == kept


@pytest.mark.parametrize("finish_reason", ["stop", "tool_calls", "length"])
def test_an_answer_that_breaks_off_is_never_repaired_into_a_target(
    store: Path, tmp_path: Path, finish_reason: str
) -> None:
    """Case TC02: the finish reason may lie, the missing end of the answer does not."""

    def broken(messages: Messages, _: object) -> Reply:
        whole = laid_out(WHY, VALUES[number_of(messages)])
        return Reply(content=whole[: whole.rindex("stock")], finish_reason=finish_reason)

    with server(broken) as (spec, _):
        chosen = options(spec, target="predicted")
        report = build_sft(store, tmp_path / "sft", options=chosen, quiet=True)
    reason = "cut_answer" if finish_reason == "length" else "no_answer_tag"
    assert (report.kept, report.dropped) == (0, {reason: 3})


def test_a_refusing_model_is_a_drop_of_its_own_kind(store: Path, tmp_path: Path) -> None:
    def refusing(messages: Messages, _: object) -> str:
        number = number_of(messages)
        said = "I'm sorry, but I can't help with that."
        return (said, laid_out(said, VALUES[1]), laid_out("Sure! Here is it. " + WHY, "x"))[number]

    with server(refusing) as (spec, _):
        report = build_sft(store, tmp_path / "sft", options=options(spec), quiet=True)
    assert (report.kept, report.dropped) == (0, {"refusal": 2, "small_talk": 1})


TEMPLATE = """
{%- set last = namespace(user=0) -%}
{%- for m in messages if m.role == "user" %}{% set last.user = messages.index(m) %}{% endfor -%}
{%- for m in messages -%}
<|im_start|>{{ m.role }}
{% if m.reasoning_content and loop.index0 > last.user %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{{ m.content }}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif -%}
"""


def test_each_row_renders_as_at_inference_and_every_rationale_is_a_target_once(
    store: Path, tmp_path: Path
) -> None:
    """Case TC08: a template that drops the thoughts of earlier turns loses nothing here."""

    def numbered(messages: Messages, _: object) -> str:
        number = number_of(messages)
        return laid_out(f"{WHY} Thought {'abc'[number]}.", VALUES[number])

    with server(numbered) as (spec, _):
        build_sft(store, tmp_path / "sft", options=options(spec), quiet=True)
    template = Environment(keep_trailing_newline=True, autoescape=False).from_string(TEMPLATE)
    thoughts = []
    for row in rows_of(tmp_path / "sft"):
        prompt, completion = row["prompt"], row["completion"]
        before = template.render(messages=prompt, add_generation_prompt=True)
        whole = template.render(messages=prompt + completion)
        assert whole.startswith(before)
        assert "Thought" not in before
        thoughts.append(re.findall(r"Thought (\w)\.", whole[len(before) :]))
    assert thoughts == [["a"], ["b"], ["c"]]


def test_a_finished_recording_replays_to_the_same_rows_and_the_manifest_names_no_place(
    store: Path, tmp_path: Path
) -> None:
    with server(right) as (spec, asked):
        build_sft(store, tmp_path / "one", options=options(spec, n_rollouts=2), quiet=True)
        n_asked = len(asked)
    replay = f"replay:{tmp_path / 'one' / 'completions.jsonl'}"
    again = build_sft(store, tmp_path / "two", options=options(replay, n_rollouts=2), quiet=True)
    assert again.kept == 3 and len(asked) == n_asked == 6
    assert rows_of(tmp_path / "one") == rows_of(tmp_path / "two")
    one, two = (Store(tmp_path / name).manifest for name in ("one", "two"))
    assert one.options == two.options
    assert one.options["world_model"] == "http:my-model"
    assert "127.0.0.1" not in (tmp_path / "one" / "manifest.json").read_text()
    assert one.report == two.report


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"target": "best"}, "one of predicted, recorded"),
        ({"rationale": "hindsight", "judge": "embedded"}, "nothing with --rationale hindsight"),
        ({"rationale": "hindsight", "target": "predicted"}, "give --rationale rollout"),
        ({"rationale": "none"}, "--world-model: means nothing with --rationale none"),
        ({"min_score": 0.5}, "is outside 1 to 5"),
        ({"n_rollouts": 0}, "is under 1"),
        ({"judge": "gpt"}, "is no SPEC"),
    ],
)
def test_options_that_do_not_go_together_are_refused_before_anything_is_written(
    store: Path, tmp_path: Path, chosen: dict[str, Any], message: str
) -> None:
    with pytest.raises(TrajkitError, match=message):
        build_sft(store, tmp_path / "sft", options=options("embedded", **chosen), quiet=True)
    assert not (tmp_path / "sft").exists()
