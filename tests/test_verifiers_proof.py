"""Verifiers: what each must stand to be kept, and how right those are that were."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from fidelity_cases import PRODUCT
from gate_variations import ACCEPT, Sample, samples, variations
from test_verifiers import MISSING, SETTLED, SHOWN, UNSETTLED, call, shell, tool

from trajkit.fidelity.gate import judge
from trajkit.fidelity.talk import talk_about_itself
from trajkit.verifiers import Verifier, prove, proven, refusal, verify
from trajkit.verifiers.rollouts import right, wrong

ROOT = Path(__file__).parent.parent


def test_a_verifier_that_passes_a_wrong_answer_is_refused() -> None:
    case = shell("cat gone.txt", MISSING, ("cat gone.txt", MISSING))
    weak = Verifier(kind="pieces", axis="error_handling", wanted=("ann@box",))
    good = Verifier(kind="pieces", axis="error_handling", wanted=("gone.txt", "No such file"))
    rights, wrongs = right(case), wrong(case, [SHOWN])
    assert {one.kind for one in wrongs} >= {"other_step", "empty", "action_echoed", "self_praise"}
    assert refusal(weak, case, rights, wrongs) == "passes_other_step"
    assert proven(good, case, rights, wrongs)
    assert refusal(good, case, rights, wrongs[:2]) == "few_wrong_answers"


def test_a_verifier_that_fails_a_right_answer_is_refused() -> None:
    screen = "ann@box:~$ date\nMon Jan  5 10:00:01 UTC 2026\nann@box:~$"
    case = shell("date", screen, ("ls", "ann@box:~$ ls\nann@box:~$"))
    strict = Verifier(kind="lines", axis="long_context", wanted=("Mon Jan  5 10:00:01 UTC 2026",))
    assert refusal(strict, case, right(case), wrong(case, [SHOWN])) == "fails_metadata_redrawn"


def test_a_truth_that_the_gate_refuses_proves_nothing() -> None:
    # Praise in the recording itself.
    case = tool("mcp", call("status", {"id": 3}, "as an AI I cannot run this status of the job"))
    twice = replace(case, history=(replace(case.action, observation=case.recorded),))
    found = prove(replace(twice, recorded=twice.recorded + "\n### Turn 9"), [])
    assert not found.kept


def test_a_verifier_must_say_of_predictions_what_the_gate_says() -> None:
    case = shell("cat gone.txt", MISSING, ("cat gone.txt", MISSING))
    assert prove(case, [SHOWN], predictions=[MISSING]).kept
    # Refused by the gate for a prompt that cannot be, and nothing a region of it would see.
    other = MISSING.replace("ann@box:~$", "root@far:/#")
    assert not judge(replace(case, prediction=other)).passed
    found = prove(case, [SHOWN], predictions=[other])
    assert found.counts["verifiers.refused.disagrees_on_predictions"] >= 1
    kept = {one.kind for one in found.kept}
    assert kept < {one.kind for one in prove(case, [SHOWN]).kept}


def test_every_proposal_is_accounted_for() -> None:
    for _, case in [*SETTLED, *UNSETTLED]:
        counts = prove(case, [SHOWN, PRODUCT]).counts
        parts = [n for name, n in counts.items() if name != "verifiers.proposed"]
        assert counts["verifiers.proposed"] == sum(parts)


def test_answers_for_the_proof_follow_from_the_case_alone() -> None:
    case = shell("cat gone.txt", MISSING, ("cat gone.txt", MISSING))
    random.seed(1)
    first = right(case), wrong(case, [SHOWN, PRODUCT])
    random.seed(2)
    assert (right(case), wrong(case, [PRODUCT, SHOWN])) == first


# --- on the logs of this repository, with answers made by other means


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Sample, list[Verifier]]]:
    folder = tmp_path_factory.mktemp("verifiers")
    return [
        (sample, prove(sample.case, sample.others).kept)
        for sample in samples(folder, [ROOT / "examples" / "logs"], 40)
    ]


def test_every_domain_has_proven_verifiers(tried: list[tuple[Sample, list[Verifier]]]) -> None:
    n = Counter(sample.case.domain for sample, kept in tried if kept)
    assert len(n) == 7, n
    assert sum(n.values()) >= 50


def test_proven_verifiers_agree_with_answers_of_known_worth(
    tried: list[tuple[Sample, list[Verifier]]],
) -> None:
    """What they were not proven with: the variations that the gate itself is measured by."""
    found: Counter[tuple[bool, bool]] = Counter()
    for sample, kept in tried:
        for one in variations(sample) if kept else ():
            # A part of an answer may be right where another part was changed.
            if one.kind in ("value_changed", "lines_dropped", "other_format", "answer_leaked"):
                continue
            talks = talk_about_itself(sample.case.recorded, one.text) is not None
            passes = not talks and all(verify(own, one.text) for own in kept)
            found[one.kind in ACCEPT, passes] += 1
    right_share = found[True, True] / (found[True, True] + found[True, False])
    wrong_share = found[False, False] / (found[False, True] + found[False, False])
    assert found[True, True] >= 100
    assert found[False, False] >= 100
    assert right_share >= 0.98, found
    assert wrong_share >= 0.98, found
