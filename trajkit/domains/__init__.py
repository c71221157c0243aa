"""The seven domains: one file each, looked up here by name."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from trajkit.domains.base import Domain
from trajkit.model import Domain as DomainName
from trajkit.model import Trajectory

# The order decides which domain an episode is given to when its content alone must tell:
# the most specific surface first, any other tool call last.
ORDER: tuple[DomainName, ...] = ("android", "os", "web", "search", "terminal", "swe", "mcp")


@cache
def load(name: str) -> Domain:
    """Return a domain by name."""
    domain: Domain = import_module(f"trajkit.domains.{name}").DOMAIN
    return domain


def guess(trajectory: Trajectory) -> DomainName | None:
    """Return the domain that an episode's actions point to, or None when none does."""
    return next((name for name in ORDER if load(name).claims(trajectory)), None)
