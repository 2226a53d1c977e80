"""Whole searches of machines whose loss is known: the bounds hold the truth, or say why they cannot."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from hypertare.search.plan import Found, Measured, Need
from hypertare.search.replay import replay
from hypertare.study.analyses import SearchSettings
from tests.search.made_up import Path, livelock, noisy, searched, settings, up_to

CAPACITIES = st.floats(min_value=1.2e7, max_value=9.5e8)
WIDTHS = st.sampled_from([0.005, 0.02, 0.1])
SHAPES = st.sampled_from([up_to, livelock])


@limits(deadline=None, max_examples=150)
@given(CAPACITIES, WIDTHS, SHAPES, st.sampled_from([1.0, 3.0]))
def test_the_bounds_hold_the_truth(capacity: float, width: float, shape, total: float) -> None:
    """What loses nothing is known, and so is what loses no more than 0.5 %: c/(1 - 0.005)."""
    wanted = settings(width=width, sum=total)
    search = searched(Path(shape(capacity)), wanted)
    assert search.reason is None
    none, some = search.found
    held(none, capacity, width)
    loses = capacity / (1 - 0.005) if shape is up_to else 2 * capacity / (2 - 0.005)
    held(some, loses, width)
    assert none.throughput == none.lower.rate  # type: ignore[union-attr]
    assert search.trials <= 40


def held(found: Found, truth: float, width: float) -> None:
    assert found.state == "found"
    assert found.lower is not None and found.upper is not None
    assert found.lower.rate <= truth <= found.upper.rate
    assert found.upper.rate - found.lower.rate <= width * found.upper.rate * (1 + 1e-9)
    assert found.lower.loss <= found.goal < found.upper.loss
    assert not found.sender and found.good_above is None and found.bad_below == 0


def test_noise_is_outvoted() -> None:
    """The capacity varies by 1 % from trial to trial; over 60 machines the bounds are rarely far off."""
    misses = 0
    for place in range(60):
        capacity = 2e7 * 1.06**place
        (found,) = searched(Path(noisy(capacity, 0.01)), settings(loss=[0.005], sum=7.0)).found
        assert found.state == "found" and found.lower and found.upper
        misses += not found.lower.rate * 0.98 <= capacity <= found.upper.rate * 1.02
    assert misses <= 3


def test_the_lowest_rate_loses() -> None:
    (found,) = searched(Path(lambda sent, _: 0.9 * sent), settings(loss=[0.0], low=2e6)).found
    assert found.state == "all lose" and found.lower is None and found.throughput is None
    assert found.upper and found.upper.rate == 2e6 and found.upper.loss == pytest.approx(0.1)


def test_the_highest_rate_loses_nothing() -> None:
    search = searched(Path(lambda sent, _: sent), settings(loss=[0.0], high=3e8))
    (found,) = search.found
    assert found.state == "none loses" and found.upper is None
    assert found.lower and found.lower.rate == 3e8 == found.throughput
    assert search.trials <= 4


def test_the_range_without_one_is_what_the_sender_can_send() -> None:
    search = searched(Path(up_to(5e7), sender=2e8), settings())
    assert (search.low, search.high) == (2e4, 2e8)
    assert replay(settings(), ()).need == Need(None, 0)


def test_a_sender_that_cannot_is_not_taken_for_loss() -> None:
    (found,) = searched(
        Path(lambda sent, _: sent, sender=5e7), settings(loss=[0.0], high=2e8)
    ).found
    assert found.state == "found" and found.sender
    assert found.lower and found.lower.rate <= 5.05e7 and found.upper and found.upper.loss == 0.0


def test_loss_that_does_not_grow_with_the_rate_is_reported() -> None:
    """One trial in five loses a tenth at any rate: what two of three trials say hides it."""

    def arrives(sent: float, chance: random.Random) -> float:
        return 0.9 * sent if chance.random() < 0.2 else min(sent, 4e7)

    seen = [searched(Path(arrives, 1e9 + k), settings(loss=[0.0])).found[0] for k in range(40)]
    assert sum(one.bad_below > 0 for one in seen) >= 10
    quiet = searched(Path(up_to(4e7)), settings(loss=[0.0])).found[0]
    assert quiet.bad_below == 0


def test_a_good_rate_above_the_bound_is_reported() -> None:
    """By noise alone a rate is found good above one that is found bad, now and then."""
    seen = [
        found
        for place in range(200)
        for found in searched(Path(noisy(2e7 * 1.015**place, 0.1)), settings(sum=1.0)).found
    ]
    irregular = [one for one in seen if one.good_above is not None]
    assert 5 <= len(irregular) < len(seen) / 4
    assert all(one.upper and one.good_above > one.upper.rate for one in irregular)  # type: ignore[operator]


def test_it_ends_at_its_most_trials_with_the_bounds_so_far() -> None:
    wanted = settings(loss=[0.0], width=1e-4, most_trials=9, low=1e6, high=1e9)
    search = searched(Path(livelock(1.23e8)), wanted)
    (found,) = search.found
    assert found.state == "limit" and search.trials == 9
    assert found.lower is None or found.lower.rate <= 1.23e8
    assert found.upper is None or found.upper.rate >= 1.23e8


def test_a_trial_that_fails_is_made_again_and_three_end_it() -> None:
    wanted = settings(high=1e9)
    (need,) = [replay(wanted, ()).need]
    assert need is not None
    broken = [Measured(need.rate, error="the guest panicked")] * 3
    again = replay(wanted, broken[:2])
    assert again.need == Need(need.rate, 2) and {f.state for f in again.found} == {"open"}
    ended = replay(wanted, broken)
    assert ended.need is None and ended.reason == "the guest panicked"
    assert {found.state for found in ended.found} == {"failed"}
    held(searched(Path(up_to(1e8)), wanted, broken[:2]).found[0], 1e8, wanted.width)


def test_a_range_that_is_none_is_reported() -> None:
    search = searched(Path(up_to(1e7), sender=1e8), settings(low=5e8))
    assert {found.state for found in search.found} == {"failed"}
    assert search.reason and "not below" in search.reason


def test_trials_of_other_settings_are_not_taken_for_its_own() -> None:
    search = replay(settings(high=1e9), [Measured(123.0, 123.0, 0.0)])
    assert search.need is None and search.reason == "its trials do not follow from its settings"


def test_a_search_goes_on_from_wherever_it_was_left() -> None:
    """Its state is its trials and nothing else."""
    wanted, path = settings(width=0.005), Path(noisy(1.7e8, 0.02))
    trials: list[Measured] = []
    while (need := replay(wanted, trials).need) is not None:
        trials.append(path.trial(need))
    whole = replay(wanted, trials)
    for cut in range(len(trials) + 1):
        assert searched(path, wanted, trials[:cut]) == whole


@pytest.mark.parametrize(
    "wrong", [{"loss": []}, {"loss": [1.0]}, {"width": 0}, {"low": 5, "high": 5}]
)
def test_settings_that_make_no_search(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        SearchSettings.model_validate({"workload": "udp", **wrong})
