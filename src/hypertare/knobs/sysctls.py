"""`knobs.sysctls`: settings of the network by their names below /proc/sys/net, as sysctl(8) has them with
slashes. What the kernel keeps for the whole machine is not to be set in a namespace, and the agent says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from hypertare.knobs.knob import KnobKind, Target
from hypertare.platforms.commands import Entry, KnobChange, sysctls
from hypertare.protocol import plan

SysctlName = Annotated[str, Field(pattern=r"^net(/[A-Za-z0-9_-]+)+$", max_length=200)]
SysctlValue = int | Annotated[str, Field(pattern=r"^[\x20-\x7e]+$", max_length=500)]


def _typed(change: KnobChange) -> Entry:
    return sysctls((change.key.replace("/", "."),))(change)


class Sysctls(KnobKind[dict[str, int | str]]):
    name = "sysctls"
    place = "link"
    commands = {"*": _typed}

    def for_agent(self, level: dict[str, int | str], target: Target) -> Iterator[plan.Knob]:
        if level:
            yield plan.Sysctls(values={name: str(value) for name, value in level.items()})


SYSCTLS = Sysctls()
