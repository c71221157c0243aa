"""Does the data teach? The embedded model, fine-tuned on CPU with the same budget in four ways.

Episodes of `examples/logs` and of the shared samples, where these lie beside the repository, are
split by group. What is trained on: the raw files of the training groups as they are (`raw`), the
rows of `build-cpt` with the loss on every token (`no masks`), the same with the loss where trajkit
puts it (`masks`), and that after `dedup` (`masks + dedup`). The budget is the same number of steps
on windows of the same length, in an order drawn by the seed. What is measured: nats per token of
the observations of held-out groups, each after its history and its action, for all the same texts.
Lower is better. The interval is Student's t over the seeds.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import torch
from transformers import AutoModelForCausalLM
from transformers.utils.logging import disable_progress_bar

from trajkit.builders import cpt, render
from trajkit.builders.examples import episodes
from trajkit.builders.splits import Splits
from trajkit.dedup import dedup
from trajkit.domains.templates import CPT_VARIANT
from trajkit.filters import filter_episodes
from trajkit.ingest import ingest
from trajkit.scrub import scrub
from trajkit.store import Store
from trajkit.tokens import TextTokenizer, open_tokenizer
from trajkit.transitions import transitions
from trajkit.worldmodel.embedded import model_folder

ROOT = Path(__file__).parent.parent
PLACES = (ROOT / "examples" / "logs", ROOT.parent / "shared" / "samples")
SPLITS = Splits(validation=0.25, test=0.0)
IGNORED = -100
T_95 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776}
"""Student's t for a two-sided interval of 95 %, by degrees of freedom."""
ARMS = ("raw", "no masks", "masks", "masks + dedup")


@dataclass(frozen=True)
class Document:
    """One text in pieces, each with whether it bears loss."""

    pieces: list[tuple[str, bool]]


@dataclass(frozen=True)
class Question:
    """One held-out observation after its context, as token ids."""

    domain: str
    context: list[int]
    observation: list[int]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=48, help="Steps of each run.")
    parser.add_argument("--window", type=int, default=512, help="Tokens of a step.")
    parser.add_argument("--rate", type=float, default=1e-4, help="Learning rate at its highest.")
    parser.add_argument("--questions", type=int, default=8, help="Held-out observations a domain.")
    parser.add_argument("--arms", nargs="*", choices=ARMS, default=ARMS)
    options = parser.parse_args()
    disable_progress_bar()
    torch.manual_seed(0)
    tokenizer = open_tokenizer("embedded")
    with TemporaryDirectory(prefix="trajkit-teach-") as folder:
        filtered, unique = _stores(Path(folder))
        questions = list(_questions(unique, tokenizer, options.questions, options.window))
        documents = {
            "raw": _raw(filtered),
            "no masks": _rows(filtered, masks=False),
            "masks": _rows(filtered, masks=True),
            "masks + dedup": _rows(unique, masks=True),
        }
        streams = {
            arm: [_tokens(document, tokenizer) for document in documents[arm]]
            for arm in options.arms
        }
        n_tokens = sum(len(question.observation) for question in questions)
        print(f"{len(questions)} held-out observations, {n_tokens:,} tokens", flush=True)
        before = _nats(_model(), questions)
        print(f"before any training: {_shown(before)}", flush=True)
        results: dict[str, list[dict[str, float]]] = {}
        for arm, stream in streams.items():
            total = sum(len(ids) for ids, _ in stream)
            borne = sum(label != IGNORED for _, labels in stream for label in labels)
            print(f"{arm}: {len(stream)} documents, {total:,} tokens, {borne:,} in the loss")
            for seed in range(options.seeds):
                started = time.monotonic()
                model = _model()
                seen = _train(model, stream, seed, options.steps, options.window, options.rate)
                found = _nats(model, questions)
                results.setdefault(arm, []).append(found)
                took = time.monotonic() - started
                print(f"  seed {seed}: {_shown(found)}, {seen:,} trained, {took:.0f} s", flush=True)
    _print_table(before, results)


def _stores(folder: Path) -> tuple[Store, Store]:
    """Return the transitions of all logs, without and with dedup before."""
    ingest([str(place) for place in PLACES if place.is_dir()], folder / "raw", quiet=True)
    scrub(folder / "raw", folder / "scrubbed", quiet=True)
    filter_episodes(folder / "scrubbed", folder / "filtered", quiet=True)
    dedup(folder / "filtered", folder / "unique", quiet=True)
    made = []
    for name in ("filtered", "unique"):
        transitions(folder / name, folder / f"{name}-cut", quiet=True)
        made.append(Store(folder / f"{name}-cut"))
    return made[0], made[1]


def _raw(store: Store) -> Iterator[Document]:
    """Give the raw files of which no episode is held out, loss on everything."""
    sides: dict[str, set[str | None]] = {}
    for part in store.parts():
        groups = store.read("transitions", part, ["trajectory_id", "split_group"]).unique()
        for path, group in (
            store.read("trajectories", part, ["trajectory_id", "origin_path"])
            .join(groups, on="trajectory_id")
            .select("origin_path", "split_group")
            .iter_rows()
        ):
            sides.setdefault(path, set()).add(SPLITS.side(group))
    roots = {place.name: place.parent for place in PLACES}
    for path, found in sorted(sides.items()):
        if found == {"train"}:
            file = roots[Path(path).parts[0]] / path
            if file.is_file():
                yield Document([(file.read_text(encoding="utf-8", errors="replace"), True)])


def _rows(store: Store, *, masks: bool) -> Iterator[Document]:
    """Give the training rows of `build-cpt`, cut where the loss begins and ends."""
    out = store.path.with_name(f"{store.path.name}-cpt")
    if not out.exists():
        chosen = cpt.Options(validation=SPLITS.validation, test=SPLITS.test)
        cpt.build_cpt(store.path, out, options=chosen, quiet=True)
    for file in Store(out).files("train"):
        for text, spans in pl.read_parquet(file).select("text", "loss_spans").iter_rows():
            place, pieces = 0, []
            for start, end in spans:
                pieces += [(text[place:start], not masks), (text[start:end], True)]
                place = end
            yield Document([*pieces, (text[place:], not masks)])


def _tokens(document: Document, tokenizer: TextTokenizer) -> tuple[list[int], list[int]]:
    """Return token ids and labels of a document, its end token included."""
    assert tokenizer.end_id is not None
    ids: list[int] = []
    labels: list[int] = []
    pieces = [(text, bears) for text, bears in document.pieces if text]
    encoded = tokenizer.encode([text for text, _ in pieces])
    for (_, bears), piece in zip(pieces, encoded, strict=True):
        ids += piece.tolist()
        labels += piece.tolist() if bears else [IGNORED] * len(piece)
    return [*ids, tokenizer.end_id], [*labels, IGNORED]


def _windows(
    stream: list[tuple[list[int], list[int]]], seed: int, size: int
) -> Iterator[tuple[list[int], list[int]]]:
    """Give windows of the documents in an order of the seed, without those with no loss."""
    draw = random.Random(seed)
    windows = []
    for ids, labels in stream:
        for start in range(0, len(ids), size):
            window = (ids[start : start + size], labels[start : start + size])
            if any(label != IGNORED for label in window[1][1:]):
                windows.append(window)
    while True:
        draw.shuffle(windows)
        yield from windows


def _model() -> Any:
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_pretrained(model_folder(), dtype=torch.float32)


def _loss(model: Any, ids: list[int], labels: list[int]) -> torch.Tensor:
    """Return the mean nats of the labelled tokens; only their logits are computed."""
    kept = torch.tensor([n for n, label in enumerate(labels) if n and label != IGNORED])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        hidden = model.model(input_ids=torch.tensor([ids])).last_hidden_state[0]
        logits = model.lm_head(hidden[kept - 1])
    return torch.nn.functional.cross_entropy(logits.float(), torch.tensor(labels)[kept])


def _train(
    model: Any,
    stream: list[tuple[list[int], list[int]]],
    seed: int,
    n_steps: int,
    size: int,
    rate: float,
) -> int:
    """Return how many tokens bore loss after training for a number of windows."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.95), weight_decay=0.0)
    n_warm = max(1, n_steps // 8)
    n_seen = 0
    for step, (ids, labels) in zip(range(n_steps), _windows(stream, seed, size), strict=False):
        share = min(1.0, (step + 1) / n_warm)
        cooling = 0.5 * (1 + math.cos(math.pi * step / n_steps))
        for group in optimizer.param_groups:
            group["lr"] = rate * share * cooling
        _loss(model, ids, labels).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        n_seen += sum(label != IGNORED for label in labels[1:])
    return n_seen


def _questions(
    store: Store, tokenizer: TextTokenizer, per_domain: int, size: int
) -> Iterator[Question]:
    """Give held-out targets, drawn by a fixed seed, one or two of an episode."""
    found: dict[str, list[Question]] = {}
    for part in store.parts():
        for episode, steps in episodes(store, part):
            if SPLITS.side(steps[0]["split_group"]) != "validation":
                continue
            targets = [step["step_index"] for step in steps if step["target"]]
            rendered = render.render(episode, steps, CPT_VARIANT)
            for index in random.Random(episode["content_hash"]).sample(
                targets, min(2, len(targets))
            ):
                upto = tuple(turn for turn in rendered.turns if turn.step_index <= index)
                text, _ = render.text(_with_turns(rendered, upto))
                observation = upto[-1].observation or ""
                start = len(text) - len(observation) - 2
                context, answer = tokenizer.encode([text[:start], text[start:]])
                found.setdefault(episode["domain"], []).append(
                    Question(
                        domain=episode["domain"],
                        context=context.tolist()[-(size - size // 4) :],
                        observation=answer.tolist()[: size // 4],
                    )
                )
    for domain in sorted(found):
        random.Random(0).shuffle(found[domain])
        yield from found[domain][:per_domain]


def _with_turns(rendered: render.Rendered, turns: tuple[render.Turn, ...]) -> render.Rendered:
    return replace(rendered, turns=turns)


def _nats(model: Any, questions: list[Question]) -> dict[str, float]:
    """Return the mean nats per token of the observations of each domain, and of the domains."""
    model.eval()
    sums: dict[str, list[float]] = {}
    with torch.no_grad():
        for question in questions:
            labels = [IGNORED] * len(question.context) + question.observation
            mean = float(_loss(model, question.context + question.observation, labels))
            total = sums.setdefault(question.domain, [0.0, 0.0])
            total[0] += mean * len(question.observation)
            total[1] += len(question.observation)
    means = {domain: nats / count for domain, (nats, count) in sums.items()}
    return means | {"mean of domains": statistics.mean(means.values())}


def _shown(found: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.3f}" for name, value in found.items())


def _print_table(before: dict[str, float], results: dict[str, list[dict[str, float]]]) -> None:
    columns = list(before)
    print("\n| arm | " + " | ".join(columns) + " |")
    print("|---|" + "---:|" * len(columns))
    print("| before | " + " | ".join(f"{before[name]:.3f}" for name in columns) + " |")
    for arm, runs in results.items():
        cells = [_interval([run[name] for run in runs]) for name in columns]
        print(f"| {arm} | " + " | ".join(cells) + " |")
    if "raw" in results:
        for arm, runs in results.items():
            if arm != "raw":
                pairs = zip(runs, results["raw"], strict=True)
                gaps = [run["mean of domains"] - raw["mean of domains"] for run, raw in pairs]
                print(f"{arm} - raw: {_interval(gaps)} nats per token")


def _interval(values: list[float]) -> str:
    mean = statistics.mean(values)
    if len(values) < 2:
        return f"{mean:.3f}"
    half = T_95[len(values) - 1] * statistics.stdev(values) / math.sqrt(len(values))
    return f"{mean:.3f} ± {half:.3f}"


if __name__ == "__main__":
    main()
