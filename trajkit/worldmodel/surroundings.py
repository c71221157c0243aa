"""What an engine may see and say while it loads: environment, standard output, warnings."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

_VARIABLES = {
    # Standard output belongs to the report, and of the engine's log only errors matter here.
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
    "PYTHONWARNINGS": "ignore",
    "VLLM_NO_USAGE_STATS": "1",
    # Threads that spin while they wait starve the one they wait for as soon as anything else
    # runs: 8 against 38 tokens a second with two cores shared.
    "OMP_WAIT_POLICY": "PASSIVE",
}


@contextmanager
def engine_surroundings(own: Mapping[str, str] | None = None) -> Iterator[None]:
    """Load and start an engine in quiet, with its environment variables, then put all back.

    What the user has set of the general variables stays; `own` ones are set in any case.
    What C libraries and child processes print to standard output goes to standard error.
    """
    values = {name: os.environ.get(name, value) for name, value in _VARIABLES.items()}
    values |= own or {}
    logged = logging.root.manager.disable
    sys.stdout.flush()
    stdout = os.dup(1)
    os.dup2(2, 1)
    logging.disable(max(logged, logging.WARNING))
    try:
        with hushed(), variables(values):
            yield
    finally:
        logging.disable(logged)
        os.dup2(stdout, 1)
        os.close(stdout)


@contextmanager
def variables(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables, for child processes too, then put the old values back."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def hushed() -> Iterator[None]:
    """Keep warnings of the engine's libraries, which nobody here can act on, from the user."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
