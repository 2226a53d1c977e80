"""`net_dev` and `net_snmp`: packets, bytes and errors of each interface and of each protocol."""

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


class NetSnmp(ProbeKind):
    name = "net_snmp"
    places = ("machine",)


NET_SNMP = NetSnmp()
