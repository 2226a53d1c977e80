"""Do 95 % intervals hold the truth in 93 to 97 % of simulated experiments? Seeds are fixed."""

from __future__ import annotations

import numpy as np
import pytest

from hypertare.stats.stop import Decision
from tests.stats import coverage

LOW, HIGH = 0.93, 0.97


@pytest.mark.parametrize("n", [5, 12, 30])
@pytest.mark.parametrize("noise", ["lognormal", "t, 3 degrees", "exponential"])
def test_interval_on_log_ratios(noise: str, n: int) -> None:
    assert LOW <= coverage.fixed(coverage.SIDES[noise], n, seed=n) <= HIGH


@pytest.mark.parametrize("noise", ["t, 3 degrees", "exponential"])
def test_bootstrap_covers_less_at_five(noise: str) -> None:
    """The reason why it is not used: should this fail one day, decide anew."""
    assert coverage.bootstrap(coverage.SIDES[noise], 5, seed=5) < 0.88


@pytest.mark.parametrize("spread", [0.3, 0.6, 1.0, 1.6, 2.0, 3.0])
@pytest.mark.parametrize("noise", list(coverage.SIDES))
def test_stop_rule(noise: str, spread: float) -> None:
    share, _ = coverage.stopped(coverage.SIDES[noise], spread, seed=1)
    assert LOW <= share <= HIGH


def test_stop_rule_with_a_higher_limit() -> None:
    for spread in (1.0, 2.0, 3.0):
        share, _ = coverage.stopped(coverage.SIDES["lognormal"], spread, seed=2, max_trials=100)
        assert LOW <= share <= HIGH


@pytest.mark.parametrize("cost", [0.1, 0.3, 1.0, 3.2])
@pytest.mark.parametrize("spread", [1.0, 2.5, 5.0, 15.0])
@pytest.mark.parametrize("noise", list(coverage.SIDES))
def test_a_precision_relative_to_the_cost(noise: str, spread: float, cost: float) -> None:
    """Costs of 10 % to 25 times, known to a fifth of themselves."""
    share, blocks = coverage.stopped(coverage.SIDES[noise], spread, seed=1, cost=cost, of_cost=0.2)
    assert LOW <= share <= HIGH
    _, without = coverage.stopped(coverage.SIDES[noise], spread, seed=1, cost=cost)
    assert blocks <= without


@pytest.mark.parametrize("cost", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("spread", [1.0, 3.0, 15.0])
@pytest.mark.parametrize("noise", list(coverage.SIDES))
def test_a_precision_relative_to_the_noise(noise: str, spread: float, cost: float) -> None:
    """However noisy the machine, both sides alike: some ten blocks, and the interval still holds."""
    share, blocks = coverage.stopped_by_noise(coverage.SIDES[noise], spread, 1, cost)
    assert LOW <= share <= HIGH
    assert blocks < 13


def test_first_narrow_interval_would_not_do() -> None:
    """The reason for confirming."""
    share, naive = coverage.stopped(coverage.SIDES["lognormal"], 2.0, seed=1, naive=True)
    _, blocks = coverage.stopped(coverage.SIDES["lognormal"], 2.0, seed=1)
    assert share < 0.925
    assert blocks - naive < 4


def test_simulated_rule_is_the_real_one() -> None:
    """`decide`, asked after every block, ends where the vectorised parts end."""
    rng = np.random.default_rng(3)
    for _ in range(60):
        ratios = rng.standard_normal(30) * 0.02 * rng.uniform(0.2, 3) + rng.uniform(-1, 1)
        native = rng.standard_normal(30) * 0.02 * rng.uniform(0.2, 3)
        of_cost, of_noise = rng.choice([0.0, 0.2]), rng.choice([0.0, 1.0])
        wanted = coverage.sufficient(ratios, 0.02, of_cost, of_noise, native)
        over = coverage.ends(coverage.half_widths(ratios), wanted, 5)
        asked = [
            coverage.decide(
                ratios[:n],
                precision=0.02,
                min_trials=5,
                max_trials=30,
                of_cost=of_cost,
                of_noise=of_noise,
                baseline=native[:n],
            )
            for n in range(1, 31)
        ]
        first = next(n for n, said in enumerate(asked) if said is not Decision.CONTINUE)
        assert first == (over.argmax() if over.any() else 29)


@pytest.mark.parametrize(("boots", "trials"), [(4, 5), (6, 5), (10, 3)])
@pytest.mark.parametrize("effect", [0.3, 0.5, 1.0, 2.0])
def test_boots_that_differ(boots: int, trials: int, effect: float) -> None:
    assert LOW <= coverage.booted(boots, trials, effect, seed=7) <= HIGH


def test_stop_rule_by_boots() -> None:
    """What it reaches, no more: fewer boots than trials, and looks at each (docs/method.md)."""
    for effect in (0.0, 0.5):
        share, blocks = coverage.stopped_by_boot(2, effect, 1.0, seed=1, experiments=500)
        assert 0.91 <= share <= 0.985 and blocks < 15


def test_boots_that_do_not_differ_cost_little() -> None:
    for boots, trials in ((3, 10), (4, 5), (10, 3)):
        assert 0.945 <= coverage.booted(boots, trials, 0.0, seed=7) <= 0.98


def test_not_knowing_of_boots_would_not_do() -> None:
    assert coverage.pooled(4, 5, 1.0, seed=7) < 0.80


@pytest.mark.parametrize("spread", [1.0, 3.0])
@pytest.mark.parametrize("sizes", [(5, 5), (5, 20), (20, 5), (12, 12)])
def test_two_runs(sizes: tuple[int, int], spread: float) -> None:
    assert LOW <= coverage.two_runs(*sizes, spread, seed=11) <= HIGH
