"""`datapath`: what the process counts that moves a guest's packets beside its VMM."""

from __future__ import annotations

from collections.abc import Sequence

from hypertare.base.variables import Found, Response
from hypertare.probes.probe import ProbeKind
from hypertare.protocol.phase import Phase


class Datapath(ProbeKind):
    name = "datapath"
    places = ("datapath",)
    topic = "polling"
    responses = (
        Response(
            "datapath_kicks",
            "kicks",
            "lower",
            "times that the guest notified what moves its packets",
        ),
        Response(
            "datapath_calls", "calls", "lower", "interrupts that the guest was given for packets"
        ),
        Response(
            "datapath_empty_polls",
            "polls",
            "lower",
            "looks at the guest's rings that found nothing",
        ),
        Response(
            "datapath_full", "times", "lower", "looks at which the guest had no room for packets"
        ),
    )
    is_of_network = True

    def measure(self, phase: Phase, platform: str, nodes: Sequence[str]) -> Found:
        """Nothing where QEMU or the host's kernel moves packets."""
        asked = [node for node in nodes if (node, self.name) in phase.probes]
        if not asked:
            return {}
        return {
            f"datapath_{value}": self.total(phase, asked, value)
            for value in ("kicks", "calls", "empty_polls", "full")
        }


DATAPATH = Datapath()
