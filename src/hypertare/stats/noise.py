"""The noise floor: what the baseline costs against itself."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hypertare.stats.interval import around, t_quantile
from hypertare.stats.ratio import Better, ByBlock, cost_bounds


@dataclass(frozen=True)
class Floor:
    """`least` is the least cost that the run could have shown, a share; `low` and `high` bound the
    cost of the baseline against itself; it rests on `n` pairs. `spread` is how much it differed from
    one block to the next, a share.
    """

    least: float
    low: float
    high: float
    n: int
    pairs: Literal["same block", "successive blocks"]
    spread: float


class Spread:
    """How much one trial differs from the next, value by value: the root of the mean square of
    successive differences. A slow drift hardly enters it, as it hardly enters what pairs of a block say.

    Source: von Neumann, Kent, Bellinson & Hart (1941), Annals of Mathematical Statistics 12, 153-162.
    """

    def __init__(self) -> None:
        self._last: float | None = None
        self._squares = 0.0
        self._count = 0

    def add(self, value: float) -> None:
        if self._last is not None:
            self._squares += (value - self._last) ** 2
            self._count += 1
        self._last = value

    @property
    def value(self) -> float:
        """0 until there are two values."""
        return math.sqrt(self._squares / self._count) if self._count else 0.0


def spread(logs: Iterable[float]) -> float:
    """Of a series that is there, on the scale of the values given."""
    made = Spread()
    for log in logs:
        made.add(log)
    return made.value


def floor(baseline: ByBlock, better: Better, confidence: float = 0.95) -> Floor | None:
    """From the baseline's trials by block, each block's in the order in which they ran.

    Where at least two blocks hold two trials of the baseline or more, the pairs are the first
    against the second of each block (the third against the fourth, ...). Else they are the trials
    of successive blocks, the first against the second, the third against the fourth, and so on: no
    trial serves twice, so pairs are independent. Pairs of successive blocks also hold what changes
    between blocks, which cancels in a cost; their floor is then too high rather than too low.

    An A/A comparison has a true log ratio of 0, so the spread of a pair is s = √(mean of squares),
    and a lasting difference between first and second counts as noise, as it should. Over b blocks
    with a system as noisy as the baseline, a cost's interval has the half-width t(b-1) s/√b: what
    lies below could not have been shown. On the cost: sinh of it.

    Source: A/A tests: Kohavi, Tang & Xu (2020), Trustworthy Online Controlled Experiments, chapter
    19; the least significant difference: Fisher (1935), The Design of Experiments.

    Returns:
        `None` with fewer than two pairs, or with a value of zero or below.
    """
    blocks = [[float(value) for value in baseline[block]] for block in sorted(baseline)]
    blocks = [block for block in blocks if block]
    if any(value <= 0 for block in blocks for value in block):
        return None
    again = sum(len(block) > 1 for block in blocks) >= 2
    inside = [(block[i], block[i + 1]) for block in blocks for i in range(0, len(block) - 1, 2)]
    successive = [(a[0], b[0]) for a, b in zip(blocks[::2], blocks[1::2], strict=False)]
    pairs = inside if again else successive
    if len(pairs) < 2:
        return None

    logs = np.diff(np.log(pairs), axis=1).ravel()
    of_a_pair = math.sqrt(float(np.mean(logs**2)))
    quantile = t_quantile(len(blocks) - 1, (1 + confidence) / 2)
    least = math.sinh(min(quantile * of_a_pair / math.sqrt(len(blocks)), 700.0))

    error = float(np.std(logs, ddof=1)) / math.sqrt(len(logs))
    shown = around(float(logs.mean()), error, len(logs) - 1, len(logs), confidence)
    assert shown.low is not None and shown.high is not None
    low, high = cost_bounds(shown.low, shown.high, better)
    steps = math.sinh(min(spread(math.log(block[0]) for block in blocks), 700.0))
    return Floor(least, low, high, len(logs), "same block" if again else "successive blocks", steps)
