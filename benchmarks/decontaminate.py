"""Right and false flags of decontamination on a corpus with known truth, and its cost.

2,000 statements of a made-up benchmark that share the headings of an issue form, and 20,000
episodes. In every tenth a statement is planted: whole inside a prompt, with every thirtieth word
changed, or read from a file. All others hold what makes false flags: the form's headings, the
harness's instructions (part of which two items of the benchmark quote), and a log many runs print.

Beside it, in the same run and on the same texts, the usual check in plain Python: the runs of 13
words of the benchmark are counted in each text, and an episode that has any is flagged.
"""

from __future__ import annotations

import random
import re
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import orjson
import polars as pl

from trajkit.decontaminate import find
from trajkit.ingest import Options, ingest
from trajkit.split import split
from trajkit.store import Store

N_ITEMS, N_EPISODES = 2_000, 20_000
T = TypeVar("T")
KINDS = ("whole", "reworded", "read")


def main() -> None:
    """Print one line for each way to plant, then precision, recall and times as ratios."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        items, truth = _write(place)
        store = Store(_ingested(place))
        bench = place / "bench.jsonl"
        bench.write_bytes(b"".join(orjson.dumps(item) + b"\n" for item in items))
        found, seconds = _timed(lambda: find(store, [str(bench)]))
        texts = _texts(store)
        plain, plain_seconds = _timed(lambda: _any_run(texts, items))
        names = _names(store)
        groups, split_seconds = _timed(lambda: split(store))
    flagged = {
        (names[trajectory], item)
        for trajectory, item in found.flags.select("trajectory_id", "instance_id").iter_rows()
    }
    planted = {(number, item) for number, (item, _) in truth.items()}
    print(f"{'planted':<12}{'episodes':>10}{'found':>8}")
    for kind in KINDS:
        own = {(number, item) for number, (item, how) in truth.items() if how == kind}
        print(f"{kind:<12}{len(own):>10}{len(own & flagged):>8}")
    usual = {names[trajectory] for trajectory in plain}
    right = len(usual & truth.keys())
    print(f"\n{'':<12}{'precision':>10}{'recall':>8}{'seconds':>9}")
    ours = len(flagged & planted)
    print(f"{'trajkit':<12}{ours / len(flagged):>10.4f}{ours / len(planted):>8.4f}{seconds:>9.1f}")
    precision, recall = right / max(1, len(usual)), right / len(truth)
    print(f"{'any 13-gram':<12}{precision:>10.4f}{recall:>8.4f}{plain_seconds:>9.1f}")
    n_bytes = int(texts["text"].str.len_bytes().sum())
    print(f"\nplain Python / trajkit: {plain_seconds / seconds:.1f}")
    print(f"{n_bytes / 1e6:.0f} MB of text, {n_bytes / 1e6 / seconds:.0f} MB a second")
    print(f"split of the same store: {split_seconds:.1f} s, {groups.counts()}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_000
    print(f"peak memory of all of it: {peak:.0f} MB")


def _write(folder: Path) -> tuple[list[dict[str, Any]], dict[int, tuple[str, str]]]:
    """Return the benchmark's items, and by number of an episode what is planted in it and how."""
    rng = random.Random(0)
    vocabulary = [f"{a}{b}" for a in "bdfgklmnprst" for b in map(str, range(1_500))]

    def prose(n: int) -> str:
        return " ".join(rng.choices(vocabulary, k=n))

    form = ["describe the bug " + prose(14), "steps to reproduce " + prose(15), prose(20)]
    harness, log = prose(400), prose(120)
    items = []
    for number in range(N_ITEMS):
        told = [piece for head in form for piece in (head, prose(rng.randint(20, 90)))]
        if number < 2:
            told.append(harness[:600])
        items.append({"instance_id": f"owner__repo-{number}", "problem_statement": " ".join(told)})
    truth: dict[int, tuple[str, str]] = {}
    with (folder / "rows.jsonl").open("wb") as file:
        for number in range(N_EPISODES):
            task = f"{harness}\n{form[number % 3]}\n{prose(40)}"
            seen = prose(250) + "\n" + log * (number % 2)
            if number % 10 == 0:
                item = items[rng.randrange(N_ITEMS)]
                kind = KINDS[number // 10 % 3]
                truth[number] = (item["instance_id"], kind)
                text = item["problem_statement"]
                if kind == "reworded":
                    words = text.split()
                    words[29::30] = rng.choices(vocabulary, k=len(words[29::30]))
                    text = " ".join(words)
                if kind == "read":
                    seen += "\n" + text
                else:
                    task += "\n" + text
            turns = [("sh", prose(5), seen), ("sh", prose(5), prose(150))]
            file.write(orjson.dumps({"messages": _messages(task, turns), "n": number}) + b"\n")
    return items, truth


def _messages(task: str, turns: list[tuple[str, str, str]]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": task}]
    for number, (name, argument, seen) in enumerate(turns):
        call = {"name": name, "arguments": orjson.dumps({"cmd": argument}).decode()}
        calls = [{"id": f"c{number}", "type": "function", "function": call}]
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": seen})
    return messages


def _ingested(folder: Path) -> Path:
    options = Options(domain="swe")
    ingest((str(folder / "rows.jsonl"),), folder / "raw", options=options, quiet=True)
    return folder / "raw"


def _names(store: Store) -> dict[str, int]:
    """Return the number of each episode."""
    named = {}
    for part in store.parts():
        rows = store.read("trajectories", part)
        numbers = rows["meta"].str.json_path_match("$.n").cast(pl.Int64)
        named |= dict(zip(rows["trajectory_id"], numbers, strict=True))
    return named


def _texts(store: Store) -> pl.DataFrame:
    """Return `trajectory_id, text` of tasks, actions and observations."""
    frames = []
    for part in store.parts():
        frames.append(store.read("trajectories", part).select("trajectory_id", text="task"))
        steps = store.read("steps", part)
        frames += [steps.select("trajectory_id", text=name) for name in ("action", "observation")]
    return pl.concat(frames).drop_nulls()


def _any_run(texts: pl.DataFrame, items: list[dict[str, Any]]) -> set[str]:
    held = {run for item in items for run in _runs(item["problem_statement"])}
    shares = {
        (id_, number): sum(run in held for run in _runs(text))
        for number, (id_, text) in enumerate(texts.iter_rows())
    }
    return {id_ for (id_, _), n in shares.items() if n}


def _runs(text: str) -> Iterator[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return (tuple(words[k : k + 13]) for k in range(len(words) - 12))


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


if __name__ == "__main__":
    main()
