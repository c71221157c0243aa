"""Raw logs in, a store out: accounting, determinism, resume, errors."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from chats import chat, write_rows
from conftest import LOGS
from hypothesis import given
from hypothesis import strategies as st

from trajkit import ingest as ingest_module
from trajkit import tables
from trajkit.errors import TrajkitError
from trajkit.ingest import Options, ingest
from trajkit.model import DOMAINS
from trajkit.store import Store


def rows_of(store: Path, table: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for file in Store(store).files(table):
        rows += pq.read_table(file).to_pylist()
    return rows


def digest(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


SEARCH = [("web_search", {"queries": ["a"]}, "[1] http://x.example/"), ("web_search", {}, "none")]


@pytest.fixture
def many_files(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    for number in range(12):
        (folder / f"d{number % 3}").mkdir(parents=True, exist_ok=True)
        rows = [chat(SEARCH, task=f"task {number} {k}") for k in range(3)]
        write_rows(folder / f"d{number % 3}" / f"f{number}.jsonl", rows)
    (folder / "junk.bin").write_bytes(b"\x00\x01")
    return folder


def test_the_logs_of_the_repository_give_all_seven_domains(raw_store: Path) -> None:
    manifest = Store(raw_store).manifest
    episodes = rows_of(raw_store, "trajectories")
    for domain in DOMAINS:
        own = [row for row in episodes if row["domain"] == domain]
        assert len(own) >= 3, domain
    assert manifest.rows["steps"] >= 100
    assert manifest.report["read"] == manifest.report["kept"] + sum(manifest.dropped.values())
    assert manifest.dropped == {"truncated_line": 1}


def test_every_observation_of_the_recorded_logs_stands_in_its_raw_file(raw_store: Path) -> None:
    """Law 2, on the formats whose observations are one JSON string of the file."""
    origin = {row["trajectory_id"]: row for row in rows_of(raw_store, "trajectories")}
    n_checked = 0
    for step in rows_of(raw_store, "steps"):
        episode = origin[step["trajectory_id"]]
        if episode["adapter"] not in ("atif", "openai-chat", "mini-swe-agent"):
            continue
        if step["observation"]:
            raw = (LOGS.parent / episode["origin_path"]).read_text(encoding="utf-8")
            written = (
                json.dumps(step["observation"]),
                json.dumps(step["observation"], ensure_ascii=False),
            )
            assert any(text[1:-1] in raw for text in written), episode["origin_path"]
            n_checked += 1
    assert n_checked >= 100


def test_everything_in_a_bad_folder_is_kept_or_rejected(tmp_path: Path) -> None:
    folder = tmp_path / "mixed"
    folder.mkdir()
    write_rows(folder / "good.jsonl", [chat(SEARCH), {"unknown": 1}, chat(SEARCH, task="other")])
    (folder / "empty.json").write_bytes(b"")
    (folder / "binary.dat").write_bytes(b"\x00\x00")
    (folder / "pointer.jsonl").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    (folder / "cut.jsonl").write_bytes(json.dumps(chat(SEARCH)).encode()[:-20])
    (folder / "latin.jsonl").write_bytes(
        json.dumps(chat(SEARCH)).encode().replace(b"none", b"n\xffe")
    )
    write_rows(
        folder / "talk.jsonl",
        [
            {
                "messages": [
                    {"role": "user", "content": "hi"},
                    {"role": "assistant", "content": "hello"},
                ]
            }
        ],
    )
    report = ingest((str(folder),), tmp_path / "store", quiet=True)
    assert report.kept == 3
    assert report.dropped == {
        "binary_file": 1,
        "empty_file": 1,
        "git_lfs_pointer": 1,
        "no_action": 1,
        "truncated_line": 1,
        "unknown_format": 1,
    }
    assert report.extra["repairs"] == {"invalid_utf8": 1}
    assert report.read == report.kept + sum(report.dropped.values())
    for row in rows_of(tmp_path / "store", "rejects"):
        assert row["origin_path"].startswith("mixed/")
        assert row["message"]


@given(data=st.data())
def test_read_is_kept_and_dropped_for_any_mixture(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("mix")
    lines = data.draw(
        st.lists(
            st.sampled_from(
                [
                    json.dumps(chat(SEARCH)).encode(),
                    json.dumps({"messages": [{"role": "user", "content": "x"}]}).encode(),
                    b'{"torn": ',
                    b"[]",
                    b"17",
                    b"\xff\xff",
                ]
            ),
            min_size=1,
            max_size=8,
        )
    )
    (folder / "a.jsonl").write_bytes(b"\n".join(lines))
    report = ingest((str(folder),), folder / "store", quiet=True)
    assert report.read == report.kept + sum(report.dropped.values())
    assert report.read >= 1
    assert report.kept == sum(
        line.startswith(b'{"messages": [{"role": "user", "content": "do it"') for line in lines
    )


def test_workers_hash_seed_and_order_of_paths_do_not_change_a_byte(
    many_files: Path, tmp_path: Path
) -> None:
    script = tmp_path / "one.py"
    script.write_text(
        "import sys\nimport trajkit.ingest as m\nm.SHARD_FILES = 4\n"
        "if __name__ == '__main__':\n"
        "    out, workers, *paths = sys.argv[1:]\n"
        "    m.ingest(tuple(paths), out, workers=int(workers), quiet=True)\n"
    )
    paths = [str(path) for path in sorted(many_files.iterdir())]
    digests = []
    for seed, workers, order in (("0", "1", paths), ("1", "2", paths[::-1])):
        out = tmp_path / f"store{seed}"
        subprocess.run(
            [sys.executable, str(script), str(out), workers, *order],
            check=True,
            env=os.environ | {"PYTHONHASHSEED": seed},
        )
        digests.append(digest(out))
    assert digests[0] == digests[1]
    assert len([name for name in digests[0] if name.startswith("steps/")]) == 3


def test_a_killed_run_is_taken_up_and_ends_in_the_same_bytes(
    many_files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest_module, "SHARD_FILES", 4)
    ingest((str(many_files),), tmp_path / "undisturbed", quiet=True)
    real, calls = ingest_module._read_shard, []

    def dies_at_the_third(shard: Any, *rest: Any) -> Any:
        calls.append(shard.number)
        if shard.number == 2:
            raise KeyboardInterrupt
        return real(shard, *rest)

    monkeypatch.setattr(ingest_module, "_read_shard", dies_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        ingest((str(many_files),), tmp_path / "store", quiet=True)
    with pytest.raises(TrajkitError, match="unfinished"):
        Store(tmp_path / "store")
    calls.clear()
    monkeypatch.setattr(
        ingest_module, "_read_shard", lambda s, *r: (calls.append(s.number), real(s, *r))[1]
    )
    ingest((str(many_files),), tmp_path / "store", quiet=True)
    assert 0 not in calls and 1 not in calls
    assert digest(tmp_path / "store") == digest(tmp_path / "undisturbed")


def test_a_big_part_is_cut_in_two_at_an_episode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "MAX_PART_BYTES", 4_000)
    rows = [chat([("read", {"n": n}, "x" * 1_500)] * 2, task=str(n)) for n in range(5)]
    write_rows(tmp_path / "a.jsonl", rows)
    report = ingest((str(tmp_path / "a.jsonl"),), tmp_path / "store", quiet=True)
    store = Store(tmp_path / "store")
    assert report.kept == 5
    assert len(store.parts()) > 1
    for part in store.parts():
        ids = store.read("trajectories", part)["trajectory_id"].to_list()
        assert (
            store.read("steps", part)["trajectory_id"].unique(maintain_order=True).to_list() == ids
        )


def test_equal_content_has_equal_hashes_and_different_ids(tmp_path: Path) -> None:
    write_rows(tmp_path / "a.jsonl", [chat(SEARCH), chat(SEARCH)])
    ingest((str(tmp_path / "a.jsonl"),), tmp_path / "store", quiet=True)
    first, second = rows_of(tmp_path / "store", "trajectories")
    assert first["content_hash"] == second["content_hash"]
    assert first["trajectory_id"] != second["trajectory_id"]


def test_arguments_keep_their_source_text(tmp_path: Path) -> None:
    row = chat(SEARCH)
    source = '{"b":  1.10, "a": null, "n": 9007199254740993}'
    row["messages"][1]["tool_calls"][0]["function"]["arguments"] = source
    write_rows(tmp_path / "a.jsonl", [row])
    ingest((str(tmp_path / "a.jsonl"),), tmp_path / "store", quiet=True)
    step = rows_of(tmp_path / "store", "steps")[0]
    assert step["action"] == f'{{"name": "web_search", "arguments": {source}}}'


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (Options(format="no-such"), r"--format: no adapter 'no-such'\nHint: one of auto, "),
        (Options(domain="kitchen"), r"--domain: no domain 'kitchen'\nHint: one of android, "),
    ],
)
def test_a_wrong_option_lists_the_right_ones(
    options: Options, message: str, tmp_path: Path
) -> None:
    write_rows(tmp_path / "a.jsonl", [chat(SEARCH)])
    with pytest.raises(TrajkitError, match=message):
        ingest((str(tmp_path / "a.jsonl"),), tmp_path / "store", options=options, quiet=True)


def test_a_complete_store_is_not_touched_without_overwrite(tmp_path: Path) -> None:
    write_rows(tmp_path / "a.jsonl", [chat(SEARCH)])
    write_rows(tmp_path / "b.jsonl", [chat(SEARCH, task="b")])
    ingest((str(tmp_path / "a.jsonl"),), tmp_path / "store", quiet=True)
    before = digest(tmp_path / "store")
    for name in ("a.jsonl", "b.jsonl"):
        with pytest.raises(TrajkitError, match="complete"):
            ingest((str(tmp_path / name),), tmp_path / "store", quiet=True)
    assert digest(tmp_path / "store") == before
    (tmp_path / "store" / "mine.txt").write_text("keep me")
    ingest((str(tmp_path / "b.jsonl"),), tmp_path / "store", overwrite=True, quiet=True)
    assert rows_of(tmp_path / "store", "trajectories")[0]["task"] == "b"
    assert (tmp_path / "store" / "mine.txt").read_text() == "keep me"


def test_a_folder_of_other_files_is_never_written_to(tmp_path: Path) -> None:
    write_rows(tmp_path / "a.jsonl", [chat(SEARCH)])
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("x")
    with pytest.raises(TrajkitError, match="did not write"):
        ingest((str(tmp_path / "a.jsonl"),), tmp_path / "home", overwrite=True, quiet=True)
    (tmp_path / "home" / "manifest.json").write_text('{"name": "a web app"}')
    with pytest.raises(TrajkitError, match="manifest"):
        ingest((str(tmp_path / "a.jsonl"),), tmp_path / "home", overwrite=True, quiet=True)
    assert (tmp_path / "home" / "thesis.tex").exists()
