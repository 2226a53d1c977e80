"""Every kind of machine there is: a new one is entered here, in the tuple and among the names."""

from __future__ import annotations

from typing import Literal

from hypertare.base.errors import InputError
from hypertare.machine_kinds.machine_kind import MachineKind

EMULATED = MachineKind(
    name="emulated",
    clocks=("virtual", "wall"),
    usual_platforms=("native",),
    own_tables=("emulated",),
    boots_whole_pcs=True,
    is_virtual=True,
    is_slowed_by_host=True,
    draws_chance=True,
    guests_have_kvm=True,
    line_counts_frames=True,
    line_nic="virtio-net",
)


LOCAL = MachineKind(
    name="local",
    clocks=("wall",),
    usual_platforms=("native", "container", "guest"),
    is_this_host=True,
    is_sandboxed=True,
    has_work_directory=True,
    weighs_guests=True,
)


REMOTE = MachineKind(
    name="remote",
    clocks=("wall",),
    usual_platforms=("native", "container", "guest"),
    is_sandboxed=True,
    has_work_directory=True,
    is_reached=True,
    weighs_guests=True,
)


KINDS: dict[str, MachineKind] = {kind.name: kind for kind in (LOCAL, EMULATED, REMOTE)}
"""By name, in the order in which errors name them."""

MachineName = Literal["local", "emulated", "remote"]
"""As `machine` of a study has them."""

USUAL: MachineName = "local"
"""The one that a study has if it says nothing."""


def find(name: str) -> MachineKind:
    """The kind of this name, as a study or the file of a run has it.

    Raises:
        InputError: there is none.
    """
    if name not in KINDS:
        raise InputError(
            f"There is no kind of machine {name!r}; there are: {', '.join(KINDS)}.",
            "Is it of a newer hypertare? Read it with that one.",
        )
    return KINDS[name]
