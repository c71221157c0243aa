"""Rows of token ids: labels, windows, packing, and what a trainer's loader makes of the folder."""

from __future__ import annotations

import json
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from chats import chat, cut
from test_cpt import ALL, rows_of
from vocabularies import byte_level, saved

from trajkit.builders.cpt import Options, build_cpt
from trajkit.builders.splits import SPLITS, Splits
from trajkit.report import Report
from trajkit.store import EXTRA_OUTPUTS, Store
from trajkit.tokens import open_tokenizer

END = "<the-end>"


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    """A tokenizer with one token a byte."""
    folder = saved(byte_level([END]), tmp_path / "bytes")
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": END}))
    return folder


def built(store: Path, out: Path, tokenizer: Path, **options: Any) -> Report:
    wanted = Options(layout="tokens", tokenizer=str(tokenizer), **options)
    return build_cpt(store, out, options=wanted, overwrite=True, quiet=True)


def documents(row: dict[str, Any]) -> list[tuple[list[int], list[int], list[int]]]:
    """Return ids, labels and positions of each document of a row."""
    bounds = [0, *accumulate(row["seq_lengths"])]
    return [
        (row["input_ids"][a:b], row["labels"][a:b], row["position_ids"][a:b])
        for a, b in pairwise(bounds)
    ]


def learned(ids: list[int], labels: list[int]) -> list[list[int]]:
    """Return the runs of ids that bear loss."""
    runs: list[list[int]] = [[]]
    for id_, label in zip(ids, labels, strict=True):
        if label == -100:
            runs.append([])
        else:
            assert label == id_
            runs[-1].append(id_)
    return [run for run in runs if run]


@pytest.mark.parametrize("keep_by", ["turn", "token"])
def test_token_rows_say_the_same_as_text_rows_and_labels_the_same_as_spans(
    transitions_store: Path, tmp_path: Path, tokenizer: Path, keep_by: str
) -> None:
    chosen: dict[str, Any] = {"keep_by": keep_by, "keep": {"retrieval": 0.9}}
    build_cpt(transitions_store, tmp_path / "text", options=Options(**chosen), quiet=True)
    built(transitions_store, tmp_path / "tokens", tokenizer, max_tokens=1 << 20, **chosen)
    codec = open_tokenizer(str(tokenizer))
    texts = {row["trajectory_id"]: row for row in rows_of(tmp_path / "text")}
    n_seen = 0
    for row in rows_of(tmp_path / "tokens"):
        for id_, (ids, labels, positions) in zip(
            row["trajectory_ids"], documents(row), strict=True
        ):
            text = texts[id_]["text"]
            assert codec.decode(ids) == codec.prepare(text) + END
            assert positions == list(range(len(ids)))
            spans = [codec.prepare(text[a:b]) for a, b in texts[id_]["loss_spans"]]
            assert [codec.decode(run) for run in learned(ids, labels)] == spans
            n_seen += 1
    assert n_seen == len(texts) >= 20


def test_a_pack_holds_whole_documents_of_one_split_and_no_more_than_fit(
    tmp_path: Path, tokenizer: Path
) -> None:
    rows = [
        chat([("get", {"n": k}, f"v {n} {k}") for k in range(2)], task=str(n)) for n in range(90)
    ]
    store = cut(tmp_path, rows, keep_ratios=ALL)
    report = built(store, tmp_path / "out", tokenizer, max_tokens=20_000, validation=0.3)
    groups = {
        row["trajectory_id"]: row["split_group"]
        for part in Store(store).parts()
        for row in Store(store).read("transitions", part).iter_rows(named=True)
    }
    n_documents = 0
    for split in SPLITS:
        for file in Store(tmp_path / "out").files(split):
            for row in pq.read_table(file).to_pylist():
                sides = {Splits(validation=0.3).side(groups[id_]) for id_ in row["trajectory_ids"]}
                assert sides == {split}
                assert len(row["input_ids"]) <= 20_000
                assert len(row["input_ids"]) == len(row["labels"]) == len(row["position_ids"])
                assert [ids[-1] for ids, _, _ in documents(row)].count(row["input_ids"][-1]) == len(
                    row["seq_lengths"]
                )
                many = len(row["trajectory_ids"]) > 1
                assert (row["trajectory_id"] is None) == many
                assert row["domain"] == "mcp"
                n_documents += len(row["trajectory_ids"])
    assert n_documents == report.kept == 90
    assert report.written < 90
    assert report.extra["filled"] > 0.5
    alone = built(store, tmp_path / "alone", tokenizer, max_tokens=20_000, packing="none")
    assert alone.written == 90
    assert all(row["trajectory_id"] for row in rows_of(tmp_path / "alone"))


def test_a_document_longer_than_the_window_is_cut_and_no_label_is_lost(
    tmp_path: Path, tokenizer: Path
) -> None:
    turns = [("get", {"n": n}, f"{n}-" * 700) for n in range(5)]
    store = cut(tmp_path, [chat(turns)], keep_ratios=ALL)
    chosen: dict[str, Any] = {"validation": 0.0, "test": 0.0}
    whole = built(store, tmp_path / "whole", tokenizer, max_tokens=1 << 20, **chosen)
    (row,) = rows_of(tmp_path / "whole")
    report = built(store, tmp_path / "cut", tokenizer, max_tokens=256, **chosen)
    pieces = [document for part in rows_of(tmp_path / "cut") for document in documents(part)]
    assert report.extra["cut_documents"] == 1 and whole.extra["cut_documents"] == 0
    assert all(len(ids) <= 256 and positions[0] == 0 for ids, _, positions in pieces)
    assert all(labels[0] == -100 for _, labels, _ in pieces)
    trained = [label for _, labels, _ in pieces for label in labels if label != -100]
    assert trained == [label for label in row["labels"] if label != -100]
    assert report.extra["loss_tokens"] == len(trained)
    n_windows = -(-(len(row["input_ids"]) - 1) // 255)
    assert len(pieces) == n_windows - report.extra["windows_without_loss"]
    assert report.extra["windows_without_loss"] >= 1
    assert all(any(label != -100 for label in labels) for _, labels, _ in pieces)


def test_a_control_token_of_the_tokenizer_itself_stays_text(
    tmp_path: Path, tokenizer: Path
) -> None:
    store = cut(tmp_path, [chat([("get", {"n": n}, f"a {END} b {n}") for n in range(2)])])
    report = built(store, tmp_path / "out", tokenizer)
    (row,) = rows_of(tmp_path / "out")
    end_id = open_tokenizer(str(tokenizer)).end_id
    assert row["input_ids"].count(end_id) == 1
    assert report.extra["control_tokens_escaped"] == 2
    manifest = Store(tmp_path / "out").manifest
    assert manifest.options["tokenizer"] == open_tokenizer(str(tokenizer)).name
    assert str(tmp_path) not in json.dumps(manifest.options)


def test_the_report_counts_tokens_by_category(tmp_path: Path, tokenizer: Path) -> None:
    store = cut(tmp_path, [chat([("get", {"n": n}, f"v {n}") for n in range(3)])])
    report = built(store, tmp_path / "out", tokenizer, keep={"action": 0.5}, seed=3)
    (row,) = rows_of(tmp_path / "out")
    units = report.extra["loss"]["mcp"]["action"]
    assert units["kept"]["tokens"] == sum(label != -100 for label in row["labels"])
    # One token a byte: as many as characters.
    assert {side: u["tokens"] for side, u in units.items()} == {
        side: u["chars"] for side, u in units.items()
    }
    assert set(units) == {"kept", "masked"}


@pytest.mark.parametrize("jsonl", [False, True])
@pytest.mark.parametrize(
    ("layout", "trainer"), [("text", "llamafactory"), ("messages", None), ("tokens", None)]
)
def test_load_dataset_on_the_folder_gives_the_same_splits_rows_and_types(
    transitions_store: Path,
    tmp_path: Path,
    tokenizer: Path,
    layout: Any,
    trainer: str | None,
    jsonl: bool,
) -> None:
    from datasets import Features, load_dataset

    options = Options(
        layout=layout,
        trainer=trainer,
        jsonl=jsonl,
        tokenizer=str(tokenizer),
        validation=0.3,
        test=0.2,
    )
    build_cpt(transitions_store, tmp_path / "cpt", options=options, quiet=True)
    loaded = load_dataset(str(tmp_path / "cpt"), cache_dir=str(tmp_path / "cache"))
    assert set(loaded) == set(SPLITS)
    for split, rows in loaded.items():
        files = Store(tmp_path / "cpt").files(split)
        assert rows.to_list() == [row for file in files for row in pq.read_table(file).to_pylist()]
        assert rows.features == Features.from_arrow_schema(pq.read_schema(files[0]))


def test_files_of_a_trainer_stand_beside_the_rows_and_go_with_them(
    transitions_store: Path, tmp_path: Path
) -> None:
    wanted = Options(trainer="llamafactory")
    report = build_cpt(transitions_store, tmp_path / "cpt", options=wanted, quiet=True)
    assert "dataset_info.json" in report.extra["trainer_files"]
    for name in report.extra["trainer_files"]:
        assert name in EXTRA_OUTPUTS
        assert name in Store(tmp_path / "cpt").manifest.parts
    build_cpt(transitions_store, tmp_path / "cpt", overwrite=True, quiet=True)
    assert not (tmp_path / "cpt" / "dataset_info.json").exists()
