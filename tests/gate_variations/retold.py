"""A screen told in another form: as prose, as JSON, as markup, as a list."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from html import escape

from gate_variations.pieces import spans

_ROLE_AND_NAME = re.compile(r"(?:\[[\w-]+\] ?)?<?([A-Za-z][\w. -]*?)[ >]+.*?(['\"])(.*?)\2")


def elements(pieces: Sequence[str]) -> list[tuple[str, str]]:
    """Return role and text of the pieces that have both."""
    found = []
    for piece in pieces:
        plain = piece.strip().removesuffix("[SEP]").strip()
        if "\t" in plain:
            role, _, rest = plain.partition("\t")
            name = " ".join(rest.split("\t")[:2]).strip()
        elif plain[:2] == "[{" or plain[:1] in ("{", '"'):
            role, name = "text", next((plain[start:end] for start, end in spans(plain)), "")
        elif (match := _ROLE_AND_NAME.match(plain)) is not None:
            role, name = match.group(1), match.group(3)
        elif plain[:1] not in ("<", "["):
            role, name = "text", plain
        else:
            continue
        if name:
            found.append((role, name))
    return found


def retold(pieces: Sequence[str], recorded: str, dice: random.Random) -> Iterator[str]:
    """Give two other forms of the same screen."""
    found = elements(pieces)
    if len(found) < 3:
        return
    prose = "The screen now shows " + ", ".join(f"a {role} “{name}”" for role, name in found) + "."
    listed = "\n".join(f"- **{role}**: {name}" for role, name in found)
    markup = "\n".join(
        f'<element kind="{escape(role)}" label="{escape(name)}"/>' for role, name in found
    )
    value = {"elements": [{"kind": role, "label": name} for role, name in found]}
    forms = [prose, listed]
    if not recorded.lstrip().startswith("<"):
        forms.append(markup)
    if recorded.lstrip()[:1] not in ("{", "[") or " " in recorded.lstrip()[:6]:
        forms.append(json.dumps(value, indent=2, ensure_ascii=False))
    yield from dice.sample(forms, 2)
