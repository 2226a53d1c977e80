"""`outside`: CPU time of what is under test as its machine counts it: cgroups, QEMU's threads, domains."""

from __future__ import annotations

from collections.abc import Sequence

from hypertare.base.variables import Found, Response, whole
from hypertare.platforms.registry import find
from hypertare.probes.probe import HOST, ProbeKind
from hypertare.protocol.phase import Phase

_PARTS = ("vmm", "vhost", "datapath")
"""Parts of a guest's CPU time on its host that are not of its virtual CPUs."""


class Outside(ProbeKind):
    name = "outside"
    places = ("outside",)
    topic = "polling"
    responses = (
        Response("vmm_cpu", "s", "lower", "CPU time of the VMM beside its virtual CPUs"),
        Response("vhost_cpu", "s", "lower", "CPU time of the kernel's threads for its packets"),
        Response("datapath_cpu", "s", "lower", "CPU time of the process that moves its packets"),
    )

    cpu = Response("outside_cpu", "s", "lower", "CPU time of the platform as its machine sees it")
    share = Response(
        "outside_cpu_share", "share", "lower", "share of one CPU as its machine sees it"
    )
    driver = (
        Response("driver_cpu", "s", "lower", "CPU time of the driver domain"),
        Response(
            "driver_cpu_share", "share", "lower", "share of one CPU that the driver domain took"
        ),
        Response(
            "driver_wait_share",
            "share",
            "lower",
            "time in which virtual CPUs of the driver domain had work and waited for a CPU, as a share of "
            "the phase (of two that wait throughout, 2); Xen's only",
        ),
    )

    def measure(self, phase: Phase, platform: str, nodes: Sequence[str]) -> Found:
        """The parts of a guest's CPU time that are not its virtual CPUs', where they are counted apart."""
        if not find(platform).uses_accelerator:
            return {}
        return {f"{part}_cpu": self.total(phase, nodes, f"{part}_s") for part in _PARTS}

    def cpu_s(self, platform: str, phase: Phase, node: str) -> float | None:
        """CPU time of a node; without what moves its packets, where that is counted apart."""
        own = "vcpu_s" if _has_driver_group(platform, phase) else "cpu_s"
        return phase.probe(node, self.name, own)

    def all_s(self, phase: Phase) -> float | None:
        """CPU time of all domains; none where the driver domain was not asked."""
        if (HOST, self.name) not in phase.probes:
            return None
        return whole([phase.probe(*at, "cpu_s") for at in phase.probes if at[1] == self.name])

    def driver_cpu(self, platform: str, nodes: Sequence[str], phase: Phase) -> Found:
        """CPU time of the domain that moves the guests' packets: as the hypervisor counts it or, of guests
        of this host, of all QEMU's threads that are no virtual CPUs, of vhost and of what moves packets
        beside QEMU.
        """
        if find(platform).under_hypervisor:
            used = phase.probe(HOST, self.name, "cpu_s")
            waited = phase.probe(HOST, self.name, "wait_s")
            return {
                "driver_cpu": used,
                "driver_cpu_share": phase.rate(HOST, self.name, used),
                "driver_wait_share": phase.rate(HOST, self.name, waited),
            }
        if not _has_driver_group(platform, phase):
            return {}
        asked = [node for node in nodes if (node, self.name) in phase.probes]
        parts = {
            node: whole([phase.probe(node, self.name, f"{part}_s") for part in _PARTS])
            for node in asked
        }
        shares = [phase.rate(node, self.name, part) for node, part in parts.items()]
        return {
            "driver_cpu": whole(list(parts.values())) if parts else None,
            "driver_cpu_share": whole(shares) if parts else None,
        }


def _has_driver_group(platform: str, phase: Phase) -> bool:
    """Whether QEMU's threads beside the virtual CPUs are in a cgroup with a weight of its own."""
    return find(platform).weighted_by == "cgroups" and bool(phase.weights)


OUTSIDE = Outside()
