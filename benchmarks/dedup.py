"""Quality and speed of dedup on made corpora with known copies, beside peers, in one run.

The machine may be shared and noisy, so the ratios count, not the seconds. Ours is the whole stage
with two processes: it reads a store, verifies each pair, finds boilerplate, beginnings and
repeated transitions, and writes a store. A peer reads the same texts and only says which episodes
it would drop. `make bench` puts gaoya into build/peers.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
PEERS = ROOT / "build" / "peers"
sys.path.insert(0, str(ROOT / "tests"))

from dedup_corpus import kept_ids, quality, write_corpus  # noqa: E402

OURS = """
import resource
import sys
from trajkit.dedup import dedup
if __name__ == "__main__":
    store, out, keys = sys.argv[1:]
    report = dedup(store, out, keys=keys, workers=2, quiet=True)
    peak = [resource.getrusage(who).ru_maxrss for who in
            (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(sum(report.dropped.values()), (peak[0] + 2 * peak[1]) // 1000)
"""
_TEXTS = """
import resource
import sys
from pathlib import Path
import polars as pl

def texts(store):
    for path in sorted((Path(store) / "steps").glob("*.parquet")):
        steps = pl.read_parquet(path, columns=["trajectory_id", "action", "observation"])
        step = pl.concat_str("action", "observation", separator="\\n")
        joined = steps.group_by("trajectory_id", maintain_order=True).agg(step.str.join("\\n"))
        yield from joined["action"]

def done(n):
    print(n, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1000)
"""
_DATASKETCH = """
import re
from datasketch import MinHash, MinHashLSH
word = re.compile(r"\\w+")
lsh = MinHashLSH(threshold=0.8, num_perm=128)
n_dropped = 0
for number, text in enumerate(texts(sys.argv[1])):
    words = word.findall(text)
    minhash = MinHash(num_perm=128)
    minhash.update_batch([" ".join(words[k : k + 5]).encode() for k in range(len(words) - 4)])
    if lsh.query(minhash):
        n_dropped += 1
    else:
        lsh.insert(number, minhash)
done(n_dropped)
"""
_GAOYA = """
from gaoya.minhash import MinHashStringIndex
index = MinHashStringIndex(hash_size=32, jaccard_threshold=0.8, num_bands=16, band_size=8,
                           num_hashes=128, analyzer="word", lowercase=True, ngram_range=(5, 5))
n_dropped = 0
for number, text in enumerate(texts(sys.argv[1])):
    if index.query(text):
        n_dropped += 1
    else:
        index.insert_document(number, text)
done(n_dropped)
"""


def main() -> None:
    """Print quality, then speed beside peers, then growth."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=5_000, help="100000 is full size.")
    parser.add_argument("--quality-episodes", type=int, default=20_000, help="Of the quality part.")
    parser.add_argument(
        "--growth", type=int, nargs="*", default=[], help="More sizes, without peers."
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _quality(folder, options.quality_episodes)
        _speed(folder, options.episodes)
        _growth(folder, [*options.growth])


def _quality(folder: Path, n_episodes: int) -> None:
    raw, out = folder / "quality", folder / "quality-out"
    planted = write_corpus(raw, n_episodes, seed=1)
    _run("quality", OURS, [str(raw), str(out), "normalised"], show=False)
    found, kept = quality(raw, out, planted), kept_ids(out)
    print(f"quality on {n_episodes:,} episodes at threshold 0.8")
    print(f"  near pairs dropped        {found['near_pairs']:>8,}")
    print(f"  precision                 {found['precision']:>8.3f}")
    print(f"  planted pairs over 0.85   {found['pairs_over_085']:>8,}")
    print(f"  recall of these           {found['recall']:>8.3f}")
    print(f"  worst error of similarity {found['worst_error']:>8.1e}")
    n_again = sum(not {one, other} <= kept for one, other in planted.again)
    print(f"  same but for layout       {n_again:>8,} of {len(planted.again):,} dropped")
    n_begun = sum(one not in kept and whole in kept for one, whole in planted.begun)
    print(f"  beginnings                {n_begun:>8,} of {len(planted.begun):,} dropped")
    n_chains = sum(bool(kept.intersection(chain)) for chain in planted.chains)
    print(f"  chains with one kept      {n_chains:>8,} of {len(planted.chains):,}\n")


def _speed(folder: Path, n_episodes: int) -> None:
    raw = folder / "speed"
    write_corpus(raw, n_episodes, seed=2, prompt=False)
    size = sum(path.stat().st_size for path in raw.rglob("*.parquet")) / 1e6
    print(f"speed on {n_episodes:,} episodes of about 5 kB ({size:.0f} MB of Parquet)")
    print(f"{'run':<28}{'seconds':>9}{'times as fast':>15}{'CPU':>8}{'dropped':>9}{'peak MB':>9}")
    base = _run("datasketch", _TEXTS + _DATASKETCH, [str(raw)])
    for keys in ("normalised", "plain"):
        _run(f"trajkit, {keys} keys", OURS, [str(raw), str(folder / keys), keys], base)
    if (PEERS / "gaoya").exists():
        _run("gaoya", _TEXTS + _GAOYA, [str(raw)], base)


def _growth(folder: Path, sizes: list[int]) -> None:
    before = None
    if sizes:
        print("\ngrowth, normalised keys: seconds to the size before, CPU seconds")
    for n_episodes in sizes:
        raw = folder / f"growth-{n_episodes}"
        write_corpus(raw, n_episodes, seed=3, prompt=False)
        arguments = [str(raw), str(folder / f"grown-{n_episodes}"), "normalised"]
        before = _run(f"trajkit, {n_episodes:,} episodes", OURS, arguments, before, growth=True)


def _run(
    name: str,
    code: str,
    arguments: list[str],
    base: float | None = None,
    *,
    growth: bool = False,
    show: bool = True,
) -> float:
    """Return the seconds of a script in a process of its own."""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
        script.write(textwrap.dedent(code))
        script.flush()
        environment = os.environ | {"PYTHONPATH": str(PEERS)}
        start, used = time.monotonic(), sum(os.times()[2:4])
        done = subprocess.run(
            [sys.executable, script.name, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        seconds, used = time.monotonic() - start, sum(os.times()[2:4]) - used
    if done.returncode:
        print(f"{name:<28}  failed: {done.stderr.strip()[-300:]}")
        return seconds
    if show:
        n_dropped, peak = done.stdout.split()
        ratio = "" if base is None else f"{seconds / base if growth else base / seconds:.1f}"
        costs = f"{used:>8.1f}{n_dropped:>9}{peak:>9}"
        print(f"{name:<28}{seconds:>9.1f}{ratio:>15}{costs}", flush=True)
    return seconds


if __name__ == "__main__":
    main()
