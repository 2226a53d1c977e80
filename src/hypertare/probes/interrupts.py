"""`interrupts`: hardware interrupts by number and CPU. No response is made of it."""

from __future__ import annotations

from hypertare.probes.probe import ProbeKind


class Interrupts(ProbeKind):
    name = "interrupts"
    places = ("machine",)


INTERRUPTS = Interrupts()
