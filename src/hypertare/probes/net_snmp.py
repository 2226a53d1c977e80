"""`net_snmp`: packets and errors of each protocol. Workloads make responses of it."""

from __future__ import annotations

from hypertare.probes.probe import ProbeKind
from hypertare.protocol.phase import Phase


class NetSnmp(ProbeKind):
    name = "net_snmp"
    places = ("machine",)

    def data_segments(self, phase: Phase, node: str) -> float | None:
        """TCP segments with payload that were not sent before; those that a NIC would cut count apart."""
        return phase.probe(node, self.name, "TcpExt.TCPOrigDataSent")

    def segments_in(self, phase: Phase, node: str) -> float | None:
        """TCP segments that came, with or without payload."""
        return phase.probe(node, self.name, "Tcp.InSegs")


NET_SNMP = NetSnmp()
