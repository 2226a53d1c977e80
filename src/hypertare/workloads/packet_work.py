"""The cost of a packet for a guest: exits, interrupts, kicks, and CPU time of the guest and its helpers.
Pure.

A packet is a unit that passes the guest's card, in or out; with segmentation offload it has up to 64 KB. A
frame that reaches the guest past its card, by memory shared with its machine, counts as a packet too.
Counters and packets are of the whole phase: the omitted parts of streams and pings count, and so do
acknowledgements. A baseline has no such responses, since its interrupts are also those of its peers.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypertare.base.variables import Found, Response, whole
from hypertare.probes.cpu_time import INTERRUPTS
from hypertare.probes.datapath import DATAPATH
from hypertare.probes.kvm import KVM
from hypertare.probes.net import NET_DEV
from hypertare.probes.outside import OUTSIDE
from hypertare.protocol.phase import Phase


def _response(name: str, unit: str, title: str) -> Response:
    """Guests that work at once have the mean of theirs."""
    return Response(f"{name}_per_packet", f"{unit}/packet", "lower", title, "mean")


RESPONSES = (
    _response("exits", "exits", "exits to the hypervisor per packet of the guest's card"),
    _response(
        "interrupts", "interrupts", "interrupts of the guest's devices per packet of its card"
    ),
    _response("kicks", "kicks", "times per packet that the guest notified what moves its packets"),
    _response("guest_cpu", "s", "CPU time of the guest's virtual CPUs per packet of its card"),
    _response("vmm_cpu", "s", "CPU time of the VMM beside them per packet of the guest's card"),
    _response(
        "backend_cpu",
        "s",
        "CPU time of what moves packets beside the VMM per packet of the guest's card",
    ),
)


def of_guest(phase: Phase, node: str) -> Found:
    """What a guest took, by its machine's and its own counters; nothing of a node that its machine does not
    see from outside.
    """
    guest, vmm = (phase.probe(node, OUTSIDE.name, f"{part}_s") for part in ("vcpu", "vmm"))
    if guest is None:
        return {}
    return {
        "exits": phase.probe(node, KVM.name, "exits"),
        "interrupts": INTERRUPTS.of_devices(phase, node),
        "guest_cpu": guest,
        "vmm_cpu": vmm,
    }


def measure(phase: Phase, node: str, role: str = "", moved: Sequence[str] = ()) -> Found:
    """Returns a guest's counters per packet; no values for a node that cannot be seen from outside.

    Args:
        role: of tasks that move packets past the guest's card, by memory that it shares with its machine.
        moved: the values of those tasks that count these packets.
    """
    packets = NET_DEV.packets(phase, node)
    counts = of_guest(phase, node)
    backend = [phase.probe(node, OUTSIDE.name, f"{part}_s") for part in ("vhost", "datapath")]
    if role:
        past_card = whole([phase.total(role, name) for name in moved])
        cpu_s = whole([phase.total(role, name) for name in ("user_s", "system_s")])
        if packets is not None and past_card is not None and cpu_s is not None:
            packets += past_card
            backend.append(cpu_s)
    if not counts or not packets:
        return {}
    counts["kicks"] = phase.probe(node, DATAPATH.name, "kicks")
    counts["backend_cpu"] = whole(backend)
    return {
        f"{name}_per_packet": None if count is None else count / packets
        for name, count in counts.items()
    }
