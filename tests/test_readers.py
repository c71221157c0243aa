"""Files in, values and counted rejects out."""

from __future__ import annotations

import gzip
import io
import json
import sys
from collections import Counter
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from trajkit.errors import TrajkitError
from trajkit.inputs import InputFile, list_inputs
from trajkit.json_text import decode, split_glued
from trajkit.model import to_json_text
from trajkit.readers import FileReader


def read(path: Path) -> tuple[list[object], FileReader]:
    reader = FileReader(InputFile(path, path.name, path.stat().st_size))
    return [value.value for value in reader], reader


def reasons(reader: FileReader) -> list[str]:
    return [reject.reason for reject in reader.rejects]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(rows=st.lists(st.dictionaries(st.text(), json_values, min_size=1), min_size=2, max_size=6))
def test_lines_come_back_as_they_were_written(
    rows: list[dict[str, object]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("lines") / "rows.jsonl"
    path.write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    values, reader = read(path)
    assert values == rows
    assert not reader.rejects


def test_only_a_line_feed_ends_a_record(tmp_path: Path) -> None:
    rows = [{"a": "x\u2028y"}, {"a": "x\u2029y\x85z"}, {"a": "\r"}]
    path = tmp_path / "a.jsonl"
    path.write_bytes(
        b"\r\n".join(json.dumps(row, ensure_ascii=False).encode() for row in rows) + b"\r\n"
    )
    assert read(path)[0] == rows


def test_gzip_and_zstd_are_undone(tmp_path: Path) -> None:
    data = b'{"a": 1}\n{"a": 2}\n'
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(data))
    (tmp_path / "b.jsonl.zst").write_bytes(zstandard.compress(data))
    for name in ("a.jsonl.gz", "b.jsonl.zst"):
        assert read(tmp_path / name)[0] == [{"a": 1}, {"a": 2}]


def test_a_torn_archive_keeps_what_came_before_and_is_counted(tmp_path: Path) -> None:
    data = b"".join(b'{"a": "%0200d"}\n' % number for number in range(20_000))
    for name, packed in (
        ("a.jsonl.gz", gzip.compress(data)),
        ("b.jsonl.zst", zstandard.compress(data)),
    ):
        (tmp_path / name).write_bytes(packed[: len(packed) // 2])
        values, reader = read(tmp_path / name)
        assert reasons(reader) == ["unreadable_file"]
        assert 5_000 < len(values) < 20_000


def test_a_zstd_frame_cut_between_two_lines_is_not_taken_for_a_whole_file(tmp_path: Path) -> None:
    line = b'{"a": 1}\n'
    packer = zstandard.ZstdCompressor().compressobj()
    packed = packer.compress(line) + packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(packed)
    values, reader = read(path)
    assert values == [{"a": 1}]
    assert reasons(reader) == ["unreadable_file"]
    path.write_bytes(zstandard.compress(line) + zstandard.compress(line))
    assert read(path)[0] == [{"a": 1}, {"a": 1}]


def test_a_torn_last_line_is_named_and_the_rest_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes('{"a": 1}\n{"a": "€'.encode()[:-1])
    values, reader = read(path)
    assert values == [{"a": 1}]
    assert reasons(reader) == ["truncated_line"]
    assert reader.rejects[0].origin.line == 2


def test_glued_records_are_both_kept_and_torn_bytes_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"n":1}\n{"n":2}{"n":"}{"}\n{"torn": {"x"{"n":4}\n{"n":5}\n')
    values, reader = read(path)
    assert [value["n"] for value in values] == [1, 2, "}{", 4, 5]  # type: ignore[index]
    assert reasons(reader) == ["invalid_json"]


def test_a_broken_first_line_does_not_lose_the_others(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": tru\n{"a": 2}\n')
    values, reader = read(path)
    assert values == [{"a": 2}]
    assert reasons(reader) == ["invalid_json"]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("empty.jsonl", b"", "empty_file"),
        ("blank.jsonl", b" \n\n", "empty_file"),
        ("picture.png", b"\x89PNG\r\n\x1a\n\x00\x00", "media_file"),
        ("data.bin", b"ab\x00\x01", "binary_file"),
        ("archive.zip", b"PK\x03\x04rest", "unreadable_file"),
        ("sessions.db", b"SQLite format 3\x00", "unsupported_container"),
        ("step.pkl", b"\x80\x04\x95rest", "pickle_refused"),
        ("cut.json", b'{\n "a": [1, 2', "truncated_document"),
        (
            "traj.jsonl",
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
            "git_lfs_pointer",
        ),
    ],
)
def test_what_is_no_log_is_one_reject_with_its_reason(
    tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    values, reader = read(path)
    assert values == []
    assert reasons(reader) == [reason]
    assert reader.rejects[0].origin.path == name


def test_documents_and_lines_are_told_by_content_not_by_name(tmp_path: Path) -> None:
    lines, document = tmp_path / "a.json", tmp_path / "b.jsonl"
    lines.write_text('{"a": 1}\n{"a": 2}\n')
    document.write_text('{\n  "a": 1\n}\n')
    assert read(lines)[0] == [{"a": 1}, {"a": 2}]
    values, reader = read(document)
    assert values == [{"a": 1}]
    assert reader.is_document


def test_a_byte_order_mark_and_utf16_are_read_and_counted(tmp_path: Path) -> None:
    text = '{"a": "é"}\r\n\r\n{"a": 2}'
    (tmp_path / "a.jsonl").write_bytes(b"\xef\xbb\xbf" + text.encode())
    (tmp_path / "b.jsonl").write_bytes(text.encode("utf-16"))
    for name, repair in (("a.jsonl", "byte_order_mark"), ("b.jsonl", "utf16")):
        values, reader = read(tmp_path / name)
        assert values == [{"a": "é"}, {"a": 2}]
        assert reader.repairs[repair] == 1


def test_what_json_cannot_hold_is_mended_in_one_way_and_counted() -> None:
    repairs: Counter[str] = Counter()
    raw = b'{"a": NaN, "b": [-Infinity, 1e999], "c": "\\udcb2", "d": "\\ud83c\\udf78", "e": "NaN"}'
    assert decode(raw, repairs) == {
        "a": "NaN",
        "b": ["-Infinity", "1e999"],
        "c": "\ufffd",
        "d": "🍸",
        "e": "NaN",
    }
    assert repairs == {"non_finite_number": 3, "lone_surrogate": 1}


def test_no_digit_of_a_big_integer_changes() -> None:
    repairs: Counter[str] = Counter()
    assert decode(b"[9007199254740993, 18446744073709551615]", repairs) == [2**53 + 1, 2**64 - 1]
    assert to_json_text(decode(b"[1180591620717411303424, -9223372036854775809]", repairs)) == (
        "[1180591620717411303424,-9223372036854775809]"
    )
    assert not repairs


def test_invalid_utf8_is_replaced_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": "x\xffy"}\n{"a": 2}\n')
    values, reader = read(path)
    assert values == [{"a": "x\ufffdy"}, {"a": 2}]
    assert reader.repairs["invalid_utf8"] == 1


@given(raw=st.binary(max_size=200))
def test_no_bytes_make_the_splitter_lose_any(raw: bytes) -> None:
    pieces, leftovers = split_glued(raw)
    for piece in pieces:
        json.loads(piece.decode("utf-8", "surrogateescape"))
    text = raw.decode("utf-8", "surrogateescape")
    kept = sum(len(p.decode("utf-8", "surrogateescape")) for p in (*pieces, *leftovers))
    n_blank = sum(character.isspace() for character in text)
    assert len(text) - n_blank <= kept <= len(text)


@given(raw=st.binary(max_size=300))
def test_any_bytes_are_either_read_or_rejected(
    raw: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("any") / "x.jsonl"
    path.write_bytes(raw)
    values, reader = read(path)
    assert values or reader.rejects


def test_roots_of_one_name_are_told_apart_by_their_parents(tmp_path: Path) -> None:
    for run in ("one", "two"):
        (tmp_path / run / "logs").mkdir(parents=True)
        (tmp_path / run / "logs" / "a.json").write_text("{}")
    given_ = (str(tmp_path / "two" / "logs"), str(tmp_path / "one" / "logs"))
    assert [file.origin_path for file in list_inputs(given_)] == [
        "one/logs/a.json",
        "two/logs/a.json",
    ]


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    class Piped:
        buffer = io.BytesIO(b'{"a": 1}\n{"a": 2}\n')

    monkeypatch.setattr(sys, "stdin", Piped)
    (file,) = list_inputs(("-",))
    assert [value.value for value in FileReader(file)] == [{"a": 1}, {"a": 2}]
    file.path.unlink()


def test_a_path_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(TrajkitError, match=r"nowhere: no such file"):
        list_inputs((str(tmp_path / "nowhere"),))
    with pytest.raises(TrajkitError, match="holds no file"):
        list_inputs((str(tmp_path),))
