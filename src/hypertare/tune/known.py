"""What an earlier run of a study measured of a tuning's settings: `hypertare tune --from RUN`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from hypertare.base.errors import InputError
from hypertare.base.figures import factor_text, level_text, listing
from hypertare.base.variables import Level, key
from hypertare.design.trials import FinishedTrial
from hypertare.findings.tuning import KnownBefore
from hypertare.runs.machine_state import MachineState
from hypertare.runs.store import Meta, Store
from hypertare.study import Study, StudyFile
from hypertare.study.tune import PHASE
from hypertare.tune.space import Knob, Setting, Space, level_of, resolved
from hypertare.tune.tuner import Aims, Known

_TABLES = ("emulated", "sut", "bench", "knobs")
"""Tables of a study that must be the same in both runs, beside the tuned workload's. The other platforms
and the other cells of the earlier run make no difference.
"""
_BESIDE = ("sut.platforms",)
_OF_MACHINE = ("cpu", "cpus", "kernel", "architecture", "distribution")
_INSTEAD = "Give a run of this study under the same settings, or leave --from out."


@dataclass(frozen=True)
class KnownRun:
    """`settings` are those that fit; `before` is what a tuning's document says of them."""

    before: KnownBefore
    settings: tuple[Known, ...]
    machine: MachineState
    accelerator: str | None


def read(
    run: Path, file: StudyFile, study: Study, space: Space, workload: str, platform: str, aims: Aims
) -> KnownRun:
    """The cells of a run that are settings of a tuning.

    Raises:
        InputError: there is no such run, or it measured something else: none of it fits.
    """
    with Store.open(run) as store:
        meta, trials = store.meta, store.trials()
    _check_run(run, meta, trials, study, workload, platform, aims)
    earlier = StudyFile.restored(meta.study_text, meta.settings, str(run), Path(meta.folder))
    fit = _Fit(run, earlier, file, study, space, workload)
    fit.check()
    cells: dict[object, list[FinishedTrial]] = {}
    for one in trials:
        planned = one.planned
        if one.counts and (planned.workload, planned.platform) == (workload, platform):
            cells.setdefault(key(planned.cell), []).append(one)
    settings: list[Known] = []
    without: Counter[str] = Counter()
    for there in cells.values():
        found = fit.setting(there[0].planned.cell)
        known = found if isinstance(found, str) else _known(found, there, aims)
        if isinstance(known, str):
            without[known] += 1
        else:
            settings.append(known)
    left_out = tuple(f"{count} of its cells: {why}" for why, count in without.items())
    if not settings:
        why = listing(left_out, 3) or f"it has no good trial of {workload} on {platform}"
        raise InputError(f"Nothing of {run} is known of this tuning's settings: {why}.", _INSTEAD)
    measured = sum(one.trials for one in settings)
    before = KnownBefore(run=str(run), settings=len(settings), trials=measured, left_out=left_out)
    return KnownRun(before, tuple(settings), meta.machine, meta.accelerator)


def check_machine(known: KnownRun, here: MachineState, accelerator: str | None) -> None:
    """Raises:
    InputError: the run was made on another machine than this one.
    """
    pairs = [(name, getattr(known.machine, name), getattr(here, name)) for name in _OF_MACHINE]
    pairs.append(("accelerator", known.accelerator if accelerator else None, accelerator))
    unlike = [f"{name} {was}, here {now}" for name, was, now in pairs if was != now]
    if unlike:
        raise InputError(
            f"{known.before.run} was made on another machine: {'; '.join(unlike)}.",
            "What was measured there says nothing of this one: leave --from out.",
        )


def _check_run(
    run: Path,
    meta: Meta,
    trials: Sequence[FinishedTrial],
    study: Study,
    workload: str,
    platform: str,
    aims: Aims,
) -> None:
    """Whether it was made as this tuning is."""
    if any(PHASE in one.planned.cell for one in trials):
        raise InputError(f"{run} is a tuning, and no run of a study.", _INSTEAD)
    for what, was, now in (
        ("machine", meta.machine.kind, study.machine),
        ("clock", meta.clock, study.clock),
    ):
        if was != now:
            raise InputError(f"{run} has the {what} '{was}', and this tuning '{now}'.", _INSTEAD)
    wanted = [response.name for response in aims.wanted]
    for kind, name, known in (
        ("workload", workload, list(meta.responses)),
        ("platform", platform, list(meta.platforms)),
        *(
            ("response", name, [one.name for one in meta.responses.get(workload, ())])
            for name in wanted
        ),
    ):
        if name not in known:
            raise InputError(
                f"{run} has no {kind} '{name}', which is tuned; it has: {listing(known)}.", _INSTEAD
            )


def _known(setting: Setting, trials: Sequence[FinishedTrial], aims: Aims) -> Known | str:
    """The mean logs of its trials that have all that the goal is about."""
    names = [response.name for response in aims.responses]
    needed = [response.name for response in aims.wanted]
    good = [one for one in trials if all(one.values.get(name, 0.0) > 0 for name in needed)]
    if not good:
        return f"no trial has {' and '.join(needed)} above 0"
    logs = {
        name: math.fsum(math.log(one.values[name]) for one in good) / len(good)
        for name in names
        if all(one.values.get(name, 0.0) > 0 for one in good)
    }
    return Known(setting, logs, len(good))


@dataclass(frozen=True)
class _Fit:
    """Translates cells of an earlier run into settings of a tuning, and checks all other facts."""

    run: Path
    earlier: StudyFile
    file: StudyFile
    study: Study
    space: Space
    workload: str

    @cached_property
    def was(self) -> Study:
        return self.earlier.cell({})

    @cached_property
    def varied(self) -> frozenset[str]:
        """The factors of the earlier run that this workload's cells have."""
        bench = (path for path in self.was.factors if not path.startswith("workloads."))
        return frozenset((*bench, *self.was.factors_of(self.workload)))

    def check(self) -> None:
        """Whether all that neither is tuned nor was varied is as it was.

        Raises:
            InputError: it is not.
        """
        before, now = (dict(_leaves(one, self.workload)) for one in (self.was, self.study))
        paths = {knob.path for knob in self.space.every} | self.varied | {*_BESIDE}
        unlike = [
            f"{path} was {_text(before.get(path))}, here {_text(now.get(path))}"
            for path in dict.fromkeys((*before, *now))
            if before.get(path) != now.get(path) and not _is_of(path, paths)
        ]
        if unlike:
            raise InputError(
                f"{self.run} was made with other settings: {listing(unlike, 3)}.",
                "Set them alike with --set, or leave --from out.",
            )

    def setting(self, cell: Mapping[str, Level]) -> Setting | str:
        """The tuning's words for a cell, or why it has none."""
        for path in self.varied - {knob.path for knob in self.space.every}:
            was, here = self._before(path, cell), level_of(self.study, path)
            if path in cell and was != here:
                return f"{factor_text(path)} {level_text(was)}, here {level_text(here)}"
        setting = dict(self.space.default)
        for knob in self.space.every:
            was = self._before(knob.path, cell)
            level = self._level(knob, was)
            if level is None:
                return f"{factor_text(knob.path)} {level_text(was)} is none of the tuning's levels"
            setting[knob.path] = level
        return setting

    def _before(self, path: str, cell: Mapping[str, Level]) -> Level:
        """What the earlier run had set in a cell."""
        return (
            resolved(self.earlier, path, cell[path]) if path in cell else level_of(self.was, path)
        )

    def _level(self, knob: Knob, was: Level) -> Level | None:
        if knob.range is not None and isinstance(was, int) and not isinstance(was, bool):
            return was if knob.range.low <= was <= knob.range.high else None
        return self._levels[knob.path].get(repr(was))

    @cached_property
    def _levels(self) -> dict[str, dict[str, Level]]:
        """The levels of each knob as the tuning writes them, by their values in a validated study."""
        return {
            knob.path: {
                repr(resolved(self.file, knob.path, level)): level
                for level in (*knob.levels, knob.default)
            }
            for knob in self.space.every
        }


def _leaves(study: Study, workload: str) -> Iterator[tuple[str, Any]]:
    """What a study sets, by path; what is not set is not there."""
    tables = {name: getattr(study, name).model_dump() for name in _TABLES}
    tables[f"workloads.{workload}"] = study.workloads[workload].model_dump(exclude={"factors"})
    waiting: list[tuple[str, Any]] = list(tables.items())
    while waiting:
        path, value = waiting.pop(0)
        if isinstance(value, dict):
            waiting += [(f"{path}.{name}", inner) for name, inner in value.items()]
        elif value is not None:
            yield path, value


def _is_of(path: str, others: set[str] | frozenset[str]) -> bool:
    return any(path == other or path.startswith(f"{other}.") for other in others)


def _text(value: Any) -> str:
    return "not set" if value is None else str(value)
