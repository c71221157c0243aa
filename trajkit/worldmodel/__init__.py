"""World models: what predicts the next observation, behind one small interface.

`open_world_model` takes a SPEC and gives one of four backends; `CachedWorldModel` keeps what any
of them said. Importing this package loads neither vLLM nor a client.
"""

from trajkit.worldmodel.cache import CachedWorldModel
from trajkit.worldmodel.embedded import is_embedded
from trajkit.worldmodel.protocol import (
    Completion,
    Request,
    Sampling,
    Scored,
    Scoring,
    WorldModel,
)
from trajkit.worldmodel.spec import EngineOptions, open_world_model

__all__ = [
    "CachedWorldModel",
    "Completion",
    "EngineOptions",
    "Request",
    "Sampling",
    "Scored",
    "Scoring",
    "WorldModel",
    "is_embedded",
    "open_world_model",
]
