"""Keys forget what a clock or a dice changed, and nothing else; shingles and hashes are exact."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from datasketch.lsh import _optimal_param
from hypothesis import given
from hypothesis import strategies as st

from trajkit.dedup.copies import connect
from trajkit.dedup.keys import _NFC_MAY_CHANGE, normalised
from trajkit.dedup.near import SetFiles, Stars, near_pairs, near_stars, write_sets
from trajkit.dedup.signatures import (
    N_PERMUTATIONS,
    Shingles,
    bands_and_rows,
    shingles,
    signatures,
    text_hashes,
    word_hashes,
)

WORD = "[0-9A-Za-z_\u0080-\u1fff]+|[\u2000-\U0010ffff][0-9A-Za-z_\u0080-\u1fff]*"


def key(text: str) -> str:
    return str(normalised(pl.Series([text]))[0])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Built at 2026-03-01T10:22:31.5Z", "built at 2025-12-24t00:00:00+02:00"),
        ("took 10:22:31", "took 09:01:00"),
        ("== 3 passed in 0.41s ==", "== 3 passed in 12.07s =="),
        ("id 0b6f2c1e-9a41-4a7e-8a55-1d2f3c4b5a69", "id 9d1c2b3a-0000-4fff-9abc-001122334455"),
        ("commit 3f786850e387550fdab836ed7e6dc881de23001b", "commit " + "89e6c98d92887913cadf" * 2),
        ("object at 0x7f3a2c10d5e0", "object at 0x7ffe00aa12b4"),
        ("epoch 1767225600", "epoch 1798761600"),
        ("call_a1B2c3D4e5F6 sent", "call_9z8Y7x6W5v4U sent"),
        ("in /tmp/tmpab12cd34/x.py", "in /tmp/tmpzz98yx76/x.py"),
        ("-rw-r--r-- 1 me 12 Jan  3 10:22 a", "-rw-r--r-- 1 me 12 Feb 13 09:01 a"),
        ("a\r\nb", "a\nb"),
        ("a  \t b", "a b"),
        ("a   \n\n\nb", "a\nb"),
        ("caf\u00e9", "cafe\u0301"),
        ("STRASSE", "strasse"),
    ],
)
def test_what_a_run_changes_by_itself_is_not_in_the_key(one: str, other: str) -> None:
    assert key(one) == key(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("if a:\n    b", "if a:\n        b"),
        ("x = 1", "x == 1"),
        ("rm a*", "rm a?"),
        ("run_evaluation", "run_experiments"),
        ("v1.2.3", "v1.2.4"),
        ("exit 0", "exit 1"),
        ("12:30", "12:31"),
        ("deadbeef", "beefdead"),
        ("a\nb", "a b"),
    ],
)
def test_what_says_something_stays_in_the_key(one: str, other: str) -> None:
    assert key(one) != key(other)


def test_a_key_of_a_key_is_itself_and_null_stays_null() -> None:
    texts = pl.Series(["A  b\r\n\tc 10:11:12", None, ""])
    once = normalised(texts)
    assert normalised(once).to_list() == once.to_list()
    assert once[1] is None


def test_characters_that_are_not_looked_at_closely_never_change_under_nfc() -> None:
    every = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    flagged = pl.Series(every).str.contains(_NFC_MAY_CHANGE)
    for character, flag in zip(every, flagged, strict=True):
        if not flag:
            assert unicodedata.is_normalized("NFC", character)
            assert unicodedata.combining(character) == 0


def test_the_bands_are_those_of_datasketch_with_the_same_weights() -> None:
    for threshold in (0.1, 0.3, 0.5, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95):
        expected = _optimal_param(threshold, N_PERMUTATIONS, 0.05, 0.95)
        assert bands_and_rows(threshold) == expected


def test_the_bands_find_nearly_every_pair_over_the_threshold() -> None:
    """Recall of the banding alone, from its own formula, at 0.85 and the default threshold."""
    n_bands, n_rows = bands_and_rows(0.8)
    assert 1 - (1 - 0.85**n_rows) ** n_bands >= 0.98


texts_of_words = st.lists(
    st.text(alphabet="ab_é 中│.\n", max_size=90) | st.text(max_size=40), min_size=1, max_size=8
)


@given(texts=texts_of_words)
def test_shingles_of_many_texts_are_those_of_each_alone(texts: list[str]) -> None:
    together = shingles(pl.Series(texts))
    for number, text in enumerate(texts):
        alone = shingles(pl.Series([text]))
        assert np.array_equal(together.of(number), alone.of(0))
        words = re.findall(WORD, text)
        assert len(alone.of(0)) == len({tuple(words[k : k + 5]) for k in range(len(words) - 4)})


@given(texts=texts_of_words, cuts=st.data())
def test_texts_of_one_group_are_one_text(texts: list[str], cuts: st.DataObject) -> None:
    new = [0, *(cuts.draw(st.integers(0, 1)) for _ in texts[1:])]
    groups = np.cumsum(new)
    found = shingles(pl.Series(texts), groups)
    for group in range(groups[-1] + 1):
        members = [text for text, own in zip(texts, groups, strict=True) if own == group]
        alone = shingles(pl.Series(["\n".join(members)]))
        assert np.array_equal(found.of(group), alone.of(0))


def test_texts_beyond_one_batch_give_the_same_shingles() -> None:
    text = " ".join(f"w{n}" for n in range(30_000))
    many = shingles(pl.Series([text, "a b c d e", text, text]))
    assert many.counts().tolist() == [29_996, 1, 29_996, 29_996]
    assert np.array_equal(many.of(0), many.of(3))


def test_a_long_word_is_several_and_a_change_anywhere_in_it_is_seen() -> None:
    word = "x" * 1_000
    hashes = {
        tuple(word_hashes(pl.Series([word[:place] + "y" + word[place + 1 :]]))[0].tolist())
        for place in range(0, 1_000, 7)
    }
    assert len(hashes) == 143
    assert len(word_hashes(pl.Series([word]))[0]) == 16


@given(texts=st.lists(st.text(max_size=30), min_size=1, max_size=30, unique=True))
def test_hashes_of_different_texts_differ_and_do_not_depend_on_neighbours(
    texts: list[str],
) -> None:
    found = text_hashes(pl.Series(texts))
    assert len({tuple(row) for row in found.tolist()}) == len(texts)
    assert np.array_equal(text_hashes(pl.Series(texts[-1:])), found[-1:])


def test_hashes_are_the_same_in_every_version() -> None:
    """An index on disk holds them."""
    texts = pl.Series(["the quick brown fox jumps over", "naïve 中文"])
    assert text_hashes(texts)[:, 0].tolist() == [8148855599222213935, 13623068087386395032]
    assert word_hashes(texts)[0][:2].tolist() == [13933607168340787447, 16264733735627802619]
    assert signatures(shingles(texts))[0, :2].tolist() == [3355138322, 3506122895]


def test_sets_without_common_shingles_keep_the_rest() -> None:
    sets = shingles(pl.Series(["a b c d e f", "c d e f g"]))
    common = np.sort(sets.of(0)[:1])
    left = sets.without(common)
    assert left.counts().tolist() == [1, 1]
    assert not np.isin(common, left.hashes).any()


def test_near_pairs_are_verified() -> None:
    words = [f"w{n}" for n in range(200)]
    near = [*words[:100], "x", *words[101:]]
    far = [word if n % 7 else f"y{n}" for n, word in enumerate(words)]
    found = near_pairs(shingles(pl.Series([" ".join(t) for t in (words, near, far)])), 0.8)
    assert found.select("left", "right").rows() == [(0, 1)]
    assert found["exact"].to_list() == [pytest.approx(191 / 201)]


def test_a_bucket_over_its_head_is_drawn_again_without_the_members_it_lost(tmp_path: Path) -> None:
    """Places 101 and 102 are alike, but only the first 64 of a bucket are paired with the rest."""
    rng = np.random.default_rng(0)
    first, last = (np.sort(rng.integers(0, 1 << 62, 100, dtype=np.uint64)) for _ in range(2))
    others = [np.sort(rng.integers(0, 1 << 62, 100, dtype=np.uint64)) for _ in range(50)]
    members = [*[first] * 51, *others, last, last]
    numbers = np.arange(len(members))
    offsets = np.arange(len(members) + 1) * 100
    with connect(tmp_path) as base, SetFiles(len(members)) as sets:
        sizes = write_sets(
            tmp_path / "sets", iter([Shingles(np.concatenate(members), offsets.astype(np.int64))])
        )
        sets.add(tmp_path / "sets", numbers, sizes)
        stars = Stars(0.8, numbers.copy(), np.zeros(len(members), dtype=np.bool_))
        one_bucket = iter([np.zeros(len(members), dtype=np.uint64)])
        near_stars(base, one_bucket, numbers, stars, sets, lambda new: None)
    assert stars.kept.tolist() == [0] * 51 + [*range(51, 102), 101]
