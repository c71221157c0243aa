"""Real logs, damaged in every way logs are damaged: nothing is lost uncounted, nothing crashes.

`make fuzz` runs it on 20,000 inputs; the suite runs a short version. Inputs are the raw cases of
the adapters, the logs of the repository, and the shared samples where they lie beside it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
from golden.update import FOLDER
from hypothesis import given, settings
from hypothesis import strategies as st

from trajkit import schema
from trajkit.extraction import Account, known, read_unit, units
from trajkit.ingest import Options, document_of
from trajkit.inputs import InputFile, list_inputs
from trajkit.marks import finished
from trajkit.model import Reject
from trajkit.readers import FileReader

ROOT = Path(__file__).parent.parent
SAMPLES = ROOT.parent / "shared" / "samples"
PLACES = [FOLDER, ROOT / "examples" / "logs", *([SAMPLES] if SAMPLES.is_dir() else [])]
INPUTS = sorted(
    path
    for place in PLACES
    for path in place.rglob("*")
    if path.is_file() and path.stat().st_size < 300_000 and ".expected." not in path.name
)
ENCODINGS = ("utf-16", "utf-16-be", "utf-8-sig", "latin-1", "cp1252", "utf-7")


@dataclass(repr=False)
class Damaged:
    """A real file after one to three accidents."""

    name: str
    data: bytes
    story: list[str]

    def __repr__(self) -> str:
        return f"Damaged({self.name!r}, {len(self.data)} bytes, {self.story})"


@st.composite
def damaged_files(draw: st.DrawFn) -> Damaged:
    path = draw(st.sampled_from(INPUTS))
    data = path.read_bytes()
    story = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["cut", "flip", "glue", "re-encode", "keys", "zeros", "ends"]))
        place = draw(st.integers(0, max(len(data) - 1, 0)))
        story.append(f"{kind} at {place}")
        if kind == "cut":
            data = data[:place] if draw(st.booleans()) else data[place:]
        elif kind == "flip" and data:
            changed = bytearray(data)
            changed[place] ^= 1 << draw(st.integers(0, 7))
            data = bytes(changed)
        elif kind == "glue":
            other = draw(st.sampled_from(INPUTS)).read_bytes()
            data += draw(st.sampled_from([b"", b"\n"])) + other
        elif kind == "re-encode":
            text = data.decode("utf-8", "replace")
            data = text.encode(draw(st.sampled_from(ENCODINGS)), "replace")
        elif kind == "keys":
            data = _without_a_key(draw, data)
        elif kind == "zeros":
            data = data[:place] + bytes(draw(st.integers(1, 5000))) + data[place:]
        elif kind == "ends":
            data = data.replace(b"\n", b"\r\n")
    return Damaged(path.name, data, story)


def _without_a_key(draw: st.DrawFn, data: bytes) -> bytes:
    """Take a key out of one of the lines (or of the document), or change what it holds."""
    lines = data.split(b"\n")
    number = draw(st.integers(0, len(lines) - 1))
    for whole, text in ((True, data), (False, lines[number])):
        try:
            value = orjson.loads(text)
        except ValueError:
            continue
        places = list(_dicts(value))
        if not places:
            continue
        inner = draw(st.sampled_from(places))
        key = draw(st.sampled_from(sorted(inner)))
        if draw(st.booleans()):
            del inner[key]
        else:
            inner[key] = draw(st.sampled_from([None, "", 0, -1.5, [], {}, [None], "x", True]))
        written = orjson.dumps(value)
        lines[number] = written
        return written if whole else b"\n".join(lines)
    return data


def _dicts(value: Any, depth: int = 0) -> Any:
    if depth > 40:
        return
    if isinstance(value, dict):
        if value:
            yield value
        for inner in value.values():
            yield from _dicts(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from _dicts(inner, depth + 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


CANDIDATES = known("auto")


@settings(deadline=None)
@given(damaged=damaged_files())
def test_a_damaged_log_is_read_or_rejected_and_never_lost(damaged: Damaged, folder: Path) -> None:
    path = folder / damaged.name
    path.write_bytes(damaged.data)
    try:
        _check_lines(path)
        _check_outcomes(path)
    finally:
        path.unlink()


def _check_lines(path: Path) -> None:
    """Each line of JSON lines is a value or a reject of its own."""
    reader = FileReader(InputFile(path, path.name, path.stat().st_size))
    values = list(reader)
    assert values or reader.rejects
    if reader.kind == "lines" and reader.repairs.keys().isdisjoint({"utf16"}):
        places = {value.line for value in values} | {one.origin.line for one in reader.rejects}
        if None in places:
            return
        lines = path.read_bytes().split(b"\n")
        filled = {n for n, line in enumerate(lines, 1) if line.strip(b"\x00 \t\r\n\x0b\x0c")}
        # A value may be printed over several lines; then only its first one counts.
        assert places <= filled
        spread = any(not line.lstrip().startswith((b"{", b"[")) for line in lines if line.strip())
        assert filled <= places or spread


def _check_outcomes(path: Path) -> None:
    """Each file gives an outcome, each record its account, each episode a document that fits."""
    account = Account()
    outcomes = [
        found.outcome
        for unit in units(list_inputs((str(path),)), CANDIDATES)
        for found in read_unit(unit, CANDIDATES, account)
    ]
    assert outcomes
    for outcome in outcomes:
        if isinstance(outcome, Reject):
            assert outcome.reason and outcome.message
            continue
        document, fault = document_of(finished(outcome), Options())
        assert fault is not None or schema.is_valid("trajectory", document)
    for counts in account.loss.values():
        fates: Counter[str] = counts - Counter(
            {"records": counts["records"], "episodes": counts["episodes"]}
        )
        assert counts["records"] > 0
        assert fates.total() >= counts["records"] - counts["episodes"]
