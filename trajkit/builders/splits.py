"""Train, validation and test: which side a group of episodes stands on."""

from __future__ import annotations

from dataclasses import dataclass

from trajkit.errors import TrajkitError

SPLITS = ("train", "validation", "test")


@dataclass(frozen=True, kw_only=True)
class Splits:
    """Which groups go where; decided by the name of a group alone.

    Raises TrajkitError for shares that leave nothing to train on, or a pool that is no range.
    """

    validation: float = 0.05
    """Share of groups in validation."""
    test: float = 0.05
    """Share of groups in test."""
    pool: tuple[float, float] = (0.0, 1.0)
    """Range of all groups that this build may use: stages that must share none get ranges that do
    not meet. Independent of the sides."""

    def __post_init__(self) -> None:
        shares = (self.validation, self.test)
        if min(shares) < 0 or sum(shares) >= 1:
            raise TrajkitError(
                "--validation, --test",
                f"{self.validation} and {self.test} are no two shares that leave some to train on",
                "0.05 each is the default",
            )
        if not 0 <= self.pool[0] < self.pool[1] <= 1:
            raise TrajkitError(
                "--pool", f"{self.pool[0]}:{self.pool[1]} is no range", "as in --pool 0:0.7"
            )

    def side(self, split_group: str) -> str | None:
        """Return the side of a group; null when it is in another pool.

        >>> Splits(validation=0.05).side("0123456789abcdef"), Splits(pool=(0, 0.5)).side("8" * 16)
        ('validation', None)
        """
        # Read backwards, so that the pools say nothing about the sides.
        if not self.pool[0] <= _share(split_group[::-1]) < self.pool[1]:
            return None
        share = _share(split_group)
        # Low hashes go to validation and high ones to test, so that raising a share only ever
        # takes from train.
        if share < self.validation:
            return "validation"
        return "test" if share >= 1 - self.test else "train"


def _share(digits: str) -> float:
    return float(int(digits[:13], 16) / 16**13)
