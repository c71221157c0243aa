"""What a search gives: a span of bytes, and why it may not be published."""

from __future__ import annotations

import re
from typing import NamedTuple

GROUPS = {"email": "email", "user_name": "user", "phone": "phone"}
"""The word in the placeholder, by kind of finding; all other kinds are secrets."""
PLACEHOLDER = re.compile(rb"<(secret|email|user|phone):([0-9]{1,9})>")
"""What stands for something that was taken out."""


class Finding(NamedTuple):
    """A span that may not be published."""

    start: int
    """First byte."""
    end: int
    """Byte after the last."""
    kind: str
    """Why: a stable slug, which the report counts."""
    bare: bool = False
    """True for a number of JSON, whose placeholder needs quotes."""

    @property
    def group(self) -> str:
        """Return the word in the placeholder."""
        return GROUPS.get(self.kind, "secret")
