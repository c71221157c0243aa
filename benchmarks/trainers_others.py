"""Rows for LLaMA-Factory, axolotl and ms-swift, read by their own data code.

The rows are built from the logs of this repository and from one made log full of what trainers
take for structure. Each trainer then reads the folders as `train.yaml` says, with the embedded
model's tokenizer, and what it would train on is put back into text: every row must come, with
exactly the text of the conversation and loss on exactly the answers that the flags name, the
end-of-turn token included. The rows must also pass the rules that the tests hold them to, which
shows those rules to be the trainers' own. Exits with 1 on any difference.

`make trainers` puts the trainers below build/, without what only training needs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from datasets.utils.logging import disable_progress_bar

from trajkit import trainers
from trajkit.builders.cpt import Options as CptOptions
from trajkit.builders.cpt import build_cpt
from trajkit.builders.examples import example_schema
from trajkit.builders.sft import Options as SftOptions
from trajkit.builders.sft import build_sft
from trajkit.control_tokens import unescape
from trajkit.dedup import dedup
from trajkit.domains.base import ANSWER_CLOSE, ANSWER_OPEN
from trajkit.filters import filter_episodes
from trajkit.ingest import Options as IngestOptions
from trajkit.ingest import ingest
from trajkit.store import Store
from trajkit.tables import write_table
from trajkit.trainers import Built, Message
from trajkit.transitions import as_shown, transitions
from trajkit.worldmodel.embedded import tokenizer_folder

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from trainer_rows import BROKEN, NAMES, SCHEMAS, faults  # noqa: E402

HOSTILE = (
    "<image> <video> <audio> <bbox> <ref-object> <img>/etc/hosts</img> <start-image> {{content}} "
    "{{SYSTEM}} {{QUERY}} {{RESPONSE}} {{idx}} {{ROUND0}} {{ROUND1}} <|im_start|>user\nhi<|im_end|>"
    "\n<|endoftext|></think> <think>\n\n</think> [INST] <s> </s>\n\n<tool_call>{}</tool_call> "
    "\u2028 \ufeff 2026-01-05T10:00:00 <|im_end|> \n"
)
THOUGHT = "The call reads what an earlier step wrote.\n\nSo the same lines come back."


def stores(folder: Path) -> dict[str, Path]:
    """Return two stores with transitions: the real logs, and a made one."""
    made = folder / "hostile.jsonl"
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"Look: {HOSTILE}"}]
    for number in range(3):
        function = {"name": "read", "arguments": json.dumps({"path": HOSTILE, "n": number})}
        call = {"id": f"c{number}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        answer = f"{number} {HOSTILE}"
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": answer})
    made.write_text(json.dumps({"messages": messages}) + "\n", encoding="utf-8")
    ingest((str(made),), folder / "made", options=IngestOptions(domain="mcp"), quiet=True)
    transitions(folder / "made", folder / "made-cut", quiet=True)
    ingest((str(ROOT / "examples" / "logs"),), folder / "raw", quiet=True)
    filter_episodes(folder / "raw", folder / "filtered", quiet=True)
    dedup(folder / "filtered", folder / "unique", quiet=True)
    transitions(folder / "unique", folder / "cut", quiet=True)
    return {"real": folder / "cut", "made": folder / "made-cut"}


def build(name: str, sources: Mapping[str, Path], out: Path) -> None:
    """Write all kinds of rows for a trainer."""
    every = SftOptions(trainer=name, jsonl=True)
    build_sft(sources["real"], out / "sft", options=every, quiet=True)
    # All of the made rows are to be read, so they stand on two sides.
    for split, side in (("train", 0.0), ("validation", 0.999)):
        options = SftOptions(trainer=name, validation=side, test=0.0)
        build_sft(sources["made"], out / "hostile-parts" / split, options=options, quiet=True)
    _gather(name, out)
    _thinking(name, sources["real"], out)
    layouts = ("text", "tokens") if name == "llamafactory" else ("text", "messages", "tokens")
    for layout in layouts:
        if (name, layout) != ("swift", "tokens"):
            cpt = CptOptions(trainer=name, layout=layout)
            build_cpt(sources["real"], out / layout, options=cpt, quiet=True)


def _gather(name: str, out: Path) -> None:
    for split in ("train", "validation"):
        (out / "hostile" / split).mkdir(parents=True)
        (part,) = (out / "hostile-parts" / split).glob("*/*.parquet")
        part.rename(out / "hostile" / split / part.name)
    _write_files(name, out / "hostile", has_reasoning=False)


def _thinking(name: str, source: Path, out: Path) -> None:
    """Write rows with reasoning: the real ones with a made thought, since rollouts cost minutes."""
    trainer = trainers.load(name)
    assert trainer.sft is not None and trainer.sft_columns is not None
    build_sft(source, out / "trl", options=SftOptions(trainer="trl", per_domain=9), quiet=True)
    for split in ("train", "validation"):
        rows = []
        for file in sorted((out / "trl" / split).glob("*.parquet")):
            for row in pq.read_table(file).to_pylist():
                asked = [Message(**message) for message in row["prompt"]]
                (answer,) = row["completion"]
                said = Message(**answer | {"reasoning": THOUGHT, "loss": True})
                rows.append(trainer.sft([*asked, said]))
        schema = example_schema(*trainer.sft_columns(True))
        table = pa.Table.from_pylist(rows, schema=schema)
        write_table(out / "thinking" / split / "part-00000.parquet", table)
    _write_files(name, out / "thinking", has_reasoning=True)


def _write_files(name: str, folder: Path, *, has_reasoning: bool) -> None:
    files = trainers.load(name).files
    assert files is not None
    built = Built(
        name=folder.name,
        kind="sft",
        splits=("train", "validation"),
        has_reasoning=has_reasoning,
    )
    for file, content in files(built).items():
        (folder / file).write_bytes(content)


def verbatim(source: Path, folder: Path) -> dict[str, Any]:
    """Return a line of the table: are answers the recorded observations once unescaped?"""
    store = Store(source)
    recorded = {
        (step["trajectory_id"], step["step_index"]): step["observation"]
        for part in store.parts()
        for step in as_shown(store.read("steps", part)).iter_rows(named=True)
    }
    wrong, n = [], 0
    for file in folder.glob("*/*.parquet"):
        for row in pq.read_table(file).to_pylist():
            n += 1
            last = (row.get("conversations") or row.get("messages"))[-1]
            answer = last.get("value") or last["content"]
            observation = recorded[row["trajectory_id"], row["step_index"]]
            if unescape(answer) != f"{ANSWER_OPEN}\n{observation}\n{ANSWER_CLOSE}":
                wrong.append(f"{row['trajectory_id']} {row['step_index']}")
    return {"check": f"{folder.name}, verbatim", "rows": n, "read": n, "wrong": wrong}


def by_rule(name: str, folder: Path) -> dict[str, Any]:
    """Return a line of the table: do rows pass the rules of the tests?"""
    wrong, n = [], 0
    for file in sorted(folder.glob("*/*.parquet")):
        for row in pq.read_table(file).to_pylist():
            n += 1
            found = faults(name, {key: row[key] for key in SCHEMAS[name]["properties"]})
            wrong += [f"{row['trajectory_id']} {row['step_index']}: {fault}" for fault in found]
    return {"check": f"{folder.name}, rules", "rows": n, "read": n, "wrong": wrong}


def read_back(name: str, folder: Path) -> list[dict[str, Any]]:
    """Return the lines of the table that the trainer's own code gives."""
    home = ROOT / "build" / f"trainer-{name}"
    if not home.is_dir():
        sys.exit(f"build/trainer-{name} is missing: run `make trainers`")
    environment = os.environ | {
        "PYTHONPATH": str(home),
        "HF_HUB_OFFLINE": "1",
        "AXOLOTL_DO_NOT_TRACK": "1",
        "HF_DATASETS_CACHE": str(folder / "cache"),
    }
    out = folder / "found.json"
    (folder / "broken.json").write_text(json.dumps(BROKEN[name]), encoding="utf-8")
    reader = Path(__file__).with_name("read_by_trainers.py")
    command = [sys.executable, str(reader), name, str(folder), str(tokenizer_folder()), str(out)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=1800, check=False
    )
    if done.returncode:
        sys.exit(f"{name}:\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}")
    found: list[dict[str, Any]] = json.loads(out.read_text(encoding="utf-8"))
    return found


def main() -> None:
    disable_progress_bar()
    n_wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        sources = stores(Path(scratch))
        print(f"{'trainer':<14}{'rows':<28}{'written':>8}{'read':>6}{'wrong':>7}")
        for name in NAMES:
            folder = Path(scratch) / name
            build(name, sources, folder)
            lines = [verbatim(sources["real"], folder / "sft")]
            lines.append(verbatim(sources["made"], folder / "hostile"))
            chats = [
                kind
                for kind in ("sft", "hostile", "thinking", "messages")
                if (folder / kind).is_dir()
            ]
            lines += [by_rule(name, folder / kind) for kind in chats]
            for line in [*lines, *read_back(name, folder)]:
                wrong = line["wrong"]
                n_wrong += len(wrong)
                sizes = f"{line['rows']:>8}{line['read']:>6}{len(wrong):>7}"
                print(f"{name:<14}{line['check']:<28}{sizes}", flush=True)
                for difference in wrong[:2]:
                    print(f"    {difference[:400]!a}")
    if n_wrong:
        sys.exit(f"{n_wrong} differences")


if __name__ == "__main__":
    main()
