"""What publish will not do, and what it says then."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import orjson
import pyarrow.parquet as pq
import pytest
from chats import chat, write_rows
from click.testing import CliRunner
from hub_fixtures import (
    NAME,
    preview_of,
    push,
)
from huggingface_hub import constants
from loopback_hub import TOKEN, LoopbackHub

from trajkit.builders.cpt import build_cpt
from trajkit.cli.publish import command
from trajkit.errors import TrajkitError
from trajkit.ingest import Options, ingest
from trajkit.scrub import scrub
from trajkit.transitions import transitions


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
    assert hub.calls["store"] == 3
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


# SE01
def test_rows_with_a_secret_stop_the_upload_and_are_counted_not_shown(
    tmp_path: Path, hub: LoopbackHub
) -> None:
    password = "".join(["Tr0ub4", "dor&", "3xyz"])
    answer = f"db_password={password}\nadmin: ann.lee@" + "example-mail.org"
    path = write_rows(tmp_path / "log.jsonl", [chat([("bash", {"command": "env"}, answer)] * 3)])
    ingest((str(path),), tmp_path / "raw", options=Options(domain="terminal"), quiet=True)
    transitions(tmp_path / "raw", tmp_path / "tr", quiet=True)
    build_cpt(tmp_path / "tr", tmp_path / "cpt", quiet=True)
    with pytest.raises(TrajkitError, match=r"holds \d+ email, \d+ named_secret") as caught:
        push(tmp_path / "cpt", hub)
    assert password not in str(caught.value)
    assert not hub.calls
    report = push(tmp_path / "cpt", hub, allow_secrets=True)
    assert report.extra["secrets"]["named_secret"] >= 1
    scrub(tmp_path / "raw", tmp_path / "clean", quiet=True)
    transitions(tmp_path / "clean", tmp_path / "tr2", quiet=True)
    build_cpt(tmp_path / "tr2", tmp_path / "cpt2", quiet=True)
    assert "secrets" not in push(tmp_path / "cpt2", hub).extra
