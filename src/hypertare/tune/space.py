"""The settings that a tuning may choose from. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hypertare.design import HARD_TABLES
from hypertare.errors import InputError
from hypertare.study import GUEST_ONLY, Study, StudyFile
from hypertare.summary import Level
from hypertare.trials import Cell
from hypertare.tune.settings import Ladder, Range, TuneSettings

Setting = dict[str, Level]
"""A level of every knob, by path."""

LEFT = "default"
"""The level of a knob that is left as the system has it: nothing is set."""


@dataclass(frozen=True)
class Knob:
    """Something that can be set. `levels` are those of a list, in its order, or empty for a range."""

    path: str
    default: Level
    levels: tuple[Level, ...] = ()
    range: Range | None = None

    @property
    def ordered(self) -> bool:
        return self.range is not None or all(_is_number(level) for level in self.levels)

    @property
    def far(self) -> Level:
        """The level farthest from the default: what the screening puts against it.

        By size for numbers (on a log scale where a range says so, and always between levels of a
        list, which are usually spaced by factors), else by place in the list; the later of two.
        """
        if self.range is not None:
            ends = (self.range.low, self.range.high)
            return max(ends, key=lambda end: (self._apart(end), end))
        places = {level: place for place, level in enumerate(self.levels)}
        home = places.get(self.default, 0)
        others = [level for level in self.levels if level != self.default]
        return max(others, key=lambda level: (abs(places[level] - home), places[level]))

    @property
    def size(self) -> int:
        """How many levels there are."""
        if self.range is not None:
            return self.range.high - self.range.low + 1
        return len(self.levels)

    def _apart(self, level: int) -> float:
        if not _is_number(self.default):
            return 0.0
        home = float(self.default)
        if self.range is not None and self.range.log and home > 0:
            return abs(math.log(level / home))
        return abs(level - home)


@dataclass(frozen=True)
class Space:
    """Every knob, those whose own goal is to be as small as can be without loss, and what stays."""

    knobs: tuple[Knob, ...]
    ladders: tuple[Knob, ...] = ()
    fixed: Setting = field(default_factory=dict)

    @property
    def default(self) -> Setting:
        return self.fixed | {knob.path: knob.default for knob in (*self.knobs, *self.ladders)}

    @property
    def size(self) -> int:
        return math.prod(knob.size for knob in self.knobs)


def overrides(setting: Mapping[str, Level]) -> Cell:
    """What has to be put into the study: knobs that are left alone are not."""
    return {path: level for path, level in setting.items() if level != LEFT}


def key(setting: Mapping[str, Level]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((path, repr(level)) for path, level in setting.items()))


def make(file: StudyFile, study: Study, settings: TuneSettings, platform: str) -> Space:
    """The space of a study: its `[tune]` knobs, else its factors. Every level is validated.

    Raises:
        InputError: there is nothing to tune, or something of it fits nothing.
    """
    given: Mapping[str, Any] = settings.knobs or study.factors
    if not given:
        raise InputError(
            f"{file.source}: there is nothing to tune: no [tune] knobs, and no factors.",
            'Add for example: [tune] knobs = { "workloads.tcp.message" = ["4K", "64K"] }',
        )
    for path in settings.default:
        if path not in given:
            raise InputError(f'{file.source}: tune.default: "{path}" is no knob of this tuning.')
    knobs, ladders = [], []
    for path, levels in given.items():
        _check_path(file, path, platform)
        knob = _knob(file, path, levels, settings.default)
        for level in knob.levels or (knob.default, knob.far):
            file.cell(overrides({path: level}))
        (ladders if isinstance(levels, Ladder) else knobs).append(knob)
    return Space(tuple(knobs), tuple(ladders))


def _check_path(file: StudyFile, path: str, platform: str) -> None:
    table, _, key = path.partition(".")
    if table not in (*HARD_TABLES, "workloads", "knobs") or path == "sut.platforms":
        raise InputError(
            f'{file.source}: tune.knobs: "{path}" cannot be a knob.',
            "A knob is a key of sut, bench, workloads.NAME or knobs, for example knobs.mtu.",
        )
    if table == "sut" and key in GUEST_ONLY and platform != "guest":
        raise InputError(f"{file.source}: tune.knobs: only a guest has {path}, not {platform}.")


def _knob(file: StudyFile, path: str, given: Any, defaults: Mapping[str, Level]) -> Knob:
    default = defaults.get(path, _value(file.raw, path))
    if isinstance(given, Range):
        if default == LEFT and path not in defaults:
            return Knob(path, LEFT, range=given)
        if not _is_number(default) or not given.low <= float(default) <= given.high:
            raise InputError(f"{file.source}: tune.knobs: {path}: {default} is not in its range.")
        return Knob(path, default, range=given)
    levels = tuple(given.levels if isinstance(given, Ladder) else given)
    if any(isinstance(level, list | tuple | dict) for level in levels):
        raise InputError(f"{file.source}: tune.knobs: {path}: a level must be one value.")
    if len({repr(level) for level in levels}) != len(levels):
        raise InputError(f"{file.source}: tune.knobs: {path}: a level stands twice.")
    # Without the default among them nothing could be compared with it.
    if default not in levels and not isinstance(given, Ladder):
        levels = (default, *levels)
    if len(levels) < 2:
        raise InputError(f"{file.source}: tune.knobs: {path} has one level; there is no choice.")
    return Knob(path, default, levels)


def _value(raw: Mapping[str, Any], path: str) -> Level:
    """What the study says, or that it says nothing."""
    value: Any = raw
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, str | int | float | bool) else LEFT


def _is_number(level: Level) -> bool:
    return isinstance(level, int | float) and not isinstance(level, bool)
