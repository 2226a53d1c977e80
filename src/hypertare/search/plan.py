"""Which searches a study asks for, one for each setting; their input, trial by trial, and their result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypertare.base.errors import InputError
from hypertare.base.variables import Cell, Level
from hypertare.platforms.registry import find
from hypertare.study import Study, StudyFile, combinations
from hypertare.study.analyses import SearchSettings

if TYPE_CHECKING:
    from hypertare.runs.summary import RateBound, SearchState


_RATE = "rate"


@dataclass(frozen=True)
class Setting:
    """What one search is about: a platform with levels of the factors that are searched over."""

    platform: str
    levels: Cell


@dataclass(frozen=True)
class SearchPlan:
    """All searches of a study, by platform in the study's order."""

    settings: SearchSettings
    places: tuple[Setting, ...]

    @property
    def platforms(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(place.platform for place in self.places))

    @property
    def most_s(self) -> float:
        """Seconds that the trials of all searches take at most."""
        return len(self.places) * self.settings.most_trials * self.settings.duration

    def levels(self, place: Setting, rate: float | None) -> dict[str, Level | None]:
        """What is put into the study for a trial; without a rate the sender is not paced."""
        workload = f"workloads.{self.settings.workload}"
        return {
            **place.levels,
            f"{workload}.{_RATE}": rate,
            f"{workload}.duration": self.settings.duration,
        }


def plan(file: StudyFile, study: Study) -> SearchPlan | None:
    """The searches of a study, none where it asks for none.

    Raises:
        InputError: it asks for something that cannot be searched.
    """
    settings = study.search
    if settings is None:
        return None
    _check_workload(file, study, settings)
    _check_factors(file, study, settings)
    found = SearchPlan(settings, tuple(_places(file, study, settings)))
    for place in found.places:
        file.cell(found.levels(place, None))
    return found


def _check_workload(file: StudyFile, study: Study, settings: SearchSettings) -> None:
    name = settings.workload
    workload = study.workloads.get(name)
    if workload is None:
        raise InputError(
            f"{file.source}: search.workload: there is no workload '{name}'.",
            f"There are: {', '.join(study.workloads)}.",
        )
    if not workload.has_loss_rate:
        raise InputError(
            f"{file.source}: search.workload: '{name}' is a {workload.described}, which has no "
            "rate at which it begins to lose.",
            "A search needs a capture, or a stream with protocol = 'udp'.",
        )
    if settings.duration <= workload.left_out_s:
        raise InputError(
            f"{file.source}: search.duration: {settings.duration:g} s are all left out: "
            f"workloads.{name}.omit is {workload.left_out_s:g} s.",
            "Take longer trials, or set 'omit' lower.",
        )


def _check_factors(file: StudyFile, study: Study, settings: SearchSettings) -> None:
    own = f"workloads.{settings.workload}."
    factors = {**study.factors, **study.workloads[settings.workload].factors}
    for path in settings.over:
        if path not in factors:
            there = ", ".join(factors) or "none"
            raise InputError(
                f"{file.source}: search.over: '{path}' is no factor of the study.",
                f"Its factors: {there}.",
            )
        if path in (own + _RATE, own + "duration"):
            raise InputError(
                f"{file.source}: search.over: the search itself sets {path}.",
                "Take it out of 'over'; as a factor it stays in the study's own cells.",
            )
        if path.startswith("workloads.") and not path.startswith(own):
            raise InputError(
                f"{file.source}: search.over: '{path}' does not concern {settings.workload}, which "
                "is searched."
            )


def _places(file: StudyFile, study: Study, settings: SearchSettings) -> Iterator[Setting]:
    platforms = study.sut.platforms if settings.platforms is None else settings.platforms
    for platform in platforms:
        if platform not in study.sut.platforms:
            raise InputError(
                f"{file.source}: search.platforms: '{platform}' is no platform of the study.",
                f"sut.platforms has: {', '.join(study.sut.platforms)}.",
            )
        factors = {**study.factors, **study.workloads[settings.workload].factors}
        over = {
            path: factors[path] for path in settings.over if study.reaches(find(platform), path)
        }
        yield from (Setting(platform, levels) for levels in combinations(over))


@dataclass(frozen=True)
class Measured:
    """A trial of a search.

    `rate` is the requested rate in b/s, None for an unpaced sender. `sent` is the rate that was sent,
    `loss` the share of it that did not arrive. `error` is the reason of a failure, else None.
    """

    rate: float | None
    sent: float = 0.0
    loss: float = 0.0
    error: str | None = None


@dataclass(frozen=True)
class Need:
    """The next trial, the `replicate`-th at its rate, from 0."""

    rate: float | None
    replicate: int


@dataclass(frozen=True)
class Found:
    """What a search says of one goal: MLRsearch's relevant bounds and its conditional throughput.

    `sender`: no more than the goal allows was lost of anything, but the sender could not send faster.
    `good_above` is the highest rate above the upper bound that its trials found good,
    `bad_below` how many trials at or below the lower bound lost more than the goal.
    """

    goal: float
    state: SearchState
    lower: RateBound | None = None
    upper: RateBound | None = None
    throughput: float | None = None
    sender: bool = False
    good_above: float | None = None
    bad_below: int = 0


@dataclass(frozen=True)
class Search:
    """A search as far as its trials go. `need` is none at its end; `reason` says why it failed."""

    need: Need | None
    found: tuple[Found, ...]
    trials: int
    low: float | None = None
    high: float | None = None
    reason: str | None = None
