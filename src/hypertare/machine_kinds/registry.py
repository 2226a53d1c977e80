"""Every kind of machine there is: a new one is entered here, in both places."""

from __future__ import annotations

from typing import Literal

from hypertare.base.errors import InputError
from hypertare.machine_kinds.emulated import EMULATED
from hypertare.machine_kinds.local import LOCAL
from hypertare.machine_kinds.machine_kind import MachineKind
from hypertare.machine_kinds.remote import REMOTE

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
