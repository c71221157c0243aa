"""Pictures leave a text, and nothing else does."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import time

from hypothesis import given
from hypothesis import strategies as st

from trajkit.pictures import MIN_BARE_CHARS, MIN_URL_CHARS, without_pictures

HEADS = {
    "image/png": b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
    "image/jpeg": b"\xff\xd8\xff\xe0",
    "image/gif": b"GIF89a",
    "image/webp": b"RIFF\x10\x20\x30\x40WEBP",
}
BODIES = st.binary(min_size=160, max_size=400)
PICTURES = st.builds(
    lambda mime, body: (mime, HEADS[mime] + body), st.sampled_from(list(HEADS)), BODIES
)
# Words around a picture are set apart from it as JSON, HTML or prose would.
PLAIN = st.characters(exclude_characters="+/=\\", exclude_categories=["Cs"])
WORDS = st.text(PLAIN, max_size=20).map(lambda text: f'{text} "')


def placeholder(content: bytes) -> str:
    return f"<picture:{hashlib.sha256(content).hexdigest()[:16]}:{len(content)}>"


def written(mime: str, content: bytes, is_url: bool) -> str:
    data = base64.b64encode(content).decode()
    return f"data:{mime};base64,{data}" if is_url else data


@given(st.lists(st.tuples(WORDS, PICTURES, st.booleans()), max_size=4), WORDS)
def test_each_picture_is_replaced_and_the_words_around_stay(
    parts: list[tuple[str, tuple[str, bytes], bool]], last: str
) -> None:
    text = (
        "".join(f'{words}{written(*picture, is_url)}"' for words, picture, is_url in parts) + last
    )
    expected = "".join(f'{words}{placeholder(content)}"' for words, (_, content), _ in parts) + last
    kept, media, n_replaced = without_pictures(text)
    assert kept == expected
    assert n_replaced == len(parts)
    distinct = {content: mime for _, (mime, content), _ in parts}
    assert [one["sha256"] for one in media] == [hashlib.sha256(c).hexdigest() for c in distinct]
    assert [one["bytes"] for one in media] == [len(content) for content in distinct]
    assert {one["mime"] for one in media} <= set(HEADS)


@given(st.text())
def test_a_text_without_pictures_is_the_same_text(text: str) -> None:
    assert without_pictures(text) == (text, [], 0)


@given(PICTURES, st.booleans(), st.data())
def test_a_cut_picture_is_replaced_as_long_as_enough_is_left(
    picture: tuple[str, bytes], is_url: bool, data: st.DataObject
) -> None:
    whole = written(*picture, is_url)
    n_chars = data.draw(st.integers(0, len(whole)))
    cut = f"shot: {whole[:n_chars]}"
    kept, _, n_replaced = without_pictures(cut)
    n_digits = len(whole[:n_chars].partition(",")[2] if is_url else whole[:n_chars])
    is_replaced = n_digits >= (MIN_URL_CHARS if is_url else MIN_BARE_CHARS)
    assert n_replaced == is_replaced
    assert re.search(r"[A-Za-z0-9+/]{200}", kept) is None
    assert is_replaced or kept == cut


@given(PICTURES, st.booleans())
def test_a_second_pass_finds_nothing(picture: tuple[str, bytes], is_url: bool) -> None:
    once, _, _ = without_pictures(f"a {written(*picture, is_url)} b")
    assert without_pictures(once) == (once, [], 0)


@given(PICTURES, st.booleans(), st.integers(1, 3))
def test_json_text_inside_json_text_stays_json(
    picture: tuple[str, bytes], is_url: bool, depth: int
) -> None:
    text = written(*picture, is_url)
    for _ in range(depth):
        text = json.dumps({"shot": text, "after": "line\nnext"}).replace("/", "\\/")
    kept, media, n_replaced = without_pictures(text)
    assert n_replaced == 1
    assert media[0]["bytes"] == len(picture[1])
    for _ in range(depth):
        kept = json.loads(kept)["shot"]
    assert kept == placeholder(picture[1])


def test_a_picture_after_an_escaped_line_end_or_with_escaped_padding_is_found() -> None:
    content = HEADS["image/png"] + bytes(range(204))
    data = base64.b64encode(content).decode()
    assert data.endswith("==")
    for padding in ("==", r"\u003d\u003d", "%3D%3D"):
        text = rf'{{"log": "first\n{data[:-2]}{padding}"}}'
        assert without_pictures(text)[0] == rf'{{"log": "first\n{placeholder(content)}"}}'


def test_speech_about_data_urls_hashes_and_base64_of_other_things_stay() -> None:
    for text in (
        "is data:image/png;base64,AAAA a valid data url? " * 3,
        "sha: " + "deadbeef" * 50,
        "key: " + base64.b64encode(bytes(range(256)) * 4).decode(),
        "iVBORw0KGgo is how a PNG begins, /9j/ a JPEG, R0lGOD a GIF and UklGR a WebP " * 4,
        "/home/9j/" + "folder/" * 40,
    ):
        assert without_pictures(text) == (text, [], 0)


def test_time_grows_with_the_text_and_no_faster() -> None:
    whole = "data:image/png;base64," + base64.b64encode(HEADS["image/png"] + bytes(10**6)).decode()
    hostile = [
        whole,
        "data:image/png;base64," * 50_000,
        "data:" + "a" * 10**6,
        "data:image/png" + ";a=b" * 250_000 + ";base64,",
        "iVBORw0KGgo " * 100_000,
        "\\" * 10**6 + "/9j/",
        "/9j\\/" * 200_000 + "!",
        "9j" + "\\/" * 500_000,
        ";base64," + "+" * 10**6,
    ]
    for text in hostile:
        started = time.process_time()
        without_pictures(text)
        assert time.process_time() - started < 2
