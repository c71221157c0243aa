"""Publishing: what leaves the machine, what a repository keeps, and what is refused."""

from __future__ import annotations

import json
import re
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from chats import chat, write_rows
from click.testing import CliRunner
from datasets import Features, load_dataset
from huggingface_hub import constants
from huggingface_hub.utils import close_session
from loopback_hub import TOKEN, LoopbackHub

from trajkit.builders.cpt import build_cpt
from trajkit.builders.examples import ExampleWriter, example_schema
from trajkit.cli.publish import command
from trajkit.dedup import dedup
from trajkit.errors import TrajkitError
from trajkit.filters import filter_episodes
from trajkit.ingest import Options, ingest
from trajkit.publish import publish
from trajkit.report import Report
from trajkit.store import open_writer
from trajkit.transitions import transitions

NAME = "me/world-data"
HOSTILE_SOURCE = "<!-- trajkit: end default --> | [x](http://evil.example)\n# owned"
BY_HAND = """---
license: mit
language:
- no
date: 2024-05-06
configs:
- {config_name: default, data_files: [{split: train, path: data/train-*}]}
- {config_name: tools, data_files: [{split: train, path: tools/train-*}]}
dataset_info:
- {config_name: default, features: [{name: old_column, dtype: string}]}
- {config_name: tools, features: [{name: call, dtype: string}]}
---

# My corpus

Limits that I wrote by hand.
"""


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the whole way from a raw log to built rows."""
    root = tmp_path_factory.mktemp("flow")
    (root / "raw").mkdir()
    rows = []
    for number in range(8):
        turns = [
            (
                "bash",
                {"command": f"ls /{number}/{turn}"},
                f"file_{number}_{turn}.txt\n{number * 7}\n",
            )
            for turn in range(3)
        ]
        rows.append(chat(turns, task=f"Task {number}: look around"))
    write_rows(root / "raw" / "log.jsonl", rows)
    options = Options(domain="terminal", source=HOSTILE_SOURCE, license="cc-by-4.0")
    ingest((str(root / "raw"),), root / "store", options=options, quiet=True)
    filter_episodes(root / "store", root / "filtered", quiet=True)
    dedup(root / "filtered", root / "unique", quiet=True)
    transitions(root / "unique", root / "transitions", quiet=True)
    build_cpt(root / "transitions", root / "cpt", validation=0.4, jsonl=True, quiet=True)
    return root


@pytest.fixture
def cpt(flow: Path, tmp_path: Path) -> Path:
    """Return a copy of the built rows that a test may spoil."""
    return shutil.copytree(flow / "cpt", tmp_path / "cpt")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackHub]:
    """Return an empty Hub on this machine, and a token for it."""
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    # The other transfer protocol needs a storage service behind the Hub.
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    # The tests run offline; this Hub is on the machine itself.
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with LoopbackHub() as hub:
        yield hub
        close_session()


def push(folder: Path, hub: LoopbackHub, **options: Any) -> Report:
    """Return the report of an upload."""
    given: dict[str, Any] = {"private": True, "license": None, "tag": None, "quiet": True}
    given |= options
    report, preview = publish(folder, NAME, upload=True, endpoint=hub.endpoint, **given)
    assert preview is None
    return report


def preview_of(folder: Path, name: str = NAME) -> tuple[dict[str, Any], str]:
    """Return the report and the preview of a dry run."""
    report, preview = publish(
        folder, name, upload=False, private=True, license="mit", tag="v1", quiet=True
    )
    assert preview is not None
    return report.as_dict(), preview


def header_of(card: bytes | str) -> dict[str, Any]:
    """Return the header of a card as YAML 1.1, as Python readers see it."""
    text = card.decode() if isinstance(card, bytes) else card
    header: dict[str, Any] = yaml.safe_load(text.split("---\n")[1])
    return header


def rows_of(folder: Path, split: str) -> list[dict[str, Any]]:
    """Return the rows of a split as they lie on disk."""
    files = sorted((folder / split).glob("*.parquet"))
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def build_other(folder: Path, stage: str, parts: int = 1, columns: tuple[str, ...] = ()) -> Path:
    """Return a built folder of another stage with one row of short texts in each part."""
    writer = open_writer(
        folder, kind="examples", stage=stage, options={}, inputs=[], overwrite=False
    )
    texts = ("answer", *columns)
    schema = example_schema(*(pa.field(name, pa.string()) for name in texts))
    examples = ExampleWriter(writer, schema, validation=0.0, jsonl=False)
    for number in range(parts):
        row = {"trajectory_id": f"t{number}", "step_index": 0, "domain": "mcp", "source": "here"}
        row |= {"split_group": "f" * 16} | {name: f"{name} {number}" for name in texts}
        examples.add(row)
        writer.mark(f"part-{number:05}", examples.write(f"part-{number:05}"))
    report = Report(stage)
    report.read = report.kept = parts
    report.finish(writer)
    return folder


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
    assert (fields["written"], fields["dry_run"], fields["files"]) == (0, True, 4)
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
    assert set(loaded) == {"train", "validation"}
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


@pytest.mark.parametrize("damage", ["changed", "missing", "added"])
def test_a_folder_that_was_altered_is_refused_before_anything_is_sent(
    cpt: Path, hub: LoopbackHub, damage: str
) -> None:
    part = cpt / "train/part-00000.parquet"
    if damage == "changed":
        table = pq.read_table(part)
        pq.write_table(table.slice(1), part)
    elif damage == "missing":
        part.unlink()
    else:
        shutil.copy(part, cpt / "train/part-00007.parquet")
    with pytest.raises(TrajkitError) as refused:
        push(cpt, hub)
    assert "train/part-0000" in refused.value.where
    assert refused.value.hint
    assert sum(hub.calls.values()) == 0


def test_a_file_that_changes_while_it_goes_up_is_named(cpt: Path, hub: LoopbackHub) -> None:
    part = cpt / "train/part-00000.parquet"
    hub.before["preupload"] = lambda: part.write_bytes(b"x" * part.stat().st_size)
    with pytest.raises(TrajkitError, match="changed while it went up") as refused:
        push(cpt, hub)
    assert refused.value.where == str(part)


def test_a_store_of_episodes_is_refused_with_the_way_to_build(flow: Path) -> None:
    with pytest.raises(TrajkitError, match="not training rows") as refused:
        preview_of(flow / "transitions")
    assert "build-cpt" in refused.value.hint


def test_more_files_than_the_hub_takes_are_refused_before_anything_is_sent(
    cpt: Path, hub: LoopbackHub
) -> None:
    manifest = orjson.loads((cpt / "manifest.json").read_bytes())
    manifest["parts"] |= {f"train/part-{number:05}.parquet": "" for number in range(10_000)}
    (cpt / "manifest.json").write_bytes(orjson.dumps(manifest))
    with pytest.raises(TrajkitError, match="10000 files"):
        push(cpt, hub)
    assert sum(hub.calls.values()) == 0


def test_folders_and_addresses_of_this_machine_are_cut_out_of_the_uploaded_manifest(
    cpt: Path, hub: LoopbackHub
) -> None:
    manifest = orjson.loads((cpt / "manifest.json").read_bytes())
    manifest["options"] |= {"world_model": "replay:/home/ann lee/secret project/answers.jsonl"}
    manifest["options"] |= {"rationale": "rollout"}
    manifest["report"] |= {"world_model": "http://ann:pass@10.1.2.3:8000/v1#Qwen/Qwen3"}
    local = orjson.dumps(manifest)
    (cpt / "manifest.json").write_bytes(local)
    report = push(cpt, hub)
    files = hub.repositories[NAME].files()
    sent = orjson.loads(files["manifest.json"])
    assert sent["options"]["world_model"] == "replay:answers.jsonl"
    assert sent["report"]["world_model"] == "endpoint#Qwen/Qwen3"
    assert sent["parts"] == manifest["parts"]
    assert report.extra["shortened_in_manifest"] == ["options.world_model", "report.world_model"]
    assert (cpt / "manifest.json").read_bytes() == local
    assert b"written by the model `endpoint#Qwen/Qwen3`" in files["README.md"]
    for private in (b"ann lee", b"secret project", b"ann:pass", b"10.1.2.3"):
        assert not any(private in data for data in files.values())


def test_a_busy_hub_is_asked_again_and_no_file_goes_up_twice(flow: Path, hub: LoopbackHub) -> None:
    for call in ("create", "info", "preupload", "commit"):
        hub.fail(call, 429, times=2)
    assert push(flow / "cpt", hub).written == 8
    assert hub.calls["store"] == 2
    assert hub.calls["commit"] == 3
    assert len(hub.repositories[NAME].commits) == 2


@pytest.mark.parametrize(
    ("call", "status", "hint"),
    [
        ("create", 401, "HF_TOKEN"),
        ("commit", 403, "write access"),
        ("info", 404, "owner and name"),
        ("commit", 412, "run it again"),
        ("commit", 429, "wait"),
        ("commit", 500, "later"),
        ("store", 403, "write access"),
    ],
)
def test_a_refusal_of_the_hub_says_the_next_move_and_never_the_token(
    flow: Path, hub: LoopbackHub, call: str, status: int, hint: str
) -> None:
    hub.fail(call, status, message=f"bad token {TOKEN}")
    with pytest.raises(TrajkitError) as refused:
        push(flow / "cpt", hub)
    text = str(refused.value)
    assert str(status) in text
    assert hint in refused.value.hint
    assert TOKEN not in text
    assert "(token)" in text
    assert "no rows were changed" in text


def test_a_token_that_no_header_can_hold_is_named_without_being_shown(
    flow: Path, hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_sécret")
    with pytest.raises(TrajkitError, match="not plain ASCII") as refused:
        push(flow / "cpt", hub)
    assert "cret" not in str(refused.value)


def test_a_hub_out_of_reach_is_an_error_a_person_can_read(
    flow: Path, hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LoopbackHub() as gone:
        pass
    with pytest.raises(TrajkitError, match="no connection to the Hub"):
        push(flow / "cpt", gone)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(TrajkitError, match="OfflineModeIsEnabled"):
        push(flow / "cpt", hub)


def test_a_tag_marks_the_revision_and_a_taken_one_says_that_the_rows_are_there(
    flow: Path, hub: LoopbackHub, tmp_path: Path
) -> None:
    repository = hub.seed(NAME, {"README.md": b"# Mine\n"})
    hub.before["tag"] = lambda: repository.commit("meanwhile", dict(repository.files()))
    report = push(flow / "cpt", hub, tag="v1.0")
    assert report.extra["revision"] != repository.head
    assert repository.tags == {"v1.0": report.extra["revision"]}
    with pytest.raises(TrajkitError, match="the rows are there as") as refused:
        push(flow / "cpt", hub, tag="v1.0", license="mit")
    assert repository.head in str(refused.value)
    assert repository.tags == {"v1.0": report.extra["revision"]}


@pytest.mark.parametrize("name", ["alone", "a/b/c", "me/", "me/a b", "me/a--b", "../x", "me/x.git"])
def test_a_name_that_is_no_repository_is_refused(flow: Path, name: str) -> None:
    with pytest.raises(TrajkitError, match="REPO"):
        preview_of(flow / "cpt", name)


def test_a_public_push_without_licence_or_scrub_is_told(flow: Path, hub: LoopbackHub) -> None:
    report = push(flow / "cpt", hub, private=False)
    assert not hub.repositories[NAME].private
    assert any("licence" in warning for warning in report.warnings)
    assert any("scrub" in warning for warning in report.warnings)


def test_the_command_prints_one_line_of_json_and_the_preview_beside_it(flow: Path) -> None:
    result = CliRunner().invoke(command, [str(flow / "cpt"), NAME, "-q", "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["dry_run"] is True
    assert "Would upload to" in result.stderr
