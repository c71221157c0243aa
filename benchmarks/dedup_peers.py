"""Dedup beside whole tools of others on one made corpus, in one run.

All compare runs of five words by 128 permutations in 16 bands of 8 and have the same two cores.
Each runs from reading to writing, the start of Python included, and splits words its own way: at
what is no letter (text-dedup), at spaces (Data-Juicer), by spaCy (datatrove; once more as the
first). A row left out is right where a kept one is at least 0.8 like it, or begins with it; recall
is that of planted pairs of 0.85 and more. On a shared machine the processor seconds (CPU) count:
the ratios of seconds swing with what else runs.

`make bench-peers` puts the tools below build/; text-dedup needs Python 3.12 or newer.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from itertools import combinations
from pathlib import Path
from textwrap import indent

import polars as pl
from dedup import OURS, ROOT
from dedup_corpus import Corpus, Steps, exact_similarity, kept_ids, read_steps, write_corpus

_SCRIPT = """
import re
import resource
import sys
from pathlib import Path

def main(texts, out):
CODE

if __name__ == "__main__":
    main(*sys.argv[1:])
    peak = [resource.getrusage(who).ru_maxrss for who in
            (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print((peak[0] + 2 * peak[1]) // 1000)
"""
_TEXT_DEDUP = """
from text_dedup.config.base import load_config_from_toml
from text_dedup import minhash
config = Path("config.toml")
config.write_text(f'''
    debug = {{}}
    output = {{output_dir = "{out}"}}
    [input]
    input_type = "local_files"
    read_arguments = {{path = "parquet", data_files = "{texts}/*.parquet", split = "train"}}
    [algorithm]
    algorithm_name = "minhash"
    text_column = "text"
    ngram_size = 5
    num_perm = 128
    bands = 16
    rows = 8
    threshold = 0.8
    check_false_positive = true
    num_proc = 2''')
minhash.main(load_config_from_toml(config))
"""
# The operator's own `run` makes the same two calls, then installs torch to empty its cache.
_DATA_JUICER = """
from datasets import load_dataset
from data_juicer.core.data import NestedDataset
from data_juicer.ops.deduplicator.document_minhash_deduplicator import DocumentMinhashDeduplicator
operator = DocumentMinhashDeduplicator(
    tokenization="space", window_size=5, num_permutations=128, jaccard_threshold=0.8,
    num_bands=16, num_rows_per_band=8)
rows = NestedDataset(load_dataset("parquet", data_files=f"{texts}/*.parquet", split="train"))
kept, _ = operator.process(rows.map(operator.compute_hash, num_proc=2))
kept.to_parquet(f"{out}/kept.parquet")
"""
_DATATROVE = """
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.dedup import minhash
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter
from datatrove.utils.word_tokenizers import WordTokenizer

class Letters(WordTokenizer):
    def word_tokenize(self, text):
        return re.findall(r"\\w+", text)
    sent_tokenize = span_tokenize = word_tokenize
config = minhash.MinhashConfig(n_grams=5, num_buckets=16, hashes_per_bucket=8)
read = JsonlReader(texts, glob_pattern="*.jsonl")
for number, (n_tasks, steps) in enumerate([
    (2, [read, minhash.MinhashDedupSignature("signatures", config=config, language=WORDS)]),
    (16, [minhash.MinhashDedupBuckets("signatures", "buckets", config=config)]),
    (1, [minhash.MinhashDedupCluster("buckets", "removed", config=config)]),
    (2, [read, minhash.MinhashDedupFilter("removed"), JsonlWriter(out, compression=None)]),
]):
    LocalPipelineExecutor(steps, tasks=n_tasks, workers=min(2, n_tasks), start_method="fork",
                          logging_dir=f"logs/{number}").run()
"""
_PEERS = {
    "text-dedup, verifying": ("textdedup", _TEXT_DEDUP),
    "Data-Juicer": ("datajuicer", _DATA_JUICER),
    "datatrove, spaCy": ("datatrove", _DATATROVE.replace("WORDS", '"eng"')),
    "datatrove, letters": ("datatrove", _DATATROVE.replace("WORDS", "Letters()")),
}


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=10_000)
    n_episodes = parser.parse_args().episodes
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    with tempfile.TemporaryDirectory() as name:
        _table(Path(name), n_episodes)


def _table(folder: Path, n_episodes: int) -> None:
    raw, texts = folder / "raw", folder / "texts"
    planted = write_corpus(raw, n_episodes, seed=2, prompt=False)
    episodes = read_steps(raw)
    _write_texts(episodes, texts)
    print(f"{len(episodes):,} episodes of about 5 kB; trajkit is so many times as fast as a peer")
    print(
        f"{'run':<26}{'CPU':>7}{'peak MB':>9}{'seconds':>9}{'normalised':>12}{'plain':>7}", end=""
    )
    print(f"{'dropped':>9}{'precision':>11}{'recall':>8}")
    ours: list[float] = []
    for keys in ("normalised", "plain"):
        seconds, costs = _run(sys.executable, OURS, [str(raw), str(folder / keys), keys], folder)
        found = _quality(episodes, planted, kept_ids(folder / keys))
        print(f"trajkit, {keys + ' keys':<17}{costs}{'':>19}{found}", flush=True)
        ours.append(seconds)
    for name, (peer, code) in _PEERS.items():
        python = ROOT / "build" / f"peer-{peer}" / "bin" / "python"
        if not python.exists():
            print(f"{name:<26}not installed; make bench-peers installs it")
            continue
        work, out = Path(tempfile.mkdtemp(dir=folder)), Path(tempfile.mkdtemp(dir=folder))
        script = _SCRIPT.replace("CODE", indent(code, "    "))
        try:
            seconds, costs = _run(str(python), script, [str(texts), str(out)], work)
        except subprocess.CalledProcessError as error:
            print(f"{name:<26}failed: {error.stderr.strip()[-300:]}")
            continue
        found = _quality(episodes, planted, _written_ids(out))
        ratios = f"{seconds / ours[0]:>12.1f}{seconds / ours[1]:>7.1f}"
        print(f"{name:<26}{costs}{ratios}{found}", flush=True)


def _quality(episodes: dict[str, Steps], planted: Corpus, kept: set[str]) -> str:
    """Return how many a run left out, its precision and its recall."""
    alike = {
        frozenset(pair): exact_similarity(episodes[pair[0]], episodes[pair[1]])
        for family in [*planted.pairs, *planted.again, *planted.chains]
        for pair in combinations(family, 2)
    }
    dropped = episodes.keys() - kept
    right = {one for one, whole in planted.begun if whole in kept}
    right.update(*(pair - kept for pair, value in alike.items() if value >= 0.8 and pair & kept))
    sought = [set(pair) for pair in planted.pairs if alike[frozenset(pair)] >= 0.85]
    precision = len(dropped & right) / max(1, len(dropped))
    recall = sum(not pair <= kept for pair in sought) / max(1, len(sought))
    return f"{len(dropped):>9,}{precision:>11.3f}{recall:>8.3f}"


def _write_texts(episodes: dict[str, Steps], folder: Path) -> None:
    """Write the texts in both forms that are read, each as two files for two processes."""
    folder.mkdir()
    joined = ["\n".join(text for step in steps for text in step) for steps in episodes.values()]
    rows, half = pl.DataFrame({"id": list(episodes), "text": joined}), len(episodes) // 2
    for number, part in enumerate((rows[:half], rows[half:])):
        part.write_parquet(folder / f"{number}.parquet")
        part.write_ndjson(folder / f"{number}.jsonl")


def _written_ids(out: Path) -> set[str]:
    readers = {".arrow": pl.read_ipc_stream, ".parquet": pl.read_parquet, ".jsonl": pl.read_ndjson}
    paths = [path for path in out.rglob("*") if path.suffix in readers]
    return {id_ for path in paths for id_ in readers[path.suffix](path)["id"]}


def _run(python: str, code: str, arguments: list[str], work: Path) -> tuple[float, str]:
    """Return the seconds of a script in a process of its own, and what it cost as printed."""
    script = work / "script.py"
    script.write_text(code)
    # No hub, no package index and no cache of an earlier run has a part in it.
    environment = os.environ | {"HOME": str(work), "HF_HUB_OFFLINE": "1", "PIP_NO_INDEX": "1"}
    command = [python, script.name, *arguments]
    start, used = time.monotonic(), sum(os.times()[2:4])
    done = subprocess.run(
        command, cwd=work, env=environment, capture_output=True, text=True, check=True
    )
    seconds, used = time.monotonic() - start, sum(os.times()[2:4]) - used
    return seconds, f"{used:>7.1f}{done.stdout.split()[-1]:>9}{seconds:>9.1f}"


if __name__ == "__main__":
    main()
