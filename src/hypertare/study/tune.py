"""The `[tune]` table of a study. No I/O, no libraries."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from hypertare.base.closed import Settings
from hypertare.base.quantities import Share, as_levels
from hypertare.base.variables import Level
from hypertare.platforms.guest_settings import LOSE_DATA
from hypertare.platforms.registry import PlatformName

Goal = Literal["goodput", "cpu", "balance"]
BY_GUESTS = "by guests"
"""A guess that follows from how many guests there are."""

PHASE = "tune.phase"
"""Stands in the cell of every trial of a tuning: what it was for."""


class Range(Settings):
    """A knob of whole numbers from `low` to `high`, both included."""

    low: int
    high: int
    log: bool = False

    @model_validator(mode="after")
    def _ordered(self) -> Range:
        if self.low >= self.high:
            raise ValueError("'low' must be below 'high'")
        if self.log and self.low < 1:
            raise ValueError("'low' must be at least 1 where 'log' is true")
        return self


class Ladder(Settings):
    """Levels in ascending order, with a goal of the knob's own."""

    levels: Annotated[tuple[Level, ...], Field(min_length=2), BeforeValidator(as_levels)]
    goal: Literal["smallest-without-loss"]


Levels = tuple[Level, ...]


def _shape(given: object) -> object:
    """Picks the kind by its keys, so that a mistake is explained for one kind and not for three."""
    if isinstance(given, dict):
        kind = Ladder if "levels" in given else Range
        try:
            return kind.model_validate(given)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            message = first["msg"].removeprefix("Value error, ")
            raise ValueError(f"{place}: {message}" if place else message) from None
    if isinstance(given, Range | Ladder):
        return given
    if not isinstance(given, list | tuple) or not given:
        raise ValueError("write levels, as [1, 8, 64], or a range, as { low = 1, high = 256 }")
    levels = as_levels(given)
    if any(not isinstance(level, str | int | float | bool) for level in levels):
        raise ValueError(
            "a level is one value or a list of CPUs or weights, no other list and no table"
        )
    return levels


KnobLevels = Annotated[Range | Ladder | Levels, BeforeValidator(_shape)]


def _one_level(given: object) -> object:
    (level,) = as_levels((given,))
    if isinstance(level, list | dict):
        raise ValueError("a default must be one level")
    return level


def _each_of(levels: Range | Ladder | Levels) -> Levels:
    """Those that are named."""
    if isinstance(levels, Range):
        return ()
    return levels.levels if isinstance(levels, Ladder) else levels


class TuneSettings(Settings):
    """What may be changed, from where, for which workload."""

    knobs: dict[str, KnobLevels] = {}
    """By path: levels, a range of whole numbers `{ low = 1, high = 256, log = true }`, or `{ levels =
    [...], goal = "smallest-without-loss" }`, ascending. Default: the study's factors.
    """
    default: dict[str, Annotated[Level, BeforeValidator(_one_level)]] = {}
    """By path, the level to beat. Default: the study's, else the system's own."""
    guess: dict[str, Annotated[Level, BeforeValidator(_one_level)]] = {}
    """By path, a level that the screening compares with the default in place of the farthest.
    `knobs.driver_weight`: `"by guests"`, nearest to (log2 N + 1) N 256, N = `sut.guests`.
    """
    workload: str | None = None
    """The workload that is tuned. Default: the one that knobs belong to, else the first."""
    platform: PlatformName | None = None
    """The platform that is tuned. Default: `guest` where there is one."""
    goal: Goal = "goodput"
    """What is to be gained; or `cpu`, `balance` (both)."""
    throughput: str | None = None
    """The response that stands for throughput. Default: the main one."""
    cpu: str | None = None
    """The response that stands for CPU time. Default: `cpu_per_gigabyte` of streams, else `machine_cpu`."""
    budget: Annotated[int, Field(ge=1)] | str = 160
    """Trials, or a time (`"10m"`)."""
    threshold: Share | None = None
    """The least gain that matters. Default: `design.threshold`."""
    loss: Share = 0.0
    """The loss that still counts as none."""
    known: str | None = None
    """An earlier run whose cells the search knows (`--from RUN`)."""

    @model_validator(mode="after")
    def _loses_nothing(self) -> TuneSettings:
        """What is recommended is done by people whose data matter."""
        for path, levels in self.knobs.items():
            lossy = LOSE_DATA.get(path, frozenset()).intersection(map(str, _each_of(levels)))
            if lossy:
                raise ValueError(
                    f"knobs.{path}: '{min(lossy)}' loses data in a power cut, so it is never recommended: "
                    "leave it out"
                )
        return self

    def highest(self, knob: str) -> int | None:
        """The largest whole number that a knob may be set to."""
        wanted = self.knobs.get(knob, ())
        if isinstance(wanted, Range):
            return wanted.high
        return max((level for level in _each_of(wanted) if isinstance(level, int)), default=None)
