"""Rationales: why an observation follows from an action, written by a world model.

Two roads: `rollout` (answers that never saw the recorded one, behind the gate and perhaps a judge)
and `hindsight` (an explanation of the recorded one, behind checks that it gives nothing away).
"""
