"""Every adapter against its golden folder, and the laws that hold for all of them."""

from __future__ import annotations

import copy
import json
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from golden.update import (
    FOLDER,
    account_of,
    as_value,
    case_name,
    expected_file,
    raw_files,
    read_case,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from trajkit import adapters, ingest, schema
from trajkit.adapters import Adapter
from trajkit.adapters.messages import Message, fold, make_call
from trajkit.errors import TrajkitError
from trajkit.extraction import extract
from trajkit.inputs import InputFile, list_inputs
from trajkit.model import Bundle, Origin, Record, Reject, Trajectory, to_json_text
from trajkit.readers import FileReader

RAW_FILES = raw_files()
CASES = {str(raw.relative_to(FOLDER)): raw for raw in RAW_FILES}


@pytest.fixture(params=RAW_FILES, ids=list(CASES))
def raw(request: pytest.FixtureRequest) -> Path:
    """The raw file of one case."""
    path: Path = request.param
    return path


def test_each_adapter_has_at_least_two_cases() -> None:
    folders = [raw.parent.name for raw in RAW_FILES]
    assert {name: folders.count(name) >= 2 for name in adapters.TABLE} == dict.fromkeys(
        adapters.TABLE, True
    )


def test_a_case_gives_what_its_expected_file_says(raw: Path) -> None:
    expected = json.loads(expected_file(raw).read_text(encoding="utf-8"))
    assert [as_value(found) for found in read_case(raw)] == expected


def test_a_case_keeps_at_least_as_much_as_its_folder_promises(raw: Path) -> None:
    promised = tomllib.loads((raw.parent / "cases.toml").read_text())[case_name(raw)]
    found = read_case(raw)
    kept = [one for one in found if isinstance(one, Trajectory)]
    assert len(kept) == promised["trajectories"]
    assert sum(len(one.steps) for one in kept) >= promised["steps"]
    assert len(found) - len(kept) == promised["rejects"]


def test_no_promise_is_without_its_case() -> None:
    for folder in sorted(FOLDER.glob("*/cases.toml")):
        cases = {case_name(raw) for raw in RAW_FILES if raw.parent == folder.parent}
        assert set(tomllib.loads(folder.read_text())) == cases


def test_one_adapter_and_no_other_takes_a_case(raw: Path) -> None:
    name = raw.parent.name
    values = _values(raw)
    claimed = [
        {adapter.name for adapter in adapters.claims(value, adapters.all_adapters())}
        for value in [*values, values]
    ]
    assert name in set().union(*claimed)
    assert set().union(*claimed) == {name} or adapters.load(name).unit == "session"
    assert {one.adapter for one in read_case(raw) if isinstance(one, Trajectory)} <= {name}


def test_every_event_of_a_case_has_a_fate(raw: Path) -> None:
    _, account = account_of(raw)
    total: Counter[str] = sum(account.loss.values(), Counter())
    n_events = total.total() - total["records"] - total["episodes"]
    assert n_events > 0
    assert total["left_out.other"] <= n_events // 100


def test_a_kept_episode_fits_the_schema(raw: Path) -> None:
    kept = [one for one in read_case(raw) if isinstance(one, Trajectory)]
    for found in kept:
        document, fault = ingest.document_of(found, ingest.Options(domain="mcp"))
        assert fault is None
        assert schema.is_valid("trajectory", document)


def test_keys_of_the_episodes_of_a_file_differ_and_parents_come_first(raw: Path) -> None:
    seen: set[Any] = set()
    for found in read_case(raw):
        if isinstance(found, Trajectory):
            place = (found.origin.line, found.origin.key)
            assert place not in seen
            assert found.parent_key is None or (found.origin.line, found.parent_key) in seen
            seen.add(place)


def test_a_sub_agent_points_to_its_parent() -> None:
    parents = {
        one.origin.key: one.parent_key
        for case in ("claude-code/branches.raw.jsonl", "atif/parallel_calls.raw.json")
        for one in read_case(CASES[case])
        if isinstance(one, Trajectory) and one.parent_key is not None
    }
    assert parents == {
        "helper1": "5e551011-0000-4000-8000-000000000001",
        "$.subagent_trajectories[0]": "$",
    }


def test_one_run_reads_the_same_in_three_versions_of_mini_swe_agent() -> None:
    def told(case: str) -> list[tuple[Any, ...]]:
        (found,) = read_case(CASES[f"mini-swe-agent/{case}.raw.json"])
        assert isinstance(found, Trajectory)
        names = ("turn", "action_kind", "action_name", "action", "observation", "exit_code")
        return [tuple(getattr(step, name) for name in names) for step in found.steps]

    assert told("same_run_bare") == told("same_run_v1") == told("same_run_v2")


def test_an_unknown_name_lists_the_adapters() -> None:
    with pytest.raises(TrajkitError, match="openai-chat"):
        adapters.load("openai")


# Laws.


def _values(raw: Path) -> list[Any]:
    """Return the values of a file: its lines, the elements of its list, or its one document."""
    if raw.is_dir():
        return [_bundle(raw)]
    reader = FileReader(InputFile(raw, raw.name, raw.stat().st_size))
    values = [value.value for value in reader]
    return values[0] if reader.is_document and isinstance(values[0], list) else values


def _bundle(raw: Path) -> Bundle:
    """Return the files of a folder that its adapter holds together."""
    bundle = adapters.load(raw.parent.name).bundle
    assert bundle is not None
    named: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for file in list_inputs((str(raw),)):
        name = bundle(file.origin_path)
        if name is not None:
            content = FileReader(file).content()
            named[name][file.origin_path.removeprefix(f"{name}/")] = content
    return Bundle(max(named.values(), key=len))


def _record(adapter: Adapter, values: list[Any]) -> Record:
    """Return values as the record that an adapter would be given."""
    value = values if adapter.unit != "value" else values[0]
    return Record(value=value, origin=Origin(path="case", key="k"))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9**12) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
JSON_FILES = [raw for raw in RAW_FILES if raw.is_file() and raw.suffix != ".eval"]
TRUE_FILES = [
    (raw.parent.name, values)
    for raw in JSON_FILES
    if not isinstance((values := _values(raw))[0], str)
]
TRUE_VALUES = [(name, value) for name, values in TRUE_FILES for value in values]
TRUE_BUNDLES = [(raw.parent.name, dict(_bundle(raw).files)) for raw in RAW_FILES if raw.is_dir()]


@given(JSON)
def test_no_detection_fails_on_any_json(value: Any) -> None:
    assert all(isinstance(a.detect(value), bool) for a in adapters.all_adapters())


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Give the paths of everything inside a value."""
    if isinstance(value, str):
        return
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield (*path, key)
        if isinstance(inner, dict | list):
            yield from _places(inner, (*path, key))


@st.composite
def damaged(draw: st.DrawFn, wholes: list[tuple[str, Any]]) -> Any:
    """A true value in which some places are missing or hold something else."""
    value = copy.deepcopy(draw(st.sampled_from(wholes))[1])
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(value))
        if not places:
            break
        *way, last = draw(st.sampled_from(places))
        inner = value
        for key in way:
            inner = inner[key]
        if draw(st.booleans()):
            inner[last] = draw(JSON)
        else:
            del inner[last]
    return value


@settings(max_examples=300)
@given(damaged(TRUE_VALUES))
def test_no_detection_fails_on_a_damaged_value(value: Any) -> None:
    assert all(isinstance(a.detect(value), bool) for a in adapters.all_adapters())


@settings(max_examples=500, deadline=None)
@given(damaged(TRUE_FILES))
def test_a_damaged_record_gives_episodes_or_rejects_and_is_left_as_it_was(values: Any) -> None:
    before = to_json_text(values)
    for adapter in adapters.all_adapters():
        if not any(adapter.detect(value) for value in values):
            continue
        if adapter.unit == "session":
            records = [_record(adapter, values)]
        else:
            records = [_record(adapter, [value]) for value in values if adapter.detect(value)]
        for record in records:
            found = list(extract([adapter], record))
            assert found
            for one in found:
                assert isinstance(one, Trajectory | Reject)
                if isinstance(one, Trajectory):
                    # Whatever is wrong in a field is found by the schema, not by a crash.
                    ingest.document_of(one, ingest.Options())
    assert to_json_text(values) == before


@settings(max_examples=200, deadline=None)
@given(damaged(TRUE_BUNDLES))
def test_a_damaged_bundle_gives_episodes_or_rejects(files: Any) -> None:
    bundle = Bundle(files)
    for adapter in adapters.all_adapters():
        taken = adapter.detect(bundle)
        assert isinstance(taken, bool)
        if taken:
            found = list(extract([adapter], Record(value=bundle, origin=Origin(path="case"))))
            assert found


TRANSCRIPTS = [values for name, values in TRUE_FILES if name == "mcp-jsonrpc"]


@settings(deadline=None)
@given(st.sampled_from(TRANSCRIPTS), st.data())
def test_a_transcript_cut_anywhere_keeps_the_calls_before_the_cut(
    values: list[Any], data: st.DataObject
) -> None:
    adapter = adapters.load("mcp-jsonrpc")
    n_kept = data.draw(st.integers(1, len(values)))
    whole, cut = (
        [step.action for one in adapter.extract(_record(adapter, part)) for step in _steps(one)]
        for part in (values, values[:n_kept])
    )
    assert cut == whole[: len(cut)]


def _steps(found: Trajectory | Reject) -> tuple[Any, ...]:
    return found.steps if isinstance(found, Trajectory) else ()


NAMES = st.sampled_from(["a", "b", ""])
MESSAGES = st.lists(
    st.one_of(
        st.builds(
            lambda ids, text: Message(
                role="assistant", text=text, calls=tuple(make_call("f", {}, id_) for id_ in ids)
            ),
            st.lists(NAMES, max_size=3),
            st.sampled_from(["said", None]),
        ),
        st.builds(
            lambda id_, text: Message(role="result", call_id=id_ or None, name="f", text=text),
            NAMES,
            NAMES,
        ),
        st.builds(lambda text: Message(role="user", text=text), NAMES),
    ),
    max_size=12,
)


@given(MESSAGES)
def test_folding_loses_no_call_and_no_result(messages: list[Message]) -> None:
    folded = fold(messages)
    n_calls = sum(len(message.calls) for message in messages)
    n_results = sum(message.role == "result" for message in messages)
    linked = folded.linked_by
    assert sum(step.action_kind == "tool_call" for step in folded.steps) == n_calls

    def count(*names: str) -> int:
        return sum(linked.get(name, 0) for name in names)

    answered = count("id", "name", "position")
    assert answered + count("orphan", "answered_twice") == n_results
    assert answered + count("unanswered", "unanswered_middle") == n_calls
    given = [step.call_id for step in folded.steps if step.call_id is not None]
    assert len(set(given)) == len(given)
    assert [step.turn for step in folded.steps] == sorted(step.turn for step in folded.steps)


@given(MESSAGES, st.integers(0, 12))
def test_what_follows_changes_nothing_that_was_done_before(
    messages: list[Message], n_first: int
) -> None:
    first, whole = fold(messages[:n_first]).steps, fold(messages).steps
    assert [step.action for step in whole[: len(first)]] == [step.action for step in first]
    for early, late in zip(first, whole, strict=False):
        assert early.observation is None or early.observation == late.observation
