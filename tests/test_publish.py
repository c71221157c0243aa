"""Publishing: what leaves the machine, what a repository keeps, and what is refused."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from datasets import Features, load_dataset
from hub_fixtures import (
    BY_HAND,
    NAME,
    build_other,
    header_of,
    preview_of,
    push,
    rows_of,
)
from huggingface_hub import constants
from loopback_hub import LoopbackHub

from trajkit.builders.cpt import Options, build_cpt
from trajkit.errors import TrajkitError


def test_a_dry_run_shows_the_card_and_the_files_and_asks_nobody(
    flow: Path, hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a dry run opened a connection")

    before = {path: path.read_bytes() for path in (flow / "cpt").rglob("*") if path.is_file()}
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(constants, "ENDPOINT", hub.endpoint)
    fields, preview = preview_of(flow / "cpt")
    assert sum(hub.calls.values()) == 0
    assert before == {p: p.read_bytes() for p in (flow / "cpt").rglob("*") if p.is_file()}
    assert fields["stage"] == "publish"
    assert fields["read"] == fields["kept"] == 8
    assert (fields["written"], fields["dry_run"], fields["files"]) == (0, True, 5)
    assert header_of(preview)["license"] == "mit"
    for path in sorted((flow / "cpt").rglob("*.parquet")):
        name = path.relative_to(flow / "cpt").as_posix()
        assert f"{path.stat().st_size:,}  {name}" in preview
    assert ".jsonl" not in preview


def test_the_card_tells_rows_licences_and_every_stage_back_to_the_log(flow: Path) -> None:
    _, card = preview_of(flow / "cpt")
    for stage in ("ingest", "filter", "dedup", "transitions", "build-cpt"):
        assert f"| `{stage}` |" in card
    assert "| `terminal` | `train` |" in card
    assert "| `cc-by-4.0` | 8 |" in card
    assert "No benchmark is known to have been checked" in card
    assert f'load_dataset("{NAME}", "default", split="train")' in card
    header = header_of(card)
    assert header["size_categories"] == ["n<1K"]
    assert {"trajkit", "world-model"} <= set(header["tags"])
    assert sum(split["num_examples"] for split in header["dataset_info"]["splits"]) == 8


def test_a_folder_away_from_its_stores_still_gets_a_card(cpt: Path) -> None:
    _, card = preview_of(cpt)
    assert "| `build-cpt` |" in card
    assert "| `ingest` |" not in card
    assert "known by hash alone" in card


def test_what_a_hub_received_loads_as_the_very_rows_that_were_built(
    flow: Path, hub: LoopbackHub, tmp_path: Path
) -> None:
    report = push(flow / "cpt", hub)
    repository = hub.repositories[NAME]
    assert repository.private
    assert sorted(repository.files()) == [
        ".gitattributes",
        "README.md",
        "manifest.json",
        "test/part-00000.parquet",
        "train/part-00000.parquet",
        "validation/part-00000.parquet",
    ]
    assert repository.files()["manifest.json"] == (flow / "cpt/manifest.json").read_bytes()
    fields = report.as_dict()
    assert fields["written"] == 8
    assert fields["revision"] == repository.head
    assert fields["url"].endswith(f"/datasets/{NAME}/tree/{repository.head}")
    copy = hub.export(NAME, tmp_path / "copy")
    loaded = load_dataset(str(copy), cache_dir=str(tmp_path / "cache"))
    assert set(loaded) == {"train", "validation", "test"}
    schema = pq.read_schema(flow / "cpt/train/part-00000.parquet")
    for split, data in loaded.items():
        assert data.features == Features.from_arrow_schema(schema)
        assert data.to_list() == rows_of(flow / "cpt", split)
    assert not [name for name in hub.calls if name.startswith("unknown")]


def test_a_second_push_of_the_same_rows_makes_no_commit_and_sends_no_file(
    flow: Path, hub: LoopbackHub
) -> None:
    first = push(flow / "cpt", hub)
    sent, n_commits = hub.calls["store"], len(hub.repositories[NAME].commits)
    second = push(flow / "cpt", hub)
    assert hub.calls["store"] == sent
    assert len(hub.repositories[NAME].commits) == n_commits
    assert (first.extra["changed"], second.extra["changed"]) == (True, False)
    assert second.written == 0
    assert second.extra["revision"] == first.extra["revision"]


def test_a_push_keeps_prose_and_other_configs_and_replaces_old_features(
    flow: Path, hub: LoopbackHub
) -> None:
    repository = hub.seed(NAME, {"README.md": BY_HAND.encode(), "tools/train-0.csv": b"call\nx\n"})
    push(flow / "cpt", hub)
    card = repository.files()["README.md"].decode()
    assert "Limits that I wrote by hand." in card
    assert "old_column" not in card
    header = header_of(card)
    assert [config["config_name"] for config in header["configs"]] == ["default", "tools"]
    assert [config.get("default") for config in header["configs"]] == [True, None]
    assert header["configs"][1]["data_files"] == [{"split": "train", "path": "tools/train-*"}]
    assert (header["license"], header["language"]) == ("mit", ["no"])
    assert header["date"] == "2024-05-06"
    infos = {info["config_name"]: info for info in header["dataset_info"]}
    assert infos["tools"]["features"] == [{"name": "call", "dtype": "string"}]
    schema = pq.read_schema(flow / "cpt/train/part-00000.parquet")
    read = Features._from_yaml_list(infos["default"]["features"])
    assert read == Features.from_arrow_schema(schema)
    assert repository.files()["tools/train-0.csv"] == b"call\nx\n"


def test_a_default_that_a_person_chose_stays_the_only_one(flow: Path, hub: LoopbackHub) -> None:
    chosen = BY_HAND.replace("{config_name: tools,", "{config_name: tools, default: true,", 1)
    repository = hub.seed(NAME, {"README.md": chosen.encode()})
    push(flow / "cpt", hub)
    header = header_of(repository.files()["README.md"])
    assert [config.get("default") for config in header["configs"]] == [None, True]


def test_prose_added_after_the_first_push_survives_the_next(flow: Path, hub: LoopbackHub) -> None:
    push(flow / "cpt", hub)
    repository = hub.repositories[NAME]
    files = dict(repository.files())
    card = files["README.md"].decode()
    block = "<!-- trajkit: begin default -->"
    files["README.md"] = (card.replace(block, f"Above.\n\n{block}") + "\nBelow.\n").encode()
    repository.commit("by hand", files)
    assert not push(flow / "cpt", hub).extra["changed"]
    push(flow / "cpt", hub, license="mit")
    after = repository.files()["README.md"].decode()
    assert after.count(block) == 1
    assert "Above.\n" in after
    assert after.endswith("\nBelow.\n")
    assert header_of(after)["license"] == "mit"


def test_a_hostile_name_in_a_log_cannot_end_our_block_or_start_a_link(
    flow: Path, hub: LoopbackHub
) -> None:
    push(flow / "cpt", hub)
    card = hub.repositories[NAME].files()["README.md"].decode()
    assert card.count("<!-- trajkit: end default -->") == 1
    assert "\n# owned" not in card
    assert "<" not in card.split("| source | licence | rows |")[1].split("```")[0]
    assert not re.search(r"(?<!\\)\]\(", card)


def test_a_card_that_cannot_be_read_is_refused_and_nothing_is_changed(
    flow: Path, hub: LoopbackHub
) -> None:
    repository = hub.seed(NAME, {"README.md": b"---\nlicense: [mit\n---\n"})
    with pytest.raises(TrajkitError, match="header is no YAML"):
        push(flow / "cpt", hub)
    repository.commit("by hand", {"README.md": b"<!-- trajkit: begin default -->\n"})
    with pytest.raises(TrajkitError, match="has no end"):
        push(flow / "cpt", hub)
    huge = "".join(f"- tag number {number}\n" for number in range(10_000))
    repository.commit("by hand", {"README.md": f"---\ntags:\n{huge}---\n".encode()})
    with pytest.raises(TrajkitError, match="its header would have"):
        push(flow / "cpt", hub)
    assert hub.calls["commit"] == 0


def test_rows_of_another_stage_become_a_second_config(
    flow: Path, hub: LoopbackHub, tmp_path: Path
) -> None:
    push(flow / "cpt", hub)
    report = push(build_other(tmp_path / "sft", "build-sft"), hub)
    assert report.extra["config"] == "build-sft"
    copy = str(hub.export(NAME, tmp_path / "copy"))
    first = load_dataset(copy, cache_dir=str(tmp_path / "cache"))
    second = load_dataset(copy, "build-sft", cache_dir=str(tmp_path / "cache"))
    assert first["train"].to_list() == rows_of(flow / "cpt", "train")
    assert second["train"]["answer"][:] == ["answer 0"]
    assert not push(tmp_path / "sft", hub).extra["changed"]
    assert not push(flow / "cpt", hub).extra["changed"]


def test_parts_of_an_earlier_push_that_are_gone_are_removed(
    hub: LoopbackHub, tmp_path: Path
) -> None:
    push(build_other(tmp_path / "three", "build-sft", parts=3), hub)
    report = push(build_other(tmp_path / "two", "build-sft", parts=2), hub)
    assert report.extra["removed"] == ["train/part-00002.parquet"]
    copy = str(hub.export(NAME, tmp_path / "copy"))
    assert load_dataset(copy, cache_dir=str(tmp_path / "cache"))["train"].num_rows == 2


def test_columns_that_mark_agent_traces_stay_ordinary_columns(
    hub: LoopbackHub, tmp_path: Path
) -> None:
    columns = ("id", "model", "system_prompt", "messages", "reward")
    push(build_other(tmp_path / "rows", "build-sft", columns=columns), hub)
    copy = str(hub.export(NAME, tmp_path / "copy"))
    loaded = load_dataset(copy, cache_dir=str(tmp_path / "cache"))["train"]
    assert {"source", "answer", *columns} <= set(loaded.column_names)
    assert loaded.to_list() == rows_of(tmp_path / "rows", "train")


def test_a_change_by_somebody_else_meanwhile_is_not_overwritten(
    flow: Path, hub: LoopbackHub
) -> None:
    repository = hub.seed(NAME, {"README.md": b"# Mine\n"})
    hub.before["preupload"] = lambda: repository.commit("meanwhile", {"README.md": b"# Newer\n"})
    with pytest.raises(TrajkitError, match="412") as refused:
        push(flow / "cpt", hub)
    assert "run it again" in refused.value.hint
    assert repository.files() == {"README.md": b"# Newer\n"}
    push(flow / "cpt", hub)
    assert b"# Newer\n" in repository.files()["README.md"]


@pytest.mark.parametrize(
    ("path", "data", "problem"),
    [
        ("train/part-00000.parquet", b"theirs", "did not put there"),
        ("train/part-00099.parquet", b"theirs", "did not put there"),
        ("manifest.json", b'{"name": "an app"}', "did not write"),
    ],
)
def test_files_of_somebody_else_are_never_replaced_or_mixed_in(
    flow: Path, hub: LoopbackHub, path: str, data: bytes, problem: str
) -> None:
    repository = hub.seed(NAME, {path: data})
    with pytest.raises(TrajkitError, match=problem):
        push(flow / "cpt", hub)
    assert repository.files() == {path: data}


def test_the_card_of_packed_rows_tells_the_licence_of_each_episode_and_of_mixed_text_its_source(
    flow: Path, tmp_path: Path
) -> None:
    extra = tmp_path / "manual.jsonl"
    extra.write_text('{"text": "A manual of ponds."}\n')
    options = Options(layout="tokens", max_tokens=4096)
    build_cpt(flow / "transitions", flow / "packed", options=options, mix=[extra], quiet=True)
    _, card = preview_of(flow / "packed")
    assert "| source | licence | episodes |" in card
    assert "| `cc-by-4.0` | 8 |" in card
    assert "| `manual.jsonl` |" in card
