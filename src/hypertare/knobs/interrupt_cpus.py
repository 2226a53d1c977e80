"""`knobs.interrupt_cpus`: the CPUs that take the NIC's interrupts."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from hypertare.knobs.knob import KnobKind, Target
from hypertare.platforms.commands import commanded
from hypertare.protocol import plan

_typed = commanded(
    "grep IFACE /proc/interrupts",
    lambda _, value: (
        "for n in $(grep IFACE /proc/interrupts | cut -d: -f1); do "
        f"echo {shlex.quote(value)} > /proc/irq/$n/smp_affinity_list; done"
    ),
    note="OLD: what /proc/irq/N/smp_affinity_list holds, N being the interface's numbers. irqbalance "
    "would undo it: stop it.",
)


class InterruptCpus(KnobKind[tuple[int, ...]]):
    name = "interrupt_cpus"
    place = "interface"
    is_of_interface = True
    commands = {"": _typed}
    for_own_machines = True

    def for_agent(self, level: tuple[int, ...], target: Target) -> Iterator[plan.Knob]:
        yield plan.InterruptCpus(interface=target.interface, cpus=level)


INTERRUPT_CPUS = InterruptCpus()
