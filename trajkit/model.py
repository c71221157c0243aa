"""The middle form every log is turned into: a trajectory of steps, and what could not be one.

Each dataclass here has a twin in `schemas/` (JSON Schema) and in `trajkit.store` (Parquet
columns); a test holds the three equal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, Literal, get_args

import orjson

from trajkit.json_text import ExactNumber
from trajkit.ledger import Ledger

Domain = Literal["mcp", "search", "terminal", "swe", "web", "os", "android"]
ActionKind = Literal["tool_call", "keystrokes", "code", "gui", "message", "none"]
ObservationKind = Literal["text", "json", "screen", "tree", "html", "message", "none"]
ObservationSource = Literal["environment", "user", "harness"]
OutcomeStatus = Literal["success", "failure", "unknown"]

DOMAINS: tuple[str, ...] = get_args(Domain)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a trajectory was read: enough to find the raw bytes again."""

    path: str
    """Path from the name of the ingested root on, with `/` between the parts."""
    line: int | None = None
    """First line of the record, 1-based; null when the record is a whole file."""
    key: str | None = None
    """Place or id inside the file when one file or line holds several episodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One action of the agent and what the environment answered."""

    action: str
    """The action as text; a tool call is JSON text `{"name", "arguments"}`, keys as logged."""
    action_kind: ActionKind
    """The form of the action."""
    action_name: str | None = None
    """Tool, command or gesture name, when the log gives one."""
    action_valid: bool = True
    """False when the agent's output could not be parsed or run as an action."""
    turn: int
    """0-based turn of the agent; parallel calls of one turn share it."""
    thought: str | None = None
    """Reasoning and visible text of the agent before the action; never rendered to a model."""
    call_id: str | None = None
    """The log's own id of the call."""
    observation: str | None = None
    """What the environment said, character for character; null when nothing came."""
    observation_kind: ObservationKind = "text"
    """The form of the observation."""
    observation_source: ObservationSource = "environment"
    """Who spoke: the environment, a person, or the harness around the agent."""
    error: str | None = None
    """Error text or class, when the log marks the step as failed."""
    exit_code: int | None = None
    """Exit code of the command, when the log gives one."""
    truncated: bool = False
    """True when the harness cut the observation."""
    media: str | None = None
    """JSON text: list of `{"mime", "sha256", "bytes"}` of pictures whose pixels are not kept."""
    time: str | None = None
    """Time of the observation (else of the action), as logged or ISO 8601."""
    skip_reason: str | None = None
    """Why the step must not be a training target; set by `filter`, at ingest only for copies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """One episode of one agent in one environment."""

    origin: Origin
    """Where the raw record lies."""
    adapter: str
    """Name of the adapter that read it."""
    format_version: str | None = None
    """Version of the log format, when the log says."""
    domain: Domain | None = None
    """One of the seven; an adapter leaves null when only the content can tell."""
    agent: str | None = None
    """Name of the agent or harness."""
    model: str | None = None
    """Name of the model that acted."""
    task: str | None = None
    """What the agent was asked to do."""
    agent_system_prompt: str | None = None
    """System prompt of the acting agent; never rendered to a world model."""
    action_space: str | None = None
    """JSON text: the tools or actions the agent could use."""
    initial_state: str | None = None
    """What the environment showed before the first action."""
    simulation_instruction: str | None = None
    """Instruction that controls a simulation; rarely in a raw log."""
    outcome_status: OutcomeStatus = "unknown"
    """How the episode ended, when the log says."""
    reward: float | None = None
    """Score given by the environment or benchmark."""
    exit_status: str | None = None
    """The harness's own word for the end."""
    parent_key: str | None = None
    """The run that spawned this one: its `origin.key` in the same record, or one of its `names`."""
    names: tuple[str, ...] = ()
    """Ids by which other files may call this run (session id, agent id); not stored."""
    step_keys: tuple[str | None, ...] = ()
    """A log's own global id of each step, so that copies in resumed files are found; not stored."""
    started_at: str | None = None
    """Time of the first event, as logged."""
    meta: str | None = None
    """JSON text: what else the log says of the episode."""
    steps: tuple[Step, ...] = ()
    """Actions and observations in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject:
    """A piece of input that became no trajectory, and why."""

    origin: Origin
    """Where it lies."""
    reason: str
    """Stable slug."""
    message: str
    """One sentence for a person."""
    pointer: str | None = None
    """JSON path inside the record."""
    record: str | None = None
    """The raw text, cut at 64 kB."""
    n_record_chars: int | None = None
    """Full length of the raw text."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """Several files that tell one story: the files of one folder, or the members of one archive."""

    files: Mapping[str, Any]
    """Content by path below the bundle. A JSON document is its value, JSON lines are a list of
    values, any other text is a `str`; null where a file could not be decoded (that is counted
    already). Decoded when asked for, so look at the names first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One decoded raw record, as an adapter gets it."""

    value: Any
    """The decoded value: JSON, the text of a file that is none, or a `Bundle`; for a session
    adapter the list of all values of the file."""
    origin: Origin
    """Where it lies."""
    lines: tuple[int, ...] = field(default=())
    """1-based lines of the values, for session records read from JSON lines."""
    ledger: Ledger = field(default_factory=Ledger, compare=False)
    """Where the adapter writes what became of each source event."""


def to_json_text(value: Any) -> str:
    """Return compact JSON text with keys in their given order.

    >>> to_json_text({"b": 1, "a": None})
    '{"b":1,"a":null}'
    """
    return orjson.dumps(value, default=_as_written, option=orjson.OPT_NON_STR_KEYS).decode()


def _as_written(value: Any) -> orjson.Fragment:
    if isinstance(value, ExactNumber):
        return orjson.Fragment(value.source)
    raise TypeError(f"no JSON for {type(value).__name__}")


_CONTENT = (
    "domain",
    "task",
    "agent_system_prompt",
    "action_space",
    "initial_state",
    "simulation_instruction",
)
_STEP_CONTENT = (
    "turn",
    "thought",
    "action_kind",
    "action_name",
    "action",
    "observation",
    "observation_source",
    "error",
    "exit_code",
)


_content_of = attrgetter(*_CONTENT)
_step_content_of = attrgetter(*_STEP_CONTENT)


def content_hash(trajectory: Trajectory) -> str:
    """Return 32 hex digits that are equal for equal content, wherever it was read.

    Covers what was asked, done and answered; leaves out origin, ids, times and metadata.
    """
    head = _content_of(trajectory)
    steps = list(map(_step_content_of, trajectory.steps))
    return hashlib.sha256(orjson.dumps([head, steps], default=_as_written)).hexdigest()[:32]


def trajectory_id(content: str, origin: Origin) -> str:
    """Return 24 hex digits: the id of this content at this place."""
    place = orjson.dumps([content, origin.path, origin.line, origin.key])
    return hashlib.sha256(place).hexdigest()[:24]


def step_row(step: Step) -> dict[str, Any]:
    """Return a step's own fields in declared order."""
    return dict(zip(_STEP_FIELDS, _step_fields_of(step), strict=True))


_STEP_FIELDS = tuple(f.name for f in fields(Step))
_step_fields_of = attrgetter(*_STEP_FIELDS)
