"""The index of dedup: what earlier runs kept, for the next one.

A folder with one generation for each store that went through it. A generation holds keys,
signatures and key texts of the kept episodes, part by part; it is written beside the others under
a name that no reader takes, and renamed when it is whole. Its name is a hash of the store and the
settings, so that a run that is taken up again, or made anew, never meets its own episodes.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import polars as pl

from trajkit.dedup.episode_keys import Recipe, save_rows, save_table, slices
from trajkit.dedup.signatures import (
    N_PERMUTATIONS,
    SHINGLE_WORDS,
    Hashes,
    Numbers,
    Shingles,
    shingles,
)
from trajkit.errors import TrajkitError
from trajkit.store import Store
from trajkit.tables import write_atomically

VERSION = 2
"""Grows when keys or hashes change: an index of another version does not fit."""
_SETTINGS = "index.json"
_BOILERPLATE = "boilerplate.npy"


class Index:
    """An index folder, open for one run.

    Raises TrajkitError when the folder holds something else or was made with other settings.
    """

    def __init__(self, folder: str | Path, recipe: Recipe, inputs: list[dict[str, str]]) -> None:
        self.folder = Path(folder)
        self._settings: dict[str, Any] = {
            "version": VERSION,
            "permutations": N_PERMUTATIONS,
            "shingle_words": SHINGLE_WORDS,
            "plain": recipe.plain,
            "context_steps": recipe.context_steps,
        }
        plan = orjson.dumps([self._settings, inputs], option=orjson.OPT_SORT_KEYS)
        self._own = "run-" + hashlib.sha256(plan).hexdigest()[:16]
        self._check()
        self.generations = sorted(
            path for path in self.folder.glob("run-*") if path.name != self._own
        )

    def _check(self) -> None:
        settings = self.folder / _SETTINGS
        if settings.exists():
            found = orjson.loads(settings.read_bytes())
            if found != self._settings:
                raise TrajkitError(
                    str(self.folder),
                    f"was made with other settings: {_differences(found, self._settings)}",
                    "use the same options, or begin another index",
                )
        elif self.folder.exists() and (not self.folder.is_dir() or any(self.folder.iterdir())):
            raise TrajkitError(
                str(self.folder), "is no index of dedup", "give a new or empty folder to --index"
            )

    def names(self) -> list[str]:
        """Return the names of the generations of other runs."""
        return [path.name for path in self.generations]

    def parts(self) -> list[Path]:
        """Return the parts of all generations, as paths without a suffix."""
        return [
            file.with_suffix("")
            for generation in self.generations
            for file in sorted(generation.glob("*.episodes"))
        ]

    def boilerplate(self) -> Hashes:
        """Return the shingles that were boilerplate in earlier runs."""
        found = [np.load(generation / _BOILERPLATE) for generation in self.generations]
        return np.unique(np.concatenate([np.zeros(0, dtype=np.uint64), *found]))

    def add(
        self, source: Store, scratch: Path, kept: Mapping[str, Numbers], recipe: Recipe
    ) -> None:
        """Write what is kept of a store as a generation; `kept` has the rows of each part."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(
            self.folder / _SETTINGS, orjson.dumps(self._settings, option=orjson.OPT_INDENT_2)
        )
        unfinished = self.folder / f".{self._own}"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        save_rows(unfinished / _BOILERPLATE, recipe.common())
        for part, rows in kept.items():
            if len(rows):
                _write_generation_part(source, part, scratch, unfinished, rows, recipe)
        shutil.rmtree(self.folder / self._own, ignore_errors=True)
        unfinished.rename(self.folder / self._own)


def _differences(found: Any, wanted: Mapping[str, Any]) -> str:
    found = found if isinstance(found, dict) else {}
    return ", ".join(
        f"{name} {found.get(name)}, not {value}"
        for name, value in wanted.items()
        if found.get(name) != value
    )


def _write_generation_part(
    source: Store, part: str, scratch: Path, folder: Path, rows: Numbers, recipe: Recipe
) -> None:
    numbers = pl.DataFrame({"episode": pl.Series(rows, dtype=pl.UInt32)}).with_row_index("new")
    minima = np.load(scratch / f"{part}.signatures.npy")
    save_rows(folder / f"{part}.signatures.npy", minima[rows])
    texts = [pl.DataFrame(schema={"episode": pl.UInt32, "text": pl.String})]
    for piece in slices(source, part, recipe, rows):
        steps = piece.steps.select("episode", text=piece.texts())
        texts.append(
            steps.group_by("episode", maintain_order=True).agg(pl.col("text").str.join("\n"))
        )
    for name, frame in (
        ("texts", pl.concat(texts)),
        ("steps", pl.read_parquet(scratch / f"{part}.steps")),
        ("episodes", pl.read_parquet(scratch / f"{part}.episodes")),
    ):
        columns = frame.columns
        kept = frame.join(numbers, on="episode", maintain_order="left")
        kept = kept.with_columns(episode=pl.col("new")).select(columns)
        save_table(folder / f"{part}.{name}", kept)


def stored_sets(part: Path, rows: Numbers, common: Hashes) -> Shingles:
    """Return the shingle sets of some rows of a part of an index."""
    texts = pl.read_parquet(part.with_name(f"{part.name}.texts"))
    wanted = pl.DataFrame({"episode": pl.Series(rows, dtype=pl.UInt32)})
    chosen = wanted.join(texts, on="episode", how="left", maintain_order="left")
    return shingles(chosen["text"]).without(common)
