"""`net_snmp`: packets and errors of each protocol. No response is made of it."""

from __future__ import annotations

from hypertare.probes.probe import ProbeKind


class NetSnmp(ProbeKind):
    name = "net_snmp"
    places = ("machine",)


NET_SNMP = NetSnmp()
