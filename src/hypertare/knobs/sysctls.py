"""`knobs.sysctls`: settings of the network by their names below /proc/sys/net, as sysctl(8) has them with
slashes. What the kernel keeps for the whole machine is not to be set in a namespace, and the agent says so.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from hypertare.knobs.knob import KnobKind
from hypertare.platforms.commands import sysctls
from hypertare.protocol import plan

SysctlName = Annotated[str, Field(pattern=r"^net(/[A-Za-z0-9_-]+)+$", max_length=200)]
SysctlValue = int | Annotated[str, Field(pattern=r"^[\x20-\x7e]+$", max_length=500)]


SYSCTLS = KnobKind[dict[str, int | str]](
    name="sysctls",
    place="link",
    commands={"*": lambda change: sysctls((change.key.replace("/", "."),))(change)},
    for_agent=lambda level, _: (
        [plan.Sysctls(values={name: str(value) for name, value in level.items()})] if level else []
    ),
)
