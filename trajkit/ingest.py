"""Read raw logs of any known format into a new store, and account for every piece of them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, cast

from trajkit import adapters, domains, schema
from trajkit.adapters import Adapter
from trajkit.errors import TrajkitError, alternatives, quote
from trajkit.model import (
    DOMAINS,
    Domain,
    Origin,
    Record,
    Reject,
    Trajectory,
    content_hash,
    step_row,
    to_json_text,
    trajectory_id,
)
from trajkit.progress import Progress
from trajkit.readers import MAX_RECORD_CHARS, FileReader, InputFile, Value, list_inputs
from trajkit.report import Report, under
from trajkit.store import StoreWriter, open_writer
from trajkit.tables import EpisodeSink, file_sha256

SHARD_BYTES = 32 << 20
SHARD_FILES = 2_000
_HEAD_VALUES = 50
_MALFORMED = (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError)


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
    files: tuple[InputFile, ...]


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
        _run(_cut(files), writer, options, workers, quiet)
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


def _cut(files: list[InputFile]) -> list[Shard]:
    """Return shards of bounded size; depends on nothing but names and sizes of the files."""
    shards: list[list[InputFile]] = []
    size = 0
    for file in files:
        if not shards or size + file.size_bytes > SHARD_BYTES or len(shards[-1]) >= SHARD_FILES:
            shards.append([])
            size = 0
        shards[-1].append(file)
        size += file.size_bytes
    return [Shard(number, tuple(group)) for number, group in enumerate(shards)]


def _run(
    shards: list[Shard], writer: StoreWriter, options: Options, workers: int, quiet: bool
) -> None:
    waiting = [shard for shard in shards if not writer.done(_part(shard.number))]
    n_files = sum(len(shard.files) for shard in shards)
    with Progress("ingest", n_files, "files", quiet=quiet) as progress:
        progress.advance(n_files - sum(len(shard.files) for shard in waiting))
        if workers <= 1 or len(waiting) <= 1:
            for shard in waiting:
                writer.mark(_part(shard.number), _read_shard(shard, writer, options))
                progress.advance(len(shard.files))
            return
        pool = ProcessPoolExecutor(min(workers, len(waiting)), mp_context=get_context("spawn"))
        with pool:
            futures: dict[Future[Counter[str]], Shard] = {
                pool.submit(_read_shard, shard, replace_counts(writer), options): shard
                for shard in waiting
            }
            try:
                for future, shard in futures.items():
                    writer.mark(_part(shard.number), future.result())
                    progress.advance(len(shard.files))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def replace_counts(writer: StoreWriter) -> StoreWriter:
    """Return the writer without its counts, to send to a worker."""
    return replace(writer, counts=Counter())


def _part(number: int) -> str:
    return f"part-{number:05d}"


def _read_shard(shard: Shard, writer: StoreWriter, options: Options) -> Counter[str]:
    """Return the counts of one shard after writing its part of the store."""
    counts: Counter[str] = Counter()
    name = _part(shard.number)
    with writer.reject_sink(name) as rejects, EpisodeSink(writer.path, name) as part:
        for file in shard.files:
            reader = FileReader(file)
            n_before = counts["kept"] + rejects.n_written
            for found in _episodes(reader, options):
                rejects.extend(reader.take_rejects())
                if isinstance(found, Reject):
                    rejects.add(found)
                    continue
                document, fault = _document(found, options)
                if fault is not None:
                    rejects.add(fault)
                    continue
                part.add(document)
                counts["kept"] += 1
                counts["steps"] += document["n_steps"]
                counts[f"adapter.{document['adapter']}"] += 1
                counts[f"domain.{document['domain']}"] += 1
            rejects.extend(reader.take_rejects())
            if counts["kept"] + rejects.n_written == n_before:
                rejects.add(_nothing_found(file))
            counts.update({f"repair.{kind}": n for kind, n in reader.repairs.items()})
    counts.update({f"dropped.{reason}": n for reason, n in rejects.reasons.items()})
    return counts


def _nothing_found(file: InputFile) -> Reject:
    return Reject(
        origin=Origin(path=file.origin_path),
        reason="no_episode",
        message="the file was read to its end and held no episode",
    )


def _episodes(reader: FileReader, options: Options) -> Iterator[Trajectory | Reject]:
    """Give everything a file holds: episodes, and records that are none with their reason."""
    known = (
        adapters.all_adapters() if options.format == "auto" else (adapters.load(options.format),)
    )
    values = iter(reader)
    head = list(itertools.islice(values, _HEAD_VALUES))
    if not head:
        return
    path = reader.file.origin_path
    if reader.is_document:
        document = head[0].value
        owners = adapters.claims(document, known)
        if owners or not isinstance(document, list):
            yield from _extract(owners, Record(value=document, origin=Origin(path=path)))
            return
        elements = [Value(element, None) for element in document]
        if not elements:
            return
        head, values = elements[:_HEAD_VALUES], iter(elements[_HEAD_VALUES:])
    sessions = [a for a in known if a.unit == "session" and any(a.detect(v.value) for v in head)]
    if sessions:
        found = [*head, *values]
        yield from _extract(
            sessions,
            Record(
                value=[v.value for v in found],
                origin=Origin(path=path),
                lines=tuple(v.line for v in found if v.line is not None),
            ),
        )
        return
    rows = tuple(a for a in known if a.unit != "session")
    for owners, record in _records(itertools.chain(head, values), rows, path):
        yield from _extract(owners, record)


def _records(
    values: Iterable[Value], known: tuple[Adapter, ...], path: str
) -> Iterator[tuple[list[Adapter], Record]]:
    """Give records with their owners; rows that belong together are gathered first."""
    group: list[Value] = []
    running: tuple[Adapter, str] | None = None
    place = Origin(path=path)
    for number, value in enumerate(values):
        owners = adapters.claims(value.value, known)
        key = owners[0].row_key(value.value) if len(owners) == 1 and owners[0].row_key else None
        joins = None if key is None else (owners[0], key)
        if running is not None and joins != running:
            yield [running[0]], Record(value=[v.value for v in group], origin=place)
        if joins is None:
            element = None if value.line is not None else f"[{number}]"
            origin = Origin(path=path, line=value.line, key=element)
            yield owners, Record(value=value.value, origin=origin)
        elif joins != running:
            group = []
            place = Origin(path=path, line=value.line, key=key)
        if joins is not None:
            group.append(value)
        running = joins
    if running is not None:
        yield [running[0]], Record(value=[v.value for v in group], origin=place)


def _extract(owners: list[Adapter], record: Record) -> Iterator[Trajectory | Reject]:
    reject = partial(_reject_record, record)
    if not owners:
        known = "`trajkit formats` lists what can be read"
        yield reject("unknown_format", f"no adapter knows {_describe(record.value)}; {known}")
        return
    if len(owners) > 1:
        names = alternatives(owner.name for owner in owners)
        yield reject("ambiguous_format", f"claimed by {names}; pass --format with one of them")
        return
    n_found = 0
    try:
        for found in owners[0].extract(record):
            n_found += 1
            if isinstance(found, Trajectory) and not found.steps:
                message = "the episode holds no action"
                yield replace_origin(reject("no_steps", message), found.origin)
            else:
                yield found
    except _MALFORMED as error:
        # An adapter walks the record as its format says; these come from values of other types.
        message = f"{owners[0].name} cannot read it: {type(error).__name__}: {quote(str(error))}"
        yield reject("malformed_record", message)
        return
    if n_found == 0:
        yield reject("no_episode", f"{owners[0].name} found no episode in it")


def replace_origin(reject: Reject, origin: Origin) -> Reject:
    """Return the reject at another place."""
    return replace(reject, origin=origin)


def _describe(value: Any) -> str:
    if isinstance(value, dict):
        return f"an object with the keys {quote(sorted(value, key=str)[:8])}"
    return f"a value of type {type(value).__name__}"


def _reject_record(record: Record, reason: str, message: str) -> Reject:
    try:
        text = to_json_text(record.value)
    except TypeError:
        # orjson reads deeper nesting than it writes; such a value is named, not quoted.
        return Reject(origin=record.origin, reason=reason, message=f"{message} (nested too deeply)")
    return Reject(
        origin=record.origin,
        reason=reason,
        message=message,
        record=text[:MAX_RECORD_CHARS],
        n_record_chars=len(text),
    )


def _document(found: Trajectory, options: Options) -> tuple[dict[str, Any], Reject | None]:
    """Return the trajectory as one flat document with ids, or the reason it does not fit."""
    domain = cast(Domain | None, options.domain) or found.domain or domains.guess(found)
    found = replace(found, domain=domain)
    content = content_hash(found)
    origin = found.origin
    parent = None
    if found.parent_key is not None:
        parent = to_json_text([origin.path, origin.line, found.parent_key])
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
        "parent_id": parent,
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
