"""`net_dev`: packets, bytes and errors of each interface. No response is made of it."""

from __future__ import annotations

from hypertare.probes.probe import ProbeKind


class NetDev(ProbeKind):
    name = "net_dev"
    places = ("machine", "peer")


NET_DEV = NetDev()
