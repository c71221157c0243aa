"""Inspect AI logs: `.json` documents, `.eval` archives, and single samples taken out of them.

Defined by the EvalLog type of the UK AI Security Institute's Inspect. One trajectory per sample
and epoch (`<id>_epoch_<n>`), with its sub-agents and abandoned branches behind it.

Drift handled here, under log versions 2 and 3: messages without ids (2024); `transcript` with `tc://`
texts (2024) and `attachments`; `step` events with nested events before spans (2025); model calls
whose input is a list of ranges into `message_pool` (2025) or `events_data.messages` (2026);
archives with zstd members; a run that is still going or crashed, which has `_journal/start.json`
and no header.

Traps: `messages` is only the last state, so the turns that compaction took away come from the
transcript. A failed tool has no content: the observation is then the message of its error, since
that is what Inspect shows to the model. Where a failed tool has content too, the content stands.
A result that no message has, as in a run that broke off, comes from the tool's event.
Calls of graders are no part of the episode. What a person refused to approve is the person's word.

Smallest shape: {"version": 2, "status": "success", "eval": {"model": "m"}, "samples": [{"id": 1,
"epoch": 1, "input": "...", "messages": [{"role": "user", "content": "..."}, {"role": "assistant",
"tool_calls": [{"id": "c", "function": "f", "arguments": {}}]}, {"role": "tool",
"tool_call_id": "c", "content": "..."}], "scores": {"match": {"value": "C"}}}]}
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from trajkit.adapters import Adapter
from trajkit.adapters.content import content_text
from trajkit.adapters.fields import mapping, text
from trajkit.adapters.inspect_threads import Said, Sample, Thread
from trajkit.adapters.messages import (
    Call,
    Message,
    fold,
    id_text,
    make_call,
    skip_first,
    tools_text,
)
from trajkit.errors import quote
from trajkit.model import (
    DOMAINS,
    Bundle,
    ObservationSource,
    OutcomeStatus,
    Record,
    Reject,
    Trajectory,
    to_json_text,
)

_LETTERS: dict[Any, float] = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_HEADERS = ("header.json", "_journal/start.json")
_CUT = "<START_TOOL_OUTPUT>"


def detect(value: Any) -> bool:
    """Return whether a value is an Inspect log, one of its samples, or its archive."""
    if isinstance(value, Bundle):
        named = any(name in value.files for name in _HEADERS)
        return named and any(name.startswith(("samples/", "_journal/")) for name in value.files)
    if not isinstance(value, dict):
        return False
    return _is_log(value) or _is_sample(value) or _is_transcript(value)


def _is_transcript(value: dict[str, Any]) -> bool:
    """Return whether a value is the events of a sample alone."""
    events = value.get("events")
    return (
        isinstance(events, list)
        and bool(events)
        and all(isinstance(event, dict) and "event" in event for event in events)
        and any(event["event"] == "model" and "output" in event for event in events)
    )


def _is_log(value: dict[str, Any]) -> bool:
    header = value.get("eval")
    known = isinstance(header, dict) and "task" in header and "model" in header
    return (
        known and isinstance(value.get("version"), int) and ("plan" in value or "status" in value)
    )


def _is_sample(value: dict[str, Any]) -> bool:
    return isinstance(value.get("messages"), list) and {"id", "epoch", "input", "target"} <= set(
        value
    )


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the episodes of every sample, or the reason why one is none."""
    header, samples = _parts(record)
    record.ledger.expect([0])
    n_numbers = n_samples = 0
    for raw in samples:
        n_samples += 1
        try:
            sample = Sample(raw, record.ledger, n_numbers)
            found = list(_Reader(record, header, sample).episodes())
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            # One broken sample must not cost the others of its log.
            record.ledger.leave_the_rest("malformed_record")
            yield Reject(
                origin=replace(record.origin, key=_key(record, raw)),
                reason="malformed_record",
                message=f"this sample cannot be read: {type(error).__name__}: {quote(str(error))}",
                pointer="$.samples",
            )
            continue
        yield from found
        n_numbers = sample.n_numbers
    record.ledger.became(0, "context")
    if n_samples == 0:
        yield Reject(
            origin=record.origin,
            reason="metadata_only",
            message="the header of a log without any sample",
            pointer="$.samples",
        )


def _parts(record: Record) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    value = record.value
    if isinstance(value, Bundle):
        found = [value.files.get(name) for name in _HEADERS]
        header = next((part for part in found if isinstance(part, dict)), {})
        return header, _members(value)
    if _is_log(value):
        return value, iter([raw for raw in value.get("samples") or [] if isinstance(raw, dict)])
    return {}, iter([value])


def _members(bundle: Bundle) -> Iterator[dict[str, Any]]:
    """Give the samples of an archive one by one; summaries only repeat them."""
    for name in bundle.files:
        if name in _HEADERS:
            continue
        content = bundle.files[name]
        if name.startswith("samples/") and isinstance(content, dict):
            yield content


class _Reader:
    def __init__(self, record: Record, header: dict[str, Any], sample: Sample) -> None:
        self.record = record
        self.header = header
        self.run = mapping(header.get("eval"))
        self.sample = sample
        self.key = _key(record, sample.raw)
        self.ledger = record.ledger

    def episodes(self) -> Iterator[Trajectory | Reject]:
        main = self._trajectory(self.sample.main)
        others = [self._trajectory(thread) for thread in self.sample.threads[1:]]
        kept = [found for found in (main, *others) if found is not None]
        for found in kept:
            has_parent = any(one.origin.key == found.parent_key for one in kept)
            yield found if has_parent else replace(found, parent_key=None)
        if not kept:
            yield Reject(
                origin=replace(self.record.origin, key=self.key),
                reason="no_action",
                message="a sample in which the agent calls no tool",
                pointer="$.samples",
            )

    def _trajectory(self, thread: Thread) -> Trajectory | None:
        messages = list(self._messages(thread.said))
        if not fold(messages).acts:
            for said in thread.said:
                self.ledger.left_out(said.number, "no_action")
            return None
        folded = fold(messages, self.ledger)
        steps = folded.steps
        if n_copied := self._n_copied(thread):
            steps = skip_first(steps, n_copied, "copied_context")
        raw, is_main = self.sample.raw, thread is self.sample.main
        task = folded.task or (self._input() if is_main else None)
        reward, outcome = self._outcome() if is_main else (None, "unknown")
        return Trajectory(
            origin=replace(self.record.origin, key=self._key(thread)),
            adapter=ADAPTER.name,
            format_version=_version(self.header),
            agent=thread.name or text(self.run.get("solver")),
            model=thread.model or text(self.run.get("model")),
            task=task,
            agent_system_prompt=folded.agent_system_prompt,
            action_space=tools_text(list(thread.tools.values())),
            outcome_status=outcome,
            reward=reward,
            exit_status=self._exit() if is_main else None,
            parent_key=None if thread.parent is None else self._key(thread.parent),
            names=tuple(filter(None, [text(raw.get("uuid"))])) if is_main else (),
            started_at=text(raw.get("started_at")) or self.sample.started_at,
            meta=to_json_text(self._meta() | {"linked_by": folded.linked_by}),
            steps=steps,
        )

    def _key(self, thread: Thread) -> str:
        return self.key if thread is self.sample.main else f"{self.key}/{thread.key}"

    def _n_copied(self, thread: Thread) -> int:
        """Return how many steps at the start are another's: a branch's past, given turns."""
        given = thread.said
        if thread.is_branch and thread.parent is not None:
            around = thread.parent
            n_given = next(
                (n for n, one in enumerate(given) if not around.shared(one.heard, by_id=False)),
                len(given),
            )
        else:
            n_given = 1 + max(
                (
                    n
                    for n, one in enumerate(given)
                    if one.raw.get("role") == "assistant" and one.raw.get("source") == "input"
                ),
                default=-1,
            )
            while n_given and n_given < len(given) and given[n_given].raw.get("role") == "tool":
                n_given += 1
        return len(fold(self._messages(given[:n_given])).steps)

    def _messages(self, said: list[Said]) -> Iterator[Message]:
        acted = False
        for one in said:
            role = one.raw.get("role")
            if role == "assistant":
                acted = True
                yield from self._agent(one)
            elif role == "tool":
                yield self._result(one)
            else:
                told, media = content_text(one.raw.get("content"))
                given = one.raw.get("source") in ("input", "operator")
                yield Message(
                    role="system" if role == "system" else "user",
                    text=told,
                    source="harness" if acted and role == "user" and not given else None,
                    media=media,
                    time=one.time,
                    event=one.number,
                )

    def _agent(self, said: Said) -> Iterator[Message]:
        """Give a reply, and the results of what the model's own provider ran for it."""
        raw = said.raw
        parts, thoughts, hosted = raw.get("content"), [], []
        if isinstance(parts, list):
            thoughts = [_reasoning(part) for part in parts if _is(part, "reasoning")]
            hosted = [part for part in parts if _is(part, "tool_use")]
            parts = [p for p in parts if not _is(p, "reasoning") and not _is(p, "tool_use")]
        told, media = content_text(parts)
        calls = [make_call(part.get("name"), part.get("arguments"), part["id"]) for part in hosted]
        calls += [_call(call) for call in raw.get("tool_calls") or [] if isinstance(call, dict)]
        yield Message(
            role="assistant",
            text=told or None,
            thought="\n\n".join(filter(None, thoughts)) or text(raw.get("reasoning")),
            calls=tuple(calls),
            media=media,
            time=said.time,
            event=said.number,
        )
        for part in hosted:
            yield Message(
                role="result",
                text=content_text(part.get("result"))[0],
                call_id=id_text(part["id"]),
                error=text(part.get("error")),
                time=said.time,
            )

    def _result(self, said: Said) -> Message:
        raw = said.raw
        told, media = content_text(raw.get("content"))
        call_id = id_text(raw.get("tool_call_id"))
        event = self.sample.tool_event(call_id, told)
        error = raw.get("error")
        kind = message = None
        cut = _CUT in (told or "") or bool(event.get("truncated"))
        if isinstance(error, dict):
            kind, message = text(error.get("type")), text(error.get("message"))
        else:
            message = text(error) or text(raw.get("tool_error"))
        source: ObservationSource | None = None
        if kind == "approval":
            source = "user" if call_id in self.sample.human_refusals else "harness"
        return Message(
            role="result",
            text=told or message or told,
            call_id=call_id,
            name=text(raw.get("function")),
            error=": ".join(filter(None, [kind, message])) or None,
            truncated=cut or kind == "output_limit",
            source=source,
            media=media,
            time=text(event.get("completed")) or text(event.get("timestamp")),
            event=said.number,
        )

    def _input(self) -> str | None:
        given = self.sample.whole(self.sample.raw.get("input"))
        return given if isinstance(given, str) else None

    def _outcome(self) -> tuple[float | None, OutcomeStatus]:
        """Return the first score as a number, and an outcome when it is a grade or a yes or no."""
        scores = self.sample.raw.get("scores")
        found = list(scores.values()) if isinstance(scores, dict) else []
        found = [*found, self.sample.raw.get("score")]
        value = next(
            (one["value"] for one in found if isinstance(one, dict) and "value" in one), None
        )
        if isinstance(value, bool):
            return float(value), "success" if value else "failure"
        if isinstance(value, int | float):
            return float(value), "unknown"
        if isinstance(value, str) and value in _LETTERS:
            whole: dict[str, OutcomeStatus] = {"C": "success", "I": "failure"}
            return _LETTERS[value], whole.get(value, "unknown")
        return None, "unknown"

    def _exit(self) -> str | None:
        limit = self.sample.raw.get("limit")
        if self.sample.raw.get("error"):
            return "error"
        if isinstance(limit, dict) and isinstance(limit.get("type"), str):
            return f"{limit['type']}_limit"
        status = text(self.header.get("status"))
        return None if status in (None, "success") else status

    def _meta(self) -> dict[str, Any]:
        raw = self.sample.raw
        error = raw.get("error")
        scores = mapping(raw.get("scores"))
        found: dict[str, Any] = {
            "eval_task": self.run.get("task"),
            "run_id": self.run.get("run_id"),
            "sample_id": raw.get("id"),
            "epoch": raw.get("epoch"),
            "target": self.sample.whole(raw.get("target")),
            "scores": {name: mapping(one).get("value") for name, one in scores.items()},
            "error": error.get("message") if isinstance(error, dict) else error,
            "limit": raw.get("limit"),
            "n_retries": len(raw.get("error_retries") or []) or None,
            "inspect_version": mapping(self.run.get("packages")).get("inspect_ai"),
            "status": self.header.get("status"),
        }
        return {name: value for name, value in found.items() if value not in (None, "", {})}


def _key(record: Record, raw: dict[str, Any]) -> str:
    """Return the name of a sample's member in an archive, below the record's own place."""
    around = "" if record.origin.key is None else f"{record.origin.key}/"
    return f"{around}{raw.get('id', 'sample')}_epoch_{raw.get('epoch') or 1}"


def _version(header: dict[str, Any]) -> str | None:
    version = header.get("version")
    return None if version is None else str(version)


def _is(part: Any, kind: str) -> bool:
    return isinstance(part, dict) and part.get("type") == kind


def _reasoning(part: dict[str, Any]) -> str | None:
    """Return a thought; where the provider hid it, its summary."""
    hidden = part.get("redacted") is True
    return text(part.get("summary")) if hidden else text(part.get("reasoning"))


def _call(raw: dict[str, Any]) -> Call:
    name = raw.get("function")
    call = make_call(name, raw.get("arguments"), raw.get("id"))
    return replace(call, valid=False) if raw.get("parse_error") else call


ADAPTER = Adapter(
    name="inspect",
    title="Inspect AI logs, versions 2 and 3 (.json and .eval)",
    domains=DOMAINS,
    detect=detect,
    extract=extract,
)
