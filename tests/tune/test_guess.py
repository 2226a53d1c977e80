"""A first guess of a tuning: from the number of guests, or from whoever wrote the study."""

from __future__ import annotations

import pytest

from hypertare.base.errors import InputError
from hypertare.study import StudyFile, find
from hypertare.tune import screen, space, tuner
from hypertare.tune.space import Knob, Space


def made(*overrides: str) -> Space:
    file = find("scheduler-weights")
    file.override(list(overrides), quick=False)
    return of(file)


def of(file: StudyFile) -> Space:
    study = file.study()
    assert study.tune is not None
    return space.make(file, study, study.tune, "xen")


def knob(*overrides: str) -> Knob:
    (one,) = made(*overrides).knobs
    return one


@pytest.mark.parametrize(
    ("guests", "weight"), [(1, 256), (2, 1024), (4, 4096), (8, 8192), (16, 8192)]
)
def test_the_level_nearest_to_the_published_law(guests: int, weight: int) -> None:
    """3072 for four guests lies between 2048 and 4096, by factors nearer to the latter."""
    assert knob(f"sut.guests={guests}").guess == weight


@pytest.mark.parametrize(("guests", "weight"), [(1, 256), (2, 1024), (4, 4096), (8, 4096)])
def test_the_short_form_s_levels_hold_the_guess_and_its_budget_screens_it(
    guests: int, weight: int
) -> None:
    file = find("scheduler-weights")
    file.override([f"sut.guests={guests}"], quick=True)
    (one,) = of(file).knobs
    assert one.guess == weight
    tune = file.study().tune
    assert tune is not None
    room = int(tuner.SCREEN_SHARE * int(tune.budget)) - len(one.levels)
    assert screen.design([one], room // tuner.REPLICATES) is not None


def test_the_screening_puts_the_guess_against_the_default() -> None:
    space = made()
    design = screen.design(space.knobs, 8)
    assert design is not None
    tried = {setting["knobs.driver_weight"] for setting in design.settings(space.default)}
    assert tried == {256, 4096}


def test_a_guess_that_is_the_default_leaves_the_farthest_level() -> None:
    assert knob("sut.guests=1").far == 8192


def test_a_range_takes_the_guess_as_it_is_or_its_end() -> None:
    wide = 'tune.knobs={"knobs.driver_weight" = {low = 256, high = 32768, log = true}}'
    assert knob(wide).guess == 3072
    narrow = 'tune.knobs={"knobs.driver_weight" = {low = 256, high = 2048, log = true}}'
    assert knob(narrow).guess == 2048


@pytest.mark.parametrize(
    "override",
    [
        'tune.guess={"knobs.driver_weight" = 300}',
        'tune.guess={"knobs.napi_weight" = 64}',
        'tune.guess={"knobs.driver_weight" = "by chance"}',
    ],
)
def test_what_is_no_level_is_refused(override: str) -> None:
    with pytest.raises(InputError, match="guess"):
        made(override)


def test_a_guess_by_guests_is_for_the_driver_domain_alone() -> None:
    other = 'tune.knobs={"knobs.napi_weight" = [1, 64]}'
    with pytest.raises(InputError, match=r"is for knobs\.driver_weight"):
        made(other, "tune.default={}", 'tune.guess={"knobs.napi_weight" = "by guests"}')


def test_levels_that_are_no_plain_values_are_told_apart() -> None:
    file = find("paging-thp")
    file.raw["tune"] = {"workload": "touch", "knobs": {"knobs.thp": ["always", "never"]}}
    tune = file.study().tune
    assert tune is not None
    (one,) = space.make(file, file.study(), tune, "guest").knobs
    assert set(one.levels) >= {"always", "never"}
    file.raw["tune"]["knobs"]["knobs.thp"] = ["always", "always"]
    with pytest.raises(InputError, match="stands twice"):
        space.make(file, file.study(), file.study().tune or tune, "guest")


def test_one_cpu_or_two_is_a_choice() -> None:
    file = find("napi-budget-cores")
    path = "workloads.load.receiver_cpus"
    file.raw["tune"] = {"workload": "load", "knobs": {path: [[1], [1, 2], [2]]}}
    study = file.study()
    assert study.tune is not None
    (one,) = space.make(file, study, study.tune, "native").knobs
    assert (one.levels, one.default, one.ordered) == (("1", "1,2", "2"), "1", False)
    file.raw["tune"]["knobs"][path] = [[1], "1"]
    with pytest.raises(InputError, match="stands twice"):
        space.make(file, study, file.study().tune or study.tune, "native")
