"""Speed of building training rows, beside the plain way and the bare tokenizer, in one run.

The corpus is made from real logs (`corpus.py`), so sizes of messages are theirs. What counts are
processor seconds of one thread and their ratios. The plain way is what people write by hand: JSON
lines, a loop, and the chat template of the embedded tokenizer, which makes text with no spans of
the loss. Peak memory is that of a process that does nothing but build.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# One thread each, so that processor seconds are seconds of one core.
os.environ |= {"POLARS_MAX_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}

import pyarrow as pa
import pyarrow.parquet as pq
from corpus import Corpus
from tokenizers import Tokenizer

from trajkit.builders.cpt import Options, build_cpt
from trajkit.builders.cpt_rows import tokenizer_of
from trajkit.ingest import ingest
from trajkit.store import Store
from trajkit.transitions import transitions
from trajkit.worldmodel.embedded import tokenizer_folder

PEAK = r"""
import re, sys
from pathlib import Path
from trajkit.builders.cpt import Options, build_cpt
build_cpt(sys.argv[1], sys.argv[2], options=Options(layout=sys.argv[3]), quiet=True)
# The system counts the peak of the parent process to this one, but not in this field.
print(int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024)
"""


def main() -> None:
    """Print the speed of each layout, of the plain way and of the tokenizer alone."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=200, help="Size of the raw logs.")
    parser.add_argument("--tokens-megabytes", type=int, default=20, help="The same for tokens.")
    options = parser.parse_args()
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = _store(folder / "large", options.megabytes)
        text = _built(store, folder / "warm", "text")
        text = _built(store, folder / "text", "text")
        print(f"{text['chars'] / 1e6:,.0f} MB of text in {text['written']:,} rows")
        _line("text", text["chars"], text["cpu"])
        messages = _built(store, folder / "messages", "messages")
        _line("messages", text["chars"], messages["cpu"])
        size, seconds = _plain(folder / "messages", folder / "plain.jsonl")
        _line("the plain way", size, seconds)
        print(f"{'text : the plain way':<28}{_speed(text) / (size / seconds):8.2f}")
        small = _store(folder / "small", options.tokens_megabytes)
        _built(small, folder / "small-text", "text")
        tokenizer_of("embedded", False)
        tokens = _built(small, folder / "tokens", "tokens")
        texts = _texts(folder / "small-text")
        tokenizer = Tokenizer.from_file(str(tokenizer_folder() / "tokenizer.json"))
        size = sum(map(len, texts))
        bare = _timed(lambda: tokenizer.encode_batch_fast(texts, add_special_tokens=False))
        _line("tokens", tokens["chars"], tokens["cpu"])
        _line("the tokenizer alone", size, bare)
        print(f"{'tokens : tokenizer, seconds':<28}{tokens['cpu'] / bare:8.2f}")
        for layout, source in (("text", store), ("tokens", small)):
            command = [sys.executable, "-c", PEAK, str(source), str(folder / f"peak-{layout}")]
            run = subprocess.run([*command, layout], capture_output=True, text=True, check=True)
            print(f"peak memory, {layout:<15}{float(run.stdout):8,.0f} MB")


def _store(folder: Path, megabytes: int) -> Path:
    Corpus().write(folder / "logs", megabytes * 1_000_000)
    ingest((str(folder / "logs"),), folder / "raw", quiet=True)
    transitions(folder / "raw", folder / "transitions", quiet=True)
    return folder / "transitions"


def _built(store: Path, out: Path, layout: Any) -> dict[str, Any]:
    reports: list[dict[str, Any]] = []

    def build() -> None:
        report = build_cpt(store, out, options=Options(layout=layout), quiet=True)
        reports.append(report.as_dict())

    seconds = _timed(build)
    return reports[0] | {"cpu": seconds}


def _plain(built: Path, lines: Path) -> tuple[int, float]:
    """Return characters and seconds of making text of JSON lines with a loop and a template."""
    from transformers import AutoTokenizer

    with lines.open("w", encoding="utf-8") as file:
        for row in _rows(built):
            messages = [{"role": m["role"], "content": m["content"]} for m in row["messages"]]
            file.write(json.dumps({"messages": messages}) + "\n")
    tokenizer = AutoTokenizer.from_pretrained(str(tokenizer_folder()))
    n_chars = 0

    def convert() -> None:
        nonlocal n_chars
        with (
            lines.open(encoding="utf-8") as file,
            lines.with_suffix(".out").open("w", encoding="utf-8") as out,
        ):
            for line in file:
                messages = json.loads(line)["messages"]
                text = tokenizer.apply_chat_template(messages, tokenize=False)
                n_chars += len(text)
                out.write(json.dumps({"text": text}) + "\n")

    seconds = _timed(convert)
    return n_chars, seconds


def _rows(built: Path) -> list[dict[str, Any]]:
    return [row for file in Store(built).files("train") for row in pq.read_table(file).to_pylist()]


def _texts(built: Path) -> list[str]:
    store = Store(built)
    return [
        text
        for split in ("train", "validation", "test")
        for file in store.files(split)
        for text in pq.read_table(file, columns=["text"])["text"].to_pylist()
    ]


def _timed(run: Callable[[], Any]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def _speed(built: dict[str, Any]) -> float:
    return float(built["chars"] / built["cpu"])


def _line(what: str, n_chars: int, seconds: float) -> None:
    print(f"{what:<28}{seconds:8.2f} s {n_chars / 1e6 / seconds:8.1f} MB/s")


if __name__ == "__main__":
    main()
