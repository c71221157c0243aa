"""Read raw logs of any known format into a new store, and account for every piece of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from trajkit import adapters, domains, lineage, schema
from trajkit.errors import TrajkitError, alternatives, quote
from trajkit.extraction import Account, Unit, known, read_unit, units
from trajkit.inputs import list_inputs
from trajkit.ledger import FATES
from trajkit.marks import marked
from trajkit.model import (
    DOMAINS,
    Domain,
    Reject,
    Trajectory,
    content_hash,
    step_row,
    to_json_text,
    trajectory_id,
)
from trajkit.parallel import Workers, rare_collections
from trajkit.progress import Progress
from trajkit.report import Report, under
from trajkit.store import StoreWriter, open_writer
from trajkit.tables import TABLES, EpisodeSink, file_sha256, rows_table

SHARD_BYTES = 32 << 20
SHARD_FILES = 2_000


@dataclass(frozen=True, slots=True)
class Options:
    """What a person may decide about reading; part of the store's manifest."""

    format: str = "auto"
    domain: str | None = None
    source: str | None = None
    license: str | None = None


@dataclass(frozen=True, slots=True)
class Shard:
    """Neighbouring files that one worker turns into one part."""

    number: int
    units: tuple[Unit, ...]

    @property
    def n_files(self) -> int:
        """Return the number of files."""
        return sum(len(unit.files) for unit in self.units)


def ingest(
    paths: tuple[str, ...],
    out: str | Path,
    *,
    options: Options | None = None,
    workers: int = 1,
    overwrite: bool = False,
    quiet: bool = False,
) -> Report:
    """Return the report of reading files and folders into a new store.

    `read` counts records: one episode found, or one piece that could not be read as one. The
    output does not depend on the order of paths or on the number of workers. Streams: a worker
    holds one record (for session formats: one file) and one row group.

    Raises TrajkitError for unknown formats and domains, missing paths and a complete `out`.
    """
    options = options or Options()
    if options.format != "auto":
        adapters.load(options.format)
    if options.domain is not None and options.domain not in DOMAINS:
        raise TrajkitError(
            "--domain", f"no domain {quote(options.domain)}", f"one of {alternatives(DOMAINS)}"
        )
    report = Report("ingest", out)
    files = list_inputs(paths)
    try:
        inputs = [{"name": file.origin_path, "sha256": file_sha256(file.path)} for file in files]
        writer = open_writer(
            out,
            kind="store",
            stage="ingest",
            options=_as_dict(options),
            inputs=inputs,
            overwrite=overwrite,
        )
        groups = units(files, known(options.format))
        _run(_cut(groups), writer, options, workers, quiet)
        _link(writer)
    finally:
        for file in files:
            if file.is_temporary:
                file.path.unlink()
    counts = writer.counts
    report.kept = report.written = counts["kept"]
    report.dropped = under(counts, "dropped")
    report.read = report.kept + sum(report.dropped.values())
    report.extra["files"] = len(files)
    report.extra["steps"] = counts["steps"]
    report.extra["by_adapter"] = under(counts, "adapter")
    report.extra["by_domain"] = under(counts, "domain")
    report.extra["repairs"] = under(counts, "repair")
    if n_ambiguous := report.dropped.get("ambiguous_format"):
        report.warnings.append(
            f"{n_ambiguous} records are claimed by two adapters each; pass --format with one"
        )
    if report.kept == 0:
        report.warnings.append("no episode was found; see rejects.parquet for the reasons")
    return report.finish(writer)


def _as_dict(options: Options) -> dict[str, Any]:
    return {name: getattr(options, name) for name in ("format", "domain", "source", "license")}


def _link(writer: StoreWriter) -> None:
    """Tie together what lies in different files: parents, and copies of a history."""
    for key, n in lineage.link(writer).items():
        writer.counts[key] += n


def _cut(groups: list[Unit]) -> list[Shard]:
    """Return shards of bounded size; depends on nothing but names and sizes of the files."""
    shards: list[list[Unit]] = []
    size = n_files = 0
    for unit in groups:
        full = size + unit.size_bytes > SHARD_BYTES or n_files >= SHARD_FILES
        if not shards or full:
            shards.append([])
            size = n_files = 0
        shards[-1].append(unit)
        size += unit.size_bytes
        n_files += len(unit.files)
    return [Shard(number, tuple(group)) for number, group in enumerate(shards)]


def _run(
    shards: list[Shard], writer: StoreWriter, options: Options, workers: int, quiet: bool
) -> None:
    waiting = [shard for shard in shards if not writer.done(_part(shard.number))]
    n_files = sum(shard.n_files for shard in shards)
    with Progress("ingest", n_files, "files", quiet=quiet) as progress:
        progress.advance(n_files - sum(shard.n_files for shard in waiting))
        # A worker counts for itself; the sum is kept here.
        sender = replace(writer, counts=Counter())
        calls = [(shard, sender, options) for shard in waiting]
        with Workers(min(workers, len(waiting))) as pool:
            for shard, counts in zip(waiting, pool.each(_read_shard, calls), strict=True):
                writer.mark(_part(shard.number), counts)
                progress.advance(shard.n_files)


def _part(number: int) -> str:
    return f"part-{number:05d}"


@rare_collections()
def _read_shard(shard: Shard, writer: StoreWriter, options: Options) -> Counter[str]:
    """Return the counts of one shard after writing its part of the store."""
    counts: Counter[str] = Counter()
    name = _part(shard.number)
    candidates = known(options.format)
    account = Account()
    ties = lineage.Ties(name)
    family: dict[str | None, str] = {}
    record = -1
    finish = partial(marked, repairs=account.repairs)
    with writer.reject_sink(name) as rejects, EpisodeSink(writer.path, name, finish) as part:
        for unit in shard.units:
            for found in read_unit(unit, candidates, account):
                if found.record != record:
                    record = found.record
                    family.clear()
                outcome = found.outcome
                if isinstance(outcome, Reject):
                    rejects.add(outcome)
                    continue
                document, fault = document_of(outcome, options)
                if fault is not None:
                    rejects.add(fault)
                    continue
                identity = document["trajectory_id"]
                family.setdefault(outcome.origin.key, identity)
                document["parent_id"] = (
                    family.get(outcome.parent_key) if outcome.parent_key else None
                )
                ties.add(outcome, identity, has_parent=document["parent_id"] is not None)
                part.add(document)
                counts["kept"] += 1
                counts["steps"] += document["n_steps"]
                counts[f"adapter.{document['adapter']}"] += 1
                counts[f"domain.{document['domain']}"] += 1
    ties.write(writer)
    writer.write("loss", name, loss_table(account))
    counts.update({f"repair.{kind}": n for kind, n in account.repairs.items()})
    counts.update({f"dropped.{reason}": n for reason, n in rejects.reasons.items()})
    return counts


def loss_table(account: Account) -> pa.Table:
    """Return where the events of each file went, one row for each file and adapter."""
    rows = []
    for (path, adapter), counts in sorted(account.loss.items()):
        left_out = under(counts, "left_out")
        row = {name: counts[name] for name in ("records", "episodes", *FATES)}
        n_left_out = sum(left_out.values())
        rows.append(
            {
                "origin_path": path,
                "adapter": adapter,
                "events": sum(counts[fate] for fate in FATES) + n_left_out,
                **row,
                "n_left_out": n_left_out,
                "left_out": to_json_text(dict(sorted(left_out.items()))),
            }
        )
    return rows_table(rows, TABLES["loss"])


def document_of(found: Trajectory, options: Options) -> tuple[dict[str, Any], Reject | None]:
    """Return the trajectory as one flat document with ids, or the reason it does not fit."""
    domain = cast(Domain | None, options.domain) or found.domain or domains.guess(found)
    found = replace(found, domain=domain)
    content = content_hash(found)
    origin = found.origin
    document = {
        "trajectory_id": trajectory_id(content, origin),
        "content_hash": content,
        "domain": domain,
        "source": options.source or origin.path.split("/")[0],
        "adapter": found.adapter,
        "format_version": found.format_version,
        "origin_path": origin.path,
        "origin_line": origin.line,
        "origin_key": origin.key,
        "agent": found.agent,
        "model": found.model,
        "task": found.task,
        "agent_system_prompt": found.agent_system_prompt,
        "action_space": found.action_space,
        "initial_state": found.initial_state,
        "simulation_instruction": found.simulation_instruction,
        "outcome_status": found.outcome_status,
        "reward": found.reward,
        "exit_status": found.exit_status,
        "license": options.license,
        "parent_id": None,
        "started_at": found.started_at,
        "meta": found.meta,
        "n_steps": len(found.steps),
        "steps": [{"step_index": index} | step_row(step) for index, step in enumerate(found.steps)],
    }
    if domain is None:
        reason, message = "unknown_domain", "its domain cannot be told; pass --domain"
        return document, Reject(origin=origin, reason=reason, message=message)
    if not schema.is_valid("trajectory", document):
        fault = schema.explain("trajectory", document)
        pointer, message = fault or ("$", "does not fit the schema")
        return document, Reject(
            origin=origin, reason="schema_violation", pointer=pointer, message=message
        )
    return document, None
