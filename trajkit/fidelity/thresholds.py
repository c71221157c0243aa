"""The least scores of an accepted prediction, by domain, from a file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from trajkit import domains
from trajkit.errors import TrajkitError, alternatives, quote
from trajkit.fidelity.findings import AXES

Thresholds = Mapping[str, Mapping[str, float]]
"""Domain -> axis or `overall` -> least score."""

NAMES: tuple[str, ...] = (*AXES, "overall")
_SHIPPED = Path(__file__).with_name("thresholds.toml")


@cache
def shipped() -> Thresholds:
    """Return the thresholds that come with the package: all names of all domains."""
    return tomllib.loads(_SHIPPED.read_text(encoding="utf-8"))


def read_thresholds(path: str | Path | None = None) -> Thresholds:
    """Return the shipped thresholds with those of a file in their place.

    Raises TrajkitError when the file is missing, no TOML, or names what is no threshold.
    """
    if path is None:
        return shipped()
    try:
        given = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise TrajkitError(str(path), f"cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TrajkitError(str(path), f"is not TOML: {error}") from None
    for domain, own in given.items():
        if domain not in domains.ORDER or not isinstance(own, dict):
            hint = f"a section is one of {alternatives(domains.ORDER)}"
            raise TrajkitError(f"{path}: {quote(domain)}", "is no domain", hint)
        for name, least in own.items():
            where = f"{path}: [{domain}] {quote(name)}"
            if name not in NAMES:
                raise TrajkitError(where, "is no threshold", f"name one of {alternatives(NAMES)}")
            if type(least) not in (int, float) or not 0 <= least <= 1:
                raise TrajkitError(where, f"is no score: {quote(least)}", "give a number, 0 to 1")
    return {domain: {**own, **given.get(domain, {})} for domain, own in shipped().items()}
