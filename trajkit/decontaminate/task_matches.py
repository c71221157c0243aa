"""Find a benchmark's tasks in episodes by their id or their statement.

An id is compared as its letters and numbers, so `Owner/repo#123` and `owner__repo-123` are one.
How far an id is trusted depends on what it is: `owner__repo-123` or a UUID counts wherever it
stands (meta, paths, prompt), `hello-world` only where a log names its task, and `17` or `task-3`
never, because every benchmark has one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import orjson
import polars as pl

from trajkit.decontaminate.word_runs import (
    HashSet,
    Words,
    chunks,
    hashed,
    placed_words,
    runs,
    word_lists,
    words,
)

PROMPTS = ("task", "agent_system_prompt", "initial_state")
"""Columns of an episode that may hold the statement of its task."""
MIN_EQUAL_WORDS = 5
MIN_CONTAINED_WORDS = 8
ANCHOR_WORDS = 13
MAX_PROMPT_ID_CHARS = 20_000
ID_FIELDS = frozenset(
    re.findall(
        r"\w+",
        "instance_id task_id id task_name trial_name name sample_id problem_id question_id "
        "example_id eval_id run_id uid uuid environment episode_id origin_key",
    )
)
"""Fields of `meta` (and the key of the origin) in which a log names its task."""
FLAGS = {
    "trajectory_id": pl.String,
    "item": pl.Int64,
    "method": pl.String,
    "similarity": pl.Float64,
    "ours_where": pl.String,
    "ours_start": pl.Int64,
    "ours_end": pl.Int64,
    "ours_text": pl.String,
    "theirs_where": pl.String,
    "theirs_start": pl.Int64,
    "theirs_end": pl.Int64,
    "theirs_text": pl.String,
}
"""Columns of a flag; `item` is the number of the benchmark's item."""
_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_ID_WORD = f"{_UUID}|[0-9a-f]{{32}}|[a-z]+|[0-9]+"
_GENERIC = frozenset(
    re.findall(
        r"\w+",
        "task test train dev val valid validation problem question sample example episode run case "
        "item instance row data set split id no number trial attempt step traj trajectory session "
        "part file log agent app user web page",
    )
)
_RUN_OF_A_TASK = re.compile(r"(\d+ of \d+|v ?\d+|run ?\d+|trial ?\d+|attempt ?\d+|rep ?\d+)\b")
_PLACEHOLDER = re.compile(r"\{[^{}\n]{1,60}\}|<[a-z_]{1,40}>")
_MIN_TEMPLATE_WORDS = 6


def id_strength(instance_id: str) -> str:
    """Return `strong`, `named` or `weak`: where an id may be looked for.

    >>> [id_strength(one) for one in ("acme__widget-101", "hello-world", "task-3", "17")]
    ['strong', 'named', 'weak', 'weak']
    """
    found = re.findall(_ID_WORD, instance_id.lower())
    telling = [word for word in found if not word.isdigit() and word not in _GENERIC]
    letters = sum(map(len, telling))
    if any(re.fullmatch(f"{_UUID}|[0-9a-f]{{32}}", word) for word in found):
        return "strong"
    if len(telling) >= 2 and letters >= 6 and found[-1].isdigit():
        return "strong"
    if len(telling) >= 3 and letters >= 14:
        return "strong"
    is_long_number = len(found) == 1 and found[0].isdigit() and len(found[0]) >= 9
    return "named" if letters >= 3 or is_long_number else "weak"


_Span = tuple[int, int]
_Match = tuple[int, dict[str, Any], _Span, _Span]


class Ids:
    """The ids of a benchmark, and how to find them."""

    def __init__(self, items: pl.DataFrame) -> None:
        named = items.filter("is_named").unique(["item", "instance_id"], maintain_order=True)
        strengths = [id_strength(one) for one in named["instance_id"]]
        keys = _id_words(named["instance_id"])
        self.n_weak = strengths.count("weak")
        keyed = named.select("item", "instance_id", "where").with_columns(
            strength=pl.Series(strengths, dtype=pl.String),
            key=keys,
            n_words=keys.list.len().cast(pl.Int64),
        )
        self.n_ids = len(strengths) - self.n_weak
        self._by_length: dict[int, tuple[pl.DataFrame, HashSet]] = {}
        for (n_words,), group in keyed.filter(pl.col("strength") != "weak").group_by(
            "n_words", maintain_order=True
        ):
            length = int(str(n_words))
            key = pl.Series(runs(hashed(group["key"]), length).hashes, dtype=pl.UInt64)
            self._by_length[length] = group.with_columns(hash=key), HashSet(key.to_numpy())

    def find(self, episodes: pl.DataFrame) -> Iterator[dict[str, Any]]:
        """Give the flags of some rows of `trajectories`."""
        for own in chunks(_own_ids(episodes)):
            found = hashed(_id_words(own["text"]))
            begins = found.ends - found.counts
            for n_words, (keys, held) in self._by_length.items():
                places = runs(found, n_words)
                hits, _ = held.find(places.hashes)
                rows = pl.DataFrame(
                    {
                        "hash": places.hashes[hits],
                        "text": places.texts[hits],
                        "place": places.starts[hits] - begins[places.texts[hits]],
                    }
                ).join(keys, on="hash", maintain_order="left")
                for row in rows.iter_rows(named=True):
                    _, _, text, is_id = own.row(row["text"])
                    whole = is_id and row["place"] == 0 and _is_run_of(text, n_words)
                    if whole or row["strength"] == "strong":
                        yield self._flag(own, row, n_words)

    def _flag(self, own: pl.DataFrame, row: dict[str, Any], n_words: int) -> dict[str, Any]:
        trajectory_id, where, text, _ = own.row(row["text"])
        placed = list(re.finditer(_ID_WORD, text, re.IGNORECASE))[row["place"] :][:n_words]
        start, end = placed[0].start(), placed[-1].end()
        name = row["instance_id"]
        span = (text, start, end)
        theirs_where = "content_hash" if row["where"] == "content_hash" else "id"
        theirs = (name, 0, len(name))
        return flag(trajectory_id, row["item"], "id", 1.0, where, span, theirs_where, theirs)


def flag(
    trajectory_id: str,
    item: int,
    method: str,
    similarity: float,
    ours_where: str,
    ours: tuple[str, int, int],
    theirs_where: str,
    theirs: tuple[str, int, int],
) -> dict[str, Any]:
    """Return one flag; a side is its whole text with the span that matches, cut at 500 characters.

    The offsets are those of the whole span, in characters of the column named by `..._where`.
    """
    row: dict[str, Any] = {
        "trajectory_id": trajectory_id,
        "item": item,
        "method": method,
        "similarity": similarity,
    }
    for side, where, (text, start, end) in (
        ("ours", ours_where, ours),
        ("theirs", theirs_where, theirs),
    ):
        row |= {
            f"{side}_where": where,
            f"{side}_start": start,
            f"{side}_end": end,
            f"{side}_text": text[start : min(end, start + 500)],
        }
    return row


def _id_words(texts: pl.Series) -> pl.Series:
    return texts.str.to_lowercase().str.extract_all(_ID_WORD)


def _is_run_of(text: str, n_words: int) -> bool:
    """Return whether all that follows an id is the number of a run, as in `hello-world.1-of-5`."""
    rest = " ".join(re.findall(_ID_WORD, text.lower())[n_words:])
    return not rest or _RUN_OF_A_TASK.match(rest) is not None


def _own_ids(episodes: pl.DataFrame) -> pl.DataFrame:
    """Return `trajectory_id, where, text, is_id`: the short texts that may name a task."""
    rows: list[tuple[str, str, str, bool]] = []
    columns = ("trajectory_id", "content_hash", "origin_path", "origin_key", "meta", "task")
    for id_, content, path, key, meta, task in episodes.select(columns).iter_rows():
        rows.append((id_, "content_hash", content, True))
        rows += [(id_, f"meta.{name}", text, is_id) for name, text, is_id in _scalars(meta)]
        if key is not None:
            rows.append((id_, "origin_key", key, True))
        rows.append((id_, "origin_path", path, False))
        if task is not None and len(task) <= MAX_PROMPT_ID_CHARS:
            rows.append((id_, "task", task, False))
    schema = {
        "trajectory_id": pl.String,
        "where": pl.String,
        "text": pl.String,
        "is_id": pl.Boolean,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def _scalars(meta: str | None) -> Iterator[tuple[str, str, bool]]:
    """Give the short texts and whole numbers of metadata, two levels deep."""
    try:
        value = orjson.loads(meta or "{}")
    except ValueError:
        return
    levels = list(value.items()) if isinstance(value, dict) else []
    inner = [
        (f"{name}.{key}", one)
        for name, held in levels
        if isinstance(held, dict)
        for key, one in held.items()
    ]
    for name, one in (*levels, *inner):
        if isinstance(one, str | int) and not isinstance(one, bool) and len(str(one)) <= 300:
            yield name, str(one), name.rsplit(".", 1)[-1].lower() in ID_FIELDS


class Statements:
    """The statements of a benchmark's tasks, and how to find them in prompts.

    A statement of eight words or more may stand anywhere in a prompt; one of five to seven must be
    the whole task; a shorter one is no evidence. A statement that several items share is a template
    of the benchmark and is left out.
    """

    def __init__(self, items: pl.DataFrame, max_items: int) -> None:
        told = items.filter(pl.col("is_statement")).drop_nulls("text").drop("is_statement")
        lists = word_lists(told["text"])
        told = told.with_columns(
            key=lists.list.join(" "),
            n_words=lists.list.len().cast(pl.Int64),
            n_distinct=lists.list.n_unique().cast(pl.Int64),
        ).filter(pl.col("n_words") > 0)
        n_items = pl.col("item").n_unique().over("key")
        telling = (pl.col("n_distinct") >= MIN_EQUAL_WORDS) & (n_items <= max_items)
        is_template = pl.col("is_template") & pl.col("text").str.contains(_PLACEHOLDER.pattern)
        self.n_texts = told.height
        told = told.filter(telling)
        self.n_unused = self.n_texts - told.height
        self._templates = list(_patterns(told.filter(is_template).iter_rows(named=True)))
        self._told = told.filter(~is_template).with_row_index("number")
        self._anchors = _anchors(self._told.filter(pl.col("n_words") >= MIN_CONTAINED_WORDS))

    def find(self, episodes: pl.DataFrame) -> Iterator[dict[str, Any]]:
        """Give the flags of some rows of `trajectories`."""
        prompts = pl.concat(
            episodes.select("trajectory_id", where=pl.lit(column), text=column).drop_nulls("text")
            for column in PROMPTS
        )
        # A prompt is shared by thousands of episodes: each text is looked at once.
        texts = prompts.unique("text", maintain_order=True).select("text").with_row_index()
        owners: dict[int, list[tuple[str, str]]] = {}
        for number, trajectory_id, where in (
            prompts.join(texts, on="text", maintain_order="left")
            .select("index", "trajectory_id", "where")
            .iter_rows()
        ):
            owners.setdefault(number, []).append((trajectory_id, where))
        for number, statement, ours, theirs in self._matches(texts):
            text = texts["text"][number]
            equal_only = statement["n_words"] < MIN_CONTAINED_WORDS
            for trajectory_id, where in owners[number]:
                if where == "task" or not equal_only:
                    yield flag(
                        trajectory_id,
                        statement["item"],
                        "task",
                        1.0,
                        where,
                        (text, *ours),
                        statement["where"],
                        (statement["text"], *theirs),
                    )

    def _matches(self, texts: pl.DataFrame) -> Iterator[_Match]:
        """Give the number of a text, the statement in it, and both spans."""
        short = self._told.filter(pl.col("n_words") < MIN_CONTAINED_WORDS)
        for chunk in chunks(texts) if texts.height else ():
            lists = word_lists(chunk["text"])
            found = hashed(lists)
            brief = chunk.select("index", "text").with_columns(n=pl.Series(found.counts))
            brief = brief.with_columns(words=lists).filter(pl.col("n") < MIN_CONTAINED_WORDS)
            equal = brief.with_columns(key=pl.col("words").list.join(" ")).join(
                short, on="key", suffix="_theirs", maintain_order="left"
            )
            for row in equal.iter_rows(named=True):
                statement = row | {"text": row["text_theirs"]}
                yield row["index"], statement, *_spans(row["text"], row["key"], statement)
            for row_number, number in self._anchored(found):
                statement = self._told.row(number, named=True)
                key = " ".join(lists[row_number].to_list())
                if f" {statement['key']} " in f" {key} ":
                    text = chunk["text"][row_number]
                    yield chunk["index"][row_number], statement, *_spans(text, key, statement)
            if self._templates:
                yield from self._filled(chunk.with_columns(key=lists.list.join(" ")))

    def _anchored(self, found: Words) -> Iterator[tuple[int, int]]:
        """Give the row of a text and the number of a statement whose anchor it holds."""
        for n_words, (anchors, held) in self._anchors.items():
            own = runs(found, n_words)
            hits, _ = held.find(own.hashes)
            pairs = pl.DataFrame({"row": own.texts[hits], "anchor": own.hashes[hits]})
            pairs = pairs.unique().join(anchors, on="anchor").sort("row", "statement")
            yield from pairs.select("row", "statement").iter_rows()

    def _filled(self, texts: pl.DataFrame) -> Iterator[_Match]:
        """Give the texts that are a template with its blanks filled."""
        texts = texts.filter(pl.col("text").str.len_chars() <= MAX_PROMPT_ID_CHARS)
        for pattern, row in self._templates:
            for index, text, key in texts.select("index", "text", "key").iter_rows():
                if (match := pattern.search(f" {key} ")) is not None:
                    first = match.string.count(" ", 0, match.start())
                    ours = _span_of_words(text, key, first, match.group().count(" "))
                    yield index, row, ours, (0, len(row["text"]))


def _spans(text: str, key: str, statement: dict[str, Any]) -> tuple[_Span, _Span]:
    """Return the characters of a statement in a text that holds it, and its own."""
    first = f" {key}".count(" ", 0, f" {key} ".index(f" {statement['key']} "))
    n_words = statement["n_words"]
    ours = _span_of_words(text, key, first, n_words)
    return ours, _span_of_words(statement["text"], statement["key"], 0, n_words)


def _span_of_words(text: str, key: str, first: int, n_words: int) -> _Span:
    """Return the characters of some words of a text, given all its words."""
    placed = placed_words(text)
    # Letters that compose across words part otherwise when a text is composed as one: all of it.
    if len(placed) != key.count(" ") + 1:
        return 0, len(text)
    return placed[first][1], placed[first + n_words - 1][2]


def _anchors(told: pl.DataFrame) -> dict[int, tuple[pl.DataFrame, HashSet]]:
    """Return by length the run of words to look for first: the rarest of each statement."""
    by_length: dict[int, tuple[pl.DataFrame, HashSet]] = {}
    sizes = told["n_words"].clip(upper_bound=ANCHOR_WORDS)
    for size in sorted(set(sizes)):
        own = told.filter(sizes == size)
        found = runs(words(own["text"]), size)
        frame = pl.DataFrame({"text": found.texts, "anchor": found.hashes, "start": found.starts})
        rarest = (
            frame.with_columns(n=pl.len().over("anchor"))
            .sort("n", "start")
            .unique("text", keep="first", maintain_order=True)
        )
        numbers = own["number"].to_numpy()[rarest["text"].to_numpy()]
        anchors = pl.DataFrame({"anchor": rarest["anchor"], "statement": numbers})
        by_length[size] = anchors, HashSet(rarest["anchor"].to_numpy())
    return by_length


def _patterns(rows: Iterable[dict[str, Any]]) -> Iterator[tuple[re.Pattern[str], dict[str, Any]]]:
    """Give what finds a template with its blanks filled, for those with enough words of their own.

    A blank takes one to twelve words.
    """
    for row in rows:
        pieces = _PLACEHOLDER.split(row["text"])
        literals = [" ".join(word for word, _, _ in placed_words(piece)) for piece in pieces]
        n_words = sum(len(literal.split()) for literal in literals)
        if n_words >= _MIN_TEMPLATE_WORDS:
            # Each word with the blank before it: no word can be cut in two ways.
            spaced = [re.escape(f" {literal}") if literal else "" for literal in literals]
            yield re.compile(r"(?: \S+){1,12}?".join(spaced) + "(?= )"), row
