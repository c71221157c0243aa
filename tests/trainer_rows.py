"""What the data code of trainers asks of a row, and rows that it turns away.

Written from the sources of LLaMA-Factory 0.9.5 (ShareGPT converter, supervised processor), axolotl
0.19 (`chat_template`) and ms-swift 4.6 (messages preprocessor). `make trainers` reads the rows that
pass here, and those that do not, with the trainers themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jsonschema import Draft202012Validator

NAMES = ("llamafactory", "axolotl", "swift")
PLACEHOLDERS = ("<image>", "<video>", "<audio>", "<img>", "<|im_start|>", "<|im_end|>")
"""What trainers or tokenizers take for structure wherever it stands."""
_SLOTS = {
    "llamafactory": ("{{idx}}",),
    "axolotl": (),
    "swift": ("{{ROUND0}}", "{{ROUND1}}"),
}
"""Where templates put the number of a turn, in the text of a user as well."""
_TEXT = {"type": "string", "minLength": 1}


def _of_messages(flag: str, **more: Any) -> dict[str, Any]:
    keys = {"role": {"enum": ["system", "user", "assistant"]}, "content": _TEXT}
    message = {
        "type": "object",
        "properties": keys | {flag: {"type": "boolean"}} | more,
        "required": [*keys, flag],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {"messages": {"type": "array", "minItems": 2, "items": message}},
        "required": ["messages"],
    }


SCHEMAS: dict[str, dict[str, Any]] = {
    "llamafactory": {
        "type": "object",
        "properties": {
            "system": {"type": "string"},
            "conversations": {
                "type": "array",
                "minItems": 2,
                "items": {
                    "type": "object",
                    "properties": {"from": {"enum": ["human", "gpt"]}, "value": _TEXT},
                    "required": ["from", "value"],
                    "additionalProperties": False,
                },
            },
        },
        "required": ["system", "conversations"],
    },
    "axolotl": _of_messages(
        "train", reasoning_content={"type": ["string", "null"], "minLength": 1}
    ),
    "swift": _of_messages("loss"),
}
_VALIDATORS = {name: Draft202012Validator(schema) for name, schema in SCHEMAS.items()}
_ROLES = {"human": "user", "gpt": "assistant"}


def turns(row: dict[str, Any]) -> list[tuple[str, str, bool]]:
    """Return the role and text of each message of a row, and whether it is trained on."""
    if "conversations" in row:
        spoken = row["conversations"]
        last = len(spoken) - 1
        rest = [(_ROLES[m["from"]], m["value"], place == last) for place, m in enumerate(spoken)]
        return [("system", row["system"], False), *rest]
    flag = "train" if "train" in row["messages"][0] else "loss"
    return [(m["role"], m["content"], m[flag]) for m in row["messages"]]


def faults(name: str, row: dict[str, Any]) -> list[str]:
    """Return what a trainer would turn away, misread or train on in vain; empty for a good row."""
    found = [error.message[:200] for error in _VALIDATORS[name].iter_errors(row)]
    if found:
        return found
    spoken = turns(row)
    first, *rest = [role for role, _, _ in spoken]
    roles = rest if first == "system" else [first, *rest]
    if roles != ["user", "assistant"] * (len(roles) // 2):
        found.append(f"roles are {roles}")
    trained = [place for place, (_, _, flag) in enumerate(spoken) if flag]
    if not trained or trained[-1] != len(spoken) - 1:
        found.append("the last message is not trained on")
    if any(spoken[place][0] != "assistant" for place in trained):
        found.append("something else than an answer is trained on")
    for role, text, _ in spoken:
        found += [f"{mark} in a message" for mark in PLACEHOLDERS if mark in text]
        if "<think>" in text and not text.split("<think>")[1].split("</think>")[0].strip():
            found.append("an empty thought")
        if role == "user" and any(slot in text for slot in _SLOTS[name]):
            found.append("a slot of the template")
    return found


def _chat(flag: str, *messages: tuple[str, str | None, bool]) -> dict[str, Any]:
    return {"messages": [{"role": r, "content": c, flag: t} for r, c, t in messages]}


def _sharegpt(*speakers: str) -> dict[str, Any]:
    return {"system": "s", "conversations": [{"from": who, "value": "x"} for who in speakers]}


BROKEN: dict[str, Sequence[dict[str, Any]]] = {
    "llamafactory": [
        _sharegpt("human", "gpt", "gpt", "gpt"),
        _sharegpt("human", "human", "gpt", "gpt"),
        _sharegpt("human", "gpt", "human"),
        _sharegpt("gpt", "human"),
    ],
    "axolotl": [
        _chat("train", ("user", "a", False), ("assistant", "b", False)),
        _chat("train", ("user", "a", False), ("assistant", "", True)),
    ],
    "swift": [
        _chat("loss", ("user", "a", False), ("assistant", None, True)),
        _chat("loss", ("user", "a", False), ("developer", "b", False), ("assistant", "c", True)),
    ],
}
"""Rows that a trainer drops or learns nothing from."""
