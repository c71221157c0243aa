"""The card of a published data set: a header for machines and a block for people.

A card may hold other configs and prose written by hand. Our part is one entry of the header and
one block between two comments; everything else stays as it was.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import yaml

from trajkit.errors import TrajkitError, quote
from trajkit.store import MANIFEST, Store

CARD = "README.md"
MAX_HEADER_BYTES = 100_000
"""The Hub answers 413 to a very big header and does not say where the limit lies."""
_HEADER = re.compile(r"\A\ufeff?\s*---\r?\n(?:(.*?)\r?\n)?---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_YAML_1_1 = ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """A finished folder whose files are what its manifest says."""

    store: Store
    ancestors: tuple[Store, ...]
    """The stores it was made from, nearest first, as far as they lie beside it."""
    files: dict[str, Path]
    """Parquet files by their name in the folder."""
    rows: dict[str, int]
    """Rows by split."""
    manifest: bytes
    """The manifest as it may be shown to others."""
    shortened: list[str]
    """Places in the manifest where a local path or an address was cut out."""

    @property
    def stages(self) -> list[str]:
        """Return the known stages, the last one first."""
        return [store.manifest.stage for store in (self.store, *self.ancestors)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a build goes in a repository."""

    repository: str
    """`owner/name`."""
    config: str = "default"
    """Name that `load_dataset` takes."""
    prefix: str = ""
    """Folder of the files, with `/` at its end."""
    license: str | None = None
    """Licence for the card; null leaves what the card says."""

    @property
    def name(self) -> str:
        """Return the repository's name without its owner."""
        return self.repository.split("/")[1]


def without_places(value: Any, where: str = "") -> tuple[Any, list[str]]:
    """Return JSON data without folders of this machine and network addresses, and where they were.

    >>> without_places({"a": "replay:/home/me/x.jsonl", "b": ["http://10.0.0.1:80/v1#M", "a/b"]})
    ({'a': 'replay:x.jsonl', 'b': ['endpoint#M', 'a/b']}, ['a', 'b[0]'])
    """
    if isinstance(value, str):
        text = re.sub(r"https?://[^\s#'\"]+", "endpoint", value)
        if whole := re.fullmatch(r"([a-z]{2,}:)?(?:~|[A-Za-z]:)?[\\/].*[\\/](.+)", text, re.DOTALL):
            text = (whole[1] or "") + whole[2]
        text = re.sub(r"(?<![\w/\\<])(?:~|[A-Za-z]:)?[\\/][^\s'\"]*[\\/](?=[^\s'\"\\/])", "", text)
        return text, [] if text == value else [where]
    if isinstance(value, Mapping):
        pairs = {k: without_places(v, f"{where}.{k}" if where else k) for k, v in value.items()}
        return {k: v for k, (v, _) in pairs.items()}, [x for _, xs in pairs.values() for x in xs]
    if isinstance(value, list):
        found = [without_places(v, f"{where}[{i}]") for i, v in enumerate(value)]
        return [v for v, _ in found], [x for _, xs in found for x in xs]
    return value, []


class _Loader(yaml.SafeLoader):
    """Reads headers as the Hub does: `no` is the word, and a date stays text."""


_Loader.yaml_implicit_resolvers = {
    first: [pair for pair in pairs if pair[0] not in _YAML_1_1]
    for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("true|false"), list("tf"))


def merge_card(old: str, build: Build, place: Place) -> str:
    """Return a card with one config's part of the header and block replaced, and the rest kept.

    Raises TrajkitError when the old card cannot be read, or the new header is too big.
    """
    match = _HEADER.match(old)
    header: Any = None
    try:
        header = yaml.load(match[1] or "", _Loader) if match else None
    except yaml.YAMLError as error:
        what = f"its header is no YAML: {quote(str(error).splitlines()[0])}"
        raise TrajkitError(CARD, what, "mend it on the Hub") from None
    header = {} if header is None else header
    lists = ("configs", "tags", "task_categories")
    if not isinstance(header, dict) or not all(
        isinstance(header.get(key) or [], list) for key in lists
    ):
        raise TrajkitError(CARD, "its header is not laid out as a card's", "mend it on the Hub")
    _fill_header(header, build, place)
    text = yaml.safe_dump(header, sort_keys=False, allow_unicode=True)
    if len(text.encode()) > MAX_HEADER_BYTES:
        what = f"its header would have {len(text.encode()):,} bytes"
        raise TrajkitError(CARD, what, f"keep it under {MAX_HEADER_BYTES:,}")
    begin, end = (f"<!-- trajkit: {side} {place.config} -->" for side in ("begin", "end"))
    block = f"{begin}\n{_body(build, place)}\n{end}"
    body = old[match.end() :] if match else old
    before, found, rest = body.partition(begin)
    if found:
        _, closed, after = rest.partition(end)
        if not closed:
            raise TrajkitError(CARD, f"{begin} has no end", f"put {end} where our part ends")
        body = before + block + after
    else:
        body = body.rstrip() or f"# {place.name}"
        body = f"{body}\n\n{block}\n"
    return f"---\n{text}---\n\n{body.lstrip()}"


def _fill_header(header: dict[str, Any], build: Build, place: Place) -> None:
    from datasets import DatasetInfo, Features, SplitDict, SplitInfo
    from datasets.info import DatasetInfosDict

    if place.license is not None:
        header["license"] = place.license
    header.setdefault("pretty_name", place.name)
    ours = {"tags": ["trajkit", "world-model"], "task_categories": ["text-generation"]}
    for key, names in ours.items():
        have = header.get(key) or []
        header[key] = [*have, *(name for name in names if name not in have)]
    header["size_categories"] = [size_category(sum(build.rows.values()))]
    configs = [config for config in header.get("configs") or [] if isinstance(config, dict)]
    paths = [{"split": s, "path": f"{place.prefix}{s}/part-*.parquet"} for s in build.rows]
    entry: dict[str, Any] = {"config_name": place.config, "data_files": paths}
    known = [config.get("config_name") for config in configs]
    at = known.index(place.config) if place.config in known else len(configs)
    if not any(config.get("default") for config in configs[:at] + configs[at + 1 :]):
        entry["default"] = True
    header["configs"] = [*configs[:at], entry, *configs[at + 1 :]]
    splits = SplitDict()
    for split, rows in build.rows.items():
        size = sum(
            part.row_group(index).total_byte_size
            for name, path in build.files.items()
            if name.startswith(f"{split}/")
            for part in [pq.read_metadata(path)]
            for index in range(part.num_row_groups)
        )
        splits.add(SplitInfo(name=split, num_bytes=size, num_examples=rows))
    schema = pq.read_schema(next(iter(build.files.values())))
    info = DatasetInfo(
        features=Features.from_arrow_schema(schema),
        splits=splits,
        download_size=sum(path.stat().st_size for path in build.files.values()),
        dataset_size=sum(split.num_bytes for split in splits.values()),
    )
    try:
        DatasetInfosDict({place.config: info}).to_dataset_card_data(header)
    except (KeyError, TypeError, AttributeError):
        what = "its dataset_info is not laid out as a card's"
        raise TrajkitError(CARD, what, "mend it on the Hub") from None


def size_category(n_rows: int) -> str:
    """Return the Hub's word for a number of rows.

    >>> size_category(999), size_category(1_000), size_category(10**13)
    ('n<1K', '1K<n<10K', 'n>1T')
    """
    names = ("1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B", "100B", "1T")
    passed = [name for power, name in enumerate(names, 3) if n_rows >= 10**power]
    if not passed:
        return "n<1K"
    return "n>1T" if passed[-1] == "1T" else f"{passed[-1]}<n<{names[len(passed)]}"


_COLUMNS = {
    "trajectory_id": "Id of the recorded episode.",
    "step_index": "0-based step of the episode; null where a row is a whole episode.",
    "domain": "Kind of environment.",
    "source": "Corpus the episode came from.",
    "split_group": "Same task or near-duplicates; a group stands on one side of the split.",
    "text": "The episode as text: system prompt, then actions and observations.",
    "loss_spans": "[start, end) character pairs of `text` that carry loss: the observations.",
    "messages": "The episode as chat messages; `loss` marks those that carry loss.",
    "input_ids": "Token ids of one or more whole episodes, or a piece of a very long one.",
    "labels": "The same where a token bears loss, else -100.",
    "position_ids": "Place of each token in its episode.",
    "seq_lengths": "Tokens of each episode in the row, in order.",
    "trajectory_ids": "Id of each episode in the row.",
    "prompt": "What the world model is given: system prompt, history and the action.",
    "completion": "What it should say: the recorded observation, perhaps after a rationale.",
    "variant": "System-prompt template of the row.",
    "instruction_kind": "Kind of its simulation instruction; `none` where there is none.",
    "turns_left_out": "Oldest turns of the history that the prompt does not show.",
    "rationale_kind": "How the rationale was made; `none` where there is none.",
    "target_kind": "What the row teaches: the recorded observation or the model's own, accepted.",
    "fidelity": "Rule scores, 0 to 1, of the model's own answer that the rationale came with.",
    "judge_score": "Mean of a judge's five axes, 1 to 5, for that answer.",
    "gain_none": "Nats per token that the rationale adds to the recorded observation.",
    "gain_other": "The same against the rationale of another step of the domain.",
}


def _body(build: Build, place: Place) -> str:
    manifest, config = build.store.manifest, place.config
    domains, sources = _counts(build)
    schema = pq.read_schema(next(iter(build.files.values())))
    packed = "trajectory_ids" in schema.names
    meanings = [(f.name, _COLUMNS.get(f.name, f"`{f.type}`")) for f in schema]
    split = "train" if "train" in build.rows else next(iter(build.rows))
    loading = f'load_dataset("{place.repository}", "{config}", split="{split}")'
    return "\n\n".join(
        [
            f"## Rows of `{config}`",
            f"Made by `trajkit {manifest.stage}` {manifest.trajkit_version} from logs of agents at"
            " work, for training language models that predict what an environment answers.",
            _table(("domain", "split", "rows"), domains),
            _table(("source", "licence", "episodes" if packed else "rows"), sources),
            f"```python\nfrom datasets import load_dataset\n\nrows = {loading}\n```",
            f"### Columns of `{config}`",
            _table(("column", "meaning"), meanings, prose=True),
            f"### How `{config}` was made",
            _table(("stage", "options", "read", "kept", "dropped"), _steps(build)),
            f"### Limits of `{config}`",
            "\n".join(f"- {limit}" for limit in _limits(build)),
        ]
    )


def _counts(build: Build) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Return rows by domain and split, and by source and licence; a licence may be unknown.

    Of packed rows the second counts episodes.
    """
    from trajkit.explore.query import connect

    def union(column: str) -> str:
        return " union all ".join(f"select {column}, '{s}' split from {s}" for s in build.rows)

    with connect([build.store.path]) as rows:
        domains = rows.execute(
            f"select domain, split, count(*) from ({union('domain')}) group by all order by all"
        ).fetchall()
        sources = rows.execute(
            f"select source, null, count(*) from ({union('source')}) group by all order by all"
        ).fetchall()
    origin = next((store for store in build.ancestors if "trajectories" in store.tables()), None)
    if origin is not None:
        # A packed row has several episodes; text that was mixed in is none, and has its own source.
        packed = "trajectory_ids" in pq.read_schema(next(iter(build.files.values()))).names
        ids = "unnest(trajectory_ids) as trajectory_id" if packed else "trajectory_id"
        with connect([build.store.path, origin.path]) as joined:
            sources = joined.execute(
                "select coalesce(trajectories.source, own), license, count(*)"
                f" from ({union(f'{ids}, source as own')})"
                " left join trajectories using (trajectory_id) group by all order by all"
            ).fetchall()
    return domains, sources


def _steps(build: Build) -> list[tuple[Any, ...]]:
    """Return what each known stage did, from the first to the last."""
    rows = []
    for store in reversed((build.store, *build.ancestors)):
        options, _ = without_places(store.manifest.options)
        chosen = ", ".join(
            f"{name}={value if isinstance(value, str) else orjson.dumps(value).decode()}"
            for name, value in options.items()
            if value not in (None, {}, [])
        )
        dropped = ", ".join(f"{reason} {n:,}" for reason, n in store.manifest.dropped.items())
        facts = store.manifest.report
        rows.append((store.manifest.stage, chosen, facts["read"], facts["kept"], dropped))
    return rows


def _limits(build: Build) -> list[str]:
    manifest = build.store.manifest
    limits = [
        "Each target is what an environment answered once, when the log was written.",
        "Control tokens of chat templates inside a log carry an invisible U+200B after their first"
        " character, so that they stay text.",
        "What the rows quote keeps the terms of its source.",
    ]
    if "scrub" not in build.stages:
        limits.append("No scrub stage is known: rows may hold secrets or personal data.")
    known = (build.store, *build.ancestors)
    checked = [name for store in known for name in store.manifest.options.get("against") or ()]
    limits.append(
        f"Episodes that hold tasks of {', '.join(map(_cell, checked))} were left out."
        if checked
        else "No benchmark is known to have been checked: rows may hold tasks of one."
    )
    if manifest.options.get("rationale", "none") != "none":
        model, _ = without_places(str(manifest.report.get("world_model")))
        limits.append(f"Rationales were written by the model {_cell(model)}; they are no record.")
        limits.append("The gate that accepted them is a set of rules: a pass is no proof.")
    if build.stages[-1] != "ingest":
        limits.append(f"Earlier stages are known by hash alone, in {MANIFEST}.")
    return limits


def _table(names: Sequence[str], rows: Sequence[Sequence[Any]], *, prose: bool = False) -> str:
    lines = [" | ".join(names), " | ".join("---" for _ in names)]
    for row in rows:
        head, *rest = [f"{cell:,}" if isinstance(cell, int) else cell or "" for cell in row]
        lines.append(" | ".join([_cell(head), *(rest if prose else map(_cell, rest))]))
    return "\n".join(f"| {line} |" for line in lines)


def _cell(text: str) -> str:
    """Return text of a log so that it stays text in Markdown.

    >>> _cell("swe-agent"), _cell("a|<b>")
    ('`swe-agent`', 'a\\\\|&lt;b&gt;')
    """
    text = "".join(char if char.isprintable() else " " for char in text)[:200]
    if re.fullmatch(r"[\d,]*", text):
        return text
    if re.fullmatch(r"[\w .,:;=/@+#(){}\[\]\"-]+", text):
        return f"`{text}`"
    return re.sub(r"([\\`*_{}\[\]|!~:@])", r"\\\1", html.escape(text))
