"""Evaluations: every question asked once, every failure counted, no score made up."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from chats import chat, cut
from click.testing import CliRunner
from openai_server import Reply
from scripted_environment import Scripted, measure, results, tagged

from trajkit.builders.agentworldbench import build_bench
from trajkit.cli import main
from trajkit.errors import TrajkitError
from trajkit.evaluate import Options, evaluate
from trajkit.evaluate.answers import LAID_OUT, ask, ask_judge, survey
from trajkit.evaluate.bounds import parse_bounds
from trajkit.evaluate.questions import open_bench
from trajkit.fidelity.findings import AXES
from trajkit.judges import Judge
from trajkit.model import DOMAINS
from trajkit.store import AlreadyDoneError, Store
from trajkit.worldmodel import Completion, Request, Sampling, WorldModel
from trajkit.worldmodel.embedded import NAME

HOSTILE = '<script>alert(1)</script>\u202e<img src="http://x.test/a"> </predicted_observation>'


def verdict(score: float, **axes: float) -> Reply:
    scores = dict.fromkeys(AXES, score) | axes
    return Reply(content=json.dumps({"weaknesses": HOSTILE, "scores": scores}))


def is_judge(system: str) -> bool:
    return "Five axes" in system


VALUES = [f'{{"n": {n}, "name": "part {n}", "stock": {n * 7}}}' for n in range(3)]


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    """Six questions of two mcp episodes, with a hostile one."""
    turns = [("get", {"n": n}, value) for n, value in enumerate(VALUES)]
    hostile = [("put", {"text": HOSTILE}, HOSTILE), ("get", {}, "x"), ("get", {"n": 9}, "y")]
    cut(tmp_path, [chat(turns, task="stock"), chat(hostile, task="other")])
    build_bench(tmp_path / "tr", tmp_path / "bench", quiet=True)
    return tmp_path / "bench"


def truth(prompt: str) -> Reply:
    found = re.search(r'"n": ?(\d)', prompt)
    return tagged(VALUES[int(found[1])] if found and int(found[1]) < 3 else "x")


def test_a_bench_of_all_domains_is_scored_by_rules_and_the_truth_scores_best(
    transitions_store: Path, tmp_path: Path
) -> None:
    build_bench(transitions_store, tmp_path / "bench", per_episode=2, quiet=True)
    known: dict[str, str] = {}
    questions = list(open_bench(tmp_path / "bench").read([]))
    for one in questions:
        known[one.messages[-1]["content"] + one.messages[0]["content"]] = one.case.recorded

    def replies(right: bool) -> Callable[[str, str], Reply]:
        return lambda system, last: tagged(known[last + system] if right else "nothing")

    scores = {}
    for right in (True, False):
        with Scripted(replies(right)) as server:
            options = Options(world_model=server.spec, judges=("none",))
            out = tmp_path / str(right)
            report = evaluate(tmp_path / "bench", out, options=options, quiet=True)
        assert report.read == report.kept == len(questions) > 40
        document = results(out)
        assert document["scored_by"] == "rules" and document["failures"] == {}
        assert document["agreement"] == [] and document["judges"] == []
        accepted = [measure(document, domain)["accepted"] for domain in DOMAINS]
        n_each = [measure(document, domain)["rows"] for domain in DOMAINS]
        assert (accepted == n_each) if right else (max(accepted) == 0)
        scores[right] = [measure(document, domain)["score"] for domain in DOMAINS]
        frame = pl.read_parquet(out / "rows.parquet")
        assert frame["key"].n_unique() == frame.height == len(questions)
    with_rows = {one.domain for one in questions}
    assert len(with_rows) == 7
    for domain, best, worst in zip(DOMAINS, scores[True], scores[False], strict=True):
        assert best > 95 > 80 > worst, domain


def test_failures_are_counted_and_shown_both_ways_and_a_judge_that_says_nothing_makes_no_zero(
    bench: Path, tmp_path: Path
) -> None:
    def answer(system: str, last: str) -> Reply:
        if is_judge(system):
            if '"n": 1' in last.split("ACTION")[-1]:
                return Reply(content="cannot say")
            return verdict(4, factuality=2)
        if '"n": 0' in last:
            return Reply(content="<predicted_observation>\ncut", finish_reason="length")
        if '"n": 2' in last:
            return Reply(content="no tag here")
        return truth(last)

    with Scripted(answer) as server:
        options = Options(world_model=server.spec, judges=(server.spec,))
        report = evaluate(bench, tmp_path / "out", options=options, quiet=True)
    document = results(tmp_path / "out")
    assert report.read == 6 and report.kept == 4
    assert report.dropped == document["failures"] == {"cut_answer": 1, "no_answer_tag": 1}
    name = "http:my-model"
    assert document["scored_by"] == name and document["unscored"] == {name: {"invalid": 1}}
    mcp = measure(document, "mcp")
    raw = (4 * (4 - 1) + (2 - 1)) / 5 / 4 * 100
    assert (mcp["rows"], mcp["failures"], mcp["unscored"]) == (5, 2, 1)
    assert mcp["answered_score"] == pytest.approx(raw)
    assert mcp["score"] == pytest.approx(3 / 5 * raw)
    assert measure(document, "mcp", "factuality")["answered_score"] == pytest.approx(25)
    assert measure(document, "macro")["score"] == mcp["score"]
    assert measure(document, "search")["score"] is None
    assert report.extra["by_domain"]["search"] == "-"
    assert [one["first"] for one in document["agreement"]] == ["rules"] * 6
    frame = pl.read_parquet(tmp_path / "out" / "rows.parquet")
    assert frame.height == 6
    assert frame.filter(pl.col("failure").is_not_null())["judge_1_overall"].null_count() == 2
    assert frame["judge_1_failure"].drop_nulls().to_list() == ["invalid"]


def test_the_page_runs_nothing_loads_nothing_and_shows_log_text_as_text(
    bench: Path, tmp_path: Path
) -> None:
    def answer(system: str, last: str) -> Reply:
        return verdict(3) if is_judge(system) else tagged(HOSTILE.split(" ")[0] + " <b>x</b>")

    with Scripted(answer) as server:
        options = Options(world_model=server.spec, judges=(server.spec,))
        evaluate(bench, tmp_path / "out", options=options, quiet=True)
    html = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "&lt;script&gt;alert(1)" in html and "&lt;img src=" in html
    assert "<script" not in html and "<img" not in html and "\u202e" not in html
    assert re.search(r"(?:src|href)=\"", html) is None and "@import" not in html
    assert "default-src &#x27;none&#x27;" in html or "default-src 'none'" in html
    for shown in ("Beside the published scores", "gpt-5.2", "http:my-model", "56.39", "50.00"):
        assert shown in html
    assert "do not compare" in html
    assert html.count("<table") == html.count("</table>") and html.endswith("</html>\n")


def test_a_run_that_is_killed_goes_on_and_nothing_is_asked_twice(
    bench: Path, tmp_path: Path
) -> None:
    def answer(system: str, last: str) -> Reply:
        reply = verdict(5) if is_judge(system) else truth(last)
        return Reply(content=reply.content, delay_seconds=0.3)

    out = tmp_path / "out"
    with Scripted(answer) as server:
        command = [sys.executable, "-m", "trajkit", "eval", str(bench), "-o", str(out), "-q"]
        command += ["--world-model", server.spec, "--judge", server.spec, "--concurrency", "1"]
        n_judged = 2
        run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 60
        while len(server.bodies) < 6 + n_judged and time.monotonic() < deadline:
            time.sleep(0.02)
        run.send_signal(signal.SIGKILL)
        run.communicate(timeout=30)
        assert not (out / "results.json").exists()
        n_before = len(server.bodies)
        assert 6 + n_judged <= n_before < 12
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        # Only what was under way when the run was killed may be asked again.
        assert 12 <= len(server.bodies) <= 13
        first = (out / "results.json").read_bytes()
        again = subprocess.run([*command, "--overwrite"], capture_output=True, timeout=120)
        assert again.returncode == 0
        assert len(server.bodies) <= 13 and (out / "results.json").read_bytes() == first
    assert json.loads(done.stdout)["kept"] == 6
    assert Store(out).manifest.rows["rows"] == 6


def test_a_further_judge_makes_the_world_model_answer_nothing_again(
    bench: Path, tmp_path: Path
) -> None:
    def answer(system: str, last: str) -> Reply:
        return verdict(2 if "Prediction" in system else 4) if is_judge(system) else truth(last)

    with Scripted(answer) as server, Scripted(lambda system, last: verdict(5)) as other:
        other.model = "other"
        one = Options(world_model=server.spec, judges=(server.spec,))
        evaluate(bench, tmp_path / "out", options=one, quiet=True)
        assert len(server.bodies) == 12
        both = Options(world_model=server.spec, judges=(server.spec, other.spec))
        with pytest.raises(TrajkitError, match="complete"):
            evaluate(bench, tmp_path / "out", options=both, quiet=True)
        evaluate(bench, tmp_path / "out", options=both, overwrite=True, quiet=True)
        assert len(server.bodies) == 12 and len(other.bodies) == 6
        twice = Options(world_model=server.spec, judges=(other.spec, other.spec))
        with pytest.raises(TrajkitError, match="given twice"):
            evaluate(bench, tmp_path / "two", options=twice, quiet=True)
    document = results(tmp_path / "out")
    manifest = (tmp_path / "out" / "manifest.json").read_text(encoding="utf-8")
    assert "127.0.0.1" not in manifest and str(tmp_path) not in manifest
    assert [judge["name"] for judge in document["judges"]] == ["http:my-model", "http:other"]
    assert document["scored_by"] == "http:my-model"
    (found,) = (
        row
        for row in document["agreement"]
        if (row["first"], row["second"], row["axis"]) == ("http:my-model", "http:other", "overall")
    )
    assert (found["rows"], found["mean_absolute_difference"]) == (6, 25.0)


def run_gate(bench: Path, out: Path, spec: str, gate: str) -> Any:
    arguments = ["eval", str(bench), "-o", str(out), "--world-model", spec, "--gate", gate, "-q"]
    return CliRunner().invoke(main, arguments)


def test_a_broken_bound_exits_with_1_after_everything_is_written(
    bench: Path, tmp_path: Path
) -> None:
    with Scripted(lambda system, last: truth(last)) as server:
        good = run_gate(bench, tmp_path / "good", server.spec, "min_overall=1")
        assert good.exit_code == 0, good.output
        gate = "min_overall=1,min_factuality=100,min_web=5"
        bad = run_gate(bench, tmp_path / "bad", server.spec, gate)
        assert bad.exit_code == 1
        assert "2 of 3 bounds broken, scored by rules" in bad.output
        assert "min_factuality=100 is above" in bad.output
        assert "min_web=5 has no score" in bad.output and "Hint: " in bad.output
        assert [one["holds"] for one in results(tmp_path / "bad")["bounds"]] == [True, False, False]
        assert "broken" in (tmp_path / "bad" / "report.html").read_text(encoding="utf-8")
        # Looking again changes nothing: a pipeline would go on.
        n_calls = len(server.bodies)
        again = run_gate(bench, tmp_path / "bad", server.spec, gate)
        assert again.exit_code == 1 and "bounds broken" in again.output
        with pytest.raises(AlreadyDoneError):
            options = Options(world_model=server.spec, gate="min_overall=1")
            evaluate(bench, tmp_path / "good", options=options, quiet=True)
        assert len(server.bodies) == n_calls


@pytest.mark.parametrize(
    ("gate", "complaint"),
    [
        ("min_all=5", "no bound 'min_all'.*\n.*min_android, .*min_overall"),
        ("overall=5", "no bound"),
        ("min_overall", "is no score"),
        ("min_overall=101", "from 0 to 100"),
        ("min_overall=nan", "is no score"),
        ("min_overall=5,min_overall=6", "given twice"),
    ],
)
def test_a_bound_that_makes_no_sense_is_refused_before_anything_is_asked(
    gate: str, complaint: str, bench: Path, tmp_path: Path
) -> None:
    with pytest.raises(TrajkitError, match=complaint):
        evaluate(
            bench, tmp_path / "out", options=Options(world_model="embedded", gate=gate), quiet=True
        )
    assert not (tmp_path / "out").exists()
    assert parse_bounds(None) == {}


def test_a_baseline_shows_what_moved_question_by_question_or_as_a_whole(
    bench: Path, tmp_path: Path
) -> None:
    with Scripted(lambda system, last: truth(last)) as server:
        right = Options(world_model=server.spec)
        evaluate(bench, tmp_path / "right", options=right, quiet=True)
    baseline = str(tmp_path / "right" / "results.json")
    with Scripted(lambda system, last: tagged("nothing")) as server:
        server.model = "worse"
        wrong = Options(world_model=server.spec, baseline=baseline)
        evaluate(bench, tmp_path / "wrong", options=wrong, quiet=True)
        # Other questions: half of them.
        fewer = Options(world_model=server.spec, baseline=baseline, per_domain=3)
        evaluate(bench, tmp_path / "fewer", options=fewer, quiet=True)
        (tmp_path / "alone").mkdir()
        alone = tmp_path / "alone" / "results.json"
        alone.write_bytes(Path(baseline).read_bytes())
        unpaired = Options(world_model=server.spec, baseline=str(alone))
        evaluate(bench, tmp_path / "unpaired", options=unpaired, quiet=True)
        judged = Options(world_model=server.spec, judges=(server.spec,), baseline=baseline)
        with pytest.raises(TrajkitError, match=r"not scored by http:worse but by rules"):
            evaluate(bench, tmp_path / "judged", options=judged, quiet=True)
    document, before = results(tmp_path / "wrong"), results(tmp_path / "right")
    found = document["baseline"]
    assert found["paired"] and found["world_model"] == "http:my-model"
    by_place = {(one["domain"], one["axis"]): one for one in found["moved"]}
    for axis in ("overall", *AXES):
        moved = measure(document, "mcp", axis)["score"] - measure(before, "mcp", axis)["score"]
        for domain in ("mcp", "macro", "micro"):
            assert by_place[domain, axis]["difference"] == pytest.approx(moved)
    assert by_place["mcp", "format"]["difference"] < -10
    for one in found["moved"]:
        if one["low"] is not None:
            assert one["low"] <= one["difference"] <= one["high"]
            assert one["clear"] == (one["high"] < 0 or one["low"] > 0)
    assert by_place["web", "overall"] == {
        "domain": "web",
        "axis": "overall",
        "difference": None,
        "low": None,
        "high": None,
        "clear": False,
    }
    assert "Moved against" in (tmp_path / "wrong" / "report.html").read_text(encoding="utf-8")
    for folder in ("fewer", "unpaired"):
        other = results(tmp_path / folder)["baseline"]
        assert not other["paired"]
        (mcp,) = (m for m in other["moved"] if (m["domain"], m["axis"]) == ("mcp", "format"))
        assert mcp["difference"] < -10 and mcp["low"] < mcp["difference"] < mcp["high"]


def test_a_file_that_is_no_baseline_is_refused(bench: Path, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"measures": []}')
    for name in ("x.json", "missing.json"):
        options = Options(world_model="embedded", baseline=str(tmp_path / name))
        with pytest.raises(TrajkitError, match="an earlier evaluation"):
            evaluate(bench, tmp_path / "out", options=options, quiet=True)


def test_a_store_is_a_benchmark_too_and_asks_the_same(bench: Path, tmp_path: Path) -> None:
    rows = list(open_bench(bench).read([]))
    targets = list(open_bench(tmp_path / "tr").read([]))
    assert len(rows) == len(targets) == 6
    for row, target in zip(rows, targets, strict=True):
        assert row.messages == target.messages
        assert row.case.recorded == target.case.recorded
        assert row.case.action.action == target.case.action.action
        assert [t.observation for t in row.case.history] == [
            t.observation for t in target.case.history
        ]
    with Scripted(lambda system, last: truth(last)) as server:
        options = Options(world_model=server.spec)
        for name in ("bench", "tr"):
            evaluate(tmp_path / name, tmp_path / f"{name}.out", options=options, quiet=True)
    one, two = (results(tmp_path / f"{name}.out") for name in ("bench", "tr"))
    assert (one["bench"]["kind"], two["bench"]["kind"]) == ("agentworldbench", "store")
    scores = [[row["score"] for row in document["measures"]] for document in (one, two)]
    assert scores[0] == pytest.approx(scores[1], nan_ok=True)


def test_fewer_questions_are_drawn_by_content_alone(
    transitions_store: Path, tmp_path: Path
) -> None:
    build_bench(transitions_store, tmp_path / "bench", quiet=True)
    with Scripted(lambda system, last: tagged("x")) as server:
        options = Options(world_model=server.spec, per_domain=2)
        report = evaluate(tmp_path / "bench", tmp_path / "one", options=options, quiet=True)
        for file in (tmp_path / "bench").glob("*_test.jsonl"):
            lines = file.read_bytes().split(b"\n")[:-1]
            file.write_bytes(b"".join(line + b"\n" for line in reversed(lines)))
        evaluate(tmp_path / "bench", tmp_path / "two", options=options, quiet=True)
    assert report.read == 14
    one, two = (pl.read_parquet(tmp_path / name / "rows.parquet") for name in ("one", "two"))
    columns = ["key", "rules_overall", "prediction"]
    assert one.select(columns).sort("key").equals(two.select(columns).sort("key"))
    measured = [results(tmp_path / name)["measures"] for name in ("one", "two")]
    assert measured[0] == measured[1]


class _SaysTheTruth:
    """Stands where the embedded model would, under its name, without an engine."""

    name = NAME
    engine = "none"

    def generate(self, requests: Iterable[Request]) -> Iterator[Completion]:
        for request in requests:
            said = truth(request.messages[-1]["content"]).content
            yield Completion(key=request.key, text=said, finish_reason="stop")

    def close(self) -> None:
        pass


def test_a_replay_of_the_embedded_model_asks_what_its_run_asked_and_scores_the_same(
    bench: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("trajkit.evaluate.stage.open_world_model", lambda *_: _SaysTheTruth())
        first = evaluate(
            bench, tmp_path / "one", options=Options(world_model="embedded"), quiet=True
        )
    recording = tmp_path / "one" / "recordings" / "world_model.jsonl"
    again = Options(world_model=f"replay:{recording}", baseline=str(tmp_path / "one/results.json"))
    second = evaluate(bench, tmp_path / "two", options=again, quiet=True)
    assert first.kept == second.kept == 6
    one, two = (results(tmp_path / name) for name in ("one", "two"))
    assert one["measures"] == two["measures"]
    assert {row["difference"] for row in two["baseline"]["moved"]} <= {0.0, None}


def test_the_embedded_model_is_evaluated_and_judges_itself(
    embedded_world_model: WorldModel, bench: Path
) -> None:
    questions = open_bench(bench)
    outcomes = {one.key: one for one in survey(2, questions.read([]))}
    assert len(outcomes) == 2
    done: list[str] = []
    ask(
        questions,
        embedded_world_model,
        outcomes,
        sampling=Sampling(max_tokens=300),
        pattern=LAID_OUT,
        on_done=lambda: done.append("answer"),
    )
    answered = [one for one in outcomes.values() if one.failure is None]
    assert answered and all(one.n_tokens > 0 for one in outcomes.values())
    judge = Judge(embedded_world_model, max_tokens=480, max_tries=1)
    n_tokens = ask_judge(questions, judge, outcomes, on_done=lambda: done.append("verdict"))
    assert n_tokens > 0 and done == ["answer"] * 2 + ["verdict"] * len(answered)
    name = embedded_world_model.name
    for one in answered:
        assert set(one.scores["rules"]) == set(AXES)
        assert (name in one.scores) != (name in one.unscored)
        assert all(0 <= score <= 100 for score in one.scores.get(name, {}).values())
    assert any(name in one.scores for one in answered), [one.unscored for one in answered]
