"""ZIP archives: the same bytes come back, and what would do harm is refused with its reason."""

from __future__ import annotations

import pickle
import struct
import zipfile
import zlib
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trajkit import archives
from trajkit.archives import Archive, ArchiveError, open_archive

STORED, DEFLATE, ZSTD = 0, 8, 93


def packed(content: bytes, method: int) -> bytes:
    if method == DEFLATE:
        packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
        return packer.compress(content) + packer.flush()
    return zstandard.compress(content) if method == ZSTD else content


def member(
    name: str,
    content: bytes,
    method: int = STORED,
    *,
    body: bytes | None = None,
    declared: int | None = None,
    flags: int = 0x800,
) -> tuple[bytes, bytes]:
    """Return the local part and the directory part of a member, the latter without its place."""
    body = packed(content, method) if body is None else body
    size = len(content) if declared is None else declared
    raw_name = name.encode()
    common = struct.pack(
        "<5H3L2H",
        *(20, flags, method, 0, 0x21),
        *(zlib.crc32(content), len(body), size),
        *(len(raw_name), 0),
    )
    local = b"PK\x03\x04" + common + raw_name + body
    return local, b"PK\x01\x02\x14\x00" + common + struct.pack(
        "<3HL", 0, 0, 0, 0
    ) + b"%b" + raw_name


def written(path: Path, *members: tuple[bytes, bytes], overlapping: bool = False) -> Path:
    """Write an archive by hand, since `zipfile` can make neither zstd nor broken members."""
    locals_, directory = b"", b""
    for local, central in members:
        place = struct.pack("<L", 0 if overlapping else len(locals_))
        directory += central.replace(b"%b", place, 1)
        locals_ += local
    end = struct.pack(
        "<4s4H2LH", b"PK\x05\x06", 0, 0, len(members), len(members), len(directory), len(locals_), 0
    )
    path.write_bytes(locals_ + directory + end)
    return path


def refusal(path: Path, name: str | None = None, **limits: int) -> str:
    with pytest.raises(ArchiveError) as caught:
        archive = open_archive(path, **limits)
        assert name is not None
        archive.read(name)
    return caught.value.reason


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(
    st.dictionaries(
        st.text("ab/ é", min_size=1).filter(lambda n: not n.startswith("/") and n[-1] != "/"),
        st.tuples(st.binary(max_size=300), st.sampled_from([STORED, DEFLATE, ZSTD])),
    )
)
def test_members_come_back_byte_for_byte(
    tmp_path: Path, members: dict[str, tuple[bytes, int]]
) -> None:
    path = written(
        tmp_path / "a.eval", *(member(name, *content) for name, content in members.items())
    )
    archive = open_archive(path)
    assert archive.names() == tuple(members)
    for name, (content, _) in members.items():
        assert archive.read(name) == content
        assert archive.size(name) == len(content)


def test_an_archive_of_the_standard_library_is_read_and_folders_are_no_members(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.mkdir("samples")
        with archive.open("samples/1.json", "w", force_zip64=True) as stream:
            stream.write(b"[1]" * 1000)
    assert open_archive(path).names() == ("samples/1.json",)
    assert open_archive(path).read("samples/1.json") == b"[1]" * 1000


def test_a_member_may_be_several_zstd_frames(tmp_path: Path) -> None:
    body = zstandard.compress(b"one ") + zstandard.compress(b"two")
    path = written(tmp_path / "a.eval", member("m", b"one two", ZSTD, body=body))
    assert open_archive(path).read("m") == b"one two"


@pytest.mark.parametrize(
    "name", ["../up", "a/../../up", "/etc/file", "\\share\\x", "..\\up", "C:\\file", "c:file"]
)
def test_a_name_that_leads_outside_is_refused(tmp_path: Path, name: str) -> None:
    assert refusal(written(tmp_path / "a.zip", member(name, b"x"))) == "unsafe_path"


def test_a_name_with_dots_that_stays_inside_is_no_danger(tmp_path: Path) -> None:
    path = written(tmp_path / "a.zip", member("samples/...v1..2/x.json", b"x"))
    assert open_archive(path).read("samples/...v1..2/x.json") == b"x"


def test_one_name_twice_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.zip", member("m", b"x"), member("n", b""), member("m", b"y"))
    assert refusal(path) == "duplicate_member"


def test_a_password_is_refused(tmp_path: Path) -> None:
    assert refusal(written(tmp_path / "a.zip", member("m", b"x", flags=1))) == "encrypted_member"


def test_a_member_past_the_limit_costs_that_member_only(tmp_path: Path) -> None:
    path = written(tmp_path / "a.zip", member("big", b"x" * 101), member("small", b"x" * 100))
    assert refusal(path, "big", max_member_bytes=100) == "archive_too_large"
    assert open_archive(path, max_member_bytes=100).read("small") == b"x" * 100


@pytest.mark.parametrize("method", [DEFLATE, ZSTD])
def test_a_member_that_unpacks_to_more_than_it_says_is_refused_before_it_is_unpacked(
    tmp_path: Path, method: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = packed(b"\0" * (8 << 20), method)
    path = written(tmp_path / "a.zip", member("m", b"\0" * 9, method, body=body))
    assert refusal(path, "m") == "archive_too_large"
    unpack = archives._unpack
    lengths: list[int] = []
    monkeypatch.setattr(
        archives, "_unpack", lambda *found: lengths.append(len(out := unpack(*found))) or out
    )
    assert refusal(path, "m") == "archive_too_large"
    assert lengths == [10]


@pytest.mark.parametrize("method", [DEFLATE, ZSTD])
def test_a_bomb_is_refused_by_its_ratio(tmp_path: Path, method: int) -> None:
    content = b"\0" * (archives.SMALL_BYTES + 1)
    path = written(tmp_path / "a.zip", member("m", content, method))
    assert path.stat().st_size * archives.MAX_RATIO < len(content)
    assert refusal(path) == "archive_too_large"
    roomy = written(tmp_path / "b.zip", member("m", content, method), member("n", b"x" * (1 << 18)))
    assert open_archive(roomy).read("n") == b"x" * (1 << 18)
    assert refusal(roomy, "m") == "archive_too_large"


def test_members_that_share_their_bytes_are_refused(tmp_path: Path) -> None:
    local, central = member("same", b"x" * 50)
    path = written(
        tmp_path / "a.zip",
        (local, central),
        (b"", central.replace(b"same", b"copy")),
        overlapping=True,
    )
    assert refusal(path) == "archive_too_large"


def test_another_method_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "a.zip", member("m", b"x", 12))
    assert refusal(path, "m") == "unsupported_compression"


@pytest.mark.parametrize("method", [STORED, DEFLATE, ZSTD])
def test_a_damaged_member_is_a_counted_refusal(tmp_path: Path, method: int) -> None:
    content = bytes(range(256))
    body = packed(content, method)
    for number, broken in enumerate((body[:-9], body[:20] + b"\xff\x00\xff" + body[23:], b"")):
        path = written(tmp_path / f"{number}.zip", member("m", content, method, body=broken))
        assert refusal(path, "m") == "unreadable_file"


def test_a_torn_archive_is_a_counted_refusal_wherever_it_is_cut(tmp_path: Path) -> None:
    whole = written(tmp_path / "a.zip", member("m", b"x" * 40), member("n", b"y")).read_bytes()
    torn = tmp_path / "torn.zip"
    for n_kept in range(len(whole)):
        torn.write_bytes(whole[:n_kept])
        assert refusal(torn, "m") == "unreadable_file"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(st.data())
def test_no_damage_makes_reading_fail_in_another_way(tmp_path: Path, data: st.DataObject) -> None:
    whole = written(
        tmp_path / "a.zip", member("m", b"x" * 40, DEFLATE), member("n", b"y", ZSTD)
    ).read_bytes()
    place = data.draw(st.integers(0, len(whole) - 1))
    broken = tmp_path / "broken.zip"
    broken.write_bytes(whole[:place] + data.draw(st.binary(max_size=4)) + whole[place + 1 :])
    try:
        archive: Archive = open_archive(broken)
        for name in archive.names():
            archive.read(name)
    except ArchiveError as error:
        assert error.reason


def test_a_refusal_survives_the_way_between_processes() -> None:
    error = pickle.loads(pickle.dumps(ArchiveError("unsafe_path", "member '../x' lies outside")))
    assert (error.reason, str(error)) == ("unsafe_path", "member '../x' lies outside")
