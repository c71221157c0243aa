"""LLaMA-Factory: speakers in turn, `dataset_info.json` and its settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import datasets
import pytest
import yaml
from trainer_rows import faults

from trajkit import trainers
from trajkit.builders.cpt import Options as CptOptions
from trajkit.builders.cpt import build_cpt
from trajkit.builders.sft import Options, build_sft
from trajkit.control_tokens import BREAK
from trajkit.errors import TrajkitError
from trajkit.trainers import Built, Kind, Message

FACTORY = trainers.load("llamafactory")
ASKED = [
    Message(role="system", content="rules"),
    Message(role="user", content="act 0"),
    Message(role="assistant", content="see 0", loss=True),
    Message(role="user", content="act 1"),
]
ANSWER = Message(role="assistant", content="see 1", loss=True)


def files(kind: Kind, name: str = "out", *, has_reasoning: bool = False) -> tuple[Any, Any]:
    """Return `dataset_info.json` and `train.yaml`, read."""
    assert FACTORY.files is not None
    splits = ("train", "validation", "test")
    built = Built(name=name, kind=kind, splits=splits, has_reasoning=has_reasoning)
    made = FACTORY.files(built)
    return json.loads(made["dataset_info.json"]), yaml.safe_load(made["train.yaml"])


def test_a_row_has_its_system_prompt_aside_and_speakers_in_turn() -> None:
    assert FACTORY.sft is not None
    row = FACTORY.sft([*ASKED, ANSWER])
    assert row == {
        "system": "rules",
        "conversations": [
            {"from": "human", "value": "act 0"},
            {"from": "gpt", "value": "see 0"},
            {"from": "human", "value": "act 1"},
            {"from": "gpt", "value": "see 1"},
        ],
    }
    assert faults("llamafactory", row) == []


def test_reasoning_stands_inline_and_none_leaves_no_tag() -> None:
    assert FACTORY.sft is not None
    thought = Message(role="assistant", content="see 1", reasoning="so", loss=True)
    said = FACTORY.sft([*ASKED, thought])["conversations"]
    assert said[-1]["value"] == "<think>\nso\n</think>\n\nsee 1"
    assert "<think>" not in str(FACTORY.sft([*ASKED, ANSWER]))


def test_a_slot_of_its_templates_in_an_action_is_broken_up() -> None:
    assert FACTORY.sft is not None
    text = "v-for {{idx}} {{content}}"
    row = FACTORY.sft([Message(role="user", content=text), ANSWER])
    assert row["conversations"][0]["value"] == f"v-for {{{BREAK}{{idx}}}} {{{{content}}}}"
    answer = Message(role="assistant", content=text, loss=True)
    # Answers stay as they are: only the text of a user is filled in before the number of the turn.
    assert FACTORY.sft([*ASKED, answer])["conversations"][-1]["value"] == text


def test_there_are_no_pre_training_rows_as_messages(tmp_path: Path) -> None:
    assert FACTORY.messages is None
    with pytest.raises(TrajkitError, match="LLaMA-Factory reads no rows of the layout messages"):
        build_cpt(
            tmp_path,
            tmp_path / "out",
            options=CptOptions(layout="messages", trainer="llamafactory"),
            quiet=True,
        )


@pytest.mark.parametrize("jsonl", [False, True])
def test_each_split_in_the_index_is_a_folder_of_rows(
    transitions_store: Path, tmp_path: Path, jsonl: bool
) -> None:
    out = tmp_path / "out"
    options = Options(trainer="llamafactory", jsonl=jsonl)
    report = build_sft(transitions_store, out, options=options, quiet=True)
    index = json.loads((out / "dataset_info.json").read_bytes())
    n_rows = {}
    for name, found in index.items():
        # What its loader does with `script_url`; JSON lines beside the rows add none.
        rows = datasets.load_dataset(
            str(out / found["script_url"]), split="train", cache_dir=str(tmp_path / "cache")
        )
        n_rows[name.removeprefix("out_")] = len(rows)
        assert set(found["columns"].values()) <= set(rows.column_names)
    assert n_rows == report.extra["splits"]
    assert sum(n_rows.values()) == report.kept


def test_settings_train_on_the_last_turn_and_never_on_an_empty_thought() -> None:
    index, settings = files("sft")
    assert settings == {
        "dataset_dir": ".",
        "dataset": "out_train",
        "eval_dataset": "out_validation",
        "stage": "sft",
        "mask_history": True,
        "cutoff_len": 131072,
        "enable_thinking": False,
    }
    assert {settings["dataset"], settings["eval_dataset"]} < index.keys()
    # Turned off, it would take the reasoning out of rows that have some.
    assert "enable_thinking" not in files("sft", has_reasoning=True)[1]


def test_settings_of_text_and_tokens() -> None:
    index, settings = files("text")
    assert index["out_train"] == {
        "script_url": "train",
        "formatting": "alpaca",
        "columns": {"prompt": "text"},
    }
    assert (settings["stage"], settings["packing"]) == ("pt", False)
    _, settings = files("tokens")
    assert settings["tokenized_path"] == "../out_saved"
    assert settings["neat_packing"] is True and "cutoff_len" not in settings


def test_names_hold_no_comma_since_it_parts_a_list_there() -> None:
    index, settings = files("sft", "a,b: c")
    assert settings["dataset"] == "a_b_c_train"
    assert list(index) == ["a_b_c_train", "a_b_c_validation", "a_b_c_test"]
