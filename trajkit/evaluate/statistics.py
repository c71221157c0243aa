"""Means over rows that hang together in trajectories, with intervals that allow for it.

Rows of one trajectory share its difficulty: taken as independent they would promise more than
they hold. The variance is that of a ratio estimator over trajectories (linearised, with the
G / (G - 1) correction), the interval Student's t with one degree of freedom less than
trajectories. Sums are exact (`math.fsum`): the order of the rows changes no bit.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_SMALL_QUANTILES = (12.7062, 4.3027, 3.1824, 2.7764)
"""Two-sided 95 % quantiles of Student's t for 1 to 4 degrees of freedom."""
_Z = 1.959963984540054


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean with what is known of its error."""

    mean: float
    standard_error: float | None
    """Null when a single trajectory tells nothing of the spread between them."""
    degrees: float | None
    """Degrees of freedom of the error."""
    n_rows: int
    n_trajectories: int

    def interval(self) -> tuple[float, float] | None:
        """Return the 95 % interval, null when there is no error to build it from."""
        if self.standard_error is None or self.degrees is None:
            return None
        reach = t_quantile(self.degrees) * self.standard_error
        return self.mean - reach, self.mean + reach


def estimate(rows: Iterable[tuple[str, float]]) -> Estimate | None:
    """Return the mean of rows `(trajectory, value)`, null without rows.

    >>> found = estimate([("a", 40.0), ("a", 60.0), ("b", 90.0)])
    >>> round(found.mean, 4), round(found.standard_error, 4)
    (63.3333, 17.7778)
    """
    clusters: dict[str, list[float]] = defaultdict(list)
    for trajectory, value in rows:
        clusters[trajectory].append(value)
    n_rows = sum(map(len, clusters.values()))
    if not n_rows:
        return None
    mean = math.fsum(value for values in clusters.values() for value in values) / n_rows
    n_clusters = len(clusters)
    error = degrees = None
    if n_clusters > 1:
        # The mean is taken off before summing, so that equal values leave nothing behind.
        residuals = (math.fsum(v - mean for v in values) for values in clusters.values())
        spread = math.fsum(residual**2 for residual in residuals)
        error = math.sqrt(n_clusters / (n_clusters - 1) * spread) / n_rows
        degrees = float(n_clusters - 1)
    return Estimate(
        mean=mean,
        standard_error=error,
        degrees=degrees,
        n_rows=n_rows,
        n_trajectories=n_clusters,
    )


def macro(parts: Sequence[Estimate]) -> Estimate | None:
    """Return the mean of the means of independent parts, each counted alike; null without any.

    Degrees of freedom after Welch and Satterthwaite.
    """
    if not parts:
        return None
    errors = [(p.standard_error, p.degrees) for p in parts]
    variance = degrees = None
    known = [(error, freedom) for error, freedom in errors if error is not None and freedom]
    if len(known) == len(parts):
        variance = math.fsum(error**2 for error, _ in known)
        below = math.fsum(error**4 / freedom for error, freedom in known)
        degrees = variance**2 / below if below else math.fsum(freedom for _, freedom in known)
    return Estimate(
        mean=math.fsum(p.mean for p in parts) / len(parts),
        standard_error=None if variance is None else math.sqrt(variance) / len(parts),
        degrees=degrees,
        n_rows=sum(p.n_rows for p in parts),
        n_trajectories=sum(p.n_trajectories for p in parts),
    )


def difference(new: Estimate, old: Estimate) -> Estimate:
    """Return how much a mean moved between two runs that share no rows."""
    two = macro([new, old])
    assert two is not None
    # The error of a sum is that of a difference, and a mean of two is half a sum.
    error = None if two.standard_error is None else 2 * two.standard_error
    return Estimate(
        mean=new.mean - old.mean,
        standard_error=error,
        degrees=two.degrees,
        n_rows=new.n_rows,
        n_trajectories=new.n_trajectories,
    )


def t_quantile(degrees: float) -> float:
    """Return the two-sided 95 % quantile of Student's t.

    Off by a ten-thousandth at most: a table up to 4 (fractions are rounded down, to the wider
    side), an expansion around the normal quantile above.

    Source: Abramowitz and Stegun, 26.7.5.

    >>> [round(t_quantile(n), 2) for n in (1, 5, 10, 30, 1000)]
    [12.71, 2.57, 2.23, 2.04, 1.96]
    """
    if degrees < 5:
        return _SMALL_QUANTILES[max(int(degrees), 1) - 1]
    z = _Z
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / degrees**power for power, term in enumerate(terms, 1))


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return Spearman's rank correlation, ties by their mean rank; null when one side is constant.

    >>> rank_correlation([1, 2, 2, 4], [10, 20, 20, 40])
    1.0
    """
    one, two = _ranks(first), _ranks(second)
    middle = (len(one) + 1) / 2
    product = math.fsum((a - middle) * (b - middle) for a, b in zip(one, two, strict=True))
    squares = [math.fsum((a - middle) ** 2 for a in ranks) for ranks in (one, two)]
    if not all(squares):
        return None
    return product / math.sqrt(squares[0] * squares[1])


def _ranks(values: Sequence[float]) -> list[float]:
    order = sorted(range(len(values)), key=lambda n: values[n])
    ranks = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and values[order[end + 1]] == values[order[start]]:
            end += 1
        for place in range(start, end + 1):
            ranks[order[place]] = (start + end) / 2 + 1
        start = end + 1
    return ranks
