"""How the setups of two platforms or two runs differ, and whether two runs did the same work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hypertare.base.errors import InputError
from hypertare.base.figures import listing
from hypertare.base.units import human_size
from hypertare.base.variables import Level
from hypertare.platforms.registry import find
from hypertare.runs.store import Meta
from hypertare.runs.summary import PlatformState, Summary

_UNDER_TEST = ("driver",)
"""Properties in which the interfaces of two platforms may differ: the device is under test."""


def unlike_platforms(one: PlatformState, other: PlatformState) -> list[str]:
    """How two platforms of one run differ in what ought to be equal: CPUs, kernel, MTU, offloads.

    Memory is among it only of a machine that was given: a guest has less than its host. Interfaces are
    compared in the order in which they are named, since their names differ.
    """
    memory = None if find(one.platform).is_made else human_size(one.memory)
    found = [
        f"{what} {_level(a)} against {_level(b)}"
        for what, a, b in (
            ("processor", one.processor, other.processor),
            ("memory", memory, human_size(other.memory)),
            ("CPUs", one.cpus, other.cpus),
            ("kernel", one.kernel, other.kernel),
        )
        if a is not None and a != b
    ]
    for mine, its in zip(one.interfaces.values(), other.interfaces.values(), strict=False):
        found += _unlike(mine, its, "", _UNDER_TEST)
    return found


JOIN_PACKETS = ("tso", "gso", "gro", "lro", "ufo")
"""Offloads by which one packet stands for many, so that less is done for each byte."""


def unlike_offloads(one: PlatformState, other: PlatformState) -> list[str]:
    """Returns the offloads that join or cut packets and are set differently on two platforms."""
    found: list[str] = []
    for mine, its in zip(one.interfaces.values(), other.interfaces.values(), strict=False):
        known = {name: mine[name] for name in JOIN_PACKETS if name in mine}
        found += _unlike(known, its, "", ())
    return list(dict.fromkeys(found))


def unlike_runs(one: Summary, other: Summary) -> list[str]:
    """How the setups of two runs differ: machine, accelerator, versions, every platform."""
    found = list(
        _unlike(one.machine.model_dump(), other.machine.model_dump(), "machine's ", ("hostname",))
    )
    if one.accelerator != other.accelerator:
        found.append(f"accelerator {_level(one.accelerator)} against {_level(other.accelerator)}")
    found += _unlike(dict(one.versions), dict(other.versions), "version of ", ())
    for state in one.platforms:
        unlike = [
            _unlike_states(state, its)
            for its in other.platforms
            if (its.platform, its.node) == (state.platform, state.node)
        ]
        # A factor of the bench gives a node several states: the likest is its own.
        likest: list[str] = min(unlike, key=len, default=[])
        found += likest
    return list(dict.fromkeys(found))


def _unlike_states(one: PlatformState, other: PlatformState) -> list[str]:
    skip = ("platform", "node", "interfaces")
    of = f"{one.platform}'s "
    found = list(_unlike(one.model_dump(exclude=set(skip)), other.model_dump(), of, skip))
    for name in sorted(one.interfaces.keys() & other.interfaces.keys()):
        found += _unlike(one.interfaces[name], other.interfaces[name], f"{of}{name} ", ())
    return found


def _unlike(
    one: dict[str, Level | None], other: dict[str, Level | None], of: str, skip: tuple[str, ...]
) -> Iterator[str]:
    for name, value in one.items():
        if name not in skip and name in other and other[name] != value:
            yield f"{of}{name} {_level(value)} against {_level(other[name])}"


def _level(level: Level | tuple[str, ...] | None) -> str:
    if isinstance(level, bool):
        return "on" if level else "off"
    if isinstance(level, tuple):
        return listing(level) or "none"
    return "none" if level is None else str(level)


_DECIDES = ("command", "prepare")


def refuse(a: Meta, b: Meta) -> None:
    """Refuses runs whose common workloads, or whose commands' directory, differ.

    Raises:
        InputError: something differs.
    """
    found = list(_unlike_work(a.settings, b.settings))
    if found:
        raise InputError(
            f"The runs did not do the same work: {'; '.join(found)}.",
            "Compare runs of the same commands; --force compares these all the same.",
        )


def is_same(a: Meta, b: Meta) -> bool:
    """Whether both did the same work of the same study."""
    return a.study == b.study and not list(_unlike_work(a.settings, b.settings))


def _unlike_work(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[str]:
    mine, its = a.get("workloads", {}), b.get("workloads", {})
    for name in mine.keys() & its.keys():
        for key in _DECIDES:
            before, after = mine[name].get(key), its[name].get(key)
            if before != after:
                yield f"{key} of {name} is {_shown(before)} in A and {_shown(after)} in B"
    before, after = (one.get("sut", {}).get("workdir") for one in (a, b))
    if before != after:
        yield f"the work directory is {_shown(before)} in A and {_shown(after)} in B"


def _shown(setting: Any) -> str:
    if setting is None:
        return "none"
    words = setting if isinstance(setting, str) else " ".join(map(str, setting))
    return f"`{words}`"
