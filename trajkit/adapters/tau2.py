"""tau2-bench results: one trajectory per simulation.

Defined by the data model of tau2-bench (`Results`, `SimulationRun`, `Message`, `Tick`). A run is
one `results.json` with its simulations inside, or a folder with `results.json` and
`simulations/<id>.json` (the form for voice), or one such simulation alone.

Traps: the simulated user calls tools too, and talks to its own device; those calls and results
have the requestor `user` and are no part of the agent's episode. `arguments` is an object, a tool
message names its call in `id`, and an error is a flag. The agent greets first; the greeting is
kept in `meta`, so that the first words of the user are the task. The scenario that the user plays
holds what the agent must find out, so it is not the task and not kept. In full duplex the talk
comes in `ticks` of a fraction of a second: words are joined until the other side speaks alone
or a tool is called. A missing reward is unknown, not zero.

Smallest shape: {"info": {"environment_info": {"domain_name": "d", "policy": "..."}}, "tasks": [],
"simulations": [{"id": "1", "task_id": "0", "termination_reason": "user_stop", "messages": [
{"role": "user", "content": "..."}, {"role": "assistant", "tool_calls": [{"id": "c", "name": "f",
"arguments": {}}]}, {"role": "tool", "id": "c", "content": "...", "error": false}]}]}
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from trajkit.adapters import Adapter
from trajkit.adapters.fields import first_text, mapping, mappings, meta_text, text
from trajkit.adapters.messages import Message, fold, id_text, make_call, tools_text
from trajkit.ledger import Ledger
from trajkit.model import Bundle, OutcomeStatus, Record, Reject, Trajectory

_RESULTS = "results.json"
_FOLDER = "simulations/"


def detect(value: Any) -> bool:
    """Return whether a value is a run's results, one simulation, or the folder of a run."""
    if isinstance(value, Bundle):
        named = _RESULTS in value.files and any(name.startswith(_FOLDER) for name in value.files)
        return named and _is_results(value.files[_RESULTS])
    return _is_results(value) or _is_simulation(value)


def _is_results(value: Any) -> bool:
    info = mapping(value).get("info")
    return "environment_info" in mapping(info) and isinstance(mapping(value).get("tasks"), list)


def _is_simulation(value: Any) -> bool:
    run = mapping(value)
    talks = isinstance(run.get("messages"), list) or isinstance(run.get("ticks"), list)
    return talks and {"id", "task_id", "termination_reason"} <= set(run)


def bundle(path: str) -> str | None:
    """Return the folder of a run for its results and its simulations."""
    parts = path.split("/")
    if len(parts) > 1 and parts[-1] == _RESULTS:
        return "/".join(parts[:-1])
    if len(parts) > 2 and parts[-2] == "simulations" and parts[-1].endswith(".json"):
        return "/".join(parts[:-2])
    return None


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the episode of every simulation, or the reason why one is none."""
    info, simulations = _parts(record.value)
    numbers = _Numbers(record.ledger)
    numbers.context()
    n_found = 0
    for simulation in simulations:
        yield _episode(record, info, simulation, n_found, numbers)
        n_found += 1
    if n_found == 0:
        yield Reject(
            origin=record.origin,
            reason="metadata_only",
            message="the results of a run without its simulations",
            pointer="$.simulations",
        )


def _parts(value: Any) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    if isinstance(value, Bundle):
        results = mapping(value.files[_RESULTS])
        rest = (mapping(value.files[name]) for name in value.files if name.startswith(_FOLDER))
        return mapping(results.get("info")), (run for run in rest if _is_simulation(run))
    if _is_results(value):
        runs = mappings(value.get("simulations"))
        return mapping(value.get("info")), iter(runs)
    return {}, iter([value])


@dataclass
class _Numbers:
    """Hands out the numbers of source events."""

    ledger: Ledger
    n_events: int = 0

    def take(self) -> int:
        self.n_events += 1
        self.ledger.expect([self.n_events])
        return self.n_events

    def context(self) -> None:
        self.ledger.became(self.take(), "context")


def _episode(
    record: Record, info: dict[str, Any], run: dict[str, Any], place: int, numbers: _Numbers
) -> Trajectory | Reject:
    key = text(run.get("id")) or f"$.simulations[{place}]"
    around = "" if record.origin.key is None else f"{record.origin.key}/"
    origin = replace(record.origin, key=f"{around}{key}")
    first = numbers.n_events
    logged = mappings(run.get("messages"))
    if logged:
        found = list(_messages(logged, numbers))
    else:
        found = list(_Talk(numbers).messages(mappings(run.get("ticks"))))
    greeting = None
    if found and found[0].role == "assistant" and not found[0].calls:
        greeting = found.pop(0)
    if not fold(found).acts:
        for number in range(first + 1, numbers.n_events + 1):
            numbers.ledger.left_out(number, "no_action")
        return Reject(
            origin=origin, reason="no_action", message="a talk in which the agent calls no tool"
        )
    folded = fold(found, numbers.ledger)
    if greeting is not None:
        for event in (greeting.event, *(other for other, _ in greeting.also)):
            numbers.ledger.became(event, "context")
    agent, environment = mapping(info.get("agent_info")), mapping(info.get("environment_info"))
    judged = mapping(run.get("reward_info"))
    value = judged.get("reward")
    reward = float(value) if isinstance(value, int | float) and value is not True else None
    return Trajectory(
        origin=origin,
        adapter=ADAPTER.name,
        domain="mcp",
        agent=text(agent.get("implementation")),
        model=text(agent.get("llm")),
        task=folded.task,
        agent_system_prompt=folded.agent_system_prompt or text(environment.get("policy")),
        action_space=tools_text(environment.get("tool_defs")),
        outcome_status=_outcome(reward),
        reward=reward,
        exit_status=text(run.get("termination_reason")),
        started_at=first_text([run], "start_time", "timestamp"),
        meta=meta_text(
            folded,
            environment=environment.get("domain_name"),
            task_id=run.get("task_id"),
            trial=run.get("trial"),
            seed=run.get("seed"),
            mode=run.get("mode"),
            duration=run.get("duration"),
            reward_breakdown=judged.get("reward_breakdown"),
            greeting=greeting.text if greeting is not None else None,
        ),
        steps=folded.steps,
    )


def _outcome(reward: float | None) -> OutcomeStatus:
    if reward is None:
        return "unknown"
    if reward >= 1:
        return "success"
    return "failure" if reward <= 0 else "unknown"


def _messages(logged: list[dict[str, Any]], numbers: _Numbers) -> Iterator[Message]:
    for raw in logged:
        number = numbers.take()
        role = raw.get("role")
        if role == "assistant":
            yield _spoken(raw, number)
        elif role == "tool":
            several = mappings(raw.get("tool_messages")) or [raw]
            own = [one for one in several if one.get("requestor") != "user"]
            yield from (_result(one, number) for one in own)
            if not own:
                numbers.ledger.left_out(number, "user_tool_call")
        elif role == "user" and not text(raw.get("content")) and raw.get("tool_calls"):
            numbers.ledger.left_out(number, "user_tool_call")
        elif role in ("user", "system"):
            yield Message(
                role="user" if role == "user" else "system",
                text=text(raw.get("content")),
                time=text(raw.get("timestamp")),
                event=number,
            )
        else:
            numbers.ledger.left_out(number, "unknown_event")


def _spoken(raw: dict[str, Any], number: int) -> Message:
    said = mapping(raw.get("raw_data"))
    return Message(
        role="assistant",
        text=text(raw.get("content")),
        thought=first_text([said, mapping(said.get("message"))], "reasoning_content"),
        calls=tuple(
            make_call(call.get("name"), call.get("arguments"), call.get("id"))
            for call in mappings(raw.get("tool_calls"))
            if call.get("requestor") != "user"
        ),
        time=text(raw.get("timestamp")),
        event=number,
    )


def _result(raw: dict[str, Any], number: int) -> Message:
    content = raw.get("content")
    return Message(
        role="result",
        text=content if isinstance(content, str) else "",
        call_id=id_text(raw.get("id")),
        error="tool_error" if raw.get("error") is True else None,
        time=text(raw.get("timestamp")),
        event=number,
    )


@dataclass
class _Utterance:
    """What one side says until the other begins."""

    text: str = ""
    ticks: list[int] = field(default_factory=list)
    time: str | None = None
    ids: set[str] = field(default_factory=set)


class _Talk:
    """Joins the ticks of a full-duplex talk into messages."""

    def __init__(self, numbers: _Numbers) -> None:
        self.numbers = numbers
        self.said: dict[str, _Utterance] = {}

    def messages(self, ticks: list[dict[str, Any]]) -> Iterator[Message]:
        for tick in ticks:
            number = self.numbers.take()
            time = text(tick.get("timestamp"))
            calls = mappings(tick.get("agent_tool_calls"))
            results = mappings(tick.get("agent_tool_results"))
            chunks = {side: mapping(tick.get(f"{side}_chunk")) for side in ("agent", "user")}
            spoken = {side: words for side in chunks if (words := _words(chunks[side]))}
            if len(spoken) == 1 and self.said and not set(spoken) & set(self.said):
                yield from self._flush()
            for side, words in spoken.items():
                self._add(side, words, chunks[side], number, time)
            if calls or results:
                yield from self._flush()
            if calls:
                yield replace(_spoken({"tool_calls": calls}, number), time=time)
            yield from (_result(one, number) for one in results)
            if not (spoken or calls or results):
                users = tick.get("user_tool_calls") or tick.get("user_tool_results")
                self.numbers.ledger.left_out(number, "user_tool_call" if users else "silence")
        yield from self._flush()

    def _add(
        self, side: str, words: str, chunk: dict[str, Any], number: int, time: str | None
    ) -> None:
        one = self.said.setdefault(side, _Utterance(time=time))
        ids = {name for name in chunk.get("utterance_ids") or [] if isinstance(name, str)}
        if one.text and ids and one.ids and not ids & one.ids:
            one.text += " "
        one.text += words
        one.ids = ids
        one.ticks.append(number)

    def _flush(self) -> Iterator[Message]:
        for side, one in self.said.items():
            fate = "action" if side == "agent" else "observation"
            yield Message(
                role="assistant" if side == "agent" else "user",
                text=one.text,
                time=one.time,
                event=one.ticks[0],
                also=tuple((tick, fate) for tick in one.ticks[1:]),
            )
        self.said = {}


def _words(chunk: dict[str, Any]) -> str | None:
    """Return the words of a chunk; where its content is sound, the script it was made from."""
    return text(chunk.get("audio_script_gold" if chunk.get("is_audio") is True else "content"))


ADAPTER = Adapter(
    name="tau2",
    title="tau2-bench results and simulations (text and voice)",
    domains=("mcp",),
    detect=detect,
    extract=extract,
    bundle=bundle,
)
