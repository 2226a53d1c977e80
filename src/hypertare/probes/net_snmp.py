"""`net_snmp`: packets and errors of each protocol. Workloads make responses of it."""

from __future__ import annotations

from hypertare.probes.probe import ProbeKind


class NetSnmp(ProbeKind):
    name = "net_snmp"
    places = ("machine",)


NET_SNMP = NetSnmp()
