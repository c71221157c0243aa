"""Stores built once from the real logs of the repository, shared by all tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from embedded_fixture import embedded_cache, embedded_world_model
from hub_fixtures import cpt, flow, hub
from hypothesis import settings

from trajkit.dedup import dedup
from trajkit.filters import filter_episodes
from trajkit.ingest import ingest
from trajkit.transitions import transitions

# Timings on a shared machine say nothing, and a failure must come back on the next run.
settings.register_profile("trajkit", deadline=None, derandomize=True, max_examples=60)
settings.register_profile("fuzz", deadline=None, max_examples=20_000, print_blob=True)
settings.load_profile("trajkit")

__all__ = ["cpt", "embedded_cache", "embedded_world_model", "flow", "hub"]

ROOT = Path(__file__).parent.parent
LOGS = ROOT / "examples" / "logs"


@pytest.fixture(scope="session")
def raw_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of `examples/logs`, ingested."""
    out = tmp_path_factory.mktemp("stores") / "raw"
    ingest((str(LOGS),), out, quiet=True)
    return out


@pytest.fixture(scope="session")
def filtered_store(raw_store: Path) -> Path:
    """The same, filtered."""
    out = raw_store.with_name("filtered")
    filter_episodes(raw_store, out, quiet=True)
    return out


@pytest.fixture(scope="session")
def unique_store(filtered_store: Path) -> Path:
    """The same, deduplicated."""
    out = filtered_store.with_name("unique")
    dedup(filtered_store, out, quiet=True)
    return out


@pytest.fixture(scope="session")
def transitions_store(unique_store: Path) -> Path:
    """The same, cut into transitions."""
    out = unique_store.with_name("transitions")
    transitions(unique_store, out, quiet=True)
    return out
