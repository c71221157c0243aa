"""From files to trajectories: whose format a record has, and what became of each of its events."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from trajkit import adapters
from trajkit.adapters import Adapter
from trajkit.errors import alternatives, quote
from trajkit.inputs import InputFile
from trajkit.ledger import Ledger
from trajkit.model import Bundle, Origin, Record, Reject, Trajectory, to_json_text
from trajkit.readers import MAX_RECORD_CHARS, FileReader, Value

_HEAD_VALUES = 50
_MALFORMED = (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class Unit:
    """Files that are read together, and the bundles that adapters see in their names."""

    files: tuple[InputFile, ...]
    bundles: tuple[tuple[str, str], ...] = ()
    """Pairs of an adapter and a bundle name, for bundles of more than one file."""

    @property
    def size_bytes(self) -> int:
        """Return the size of all files."""
        return sum(file.size_bytes for file in self.files)


@dataclass(slots=True)
class Found:
    """One outcome, with the number of the record it came from: records hold families."""

    record: int
    outcome: Trajectory | Reject


@dataclass
class Account:
    """What reading files cost and where each event went."""

    repairs: Counter[str] = field(default_factory=Counter)
    """Mended pieces of text by kind."""
    loss: defaultdict[tuple[str, str], Counter[str]] = field(
        default_factory=lambda: defaultdict(Counter)
    )
    """Counts by place and adapter: `records`, `episodes`, each fate, `left_out.<reason>`."""
    n_records: int = 0
    """Records so far."""
    shapes: dict[Any, tuple[Adapter, int]] = field(default_factory=dict)
    """Who took values of one shape (their keys) so far, and how many in a row."""

    def owners(self, value: Any, candidates: tuple[Adapter, ...]) -> list[Adapter]:
        """Return whose a value is.

        All are asked until 50 values of one shape were the same adapter's; from then on it is
        asked first, and the others only when it declines: seventy detections cost more than a row.
        """
        shape = _shape(value)
        owner, n_times = self.shapes.get(shape, (None, 0))
        if owner is not None and n_times >= _HEAD_VALUES:
            if owner in candidates and owner.detect(value):
                return [owner]
            n_times = 0
        owners = adapters.claims(value, candidates)
        if len(owners) == 1:
            self.shapes[shape] = owners[0], n_times + 1 if owners[0] is owner else 1
        return owners

    def note(self, path: str, adapter: str, ledger: Ledger, outcomes: Counter[str]) -> None:
        """Book one record; the events of a record that became no episode share its reason."""
        counts = self.loss[path, adapter]
        counts["records"] += 1
        counts["episodes"] += outcomes["episode"]
        fates, reasons = ledger.fates(), ledger.reasons()
        if outcomes["episode"]:
            counts.update(fates)
            counts.update({f"left_out.{reason}": n for reason, n in reasons.items()})
        else:
            reason = next((name for name in outcomes if name != "episode"), "no_episode")
            counts[f"left_out.{reason}"] += fates.total() + reasons.total() or 1


def _shape(value: Any) -> Any:
    first = value[0] if isinstance(value, list) and value else value
    return type(value), tuple(first) if isinstance(first, dict) else type(first)


def known(format_name: str) -> tuple[Adapter, ...]:
    """Return the adapters that may be used: all, or the one that was asked for."""
    return adapters.all_adapters() if format_name == "auto" else (adapters.load(format_name),)


def units(files: list[InputFile], candidates: tuple[Adapter, ...]) -> list[Unit]:
    """Return the files in groups that some adapter's bundle holds together, in fixed order."""
    members: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for number, file in enumerate(files):
        for adapter in candidates:
            name = adapter.bundle(file.origin_path) if adapter.bundle is not None else None
            if name is not None:
                members[adapter.name, name].append(number)
    bundles = {key: numbers for key, numbers in members.items() if len(numbers) > 1}
    leader = list(range(len(files)))

    def find(number: int) -> int:
        while leader[number] != number:
            leader[number] = leader[leader[number]]
            number = leader[number]
        return number

    for numbers in bundles.values():
        for number in numbers[1:]:
            one, other = sorted((find(numbers[0]), find(number)))
            leader[other] = one
    grouped: defaultdict[int, list[InputFile]] = defaultdict(list)
    for number, file in enumerate(files):
        grouped[find(number)].append(file)
    names: defaultdict[int, list[tuple[str, str]]] = defaultdict(list)
    for key, numbers in bundles.items():
        names[find(numbers[0])].append(key)
    return [Unit(tuple(group), tuple(names[first])) for first, group in sorted(grouped.items())]


def read_unit(unit: Unit, candidates: tuple[Adapter, ...], account: Account) -> Iterator[Found]:
    """Give everything that files hold: episodes, and records that are none with their reason."""
    left = {file.origin_path: file for file in unit.files}
    for adapter_name, name in unit.bundles:
        adapter = adapters.load(adapter_name)
        assert adapter.bundle is not None
        files = [file for path, file in left.items() if adapter.bundle(path) == name]
        contents = _Contents(name, files)
        if len(files) < 2 or not adapter.detect(Bundle(contents)):
            continue
        record = Record(value=Bundle(contents), origin=Origin(path=name))
        yield from _numbered(account, _extract([adapter], record, account))
        for reject in contents.rejects():
            yield from _numbered(account, iter([reject]))
        account.repairs.update(contents.repairs())
        for file in files:
            del left[file.origin_path]
    for file in left.values():
        yield from _file(file, candidates, account)


def _numbered(account: Account, outcomes: Iterator[Trajectory | Reject]) -> Iterator[Found]:
    account.n_records += 1
    for outcome in outcomes:
        yield Found(account.n_records, outcome)


class _Contents(Mapping[str, Any]):
    """The files of a bundle, decoded when asked for, and what was found wrong with them."""

    def __init__(self, name: str, files: list[InputFile]) -> None:
        prefix = f"{name}/"
        self._files = {file.origin_path.removeprefix(prefix): file for file in files}
        self._readers: dict[str, FileReader] = {}
        self._values: dict[str, Any] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            reader = FileReader(self._files[name])
            self._values[name] = reader.content()
            self._readers[name] = reader
        return self._values[name]

    def rejects(self) -> list[Reject]:
        """Return what could not be decoded, and the files that nobody looked at."""
        found = [reject for reader in self._readers.values() for reject in reader.rejects]
        for name, file in self._files.items():
            if name not in self._readers:
                message = "belongs to a bundle whose adapter has no use for it"
                origin = Origin(path=file.origin_path)
                found.append(Reject(origin=origin, reason="unused_file", message=message))
        return found

    def repairs(self) -> Counter[str]:
        """Return what was mended."""
        return sum((reader.repairs for reader in self._readers.values()), Counter())


def _file(file: InputFile, candidates: tuple[Adapter, ...], account: Account) -> Iterator[Found]:
    reader = FileReader(file)
    n_before = account.n_records
    for found in _records_of(reader, candidates, account):
        yield from _numbered(account, iter(reader.take_rejects()))
        yield found
    rejects = reader.take_rejects()
    if not rejects and account.n_records == n_before:
        message = "the file was read to its end and held no episode"
        rejects = [
            Reject(origin=Origin(path=file.origin_path), reason="no_episode", message=message)
        ]
    yield from _numbered(account, iter(rejects))
    account.repairs.update(reader.repairs)


def _records_of(
    reader: FileReader, candidates: tuple[Adapter, ...], account: Account
) -> Iterator[Found]:
    values = iter(reader)
    head = list(itertools.islice(values, _HEAD_VALUES))
    if not head:
        return
    path = reader.file.origin_path
    whole: Any = None
    if reader.kind in ("document", "text", "archive"):
        whole = head[0].value
    elif reader.kind == "elements":
        whole = [value.value for value in head]
    owners = account.owners(whole, candidates) if whole is not None else []
    if owners and reader.kind == "elements":
        # One episode that is a huge list: there is no way but to hold it.
        whole = [value.value for value in itertools.chain(head, values)]
    if owners or (whole is not None and not isinstance(whole, list)):
        record = Record(value=whole, origin=Origin(path=path))
        yield from _numbered(account, _extract(owners, record, account))
        return
    if reader.kind == "document" and isinstance(whole, list):
        listed = [Value(element, None) for element in whole]
        head, values = listed[:_HEAD_VALUES], iter(listed[_HEAD_VALUES:])
    sessions = _session_owners([value.value for value in head], candidates)
    if sessions:
        found = [*head, *values]
        record = Record(
            value=[v.value for v in found],
            origin=Origin(path=path),
            lines=tuple(v.line for v in found if v.line is not None),
        )
        yield from _numbered(account, _extract(sessions, record, account))
        return
    rows = tuple(a for a in candidates if a.unit != "session")
    for owners, record in _rows(itertools.chain(head, values), rows, path, account):
        yield from _numbered(account, _extract(owners, record, account))


def _session_owners(head: list[Any], candidates: tuple[Adapter, ...]) -> list[Adapter]:
    """Return whose session a file is: told by the first value that a session adapter knows.

    A generic adapter stands back when a later value is known better.
    """
    sessions = tuple(adapter for adapter in candidates if adapter.unit == "session")
    better = tuple(adapter for adapter in sessions if not adapter.generic)
    found: list[Adapter] = []
    for value in head:
        owners = adapters.claims(value, better if found else sessions)
        if owners and not all(owner.generic for owner in owners):
            return owners
        found = found or owners
    return found


def _rows(
    values: Iterator[Value], candidates: tuple[Adapter, ...], path: str, account: Account
) -> Iterator[tuple[list[Adapter], Record]]:
    """Give records with their owners; rows that belong together are gathered first."""
    group: list[Value] = []
    running: tuple[Adapter, str] | None = None
    place = Origin(path=path)
    for number, value in enumerate(values):
        owners = account.owners(value.value, candidates)
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


def _extract(
    owners: list[Adapter], record: Record, account: Account
) -> Iterator[Trajectory | Reject]:
    """Give what one record holds, and book its events."""
    outcomes: Counter[str] = Counter()
    for outcome in extract(owners, record):
        outcomes["episode" if isinstance(outcome, Trajectory) else outcome.reason] += 1
        yield outcome
    owner = owners[0].name if len(owners) == 1 else "none"
    account.note(record.origin.path, owner, record.ledger, outcomes)


def extract(owners: list[Adapter], record: Record) -> Iterator[Trajectory | Reject]:
    """Give the episodes of one record that some adapters claim; a fault of any kind is a reject."""
    reject = partial(reject_record, record)
    if not owners:
        if isinstance(record.value, str):
            reason, what = "not_json", f"it begins with {quote(record.value[:40])}"
        elif isinstance(record.value, Bundle):
            reason, what = "unsupported_container", "its archive holds no log that is known"
        else:
            reason, what = "unknown_format", f"no adapter knows {_describe(record.value)}"
        yield reject(reason, f"{what}; `trajkit formats` lists what can be read")
        return
    if len(owners) > 1:
        names = alternatives(owner.name for owner in owners)
        yield reject("ambiguous_format", f"claimed by {names}; pass --format with one of them")
        return
    if owners[0].unit != "value" and isinstance(record.value, list):
        record.ledger.expect(range(len(record.value)))
    n_found = 0
    try:
        for found in owners[0].extract(record):
            n_found += 1
            if isinstance(found, Trajectory) and not found.steps:
                message = "the episode holds no action"
                yield replace(reject("no_steps", message), origin=found.origin)
            else:
                yield found
    except _MALFORMED as error:
        # An adapter walks the record as its format says; these come from values of other types.
        message = f"{owners[0].name} cannot read it: {type(error).__name__}: {quote(str(error))}"
        yield reject("malformed_record", message)
        return
    if n_found == 0:
        yield reject("no_episode", f"{owners[0].name} found no episode in it")


def _describe(value: Any) -> str:
    if isinstance(value, dict):
        return f"an object with the keys {quote(sorted(value, key=str)[:8])}"
    return f"a value of type {type(value).__name__}"


def reject_record(record: Record, reason: str, message: str) -> Reject:
    """Return a reject that quotes its whole record."""
    if isinstance(record.value, Bundle):
        return Reject(origin=record.origin, reason=reason, message=message)
    try:
        text = record.value if isinstance(record.value, str) else to_json_text(record.value)
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
