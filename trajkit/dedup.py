"""Leave out episodes that are there already: exact copies, then verified near copies.

Near copies are found by MinHash signatures in LSH bands; every candidate pair is then checked on
its exact shingle sets, so the signature only proposes. A cluster is a star around the member that
stays: each episode left out is itself over the threshold with the one kept for it.

System prompts and tool schemas are not part of what is compared: a shared harness would make
every episode of a corpus a near copy of the next.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt
import polars as pl

from trajkit.errors import TrajkitError
from trajkit.progress import Progress
from trajkit.report import Report
from trajkit.store import Store, inputs_of, iterate_parts, open_writer
from trajkit.tables import to_arrow, write_table

N_PERMUTATIONS = 128
SHINGLE_WORDS = 5
MIN_SHINGLES = 8
_SEED = 20_260_624
_WEIGHTS = (0.05, 0.95)


@dataclass(frozen=True, slots=True)
class Shingles:
    """Sorted distinct shingle hashes of many texts; text `i` has `offsets[i]:offsets[i+1]`."""

    hashes: npt.NDArray[np.uint64]
    offsets: npt.NDArray[np.uint64]

    def of(self, index: int) -> npt.NDArray[np.uint64]:
        """Return the set of one text."""
        return self.hashes[int(self.offsets[index]) : int(self.offsets[index + 1])]


def dedup(
    store: str | Path,
    out: str | Path,
    *,
    threshold: float = 0.8,
    overwrite: bool = False,
    quiet: bool = False,
) -> Report:
    """Return the report of leaving out exact and near copies of episodes.

    The pairs go to `duplicates.parquet`. Which member stays depends on the episodes alone: the one
    with the most shingles, then the smallest id. Keeps per episode one 128 x 32 bit signature and,
    for candidates only, its shingles.

    Raises TrajkitError when the threshold is outside (0, 1].
    """
    if not 0 < threshold <= 1:
        raise TrajkitError("--threshold", f"{threshold} is outside (0, 1]", "0.8 is the default")
    source = Store(store).require("trajectories", "steps")
    report = Report("dedup", out)
    writer = open_writer(
        out,
        kind="store",
        stage="dedup",
        options={"threshold": threshold},
        inputs=inputs_of(source),
        overwrite=overwrite,
    )
    parts = source.parts()
    with Progress("dedup", 2 * len(parts), "parts", quiet=quiet) as progress:
        keys: list[pl.DataFrame] = []
        for part in parts:
            keys.append(_keys(source, part))
            progress.advance()
        episodes = pl.concat(keys) if keys else pl.DataFrame()
        exact = _exact_pairs(episodes)
        rest = episodes.filter(~pl.col("trajectory_id").is_in(exact["trajectory_id"].to_list()))
        near, n_candidates = _near_pairs(source, rest, threshold)
        pairs = pl.concat([exact, near])
        _write_pairs(writer.path, pairs)
        gone = pairs.select("trajectory_id")
        for part in iterate_parts(source, writer):
            trajectories = source.read("trajectories", part)
            kept = trajectories.join(gone, on="trajectory_id", how="anti", maintain_order="left")
            if kept.height == trajectories.height:
                writer.link(source, "trajectories", part)
                writer.link(source, "steps", part)
            else:
                steps = source.read("steps", part)
                writer.write("trajectories", part, kept)
                writer.write(
                    "steps",
                    part,
                    steps.join(gone, on="trajectory_id", how="anti", maintain_order="left"),
                )
            writer.mark(part, {"read": trajectories.height, "kept": kept.height})
            progress.advance()
    report.read = writer.counts["read"]
    report.kept = report.written = writer.counts["kept"]
    report.dropped = {
        reason: n
        for reason, n in (("exact_duplicate", exact.height), ("near_duplicate", near.height))
        if n
    }
    report.extra["near_candidates"] = n_candidates
    report.extra["near_verified"] = near.height
    return report.finish(writer)


def _write_pairs(folder: Path, pairs: pl.DataFrame) -> None:
    write_table(folder / "duplicates.parquet", to_arrow("duplicates", pairs))


def key_text(steps: pl.DataFrame) -> pl.DataFrame:
    """Return `trajectory_id, text`: what an episode did and saw, normalised for comparison.

    NFC, lower case, runs of white space as one blank. The data itself is not touched.
    """
    step = pl.concat_str(pl.col("action"), pl.col("observation").fill_null("\x00"), separator="\n")
    return (
        steps.group_by("trajectory_id", maintain_order=True)
        .agg(text=step.str.join("\n"))
        .with_columns(
            pl.col("text")
            .str.normalize("NFC")
            .str.to_lowercase()
            .str.replace_all(r"\s+", " ")
            .str.strip_chars()
        )
    )


def shingles(texts: pl.Series) -> Shingles:
    """Return the distinct hashed runs of five words of each text.

    A text of fewer words has none, so that short texts never collide.
    """
    words = texts.str.extract_all(r"[\p{L}\p{N}_]+")
    n_words = words.list.len().to_numpy().astype(np.int64)
    flat = words.explode(empty_as_null=False).hash(_SEED).to_numpy()
    ends = np.cumsum(n_words)
    sets: list[npt.NDArray[np.uint64]] = []
    offsets = np.zeros(len(texts) + 1, dtype=np.uint64)
    multipliers = np.array([31**k for k in range(SHINGLE_WORDS)], dtype=np.uint64)
    for index, (n, end) in enumerate(zip(n_words, ends, strict=True)):
        n_windows = max(0, int(n) - SHINGLE_WORDS + 1)
        own = flat[int(end - n) : int(end)]
        window = np.zeros(n_windows, dtype=np.uint64)
        for k in range(SHINGLE_WORDS if n_windows else 0):
            window += own[k : k + n_windows] * multipliers[k]
        distinct = np.unique(window)
        sets.append(distinct)
        offsets[index + 1] = offsets[index] + np.uint64(len(distinct))
    hashes = np.concatenate(sets) if sets else np.zeros(0, dtype=np.uint64)
    return Shingles(hashes.astype(np.uint64), offsets)


def _keys(source: Store, part: str) -> pl.DataFrame:
    """Return per episode: id, hash of its key text, number of shingles, signature."""
    from hashlib import sha256

    from rensa import RMinHash

    keyed = key_text(source.read("steps", part))
    sets = shingles(keyed["text"])
    if keyed.height:
        signatures = np.asarray(
            RMinHash.digest_matrix_from_flat_token_hashes(
                sets.hashes, sets.offsets, N_PERMUTATIONS, _SEED
            ).to_rows(),
            dtype=np.uint32,
        )
    else:
        signatures = np.zeros((0, N_PERMUTATIONS), dtype=np.uint32)
    return pl.DataFrame(
        {
            "trajectory_id": keyed["trajectory_id"],
            "part": [part] * keyed.height,
            "key_hash": [sha256(text.encode()).digest() for text in keyed["text"]],
            "n_shingles": np.diff(sets.offsets.astype(np.int64)),
            "signature": pl.Series(signatures, dtype=pl.Array(pl.UInt32, N_PERMUTATIONS)),
        }
    )


def _pairs(rows: list[tuple[str, str, str, float, float]]) -> pl.DataFrame:
    schema = {
        "trajectory_id": pl.String,
        "kept_id": pl.String,
        "method": pl.String,
        "estimated_similarity": pl.Float64,
        "exact_similarity": pl.Float64,
    }
    return pl.DataFrame(rows, schema=schema, orient="row").with_columns(level=pl.lit("trajectory"))


def _exact_pairs(episodes: pl.DataFrame) -> pl.DataFrame:
    """Return the pairs of equal key text; the smallest id of each group stays."""
    if not episodes.height:
        return _pairs([])
    kept = pl.col("trajectory_id").min().over("key_hash")
    copies = episodes.select("trajectory_id", kept_id=kept).filter(
        pl.col("trajectory_id") != pl.col("kept_id")
    )
    return _pairs(
        [(gone, stays, "exact", 1.0, 1.0) for gone, stays in copies.sort("trajectory_id").rows()]
    )


def bands_and_rows(threshold: float) -> tuple[int, int]:
    """Return the LSH bands and rows of a threshold; recall first, verification follows.

    >>> bands_and_rows(0.8)
    (16, 8)
    """
    from datasketch.lsh import _optimal_param

    n_bands, n_rows = _optimal_param(threshold, N_PERMUTATIONS, *_WEIGHTS)
    return int(n_bands), int(n_rows)


def _near_pairs(
    source: Store, episodes: pl.DataFrame, threshold: float
) -> tuple[pl.DataFrame, int]:
    """Return verified near pairs and the number of candidates they came from."""
    comparable = episodes.filter(pl.col("n_shingles") >= MIN_SHINGLES).sort("trajectory_id")
    if comparable.height < 2:
        return _pairs([]), 0
    signatures = comparable["signature"].to_numpy()
    candidates = _candidates(signatures, *bands_and_rows(threshold))
    involved = sorted({index for pair in candidates for index in pair})
    sets = _load_sets(source, comparable[involved])
    ids = comparable["trajectory_id"].to_list()
    similar: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for left, right in candidates:
        a, b = sets[ids[left]], sets[ids[right]]
        n_common = len(np.intersect1d(a, b, assume_unique=True))
        exact = n_common / (len(a) + len(b) - n_common)
        if exact >= threshold:
            similar[left].append((right, exact))
            similar[right].append((left, exact))
    sizes = comparable["n_shingles"].to_list()
    gone: set[int] = set()
    centres: set[int] = set()
    rows = []
    for centre in sorted(similar, key=lambda index: (-sizes[index], ids[index])):
        if centre in gone:
            continue
        centres.add(centre)
        for member, exact in sorted(similar[centre]):
            if member not in gone and member not in centres:
                gone.add(member)
                estimate = float(np.mean(signatures[centre] == signatures[member]))
                rows.append((ids[member], ids[centre], "near", estimate, exact))
    return _pairs(sorted(rows)), len(candidates)


def _candidates(
    signatures: npt.NDArray[np.uint32], n_bands: int, n_rows: int
) -> list[tuple[int, int]]:
    """Return index pairs, left < right, that agree in at least one band; joined by DuckDB."""
    number = np.arange(len(signatures), dtype=np.int64)
    bands = pl.concat(
        [
            pl.DataFrame(
                {
                    "band": np.full(len(signatures), band, dtype=np.int32),
                    "number": number,
                    "key": [
                        row.tobytes() for row in signatures[:, band * n_rows : (band + 1) * n_rows]
                    ],
                }
            )
            for band in range(n_bands)
        ]
    )
    with duckdb.connect() as connection:
        connection.register("bands", bands.to_arrow())
        return connection.execute(
            """
            select distinct a.number, b.number
            from bands a join bands b
              on a.band = b.band and a.key = b.key and a.number < b.number
            order by all
            """
        ).fetchall()


def _load_sets(source: Store, episodes: pl.DataFrame) -> dict[str, npt.NDArray[np.uint64]]:
    """Return the shingle sets of some episodes, read again from their parts."""
    sets: dict[str, npt.NDArray[np.uint64]] = {}
    for (part,), group in episodes.group_by(["part"], maintain_order=True):
        steps = source.read("steps", str(part)).join(
            group.select("trajectory_id"), on="trajectory_id", how="semi", maintain_order="left"
        )
        keyed = key_text(steps)
        own = shingles(keyed["text"])
        for index, id_ in enumerate(keyed["trajectory_id"]):
            sets[id_] = own.of(index)
    return sets
