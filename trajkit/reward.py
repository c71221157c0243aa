"""The reward of an answer in RL, on a scale of 25: a judge's rubric and the rules of verifiers.

Rubric: the mean of a judge's five axes (1 to 5) times 5. Rule: 25 when the answer passes all
verifiers of its row, else 0. A row with verifiers has 0.9 of the one and 0.1 of the other; a row
without has the rubric alone. A judge that says what is no verdict gives 0, as in the report; a call
that fails gives no reward at all, never a zero: the answer is not to blame.

Without a judge rows with verifiers are rewarded by rule alone, and rows without have no reward:
build those away with `trajkit build-rl --verified-only`.

No answer earns anything, from judge or rule, that does not stand in exactly one pair of answer tags
behind the thoughts, that is empty where something came, that praises itself or talks of being a
prediction, or that gives away what a search run is to find out. Thoughts are shown to nobody.

verl: `reward.custom_reward_function.path=pkg://trajkit.reward`, `name=compute_score`, options under
`reward_kwargs`. TRL: `GRPOTrainer(reward_funcs=trajkit.reward.Reward(judge=...))`, or the function
`reward`. The judge is a SPEC as of `--world-model`, or the environment variable TRAJKIT_JUDGE.

Source: Qwen-AgentWorld report, section 3.4 and appendices B and C. How often the two parts are
mixed is the report's; what to do without a judge, or with a call that failed, is our choice.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import orjson

from trajkit import domains
from trajkit.control_tokens import unescape
from trajkit.domains.base import ANSWER_CLOSE, ANSWER_OPEN, ASK
from trajkit.errors import TrajkitError, alternatives, quote
from trajkit.fidelity.answer_leak import check_leak
from trajkit.fidelity.findings import AXES, Case, Turn
from trajkit.fidelity.talk import talk_about_itself
from trajkit.judges import Asked, Judge, Judged
from trajkit.judges.desk import Desk
from trajkit.rationales.rollout import read_prediction
from trajkit.verifiers import Verifier, read, verify

SCALE = 25.0
RUBRIC_WEIGHT = 0.9
JUDGE_VARIABLE = "TRAJKIT_JUDGE"
PREFIX = "trajkit/"
"""What `data_source` begins with; the domain follows."""
MAX_TIMES_LONGER, LENGTH_SLACK_CHARS = 4, 1_600
"""How long an observation may be beside the recorded one to pass a rule: the gate's bound."""
MAX_JUDGE_TOKENS, MAX_EMBEDDED_TOKENS = 4_096, 480
_OWN_FAULTS = frozenset({"invalid", "empty_answer", "cut_answer"})
"""What a judge does wrong itself; anything else is a call that failed."""

Messages = Sequence[Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer of a policy, with what its row says of it."""

    domain: str
    said: str
    """All that the model said, thoughts and tags included."""
    recorded: str
    """What the environment said, as the row has it: control tokens broken up."""
    messages: Messages = ()
    """The prompt of the row."""
    verifiers: tuple[Verifier, ...] = ()
    secret: str = ""
    """What a search run is to find out; empty for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewarded:
    """The reward of one answer, and its parts."""

    score: float | None
    """0 to 25; null when nothing could give one."""
    rubric: float | None = None
    """0 to 25; null without a judge, after a failed call, or for a refused answer."""
    rule: float | None = None
    """0 or 25; null for a row without verifiers."""
    refused: str | None = None
    """Why the answer earns nothing: see `read_strictly` and `check_answer`."""
    failure: str | None = None
    """Why the judge gave no verdict."""


def read_strictly(said: str) -> tuple[str | None, str | None]:
    """Return the observation of an answer, or null and why there is none.

    `open_thoughts`: thoughts that never end. `no_answer_tag`: no whole pair of tags behind the
    thoughts. `doubled_tag`: more than one opening or closing tag there, nested or in a row, so that
    nobody can choose which one counts. What stands around the tags is not looked at.

    >>> read_strictly("<think>x</think><predicted_observation>\\nok\\n</predicted_observation>")
    ('ok', None)
    """
    spoken = said.rpartition("</think>")[2]
    if "<think>" in spoken:
        return None, "open_thoughts"
    n_open, n_close = spoken.count(ANSWER_OPEN), spoken.count(ANSWER_CLOSE)
    if max(n_open, n_close) > 1:
        return None, "doubled_tag"
    found = read_prediction(spoken)
    return (None, "no_answer_tag") if found is None else (found[0], None)


def check_answer(answer: Answer, prediction: str) -> str | None:
    """Return why an observation earns nothing, null when it may earn something.

    `empty_answer`: nothing where something came. `meta_talk`: it speaks of itself as of a
    prediction, or praises itself. `answer_leaked`: it gives away what nothing before it told.
    """
    recorded = unescape(answer.recorded)
    if recorded.strip() and not prediction.strip():
        return "empty_answer"
    if talk_about_itself(recorded, prediction) is not None:
        return "meta_talk"
    if answer.secret:
        case = Case(
            domain=answer.domain,
            # All that the prompt tells is known.
            task="\n".join(unescape(message["content"]) for message in answer.messages),
            action=Turn(action="", action_kind="none"),
            recorded=recorded,
            prediction=prediction,
            answer=answer.secret,
        )
        if any(one.score < 1 for one in check_leak(case)):
            return "answer_leaked"
    return None


def passes_rules(answer: Answer, prediction: str) -> bool:
    """Return whether an observation passes all verifiers of its row.

    One that is far longer than the recorded one passes none: it could hold every answer.
    """
    longest = MAX_TIMES_LONGER * len(answer.recorded) + LENGTH_SLACK_CHARS
    return len(prediction) <= longest and all(verify(one, prediction) for one in answer.verifiers)


def rewards(
    answers: Iterable[Answer],
    *,
    judge: str | Judge | None = None,
    rubric_weight: float = RUBRIC_WEIGHT,
) -> list[Rewarded]:
    """Return the reward of each answer, in order; the judge is asked about all of them at once.

    Raises TrajkitError for a weight outside [0, 1], an unknown domain, or a SPEC that is none.
    """
    if not 0 <= rubric_weight <= 1:
        raise TrajkitError("rubric_weight", f"{rubric_weight} is no share", "0.9 is the default")
    desk = _desk_of(judge)
    found: list[Rewarded] = []
    waiting: dict[int, Asked] = {}
    for number, answer in enumerate(answers):
        if answer.domain not in domains.ORDER:
            hint = f"one of {alternatives(domains.ORDER)}"
            raise TrajkitError("data_source", f"no domain {quote(answer.domain)}", hint)
        prediction, refused = read_strictly(answer.said)
        if prediction is not None:
            prediction = domains.load(answer.domain).shown(prediction)
            refused = check_answer(answer, prediction)
        rule = None
        if answer.verifiers:
            passes = refused is None and passes_rules(answer, prediction or "")
            rule = SCALE * passes
        if refused is not None:
            found.append(Rewarded(score=0.0, rule=rule, refused=refused))
            continue
        found.append(Rewarded(score=rule, rule=rule))
        needs_judge = rule is None or rubric_weight > 0
        if desk is not None and needs_judge:
            waiting[number] = _asked(str(number), answer, prediction or "")
    if desk is not None and waiting:
        judged = desk.score(list(waiting.values()))
        for number, one in zip(waiting, judged, strict=True):
            found[number] = _mixed(one, found[number].rule, rubric_weight)
    return found


def _mixed(judged: Judged, rule: float | None, weight: float) -> Rewarded:
    if judged.scores is not None:
        rubric = 5 * sum(judged.scores[axis] for axis in AXES) / len(AXES)
    elif judged.failure in _OWN_FAULTS:
        rubric = 0.0
    else:
        return Rewarded(score=None, rule=rule, failure=judged.failure)
    score = rubric if rule is None else weight * rubric + (1 - weight) * rule
    return Rewarded(score=score, rubric=rubric, rule=rule, failure=judged.failure)


def _asked(key: str, answer: Answer, prediction: str) -> Asked:
    *history, last = answer.messages or ({"role": "user", "content": ""},)
    action = {"role": last["role"], "content": last["content"].removesuffix(ASK).rstrip()}
    return Asked(
        key=key,
        domain=answer.domain,
        messages=(*history, action),
        recorded=unescape(answer.recorded),
        prediction=prediction,
    )


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: Mapping[str, Any] | None = None,
    *,
    judge: str | Judge | None = None,
    rubric_weight: float = RUBRIC_WEIGHT,
    **_: Any,
) -> dict[str, float]:
    """Return the reward of one answer as verl takes it: `score`, and its parts to be logged.

    `rubric` and `rule` are 0 where a row or a run has none; `judged`, `has_rule` and `refused` (0
    or 1) tell. May be called from many threads: what waits is put to the judge together.

    Raises TrajkitError when the judge could not be asked or there is nothing to reward by: verl
    cannot leave an answer out, and a zero would teach that it was wrong.
    """
    answer = _from_verl(data_source, solution_str, ground_truth, extra_info or {})
    return _for_verl(rewards([answer], judge=judge, rubric_weight=rubric_weight)[0])


def compute_scores(
    data_sources: Sequence[str],
    solution_strs: Sequence[str],
    ground_truths: Sequence[str],
    extra_infos: Sequence[Mapping[str, Any] | None],
    *,
    judge: str | Judge | None = None,
    rubric_weight: float = RUBRIC_WEIGHT,
    **_: Any,
) -> list[dict[str, float]]:
    """Return the rewards of many answers: the same for verl's `batch` reward manager."""
    rows = zip(data_sources, solution_strs, ground_truths, extra_infos, strict=True)
    answers = [_from_verl(source, said, truth, extra or {}) for source, said, truth, extra in rows]
    found = rewards(answers, judge=judge, rubric_weight=rubric_weight)
    return [_for_verl(one) for one in found]


def _from_verl(source: str, said: str, truth: str, extra: Mapping[str, Any]) -> Answer:
    return Answer(
        domain=source.removeprefix(PREFIX),
        said=said,
        recorded=truth,
        messages=orjson.loads(extra.get("history") or "[]"),
        verifiers=read(extra.get("verifiers") or ""),
        secret=extra.get("secret") or "",
    )


def _for_verl(one: Rewarded) -> dict[str, float]:
    if one.score is None:
        if one.failure is None:
            what, hint = "a row without verifiers needs a judge", "name one, or --verified-only"
        else:
            what, hint = f"the judge gave no verdict: {one.failure}", "see that it answers"
        raise TrajkitError("reward", what, hint)
    return {
        "score": one.score,
        "rubric": one.rubric or 0.0,
        "rule": one.rule or 0.0,
        "judged": float(one.rubric is not None),
        "has_rule": float(one.rule is not None),
        "refused": float(one.refused is not None),
    }


class Reward:
    """A reward function for TRL, with a judge and a weight of its own."""

    def __init__(self, judge: str | Judge | None = None, rubric_weight: float = RUBRIC_WEIGHT):
        """Remember them; the judge is opened with the first answer."""
        self.judge = judge
        self.rubric_weight = rubric_weight
        self.__name__ = "trajkit_reward"

    def __call__(
        self,
        prompts: Sequence[Messages],
        completions: Sequence[Any],
        *,
        domain: Sequence[str],
        ground_truth: Sequence[str],
        verifiers: Sequence[str],
        secret: Sequence[str],
        log_metric: Any = None,
        **_: Any,
    ) -> list[float | None]:
        """Return the reward of each completion, null where nothing could give one.

        TRL leaves a null out. Completions are texts or lists of messages, prompts lists of
        messages; the rest are columns of `trajkit build-rl --trainer trl`.
        """
        rows = zip(prompts, completions, domain, ground_truth, verifiers, secret, strict=True)
        found = rewards(
            (
                Answer(
                    domain=name,
                    said=_text_of(completion),
                    recorded=truth,
                    messages=prompt,
                    verifiers=read(own),
                    secret=hidden or "",
                )
                for prompt, completion, name, truth, own, hidden in rows
            ),
            judge=self.judge,
            rubric_weight=self.rubric_weight,
        )
        if log_metric is not None and found:
            for name in ("rubric", "rule"):
                parts = [part for one in found if (part := getattr(one, name)) is not None]
                if parts:
                    log_metric(f"trajkit/{name}", math.fsum(parts) / len(parts))
            log_metric(
                "trajkit/refused", sum(one.refused is not None for one in found) / len(found)
            )
        return [one.score for one in found]


def reward(
    prompts: Sequence[Messages], completions: Sequence[Any], **columns: Any
) -> list[float | None]:
    """Return the rewards of completions for TRL, by the judge that TRAJKIT_JUDGE names."""
    return Reward()(prompts, completions, **columns)


def _text_of(completion: Any) -> str:
    """Return what a completion says: a text, or the last message of a list."""
    if isinstance(completion, str):
        return completion
    content = completion[-1].get("content") if completion else ""
    return content if isinstance(content, str) else ""


def _desk_of(judge: str | Judge | None) -> Desk | None:
    if isinstance(judge, Judge):
        return _desk_for(judge)
    spec = judge or os.environ.get(JUDGE_VARIABLE)
    return _desk(spec) if spec else None


@cache
def _desk(spec: str) -> Desk:
    """Return the desk of a judge; one engine for all that ask."""
    from trajkit.worldmodel import is_embedded, open_world_model

    model = open_world_model(spec)
    return Desk(
        Judge(model, max_tokens=MAX_EMBEDDED_TOKENS if is_embedded(model) else MAX_JUDGE_TOKENS)
    )


@cache
def _desk_for(judge: Judge) -> Desk:
    return Desk(judge)
