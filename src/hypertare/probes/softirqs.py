"""`softirqs`: softirqs by kind and CPU. No response is made of it."""

from __future__ import annotations

from hypertare.probes.probe import ProbeKind


class Softirqs(ProbeKind):
    name = "softirqs"
    places = ("host", "machine")


SOFTIRQS = Softirqs()
