"""How often the fidelity gate is right, on answers with a known verdict, by domain and kind.

The transitions are those of `examples/logs` and of further folders of logs. A third of the
trajectories is kept out of all tuning; the second table is that third alone. `accept` kinds count
how many pass, `refuse` kinds how many do not. The last table is what `thresholds.toml` was chosen
by, from the two thirds alone: where the scores of right answers end, and where those of wrong ones
do that no blocking finding stops.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from gate_variations import ACCEPT, KINDS, samples, variations  # noqa: E402

from trajkit import domains  # noqa: E402
from trajkit.fidelity.findings import AXES, Verdict  # noqa: E402
from trajkit.fidelity.gate import WEIGHTS, judge  # noqa: E402
from trajkit.fidelity.thresholds import NAMES, shipped  # noqa: E402

_SHARED = ROOT.parent / "shared" / "samples"


def main() -> None:
    """Print the tables, then how many checks were made a second."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", nargs="*", type=Path, help="More folders of logs.")
    parser.add_argument("--domain", choices=domains.ORDER, help="One domain only.")
    parser.add_argument("--most", type=int, default=200, help="Transitions a domain.")
    parser.add_argument("--show", metavar="KIND", help="Print what the gate got wrong.")
    parser.add_argument("--tuning", action="store_true", help="Leave the held-out third alone.")
    options = parser.parse_args()
    more = options.logs if options.logs is not None else [_SHARED] if _SHARED.exists() else []
    counts: Counter[tuple[bool, str, str, bool]] = Counter()
    n_checks: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    scores: dict[tuple[str, str, bool], float] = {}
    with TemporaryDirectory() as folder:
        logs = [ROOT / "examples" / "logs", *more]
        for sample in samples(Path(folder), logs, options.most):
            domain = sample.case.domain
            if options.domain not in (None, domain) or (options.tuning and sample.held_out):
                continue
            for one in variations(sample):
                case = replace(sample.case, prediction=one.text)
                start = time.process_time()
                verdict = judge(case)
                seconds[domain] += time.process_time() - start
                n_checks[domain] += 1
                right = verdict.passed == (one.kind in ACCEPT)
                counts[sample.held_out, domain, one.kind, right] += 1
                if not sample.held_out:
                    _note(scores, one.kind in ACCEPT, case.domain, verdict)
                if one.kind == options.show and not right:
                    _show(sample.trajectory_id, case, verdict.reason)
    for held_out in (False, True):
        print(f"\n{'held-out third' if held_out else 'the other two thirds'}: right of all")
        _table({key[1:]: n for key, n in counts.items() if key[0] is held_out})
    print("\nleast score of right answers / highest of wrong ones that only a threshold refuses")
    print(f"{'axis':<20}" + "".join(f"{domain:>18}" for domain in domains.ORDER))
    for axis in NAMES:
        cells = []
        for domain in domains.ORDER:
            right, wrong = (scores.get((domain, axis, side)) for side in (True, False))
            cells.append(" / ".join("-" if one is None else f"{one:.2f}" for one in (right, wrong)))
        print(f"{axis:<20}" + "".join(f"{cell:>18}" for cell in cells))
    print("\nchecks a second of one core")
    for domain in domains.ORDER:
        if seconds[domain]:
            print(f"{domain:<12}{n_checks[domain] / seconds[domain]:>9.0f}")


def _note(
    scores: dict[tuple[str, str, bool], float], right: bool, domain: str, verdict: Verdict
) -> None:
    """Keep the least score of right answers by axis, the highest of wrong ones it refuses."""
    own = {axis: getattr(verdict, axis) for axis in AXES}
    own["overall"] = sum(own[axis] * WEIGHTS[axis] for axis in AXES) / sum(WEIGHTS.values())
    if right:
        for axis, score in own.items():
            scores[domain, axis, True] = min(score, scores.get((domain, axis, True), 1.0))
    elif not any(one.blocking and one.score < 0.5 for one in verdict.findings):
        axis = next((name for name in NAMES if own[name] < shipped()[domain][name]), None)
        if axis is not None:
            scores[domain, axis, False] = max(own[axis], scores.get((domain, axis, False), 0.0))


def _table(counts: dict[tuple[str, str, bool], int]) -> None:
    print(f"{'kind':<20}" + "".join(f"{domain:>18}" for domain in domains.ORDER))
    for kind in KINDS:
        cells = []
        for domain in domains.ORDER:
            right, wrong = (counts.get((domain, kind, side), 0) for side in (True, False))
            n = right + wrong
            cells.append(f"{right / n:.3f} ({right}/{n})" if n else "-")
        print(f"{kind:<20}" + "".join(f"{cell:>18}" for cell in cells))


def _show(trajectory_id: str, case: object, reason: str | None) -> None:
    print(f"--- {trajectory_id} {reason}\n{case!r}"[:4_000])


if __name__ == "__main__":
    main()
