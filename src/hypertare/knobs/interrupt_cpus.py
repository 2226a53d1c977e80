"""`knobs.interrupt_cpus`: the CPUs that take the NIC's interrupts."""

from __future__ import annotations

import shlex

from hypertare.knobs.knob import KnobKind
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


INTERRUPT_CPUS = KnobKind[tuple[int, ...]](
    name="interrupt_cpus",
    place="interface",
    is_of_interface=True,
    commands={"": _typed},
    for_own_machines=True,
    for_agent=lambda level, target: [plan.InterruptCpus(interface=target.interface, cpus=level)],
)
