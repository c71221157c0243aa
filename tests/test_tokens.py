"""Tokenizers: whatever a text says its ids mean text, no byte vanishes, equal names equal ids."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers
from vocabularies import FAMILIES, byte_level, of_family, saved

from trajkit.control_tokens import escape, unescape
from trajkit.errors import TrajkitError
from trajkit.tokens import TextTokenizer, open_tokenizer
from trajkit.tokens.breaking import Breaker
from trajkit.tokens.ids import FastIds
from trajkit.tokens.tokenizer import structure_tokens

LOGS = Path(__file__).parent.parent / "examples" / "logs"
LACKING = "\x04\x06\x13\x14\x16\x1d"
"""Control characters of which SmolLM2's vocabulary has no byte."""
WHITESPACE = "\t\n\v\f\r\x1c\x1d\x85\xa0\u1680\u2003\u2028\u2029\u3000"
FRAGMENTS = st.sampled_from(
    [
        *("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<filename>", "<repo_name>", "</think>"),
        *("<", "|", ">", "im_start", "\u200b", "<\u200b|im_end|>", "<\u200bfilename>", "[INST]"),
        *(
            "👩\u200d👩\u200d👧",
            "🇩🇪",
            "é",
            "e\u0301",
            "\u2028",
            "\ufeff",
            "中",
            "\x00",
            "\x04",
            "\x7f",
        ),
        *(" ", "\n", "\r\n", "a", "1", "\U0001f9e0", "\U00052345", "\U000e0001", "\ufffd"),
    ]
)
TEXTS = st.one_of(
    st.lists(FRAGMENTS, max_size=12).map("".join),
    st.text(st.characters(exclude_categories=("Cs",)), max_size=60),
    st.text(st.sampled_from(WHITESPACE + LACKING + "ab<|>\u200b"), max_size=40),
)


@pytest.fixture(scope="session")
def tokenizer_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder in which only the embedded model's tokenizer was asked for."""
    cache = tmp_path_factory.mktemp("tokenizer-cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAJKIT_CACHE", str(cache))
        open_tokenizer("embedded")
    return cache


@pytest.fixture(scope="session")
def embedded(tokenizer_cache: Path) -> TextTokenizer:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAJKIT_CACHE", str(tokenizer_cache))
        return open_tokenizer("embedded")


def texts_of_logs() -> list[str]:
    files = sorted(path for path in LOGS.rglob("*") if path.suffix in {".json", ".jsonl"})
    texts = [path.read_text(encoding="utf-8") for path in files]
    return [text[start : start + 5000] for text in texts for start in range(0, len(text), 5000)]


def special_ids(tokenizer: Tokenizer) -> set[int]:
    return set(tokenizer.get_added_tokens_decoder())


@pytest.mark.parametrize("family", FAMILIES)
def test_no_token_of_a_family_comes_from_text_that_shows_it(family: str, tmp_path: Path) -> None:
    plain = of_family(family)
    tokenizer = open_tokenizer(str(saved(plain, tmp_path)))
    for token in FAMILIES[family].split():
        shown = [token, f" {token} ", f"x{token}x", f"{token}{token}", f"<{token}>", f"[{token}"]
        assert special_ids(plain) & set(plain.encode(token).ids), "else this test proves nothing"
        for text, ids in zip(shown, tokenizer.encode(shown), strict=True):
            assert not special_ids(plain) & set(ids.tolist()), text
            assert tokenizer.decode(ids) == tokenizer.prepare(text)
            assert unescape(tokenizer.restore(tokenizer.prepare(text))) == text


def test_no_token_of_the_embedded_model_comes_from_text(embedded: TextTokenizer) -> None:
    plain = Tokenizer.from_str(embedded._backend.to_str())
    tokens = [token.content for token in plain.get_added_tokens_decoder().values()]
    assert "<|im_start|>" in tokens and "<filename>" in tokens
    for token in tokens:
        before = embedded.counts["control_tokens"]
        (ids,) = embedded.encode([f"a{token}b"])
        assert not special_ids(plain) & set(ids.tolist())
        assert embedded.counts["control_tokens"] == before + 1


@given(TEXTS)
@settings(max_examples=300)
def test_ids_decode_to_the_text_that_was_handed_over(embedded: TextTokenizer, text: str) -> None:
    (ids,) = embedded.encode([text])
    assert ids.dtype == np.int32 and embedded.count([text]) == [len(ids)]
    assert embedded.decode(ids) == embedded.prepare(text)
    assert not embedded._is_structure[ids].any()


@given(TEXTS)
def test_what_was_escaped_before_is_not_touched_again(embedded: TextTokenizer, text: str) -> None:
    whole = "".join(c for c in text if c not in LACKING and not 0x40000 <= ord(c) < 0xC0000)
    escaped = escape(whole)[0]
    assert unescape(embedded.restore(embedded.prepare(escaped))) == whole
    assert embedded.prepare(escaped) == escaped


def test_bytes_that_a_vocabulary_lacks_are_replaced_in_sight_and_counted(
    embedded: TextTokenizer,
) -> None:
    embedded.counts.clear()
    assert embedded.prepare("a\x04b\x1d\U00052345") == "a\u2404b\u241d\ufffd"
    (ids,) = embedded.encode(["a\x04b\x1d\U00052345"])
    assert embedded.decode(ids) == "a\u2404b\u241d\ufffd"
    assert embedded.counts["replaced_bytes"] == 1 + 1 + 4
    kept = "".join(chr(n) for n in range(32) if chr(n) not in LACKING) + "\x7f"
    assert embedded.prepare(kept) == kept


def test_a_byte_that_only_a_vocabulary_in_this_test_lacks_is_replaced_too(tmp_path: Path) -> None:
    tokenizer = open_tokenizer(str(saved(byte_level(without=["ġ", "Ã"]), tmp_path)))  # DEL and C3
    (ids,) = tokenizer.encode(["x\x7fé1"])
    assert tokenizer.decode(ids) == "x\u2421\ufffd1"
    assert tokenizer.counts["replaced_bytes"] == 3


def test_a_vocabulary_without_the_signs_for_what_it_lacks_is_refused(tmp_path: Path) -> None:
    folder = saved(byte_level(without=["ï", "Ã"]), tmp_path / "poor")  # EF begins U+FFFD
    with pytest.raises(TrajkitError, match="text would vanish"):
        open_tokenizer(str(folder))


def test_characters_that_a_vocabulary_does_not_know_are_counted(tmp_path: Path) -> None:
    plain = Tokenizer(models.WordLevel({"<unk>": 0, "a": 1, "b": 2}, unk_token="<unk>"))
    plain.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    plain.add_special_tokens(["<unk>"])
    tokenizer = open_tokenizer(str(saved(plain, tmp_path)))
    assert [ids.tolist() for ids in tokenizer.encode(["a z b", "q q"])] == [[1, 0, 2], [0, 0]]
    assert tokenizer.counts["unknown_tokens"] == 3


def test_truncation_padding_and_dropout_of_a_saved_tokenizer_are_off(tmp_path: Path) -> None:
    plain = byte_level(["<|endoftext|>"], dropout=0.9)
    plain.enable_truncation(4)
    plain.enable_padding(length=64)
    tokenizer = open_tokenizer(str(saved(plain, tmp_path)))
    assert tokenizer.count(["abcdefgh"]) == [8]
    assert json.loads(tokenizer._backend.to_str())["model"]["dropout"] is None


@pytest.mark.parametrize(
    ("token", "normalizer", "text"),
    [
        (AddedToken("<think>", normalized=True), normalizers.NFKC(), "a＜think＞b"),
        (AddedToken("<think>", normalized=True), normalizers.Lowercase(), "a<THINK>b"),
        (AddedToken("<mask>", lstrip=True, rstrip=True), None, "a  <mask>  b"),
        (AddedToken("<mask>", single_word=True), None, "a <mask> b"),
        (AddedToken("magic", normalized=False), None, "so magic\u200bm\u200bagic"),
    ],
)
def test_look_alikes_and_swallowed_blanks_make_no_token(
    token: AddedToken, normalizer: normalizers.Normalizer | None, text: str, tmp_path: Path
) -> None:
    plain = byte_level([token])
    if normalizer is not None:
        plain.normalizer = normalizer
    assert 256 in plain.encode(text).ids, "else this test proves nothing"
    tokenizer = open_tokenizer(str(saved(plain, tmp_path)))
    (ids,) = tokenizer.encode([text])
    assert 256 not in ids
    assert tokenizer.counts["control_tokens"] >= 1
    if normalizer is None:
        assert tokenizer.restore(tokenizer.prepare(text)).replace("\u200b", "") == text.replace(
            "\u200b", ""
        )
        assert tokenizer.decode(ids) == tokenizer.prepare(text)


@given(st.lists(st.sampled_from(["magic", "m", "\u200b", "agic", "🪄", "🪄🪄"]), max_size=8))
def test_breaks_of_a_vocabularys_own_tokens_are_undone_exactly(pieces: list[str]) -> None:
    breaker = Breaker(["magic", "🪄🪄"])
    text = "".join(pieces)
    assert breaker.whole(breaker.broken(text)[0]) == text


@pytest.mark.parametrize(
    ("token", "normalizer"),
    [
        (AddedToken("§", normalized=False), None),
        (AddedToken("<think>", normalized=True), normalizers.Replace("\u200b", "")),
    ],
)
def test_a_vocabulary_whose_tokens_cannot_be_broken_is_refused(
    token: AddedToken, normalizer: normalizers.Normalizer | None, tmp_path: Path
) -> None:
    plain = byte_level([token])
    if normalizer is not None:
        plain.normalizer = normalizer
    with pytest.raises(TrajkitError, match="as a control token, however it is broken up"):
        open_tokenizer(str(saved(plain, tmp_path)))


def test_blanks_and_plain_html_in_a_vocabulary_are_words(tmp_path: Path) -> None:
    plain = byte_level(["<start_of_turn>"])
    words = ["\n\n", "▁▁", "\t\t", "<table>", "</td>", "<h1>"]
    plain.add_tokens([AddedToken(word, normalized=False, special=False) for word in words])
    tokenizer = open_tokenizer(str(saved(plain, tmp_path)))
    (ids,) = tokenizer.encode(["<table>\n\n\t\t</td><h1><start_of_turn>"])
    assert ids[:5].tolist() == [
        plain.token_to_id(word) for word in ("<table>", "\n\n", "\t\t", "</td>", "<h1>")
    ]
    assert tokenizer.counts["control_tokens"] == 1
    assert set(structure_tokens(plain)) == {"<start_of_turn>"}


def test_equal_names_mean_equal_ids_and_no_name_holds_a_path(tmp_path: Path) -> None:
    names = [
        open_tokenizer(str(saved(byte_level(tokens), tmp_path / folder / "model"))).name
        for folder, tokens in (("a", ["<x1>"]), ("b", ["<x1>"]), ("c", ["<x2>"]))
    ]
    assert names[0] == names[1] != names[2]
    assert re.fullmatch(r"model@[0-9a-f]{16}", names[0])
    by_file = open_tokenizer(str(tmp_path / "a" / "model" / "tokenizer.json"))
    assert by_file.name == names[0]


@pytest.mark.parametrize(
    ("files", "end"),
    [
        ({}, None),
        ({"tokenizer_config.json": {"eos_token": "<|im_end|>"}}, 257),
        ({"tokenizer_config.json": {"eos_token": {"content": "<|endoftext|>"}}}, 258),
        ({"generation_config.json": {"eos_token_id": [256, 257]}}, 256),
        ({"config.json": {"eos_token_id": 257}}, 257),
        ({"tokenizer_config.json": {"eos_token": None}, "config.json": {"eos_token_id": 258}}, 258),
    ],
)
def test_the_end_of_a_document_is_what_the_configuration_names(
    files: dict[str, dict[str, object]], end: int | None, tmp_path: Path
) -> None:
    folder = saved(of_family("ChatML"), tmp_path)
    for name, values in files.items():
        (folder / name).write_text(json.dumps(values))
    tokenizer = open_tokenizer(str(folder))
    assert (tokenizer.end_id, tokenizer.n_vocab) == (end, 259)


def test_the_embedded_tokenizer_needs_no_unpacked_model(
    embedded: TextTokenizer, tokenizer_cache: Path, embedded_cache: tuple[Path, object]
) -> None:
    assert not list(tokenizer_cache.rglob("*.safetensors"))
    assert embedded.name.startswith("SmolLM2-135M-Instruct@") and embedded.end_id == 2
    # The unpacked model, which other tests ask for, has the same one.
    of_model = open_tokenizer("embedded")
    assert (of_model.name, of_model.end_id) == (embedded.name, embedded.end_id)
    assert list(embedded_cache[0].rglob("*.safetensors"))


@pytest.fixture
def sentencepiece_folder(tmp_path: Path) -> Iterator[Path]:
    import sentencepiece

    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(texts_of_logs())[:100_000], encoding="utf-8")
    folder = tmp_path / "older"
    folder.mkdir()
    sentencepiece.SentencePieceTrainer.train(
        input=str(corpus),
        model_prefix=str(folder / "tokenizer"),
        model_type="bpe",
        vocab_size=600,
        byte_fallback=True,
        minloglevel=2,
        max_sentence_length=20_000,
    )
    config = {"tokenizer_class": "LlamaTokenizer", "eos_token": "</s>", "legacy": False}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    yield folder


def test_an_older_form_is_converted(sentencepiece_folder: Path) -> None:
    tokenizer = open_tokenizer(str(sentencepiece_folder))
    (ids,) = tokenizer.encode(["cat <s>notes.txt</s> \x04"])
    assert tokenizer.decode(ids) == "cat <\u200bs>notes.txt<\u200b/s> \x04"
    assert tokenizer.end_id == 2 and tokenizer.counts["control_tokens"] == 2


@pytest.mark.parametrize("kind", ["nothing", "empty folder", "no JSON", "code", "bad config"])
def test_what_is_no_tokenizer_says_so_and_its_code_is_not_run(kind: str, tmp_path: Path) -> None:
    spec = tmp_path / "there"
    if kind != "nothing":
        spec.mkdir()
    if kind == "no JSON":
        (spec / "tokenizer.json").write_text("{")
    if kind == "bad config":
        saved(byte_level(), spec)
        (spec / "tokenizer_config.json").write_text("{")
    if kind == "code":
        (spec / "config.json").write_text('{"model_type": "mine"}')
        config = {"auto_map": {"AutoTokenizer": ["mine.Mine", None]}, "tokenizer_class": "Mine"}
        (spec / "tokenizer_config.json").write_text(json.dumps(config))
        (spec / "mine.py").write_text("open('ran', 'w')\nclass Mine: pass\n")
    with pytest.raises(TrajkitError) as caught:
        open_tokenizer(str(spec))
    assert "nothing is fetched" in caught.value.hint
    assert not list(tmp_path.rglob("ran")) and not Path("ran").exists()


def test_fast_ids_are_the_same_on_the_logs_of_this_repository(
    embedded: TextTokenizer, tokenizer_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAJKIT_CACHE", str(tokenizer_cache))
    fast = open_tokenizer("embedded", fast=True)
    texts = texts_of_logs()[::4] + [f"{text}\x04<|im_start|>" for text in texts_of_logs()[:20]]
    assert sum(map(len, texts)) > 150_000
    assert fast.name == embedded.name
    for ids, exact in zip(fast.encode(texts), embedded.encode(texts), strict=True):
        assert np.array_equal(ids, exact)


def test_the_first_id_that_the_two_libraries_do_not_share_stops_the_work() -> None:
    backend = byte_level()
    ids = FastIds(backend, "mine")
    assert [array.tolist() for array in ids(["ab", ""])] == [[64, 65], []]
    assert ids([]) == []
    backend.add_tokens(["ab"])  # one of the two now reads another vocabulary
    with pytest.raises(TrajkitError, match="mine: fastokens and tokenizers disagree on 'cab'"):
        ids(["b", "cab"])


def test_a_tokenizer_that_the_fast_library_cannot_read_says_so(tmp_path: Path) -> None:
    plain = byte_level()
    plain.normalizer = normalizers.NFKC()
    folder = saved(plain, tmp_path)
    assert open_tokenizer(str(folder)).count(["ﬁ"]) == [2]
    with pytest.raises(TrajkitError, match="is not for fastokens") as caught:
        open_tokenizer(str(folder), fast=True)
    assert "--fast-tokenizer" in caught.value.hint
