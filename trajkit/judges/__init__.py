"""Language models as judges: five axes, a robust reading of what they say, never a made-up number.

Source: Qwen-AgentWorld report, section 4 (axes and scale); the wording is ours.
"""

from trajkit.judges.judge import Asked, Judge, Judged, Preferred

__all__ = ["Asked", "Judge", "Judged", "Preferred"]
