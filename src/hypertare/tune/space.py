"""What bounds a tuning: the settings that it may choose from, and the budget that it may spend."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hypertare.base.errors import InputError
from hypertare.base.quantities import cpus_text
from hypertare.base.units import human_duration, parse_duration
from hypertare.base.variables import Cell, Level
from hypertare.design.design import HARD_TABLES, is_hard
from hypertare.platforms.registry import find
from hypertare.stats.growth import driver_weight
from hypertare.study import Study, StudyFile
from hypertare.study.tune import BY_GUESTS, Ladder, Range, TuneSettings

Setting = dict[str, Level]
"""A level of every knob, by path."""

DRIVER_WEIGHT = "knobs.driver_weight"

LEFT = "default"
"""The level of a knob that is left as the system has it: nothing is set."""


@dataclass(frozen=True)
class Knob:
    """Something that can be set. `levels` are those of a list, in its order, or empty for a range.

    `guess` is a level that somebody holds to be good.
    """

    path: str
    default: Level
    levels: tuple[Level, ...] = ()
    range: Range | None = None
    guess: Level | None = None

    @property
    def ordered(self) -> bool:
        return self.range is not None or all(_is_number(level) for level in self.levels)

    @property
    def far(self) -> Level:
        """What the screening puts against the default: the guess, or the level farthest from it.

        By size for numbers (on a log scale where a range says so, and always between levels of a
        list, which are usually spaced by factors), else by place in the list; the later of two.
        """
        if self.guess is not None and self.guess != self.default:
            return self.guess
        if self.range is not None:
            ends = (self.range.low, self.range.high)
            return max(ends, key=lambda end: (self._apart(end), end))
        places = {level: place for place, level in enumerate(self.levels)}
        home = places.get(self.default, 0)
        others = [level for level in self.levels if level != self.default]
        return max(others, key=lambda level: (abs(places[level] - home), places[level]))

    @property
    def hard(self) -> bool:
        """Whether its levels need benches of their own."""
        return is_hard(self.path)

    @property
    def size(self) -> int:
        """How many levels there are."""
        if self.range is not None:
            return self.range.high - self.range.low + 1
        return len(self.levels)

    def has(self, level: Level) -> bool:
        """Whether it is a level of the knob, also where some were refused."""
        if self.range is not None:
            return isinstance(level, int) and self.range.low <= level <= self.range.high
        return any(repr(one) == repr(level) for one in self.levels)

    def _apart(self, level: int) -> float:
        if not _is_number(self.default):
            return 0.0
        home = float(self.default)
        if self.range is not None and self.range.log and home > 0:
            return abs(math.log(level / home))
        return abs(level - home)


@dataclass(frozen=True)
class Space:
    """The settings that a tuning may choose: knobs, knobs to be made as small as possible without loss
    (`ladders`), and fixed settings.
    """

    knobs: tuple[Knob, ...]
    ladders: tuple[Knob, ...] = ()
    fixed: Setting = field(default_factory=dict)

    @property
    def every(self) -> tuple[Knob, ...]:
        return (*self.knobs, *self.ladders)

    @property
    def default(self) -> Setting:
        return self.fixed | {knob.path: knob.default for knob in self.every}

    @property
    def size(self) -> int:
        return math.prod(knob.size for knob in self.knobs)


def overrides(setting: Mapping[str, Level]) -> Cell:
    """What has to be put into the study: knobs that are left alone are not."""
    return {path: level for path, level in setting.items() if level != LEFT}


def make(file: StudyFile, study: Study, settings: TuneSettings, platform: str) -> Space:
    """The space of a study: its `[tune]` knobs, else its factors. Every level is validated.

    Raises:
        InputError: there is nothing to tune, or something of it fits nothing.
    """
    given = varied(study, settings)
    if not given:
        raise InputError(
            f"{file.source}: there is nothing to tune: the study has no [tune.knobs] and no factors.",
            'Add for example [tune.knobs] with "workloads.tcp.message" = ["4K", "64K"] '
            "(docs/tune.md), or take a study that has one: tcp-knobs.",
        )
    for key, named in (("default", settings.default), ("guess", settings.guess)):
        for path in named:
            if path not in given:
                raise InputError(f'{file.source}: tune.{key}: "{path}" is no knob of this tuning.')
    knobs: list[Knob] = []
    ladders: list[Knob] = []
    for path, levels in given.items():
        table = path.partition(".")[0]
        if table not in (*HARD_TABLES, "workloads", "knobs") or path == "sut.platforms":
            raise InputError(
                f'{file.source}: tune.knobs: "{path}" cannot be a knob.',
                "A knob is a key of sut, bench, workloads.NAME or knobs, for example knobs.mtu.",
            )
        if not study.reaches(find(platform), path):
            raise InputError(f"{file.source}: tune.knobs: only a guest has {path}, not {platform}.")
        knob = _knob(file, path, levels, settings.default)
        if path in settings.guess:
            knob = replace(knob, guess=_guess(file, study, knob, settings.guess[path]))
        (ladders if isinstance(levels, Ladder) else knobs).append(knob)
    _check_together(file, knobs)
    return Space(tuple(knobs), tuple(ladders))


def _check_together(file: StudyFile, knobs: Sequence[Knob]) -> None:
    """Settings of a guest or a bench may exclude each other, which a search would find under way."""
    hard = [knob for knob in knobs if knob.hard and not knob.range]
    default = {knob.path: knob.default for knob in knobs}
    for one, other in itertools.combinations(hard, 2):
        for level, beside in itertools.product(one.levels, other.levels):
            try:
                file.cell(overrides({**default, one.path: level, other.path: beside}))
            except InputError as error:
                pair = f"{one.path} = {level} and {other.path} = {beside}"
                why = error.what.removeprefix(f"{file.source}: ")
                raise InputError(
                    f"{file.source}: tune.knobs: {pair} do not go together: {why}",
                    "Leave one of the two levels out.",
                ) from None


def varied(study: Study, settings: TuneSettings) -> Mapping[str, Any]:
    """Returns the levels to tune, by path: of the named knobs, or of factors with several levels."""
    several = {path: levels for path, levels in study.factors.items() if len(levels) > 1}
    return settings.knobs or several


def _knob(file: StudyFile, path: str, given: Any, defaults: Mapping[str, Level]) -> Knob:
    where = f"{file.source}: tune.knobs: {path}"
    set_to = level_of(file.study(), path)
    if isinstance(given, Range):
        default = defaults.get(path, set_to)
        for level in (given.low, given.high):
            resolved(file, path, level)
        if default == LEFT:
            return Knob(path, LEFT, range=given)
        if not _is_number(default) or not given.low <= float(default) <= given.high:
            raise InputError(f"{where}: its default, {default}, is not in its range.")
        return Knob(path, default, range=given)
    levels = tuple(given.levels if isinstance(given, Ladder) else given)
    if LEFT in levels and set_to != LEFT:
        raise InputError(
            f"{where}: 'default' leaves a knob as the system has it, but the study sets {set_to}.",
            "Take the key out of the study, or the level out of the list.",
        )
    values = [resolved(file, path, level) for level in levels]
    for place, value in enumerate(values):
        if value in values[:place]:
            raise InputError(f"{where}: {levels[place]} stands twice among its levels.")
    wanted = defaults.get(path, set_to)
    # As it is written among the levels: 16384 may stand there as 16K.
    as_written = dict(zip(map(repr, values), levels, strict=True))
    own = _identity(file.study(), path) if wanted == LEFT else resolved(file, path, wanted)
    default = as_written.get(repr(own), wanted)
    # Without the default among them nothing could be compared with it.
    if default not in levels and not isinstance(given, Ladder):
        levels = (default, *levels)
    if len(levels) < 2:
        raise InputError(f"{where} has one level; there is no choice.")
    return Knob(path, default, levels)


def _guess(file: StudyFile, study: Study, knob: Knob, given: Level) -> Level:
    """The level that is nearest to a guess by factors.

    Raises:
        InputError: it is none of the knob's levels.
    """
    where = f"{file.source}: tune.guess: {knob.path}"
    if given == BY_GUESTS:
        if knob.path != DRIVER_WEIGHT:
            raise InputError(f"{where}: '{BY_GUESTS}' is for {DRIVER_WEIGHT}; give a level.")
        closest = nearest(file, knob, driver_weight(study.sut.guests))
        if closest is not None:
            return closest
    elif given in knob.levels or (knob.range is not None and knob.has(given)):
        return given
    raise InputError(f"{where}: {given} is none of its levels.")


def nearest(file: StudyFile, knob: Knob, wanted: float) -> Level | None:
    """The level that is nearest to a number by factors; none where no level is a number above 0."""
    if knob.range is not None:
        return round(min(max(wanted, knob.range.low), knob.range.high))
    numbers = {
        level: number for level in knob.levels if (number := number_of(file, knob.path, level))
    }
    return min(numbers, key=lambda one: abs(math.log(numbers[one] / wanted)), default=None)


def number_of(file: StudyFile, path: str, level: Level) -> float | None:
    """A level as a number above 0, if it is one: 16K is 16384."""
    value = resolved(file, path, level)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if value > 0 else None


def resolved(file: StudyFile, path: str, level: Level) -> Level:
    """A level as the validated study has it: 16K is 16384. Of what is no plain value, a text that only
    equal ones have.
    """
    return LEFT if level == LEFT else _identity(file.cell({path: level}), path)


def _identity(study: Study, path: str) -> Level:
    value = study.setting(path)
    plain = _plain(value)
    return plain if plain != LEFT or value is None else repr(value)


def level_of(study: Study, path: str) -> Level:
    """What a study sets, or that it sets nothing."""
    return _plain(study.setting(path))


def _plain(value: Any) -> Level:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple) and value:
        return cpus_text(value)
    return value if isinstance(value, str | int | float | bool) else LEFT


def _is_number(level: Level) -> bool:
    return isinstance(level, int | float) and not isinstance(level, bool)


Knobs = dict[str, list[Any]]

_OF_MEMORY: Knobs = {
    # Beside what the host and the guest's kernel do by themselves.
    "sut.pages": ["4K"],
    "knobs.thp.enabled": ["never", "madvise"],
}
_OF_NETWORK: Knobs = {
    "sut.datapath": ["vhost-user"],
    "knobs.offloads.gro": [False],
    "knobs.offloads.tso": [False],
    "knobs.busy_poll": [50],
    "knobs.socket_buffers": ["64K", "1M"],
}
_WITHOUT_VHOST = "qemu"
"""The default is vhost where this host has it."""


def knobs_of_command(*, has_peer: bool, has_vhost: bool, huge_pages: bool) -> Knobs:
    """Levels to try beside the default, by path.

    Args:
        has_peer: it speaks with a server across the guest's NIC.
        has_vhost: this host's kernel can move a guest's packets.
        huge_pages: pages of 2 MB may be set aside on this host.
    """
    found = {path: list(levels) for path, levels in _OF_MEMORY.items()}
    if huge_pages:
        found["sut.pages"].append("2M")
    if has_peer:
        found |= {path: list(levels) for path, levels in _OF_NETWORK.items()}
        if has_vhost:
            found["sut.datapath"].append(_WITHOUT_VHOST)
    return found


@dataclass(frozen=True)
class Budget:
    """Either `trials` or `seconds`. A budget in trials makes a tuning that can be repeated."""

    trials: int | None = None
    seconds: float | None = None

    @classmethod
    def parse(cls, given: int | str) -> Budget:
        """From `160` (trials), or `10m` (time).

        Raises:
            InputError: it is neither.
        """
        if str(given).strip().isdecimal():
            return cls(trials=int(given))
        try:
            seconds = parse_duration(given)
        except ValueError:
            seconds = 0.0
        if seconds <= 0:
            raise InputError(
                f"'{given}' is no budget; write a number of trials as 160, or a time as 10m"
            )
        return cls(seconds=seconds)

    def expected_trials(self, trial_s: float) -> int:
        """How many trials it is likely to pay for."""
        return self.trials if self.trials is not None else int((self.seconds or 0.0) / trial_s)

    def __str__(self) -> str:
        return f"{self.trials} trials" if self.trials else human_duration(self.seconds or 0.0)


@dataclass
class BudgetTracker:
    """What is left of a budget."""

    budget: Budget
    trials: Callable[[], int]
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._began = self.clock()

    def expected_trials(self, trial_s: float) -> int:
        """How many trials it pays for in all; `trial_s` is what one takes, before any was seen."""
        done = self.trials()
        seen_s = (self.clock() - self._began) / done if done else 0.0
        return self.budget.expected_trials(max(trial_s, seen_s))

    def spent(self, more: int = 0) -> float:
        """The share that is spent, with this many trials more."""
        if self.budget.trials is not None:
            return (self.trials() + more) / self.budget.trials
        elapsed = self.clock() - self._began
        done = self.trials()
        ahead = more * elapsed / done if done else 0.0
        return (elapsed + ahead) / (self.budget.seconds or 1.0)

    def left_s(self) -> float:
        """Seconds that the rest will take, as far as is known."""
        elapsed, spent = self.clock() - self._began, self.spent()
        return max(0.0, elapsed / spent - elapsed) if spent else 0.0
