"""Secrets and personal data go, everything else stays as it was written."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from chats import chat, cut, ingested
from hypothesis import given
from hypothesis import strategies as st
from key_shapes import BOTH, HEX, KINDS, Draw

from trajkit.errors import TrajkitError
from trajkit.ingest import Options, ingest
from trajkit.scrub import EPISODE_COLUMNS, STEP_COLUMNS, scrub
from trajkit.secrets import LITERALS
from trajkit.secrets.findings import PLACEHOLDER
from trajkit.secrets.masking import mask
from trajkit.store import Store, open_writer

MARK = re.compile(r"<(?:secret|email|user|phone):\d+>")


def masked(*cells: str | None) -> list[str | None]:
    """Return the cells of one episode after masking."""
    changes = mask([cells])[0].cells
    return [changes.get(number, cell) for number, cell in enumerate(cells)]


def masked_one(text: str) -> str:
    """Return one text after masking."""
    after = masked(text)[0]
    assert after is not None
    return after


def only_spans_changed(before: str, after: str) -> bool:
    """Return whether what is between the placeholders stood there before, in this order."""
    pattern = ".+?".join(re.escape(part) for part in MARK.split(after))
    return re.fullmatch(pattern, before, re.DOTALL) is not None


def document(text: Any) -> Any:
    """Return the object or list that a text is as JSON, else null."""
    try:
        value = json.loads(text)
    except (TypeError, ValueError):
        return None
    return value if isinstance(value, str | list | dict) else None


def same_but_for_spans(before: Any, after: Any) -> bool:
    """Return whether two JSON values differ in nothing but placeholders within strings."""
    if isinstance(after, str) and MARK.search(after):
        inner = None if MARK.fullmatch(after) else document(before)
        if inner is not None:
            return same_but_for_spans(inner, json.loads(after))
        return not isinstance(before, str) or only_spans_changed(before, after)
    if isinstance(before, dict):
        return list(before) == list(after) and all(
            same_but_for_spans(value, after[key]) for key, value in before.items()
        )
    if isinstance(before, list):
        return len(before) == len(after) and all(map(same_but_for_spans, before, after))
    return bool(before == after)


@pytest.mark.parametrize("kind", KINDS)
def test_a_secret_of_each_kind_is_gone_from_plain_text_and_from_json_in_json(kind: str) -> None:
    for number in range(5):
        planted = KINDS[kind](Draw(f"test {kind} {number}"))
        plain = masked_one(planted.text)
        assert planted.secret not in plain
        assert only_spans_changed(planted.text, plain)
        inner = json.dumps({"out": f'say "é"\n{planted.text}\n', "n": 1.50}, ensure_ascii=False)
        outer = json.dumps({"name": "run", "arguments": inner})
        after = masked_one(outer)
        assert only_spans_changed(outer, after)
        arguments = json.loads(json.loads(after)["arguments"])
        assert planted.secret not in arguments["out"]
        assert masked_one(plain) == plain and masked_one(after) == after


LOOK_ALIKES = [
    "commit " + Draw("sha").of(HEX, 40),
    f'{{"id": "{Draw("u").of(HEX, 8)}-1111-4222-8333-{Draw("v").of(HEX, 12)}", "max_tokens": 4}}',
    'password = os.environ["DB_PASSWORD"]',
    "token = self.tokenizer.next_token(kind=TokenKind.NAME2)",
    "curl -H 'Authorization: Bearer <your token>' -d $API_KEY",
    "integrity sha512-" + Draw("i").of(BOTH, 86) + "==",
    "tool call toolu_01" + Draw("t").of(BOTH, 22) + " and call_" + Draw("c").of(BOTH, 24),
    "git@github.com:org/repo.git lodash@4.17.21 icon@2x.png user@example.com @app.route",
    "/home/user/app /srv/x https://shop.test/home/products /Users/runner/work",
    "postgres://user:pass" + "word@localhost/db http://10.0.0.1:8080/@scope/x",
    "2024-01-05T10:00:00+02:00 +12345678901 10.0.0.1 (123) 555 1-2-3",
    '{"tokens": [1, 2], "token": null, "token_count": 12, "key": "name", "password": ""}',
    '{"token": " hello", "logprob": -0.25, "bytes": [32]}',
    '{"properties": {"password": {"type": "string", "description": "of the account"}}}',
    'fetch(url, {credentials: "include"}); export const secretKey: Uint8Array = load1();',
    "hf_hub_download sk-toggleable__content-arrow npm_config_registry key_of_the_long_test_12",
]


@pytest.mark.parametrize("text", LOOK_ALIKES)
def test_ordinary_text_that_looks_secret_stays(text: str) -> None:
    assert masked_one(text) == text


def test_known_and_unknown_vendors_go_and_a_second_pass_finds_none() -> None:
    """Case SE01."""
    draw = Draw("mixed")
    kinds = ("google_api", "aws_key_id", "tavily", "unknown_vendor", "github_fine", "anthropic")
    kinds += ("hex_assignment", "wrapped_key", "url_password", "query", "jwt")
    planted = [KINDS[kind](draw) for kind in kinds]
    cells = [json.dumps({"stdout": one.text}) for one in planted] + LOOK_ALIKES
    once = masked(*cells)
    assert [one.secret in (cell or "") for one, cell in zip(planted, once, strict=False)] == [
        False
    ] * len(kinds)
    assert once[len(kinds) :] == LOOK_ALIKES
    assert masked(*once) == once


@pytest.mark.parametrize("name", ["session_token", "api token", "authorization", "client_secret"])
def test_an_escaped_quote_beside_a_secret_stays_a_quote(name: str) -> None:
    """Case SE02."""
    value = Draw(name).of(BOTH, 24)
    command = f'echo "the {name} = \\"{value}\\" is old"; cat "a b"'
    call = json.dumps({"name": "bash", "arguments": json.dumps({"command": command})})
    after = masked_one(call)
    assert value not in after and only_spans_changed(call, after)
    assert json.loads(json.loads(after)["arguments"])["command"] == command.replace(
        value, "<secret:1>"
    )


def test_a_variable_in_code_is_no_secret_and_the_tail_after_a_value_stays() -> None:
    code = 'log(f"session_token={current}") # "as it was"'
    assert masked_one(json.dumps({"content": code})) == json.dumps({"content": code})
    value = Draw("tail").of(BOTH, 20)
    assert masked_one(f'authorization:{value}"tail') == 'authorization:<secret:1>"tail'


def test_the_value_of_a_field_with_the_name_of_a_secret_goes_whatever_it_is() -> None:
    """Case SE04."""
    before = {
        "llm": {
            "api_key": "abc",
            "base_url": "https://app:q7w" + "8e9@llm.corp.io/v1",
            "top_p": 0.90,
        },
        "condenser": {"llm": {"apiKey": {"kind": "encrypted", "data": ["x y", 17, None]}}},
        "aws_access_key_id": "short",
        "password": 123456,
        "secret": 'he said "no"\n',
        "token": "stale",
        "env": [{"name": "XY_API_KEY", "value": "plain words"}, {"HOME": "/home/mokafor"}],
        "note": json.dumps({"refresh_token": "r 1"}),
        "api_token": None,
        "use_password": True,
    }
    text = json.dumps(before, indent=1)
    after = json.loads(masked_one(text))
    assert same_but_for_spans(before, after)
    left = json.dumps(after)
    for value in ("abc", "q7w8e9", "encrypted", "x y", "short", "123456", "he said", "stale"):
        assert value not in left
    for value in ("plain words", "mokafor", "r 1", " 17"):
        assert value not in left
    assert after["llm"]["base_url"].startswith("https://app:<secret:")
    assert after["llm"]["top_p"] == 0.9 and after["api_token"] is None


def test_the_same_value_is_the_same_placeholder_in_all_texts_of_an_episode() -> None:
    key, other = Draw("one").of(BOTH, 24), Draw("two").of(BOTH, 24)
    cells = [
        f"api_key={other}",
        json.dumps({"name": "set", "arguments": {"api_key": key}}),
        f"stored {key} for /home/mokafor/x and jane@uni-ulm.de",
        f"mokafor@box:~$ echo {key}{{}}\n-rw-r--r-- 1 mokafor staff 3 a",
        "write to jane@uni-ulm.de, mokafor is a word here",
    ]
    assert masked(*cells) == [
        "api_key=<secret:1>",
        '{"name": "set", "arguments": {"api_key": "<secret:2>"}}',
        "stored <secret:2> for /home/<user:1>/x and <email:1>",
        "<user:1>@box:~$ echo <secret:2>{}\n-rw-r--r-- 1 <user:1> staff 3 a",
        "write to <email:1>, mokafor is a word here",
    ]


def test_episodes_that_are_masked_together_come_out_as_each_by_itself() -> None:
    episodes: list[list[str | None]] = []
    for kind, make in KINDS.items():
        episodes += [[f"quiet {number}", "ls -l /tmp"] for number in range(15)]
        episodes.append([make(Draw(f"together {kind}")).text])
    together = [one.cells for one in mask(episodes)]
    assert sum(map(bool, together)) == len(KINDS)
    assert together[15::16] == [mask([episode])[0].cells for episode in episodes[15::16]]


def test_a_key_that_only_the_scanner_knows_goes_from_among_quiet_episodes() -> None:
    key = "shippo_live_" + Draw("scanner").of(HEX, 40)
    episodes = [[f"quiet {number}"] for number in range(40)]
    episodes[20] = [f"the value {key} was rejected"]
    changed = {number: one.cells for number, one in enumerate(mask(episodes)) if one.cells}
    assert changed == {20: {0: "the value <secret:1> was rejected"}}


def test_bytes_are_masked_as_the_text_that_they_are() -> None:
    text = json.dumps({"password": "größer\n12", "to": "jane@uni-ulm.de"}, ensure_ascii=False)
    assert mask([[text.encode(), None]]) == mask([[text, None]])
    assert "größer" not in mask([[text.encode()]])[0].cells[0]


def test_the_literals_are_few_enough_for_one_fast_search() -> None:
    assert len(LITERALS) <= 100


def test_a_placeholder_that_a_log_already_holds_is_not_given_again() -> None:
    value = Draw("again").of(BOTH, 24)
    assert masked(f"<secret:4> api_key={value}") == ["<secret:4> api_key=<secret:5>"]


def test_a_line_of_json_inside_a_text_is_read_as_json() -> None:
    line = json.dumps({"password": "two\nlines", "n": 1})
    assert masked_one(f"$ cat log\n{line}\n$ ") == (
        '$ cat log\n{"password": "<secret:1>", "n": 1}\n$ '
    )


LEAVES = st.one_of(
    st.text(max_size=30),
    st.integers(-(2**60), 2**60),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.none(),
    st.sampled_from([KINDS[kind](Draw(kind)).text for kind in KINDS]),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(["a", "token", "password", "apiKey", "b c"]), inner),
        inner.map(json.dumps),
    ),
    max_leaves=12,
)


@given(VALUES, st.booleans())
def test_json_stays_json_of_the_same_shape_and_masking_twice_is_masking_once(
    value: Any, escape: bool
) -> None:
    text = json.dumps(value, ensure_ascii=escape)
    if not escape:
        text = text.encode("utf-8", "replace").decode()
    after = masked_one(text)
    assert same_but_for_spans(json.loads(text), json.loads(after))
    assert masked_one(after) == after


@given(st.text() | st.text(alphabet='\\"{}[]:,@/=+() \nntoke4A'))
def test_any_text_is_survived_and_masking_twice_is_masking_once(text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    after = masked_one(text)
    assert only_spans_changed(text, after)
    assert masked_one(after) == after


KEY = Draw("store").of(BOTH, 24)
ROWS = [
    chat(
        [
            ("put", {"api_key": KEY}, f"stored {KEY}"),
            ("get", {"q": "who"}, "jane@uni-ulm.de at /home/mokafor"),
        ],
        system=f"Use api_key={KEY}.",
    ),
    chat([("get", {"q": 1}, "nothing"), ("get", {"q": 2}, "to hide")]),
]


def texts(store: Store) -> str:
    """Return all searched texts of a store in one."""
    return "\n".join(
        text
        for table, names in (("trajectories", EPISODE_COLUMNS), ("steps", STEP_COLUMNS))
        for file in store.files(table)
        for name in names
        for text in pl.read_parquet(file)[name].drop_nulls()
    )


def test_a_store_is_scrubbed_and_the_report_counts_by_kind_without_showing_anything(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    raw = Store(ingested(tmp_path, ROWS))
    report = scrub(raw.path, tmp_path / "out")
    out = Store(tmp_path / "out")
    assert (report.read, report.kept, report.dropped) == (2, 2, {})
    assert report.extra["changed"] == 1
    assert report.extra["found"] == {"email": 1, "secret": 1, "user": 1}
    assert report.extra["replaced"] == {"email": 1, "named_secret": 3, "user_name": 1}
    for value in (KEY, "jane@", "mokafor"):
        assert value in texts(raw)
        assert value not in texts(out)
        assert value not in capfd.readouterr().err
        assert value not in (out.path / "manifest.json").read_text(encoding="utf-8")
    assert pl.read_parquet(out.path / "rejects.parquet").height == 0


def test_ids_stay_and_the_content_hash_is_that_of_the_new_text(tmp_path: Path) -> None:
    raw = Store(ingested(tmp_path, ROWS))
    scrub(raw.path, tmp_path / "out", quiet=True)
    before = pl.read_parquet(raw.files("trajectories"))
    after = pl.read_parquet(Store(tmp_path / "out").files("trajectories"))
    assert after["trajectory_id"].to_list() == before["trajectory_id"].to_list()
    same = [a == b for a, b in zip(before["content_hash"], after["content_hash"], strict=True)]
    assert same == [False, True]
    clean = json.loads(json.dumps(ROWS[:1]).replace(KEY, "<secret:1>"))
    text = json.dumps(clean).replace("jane@uni-ulm.de", "<email:1>").replace("mokafor", "<user:1>")
    (tmp_path / "clean.jsonl").write_text(json.dumps(json.loads(text)[0]) + "\n", encoding="utf-8")
    ingest(
        (str(tmp_path / "clean.jsonl"),), tmp_path / "c", options=Options(domain="mcp"), quiet=True
    )
    expected = pl.read_parquet(Store(tmp_path / "c").files("trajectories"))["content_hash"][0]
    assert after["content_hash"][0] == expected


def test_a_second_scrub_finds_nothing_and_links_what_is_there(tmp_path: Path) -> None:
    scrub(ingested(tmp_path, ROWS), tmp_path / "one", quiet=True)
    report = scrub(tmp_path / "one", tmp_path / "two", quiet=True)
    assert report.extra["changed"] == 0 and report.extra["replaced"] == {}
    one, two = Store(tmp_path / "one"), Store(tmp_path / "two")
    for table in ("trajectories", "steps"):
        for mine, theirs in zip(one.files(table), two.files(table), strict=True):
            assert mine.stat().st_ino == theirs.stat().st_ino


def test_steps_without_a_finding_are_linked_though_the_episode_around_them_changed(
    tmp_path: Path,
) -> None:
    rows = [chat([("get", {"q": 1}, "nothing")], system=f"Use api_key={KEY}.")]
    raw = Store(ingested(tmp_path, rows))
    scrub(raw.path, tmp_path / "out", quiet=True)
    out = Store(tmp_path / "out")
    assert KEY not in texts(out)
    same = {
        table: raw.files(table)[0].stat().st_ino == out.files(table)[0].stat().st_ino
        for table in ("trajectories", "steps")
    }
    assert same == {"trajectories": False, "steps": True}


def in_parts(raw: Store, path: Path, order: list[int]) -> Path:
    """Return a store with one episode a part, in this order."""
    writer = open_writer(path, kind="store", stage="ingest", options={}, inputs=[], overwrite=False)
    episodes, steps = (pl.read_parquet(raw.files(name)) for name in ("trajectories", "steps"))
    for number, row in enumerate(order):
        one = episodes[row : row + 1]
        writer.write("trajectories", f"part-{number:05}", one)
        identity = one["trajectory_id"][0]
        writer.write(
            "steps", f"part-{number:05}", steps.filter(pl.col("trajectory_id") == identity)
        )
    writer.finish({}, {})
    return path


def test_workers_parts_and_the_order_of_episodes_change_nothing(tmp_path: Path) -> None:
    raw = Store(ingested(tmp_path, [*ROWS, *ROWS[:1]]))
    scrub(raw.path, tmp_path / "whole", quiet=True)
    whole = Store(tmp_path / "whole")
    split = in_parts(raw, tmp_path / "split", [0, 1, 2])
    turned = in_parts(raw, tmp_path / "turned", [2, 1, 0])
    scrub(split, tmp_path / "one", workers=1, quiet=True)
    scrub(split, tmp_path / "two", workers=2, quiet=True)
    scrub(turned, tmp_path / "back", workers=2, quiet=True)
    one, two, back = (Store(tmp_path / name) for name in ("one", "two", "back"))
    assert one.manifest == two.manifest
    for name in ("trajectories", "steps"):
        tables = [pl.read_parquet(store.files(name)) for store in (whole, one, back)]
        by = ["trajectory_id", "step_index"] if name == "steps" else ["trajectory_id"]
        assert tables[0].sort(by).equals(tables[1].sort(by))
        assert tables[0].sort(by).equals(tables[2].sort(by))


def test_a_store_that_was_cut_already_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrajkitError, match="cut into transitions already"):
        scrub(cut(tmp_path, ROWS), tmp_path / "out", quiet=True)


def test_the_real_logs_of_the_repository_lose_little_and_keep_their_json(
    raw_store: Path, tmp_path: Path
) -> None:
    report = scrub(raw_store, tmp_path / "out", quiet=True)
    before, after = Store(raw_store), Store(tmp_path / "out")
    assert report.read == before.manifest.rows["trajectories"]
    for table, names in (("trajectories", EPISODE_COLUMNS), ("steps", STEP_COLUMNS)):
        old, new = (pl.read_parquet(store.files(table)) for store in (before, after))
        for name in names:
            for was, now in zip(old[name], new[name], strict=True):
                if was != now:
                    assert only_spans_changed(was, now)
                    if was[:1] in "{[":
                        assert same_but_for_spans(json.loads(was), json.loads(now))
    assert not PLACEHOLDER.search(texts(before).encode())


HOSTILE = {
    "nested fields": '{"secret":' * 900 + "1" + "}" * 900,
    "names": "pwd:" * 100_000,
    "ats": "a@b." * 100_000,
    "starts of keys": ("-" * 5 + "BEGIN PRIVATE KEY" + "-" * 5) * 10_000,
    "starts of tokens": "eyJ" * 100_000,
    "open braces": "{" * 100_000 + "\n{\\" * 10_000,
    "backslashes": "\\" * 200_000,
    "one run": "A1b2" * 100_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_text_is_survived(name: str) -> None:
    after = masked_one(HOSTILE[name])
    assert masked_one(after) == after
