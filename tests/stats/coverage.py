"""Simulated experiments: how often a 95 % interval holds the truth.

`python -m tests.stats.coverage` prints in full what docs/method.md says of it; `--bootstrap` adds the
bootstrap (minutes).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from hypertare.stats import boots, interval, stop

EXPERIMENTS = 2_000
Array = NDArray[np.float64]
Noise = Callable[[np.random.Generator, tuple[int, ...]], Array]


def _disturbed(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Normal with, in one trial of twenty, a delay of six standard deviations on average."""
    hit = rng.random(shape) < 0.05
    return rng.standard_normal(shape) + np.where(hit, 6 * rng.exponential(size=shape), 0.0)


# The log of a trial's time on one side; of mean 0 or the same on both sides.
SIDES: dict[str, Noise] = {
    "lognormal": lambda rng, shape: rng.standard_normal(shape),
    "t, 3 degrees": lambda rng, shape: rng.standard_t(3, shape),
    "exponential": lambda rng, shape: rng.exponential(size=shape),
    "disturbed": _disturbed,
}


def log_ratios(noise: Noise, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Log ratios whose true mean is 0, with a standard deviation of about 1."""
    ratios = noise(rng, shape) - noise(rng, shape)
    return ratios / _SCALE[id(noise)]


_SCALE = {
    id(noise): float(np.subtract(*noise(np.random.default_rng(0), (2, 10**6))).std())
    for noise in SIDES.values()
}


def fixed(noise: Noise, n: int, seed: int) -> float:
    """Coverage of the t interval on n log ratios."""
    ratios = log_ratios(noise, np.random.default_rng(seed), (EXPERIMENTS, n))
    return _share(interval.of_mean(row) for row in ratios)


def one_sided(noise: Noise, n: int, seed: int) -> float:
    """Coverage where only the system under test is noisy: skew does not cancel."""
    rng = np.random.default_rng(seed)
    mean = float(noise(np.random.default_rng(0), (10**6,)).mean())
    return _share(interval.of_mean(row) for row in noise(rng, (EXPERIMENTS, n)) - mean)


def bootstrap(noise: Noise, n: int, seed: int) -> float:
    """Coverage of the BCa bootstrap interval on n log ratios."""
    rng = np.random.default_rng(seed)
    held = 0
    for rows in np.split(log_ratios(noise, rng, (EXPERIMENTS, n)), EXPERIMENTS // 50):
        seen = stats.bootstrap(
            (rows,), np.mean, axis=-1, n_resamples=1999, method="BCa", random_state=rng
        ).confidence_interval
        held += int(((seen.low <= 0) & (seen.high >= 0)).sum())
    return held / EXPERIMENTS


def stopped(
    noise: Noise,
    spread: float,
    seed: int,
    min_trials: int = 5,
    max_trials: int = 30,
    experiments: int = 10_000,
    naive: bool = False,
    cost: float = 0.0,
    of_cost: float = 0.0,
) -> tuple[float, float]:
    """Coverage and mean number of blocks under the stop rule, of a log ratio of `cost`.

    `spread` is the standard deviation of a log ratio over the precision.
    """
    precision = 0.02
    rng = np.random.default_rng(seed)
    ratios = log_ratios(noise, rng, (experiments, max_trials)) * spread * precision + cost
    widths = half_widths(ratios)
    counts = np.arange(1, max_trials + 1)
    if naive:
        over = (widths <= precision) & (counts >= min_trials)
    else:
        over = ends(widths, sufficient(ratios, precision, of_cost), min_trials)
    over[:, -1] = True
    last = over.argmax(axis=1)
    means = ratios.cumsum(axis=1)[np.arange(experiments), last] / (last + 1)
    # Half-widths are of the cost; back to the log ratio that the interval is made on.
    half = np.arcsinh(widths[np.arange(experiments), last] / np.exp(_below(ratios, last)))
    return float((np.abs(means - cost) <= half).mean()), float((last + 1).mean())


def stopped_by_noise(noise: Noise, spread: float, seed: int, cost: float) -> tuple[float, float]:
    """As `stopped`, where native's own noise is precise enough, and a fifth of the cost."""
    rng = np.random.default_rng(seed)
    native, guest = (
        noise(rng, (EXPERIMENTS, 30)) * spread * 0.02 / _SCALE[id(noise)] for _ in "ab"
    )
    ratios = guest - native + cost
    widths = half_widths(ratios)
    over = ends(widths, sufficient(ratios, 0.02, 0.2, 1.0, native), 5)
    over[:, -1] = True
    rows, last = np.arange(EXPERIMENTS), over.argmax(axis=1)
    means = ratios.cumsum(axis=1)[rows, last] / (last + 1)
    half = np.arcsinh(widths[rows, last] / np.exp(_below(ratios, last)))
    return float((np.abs(means - cost) <= half).mean()), float((last + 1).mean())


def booted(number: int, trials: int, effect: float, seed: int) -> float:
    """Coverage with boots that vary `effect` times as much as trials do."""
    rng = np.random.default_rng(seed)
    shape = (EXPERIMENTS, number, trials)
    values = rng.standard_normal(shape) + effect * rng.standard_normal((*shape[:2], 1))
    where = np.repeat(np.arange(number), trials).tolist()
    return _share(
        boots.mean(row, where).interval for row in values.reshape(EXPERIMENTS, number * trials)
    )


def pooled(number: int, trials: int, effect: float, seed: int) -> float:
    """As `booted`, by an interval that knows nothing of boots."""
    rng = np.random.default_rng(seed)
    shape = (EXPERIMENTS, number, trials)
    values = rng.standard_normal(shape) + effect * rng.standard_normal((*shape[:2], 1))
    return _share(interval.of_mean(row) for row in values.reshape(EXPERIMENTS, number * trials))


def stopped_by_boot(
    blocks: int,
    effect: float,
    spread: float,
    seed: int,
    least: int = 3,
    experiments: int = 1_000,
) -> tuple[float, float]:
    """Coverage and mean number of blocks under the stop rule, with so many blocks a boot."""
    rng = np.random.default_rng(seed)
    where = (np.arange(30) // blocks).tolist()
    held, taken = 0, 0
    for _ in range(experiments):
        ratios = rng.standard_normal(30) + effect * rng.standard_normal(30)[where]
        ratios *= 0.02 * spread / np.hypot(1.0, effect)
        rule = stop.StopRule(precision=0.02, min_trials=5, max_trials=30, min_boots=least)
        count = 0
        while rule.decide() is stop.Decision.CONTINUE:
            rule.add(float(ratios[count]), where[count])
            count += 1
        seen = boots.mean(ratios[:count], where[:count]).interval
        held += seen.low <= 0 <= seen.high  # type: ignore[operator]
        taken += count
    return held / experiments, taken / experiments


def two_runs(n_a: int, n_b: int, spread: float, seed: int) -> float:
    """Coverage of Welch's interval, run B `spread` times as noisy as run A."""
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((EXPERIMENTS, n_a))
    b = spread * rng.standard_normal((EXPERIMENTS, n_b))
    return _share(
        interval.welch(interval.of_mean(x), interval.of_mean(y)) for x, y in zip(a, b, strict=True)
    )


def decide(
    log_ratios: Array | list[float],
    *,
    boots: list[int] | None = None,
    baseline: Array | None = None,
    **rule: Any,
) -> stop.Decision:
    """What the rule says of the log ratios of the blocks so far, in order; one boot for each, and the
    baseline's logs where its noise counts.
    """
    judge = stop.StopRule(**rule)
    natives = [None] * len(log_ratios) if baseline is None else [float(log) for log in baseline]
    for ratio, boot, native in zip(log_ratios, boots or [0] * len(natives), natives, strict=True):
        judge.add(float(ratio), boot, baseline=native)
    return judge.decide()


def half_widths(log_ratios: Array, confidence: float = 0.95) -> Array:
    """Half-widths of the cost's interval after 1, 2, ... blocks of one boot, along the last axis.

    As a share of the larger side; infinite after one block. With `ends` it is the rule (`stop.StopRule`)
    for many series at once.
    """
    counts = np.arange(1, log_ratios.shape[-1] + 1)
    # Shifted by the first, or the running squares would cancel where the spread is small.
    shifted = log_ratios - log_ratios[..., :1]
    means = shifted.cumsum(axis=-1) / counts
    squares = (shifted**2).cumsum(axis=-1) - counts * means**2
    freedom = np.maximum(counts - 1, 1)
    errors = np.sqrt(np.maximum(squares, 0) / freedom / counts)
    half = stats.t.ppf((1 + confidence) / 2, freedom) * errors
    half[..., 0] = np.inf
    return _on_cost(means + log_ratios[..., :1], half)


def sufficient(
    log_ratios: Array,
    precision: float,
    of_cost: float,
    of_noise: float = 0.0,
    baseline: Array | None = None,
) -> Array:
    """The half-widths that suffice after 1, 2, ... blocks, along the last axis; `baseline` are its logs."""
    means = log_ratios.cumsum(axis=-1) / np.arange(1, log_ratios.shape[-1] + 1)
    wanted = np.maximum(precision, -of_cost * np.expm1(-np.abs(means)))
    if baseline is None:
        return wanted
    steps = np.diff(baseline, axis=-1, prepend=baseline[..., :1])
    counts = np.maximum(np.arange(baseline.shape[-1]), 1)
    spread = np.sqrt((steps**2).cumsum(axis=-1) / counts)
    return np.maximum(wanted, _on_cost(means, of_noise * spread))


def ends(widths: Array, precision: float | Array, min_trials: int) -> NDArray[np.bool_]:
    """Where the rule would end, along the last axis, given the half-widths so far."""
    counts = np.arange(1, widths.shape[-1] + 1)
    narrow = (widths <= precision) & (counts >= min_trials)
    first = np.where(narrow.any(axis=-1), narrow.argmax(axis=-1), widths.shape[-1])
    confirmed: NDArray[np.bool_] = counts - 1 - first[..., None] >= stop.CONFIRMING
    return narrow & (confirmed | (widths <= stop.AT_ONCE * precision))


def _on_cost(means: Array, half: Array) -> Array:
    return np.sinh(np.minimum(half, 700.0)) * np.exp(np.minimum(means, 0.0))


def _below(ratios: Array, last: NDArray[np.intp]) -> Array:
    rows = np.arange(len(ratios))
    return np.minimum(ratios.cumsum(axis=1)[rows, last] / (last + 1), 0.0)


def _share(intervals: object) -> float:
    held = [i.low <= 0 <= i.high for i in intervals]  # type: ignore[attr-defined]
    return sum(held) / len(held)


def _table(with_bootstrap: bool) -> None:
    print("Coverage of 95 % intervals, per cent\n\nfixed n: t on log ratios")
    sizes = (5, 8, 12, 20, 30)
    for name, noise in SIDES.items():
        print(f"  {name:14}", *(f"{n}: {100 * fixed(noise, n, n):.1f}" for n in sizes))
    print("fixed n, only one side noisy")
    for name, noise in SIDES.items():
        print(f"  {name:14}", *(f"{n}: {100 * one_sided(noise, n, n):.1f}" for n in sizes))
    if with_bootstrap:
        print("fixed n: BCa on log ratios")
        for name, noise in SIDES.items():
            print(f"  {name:14}", *(f"{n}: {100 * bootstrap(noise, n, n):.1f}" for n in sizes))
    for naive in (True, False):
        print(f"{'first narrow interval' if naive else 'stop rule'}: coverage (mean blocks)")
        for name, noise in SIDES.items():
            for low, most in ((5, 30), (3, 30), (5, 100)):
                cells = []
                for spread in (0.3, 0.6, 1.0, 1.6, 2.0, 3.0):
                    share, blocks = stopped(noise, spread, 1, low, most, naive=naive)
                    cells.append(f"{spread}: {100 * share:.1f} ({blocks:.1f})")
                print(f"  {name:14} {low}..{most}", *cells)
    print("stop rule at native's own noise: coverage (mean blocks) by spread, costs 0 and x2.7")
    for name, noise in SIDES.items():
        seen = [
            stopped_by_noise(noise, s, 1, cost) for s in (1.0, 3.0, 10.0) for cost in (0.0, 1.0)
        ]
        print(f"  {name:14}", *(f"{100 * share:.1f} ({blocks:.1f})" for share, blocks in seen))
    for way in (pooled, booted):
        print(f"boots x trials: boot effect 0, 0.3, 0.5, 1, 2 times a trial's ({way.__name__})")
        for number, trials in ((2, 6), (3, 4), (3, 10), (4, 5), (6, 5), (10, 3)):
            effects = (0.0, 0.3, 0.5, 1.0, 2.0)
            cells = [f"{100 * way(number, trials, effect, 1):.1f}" for effect in effects]
            print(f"  {number:2} x {trials:2}", *cells)
    print("stop rule by boots, of 2 and 4 blocks: coverage (mean blocks) by boot effect")
    for size, least in ((2, 3), (4, 3), (4, 1)):
        for spread in (0.5, 1.0, 2.0):
            seen = [
                stopped_by_boot(size, effect, spread, 1, least) for effect in (0.0, 0.5, 1.0, 2.0)
            ]
            cells = [f"{100 * share:.1f} ({blocks:.1f})" for share, blocks in seen]
            print(f"  {size} a boot, from {least} boots on, spread {spread}", *cells)
    print("two runs (Welch)")
    for sizes_ab in ((5, 5), (5, 20), (20, 5), (12, 12)):
        cells = [f"{100 * two_runs(*sizes_ab, spread, 1):.1f}" for spread in (1.0, 3.0)]
        print(f"  {sizes_ab}", *cells)


if __name__ == "__main__":
    _table("--bootstrap" in sys.argv)
