"""mini-swe-agent `.traj.json`, v1 (`mini-swe-agent-1`), v2 (`mini-swe-agent-1.1`), bare lists.

Defined by the mini-swe-agent project (`agents/default.py`, `models/`). Drift handled here: v1 and
the text mode of v2 fence the command in the agent's text and answer in a user message; v2 calls a
`bash` tool, logs the parsed commands in `extra.actions` and answers in a tool message, or in a
`function_call_output` of the Responses API, whose agent turns have no role. v1 ends with a user
message that holds the submission, v2 with a message of role `exit`. Test fixtures and published
data sets are bare message lists or rows with `messages`, told by a fenced command and an answer
that opens with `<returncode>`; openai-chat leaves those to this adapter.

Choices: the action is the command itself in every version, so the same run reads the same. The
observation is the message the agent saw, tags and all; `extra.raw_output` is not put in its place
(a template may have cut it: then `truncated` is set). Exit messages are no observation.

Smallest shape: {"trajectory_format": "mini-swe-agent-1", "info": {"exit_status": "Submitted"},
"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content":
"...```bash\\nls\\n```"}, {"role": "user", "content": "<returncode>0</returncode>..."}]}
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import orjson

from trajkit.adapters import Adapter
from trajkit.adapters.content import content_text
from trajkit.adapters.messages import Call, Message, fold, make_call
from trajkit.ledger import Ledger
from trajkit.model import ObservationSource, Record, Reject, Trajectory, to_json_text

_VERSIONS = {"mini-swe-agent-1": "1", "mini-swe-agent-1.1": "1.1"}
_FENCE = re.compile(r"```(?:bash|mswea_bash_command)[ \t\r]*\n(.*?)\n```", re.DOTALL)
_RETURN_CODE = re.compile(
    r"\s*(?:<exception>.*?</exception>\s*)?<returncode>(-?\d{1,9})</returncode>", re.DOTALL
)
_PLAIN = re.compile(
    r"\s*<returncode>-?\d{1,9}</returncode>\s*<output>\n?(.*?)\n?</output>\s*\Z", re.DOTALL
)
_CUT = re.compile(r"</returncode>\s*<warning>|<elided_chars>")
_END = ("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "MINI_SWE_AGENT_FINAL_OUTPUT")
_PERSON = re.compile(
    r"Commands? not executed\. |Interrupted by user: |The user added a new task: |Switched to human"
)
_TIMEOUT = re.compile(r"The last command <command>")
_NOT_RUN = "action was not executed"
_PERSON_TYPES = ("UserRejection", "UserInterruption", "UserNewTask")
_FORM_MESSAGES = 16
_LOGGED = ("trajectory_format", "info", "messages")


def detect(value: Any) -> bool:
    """Return whether a value is a trajectory file, or a chat in the agent's text form."""
    if isinstance(value, dict) and isinstance(value.get("trajectory_format"), str):
        return value["trajectory_format"].startswith("mini-swe-agent") and isinstance(
            value.get("messages"), list
        )
    return is_text_chat(value.get("messages") if isinstance(value, dict) else value)


def is_text_chat(messages: Any) -> bool:
    """Return whether some message is a fenced command that the next answers with a return code."""
    if not isinstance(messages, list):
        return False
    # A run shows its form at once; a long chat of another kind is not searched to its end.
    return any(
        isinstance(one, dict)
        and isinstance(other, dict)
        and one.get("role") == "assistant"
        and other.get("role") == "user"
        and isinstance(one.get("content"), str)
        and _FENCE.search(one["content"]) is not None
        and _RETURN_CODE.match(content_text(other.get("content"))[0] or "") is not None
        for one, other in itertools.pairwise(messages[:_FORM_MESSAGES])
    )


def extract(record: Record) -> Iterator[Trajectory | Reject]:
    """Give the one episode of a file or row; an unknown version is refused."""
    row = record.value if isinstance(record.value, dict) else {"messages": record.value}
    name = row.get("trajectory_format")
    if name is not None and name not in _VERSIONS:
        known = ", ".join(_VERSIONS)
        yield Reject(
            origin=record.origin,
            reason="unknown_version",
            message=f"a mini-swe-agent format that is none of {known}",
            pointer="$.trajectory_format",
        )
        return
    info = row["info"] if isinstance(row.get("info"), dict) else {}
    record.ledger.expect(range(len(row["messages"])))
    reader = _Reader(row["messages"], record.ledger)
    folded = fold(reader.read(), record.ledger)
    logged = {key: item for key, item in row.items() if key not in _LOGGED}
    meta = {
        "submission": info.get("submission") or reader.end.get("submission") or None,
        "exit_message": reader.end.get("exit_message") or None,
        "mini_version": info.get("mini_version"),
        "model_stats": info.get("model_stats"),
        "linked_by": folded.linked_by,
    }
    yield Trajectory(
        origin=record.origin,
        adapter=ADAPTER.name,
        format_version=None if name is None else _VERSIONS[name],
        domain="swe",
        agent="mini-swe-agent",
        model=_model(info) or _text(logged.pop("model", None)),
        task=folded.task,
        agent_system_prompt=folded.agent_system_prompt,
        exit_status=_text(info.get("exit_status")) or _text(reader.end.get("exit_status")),
        started_at=reader.started_at,
        meta=to_json_text({key: item for key, item in (logged | meta).items() if item is not None}),
        steps=folded.steps,
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _model(info: dict[str, Any]) -> str | None:
    config = info.get("config")
    model = config.get("model") if isinstance(config, dict) else None
    return _text(model.get("model_name")) if isinstance(model, dict) else None


class _Reader:
    """Turns logged messages into `Message`s; `end` holds what the exit message said."""

    def __init__(self, raw: list[dict[str, Any]], ledger: Ledger) -> None:
        self.raw = raw
        self.ledger = ledger
        self.end: dict[str, Any] = {}
        self.started_at: str | None = None
        self._acted = False
        self._valid = True
        self._command = ""
        self._n_waiting = 0

    def read(self) -> Iterator[Message]:
        for number, raw in enumerate(self.raw):
            if not isinstance(raw, dict):
                self.ledger.left_out(number, "unknown_event")
                continue
            extra = raw["extra"] if isinstance(raw.get("extra"), dict) else {}
            time = _time(raw, extra)
            self.started_at = self.started_at or time
            role = raw.get("role")
            if role == "exit":
                self.end = extra
                self.ledger.became(number, "context")
            elif role == "assistant" or raw.get("object") == "response":
                yield self._agent(raw, extra, time, number)
            elif role in ("system", "developer"):
                yield Message(role="system", text=content_text(raw.get("content"))[0], event=number)
            elif isinstance(extra.get("actions"), list):
                # In human mode a person's command stands where the agent's would.
                calls = _logged_calls(extra["actions"])
                message = Message(role="assistant", calls=calls, time=time, event=number)
                yield self._remember(message)
            elif not self._acted:
                text, media = content_text(raw.get("content"))
                yield Message(role="user", text=text, media=media, time=time, event=number)
            else:
                yield from self._answer(raw, extra, time, number)

    def _remember(self, message: Message) -> Message:
        self._acted = True
        self._valid = all(call.valid for call in message.calls)
        self._n_waiting = len(message.calls)
        self._command = message.calls[-1].action if message.calls else ""
        return message

    def _agent(
        self, raw: dict[str, Any], extra: dict[str, Any], time: str | None, number: int
    ) -> Message:
        text, thought, tool_calls = _said(raw)
        logged = extra.get("actions")
        if isinstance(logged, list) and logged:
            calls = _logged_calls(logged)
            if not tool_calls:
                text = _without_fence(text)
        elif tool_calls:
            calls = tuple(_tool_call(call) for call in tool_calls)
        else:
            fenced = _FENCE.findall(text)
            valid = len(fenced) == 1
            action = fenced[0].strip() if valid else text
            calls = (Call(action=action, name="bash" if valid else None, kind="code", valid=valid),)
            text = _without_fence(text) if valid else ""
        return self._remember(
            Message(
                role="assistant",
                text=text or None,
                thought=thought,
                calls=calls,
                time=time,
                event=number,
            )
        )

    def _answer(
        self, raw: dict[str, Any], extra: dict[str, Any], time: str | None, number: int
    ) -> Iterator[Message]:
        """Give what followed an action: its result, a person's word, or the harness's."""
        is_output = raw.get("type") == "function_call_output"
        text, media = content_text(raw.get("output" if is_output else "content"))
        said = text or ""
        code = _RETURN_CODE.match(said)
        interrupt = extra.get("interrupt_type")
        linked = is_output or raw.get("role") == "tool"
        is_plain = not (code or extra or linked)
        submits = any(word in self._command for word in _END)
        is_last = number == len(self.raw) - 1
        if is_last and is_plain and (submits or not self._n_waiting):
            self.ledger.became(number, "context")
            self.end = {"submission" if self._n_waiting else "exit_message": text}
            return
        if interrupt == "FormatError" and "model_response" in extra:
            answer = content_text(extra["model_response"])[0] or ""
            call = Call(action=answer, name=None, kind="code", valid=False)
            yield self._remember(Message(role="assistant", calls=(call,), time=time, event=number))
        is_result = linked or (self._n_waiting > 0 and interrupt in (None, "FormatError"))
        self._n_waiting -= is_result
        source: ObservationSource = "environment" if is_result and self._valid else "harness"
        if interrupt in _PERSON_TYPES or (not linked and _PERSON.match(said)):
            source = "user"
        elif interrupt == "FormatError" or extra.get("exception_info") == _NOT_RUN:
            source = "harness"
        full = extra.get("raw_output")
        has_full = isinstance(full, str) and full in said
        yield Message(
            role="result" if is_result else "user",
            text=_output(text) if is_result and source == "environment" else text,
            call_id=_text(raw.get("call_id") or raw.get("tool_call_id")),
            error=_text(extra.get("exception_info"))
            or ("timeout" if _TIMEOUT.match(said) else None),
            exit_code=_return_code(extra, code),
            truncated=_CUT.search(said) is not None and not has_full,
            source=source,
            media=media,
            time=time,
            event=number,
        )


def _output(text: str | None) -> str | None:
    """Return what the command printed, where the template adds nothing but its return code.

    >>> _output("<returncode>0</returncode>\\n<output>\\na.py\\n</output>")
    'a.py'
    """
    plain = _PLAIN.match(text or "")
    return plain.group(1) if plain else text


def _return_code(extra: dict[str, Any], shown: re.Match[str] | None) -> int | None:
    logged = extra.get("returncode")
    if isinstance(logged, int) and not isinstance(logged, bool):
        return logged
    return int(shown.group(1)) if shown else None


def _said(raw: dict[str, Any]) -> tuple[str, str | None, list[dict[str, Any]]]:
    """Return visible text, reasoning and tool calls of an agent turn of either API."""
    if raw.get("object") != "response":
        text = content_text(raw.get("content"))[0] or ""
        return text, _text(raw.get("reasoning_content")), raw.get("tool_calls") or []
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[dict[str, Any]] = []
    for item in raw.get("output") or []:
        if item.get("type") == "function_call":
            calls.append(item)
        elif item.get("type") == "reasoning":
            thoughts.append(content_text(item.get("summary"))[0] or "")
        else:
            texts.append(content_text(item.get("content"))[0] or "")
    return "\n".join(filter(None, texts)), "\n".join(filter(None, thoughts)) or None, calls


def _logged_calls(actions: list[dict[str, Any]]) -> tuple[Call, ...]:
    return tuple(
        Call(
            action=content_text(action["command"])[0] or "",
            name="bash",
            id=_text(action.get("tool_call_id")) or None,
            kind="code",
        )
        for action in actions
    )


def _tool_call(call: dict[str, Any]) -> Call:
    """Return a call that the harness left unparsed; only `bash` with a command is a command."""
    function = call.get("function") or call
    name, arguments = _text(function.get("name")), function.get("arguments")
    call_id = _text(call.get("call_id") or call.get("id"))
    try:
        command = orjson.loads(arguments or "")["command"]
    except (TypeError, ValueError, KeyError):
        command = None
    if name == "bash" and isinstance(command, str):
        return Call(action=command, name=name, id=call_id or None, kind="code")
    made = make_call(name, arguments, call_id)
    return Call(action=made.action, name=name, id=made.id, kind="tool_call", valid=False)


def _without_fence(text: str) -> str:
    return _FENCE.sub("", text, count=1).strip()


def _time(raw: dict[str, Any], extra: dict[str, Any]) -> str | None:
    """Return the logged Unix time as ISO 8601."""
    response = extra.get("response")
    created = response.get("created") if isinstance(response, dict) else None
    seconds = extra.get("timestamp") or created or raw.get("timestamp")
    if isinstance(seconds, str):
        return seconds
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat() if seconds else None
    except (TypeError, ValueError, OverflowError, OSError):
        return None


ADAPTER = Adapter(
    name="mini-swe-agent",
    title="mini-swe-agent v1, v2 (format 1 and 1.1), and bare chats in its text form",
    domains=("swe",),
    detect=detect,
    extract=extract,
)
