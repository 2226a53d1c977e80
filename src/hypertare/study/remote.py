"""`[remote]`: the host that `machine = "remote"` is, or several, and how each is reached."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from hypertare.base.settings import Settings
from hypertare.study.given import Reach, reach_words

if TYPE_CHECKING:
    from hypertare.study.study import Study


def _differ(reaches: tuple[str, ...]) -> tuple[str, ...]:
    words = [reach_words(one) for one in reaches]
    twice = next((one for one in reaches if words.count(reach_words(one)) > 1), None)
    if twice is not None:
        raise ValueError(f"{twice!r} is there twice: name each host once")
    return reaches


class Remote(Settings):
    reach: Annotated[
        tuple[Reach, ...],
        BeforeValidator(lambda given: (given,) if isinstance(given, str) else given),
        Field(min_length=1),
        AfterValidator(_differ),
    ]
    """The command that reaches the host of [`machine = "remote"`](remote.md): `"ssh lab2"`. Or of [several
    hosts](remote.md#several-hosts), which have boots by turns: `["ssh lab1", "ssh lab2"]`.
    """

    @property
    def hosts(self) -> tuple[tuple[str, ...], ...]:
        """The words that reach each."""
        return tuple(map(reach_words, self.reach))


# --- rules


def remote_machines_fit(study: Study) -> None:
    """A lab elsewhere is reached; its settings are not changed, and it gets nothing that is not brought."""
    if not study.machine_kind.is_reached:
        if study.remote is not None:
            raise ValueError(
                "[remote] is of machine = 'remote': set that too, or leave [remote] out"
            )
        return
    if study.remote is None:
        raise ValueError(
            f"the machine '{study.machine}' is a host of yours: say how it is reached, [remote] with "
            "reach = 'ssh USER@HOST' (--set remote.reach='ssh USER@HOST')"
        )
    hosts = len(study.remote.reach)
    boots = math.ceil(study.design.max_trials / study.design.blocks_of_a_boot)
    if hosts > boots:
        raise ValueError(
            f"remote.reach names {hosts} hosts, of which each has boots of its own, and a cell has {boots} "
            f"at most: design.max_trials must be at least {hosts * study.design.blocks_of_a_boot}"
        )
    for key, changing in (("paging", None), ("pages", "2M")):
        asked = study.levels(f"sut.{key}")
        if any(level == changing if changing else level is not None for level in asked):
            raise ValueError(
                f"sut.{key} needs settings of the host, and those of a host elsewhere are not changed: "
                "leave it out, or run hypertare on that host"
            )
    strange = next((one.name for one in study.platforms if one.under_hypervisor), None)
    if strange is not None:
        raise ValueError(
            f"the platform {strange} needs a look at its hypervisor, which is not taken elsewhere: leave "
            "it out of sut.platforms, or run hypertare on that host"
        )
    if study.speaks_ospf:
        raise ValueError(
            "bench.routing = 'ospf' needs a routing daemon, which is not brought elsewhere: take 'static'"
        )
