"""What every log has in its texts, whatever its format: pictures as base64, and marks of a cut.

Both are rare, so whole columns are searched for a few signs first and only what has one is looked
at closely.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import orjson
import polars as pl

from trajkit.model import Step, Trajectory, to_json_text
from trajkit.pictures import SIGNS, without_pictures
from trajkit.terminal_text import HINTS, cut_marks, may_be_cut

_TEXTS = {
    "trajectories": ("task", "agent_system_prompt", "initial_state"),
    "steps": ("thought", "action", "observation"),
}


def marked(table: str, frame: pl.DataFrame, repairs: Counter[str]) -> pl.DataFrame:
    """Return rows of a table with pictures left out of texts and cut observations marked.

    A picture is replaced by its hash and size; a step names it in `media`. Each is counted in
    `repairs` as `picture_in_text`.
    """
    for column in _TEXTS[table]:
        rows = frame[column].str.contains_any(list(SIGNS)).arg_true().to_list()
        if rows:
            frame = _without_pictures(frame, column, rows, repairs)
    if table == "steps":
        frame = _with_cuts(frame)
    return frame


def _without_pictures(
    frame: pl.DataFrame, column: str, rows: list[int], repairs: Counter[str]
) -> pl.DataFrame:
    texts = frame[column].to_list()
    media = frame["media"].to_list() if "media" in frame.columns else []
    for row in rows:
        texts[row], pictures, n_replaced = without_pictures(texts[row])
        if n_replaced:
            repairs["picture_in_text"] += n_replaced
            if media:
                media[row] = _joined(media[row], pictures)
    changed = [pl.Series(column, texts, dtype=pl.String)]
    if media:
        changed.append(pl.Series("media", media, dtype=pl.String))
    return frame.with_columns(changed)


def _joined(media: str | None, pictures: list[dict[str, Any]]) -> str:
    return to_json_text(orjson.loads(media or "[]") + pictures)


def _with_cuts(frame: pl.DataFrame) -> pl.DataFrame:
    text = pl.col("observation")
    looks_cut = text.str.contains_any(list(HINTS)) | text.str.ends_with("s)")
    may_be = frame.select(
        (looks_cut & ~pl.col("truncated") & (pl.col("observation_source") != "user")).alias("cut")
    )["cut"]
    rows = may_be.arg_true().to_list()
    cut = [row for row in rows if cut_marks(frame["observation"][row])[0]]
    if not cut:
        return frame
    truncated = frame["truncated"].to_list()
    for row in cut:
        truncated[row] = True
    return frame.with_columns(pl.Series("truncated", truncated, dtype=pl.Boolean))


def finished(found: Trajectory) -> Trajectory:
    """Return one trajectory with the same done to it as `marked` does to a table."""
    return replace(
        found,
        task=_plain(found.task),
        agent_system_prompt=_plain(found.agent_system_prompt),
        initial_state=_plain(found.initial_state),
        steps=tuple(map(_finished, found.steps)),
    )


def _plain(text: str | None) -> str | None:
    return None if text is None else without_pictures(text)[0]


def _finished(step: Step) -> Step:
    changed: dict[str, Any] = {}
    media = step.media
    for name in _TEXTS["steps"]:
        text = getattr(step, name)
        if text is not None:
            changed[name], pictures, n_replaced = without_pictures(text)
            media = _joined(media, pictures) if n_replaced else media
    seen = step.observation
    if seen is not None and not step.truncated and step.observation_source != "user":
        changed["truncated"] = may_be_cut(seen) and cut_marks(seen)[0]
    return replace(step, media=media, **changed)
