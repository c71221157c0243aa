"""Which rows carry an instruction: by mode, by share, by seed."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import pytest
from test_instructions import episode, keys, search_run, step

from trajkit.builders.prompts import variant_of
from trajkit.errors import TrajkitError
from trajkit.instructions import Instruction, Options, choose, derive


def test_recorded_instructions_come_first_and_none_means_none() -> None:
    row = episode("mcp", simulation_instruction="The store is closed.")
    steps = [step("{}", "Error: closed")]
    for mode in ("recorded", "derived"):
        made = choose(row, steps, 0, Options(instructions=mode), 0)
        assert made == Instruction(text="The store is closed.", kind="recorded")
    assert choose(row, steps, 0, Options(instructions="none"), 0) is None
    bare = episode("mcp")
    assert choose(bare, steps, 0, Options(), 0) is None
    everything = Options(instructions="derived", instruction_share=1.0)
    made = choose(bare, steps, 0, everything, 0)
    assert made is not None and made.kind == "mcp_fact"
    assert choose(bare, steps, 0, replace(everything, instruction_share=0.0), 0) is None


def test_search_runs_carry_one_whatever_the_share() -> None:
    row, steps = search_run(meta='{"answer": "Ashel"}')
    for share in (0.0, 1.0):
        chosen = Options(instructions="derived", instruction_share=share)
        made = choose(row, steps, 0, chosen, 0)
        assert made is not None and made.kind == "search_target"


def test_the_share_is_drawn_by_content_and_seed_beside_every_other_draw() -> None:
    steps = [step("{}", "Error: closed")]
    chosen = Options(instructions="derived", instruction_share=0.3)
    hashes = [hashlib.sha256(str(n).encode()).hexdigest() for n in range(4_000)]

    def told(one: str, seed: int) -> bool:
        return choose(episode("mcp", content_hash=one), steps, 0, chosen, seed) is not None

    first = [told(one, 0) for one in hashes]
    assert 0.27 < sum(first) / len(first) < 0.33
    assert [told(one, 0) for one in reversed(hashes)] == first[::-1]
    both = sum(a and told(one, 1) for a, one in zip(first, hashes, strict=True))
    assert 0.07 < both / len(hashes) < 0.11
    variants = [variant_of({"content_hash": one}, 0) for one in hashes]
    low = [t for t, v in zip(first, variants, strict=True) if v in ("v2", "v3", "v4")]
    assert 0.25 < sum(low) / len(low) < 0.35


def test_of_many_facts_the_seed_says_which_three() -> None:
    names = "bash: ga: command not found\n" + "\n".join(
        f"bash: tool{n}: command not found" for n in range(8)
    )
    screen = f"a@box:~$ ./all\n{names}\na@box:~$"
    steps = [step(keys("./all"), screen)]
    told = [derive(episode("terminal"), steps, 0, seed=seed) for seed in range(6)]
    assert all(made is not None and len(made.facts) == 3 for made in told)
    assert len({made.text for made in told if made is not None}) > 1
    assert derive(episode("terminal"), steps, 0, seed=0) == told[0]


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"instructions": "some"}, "one of derived, none, recorded"),
        ({"instruction_share": 1.5}, "outside"),
    ],
)
def test_a_wrong_option_says_what_would_be_right(chosen: dict[str, Any], message: str) -> None:
    with pytest.raises(TrajkitError, match=message):
        Options(**chosen)
