"""Single-turn text that is mixed into continual pre-training rows."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import zstandard
from chats import chat, cut, write_rows
from test_cpt import ALL, rows_of

from trajkit.builders import cpt
from trajkit.builders.cpt import Options, build_cpt
from trajkit.control_tokens import unescape
from trajkit.errors import TrajkitError
from trajkit.store import Store

CONVERSATION = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What is 2 + 2?"},
    {"role": "assistant", "content": "4 <|im_end|>"},
]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    turns = [("get", {"n": n}, f"v {n}") for n in range(2)]
    return cut(tmp_path, [chat(turns)], keep_ratios=ALL)


def mixed(store: Path, *files: Path, **options: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the report, and the rows of mixed text by their source in order."""
    out = store.with_name("out")
    report = build_cpt(
        store, out, options=Options(**options), mix=files, overwrite=True, quiet=True
    )
    rows = [row for row in rows_of(out) if row["domain"] == "mix"]
    return report.as_dict(), sorted(rows, key=lambda row: (row["source"], row["trajectory_id"]))


def test_the_loss_lies_on_what_comes_last_in_every_shape_of_row(
    store: Path, tmp_path: Path
) -> None:
    rows = [
        {"text": "A whole text."},
        {"prompt": "Name a colour.", "completion": "Blue."},
        {"messages": CONVERSATION},
    ]
    _, found = mixed(store, write_rows(tmp_path / "papers.jsonl", rows))
    split = {row["text"][: row["loss_spans"][0][0]]: row for row in found}
    assert {
        context: unescape("".join(row["text"][a:b] for a, b in row["loss_spans"]))
        for context, row in split.items()
    } == {
        "": "A whole text.",
        "Name a colour.\n\n": "Blue.",
        "Be brief.\n\nWhat is 2 + 2?\n\n": "4 <|im_end|>",
    }
    assert all("<|im_end|>" not in row["text"] for row in found)
    assert {row["source"] for row in found} == {"papers.jsonl"}


def test_every_kind_of_file_is_read_and_equal_texts_are_written_once(
    store: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "deep" / "down"
    folder.mkdir(parents=True)
    line = json.dumps({"text": "from gzip"}).encode() + b"\n"
    (folder / "a.jsonl.gz").write_bytes(gzip.compress(line * 2))
    line = json.dumps({"text": "from zstd"}).encode() + b"\n"
    (folder / "b.jsonl.zst").write_bytes(zstandard.compress(line))
    pl.DataFrame({"text": ["from parquet", "from gzip"], "n": [1, 2]}).write_parquet(
        folder / "c.parquet"
    )
    (folder / "d.md").write_text("# From Markdown\n\nwords\n")
    (folder / "e.txt").write_text("from text")
    report, found = mixed(store, folder)
    assert [row["text"] for row in found] == [
        "from gzip",
        "from zstd",
        "from parquet",
        "# From Markdown\n\nwords\n",
        "from text",
    ]
    assert report["dropped"] == {"mix_duplicate": 2}
    assert report["read"] == report["kept"] + 2 == 8
    manifest = (store.with_name("out") / "manifest.json").read_text()
    assert str(tmp_path) not in manifest
    assert [entry["name"] for entry in json.loads(manifest)["inputs"]][1:] == [
        "a.jsonl.gz",
        "b.jsonl.zst",
        "c.parquet",
        "d.md",
        "e.txt",
    ]


def test_unusable_rows_are_counted_with_their_reason(store: Path, tmp_path: Path) -> None:
    rows: list[Any] = [
        {"text": " \n"},
        {"text": 7},
        {"title": "no text"},
        ["no row"],
        {"prompt": "p", "completion": None},
        {"messages": [*CONVERSATION, CONVERSATION[1], CONVERSATION[2]]},
        {"messages": CONVERSATION[1:]},
    ]
    path = write_rows(tmp_path / "odd.jsonl", rows)
    with path.open("ab") as file:
        file.write(b'{"text": "torn')
    report, found = mixed(store, path)
    assert len(found) == 1
    assert report["dropped"] == {
        "mix_empty": 1,
        "mix_no_text": 4,
        "mix_not_single_turn": 1,
        "mix_truncated_line": 1,
    }
    assert report["read"] == report["kept"] + 7


def test_messages_and_tokens_bear_the_same_loss(store: Path, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "m.jsonl", [{"messages": CONVERSATION}, {"text": "all of it"}])
    _, found = mixed(store, path, layout="messages")
    flags = [[(m["role"], m["loss"]) for m in row["messages"]] for row in found]
    assert sorted(flags, key=len) == [
        [("assistant", True)],
        [("system", False), ("user", False), ("assistant", True)],
    ]


def test_the_end_of_a_text_is_learned_and_the_end_of_an_episode_is_not(
    store: Path, tmp_path: Path
) -> None:
    from vocabularies import byte_level, saved

    folder = saved(byte_level(["<end>"]), tmp_path / "bytes")
    (folder / "tokenizer_config.json").write_text('{"eos_token": "<end>"}')
    path = write_rows(tmp_path / "m.jsonl", [{"text": "abc"}, {"text": "x"}])
    chosen: dict[str, Any] = {"layout": "tokens", "tokenizer": str(folder), "packing": "none"}
    report, found = mixed(store, path, **chosen)
    by_length = sorted(found, key=lambda row: len(row["input_ids"]))
    assert [len(row["input_ids"]) for row in by_length] == [2, 4]
    # Nothing predicts the first token of a document; all others are learned, the end too.
    assert all(row["labels"] == [-100, *row["input_ids"][1:]] for row in found)
    (episode,) = (row for row in rows_of(store.with_name("out")) if row["domain"] == "mcp")
    assert episode["input_ids"][-1] == found[0]["input_ids"][-1]
    assert episode["labels"][-1] == -100
    assert report["loss"]["mix"]["single_turn"]["kept"]["tokens"] == 4


def test_mixed_text_comes_in_parts_and_a_build_taken_up_again_ends_the_same(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpt, "MIX_PART_CHARS", 1_000)
    rows = [{"text": f"text {n // 2} " * 9} for n in range(200)]
    path = write_rows(tmp_path / "many.jsonl", rows)
    report, found = mixed(store, path)
    out = store.with_name("out")
    assert len(found) == 100 and report["dropped"] == {"mix_duplicate": 100}
    parts = Store(out).manifest.parts
    assert len(parts) > 5
    real = cpt.single_turns

    def torn(*arguments: Any) -> Any:
        for number, row in enumerate(real(*arguments)):
            if number == 60:
                raise KeyboardInterrupt
            yield row

    monkeypatch.setattr(cpt, "single_turns", torn)
    with pytest.raises(KeyboardInterrupt):
        build_cpt(store, tmp_path / "again", mix=(path,), quiet=True)
    assert (tmp_path / "again" / ".marks").is_dir()
    monkeypatch.setattr(cpt, "single_turns", real)
    build_cpt(store, tmp_path / "again", mix=(path,), quiet=True)
    assert Store(tmp_path / "again").manifest.parts == parts
    assert Store(tmp_path / "again").manifest.report == Store(out).manifest.report


def test_a_pool_takes_its_share_of_mixed_text_too(store: Path, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "many.jsonl", [{"text": f"text {n}"} for n in range(200)])
    first, _ = mixed(store, path, pool=(0.0, 0.5))
    second, _ = mixed(store, path, pool=(0.5, 1.0))
    assert first["dropped"]["other_pool"] + second["dropped"]["other_pool"] == 201
    assert 70 < first["loss"]["mix"]["single_turn"]["kept"]["turns"] < 130


def test_a_file_that_is_not_there_is_an_error(store: Path, tmp_path: Path) -> None:
    with pytest.raises(TrajkitError, match="no such file"):
        mixed(store, tmp_path / "nowhere.jsonl")
