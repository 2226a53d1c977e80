"""Paths to settings, combinations of their levels, and how many cells they make. Pure."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

from hypertare.base.units import human_duration
from hypertare.base.variables import Level
from hypertare.knobs.registry import KINDS as KNOBS
from hypertare.platforms.platform import Platform
from hypertare.platforms.registry import KINDS as PLATFORMS

if TYPE_CHECKING:
    from hypertare.study.study import Study


GUESTS = "sut.guests"
"""The setting for the number of guests that work at once. A bench has as many guests as any cell needs, so
a level of this factor needs no bench of its own.
"""


def is_easy(path: str, workload: str) -> bool:
    """Whether a setting can be varied from trial to trial on one bench.

    The number of guests can: a trial uses the first guests of the bench.
    """
    return path == GUESTS or path.startswith((f"workloads.{workload}.", "knobs."))


def combinations(factors: dict[str, tuple[Any, ...]]) -> list[dict[str, Level]]:
    """All combinations of levels, in the factors' order (a full factorial)."""
    return [
        dict(zip(factors, levels, strict=True)) for levels in itertools.product(*factors.values())
    ]


def concerns(path: str, platform: Platform, *, whole_pcs: bool) -> bool:
    """Whether a setting makes a difference to a platform, so that its levels can be compared on it.

    The baseline, for example, runs beside every level of `sut.datapath` but has no datapath. Its trials at
    these levels differ by noise, or by another offered rate.

    Args:
        whole_pcs: the machine is made as the study says (`MachineKind.boots_whole_pcs`).
    """
    table, _, rest = path.partition(".")
    if table == "sut":
        of_hypervisors = any(rest in kind.hypervisor_settings for kind in PLATFORMS.values())
        if rest in platform.hypervisor_settings:
            return True
        # This host's memory is as large as it is, whatever a guest is given.
        return not of_hypervisors and (rest != "memory" or whole_pcs or not platform.is_baseline)
    knob = next((kind for kind in KNOBS if kind.name == rest.partition(".")[0]), None)
    if table != "knobs" or knob is None:
        return True
    if knob.for_own_machines and not (whole_pcs or platform.has_own_kernel):
        return False
    match knob.place:
        case "below":
            return platform.is_backed_by_host
        case "uplink":
            return platform.under_hypervisor
        case "driver" | "guest":
            return platform.weighted_by is not None
        case _:
            return True


# --- rules


def levels_are_single_values(study: Study) -> None:
    """A cell differs from others in its levels, in tables and sentences too."""
    for path, levels in study.all_factors.items():
        strange = next((one for one in levels if isinstance(one, dict | list | tuple)), None)
        if isinstance(strange, dict):
            key = next(iter(strange), "KEY")
            raise ValueError(
                f'factors."{path}": a level is one value, and this one is a table: vary its keys instead, '
                f'factors."{path}.{key}" = [...]'
            )
        if strange is not None:
            raise ValueError(
                f'factors."{path}": a level is one value (a text, a number, true, false) or a list of '
                "CPUs or weights, and this one is another list: make a study of each"
            )


def factors_of_a_workload_are_its_own(study: Study) -> None:
    """What is varied for one workload alone needs no other bench."""
    for name, workload in study.workloads.items():
        for path in workload.factors:
            if not is_easy(path, name) or path == f"workloads.{name}.factors":
                raise ValueError(
                    f"workloads.{name}.factors: '{path}' cannot be varied for '{name}' alone; "
                    f"that can its own keys (workloads.{name}....), knobs (knobs....) and "
                    f"{GUESTS}"
                )


def measured_guest_is_there(study: Study) -> None:
    """The guest that neighbours leave to be measured is one of those that work, in every cell."""
    for name, workload in study.workloads.items():
        if workload.load is None:
            continue
        path = f"workloads.{name}.neighbours.measured"
        factors = study.factors_of(name)
        guests = min(_numbers(factors.get(GUESTS, ())) or [study.sut.guests])
        measured = max(_numbers(factors.get(path, ())) or [workload.load.measured])
        if measured > guests:
            raise ValueError(
                f"{path} = {measured} names a guest that is not there: {GUESTS} is {guests} in some cell "
                f"of '{name}'. Guests are numbered from 1; measure one of these, or ask for more"
            )


def _numbers(levels: tuple[Any, ...]) -> list[int]:
    """Of a factor. What is no number is refused where each level is put in its place."""
    return [level for level in levels if isinstance(level, int)]


MOST_CELLS = 10_000
"""Most cells of a study, over all workloads and platforms: a night's work at half a second per trial. A run
holds all of them at once.
"""

_TRIAL_OVERHEAD_S = 0.3
_UNKNOWN_COMMAND_S = 2.0


def expected_trial_s(study: Study, workload: str) -> float:
    """Seconds of one trial, before any of it was seen."""
    expected = study.workloads[workload].expected_s
    return (_UNKNOWN_COMMAND_S if expected is None else expected) + _TRIAL_OVERHEAD_S


def can_be_carried_out(study: Study) -> None:
    """The study has few enough cells to be carried out."""
    count = cells(study)
    if count <= MOST_CELLS:
        return
    a_round = sum(_cells(study, name) * expected_trial_s(study, name) for name in study.workloads)
    time = human_duration(a_round * study.design.min_trials)
    levels = [len(of) for of in study.all_factors.values() if len(of) > 1]
    raise ValueError(
        f"its factors make {count:,} cells ({' x '.join(map(str, levels))} levels, "
        f"{_several(len(study.workloads), 'workload')}, {_several(len(study.platforms), 'platform')}), "
        f"{MOST_CELLS:,} are the most: with {study.design.min_trials} trials of each "
        f"(design.min_trials) it would take {time} without boots. Leave out factors or levels (--set "
        "FACTOR=LEVEL keeps one), or find good settings without trying all of them: name what may "
        "change in [tune.knobs] in place of [factors], for `hypertare tune`"
    )


def cells(study: Study) -> int:
    """Returns the number of cells over all workloads and platforms, which is that of trials if each has
    one.
    """
    return sum(_cells(study, name) for name in study.workloads)


def _cells(study: Study, workload: str) -> int:
    """Returns the number of cells of a workload over all platforms; each variant of a guest has its own."""
    easy = math.prod(len(levels) for levels in study.factors_of(workload).values())
    bench = {
        path: len(levels)
        for path, levels in study.factors.items()
        if not path.startswith("workloads.") and not is_easy(path, workload)
    }
    return easy * sum(
        math.prod(count for path, count in bench.items() if study.reaches(platform, path))
        for platform in study.platforms
    )


def _several(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
