"""`knobs.receive_steering`: the CPUs that take received packets from the one that was interrupted (RPS)."""

from __future__ import annotations

import shlex

from hypertare.base.quantities import parse_cpus
from hypertare.knobs.knob import KnobKind
from hypertare.platforms.commands import Entry, KnobChange, commanded
from hypertare.protocol import plan


def _typed(change: KnobChange) -> Entry:
    return commanded(
        "cat /sys/class/net/IFACE/queues/rx-*/rps_cpus",
        lambda _, value: (
            "for q in /sys/class/net/IFACE/queues/rx-*; do "
            f"echo {shlex.quote(value)} > $q/rps_cpus; done"
        ),
        note="The value is a hexadecimal mask of CPUs: CPU 0 is 1, CPU 1 is 2, both are 3.",
    )(change.shown(lambda cpus: f"{sum(1 << cpu for cpu in parse_cpus(cpus)):x}"))


RECEIVE_STEERING = KnobKind[tuple[int, ...]](
    name="receive_steering",
    place="interface",
    is_of_interface=True,
    commands={"": _typed},
    for_agent=lambda level, target: [plan.ReceiveSteering(interface=target.interface, cpus=level)],
)
