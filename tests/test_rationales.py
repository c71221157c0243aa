"""Rationales: what makes a text none, what gives an answer away, what a rationale gains."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajkit.fidelity.findings import Case, Turn
from trajkit.rationales.faults import fault
from trajkit.rationales.gain import summary, with_gains
from trajkit.rationales.hindsight import Hindsight
from trajkit.rationales.leaks import QUOTE_CHARS, leak, quotes
from trajkit.rationales.queries import Answered, Calls, Candidate, Gain, Query
from trajkit.rationales.rollout import Rollouts
from trajkit.worldmodel import Sampling, WorldModel
from trajkit.worldmodel.protocol import Scored, Scoring

KNOWN = "$ pytest -q\nE   AttributeError: 'NoneType' has no attribute 'price' in cart/total.py"
FUTURE = "88: class Basket(LineHolder):\n89:     rows = ForeignKey('catalog.Product')"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("The given answer prints the class, so that is what to expect here.", "answer_talk"),
        ("Because the following output shows a Basket, I read on in this file.", "answer_talk"),
        ("`sed` will now print class Basket(LineHolder) from the model file.", "future_fact"),
        ("According to the reference, the basket matters most in this case.", "answer_talk"),
        ("As we will see, the class begins further down in the same file.", "answer_talk"),
        ("Der Befehl zeigt die Klasse im Modell, wie vorgegeben, und endet dann.", "answer_talk"),
        ("Laut Musterlösung erscheint die Klasse, danach der Prompt.", "answer_talk"),
        ("The reason the answer is a class lies in how the model file begins.", "answer_talk"),
        ("This is how the environment answered to the call that came before.", "answer_talk"),
        ("Line 88 is the one that comes first in what is printed.", "future_fact"),
        ("It prints rows = ForeignKey('catalog.Product') and nothing else.", "future_quote"),
        ("The fault stands in cart/session.py, which the run names next.", "invented_fact"),
        ("The prices come from shop/models.py in 4711 rows.", "invented_fact"),
        (
            "The AttributeError says that price was looked up on nothing; the total in "
            "cart/total.py is computed before the cart has a value, so the same error returns.",
            None,
        ),
        ("The expected output of the failing test is unknown until it runs again.", None),
        ("A missing file would end in FileNotFoundError and exit code 127 at most.", None),
    ],
)
def test_a_rationale_that_gives_the_answer_away_is_refused_and_a_clean_one_passes(
    text: str, reason: str | None
) -> None:
    """Our own wording of the situations of case JU02."""
    assert fault(text) is None
    assert leak(text, KNOWN, FUTURE) == reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("I am sorry, but I can't help with this request.", "refusal"),
        ("As a large language model I have no shell at hand.", "refusal"),
        ("Tut mir leid, dabei kann ich nicht helfen.", "refusal"),
        ("I'm unable to assist with that kind of content.", "refusal"),
        ("Certainly! The command lists the folder and exits.", "small_talk"),
        ("Here is the step-by-step reasoning:\nThe command lists a folder.", "small_talk"),
        ("The folder is listed once more. I hope this helps!", "small_talk"),
        ("Hier ist die gewünschte Begründung: Der Ordner wird gelistet.", "small_talk"),
        ("a a a a a a a a a a a a a a a a", "loop"),
        ("the file is read " * 8, "loop"),
        ("It waits. Then the server answers again. " * 4, "loop"),
        ("", "no_rationale"),
        (" \n ", "no_rationale"),
        ("ls lists files", "no_rationale"),
        ("I can't open port 8080, so the service is down and curl fails at once.", None),
        ("I cannot predict the process id, only its form; the rest follows from the call.", None),
        ("Of course the second write replaces the first, as > truncates the file.", None),
        ("Sorry is what the chat window says; the button stays disabled after the click.", None),
        ("The matrix is all zero: 0 0 0 0 0 0 0 0 0 0 0 0, then the prompt returns.", None),
        ("The log shows a refused connection, so the next call meets the same error.", None),
    ],
)
def test_refusals_small_talk_and_loops_are_no_rationales_and_plain_sentences_are(
    text: str, reason: str | None
) -> None:
    """Our own wording of the situations of case JU03."""
    assert fault(text) == reason


def test_a_quote_counts_from_its_least_length_on_and_only_if_it_tells_something_new() -> None:
    future = "gadolinium is what the second probe reported at noon"
    assert quotes(f"So {future[:QUOTE_CHARS]}", "probe", future)
    assert not quotes(f"So {future[: QUOTE_CHARS - 1]}", "probe", future)
    assert quotes(f"So {future.upper()}", "probe", future)
    assert not quotes(f"So {future}", f"log: {future}", future)
    assert not quotes(f"So {future}", " ".join(reversed(future.split())), future)


def test_what_is_put_together_or_worked_out_from_known_things_is_no_leak() -> None:
    known = "cwd /srv/app\n$ cat src/main.py  # 12 items at 7,50 each, 1,200 in all"
    assert leak("It reads /srv/app/src/main.py and stops.", known, "") is None
    assert leak("12 * 7 = 84 items are listed there.", known, "84") is None
    assert leak("12 * 7 = 85 items are listed there.", known, "85") == "future_fact"
    assert leak("All 1200 of them are there.", known, "") is None
    assert leak("The answer names Ouagadougou as the place.", known, "Ouagadougou") == "future_fact"
    said = "The labels are the ground truth here, so accuracy is printed next."
    assert leak(said, "ground truth labels: a b", "") is None
    assert leak(said, "labels: a b", "") == "answer_talk"


@given(
    st.lists(st.sampled_from(KNOWN.split() + FUTURE.split()), min_size=6, max_size=40),
    st.integers(0, 5),
)
def test_what_only_repeats_what_is_known_never_leaks(words: list[str], start: int) -> None:
    assert leak(" ".join(words[start:]), " ".join(words), FUTURE) is None


def query(index: int = 0, recorded: str = '{"n": 7}', domain: str = "mcp") -> Query:
    action = Turn(
        action=f'{{"name": "get", "arguments": {{"n": {index}}}}}', action_kind="tool_call"
    )
    return Query(
        trajectory_id="t",
        step_index=index,
        messages=(
            {"role": "system", "content": "You are a tool server. Answer as the tool would."},
            {"role": "user", "content": f"**Action:**\n{action.action}"},
        ),
        recorded=recorded,
        case=Case(domain=domain, action=action, recorded=recorded, prediction=""),
        shorter=lambda: None,
    )


def told(index: int, rationale: str, **changes: str) -> Answered:
    return Answered(query=query(index, **changes), best=Candidate(rationale=rationale), reason=None)


class _Scales:
    """Scores by the number that its rationale holds; nothing behind the word `fail`."""

    def __init__(self) -> None:
        self.asked: list[Scoring] = []

    def score(self, scorings: Iterable[Scoring]) -> Iterator[Scored]:
        for one in scorings:
            self.asked.append(one)
            number = re.search(r"-?\d+", one.prefix)
            if "fail" in one.prefix:
                yield Scored(key=one.key, logprob=None, failure="prompt_too_long")
            else:
                total = -40.0 + (int(number.group()) if number else 0)
                yield Scored(key=one.key, logprob=total, n_tokens=4)


def test_a_gain_is_per_token_and_against_another_step_of_the_same_domain() -> None:
    answers = [
        told(0, "worth 8"),
        told(1, "worth -4"),
        told(2, "alone 2", domain="web"),
        told(3, "fail"),
        Answered(query=query(4), best=None, reason="refusal"),
    ]
    counts: Counter[str] = Counter()
    model = _Scales()
    scored = with_gains(model, answers, counts)  # type: ignore[arg-type]
    gains = [one.best.gain for one in scored[:4] if one.best is not None]
    assert gains == [
        Gain(over_none=2.0, over_other=3.0),
        Gain(over_none=-1.0, over_other=None),
        Gain(over_none=0.5, over_other=None),
        Gain(failure="prompt_too_long"),
    ]
    assert scored[4] == answers[4]
    assert summary(counts) == {
        "n_over_none": 3,
        "mean_over_none": 0.5,
        "positive_over_none": 0.6667,
        "n_over_other": 1,
        "mean_over_other": 3.0,
        "positive_over_other": 1.0,
        "failed_prompt_too_long": 1,
    }
    for one in model.asked:
        assert one.prefix.endswith("<predicted_observation>\n")
        assert one.continuation == '{"n": 7}\n</predicted_observation>'


SHORT = Sampling(max_tokens=96)


def test_the_real_model_rolls_out_behind_the_gate(embedded_world_model: WorldModel) -> None:
    calls = Calls(model=embedded_world_model, sampling=SHORT, on_done=lambda: None)
    rollouts = Rollouts(calls=calls, n_rollouts=2, laid_out=True)
    answers = rollouts.answer(query(number) for number in range(2))
    assert [answered.query.step_index for answered in answers] == [0, 1]
    outcomes = {name: n for name, n in calls.counts.items() if name.startswith("calls.")}
    assert sum(outcomes.values()) == 4
    assert calls.counts["tokens"] >= 4 * 10
    assert all((one.reason is None) == bool(one.query.messages) for one in answers)


def test_the_real_model_explains_in_hindsight_and_a_rationale_that_helps_gains(
    embedded_world_model: WorldModel,
) -> None:
    calls = Calls(model=embedded_world_model, sampling=SHORT, on_done=lambda: None)
    hindsight = Hindsight(calls=calls, n_tries=2, laid_out=True)
    (answered,) = hindsight.answer([query()])
    tries = {name: n for name, n in calls.counts.items() if name.startswith("calls.")}
    assert 1 <= sum(tries.values()) <= 2
    assert (answered.best is None) == (answered.reason is not None)
    recorded = '{"city": "Lisbon", "river": "Tagus"}'
    answers = [
        told(0, f"The tool will answer {recorded}, as it did before.", recorded=recorded),
        told(1, "Nothing is known of weather in the mountains this week.", recorded=recorded),
    ]
    right, wrong = (
        one.best.gain
        for one in with_gains(embedded_world_model, answers, calls.counts)
        if one.best is not None
    )
    assert right is not None and right.over_none is not None and right.over_none > 0.5
    assert right.over_other is not None and right.over_other > 0.5
    assert wrong is not None and wrong.over_other is not None and wrong.over_other < -0.5
