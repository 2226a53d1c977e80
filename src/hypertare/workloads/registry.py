"""Every kind of workload there is: a new one is entered here, in both places."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from hypertare.workloads.burn import BURN, BurnSettings
from hypertare.workloads.capture import CAPTURE, CaptureSettings
from hypertare.workloads.command import COMMAND, CommandSettings
from hypertare.workloads.cpuid import CPUID, CpuidSettings
from hypertare.workloads.fork import FORK, ForkSettings
from hypertare.workloads.io import IO, IoSettings
from hypertare.workloads.life import LIFE, LifeSettings
from hypertare.workloads.ping import PING, PingSettings
from hypertare.workloads.power_cut import POWER_CUT, PowerCutSettings
from hypertare.workloads.sleep import SLEEP, SleepSettings
from hypertare.workloads.stream import STREAM, StreamSettings
from hypertare.workloads.touch import TOUCH, TouchSettings
from hypertare.workloads.workload import Workload

KINDS: dict[str, Workload] = {
    kind.name: kind
    for kind in (
        *(COMMAND, STREAM, PING, CAPTURE, IO, BURN, FORK, TOUCH, SLEEP, CPUID, LIFE),
        POWER_CUT,
    )
}
"""By the name that a study's `type` gives, in the order in which errors name them."""

AnyWorkload = Annotated[
    CommandSettings
    | StreamSettings
    | PingSettings
    | CaptureSettings
    | IoSettings
    | BurnSettings
    | ForkSettings
    | TouchSettings
    | SleepSettings
    | CpuidSettings
    | LifeSettings
    | PowerCutSettings,
    Field(discriminator="type"),
]
"""`[workloads.NAME]` of a study."""
