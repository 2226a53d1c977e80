"""`net_dev`: packets, bytes and errors of each interface. No response is made of it alone."""

from __future__ import annotations

from hypertare.probes.probe import ProbeKind
from hypertare.protocol.phase import Phase


class NetDev(ProbeKind):
    name = "net_dev"
    places = ("machine", "peer")

    def packets(self, phase: Phase, node: str) -> float | None:
        """Both ways, through all of a node's interfaces but its loopback."""
        return phase.sum_over_links(node, self.name, "", ("rx_packets", "tx_packets"))


NET_DEV = NetDev()
