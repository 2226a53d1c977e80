"""`interrupts`: hardware interrupts by number and CPU. No response is made of it alone."""

from __future__ import annotations

import re

from hypertare.probes.probe import ProbeKind
from hypertare.protocol.phase import Phase

_OF_ARCHITECTURE = re.compile(r"[A-Z]{3}")
"""Timers, messages between CPUs and the like: arch/x86/kernel/irq.c, `arch_show_interrupts`."""


class Interrupts(ProbeKind):
    name = "interrupts"
    places = ("machine",)

    def of_devices(self, phase: Phase, node: str) -> float | None:
        """Those that a driver has given a name."""
        counted = phase.values(node, self.name)
        if counted is None:
            return None
        return sum(count for name, count in counted.items() if not _OF_ARCHITECTURE.fullmatch(name))


INTERRUPTS = Interrupts()
