"""Cost of the fidelity gate on long observations, as a ratio: 1 MB against a quarter of it.

A check that is linear comes out near 4, a quadratic one near 16.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from trajkit import domains
from trajkit.fidelity.findings import Case, Turn
from trajkit.fidelity.gate import judge

LINES: dict[str, Callable[[int], str]] = {
    "prose": lambda n: f"line {n} at 2026-01-05 10:00:{n % 60:02} error: x/{n}.py",
    "axtree": lambda n: f"\t[{n}] link 'name {n}', value='x {n % 97}'",
    "results": lambda n: f"[{n}] https://s{n}.example/p\nTitle: T\nSnippet: s {n}\nDate: 20",
    "json": lambda n: f'{{"id": {n}, "price": {n}.5}},',
}


def main() -> None:
    """Print one line for each domain and shape: CPU seconds of 1 MB, and the ratio."""
    print(f"{'domain':<10}{'shape':<10}{'seconds':>9}{'ratio':>8}")
    for domain in domains.ORDER:
        for shape, line in LINES.items():
            quarter, whole = (_seconds(domain, line, n) for n in (250_000, 1_000_000))
            print(f"{domain:<10}{shape:<10}{whole:>9.2f}{whole / quarter:>8.1f}")


def _seconds(domain: str, line: Callable[[int], str], n_chars: int) -> float:
    text = "\n".join(line(n) for n in range(n_chars // len(line(1_000))))
    middle = len(text) // 2
    action = Turn(action='{"name": "get", "arguments": {}}', action_kind="tool_call")
    past = Turn(action="x", action_kind="tool_call", observation=text[:-3_000] + "abc")
    case = Case(
        domain=domain,
        action=action,
        history=(past,),
        recorded=text,
        prediction=text[:middle] + "zz" + text[middle:],
    )
    start = time.process_time()
    judge(case)
    return time.process_time() - start


if __name__ == "__main__":
    main()
