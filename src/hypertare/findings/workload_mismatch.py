"""Checks that two runs did the same work. Otherwise a changed command would look like a gain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hypertare.base.errors import InputError
from hypertare.runs.store import Meta

_DECIDES = ("command", "prepare")


def refuse(a: Meta, b: Meta) -> None:
    """Refuses runs whose common workloads, or whose commands' directory, differ.

    Raises:
        InputError: something differs.
    """
    found = list(_unlike(a.settings, b.settings))
    if found:
        raise InputError(
            f"The runs did not do the same work: {'; '.join(found)}.",
            "Compare runs of the same commands; --force compares these all the same.",
        )


def is_same(a: Meta, b: Meta) -> bool:
    """Whether both did the same work of the same study."""
    return a.study == b.study and not list(_unlike(a.settings, b.settings))


def _unlike(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[str]:
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
