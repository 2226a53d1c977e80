"""Paths to settings, and combinations of their levels."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from hypertare.base.level import Level
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
                "CPUs, and this one is another list: make a study of each"
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
