"""Verifiers: plain data that says of an answer, without a model, whether what is settled is right.

Only a turn whose observation action, history or an instruction settle has any, on three axes:
controllability, error handling, long context. Each was tried on the truth, on right variations of
it and on wrong answers before it is written.

Source: Qwen-AgentWorld report, section 3.4 and appendix C (rule rewards on a subset of turns); how
verifiers are found and proven is ours.
"""

from trajkit.verifiers.kinds import AXES, KINDS, Axis, Kind, Verifier, read, verify, written
from trajkit.verifiers.proof import Proven, prove, proven, refusal
from trajkit.verifiers.propose import propose
from trajkit.verifiers.rollouts import Rollout

__all__ = [
    "AXES",
    "KINDS",
    "Axis",
    "Kind",
    "Proven",
    "Rollout",
    "Verifier",
    "propose",
    "prove",
    "proven",
    "read",
    "refusal",
    "verify",
    "written",
]
