"""Simulated factorials: how often 95 % intervals of shares and sizes hold the truth.

`python -m tests.stats.effects_coverage` prints in full what docs/method.md says.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from hypertare.stats.effects import decompose


@dataclass(frozen=True)
class Setting:
    """`spread`: of the cells' means, in standard deviations of a trial. `boots` change the effect of each
    factor by so much, in the same. `uneven`: standard deviation of the log of each cell's noise.
    """

    shape: tuple[int, ...]
    rounds: int
    boots: int
    spread: float
    by_boot: float = 0.0
    uneven: float = 0.0

    def __str__(self) -> str:
        named = f"{'x'.join(map(str, self.shape))}, {self.rounds} rounds in {self.boots} boots"
        return f"{named}, cells {self.spread:g}, boots {self.by_boot:g}, uneven {self.uneven:g}"


@dataclass(frozen=True)
class Held:
    """Shares of experiments, means over factors."""

    mains: float
    pairs: float
    totals: float
    leads: float
    sizes: float


SETTINGS = (
    Setting((2, 2, 2), 4, 4, 10),
    Setting((2, 2, 2), 4, 4, 1, by_boot=1),
    Setting((3, 4, 5), 4, 4, 10),
    Setting((3, 4, 5), 4, 4, 1),
    Setting((3, 4, 5), 6, 3, 10, by_boot=1),
    Setting((3, 4, 5), 4, 4, 3, uneven=0.5),
    Setting((2, 3), 5, 1, 3),
)


def held(setting: Setting, experiments: int, seed: int) -> Held:
    rng = np.random.default_rng(seed)
    shape, factors = setting.shape, range(len(setting.shape))
    boots = np.repeat(np.arange(setting.boots), setting.rounds // setting.boots)
    found: dict[str, list[bool]] = {
        "mains": [],
        "pairs": [],
        "totals": [],
        "leads": [],
        "sizes": [],
    }
    for _ in range(experiments):
        truth = _truth(rng, shape)
        values = truth.reshape(-1, 1) + _noise(rng, setting, boots) * truth.std() / setting.spread
        reported = decompose(values, shape, boots.tolist())
        exact = decompose(np.repeat(truth.reshape(-1, 1), 2, axis=1), shape, (0, 1))
        for subset, part in reported.parts.items():
            kind = "mains" if len(subset) == 1 else "pairs"
            found[kind].append(part.low <= exact.parts[subset].share + 1e-12 <= part.high + 2e-12)
        for pair, lead in reported.leads.items():
            found["leads"].append(lead.low <= exact.leads[pair].share <= lead.high)
        for i in factors:
            part, size = reported.totals[i], reported.sizes[i]
            found["totals"].append(part.low <= exact.totals[i].share + 1e-12 <= part.high + 2e-12)
            means = truth.mean(axis=tuple(j for j in factors if j != i))
            found["sizes"].append(size.low <= means[size.highest] - means[size.lowest] <= size.high)
    return Held(**{name: float(np.mean(seen)) for name, seen in found.items()})


def _truth(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Main effects that become smaller from factor to factor, and interactions of two."""
    truth = np.zeros(shape)
    for i in range(len(shape)):
        truth = truth + 2 / (i + 1) * rng.standard_normal(_along(shape, i))
    for pair in itertools.combinations(range(len(shape)), 2):
        truth = truth + 0.5 * rng.standard_normal(_along(shape, *pair))
    return truth


def _noise(rng: np.random.Generator, setting: Setting, boots: np.ndarray) -> np.ndarray:
    shape, cells = setting.shape, math.prod(setting.shape)
    own = np.exp(setting.uneven * rng.standard_normal((cells, 1)))
    noise = own * rng.standard_normal((cells, setting.rounds))
    for boot in range(setting.boots):
        changed = [rng.standard_normal(_along(shape, i)) for i in range(len(shape))]
        level = np.broadcast_to(sum(changed) + rng.standard_normal(), shape)
        noise[:, boots == boot] += setting.by_boot * level.reshape(-1, 1)
    return noise


def _along(shape: tuple[int, ...], *factors: int) -> tuple[int, ...]:
    return tuple(levels if place in factors else 1 for place, levels in enumerate(shape))


if __name__ == "__main__":
    print("Coverage of 95 % intervals, per cent: factors, interactions, totals, leads, sizes")
    for one in SETTINGS:
        seen = held(one, 2_000, 1)
        every = (seen.mains, seen.pairs, seen.totals, seen.leads, seen.sizes)
        print(f"  {one!s:58}", *(f"{100 * share:.1f}" for share in every))
