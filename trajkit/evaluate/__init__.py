"""Score a world model on a benchmark: rules always, judges when given, failures as failures.

`evaluate` reads AgentWorldBench, what `trajkit build-bench` writes, or any store with transitions.

Source: Qwen-AgentWorld report, section 4; what its script leaves out (resume, failed rows,
intervals) is ours.
"""

from trajkit.evaluate.stage import Options, evaluate

__all__ = ["Options", "evaluate"]
