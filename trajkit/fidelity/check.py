"""The fidelity gate on predictions made elsewhere."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa

from trajkit import domains, schema
from trajkit.fidelity.findings import Axis, Case, Turn, Verdict
from trajkit.fidelity.gate import judge
from trajkit.fidelity.thresholds import Thresholds, read_thresholds
from trajkit.inputs import list_inputs
from trajkit.model import Origin, Reject, to_json_text
from trajkit.progress import Progress
from trajkit.readers import FileReader
from trajkit.report import Report, under
from trajkit.store import Store, inputs_of, iterate_parts, open_writer
from trajkit.tables import TABLES, file_sha256, rejects_table, write_table

_REFERENCE = re.compile(
    r"\b(?:reference|target|correct|final) answer[*_`]{0,3}\s{0,3}[:=]\s{0,3}(\S[^\n]{0,500})",
    re.IGNORECASE,
)
AXES: tuple[str, ...] = get_args(Axis)


def check(
    store: str | Path,
    predictions: Sequence[str],
    out: str | Path,
    *,
    thresholds: str | Path | None = None,
    overwrite: bool = False,
    quiet: bool = False,
) -> Report:
    """Return the report of judging predictions against the recorded observations of a store.

    `kept` are predictions that got a verdict, accepted or not; `passed` and `failed` say which.
    A line that is no prediction, points to no step, or to a step nothing was recorded for is
    counted under `dropped` and stands in `rejects.parquet`. The predictions are held in memory.
    `thresholds` is a file of least scores that stand in place of the shipped ones.

    Raises TrajkitError when a file or the store is missing, or the thresholds are none.
    """
    least = read_thresholds(thresholds)
    source = Store(store).require("trajectories", "steps")
    report = Report("check", out)
    files = list_inputs(tuple(predictions))
    writer = open_writer(
        out,
        kind="verdicts",
        stage="check",
        options={"thresholds": {domain: dict(own) for domain, own in least.items()}},
        inputs=[
            *inputs_of(source),
            *({"name": file.origin_path, "sha256": file_sha256(file.path)} for file in files),
        ],
        overwrite=overwrite,
    )
    rejects: list[Reject] = []
    waiting: dict[str, list[tuple[Origin, dict[str, Any]]]] = defaultdict(list)
    n_read = 0
    for file in files:
        reader = FileReader(file)
        for value in reader:
            for document in value.value if isinstance(value.value, list) else [value.value]:
                n_read += 1
                origin = Origin(path=file.origin_path, line=value.line)
                if schema.is_valid("prediction", document):
                    waiting[document["trajectory_id"]].append((origin, document))
                else:
                    pointer, message = schema.explain("prediction", document) or ("$", "")
                    rejects.append(_reject(origin, document, "schema_violation", message, pointer))
        n_read += len(reader.rejects)
        rejects.extend(reader.rejects)
    parts = source.parts()
    known: set[str] = set()
    with Progress("check", len(parts), "parts", quiet=quiet) as progress:
        for part in parts:
            ids = set(source.read("trajectories", part)["trajectory_id"]) & waiting.keys()
            known |= ids
            for id_ in sorted(ids):
                rejects.extend(_unanswerable(source, part, id_, waiting[id_]))
        for part in iterate_parts(source, writer):
            rows = list(_verdicts(source, part, waiting, least))
            writer.write("verdicts", part, pa.Table.from_pylist(rows, schema=TABLES["verdicts"]))
            counts = {"kept": len(rows), "passed": sum(row["passed"] for row in rows)}
            for row in rows:
                if not row["passed"]:
                    key = f"failed.{row['reason']}"
                    counts[key] = counts.get(key, 0) + 1
            writer.mark(part, counts)
            progress.advance()
    for id_ in sorted(waiting.keys() - known):
        for origin, document in waiting[id_]:
            message = f"no episode {id_} in {source.path.name}"
            rejects.append(_reject(origin, document, "unknown_trajectory", message, None))
    write_table(writer.path / "rejects.parquet", rejects_table(rejects))
    report.read = n_read
    report.kept = report.written = writer.counts["kept"]
    for reject in rejects:
        report.dropped[reject.reason] = report.dropped.get(reject.reason, 0) + 1
    report.extra["passed"] = writer.counts["passed"]
    report.extra["failed"] = under(writer.counts, "failed")
    return report.finish(writer)


def _reject(
    origin: Origin, document: Any, reason: str, message: str, pointer: str | None
) -> Reject:
    text = to_json_text(document)
    return Reject(
        origin=origin,
        reason=reason,
        message=message,
        pointer=pointer,
        record=text[:64_000],
        n_record_chars=len(text),
    )


def _unanswerable(
    source: Store, part: str, id_: str, given: list[tuple[Origin, dict[str, Any]]]
) -> Iterator[Reject]:
    """Give, and take out of the list, the predictions of steps that cannot be judged."""
    import polars as pl

    steps = source.read("steps", part).filter(pl.col("trajectory_id") == id_)
    answers = dict(steps.select("step_index", "observation").iter_rows())
    for origin, document in list(given):
        index = document["step_index"]
        if index not in answers:
            message = f"the episode has {len(answers)} steps, none with index {index}"
            reason = "unknown_step"
        elif answers[index] is None:
            message, reason = "no observation was recorded for the step", "no_recorded_observation"
        else:
            continue
        given.remove((origin, document))
        yield _reject(origin, document, reason, message, "$.step_index")


def _verdicts(
    source: Store,
    part: str,
    waiting: Mapping[str, list[tuple[Origin, dict[str, Any]]]],
    least: Thresholds,
) -> Iterator[dict[str, Any]]:
    steps = source.read("steps", part).partition_by(
        "trajectory_id", as_dict=True, maintain_order=True
    )
    for episode in source.read("trajectories", part).iter_rows(named=True):
        id_ = episode["trajectory_id"]
        given = sorted((document for _, document in waiting.get(id_, [])), key=_order)
        if not given:
            continue
        own = steps[(id_,)].to_dicts()
        for document in given:
            given_case = case(episode, own, document["step_index"], document["prediction"])
            verdict = judge(given_case, least)
            yield verdict_row(id_, document["step_index"], episode["domain"], verdict)


def _order(document: Mapping[str, Any]) -> tuple[int, str]:
    return document["step_index"], document["prediction"]


def case(
    episode: Mapping[str, Any],
    steps: Sequence[Mapping[str, Any]],
    step_index: int,
    prediction: str,
) -> Case:
    """Return what the gate needs to judge one prediction.

    History is the steps of earlier turns: parallel calls of one turn may be answered in any order.
    Raw terminal output stands as a screen shows it, in the log and in the prediction.
    """
    step = steps[step_index]
    shown = domains.load(episode["domain"]).shown

    def seen(text: str | None) -> str | None:
        return None if text is None else shown(text)

    past = [earlier for earlier in steps[:step_index] if earlier["turn"] < step["turn"]]
    return Case(
        domain=episode["domain"],
        action=_turn(step, None),
        history=tuple(_turn(earlier, seen(earlier["observation"])) for earlier in past),
        initial_state=seen(episode["initial_state"]),
        task=episode["task"],
        recorded=shown(step["observation"]),
        prediction=shown(prediction),
        error=step["error"],
        exit_code=step["exit_code"],
        answer=_answer(episode, steps[-1] if step_index + 1 < len(steps) else None),
    )


def _answer(episode: Mapping[str, Any], last: Mapping[str, Any] | None) -> str | None:
    """Return the reference answer of the simulation instruction, or the message that ends a run."""
    named = _REFERENCE.search(episode.get("simulation_instruction") or "")
    if named is not None:
        return named.group(1)
    return last["action"] if last is not None and last["action_kind"] == "message" else None


def _turn(step: Mapping[str, Any], observation: str | None) -> Turn:
    return Turn(
        action=step["action"],
        action_kind=step["action_kind"],
        action_name=step["action_name"],
        observation=observation,
    )


def verdict_row(
    trajectory_id: str, step_index: int, domain: str, verdict: Verdict
) -> dict[str, Any]:
    """Return a row of the table `verdicts`."""
    row: dict[str, Any] = {
        "trajectory_id": trajectory_id,
        "step_index": step_index,
        "domain": domain,
        "passed": verdict.passed,
        "reason": verdict.reason,
    }
    row |= {axis: getattr(verdict, axis) for axis in AXES}
    findings = [
        {name: getattr(finding, name) for name in finding.__dataclass_fields__}
        for finding in verdict.findings
    ]
    return row | {"findings": to_json_text(findings)}
